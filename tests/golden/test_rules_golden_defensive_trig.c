/* test_rules_golden_defensive_trig.c - `defensive` and `trig` score and keep as their
 * authors' code does, on the tensors of tests/golden/rules/defensive_trig.json.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/golden.h"
#include "tests/support/test.h"

#include <math.h>

enum { LAYERS = 2, WINDOW = 16 };

static fb_ops *ops;
static json_t *golden;
static fb_signals layers[LAYERS];

/* Elements of nested lists, in order. */
static float *fill(float *at, json_t *node)
{
    if (!json_is_array(node)) {
        *at = (float)json_number_value(node);
        return at + 1;
    }
    for (size_t i = 0; i < json_array_size(node); i++)
        at = fill(at, json_array_get(node, i));
    return at;
}

/* A tensor of three dimensions from three nested lists. */
static fb_tensor tensor(json_t *layer, const char *name)
{
    json_t *list = golden_at(layer, name);
    int64_t shape[3], n = 1;
    json_t *inner = list;
    fb_tensor out;
    float *host;

    for (int i = 0; i < 3; i++, inner = json_array_get(inner, 0)) {
        shape[i] = (int64_t)json_array_size(inner);
        n *= shape[i];
    }
    host = fb_alloc(FB_ACCOUNT_other, (size_t)n * sizeof *host);
    assert_non_null(host);
    assert_ptr_equal(fill(host, list), host + n);
    out = fb_from_host(ops, FB_F32, 3, shape, host);
    fb_free(host);
    return out;
}

/* struct fb_rotary: pair f turns by position * theta^(-2f / head_dim). */
static fb_status tables(const void *self, fb_ops *o, const int64_t *position, int64_t n,
                        fb_tensor *cosine, fb_tensor *sine)
{
    const int64_t half = layers[0].head_dim / 2, shape[] = {n, half};
    float *c = fb_alloc(FB_ACCOUNT_other, (size_t)(n * half) * sizeof *c);
    float *s = fb_alloc(FB_ACCOUNT_other, (size_t)(n * half) * sizeof *s);

    assert_non_null(c);
    assert_non_null(s);
    for (int64_t i = 0; i < n * half; i++) {
        const double turn = -(double)(i % half) / (double)half;
        const double angle =
            (double)position[i / half] * pow(*(const double *)self, turn);

        c[i] = (float)cos(angle);
        s[i] = (float)sin(angle);
    }
    *cosine = fb_from_host(o, FB_F32, 2, shape, c);
    *sine = fb_from_host(o, FB_F32, 2, shape, s);
    fb_free(c);
    fb_free(s);
    return fb_ops_status(o);
}

static int64_t whole(const char *name)
{
    return (int64_t)golden_number(golden, name);
}

static int open_layers(void **state)
{
    static double theta;
    static struct fb_rotary rotary = {&theta, tables};
    const fb_ops_options options = {.threads = 1};

    (void)state;
    if (fb_ops_open(&ops, &options) != FB_OK) return -1;
    fb_scope_open(ops);
    golden = golden_load("tests/golden/rules/defensive_trig.json");
    theta = golden_number(golden, "theta");
    for (int l = 0; l < LAYERS; l++) {
        json_t *in = json_array_get(golden_at(golden, "layers"), (size_t)l);

        layers[l] = (fb_signals){.layer = l,
                                 .n_layers = LAYERS,
                                 .heads = whole("heads"),
                                 .kv_heads = whole("kv_heads"),
                                 .head_dim = whole("head_dim"),
                                 .n = whole("n"),
                                 .next = whole("n"),
                                 .m = whole("n"),
                                 .scale = 1 / sqrt((double)whole("head_dim")),
                                 .keys = tensor(in, "keys"),
                                 .values = tensor(in, "values"),
                                 .queries = tensor(in, "queries"),
                                 .output_weight = tensor(in, "output_weight"),
                                 .window_attention = tensor(in, "window_attention"),
                                 .rotary = &rotary};
    }
    return fb_ops_status(ops) == FB_OK ? 0 : -1;
}

static int close_layers(void **state)
{
    (void)state;
    json_decref(golden);
    fb_scope_close(ops);
    fb_ops_close(ops);
    return 0;
}

