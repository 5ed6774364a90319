/* test_shares.c - how heads share a budget, and pieces of a text: invariants 5 to 7
 * and 34.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"

static fb_ops *ops;
static shown text;

static int open_ops(void **state)
{
    (void)state;
    return fb_ops_open(&ops, &(fb_ops_options){.threads = 1}) == FB_OK ? 0 : -1;
}

static int close_ops(void **state)
{
    (void)state;
    fb_ops_close(ops);
    return 0;
}

/* A protection and a budget that leaves something to choose. */
struct budget {
    fb_protect protect;
    int64_t k, n_protected;
};

static struct budget draw_budget(numbers *r)
{
    const int64_t sink = number_int(r, 0, text.n / 4);
    const int64_t recent = number_int(r, 0, text.n / 4);

    return (struct budget){{FB_PROTECT_EXPERIMENT, sink, recent},
                           number_int(r, sink + recent + 1, text.n - 1),
                           sink + recent};
}

static void keep_the_same(const char *a, const char *b, struct budget budget)
{
    holds(small_keep_same(&text, a, b, budget.protect, budget.k));
}

/* One of the rules without ends or quotas of their own; of the first five the scores of all
 * heads and layers can be compared. */
enum { COMPARABLE = 5, ALL = 9 };

static const char *draw_inner(numbers *r, int64_t of)
{
    static const char *const all[ALL] = {"normalise(knorm)",
                                         "observed_attention",
                                         "normalise(cur,by=unit_sum)",
                                         "expected_attention:future=16",
                                         "a2sf",
                                         "keydiff",
                                         "knorm",
                                         "cur",
                                         "paged:page=0"};

    return all[number_int(r, 0, of - 1)];
}

/* --- 5: layers --- */

static void check_pyramid(numbers *r)
{
    const int64_t beta = number_int(r, 1, 40);
    int64_t counts[SHOWN_LAYERS] = {0}, total = 0;
    char rule[SMALL_TEXT];
    struct budget b;
    fb_selection s;
    double most;

    shown_draw(&text, ops, r, 8, 64);
    b = draw_budget(r);
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
    struct budget b;
    fb_selection s;
    int64_t sure;

    shown_draw(&text, ops, r, 8, 64);
    b = draw_budget(r);
    sure = (int64_t)floor(alpha * (double)b.k);
    (void)snprintf(rule, sizeof rule, "adakv(%s,safeguard=%g)",
                   draw_inner(r, COMPARABLE), alpha);
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
    const char *inner = draw_inner(r, COMPARABLE);
    char a[SMALL_TEXT], b[SMALL_TEXT];
    struct budget budget;

    shown_draw(&text, ops, r, 8, 64);
    budget = draw_budget(r);
    (void)snprintf(a, sizeof a, "adakv(%s,safeguard=1)", inner);
    keep_the_same(a, inner, budget);
    (void)snprintf(a, sizeof a, "adakv(%s,safeguard=%g)", inner, alpha);
    (void)snprintf(b, sizeof b, "flat(%s,alpha=%g)", inner, alpha);
    if (text.kv_heads == 1) keep_the_same(a, inner, budget);
    if (text.layers == 1) keep_the_same(b, a, budget);
}

static void shares_of_one_are_equal_shares_and_flat_on_a_layer_is_adakv(void **state)
{
    (void)state;
    try_cases(300, check_equals);
}

/* --- 6 --- */

/* Of the pieces of a head: those that stay whole and those that do in part, protected
 * entries aside. */
static void count_pieces(const fb_kept *kept, int64_t slot, int64_t size,
                         fb_protect protect, int64_t *whole, int64_t *part)
{
    const int64_t last = text.n - protect.recent;
    int64_t stays[SHOWN_TOKENS] = {0};

    *whole = *part = 0;
    for (int64_t i = 0; i < kept->count[slot]; i++)
        stays[kept->position[slot][i]] = 1;
    for (int64_t at = protect.sink / size * size; at < last; at += size) {
        int64_t all = 0, here = 0;

        for (int64_t j = at; j < at + size; j++)
            if (j >= protect.sink && j < last) {
                all++;
                here += stays[j];
            }
        *whole += all > 0 && here == all;
        *part += here > 0 && here < all;
    }
}

