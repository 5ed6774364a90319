/* test_rules_golden_allocations.c - kept sets of allocations, chunks, spans and ladders are
 * those of a script written from the papers and their code (tests/golden/rules).
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/golden.h"
#include "tests/support/test.h"

enum { MOST_LAYERS = 8, MOST = 8192 };

static fb_ops *ops;
static json_t *root;
static int layers, heads, kv_heads, n, window;
static float score[MOST], attention[MOST], residual[MOST];

static void read_floats(const char *name, float *out)
{
    static double list[MOST];
    const int count = golden_list(root, name, list, MOST);

    for (int i = 0; i < count; i++)
        out[i] = (float)list[i];
}

static int open_all(void **state)
{
    const fb_ops_options options = {.threads = 1};

    (void)state;
    root = golden_load("tests/golden/rules/allocations.json");
    layers = (int)golden_number(root, "layers");
    heads = (int)golden_number(root, "heads");
    kv_heads = (int)golden_number(root, "kv_heads");
    n = (int)golden_number(root, "n");
    window = (int)golden_number(root, "window");
    assert_true(layers <= MOST_LAYERS);
    read_floats("scores", score);
    read_floats("window_attention", attention);
    read_floats("residual", residual);
    return fb_ops_open(&ops, &options) == FB_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    fb_ops_close(ops);
    json_decref(root);
    return 0;
}

static fb_signals see(int layer)
{
    const int64_t shape[] = {heads, window, n};

    return (fb_signals){
        .layer = layer,
        .n_layers = layers,
        .heads = heads,
        .kv_heads = kv_heads,
        .n = n,
        .m = n,
        .window_attention =
            fb_from_host(ops, FB_F32, 3, shape, attention + layer * heads * window * n),
        .position = fb_signal_position(ops, kv_heads, n, NULL),
        .residual = fb_from_host(ops, FB_F32, 1, (int64_t[]){n}, residual + layer * n),
    };
}

/* The stored scores stand for those of an inner rule. */
static fb_tensor score_of(const fb_bound_rule *rule, const fb_signals *signals)
{
    if (fb_bound_rule_get(rule)->kind == FB_KIND_RULE)
        return fb_bound_rule_score(rule, ops, signals);
    return fb_from_host(ops, FB_F32, 2, (int64_t[]){kv_heads, n},
                        score + signals->layer * kv_heads * n);
}

static void select_case(fb_selection *out, const fb_bound_rule *rule, json_t *node)
{
    fb_tensor scores[MOST_LAYERS], measured[MOST_LAYERS];

    for (int l = 0; l < layers; l++) {
        const fb_signals signals = see(l);

        scores[l] = score_of(rule, &signals);
        measured[l] = fb_bound_rule_measure(rule, ops, &signals, scores[l]);
    }
    assert_ok(
        fb_select(out, ops,
                  &(fb_selector){.rule = rule,
                                 .protect = {FB_PROTECT_EXPERIMENT,
                                             (int64_t)golden_number(node, "sink"),
                                             (int64_t)golden_number(node, "recent")},
                                 .layers = layers,
                                 .kv_heads = kv_heads,
                                 .n = n,
                                 .scores = scores,
                                 .measured = measured},
                  (int64_t)golden_number(node, "k")));
}

static void compare(const fb_selection *ours, json_t *node, const char *name)
{
    json_t *kept = golden_at(node, "kept");

    for (size_t slot = 0; slot < json_array_size(kept); slot++) {
        json_t *wanted = json_array_get(kept, slot);
        const int64_t count = ours->kept.count[slot];

        if (count != (int64_t)json_array_size(wanted))
            fail_msg("%s: %d entries in slot %d, %d are right", name, (int)count,
                     (int)slot, (int)json_array_size(wanted));
        for (int64_t i = 0; i < count; i++)
            if (ours->kept.position[slot][i] !=
                json_integer_value(json_array_get(wanted, (size_t)i)))
                fail_msg("%s: slot %d keeps %d", name, (int)slot,
                         ours->kept.position[slot][i]);
    }
}

static void kept_sets_are_those_of_the_script(void **state)
{
    json_t *cases = golden_at(root, "cases");

    (void)state;
    assert_true(json_array_size(cases) > 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *node = json_array_get(cases, i);
        const char *text = json_string_value(golden_at(node, "rule"));
        char name[128];
        fb_bound_rule *rule;
        fb_selection s;

        (void)snprintf(name, sizeof name, "%s, k=%d, %d+%d", text,
                       (int)golden_number(node, "k"), (int)golden_number(node, "sink"),
                       (int)golden_number(node, "recent"));
        assert_ok(fb_rule_parse(&rule, text));
        fb_scope_open(ops);
        select_case(&s, rule, node);
        compare(&s, node, name);
        fb_selection_clear(&s);
        fb_scope_close(ops);
        fb_bound_rule_free(rule);
    }
}

/* The layers of the highest class are those that get less than an equal split. */
static void check_division(const fb_bound_rule *rule, json_t *node)
{
    enum { DIVIDED_MOST = 32, K = 100 };
    double c[DIVIDED_MOST], high[DIVIDED_MOST], room[DIVIDED_MOST];
    const int count = golden_list(node, "c", c, DIVIDED_MOST);
    const int n_high = golden_list(node, "high", high, DIVIDED_MOST);
    fb_tensor measured[DIVIDED_MOST];
    int64_t k[DIVIDED_MOST];
    int found = 0;

    for (int l = 0; l < count; l++) {
        measured[l] = fb_full(ops, 1, (int64_t[]){1}, c[l]);
        k[l] = K;
    }
    assert_ok(fb_bound_rule_get(rule)->spread(ops,
                                              &(fb_spread_input){.measured = measured,
                                                                 .n_layers = count,
                                                                 .kv_heads = 1,
                                                                 .m = 100 * K,
                                                                 .k = K,
                                                                 .room = room},
                                              &(double){0.3}, k));
    for (int l = 0; l < count; l++) {
        const bool is_high = found < n_high && (int)high[found] == l;

        assert_int_equal(k[l] < K, is_high && n_high < count);
        found += is_high;
    }
    assert_int_equal(found, n_high);
}

static void layers_are_divided_as_by_trying_all_divisions(void **state)
{
    json_t *divided = golden_at(root, "divided");
    fb_bound_rule *rule;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "squeeze(knorm)"));
    assert_int_equal(json_array_size(divided), 18);
    fb_scope_open(ops);
    for (size_t i = 0; i < json_array_size(divided); i++)
        check_division(rule, json_array_get(divided, i));
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_are_those_of_the_script),
        cmocka_unit_test(layers_are_divided_as_by_trying_all_divisions),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
