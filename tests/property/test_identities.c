/* test_identities.c - rules that are others under some settings, or a formula in double:
 * invariants 18, 20 and 33.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

enum { MOST = 2 * SHOWN_HEADS * SHOWN_TOKENS, HALF = SHOWN_DIM / 2 };

static shown text;
static float a[MOST], b[MOST];

/* --- 18 --- */

static void score_alike(const char *first, const char *second)
{
    const int64_t n = small_score(&text, first, 0, a);

    holds(small_score(&text, second, 0, b) == n);
    for (int64_t i = 0; i < n; i++)
        holds(a[i] == b[i]);
}

static const char *draw_inner(numbers *r)
{
    static const char *const all[] = {"snapkv:window=4", "knorm", "keydiff", "h2o",
                                      "expected_attention:future=16"};

    return all[number_int(r, 0, 4)];
}

/* Every value has the 1-norm 1 and the image 1 of each query head. */
static void make_values_equal(numbers *r)
{
    shown_layer *own = &text.layer[0];

    for (int64_t i = 0; i < text.kv_heads * text.n * SHOWN_DIM; i++)
        own->values[i] = (number_int(r, 0, 1) == 0 ? -1.0F : 1.0F) / SHOWN_DIM;
    memset(own->output, 0, sizeof own->output);
    for (int64_t h = 0; h < text.heads; h++)
        own->output[h * SHOWN_WIDTH * SHOWN_DIM] = SHOWN_DIM; /* of the first channel */
}

static void check_settings(numbers *r)
{
    const char *inner = draw_inner(r);
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, number_int(r, 0, 4),
                                number_int(r, 0, 4)};
    char rule[SMALL_TEXT];

    shown_draw(&text, ops, r, 24, 64);
    score_alike("snapkv:window=1,kernel=1", "tova:heads=kv");
    score_alike("cake:window=4,gamma=0", "snapkv:window=4");
    score_alike("finch:window=4,normalise=0", "snapkv:window=4,kernel=1");
    (void)snprintf(rule, sizeof rule, "critical(first=1,%s)", inner);
    holds(small_keep_same(&text, rule, inner, protect, number_int(r, 1, text.n)));
    make_values_equal(r);
    (void)snprintf(rule, sizeof rule, "vatp(%s)", inner);
    score_alike(rule, inner);
    text.layers = 1;
    (void)snprintf(rule, sizeof rule, "critical(epsilon=0,%s)", inner);
    holds(small_keep_same(&text, rule, inner, protect, number_int(r, 1, text.n)));
}

static void some_settings_make_one_rule_of_another(void **state)
{
    (void)state;
    try_cases(200, check_settings);
}

/* What the last 4 queries pay to past entries, the most of a group's heads, over its largest. */
static void local(int64_t g, double *out)
{
    const int64_t group = text.heads / text.kv_heads, past = text.n - 4;
    double most = 0;

    for (int64_t j = 0; j < past; j++) {
        out[j] = 0;
        for (int64_t i = past; i < text.n; i++) {
            float best = 0;

            for (int64_t h = g * group; h < (g + 1) * group; h++)
                best =
                    fmaxf(best, text.layer[0].attention[(h * text.n + i) * text.n + j]);
            out[j] += (double)best;
        }
        most = fmax(most, out[j]);
    }
    for (int64_t j = 0; j < past; j++)
        out[j] /= most;
}

/* The score at an eviction when entries carry `old`. */
static void score_after(const char *expression, const float *old, float *out)
{
    fb_bound_rule *rule = small_parse(expression);
    fb_signals see;

    fb_scope_open(ops);
    see = shown_signals(&text, 0);
    see.state =
        fb_from_host(ops, FB_F32, 3, (int64_t[]){text.kv_heads, 1, text.n}, old);
    see.state = fb_bound_rule_update(rule, ops, &see, FB_AT_EVENT);
    (void)shown_host(&text, fb_bound_rule_score(rule, ops, &see), out);
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
}

