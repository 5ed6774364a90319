/* shown.h - texts that no model has read: random keys, values and queries of some layers, and
 * the attention that follows from them, for rules to look at. What is read again looks as the
 * future does.
 *
 * Keys and queries stand as if after rotary embedding, entry j at position `shift` + j.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_SHOWN_H
#define TESTS_SUPPORT_SHOWN_H

#include "select/select.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

enum {
    SHOWN_LAYERS = 3,
    SHOWN_KV_HEADS = 3,
    SHOWN_HEADS = 9,
    SHOWN_DIM = 8,
    SHOWN_TOKENS = 96,
    SHOWN_WIDTH = 7,
    SHOWN_SLOTS = SHOWN_LAYERS * SHOWN_KV_HEADS
};

typedef struct shown_layer {
    float keys[SHOWN_KV_HEADS * SHOWN_TOKENS * SHOWN_DIM];
    float values[SHOWN_KV_HEADS * SHOWN_TOKENS * SHOWN_DIM];
    float queries[SHOWN_HEADS * SHOWN_TOKENS * SHOWN_DIM];
    float output[SHOWN_HEADS * SHOWN_WIDTH * SHOWN_DIM];
    float attention[SHOWN_HEADS * SHOWN_TOKENS * SHOWN_TOKENS];
    float sum[SHOWN_HEADS * SHOWN_TOKENS];
    float future[SHOWN_HEADS * SHOWN_TOKENS];
    float residual[SHOWN_TOKENS];
} shown_layer;

typedef struct shown {
    fb_ops *ops;
    int64_t layers, heads, kv_heads, n, shift;
    uint64_t seed;
    shown_layer layer[SHOWN_LAYERS];
} shown;

static const double SHOWN_SCALE = 0.35355339059327373; /* 1 / sqrt(SHOWN_DIM) */

/* --- numbers --- */

static inline void shown_fill(numbers *r, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = 2 * number_unit(r);
}

