/* test_symmetry.c - what a rule cannot see: invariants 12 and 13.
 *
 * Sums of other orders differ in their last bits, so scores are compared to 2e-4 of the
 * largest of their layer.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

#define NEAR 2e-4
#define SEEN 1e-5 /* a change; a score's one factor may be nearly the same by chance */

enum { MOST = 2 * SHOWN_HEADS * SHOWN_TOKENS };

static shown text, other;

/* --- 12 --- */

typedef double turn[SHOWN_DIM][SHOWN_DIM];

/* Rows of length 1 at right angles, out of random ones. */
static void draw_turn(numbers *r, turn q)
{
    for (int i = 0; i < SHOWN_DIM; i++) {
        double length = 0;

        for (int c = 0; c < SHOWN_DIM; c++)
            q[i][c] = (double)number_unit(r);
        for (int j = 0; j < i; j++) {
            double dot = 0;

            for (int c = 0; c < SHOWN_DIM; c++)
                dot += q[i][c] * q[j][c];
            for (int c = 0; c < SHOWN_DIM; c++)
                q[i][c] -= dot * q[j][c];
        }
        for (int c = 0; c < SHOWN_DIM; c++)
            length += q[i][c] * q[i][c];
        for (int c = 0; c < SHOWN_DIM; c++)
            q[i][c] /= sqrt(length);
    }
}

static void apply(turn q, float *x, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++, x += SHOWN_DIM) {
        float out[SHOWN_DIM];

        for (int c = 0; c < SHOWN_DIM; c++) {
            double sum = 0;

            for (int k = 0; k < SHOWN_DIM; k++)
                sum += q[c][k] * (double)x[k];
            out[c] = (float)sum;
        }
        memcpy(x, out, sizeof out);
    }
}

static double change(const char *rule)
{
    static float a[MOST], b[MOST];
    const int64_t n = small_score(&text, rule, 0, a);

    holds(small_score(&other, rule, 0, b) == n);
    return shown_apart(a, b, n);
}

/* Every kv head's keys, and its queries, by a matrix of its own. */
static void check_turned_keys(numbers *r)
{
    static const char *const blind[] = {
        "snapkv:window=4",
        "tova",
        "finch:window=4",
        "cake:window=4",
        "lava:window=4",
        "h2o",
        "observed_attention",
        "morphkv:window=4",
        "rkv:window=4",
        "noncausal:chunk=16",
        "knorm",
        "keydiff",
        "manifold",
        "manifold:windowed=10",
        "cur:type=key",
        "vase:window=4,sample=0",
        "a2sf",
        "roco",
        "gkv:window=4",
        "obcache:window=4",
        "dropkv:window=4",
        "paged",
        "caote(snapkv:window=4)",
    };
    const int64_t row = (shown_draw(&text, ops, r, 24, 48), text.n * SHOWN_DIM);
    const int64_t group = text.heads / text.kv_heads;

    other = text;
    for (int64_t g = 0; g < text.kv_heads; g++) {
        turn q;

        draw_turn(r, q);
        apply(q, other.layer[0].keys + g * row, text.n);
        apply(q, other.layer[0].queries + g * group * row, group * text.n);
    }
    shown_look(&other);
    for (size_t i = 0; i < sizeof blind / sizeof *blind; i++)
        holds(change(blind[i]) <= NEAR);
    of_rule("lagkv");
    holds(change("lagkv:lag=8,cross=1") > SEEN); /* it looks at channels */
}

static void keys_and_queries_turned_together_are_the_same_to_all_but_lagkv(void **state)
{
    (void)state;
    try_cases(150, check_turned_keys);
}

static void check_turned_values(numbers *r)
{
    static const char *const blind[] = {"vnorm",
                                        "cur",
                                        "noncausal:chunk=16",
                                        "expected_attention:future=16",
                                        "cap:future=16",
                                        "obcache:window=4",
                                        "dropkv:window=4",
                                        "paged",
                                        "caote(snapkv:window=4)",
                                        "caote(h2o,output=mean)"};
    static const char *const see_channels[] = {"vnorm:p=1",     "vnorm:p=range",
                                               "vase:window=4", "vatp(knorm)",
                                               "lava:window=4", "lagkv:lag=8,cross=1"};
    const int64_t row = (shown_draw(&text, ops, r, 24, 48), text.n * SHOWN_DIM);

    other = text;
    for (int64_t g = 0; g < text.kv_heads; g++) {
        turn q;

        draw_turn(r, q);
        apply(q, other.layer[0].values + g * row, text.n);
    }
    for (size_t i = 0; i < sizeof blind / sizeof *blind; i++)
        holds(change(blind[i]) <= NEAR);
    for (size_t i = 0; i < sizeof see_channels / sizeof *see_channels; i++)
        holds(change(see_channels[i]) > SEEN);
}

static void turned_values_are_as_long_as_before(void **state)
{
    (void)state;
    try_cases(150, check_turned_values);
}

/* --- 13 --- */

/* Rotary embedding of `shift` more positions. */
static void turn_on(float *x, int64_t rows, int64_t shift)
{
    enum { HALF = SHOWN_DIM / 2 };

    for (int64_t i = 0; i < rows; i++, x += SHOWN_DIM)
        for (int f = 0; f < HALF; f++) {
            const double angle = (double)shift * pow(1e4, -(double)f / HALF);
            const double a = (double)x[f], b = (double)x[f + HALF];

            x[f] = (float)(a * cos(angle) - b * sin(angle));
            x[f + HALF] = (float)(b * cos(angle) + a * sin(angle));
        }
}

static void check_shifted(numbers *r)
{
    static const char *const blind[] = {
        "snapkv:window=4",
        "tova",
        "cake:window=4",
        "lava:window=4",
        "h2o",
        "observed_attention",
        "morphkv:window=4",
        "rkv:window=4",
        "vase:window=4,sample=0",
        "keydiff",
        "manifold",
        "noncausal:chunk=16",
        "cap:future=16,stat_skip=0",
        "trig:offset=16",
        "expected_attention:future=16,stat_skip=0",
        "defensive:window=4",
        "trig:offset=16,offsets=next",
        "a2sf",
        "roco",
        "gkv:window=4",
        "obcache:window=4",
        "dropkv:window=4",
        "paged",
        "caote(snapkv:window=4)",
    };

    shown_draw(&text, ops, r, 24, 48);
    other = text;
    other.shift = number_int(r, 1, 100);
    turn_on(other.layer[0].keys, text.kv_heads * text.n, other.shift);
    turn_on(other.layer[0].queries, text.heads * text.n, other.shift);
    shown_look(&other);
    for (size_t i = 0; i < sizeof blind / sizeof *blind; i++)
        holds(change(blind[i]) <= NEAR);
    of_rule("lagkv");
    holds(change("lagkv:lag=8,cross=1") > SEEN);
}

static void a_text_further_on_is_scored_alike(void **state)
{
    (void)state;
    try_cases(150, check_shifted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            keys_and_queries_turned_together_are_the_same_to_all_but_lagkv),
        cmocka_unit_test(turned_values_are_as_long_as_before),
        cmocka_unit_test(a_text_further_on_is_scored_alike),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
