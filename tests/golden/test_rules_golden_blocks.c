/* test_rules_golden_blocks.c - rules that follow the attention of all queries, block by block,
 * give the scores and kept sets of a straight-line numpy script that knows no blocks.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/golden.h"
#include "tests/support/test.h"

#include <math.h>

enum { HEADS = 4, KV_HEADS = 2, N = 61, STATE = 2 };

static fb_ops *ops;
static json_t *root;
static float attention[HEADS][N][N], uniform[HEADS][N][N], host[KV_HEADS * 2 * N];

static void load(float (*out)[N][N], const char *name)
{
    json_t *list = golden_at(root, name);
    size_t at = 0;

    assert_int_equal(json_array_size(list), HEADS * N * (N + 1) / 2);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j <= i; j++)
                out[h][i][j] = (float)json_number_value(json_array_get(list, at++));
}

/* Rows of the queries [m - t, m) over the first m entries; where there is nothing to be seen
 * 0 of attention, one half of the uniform numbers. */
static fb_tensor block_of(float (*from)[N][N], int64_t m, int64_t t, float unseen)
{
    static float rows[HEADS * N * N];
    float *at = rows;

    for (int h = 0; h < HEADS; h++)
        for (int64_t i = m - t; i < m; i++)
            for (int64_t j = 0; j < m; j++)
                *at++ = j <= i ? from[h][i][j] : unseen;
    return fb_from_host(ops, FB_F32, 3, (int64_t[]){HEADS, t, m}, rows);
}

static fb_signals see(int64_t m)
{
    fb_signals s = {.n_layers = 1,
                    .heads = HEADS,
                    .kv_heads = KV_HEADS,
                    .head_dim = 8,
                    .n = m,
                    .m = m};

    s.position = fb_signal_position(ops, KV_HEADS, m, NULL);
    return s;
}

/* The state after all blocks of at most `size` queries. */
static fb_tensor follow(const fb_bound_rule *rule, int64_t size)
{
    const int64_t rows = fb_bound_rule_choices(rule)->state_rows;
    fb_tensor state = FB_NONE;

    for (int64_t m = 0; m < N;) {
        const int64_t t = m + size < N ? size : N - m;
        const fb_tensor fresh = fb_full(ops, 3, (int64_t[]){KV_HEADS, rows, t}, 0);
        fb_signals s = see(m += t);

        s.state = state.id == 0 ? fresh : fb_cat(ops, state, fresh, STATE);
        s.block_attention = block_of(attention, m, t, 0);
        s.block_random = block_of(uniform, m, t, 0.5F);
        state = fb_bound_rule_update(rule, ops, &s, FB_AFTER_BLOCK);
        assert_ok(fb_ops_status(ops));
    }
    return state;
}

static void compare_scores(const char *rule, fb_tensor score, json_t *list)
{
    double most = 0, worst = 0;

    assert_int_equal(json_array_size(list), KV_HEADS * N);
    score = fb_narrow(ops, score, 0, 0, KV_HEADS);
    assert_ok(fb_to_host(ops, score, host, KV_HEADS * N * sizeof *host));
    for (size_t i = 0; i < KV_HEADS * N; i++) {
        const double wanted = json_number_value(json_array_get(list, i));

        most = fmax(most, fabs(wanted));
        worst = fmax(worst, fabs(wanted - (double)host[i]));
    }
    if (!(worst <= 2e-6 * most)) fail_msg("%s: off by %g of %g", rule, worst, most);
}

static void compare_kept(const char *rule, const fb_kept *kept, json_t *wanted)
{
    for (int g = 0; g < KV_HEADS; g++) {
        json_t *list = json_array_get(wanted, (size_t)g);

        assert_int_equal(kept->count[g], json_array_size(list));
        for (int64_t i = 0; i < kept->count[g]; i++)
            if (kept->position[g][i] !=
                json_integer_value(json_array_get(list, (size_t)i)))
                fail_msg("%s: entry %lld of head %d is %d", rule, (long long)i, g,
                         kept->position[g][i]);
    }
}

static void check_case(json_t *of, int64_t size)
{
    const char *text = json_string_value(golden_at(of, "rule"));
    const bool published = golden_number(of, "published") > 0;
    const fb_protect protect = {published ? FB_PROTECT_PUBLISHED : FB_PROTECT_NONE, 0,
                                0};
    fb_bound_rule *rule;
    fb_tensor score;
    fb_signals s;
    fb_selection kept;

    assert_ok(fb_rule_parse(&rule, text));
    fb_scope_open(ops);
    s = see(N);
    s.state = follow(rule, size);
    score = fb_bound_rule_score(rule, ops, &s);
    assert_ok(fb_ops_status(ops));
    compare_scores(text, score, golden_at(of, "scores"));
    assert_ok(fb_select(&kept, ops,
                        &(fb_selector){.rule = rule,
                                       .protect = protect,
                                       .layers = 1,
                                       .kv_heads = KV_HEADS,
                                       .n = N,
                                       .scores = &score},
                        (int64_t)golden_number(of, "k")));
    assert_false(kept.fallback || kept.shrunk);
    compare_kept(text, &kept.kept, golden_at(of, "kept"));
    fb_selection_clear(&kept);
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
}

/* 32 divides a stretch of `scissorhands`, which turns where a block begins. */
static void scores_and_kept_sets_are_those_of_the_papers_formulas(void **state)
{
    static const int64_t sizes[] = {1, 16, 32};
    json_t *cases = golden_at(root, "cases");

    (void)state;
    assert_true(json_array_size(cases) >= 10);
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (int b = 0; b < 3; b++)
            check_case(json_array_get(cases, i), sizes[b]);
}

static int open_all(void **state)
{
    (void)state;
    root = golden_load("tests/golden/rules/blocks.json");
    load(attention, "attention");
    load(uniform, "uniform");
    return fb_ops_open(&ops, &(fb_ops_options){.threads = 1}) == FB_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    json_decref(root);
    fb_ops_close(ops);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_and_kept_sets_are_those_of_the_papers_formulas),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
