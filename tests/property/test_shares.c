/* test_shares.c - how heads and layers share a budget: invariants 5 and 34.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

static shown text;

/* One of the rules without ends or quotas of their own, of which the scores of all heads and
 * layers can be compared. */
static const char *draw_inner(numbers *r)
{
    static const char *const all[] = {"normalise(knorm)", "observed_attention",
                                      "normalise(cur,by=unit_sum)",
                                      "expected_attention:future=16", "a2sf"};

    return all[number_int(r, 0, 4)];
}

/* --- 5: layers --- */

static void check_pyramid(numbers *r)
{
    const int64_t beta = number_int(r, 1, 40);
    int64_t counts[SHOWN_LAYERS] = {0}, total = 0;
    char rule[SMALL_TEXT];
    small_budget b;
    fb_selection s;
    double most;

    shown_draw(&text, ops, r, 8, 64);
    b = small_draw_budget(&text, r);
    (void)snprintf(rule, sizeof rule, "pyramid(knorm,beta=%d)", (int)beta);
    small_select(&s, &text, rule, b.protect, b.k);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++)
        counts[slot / text.kv_heads] += s.kept.count[slot];
    most = ceil(fmin((2 - 1 / (double)beta) * (double)b.k, (double)text.n));
    for (int64_t l = 0; l < text.layers; l++) {
        total += counts[l];
        if (l > 0) holds(counts[l] <= counts[l - 1]);
        holds(counts[l] >= text.kv_heads * (b.n_protected + 1));
        if (text.layers > 1) holds((double)counts[l] <= (double)text.kv_heads * most);
    }
    holds(total == text.layers * text.kv_heads * b.k);
    fb_selection_clear(&s);
}

static void a_pyramid_never_widens_and_its_total_is_exact(void **state)
{
    (void)state;
    try_cases(300, check_pyramid);
}

/* --- 5: heads --- */

static void check_heads(numbers *r)
{
    const double alpha = (double)number_int(r, 0, 20) / 20;
    char rule[SMALL_TEXT];
    small_budget b;
    fb_selection s;
    int64_t sure;

    shown_draw(&text, ops, r, 8, 64);
    b = small_draw_budget(&text, r);
    sure = (int64_t)floor(alpha * (double)b.k);
    (void)snprintf(rule, sizeof rule, "adakv(%s,safeguard=%g)", draw_inner(r), alpha);
    small_select(&s, &text, rule, b.protect, b.k);
    for (int64_t l = 0; l < text.layers; l++) {
        int64_t total = 0;

        for (int64_t g = 0; g < text.kv_heads; g++) {
            const int64_t count = s.kept.count[l * text.kv_heads + g];

            total += count;
            holds(count >= (sure > 1 ? sure : 1) && count >= b.n_protected);
        }
        holds(total == text.kv_heads * b.k);
    }
    fb_selection_clear(&s);
}

static void adakv_leaves_each_head_its_safeguard_and_a_layer_its_total(void **state)
{
    (void)state;
    try_cases(300, check_heads);
}

static void check_equals(numbers *r)
{
    const double alpha = (double)number_int(r, 0, 20) / 20;
    const char *inner = draw_inner(r);
    char a[SMALL_TEXT], b[SMALL_TEXT];
    small_budget budget;

    shown_draw(&text, ops, r, 8, 64);
    budget = small_draw_budget(&text, r);
    (void)snprintf(a, sizeof a, "adakv(%s,safeguard=1)", inner);
    holds(small_keep_same(&text, a, inner, budget.protect, budget.k));
    (void)snprintf(a, sizeof a, "adakv(%s,safeguard=%g)", inner, alpha);
    (void)snprintf(b, sizeof b, "flat(%s,alpha=%g)", inner, alpha);
    if (text.kv_heads == 1)
        holds(small_keep_same(&text, a, inner, budget.protect, budget.k));
    if (text.layers == 1) holds(small_keep_same(&text, b, a, budget.protect, budget.k));
}

static void shares_of_one_are_equal_shares_and_flat_on_a_layer_is_adakv(void **state)
{
    (void)state;
    try_cases(300, check_equals);
}

/* --- 34 --- */

/* What `rule` keeps of the first `layers` layers, if these share what all of them have. */
static void select_first(fb_selection *out, const fb_bound_rule *rule,
                         const shown_scores *scores, int64_t layers, int64_t k)
{
    const int64_t all = text.layers, own = all * k / layers;

    text.layers = layers;
    shown_select(out, &text, rule, scores, (fb_protect){FB_PROTECT_EXPERIMENT, 1, 2},
                 own < text.n ? own : text.n);
    text.layers = all;
}

static void check_cascade(numbers *r)
{
    static const char *const rules[] = {"entropy(snapkv:window=4)", "entropy(knorm)",
                                        "cake_layers(window=4,snapkv:window=4)"};
    const int64_t layers = SHOWN_LAYERS;
    int64_t k;

    shown_draw(&text, ops, r, 24, 64);
    if (text.layers < layers) return;
    k = 2 *
        number_int(r, 4, text.n / 2 - 1); /* what one and two layers share is whole */
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        fb_bound_rule *rule = small_parse(rules[i]);
        shown_scores scores = {0};
        fb_selection before, after;

        fb_scope_open(ops);
        shown_read(&scores, &text, rule);
        select_first(&before, rule, &scores, layers - 1, k);
        select_first(&after, rule, &scores, layers, k);
        for (int64_t slot = 0; slot < before.kept.n_slots; slot++)
            holds(shown_lies_in(&after.kept, &before.kept, slot));
        fb_selection_clear(&before);
        fb_selection_clear(&after);
        fb_scope_close(ops);
        fb_bound_rule_free(rule);
    }
}

/* So entries that leave as the layers are read one by one are none that stay in the end. */
static void cutting_layers_one_by_one_takes_nothing_that_stays_in_the_end(void **state)
{
    (void)state;
    try_cases(300, check_cascade);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pyramid_never_widens_and_its_total_is_exact),
        cmocka_unit_test(adakv_leaves_each_head_its_safeguard_and_a_layer_its_total),
        cmocka_unit_test(shares_of_one_are_equal_shares_and_flat_on_a_layer_is_adakv),
        cmocka_unit_test(cutting_layers_one_by_one_takes_nothing_that_stays_in_the_end),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
