/* trig.c - what the mean query, turned to positions ahead, looks at; and lively keys.
 *
 * Per query head, in pairs f of channels that rotary embedding turns together, with q the
 * text's queries before it:
 *
 *     u            =  mean over the offsets o of R(n + o) mean_i q[i]
 *     score[h, j]  =  k[j].u  +  norm * sum_f (mean_i |q[i]_f| - |mean_i q[i]_f|) |k[j]_f|
 *
 * then the largest of the query heads of a kv head. The published first term is a sum of
 * cosines over distances, of keys before rotary embedding: the same number. Offsets are
 * 1, 2, 4, .. up to `offset` (offsets=powers) or 0 .. `offset` - 1 (offsets=next). In a stream
 * the means are over all queries so far.
 *
 * Reads    keys, queries of the whole text, the model's rotation.
 * Source   Mao et al. 2026, "TriAttention: Efficient Long Reasoning with Trigonometric KV
 *          Compression", arXiv:2604.04921, and the authors' code (triattention.py,
 *          pruning_utils.py: pruned per layer and kv head, mean over the offsets). There
 *          the means of queries come from a calibration text and the prompt is not
 *          evicted from; here they are those of the text itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { TOKENS = 1, CHANNELS = 2 };
enum { POWERS, NEXT };
static const double SMALLEST_DEVIATION = 1e-6;

struct trig {
    int64_t offsets, offset, norm, zscore, recent;
};

static const fb_param trig_params[] = {
    FB_WORD(struct trig, offsets, POWERS, "powers|next", "the authors' code",
            "how far ahead queries are expected"),
    FB_INT(struct trig, offset, 65536, 1, 65536, "the authors' code",
           "the farthest offset, or how many"),
    FB_INT(struct trig, norm, 1, 0, 1, "the authors' code",
           "1: with the term of the keys' sizes"),
    FB_INT(struct trig, zscore, 0, 0, 1, "the authors' code",
           "1: each query head's scores are standardised"),
    FB_INT(struct trig, recent, 128, 0, 65536, "the authors' runtime",
           "newest tokens kept under `protect: published`"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct trig *trig = params;

    choices->reads = FB_READS_KEYS | FB_READS_QUERIES | FB_READS_ROTATION;
    choices->layer_rows = 2; /* means of the queries and of their sizes */
    choices->group = FB_GROUP_MAX;
    choices->recent = trig->recent;
}

/* Mean cosine and sine [1, c] of the rotations at the offsets. */
static void mean_rotation(fb_ops *ops, const fb_signals *see, const struct trig *trig,
                          fb_tensor *cosine, fb_tensor *sine)
{
    const int64_t least = trig->offsets == POWERS ? 1 : 0;
    fb_tensor c, s;
    int64_t half;

    fb_rotation(ops, see, see->next + least, 1,
                trig->offsets == NEXT ? trig->offset : 1, cosine, sine);
    for (int64_t o = 2; trig->offsets == POWERS && o <= trig->offset; o *= 2) {
        fb_rotation(ops, see, see->next + o, 1, 1, &c, &s);
        *cosine = fb_cat(ops, *cosine, c, 0);
        *sine = fb_cat(ops, *sine, s, 0);
    }
    half = fb_size(ops, *cosine, 1);
    *cosine = fb_reshape(ops, fb_mean(ops, *cosine, 0), 2, (int64_t[]){1, half});
    *sine = fb_reshape(ops, fb_mean(ops, *sine, 0), 2, (int64_t[]){1, half});
}

/* |x_f| [B, n, c] of the pairs (f, f + c) of x [B, n, d]. */
static fb_tensor sizes(fb_ops *ops, fb_tensor x, int64_t c)
{
    const fb_tensor a = fb_narrow(ops, x, CHANNELS, 0, c);
    const fb_tensor b = fb_narrow(ops, x, CHANNELS, c, c);

    return fb_sqrt(ops, fb_add(ops, fb_mul(ops, a, a), fb_mul(ops, b, b), 1));
}

