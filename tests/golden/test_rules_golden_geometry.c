/* test_rules_golden_geometry.c - rules on stored tensors give the scores and kept sets of a
 * straight-line numpy script.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/golden.h"
#include "tests/support/test.h"

#include <math.h>

enum { LAYERS = 2, HEADS = 4, KV_HEADS = 2, D = 16, N = 97, W = 8, MOST = 1 << 14 };

static fb_ops *ops;
static json_t *root;
static float host[MOST];

/* Layer `layer` of a stored list, as a tensor of `shape`. */
static fb_tensor stored(const char *name, int layer, int n_dims, const int64_t *shape)
{
    json_t *list = golden_at(root, name);
    size_t n = 1;

    for (int d = 0; d < n_dims; d++)
        n *= (size_t)shape[d];
    assert_true(n <= MOST);
    assert_int_equal(json_array_size(list), LAYERS * n);
    for (size_t i = 0; i < n; i++)
        host[i] = (float)json_number_value(json_array_get(list, (size_t)layer * n + i));
    return fb_from_host(ops, FB_F32, n_dims, shape, host);
}

static fb_signals see(int layer)
{
    fb_signals s = {.layer = layer,
                    .n_layers = LAYERS,
                    .heads = HEADS,
                    .kv_heads = KV_HEADS,
                    .head_dim = D,
                    .n = N,
                    .m = N,
                    .scale = 0.25};

    s.keys = stored("keys", layer, 3, (int64_t[]){KV_HEADS, N, D});
    s.values = stored("values", layer, 3, (int64_t[]){KV_HEADS, N, D});
    s.window_attention = stored("attention", layer, 3, (int64_t[]){HEADS, W, N});
    s.queries = stored("queries", layer, 3, (int64_t[]){HEADS, W, D});
    s.random = stored("random", layer, 2, (int64_t[]){KV_HEADS, N});
    s.position = fb_signal_position(ops, KV_HEADS, N, NULL);
    return s;
}

/* The first plane of a layer's score against the list, by its largest number. */
static void compare_scores(const char *rule, fb_tensor score, json_t *list, int layer)
{
    const int64_t columns = fb_size(ops, score, 1), n = KV_HEADS * columns;
    double most = 0, worst = 0;

    assert_int_equal(json_array_size(list), LAYERS * n);
    score = fb_narrow(ops, score, 0, 0, KV_HEADS);
    assert_ok(fb_to_host(ops, score, host, (size_t)n * sizeof *host));
    for (int64_t i = 0; i < n; i++) {
        const double wanted =
            json_number_value(json_array_get(list, (size_t)(layer * n + i)));

        most = fmax(most, fabs(wanted));
        worst = fmax(worst, fabs(wanted - (double)host[i]));
    }
    if (!(worst <= 2e-6 * most)) fail_msg("%s: off by %g of %g", rule, worst, most);
}

static void compare_kept(const char *rule, const fb_kept *kept, json_t *wanted)
{
    for (int slot = 0; slot < LAYERS * KV_HEADS; slot++) {
        json_t *list = json_array_get(json_array_get(wanted, (size_t)(slot / KV_HEADS)),
                                      (size_t)(slot % KV_HEADS));

        assert_int_equal(kept->count[slot], json_array_size(list));
        for (int64_t i = 0; i < kept->count[slot]; i++)
            if (kept->position[slot][i] !=
                json_integer_value(json_array_get(list, (size_t)i)))
                fail_msg("%s: entry %lld of slot %d is %d", rule, (long long)i, slot,
                         kept->position[slot][i]);
    }
}

static void check_case(json_t *of)
{
    const char *text = json_string_value(golden_at(of, "rule"));
    const bool published = golden_number(of, "published") > 0;
    const fb_protect protect = {published ? FB_PROTECT_PUBLISHED : FB_PROTECT_NONE, 0,
                                0};
    fb_tensor scores[LAYERS];
    fb_bound_rule *rule;
    fb_selection s;

    assert_ok(fb_rule_parse(&rule, text));
    fb_scope_open(ops);
    for (int layer = 0; layer < LAYERS; layer++) {
        const fb_signals signals = see(layer);

        scores[layer] = fb_bound_rule_score(rule, ops, &signals);
        assert_ok(fb_ops_status(ops));
        compare_scores(text, scores[layer], golden_at(of, "scores"), layer);
    }
    assert_ok(fb_select(&s, ops,
                        &(fb_selector){.rule = rule,
                                       .protect = protect,
                                       .layers = LAYERS,
                                       .kv_heads = KV_HEADS,
                                       .n = N,
                                       .scores = scores},
                        (int64_t)golden_number(of, "k")));
    assert_false(s.fallback || s.shrunk);
    compare_kept(text, &s.kept, golden_at(of, "kept"));
    fb_selection_clear(&s);
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
}

static void check_cases(json_t *cases, size_t at_least)
{
    assert_true(json_array_size(cases) >= at_least);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i));
}

static void scores_and_kept_sets_are_those_of_the_papers_formulas(void **state)
{
    (void)state;
    check_cases(golden_at(root, "cases"), 20);
}

