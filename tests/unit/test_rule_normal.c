/* test_rule_normal.c - the numbers of fb_normal, and `leverage`, which makes a sketch of
 * them, where keys are so few or so large that their Gram matrix is singular.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"
#include "tests/support/near.h"
#include "tests/support/test.h"
#include "tests/support/use_ops.h"

#include <math.h>
#include <string.h>

enum { HEADS = 2, ROWS = 64, COLUMNS = 96, N = HEADS * ROWS * COLUMNS };
enum { TOKENS = 150, CHANNELS = 16 };

static void draw(float *out, int64_t layer, uint64_t seed)
{
    const fb_signals see = {.layer = layer, .kv_heads = HEADS};

    fb_scope_open(ops);
    assert_ok(fb_to_host(ops, fb_normal(ops, &see, seed, ROWS, COLUMNS), out,
                         N * sizeof *out));
    fb_scope_close(ops);
}

/* Mean of the n-th powers. */
static double moment(const float *x, int n)
{
    double sum = 0;

    for (int i = 0; i < N; i++)
        sum += pow((double)x[i], n);
    return sum / N;
}

static void normal_numbers_have_the_moments_of_their_distribution(void **state)
{
    float x[N];

    (void)state; /* within 4 standard errors: sqrt(var x^n / N) */
    draw(x, 0, 1);
    assert_near(moment(x, 1), 0, 4 * sqrt(1.0 / N));
    assert_near(moment(x, 2), 1, 4 * sqrt(2.0 / N));
    assert_near(moment(x, 3), 0, 4 * sqrt(15.0 / N));
    assert_near(moment(x, 4) / 3, 1, 4 * sqrt(96.0 / N) / 3);
}

static void normal_numbers_depend_on_seed_and_layer_alone(void **state)
{
    float x[N], y[N];

    (void)state;
    draw(x, 3, 1);
    draw(y, 3, 1);
    assert_memory_equal(x, y, sizeof x);
    draw(y, 4, 1);
    assert_memory_not_equal(x, y, sizeof x);
    draw(y, 3, 2);
    assert_memory_not_equal(x, y, sizeof x);
    assert_memory_not_equal(x, x + N / HEADS, sizeof x / HEADS); /* of another head */
}

/* struct fb_rotary: nothing turns. */
static fb_status still(const void *self, fb_ops *o, const int64_t *position, int64_t n,
                       fb_tensor *cosine, fb_tensor *sine)
{
    const int64_t shape[] = {n, CHANNELS / 2};

    (void)self;
    (void)position;
    *cosine = fb_full(o, 2, shape, 1);
    *sine = fb_full(o, 2, shape, 0);
    return fb_ops_status(o);
}

/* Finite scores of keys that are `kinds` different vectors of about `size` in turn. */
static void score_few(const char *expression, int kinds, double size)
{
    static const struct fb_rotary rotary = {NULL, still};
    static float keys[HEADS * TOKENS * CHANNELS], score[HEADS * TOKENS];
    const int64_t shape[] = {HEADS, TOKENS, CHANNELS};
    fb_signals see = {.heads = HEADS,
                      .kv_heads = HEADS,
                      .head_dim = CHANNELS,
                      .n = TOKENS,
                      .next = TOKENS,
                      .m = TOKENS,
                      .rotary = &rotary};
    fb_bound_rule *rule;

    for (int i = 0; i < HEADS * TOKENS * CHANNELS; i++)
        keys[i] =
            (float)(size * sin(0.7 + i / CHANNELS % kinds * 37 + i % CHANNELS * 5));
    assert_ok(fb_rule_parse(&rule, expression));
    fb_scope_open(ops);
    see.keys = fb_from_host(ops, FB_F32, 3, shape, keys);
    assert_ok(
        fb_to_host(ops, fb_bound_rule_score(rule, ops, &see), score, sizeof score));
    for (int i = 0; i < HEADS * TOKENS; i++)
        assert_true(isfinite(score[i]));
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
}

static void leverage_scores_keys_of_any_size_and_few_kinds(void **state)
{
    static const int kinds[] = {1, 2, 3, 7, 15, 40, TOKENS};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (double size = 1e-6; size < 1e6; size *= 10) {
            score_few("leverage", kinds[i], size);
            score_few("leverage:sketch=5,skip_first=3,skip_last=2", kinds[i], size);
            score_few("leverage:sketch=200", kinds[i], size);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_numbers_have_the_moments_of_their_distribution),
        cmocka_unit_test(normal_numbers_depend_on_seed_and_layer_alone),
        cmocka_unit_test(leverage_scores_keys_of_any_size_and_few_kinds),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
