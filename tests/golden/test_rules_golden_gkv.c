/* test_rules_golden_gkv.c - a rule whose state changes at evictions: over two of them it gives
 * what a straight-line numpy script gives.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/golden.h"
#include "tests/support/test.h"

#include <math.h>

enum { HEADS = 4, KV_HEADS = 2, D = 8, W = 4, KEEP = 18, TOTAL = 39, MOST = 4096 };

static fb_ops *ops;
static json_t *root;
static float host[MOST];
static float state[KV_HEADS][TOTAL]; /* by position */

static fb_tensor stored(json_t *list, int n_dims, const int64_t *shape)
{
    size_t n = 1;

    for (int d = 0; d < n_dims; d++)
        n *= (size_t)shape[d];
    assert_true(n <= MOST);
    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        host[i] = (float)json_number_value(json_array_get(list, i));
    return fb_from_host(ops, FB_F32, n_dims, shape, host);
}

static int64_t place(json_t *event, int64_t g, int64_t j)
{
    json_t *list = json_array_get(golden_at(event, "positions"), (size_t)g);

    return json_integer_value(json_array_get(list, (size_t)j));
}

/* Rows [kv_heads, m, n] of what is listed by position. */
static fb_tensor keys_of(json_t *event, int64_t m)
{
    json_t *all = golden_at(root, "keys");

    for (int64_t i = 0; i < KV_HEADS * m * D; i++) {
        const int64_t g = i / (m * D), j = i / D % m;
        const int64_t at = (g * TOTAL + place(event, g, j)) * D + i % D;

        host[i] = (float)json_number_value(json_array_get(all, (size_t)at));
    }
    return fb_from_host(ops, FB_F32, 3, (int64_t[]){KV_HEADS, m, D}, host);
}

static fb_tensor state_of(json_t *event, int64_t m)
{
    for (int64_t i = 0; i < KV_HEADS * m; i++)
        host[i] = state[i / m][place(event, i / m, i % m)];
    return fb_from_host(ops, FB_F32, 3, (int64_t[]){KV_HEADS, 1, m}, host);
}

static fb_signals see(json_t *event)
{
    const json_t *first = json_array_get(golden_at(event, "positions"), 0);
    const int64_t m = (int64_t)json_array_size(first);
    int32_t position[KV_HEADS][TOTAL];
    int32_t *const rows[] = {position[0], position[1]};
    fb_signals s = {.n_layers = 1,
                    .heads = HEADS,
                    .kv_heads = KV_HEADS,
                    .head_dim = D,
                    .n = TOTAL,
                    .m = m,
                    .scale = 0.5};

    for (int64_t i = 0; i < KV_HEADS * m; i++)
        position[i / m][i % m] = (int32_t)place(event, i / m, i % m);
    s.keys = keys_of(event, m);
    s.position = fb_signal_position(ops, KV_HEADS, m, rows);
    s.window_attention =
        stored(golden_at(event, "attention"), 3, (int64_t[]){HEADS, W, m});
    s.state = state_of(event, m);
    return s;
}

/* x [kv_heads, columns] against the list, by its largest number. */
static void compare(const char *rule, fb_tensor x, json_t *list)
{
    const int64_t n = KV_HEADS * fb_size(ops, x, 1);
    double most = 0, worst = 0;

    assert_int_equal(json_array_size(list), n);
    assert_ok(fb_to_host(ops, x, host, (size_t)n * sizeof *host));
    for (int64_t i = 0; i < n; i++) {
        const double wanted = json_number_value(json_array_get(list, (size_t)i));

        most = fmax(most, fabs(wanted));
        worst = fmax(worst, fabs(wanted - (double)host[i]));
    }
    if (!(worst <= 4e-6 * most)) fail_msg("%s: off by %g of %g", rule, worst, most);
}

/* The state of what stays goes on by position; all other is 0. */
static void carry(json_t *event, const fb_kept *kept, int64_t m, fb_tensor f)
{
    assert_ok(fb_to_host(ops, f, host, (size_t)(KV_HEADS * m) * sizeof *host));
    memset(state, 0, sizeof state);
    for (int64_t g = 0; g < KV_HEADS; g++)
        for (int64_t i = 0; i < kept->count[g]; i++) {
            const int64_t j = kept->position[g][i];

            state[g][place(event, g, j)] = host[g * m + j];
        }
}

static void compare_kept(json_t *event, const fb_kept *kept)
{
    for (int64_t g = 0; g < KV_HEADS; g++) {
        json_t *list = json_array_get(golden_at(event, "kept"), (size_t)g);

        assert_int_equal(kept->count[g], KEEP);
        assert_int_equal(json_array_size(list), KEEP - W);
        for (int64_t i = 0; i < KEEP - W; i++)
            assert_int_equal(place(event, g, kept->position[g][i]),
                             json_integer_value(json_array_get(list, (size_t)i)));
    }
}

static void check_event(const fb_bound_rule *rule, json_t *event)
{
    const char *text = fb_bound_rule_text(rule);
    fb_selection s;
    fb_signals signals;
    fb_tensor f, score;

    fb_scope_open(ops);
    signals = see(event);
    f = fb_bound_rule_update(rule, ops, &signals, FB_AFTER_BLOCK);
    assert_int_equal(f.id, signals.state.id); /* nothing happens then */
    f = fb_bound_rule_update(rule, ops, &signals, FB_AT_EVENT);
    signals.state = f;
    f = fb_reshape(ops, f, 2, (int64_t[]){KV_HEADS, signals.m});
    compare(text, fb_narrow(ops, f, 1, 0, signals.m - W), golden_at(event, "state"));
    score = fb_bound_rule_score(rule, ops, &signals);
    compare(text, score, golden_at(event, "scores"));
    assert_ok(fb_select(&s, ops,
                        &(fb_selector){.rule = rule,
                                       .protect = {FB_PROTECT_NONE, 0, 0},
                                       .layers = 1,
                                       .kv_heads = KV_HEADS,
                                       .n = signals.m,
                                       .scores = &score},
                        KEEP));
    compare_kept(event, &s.kept);
    carry(event, &s.kept, signals.m, f);
    fb_selection_clear(&s);
    fb_scope_close(ops);
}

static void every_case_is_what_numpy_gives_over_two_evictions(void **unused)
{
    json_t *cases = golden_at(root, "cases");

    (void)unused;
    assert_int_equal(json_array_size(cases), 4);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *of = json_array_get(cases, i), *events = golden_at(of, "events");
        fb_bound_rule *rule;

        assert_ok(fb_rule_parse(&rule, json_string_value(golden_at(of, "rule"))));
        memset(state, 0, sizeof state);
        assert_int_equal(json_array_size(events), 2);
        for (size_t e = 0; e < 2; e++)
            check_event(rule, json_array_get(events, e));
        fb_bound_rule_free(rule);
    }
}

static int open_all(void **unused)
{
    static const fb_ops_options two_threads = {.threads = 2};

    (void)unused;
    root = golden_load("tests/golden/rules/gkv.json");
    return fb_ops_open(&ops, &two_threads) == FB_OK ? 0 : -1;
}

static int close_all(void **unused)
{
    (void)unused;
    fb_ops_close(ops);
    json_decref(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_what_numpy_gives_over_two_evictions),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