static void check_local(numbers *r)
{
    static const char *const forgetful[] = {"gkv:window=4,alpha=0,weight=1",
                                            "gkv:window=4,alpha=0,memory=mean,weight=1",
                                            "gkv:window=4,alpha=0,memory=sum,weight=1"};
    const int64_t n = (shown_draw(&text, ops, r, 8, 64), text.n - 4);
    static float old[MOST];

    for (int64_t i = 0; i < text.kv_heads * text.n; i++)
        old[i] = fabsf(number_unit(r)); /* of other evictions */
    for (int i = 0; i < 3; i++) {
        score_after(forgetful[i], old, a);
        (void)small_score(&text, forgetful[i], 0, b);
        for (int64_t g = 0; g < text.kv_heads; g++) {
            double wanted[SHOWN_TOKENS];

            local(g, wanted);
            for (int64_t j = 0; j < n; j++) {
                holds(is_close((double)a[g * n + j], wanted[j], 1e-6));
                holds(a[g * n + j] == b[g * n + j]);
            }
        }
    }
}

static void gkv_without_memory_and_redundancy_is_the_local_score(void **state)
{
    (void)state;
    try_cases(200, check_local);
}

/* --- 20 --- */

static void unit(const float *x, double *out)
{
    const double length = sqrt(shown_dot(x, x));

    for (int c = 0; c < SHOWN_DIM; c++)
        out[c] = (double)x[c] / length;
}

/* R of a kv head: softmax of k.(sum of all k - k) / n for keys of length 1. */
static void redundancy(const float *keys, int64_t n, double *out)
{
    double unit_key[SHOWN_TOKENS][SHOWN_DIM], all[SHOWN_DIM] = {0}, sum = 0;

    for (int64_t j = 0; j < n; j++) {
        unit(keys + j * SHOWN_DIM, unit_key[j]);
        for (int c = 0; c < SHOWN_DIM; c++)
            all[c] += unit_key[j][c];
    }
    for (int64_t j = 0; j < n; j++) {
        double dot = 0;

        for (int c = 0; c < SHOWN_DIM; c++)
            dot += unit_key[j][c] * (all[c] - unit_key[j][c]);
        sum += out[j] = exp(dot / (double)n);
    }
    for (int64_t j = 0; j < n; j++)
        out[j] /= sum;
}

static void check_redundancy(numbers *r)
{
    const int64_t w = (shown_draw(&text, ops, r, 6, 64), 4), n = text.n - w;

    holds(small_score(&text, "rkv:window=4,weight=0,retain=none", 0, a) ==
          text.kv_heads * n);
    (void)small_score(&text, "rkv:window=4,weight=0", 0, b);
    for (int64_t g = 0; g < text.kv_heads; g++) {
        double wanted[SHOWN_TOKENS], all = 0, spared = 0;

        redundancy(text.layer[0].keys + g * text.n * SHOWN_DIM, text.n, wanted);
        for (int64_t j = 0; j < n; j++) {
            holds(is_close(-(double)a[g * n + j], wanted[j], 1e-6));
            holds(a[g * n + j] <= 0 && b[g * n + j] <= 0);
            all -= (double)a[g * n + j];
            spared -= (double)b[g * n + j];
        }
        for (int64_t j = n; j < text.n; j++)
            all += wanted[j]; /* of the window, which has no score */
        holds(is_close(all, 1, 1e-5) && spared <= 1 + 1e-5);
    }
}

static void redundancy_is_a_share_and_without_sparing_linear(void **state)
{
    (void)state;
    try_cases(200, check_redundancy);
}

/* --- 18, 33: one query head for each kv head --- */

static void draw_lone_heads(numbers *r)
{
    shown_draw(&text, ops, r, 12, 64);
    text.heads = text.kv_heads;
}

static double speed(int f)
{
    return pow(1e4, -(double)f / HALF);
}