/* Pairs of channels that the model turns. */
static int64_t pairs(fb_ops *ops, const fb_signals *see)
{
    fb_tensor cosine, sine;

    fb_rotation(ops, see, 0, 1, 1, &cosine, &sine);
    return fb_size(ops, cosine, 1);
}

/* Rows of x [heads, m] with mean 0 and deviation (divisor N) 1. */
static fb_tensor standardise(fb_ops *ops, fb_tensor x)
{
    const int64_t column[] = {fb_size(ops, x, 0), 1}, m = fb_size(ops, x, 1);
    const fb_tensor mean = fb_reshape(ops, fb_mean(ops, x, 1), 2, column);
    const fb_tensor variance = fb_reshape(ops, fb_var(ops, x, 1), 2, column);
    const fb_tensor deviation =
        fb_sqrt(ops, fb_scale(ops, variance, (double)(m - 1) / (double)m));
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_DEVIATION);

    return fb_div(ops, fb_add(ops, x, mean, -1), fb_maximum(ops, deviation, least));
}

/* [heads, 2, d]: the mean query before rotation; and of the sizes of its pairs, c of them. */
static fb_tensor learn(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t h = see->heads, d = see->head_dim;
    const fb_tensor queries = fb_block_queries(ops, see, 0);
    const int64_t t = fb_size(ops, queries, TOKENS), c = pairs(ops, see);
    const fb_tensor mean =
        fb_reshape(ops, fb_mean(ops, queries, TOKENS), 3, (int64_t[]){h, 1, d});
    const fb_tensor size = fb_reshape(ops, fb_mean(ops, sizes(ops, queries, c), TOKENS),
                                      3, (int64_t[]){h, 1, c});
    const fb_tensor rest = fb_full(ops, 3, (int64_t[]){h, 1, d - c}, 0);
    const fb_tensor block =
        fb_cat(ops, mean, fb_cat(ops, size, rest, CHANNELS), TOKENS);

    (void)params;
    return fb_mean_so_far(ops, see, 0, see->layer_state, block, t);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct trig *trig = params;
    const int64_t d = see->head_dim, c = pairs(ops, see);
    const int64_t g = see->kv_heads, h = see->heads, r = h / g;
    const fb_tensor mean = fb_narrow(ops, see->layer_state, TOKENS, 0, 1);
    fb_tensor cosine, sine, ahead, scores, beyond, size;

    mean_rotation(ops, see, trig, &cosine, &sine);
    ahead = fb_rotate(ops, mean, cosine, sine, false);
    ahead = fb_reshape(ops, ahead, 3, (int64_t[]){g, r, d});
    scores = fb_bmm(ops, ahead, false, see->keys, true); /* [kv_heads, r, m] */
    if (trig->norm != 0) {
        size = fb_narrow(ops, fb_narrow(ops, see->layer_state, TOKENS, 1, 1), CHANNELS,
                         0, c);
        beyond = fb_add(ops, size, sizes(ops, mean, c), -1);
        beyond = fb_reshape(ops, beyond, 3, (int64_t[]){g, r, c});
        scores = fb_add(ops, scores,
                        fb_bmm(ops, beyond, false, sizes(ops, see->keys, c), true), 1);
    }
    scores = fb_reshape(ops, scores, 2, (int64_t[]){h, see->m});
    return trig->zscore != 0 ? standardise(ops, scores) : scores;
}

const fb_rule fb_rule_trig = {
    FB_RULE_HEAD,
    .name = "trig",
    .summary = "what the mean query, turned ahead, looks at; and lively keys",
    .family = "mixed",
    .source = "Mao et al. 2026, arXiv:2604.04921",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = trig_params,
    .params_bytes = sizeof(struct trig),
    .choose = choose,
    .learn = learn,
    .score = score,
};