static void so_are_those_of_2025_and_2026(void **state)
{
    json_t *more = golden_load("tests/golden/rules/new2026.json");

    (void)state;
    check_cases(golden_at(more, "cases"), 18);
    json_decref(more);
}

/* --- rules that are others under some settings --- */

static int64_t score_to(float *out, const char *text, const fb_signals *signals)
{
    fb_bound_rule *rule;
    fb_tensor score;
    int64_t n;

    assert_ok(fb_rule_parse(&rule, text));
    score = fb_bound_rule_score(rule, ops, signals);
    assert_ok(fb_ops_status(ops));
    n = KV_HEADS * fb_size(ops, score, 1); /* the first plane */
    score = fb_narrow(ops, score, 0, 0, KV_HEADS);
    assert_ok(fb_to_host(ops, score, out, (size_t)n * sizeof *out));
    fb_bound_rule_free(rule);
    return n;
}

static void is_the_same(const char *a, const char *b, const fb_signals *signals)
{
    static float first[KV_HEADS * N], second[KV_HEADS * N];
    const int64_t n = score_to(first, a, signals);

    assert_int_equal(score_to(second, b, signals), n);
    for (int64_t i = 0; i < n; i++)
        if (first[i] != second[i])
            fail_msg("%s and %s: %g and %g at %lld", a, b, (double)first[i],
                     (double)second[i], (long long)i);
}

static void some_rules_are_others_under_some_settings(void **state)
{
    fb_signals s;

    (void)state;
    fb_scope_open(ops);
    s = see(0);
    is_the_same("cake:window=8,gamma=0", "snapkv:window=8", &s);
    is_the_same("finch:window=8,normalise=0", "snapkv:window=8,kernel=1", &s);
    is_the_same("tova:heads=kv", "snapkv:window=1,kernel=1", &s);
    is_the_same("manifold:windowed=97", "manifold", &s);
    is_the_same("draw(snapkv:window=8)", "snapkv:window=8", &s);
    is_the_same("threshold(snapkv:window=8,tau=1,window=0)", "snapkv:window=8", &s);
    is_the_same("snapkv:window=8,kernel=1,edge=exact", "snapkv:window=8,kernel=1", &s);
    s.values = fb_full(ops, 3, (int64_t[]){KV_HEADS, N, D}, 1.0 / D);
    is_the_same("vatp(snapkv:window=8)", "snapkv:window=8", &s);
    fb_scope_close(ops);
}

/* --- where a formula would divide by nothing --- */

static void score_is_finite(const char *text, const fb_signals *signals)
{
    fb_bound_rule *rule;
    fb_tensor score;
    int64_t n;

    assert_ok(fb_rule_parse(&rule, text));
    score = fb_bound_rule_score(rule, ops, signals);
    assert_ok(fb_ops_status(ops));
    n = fb_size(ops, score, 0) * fb_size(ops, score, 1);
    assert_ok(fb_to_host(ops, score, host, (size_t)n * sizeof *host));
    for (int64_t i = 0; i < n; i++)
        assert_true(isfinite(host[i]));
    fb_bound_rule_free(rule);
}

static void tensors_of_zeros_and_of_equal_rows_have_finite_scores(void **state)
{
    static const char *const rules[] = {"cur",
                                        "cur:edge=kvpress",
                                        "lagkv:lag=16",
                                        "lagkv:lag=8,cross=1",
                                        "vnorm:p=range",
                                        "manifold:windowed=10",
                                        "snapkv:window=8,denominator=past,edge=exact",
                                        "lava:window=8",
                                        "nacl",
                                        "obcache:window=32,part=value",
                                        "caote(dropkv:window=32)",
                                        "nexus:window=8",
                                        "paged"};
    fb_signals s;

    (void)state;
    fb_scope_open(ops);
    for (int i = 0; i < 2; i++) {
        s = see(0);
        s.keys = fb_full(ops, 3, (int64_t[]){KV_HEADS, N, D}, i);
        s.values = fb_full(ops, 3, (int64_t[]){KV_HEADS, N, D}, i);
        s.window_attention = fb_full(ops, 3, (int64_t[]){HEADS, 32, N}, 0);
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
            score_is_finite(rules[r], &s);
    }
    fb_scope_close(ops);
}

static void fewer_entries_than_two_parts_fall_back(void **state)
{
    fb_bound_rule *rule;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "lagkv"));
    assert_true(fb_select_falls_back(rule, 4 + 2 * 128 - 1));
    assert_false(fb_select_falls_back(rule, 4 + 2 * 128));
    fb_bound_rule_free(rule);
}

static int open_all(void **state)
{
    (void)state;
    root = golden_load("tests/golden/rules/geometry.json");
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
        cmocka_unit_test(so_are_those_of_2025_and_2026),
        cmocka_unit_test(some_rules_are_others_under_some_settings),
        cmocka_unit_test(tensors_of_zeros_and_of_equal_rows_have_finite_scores),
        cmocka_unit_test(fewer_entries_than_two_parts_fall_back),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