static inline double shown_dot(const float *a, const float *b)
{
    double sum = 0;

    for (int c = 0; c < SHOWN_DIM; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

/* The softmax of what query q sees of the first `seen` keys, 0 behind them. */
static inline void shown_attend(const float *q, const float *keys, int64_t seen,
                                int64_t n, float *row)
{
    double p[SHOWN_TOKENS], most = -HUGE_VAL, sum = 0;

    for (int64_t j = 0; j < seen; j++) {
        p[j] = SHOWN_SCALE * shown_dot(q, keys + j * SHOWN_DIM);
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j < seen; j++)
        sum += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j < n; j++)
        row[j] = j < seen ? (float)(p[j] / sum) : 0;
}

/* Attention and its sums from keys and queries; the rows of the second half of the text
 * stand for the future's. */
static inline void shown_look(shown *s)
{
    for (int64_t l = 0; l < s->layers; l++)
        for (int64_t h = 0; h < s->heads; h++) {
            shown_layer *own = &s->layer[l];
            const int64_t n = s->n, g = h / (s->heads / s->kv_heads);
            float *sum = own->sum + h * n, *future = own->future + h * n;

            memset(sum, 0, (size_t)n * sizeof *sum);
            memset(future, 0, (size_t)n * sizeof *future);
            for (int64_t i = 0; i < n; i++) {
                float *row = own->attention + (h * n + i) * n;

                shown_attend(own->queries + (h * n + i) * SHOWN_DIM,
                             own->keys + g * n * SHOWN_DIM, i + 1, n, row);
                for (int64_t j = 0; j < n; j++) {
                    sum[j] += row[j];
                    if (i >= n / 2) future[j] += row[j] / (float)(n - n / 2);
                }
            }
        }
}

/* A text of `least` to `most` tokens, of as many layers and heads as it pleases. */
static inline void shown_draw(shown *s, fb_ops *ops, numbers *r, int64_t least,
                              int64_t most)
{
    s->ops = ops;
    s->layers = number_int(r, 1, SHOWN_LAYERS);
    s->kv_heads = number_int(r, 1, SHOWN_KV_HEADS);
    s->heads = s->kv_heads * number_int(r, 1, SHOWN_HEADS / SHOWN_KV_HEADS);
    s->n = number_int(r, least, most);
    s->shift = 0;
    s->seed = number_bits(r);
    for (int64_t l = 0; l < s->layers; l++) {
        shown_layer *own = &s->layer[l];

        shown_fill(r, own->keys, s->kv_heads * s->n * SHOWN_DIM);
        shown_fill(r, own->values, s->kv_heads * s->n * SHOWN_DIM);
        shown_fill(r, own->queries, s->heads * s->n * SHOWN_DIM);
        shown_fill(r, own->output, s->heads * SHOWN_WIDTH * SHOWN_DIM);
        for (int64_t i = 0; i < s->n; i++)
            own->residual[i] = number_unit(r);
    }
    shown_look(s);
}

/* --- signals --- */

/* Those below; a rule that reads another cannot be tried on such a text. */
enum {
    SHOWN_READS = FB_READS_KEYS | FB_READS_VALUES | FB_READS_WINDOW_ATTENTION |
                  FB_READS_ATTENTION_SUM | FB_READS_POSITION | FB_READS_RANDOM |
                  FB_READS_FUTURE | FB_READS_QUERIES | FB_READS_OUTPUT_WEIGHT |
                  FB_READS_ROTATION | FB_READS_ATTENTION_BLOCK | FB_READS_RESIDUAL |
                  FB_READS_REPLAY | FB_READS_DOCUMENT_FUTURE
};

/* struct fb_rotary: pair f turns by position * 10000^(-2f / d). */
static inline fb_status shown_tables(const void *self, fb_ops *ops,
                                     const int64_t *position, int64_t n, fb_tensor *c,
                                     fb_tensor *s)
{
    enum { HALF = SHOWN_DIM / 2 };
    float *cosine = malloc((size_t)(n * HALF) * sizeof *cosine);
    float *sine = malloc((size_t)(n * HALF) * sizeof *sine);

    (void)self;
    for (int64_t i = 0; i < n * HALF; i++) {
        const double angle =
            (double)position[i / HALF] * pow(1e4, -(double)(i % HALF) / HALF);

        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
    *c = fb_from_host(ops, FB_F32, 2, (int64_t[]){n, HALF}, cosine);
    *s = fb_from_host(ops, FB_F32, 2, (int64_t[]){n, HALF}, sine);
    free(cosine);
    free(sine);
    return fb_ops_status(ops);
}

/* Everything that there is to be seen of a layer. */
static inline fb_signals shown_signals(const shown *s, int64_t layer)
{
    static const struct fb_rotary rotary = {NULL, shown_tables};
    const shown_layer *own = &s->layer[layer];
    const int64_t h = s->heads, g = s->kv_heads, n = s->n, d = SHOWN_DIM;
    int32_t at[SHOWN_TOKENS], *position[SHOWN_KV_HEADS] = {at, at, at};
    fb_ops *ops = s->ops;

    for (int64_t j = 0; j < n; j++)
        at[j] = (int32_t)(s->shift + j);
    return (fb_signals){
        .layer = layer,
        .n_layers = s->layers,
        .heads = h,
        .kv_heads = g,
        .head_dim = d,
        .n = s->shift + n,
        .m = n,
        .next = s->shift + n,
        .scale = SHOWN_SCALE,
        .rotary = &rotary,
        .keys = fb_from_host(ops, FB_F32, 3, (int64_t[]){g, n, d}, own->keys),
        .values = fb_from_host(ops, FB_F32, 3, (int64_t[]){g, n, d}, own->values),
        .queries = fb_from_host(ops, FB_F32, 3, (int64_t[]){h, n, d}, own->queries),
        .output_weight =
            fb_from_host(ops, FB_F32, 3, (int64_t[]){h, SHOWN_WIDTH, d}, own->output),
        .window_attention =
            fb_from_host(ops, FB_F32, 3, (int64_t[]){h, n, n}, own->attention),
        .attention_sum = fb_from_host(ops, FB_F32, 2, (int64_t[]){h, n}, own->sum),
        .future_attention =
            fb_from_host(ops, FB_F32, 2, (int64_t[]){h, n}, own->future),
        .position = fb_signal_position(ops, g, n, position),
        .random = fb_signal_random(ops, (fb_chance){s->seed, 1, FB_DRAWER_RULE}, layer,
                                   g, n, position),
        .block_attention =
            fb_from_host(ops, FB_F32, 3, (int64_t[]){h, n, n}, own->attention),
        .block_random = fb_signal_block_random(
            ops, (fb_chance){s->seed, 1, FB_DRAWER_QUERY}, layer, h, g, n, n, position),
        .document_future = fb_from_host(ops, FB_F32, 2, (int64_t[]){h, n}, own->future),
        .replay_attention =
            fb_from_host(ops, FB_F32, 2, (int64_t[]){h, n}, own->future),
        .residual = fb_from_host(ops, FB_F32, 1, (int64_t[]){n}, own->residual),
    };
}

/* The text is one block for those that follow blocks. */
static inline fb_tensor shown_score_once(const shown *s, const fb_bound_rule *rule,
                                         fb_signals see)
{
    const int64_t state[] = {s->kv_heads, fb_bound_rule_choices(rule)->state_rows,
                             s->n};

    if (fb_bound_rule_reads_block(rule)) {
        see.state = fb_full(s->ops, 3, state, 0);
        see.state = fb_bound_rule_update(rule, s->ops, &see, FB_AFTER_BLOCK);
    }
    return fb_bound_rule_score_once(rule, s->ops, &see);
}

/* --- scores and choices: of tensors in the scope open at the call --- */

static inline fb_tensor shown_score(const shown *s, const fb_bound_rule *rule,
                                    int64_t layer)
{
    const fb_signals see = shown_signals(s, layer);
    const fb_tensor score = shown_score_once(s, rule, see);

    assert_ok(fb_ops_status(s->ops));
    return score;
}

/* What a rule has said of a text. */
typedef struct shown_scores {
    fb_tensor score[SHOWN_LAYERS], measured[SHOWN_LAYERS];
} shown_scores;

static inline void shown_read(shown_scores *out, const shown *s,
                              const fb_bound_rule *rule)
{
    for (int64_t l = 0; l < s->layers; l++) {
        const fb_signals see = shown_signals(s, l);

        if (fb_select_falls_back(rule, s->n)) continue;
        out->score[l] = shown_score_once(s, rule, see);
        out->measured[l] = fb_bound_rule_measure(rule, s->ops, &see, out->score[l]);
    }
    assert_ok(fb_ops_status(s->ops));
}

static inline void shown_select(fb_selection *out, const shown *s,
                                const fb_bound_rule *rule, const shown_scores *scores,
                                fb_protect protect, int64_t k)
{
    const fb_selector in = {.rule = rule,
                            .protect = protect,
                            .layers = s->layers,
                            .kv_heads = s->kv_heads,
                            .n = s->n,
                            .scores = scores->score,
                            .measured = scores->measured};

    assert_ok(fb_select(out, s->ops, &in, k));
}

static inline bool shown_is_same(const fb_kept *a, const fb_kept *b)
{
    for (int64_t slot = 0; slot < a->n_slots; slot++)
        if (a->count[slot] != b->count[slot] ||
            memcmp(a->position[slot], b->position[slot],
                   (size_t)a->count[slot] * sizeof(int32_t)) != 0)
            return false;
    return true;
}

/* Every entry of a slot that `less` keeps is kept by `more`. */
static inline bool shown_lies_in(const fb_kept *less, const fb_kept *more, int64_t slot)
{
    int64_t j = 0;

    for (int64_t i = 0; i < less->count[slot]; i++, j++) {
        while (j < more->count[slot] &&
               more->position[slot][j] < less->position[slot][i])
            j++;
        if (j == more->count[slot] ||
            more->position[slot][j] != less->position[slot][i])
            return false;
    }
    return true;
}

/* The number of elements that came to `out`. */
static inline int64_t shown_host(const shown *s, fb_tensor a, float *out)
{
    int64_t n = 1;

    for (int d = 0; d < fb_n_dims(s->ops, a); d++)
        n *= fb_size(s->ops, a, d);
    assert_ok(fb_to_host(s->ops, a, out, (size_t)n * sizeof *out));
    return n;
}

/* Largest difference of two scores over the largest of the first. */
static inline double shown_apart(const float *a, const float *b, int64_t n)
{
    double most = 1e-30, off = 0;

    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i]));
        off = fmax(off, fabs((double)a[i] - (double)b[i]));
    }
    return off / most;
}

#endif