/* The scores of one layer on the host; free with fb_free. */
static float *score(const fb_bound_rule *rule, int layer, int64_t *n)
{
    const fb_tensor out = fb_bound_rule_score_once(rule, ops, &layers[layer]);
    float *host;

    assert_ok(fb_ops_status(ops));
    *n = fb_size(ops, out, 0) * fb_size(ops, out, 1);
    host = fb_alloc(FB_ACCOUNT_other, (size_t)*n * sizeof *host);
    assert_ok(fb_to_host(ops, out, host, (size_t)*n * sizeof *host));
    return host;
}

static float *wanted(json_t *list, int layer, int64_t n)
{
    float *host = fb_alloc(FB_ACCOUNT_other, (size_t)n * sizeof *host);

    assert_ptr_equal(fill(host, json_array_get(list, (size_t)layer)), host + n);
    return host;
}

/* The least and the largest of n numbers. */
static void range(const float *x, int64_t n, double *low, double *high)
{
    *low = *high = (double)x[0];
    for (int64_t i = 1; i < n; i++) {
        *low = fmin(*low, (double)x[i]);
        *high = fmax(*high, (double)x[i]);
    }
}

static void trig_scores_are_the_sums_of_cosines_of_the_authors(void **state)
{
    const char *text;
    json_t *list;

    (void)state;
    json_object_foreach(golden_at(golden, "trig"), text, list)
    {
        fb_bound_rule *rule;

        assert_ok(fb_rule_parse(&rule, text));
        for (int l = 0; l < LAYERS; l++) {
            double low, high;
            int64_t n;
            float *ours = score(rule, l, &n), *theirs = wanted(list, l, n);

            range(theirs, n, &low, &high);
            for (int64_t i = 0; i < n; i++)
                assert_near((double)ours[i] / (high - low),
                            (double)theirs[i] / (high - low), 2e-6);
            fb_free(ours);
            fb_free(theirs);
        }
        fb_bound_rule_free(rule);
    }
}

static void compare_kept(const fb_selection *ours, json_t *theirs)
{
    for (int64_t slot = 0; slot < ours->kept.n_slots; slot++) {
        const int64_t heads = layers[0].kv_heads;
        json_t *head = json_array_get(json_array_get(theirs, (size_t)(slot / heads)),
                                      (size_t)(slot % heads));

        assert_int_equal(json_array_size(head), ours->kept.count[slot]);
        for (size_t i = 0; i < json_array_size(head); i++)
            assert_int_equal(json_integer_value(json_array_get(head, i)),
                             ours->kept.position[slot][i]);
    }
}

static void defensive_keeps_what_the_authors_code_keeps(void **state)
{
    json_t *cases = golden_at(golden, "kept");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *one = json_array_get(cases, i);
        fb_selector in = {.protect = {.kind = FB_PROTECT_PUBLISHED},
                          .layers = LAYERS,
                          .kv_heads = layers[0].kv_heads,
                          .n = layers[0].n};
        fb_tensor scores[LAYERS];
        fb_bound_rule *rule;
        fb_selection out;

        assert_ok(fb_rule_parse(&rule, json_string_value(golden_at(one, "rule"))));
        for (int l = 0; l < LAYERS; l++)
            scores[l] = fb_bound_rule_score_once(rule, ops, &layers[l]);
        in.rule = rule;
        in.scores = scores;
        assert_ok(fb_select(&out, ops, &in, (int64_t)golden_number(one, "k")));
        compare_kept(&out, golden_at(one, "kept"));
        fb_selection_clear(&out);
        fb_bound_rule_free(rule);
    }
    assert_true(json_array_size(cases) == 80);
}

static void an_even_kernel_of_defensive_is_refused(void **state)
{
    fb_bound_rule *rule;

    (void)state;
    assert_fails(fb_rule_parse(&rule, "defensive:kernel=4"), FB_USAGE, "even kernel");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trig_scores_are_the_sums_of_cosines_of_the_authors),
        cmocka_unit_test(defensive_keeps_what_the_authors_code_keeps),
        cmocka_unit_test(an_even_kernel_of_defensive_is_refused),
    };

    return cmocka_run_group_tests(tests, open_layers, close_layers);
}