/* x, which stands at position p, at position `to`. */
static void turn(const float *x, double p, double to, double *out)
{
    for (int f = 0; f < HALF; f++) {
        const double c = cos((to - p) * speed(f)), s = sin((to - p) * speed(f));

        out[f] = (double)x[f] * c - (double)x[f + HALF] * s;
        out[f + HALF] = (double)x[f + HALF] * c + (double)x[f] * s;
    }
}

/* The mean query of a head before rotary embedding. */
static void mean_query(int64_t head, double *out)
{
    memset(out, 0, SHOWN_DIM * sizeof *out);
    for (int64_t i = 0; i < text.n; i++) {
        double plain[SHOWN_DIM];

        turn(text.layer[0].queries + (head * text.n + i) * SHOWN_DIM, (double)i, 0,
             plain);
        for (int c = 0; c < SHOWN_DIM; c++)
            out[c] += plain[c] / (double)text.n;
    }
}

/* The published sum of cosines for a distance d, of q and k before rotary embedding. */
static double cosines(const double *q, const double *k, double d)
{
    double sum = 0;

    for (int f = 0; f < HALF; f++) {
        const double length = hypot(q[f], q[f + HALF]) * hypot(k[f], k[f + HALF]);
        const double phase = atan2(q[f + HALF], q[f]) - atan2(k[f + HALF], k[f]);

        sum += length * cos(d * speed(f) + phase);
    }
    return sum;
}

/* Of an entry: the mean over offsets 0 .. future - 1, or 1, 2, 4, 8, 16. */
static double published(int64_t head, int64_t j, int future)
{
    double q[SHOWN_DIM], k[SHOWN_DIM], sum = 0;
    int n = 0;

    mean_query(head, q);
    turn(text.layer[0].keys + (head * text.n + j) * SHOWN_DIM, (double)j, 0, k);
    for (int o = future > 0 ? 0 : 1;
         o<(future > 0 ? future : 17); o = future> 0 ? o + 1 : 2 * o, n++)
        sum += cosines(q, k, (double)(text.n - j + o));
    return sum / n;
}

static void check_trig(numbers *r)
{
    const int64_t n = (draw_lone_heads(r), text.n);

    (void)small_score(&text, "trig:norm=0,offset=16", 0, a);
    (void)small_score(&text, "trig:norm=0,offset=16,offsets=next", 0, b);
    for (int64_t i = 0; i < text.kv_heads * n; i++) {
        holds(is_close((double)a[i], published(i / n, i % n, 0), 1e-4));
        holds(is_close((double)b[i], published(i / n, i % n, 16), 1e-4));
    }
}

static void trigs_sum_of_cosines_is_a_product_with_the_turned_mean_query(void **state)
{
    (void)state;
    try_cases(200, check_trig);
}

static void check_logit(numbers *r)
{
    const char *expected =
        "expected_attention:future=16,stat_skip=0,covariance=0,vnorm=0";
    const int64_t n = (draw_lone_heads(r), text.n);

    (void)small_score(&text, "trig:norm=0,offset=16,offsets=next", 0, a);
    (void)small_score(&text, expected, 0, b);
    for (int64_t i = 0; i < text.kv_heads * n; i++) {
        const int64_t first = i / n * n;
        const double logit = log((double)b[i]) - log((double)b[first]);

        holds(is_close(SHOWN_SCALE * ((double)a[i] - (double)a[first]), logit, 1e-4));
    }
}

static void trig_is_expected_attentions_logit_when_offsets_agree(void **state)
{
    (void)state;
    try_cases(200, check_logit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_settings_make_one_rule_of_another),
        cmocka_unit_test(gkv_without_memory_and_redundancy_is_the_local_score),
        cmocka_unit_test(redundancy_is_a_share_and_without_sparing_linear),
        cmocka_unit_test(trigs_sum_of_cosines_is_a_product_with_the_turned_mean_query),
        cmocka_unit_test(trig_is_expected_attentions_logit_when_offsets_agree),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
