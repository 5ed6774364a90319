/* test_order.c - what of a score decides: invariants 9, 10, 14 and 17.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

static shown text;

/* --- 9 --- */

/* Whole numbers in place of scores, many of them equal; then each head's, by a power of two
 * and a whole number of its own. */
static void made_up(shown_scores *out, shown_scores *moved, int64_t columns, numbers *r)
{
    static float x[SHOWN_KV_HEADS * SHOWN_TOKENS], y[SHOWN_KV_HEADS * SHOWN_TOKENS];
    const int64_t shape[] = {text.kv_heads, columns};

    for (int64_t l = 0; l < text.layers; l++) {
        for (int64_t g = 0; g < text.kv_heads; g++) {
            const int factor = (int)number_int(r, -3, 3);
            const double added = (double)number_int(r, -1000, 1000);

            for (int64_t j = 0; j < columns; j++) {
                const double score = (double)number_int(r, -40, 40);

                x[g * columns + j] = (float)score;
                y[g * columns + j] = (float)(ldexp(score, factor) + added);
            }
        }
        out->score[l] = fb_from_host(ops, FB_F32, 2, shape, x);
        moved->score[l] = fb_from_host(ops, FB_F32, 2, shape, y);
    }
}

static void check_order(numbers *r)
{
    const int64_t n = number_int(r, 20, 64);

    text = (shown){.ops = ops, .n = n};
    text.layers = number_int(r, 1, SHOWN_LAYERS);
    text.kv_heads = number_int(r, 1, SHOWN_KV_HEADS);
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);
        const int64_t unscored = fb_bound_rule_choices(rule)->unscored_last;
        const fb_protect protect = small_protect(r, n);
        const int64_t k = number_int(r, 1, n - 1);
        shown_scores scores = {0}, moved = {0};
        fb_selection a, b;

        fb_scope_open(ops);
        if (small_evicts(rule) && !fb_bound_rule_chooses(rule) && !small_shares(rule)) {
            made_up(&scores, &moved, n - unscored, r);
            shown_select(&a, &text, rule, &scores, protect, k);
            shown_select(&b, &text, rule, &moved, protect, k);
            holds(shown_is_same(&a.kept, &b.kept));
            fb_selection_clear(&a);
            fb_selection_clear(&b);
        }
        fb_scope_close(ops);
        fb_bound_rule_free(rule);
    }
}

static void only_the_order_of_a_heads_scores_decides(void **state)
{
    (void)state;
    try_cases(100, check_order);
}

/* --- 10 --- */

static void check_nested(const fb_bound_rule *rule, numbers *r)
{
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, number_int(r, 0, 5),
                                number_int(r, 0, 5)};
    const int64_t k = number_int(r, 1, text.n - 1);
    shown_scores scores = {0};
    fb_selection less, more;

    fb_scope_open(ops);
    shown_read(&scores, &text, rule);
    shown_select(&less, &text, rule, &scores, protect, k);
    shown_select(&more, &text, rule, &scores, protect, number_int(r, k, text.n - 1));
    for (int64_t slot = 0; k >= less.n_protected && slot < less.kept.n_slots; slot++)
        holds(shown_lies_in(&less.kept, &more.kept, slot));
    fb_selection_clear(&less);
    fb_selection_clear(&more);
    fb_scope_close(ops);
}

static void check_all_nested(numbers *r)
{
    shown_draw(&text, ops, r, 22, 64);
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);

        if (small_is_plain(rule)) check_nested(rule, r);
        fb_bound_rule_free(rule);
    }
}

static void a_larger_budget_keeps_what_a_smaller_one_keeps(void **state)
{
    (void)state;
    try_cases(120, check_all_nested);
}

/* --- 14 --- */