static void check_whole_pieces(numbers *r)
{
    const int64_t size = number_int(r, 1, 30);
    const char *heads = number_int(r, 0, 1) == 0 ? "own" : "shared";
    char rule[SMALL_TEXT];
    struct budget b;
    fb_selection s;

    shown_draw(&text, ops, r, 8, 64);
    b = draw_budget(r);
    (void)snprintf(rule, sizeof rule, "chunk(%s,size=%d,fill=none,heads=%s)",
                   draw_inner(r, ALL), (int)size, heads);
    small_select(&s, &text, rule, b.protect, b.k);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++) {
        const int64_t left = b.k - s.kept.count[slot];
        int64_t whole, part;

        count_pieces(&s.kept, slot, size, b.protect, &whole, &part);
        holds(left >= 0 && left < size);
        holds(part == 0 || (part == 1 && whole == 0 && left == 0)); /* the best one */
    }
    fb_selection_clear(&s);
}

static void chunks_without_filling_stay_whole_but_for_the_best_one(void **state)
{
    (void)state;
    try_cases(300, check_whole_pieces);
}

static void check_trivial_pieces(numbers *r)
{
    const char *inner = draw_inner(r, ALL);
    char chunk[SMALL_TEXT], shared[SMALL_TEXT];

    shown_draw(&text, ops, r, 8, 64);
    (void)snprintf(shared, sizeof shared, "shared(%s)", inner);
    (void)snprintf(chunk, sizeof chunk, "chunk(%s,size=1)", inner);
    keep_the_same(chunk, shared, draw_budget(r));
    (void)snprintf(chunk, sizeof chunk, "chunk(%s,size=%d)", inner,
                   (int)number_int(r, text.n, 200));
    keep_the_same(chunk, shared, draw_budget(r));
}

static void chunks_of_one_entry_or_of_all_are_the_shared_rule(void **state)
{
    (void)state;
    try_cases(300, check_trivial_pieces);
}

/* --- 7 --- */

/* Of every page all entries stay or none, of the last, if it is not full, all; so few entries
 * are missing at the budget that no page had room. */
static void is_of_pages(const fb_kept *kept, int64_t slot, int64_t size, int64_t k)
{
    const int64_t n = text.n, count = kept->count[slot];
    int64_t stays[SHOWN_TOKENS] = {0}, gone = 0;

    for (int64_t i = 0; i < count; i++)
        stays[kept->position[slot][i] / size]++;
    for (int64_t page = 0; page * size < n; page++) {
        const int64_t all = n - page * size < size ? n - page * size : size;

        holds(stays[page] == 0 || stays[page] == all);
        if (all < size) holds(stays[page] == all);
        gone += stays[page] == 0;
    }
    holds(count <= k && (k - count < size || gone == 0));
}

/* There is room for the pages of which a part is protected. */
static void check_pages(numbers *r)
{
    const bool is_preset = number_int(r, 0, 2) == 0;
    const int64_t size = is_preset ? 16 : number_int(r, 1, 12);
    const char *heads = number_int(r, 0, 1) == 0 ? "own" : "shared";
    char rule[SMALL_TEXT] = "paged_whole";
    fb_protect protect = {FB_PROTECT_EXPERIMENT, 0, 0};
    fb_selection s;
    int64_t k;

    shown_draw(&text, ops, r, 2 * size + 8, SHOWN_TOKENS);
    protect.sink = number_int(r, 0, 3);
    protect.recent = number_int(r, 0, 3);
    k = number_int(r, protect.sink + protect.recent + 2 * size, text.n - 1);
    if (!is_preset)
        (void)snprintf(rule, sizeof rule,
                       "chunk(%s,size=%d,fill=none,cut=page,heads=%s)",
                       draw_inner(r, ALL), (int)size, heads);
    small_select(&s, &text, rule, protect, k);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++)
        is_of_pages(&s.kept, slot, size, k);
    fb_selection_clear(&s);
}

static void pages_leave_whole_and_the_open_one_never(void **state)
{
    (void)state;
    try_cases(300, check_pages);
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
        cmocka_unit_test(chunks_without_filling_stay_whole_but_for_the_best_one),
        cmocka_unit_test(chunks_of_one_entry_or_of_all_are_the_shared_rule),
        cmocka_unit_test(pages_leave_whole_and_the_open_one_never),
        cmocka_unit_test(cutting_layers_one_by_one_takes_nothing_that_stays_in_the_end),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