static void check_lengths(numbers *r)
{
    static float before[SHOWN_KV_HEADS * SHOWN_TOKENS];
    static float after[SHOWN_KV_HEADS * SHOWN_TOKENS];
    const int all = (int)number_int(r, -6, 6), one = (int)number_int(r, -6, 6);
    float *keys = text.layer[0].keys;
    int64_t n, size, chosen;

    shown_draw(&text, ops, r, 2, 64);
    size = text.kv_heads * text.n * SHOWN_DIM;
    n = small_score(&text, "knorm", 0, before);
    for (int64_t i = 0; i < size; i++)
        keys[i] = ldexpf(keys[i], all);
    holds(small_score(&text, "knorm", 0, after) == n);
    for (int64_t i = 0; i < n; i++)
        holds(after[i] == ldexpf(before[i], all));
    n = small_score(&text, "keydiff", 0, before);
    chosen = number_int(r, 0, text.kv_heads * text.n - 1);
    for (int64_t c = 0; c < SHOWN_DIM; c++)
        keys[chosen * SHOWN_DIM + c] = ldexpf(keys[chosen * SHOWN_DIM + c], one);
    holds(small_score(&text, "keydiff", 0, after) == n);
    for (int64_t i = 0; i < n; i++)
        holds(after[i] == before[i]);
}

static void longer_keys_keep_knorms_order_and_change_nothing_for_keydiff(void **state)
{
    (void)state;
    try_cases(200, check_lengths);
}

/* --- 17 --- */

static void pool(const char *rule, int kernel, float *out)
{
    char expression[SMALL_TEXT];

    (void)snprintf(expression, sizeof expression, "snapkv:window=1,%s,kernel=%d", rule,
                   kernel);
    (void)small_score(&text, expression, 0, out);
}

/* A constant row: what a kernel meets of it, over what it counts. */
static void check_constant(numbers *r, int kernel)
{
    static float damped[SHOWN_KV_HEADS * SHOWN_TOKENS];
    static float exact[SHOWN_KV_HEADS * SHOWN_TOKENS];
    const float value = 1 + number_unit(r);
    const int64_t n = text.n - 1;

    for (int64_t i = 0; i < text.heads * text.n * text.n; i++)
        text.layer[0].attention[i] = value;
    pool("pool=avg", kernel, damped);
    pool("pool=avg,edge=exact", kernel, exact);
    for (int64_t i = 0; i < text.kv_heads * n; i++) {
        const int64_t j = i % n, half = kernel / 2;
        const int64_t left = j < half ? j : half;
        const int64_t right = n - 1 - j < half ? n - 1 - j : half;
        const double met = (double)(left + 1 + right) / (double)kernel;

        holds(is_close((double)damped[i], (double)value * met, 1e-6));
        holds(is_close((double)exact[i], (double)value, 1e-6));
    }
}

static void check_pools(numbers *r)
{
    static float plain[SHOWN_KV_HEADS * SHOWN_TOKENS];
    static float other[SHOWN_KV_HEADS * SHOWN_TOKENS];
    const int kernel = 2 * (int)number_int(r, 0, 7) + 1;

    shown_draw(&text, ops, r, 4, 64);
    pool("pool=avg", 1, plain);
    pool("pool=max", 1, other);
    for (int64_t i = 0; i < text.kv_heads * (text.n - 1); i++)
        holds(other[i] == plain[i]); /* one entry wide: as it was */
    pool("pool=max", kernel, other);
    for (int64_t i = 0; i < text.kv_heads * (text.n - 1); i++)
        holds(other[i] >= plain[i]);
    check_constant(r, kernel);
}

static void pools_keep_what_is_constant_and_maxima_what_is_high(void **state)
{
    (void)state;
    try_cases(200, check_pools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_order_of_a_heads_scores_decides),
        cmocka_unit_test(a_larger_budget_keeps_what_a_smaller_one_keeps),
        cmocka_unit_test(longer_keys_keep_knorms_order_and_change_nothing_for_keydiff),
        cmocka_unit_test(pools_keep_what_is_constant_and_maxima_what_is_high),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
