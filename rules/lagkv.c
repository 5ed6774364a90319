/* lagkv.c - entries that stand out against the part of the text that follows stay.
 *
 * The entries after the first `sink` are cut in parts of `lag`. For an entry x (key or
 * value) of a part, with low and high of each channel in the next part:
 *
 *     y  =  (x - low) / (high - low),     s[j]  =  softmax over the part of std(y[j])
 *     score[g, j]  =  (s of the key + s of the value) / 2
 *
 * std over channels, divisor d - 1. Without `cross` the place within the part counts
 * instead, (0 worst, .., lag - 1 best) / lag: then every part keeps the same share, and all
 * heads have the same scores, so no share of a budget between heads can be made of them.
 * Entries that have no next part stay before any other, and if not all of them can, the
 * first `sink` (score 2), then of the last whole part and the tail the newest (1 + position
 * / n). Fewer than sink + 2 lag entries have no score.
 *
 * Reads    keys, after rotary embedding, values, positions.
 * Source   Liang et al. 2025, "LagKV: Lag-Relative Information of the KV Cache Tells Which
 *          Tokens Are Important", arXiv:2504.04704. Over a whole prompt at once, as kvpress
 *          0.5.5, with its defaults (there entries without a next part all score 1); the authors' code (lag 1024, sink 16) evicts part by
 *          part while it reads. A channel that is constant in the next part divides by the
 *          smallest range below instead of 0.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1, CHANNELS = 2 };
static const double SMALLEST_RANGE = 1e-6;

struct lagkv {
    int64_t lag, sink, cross;
};

static const fb_param lagkv_params[] = {
    FB_INT(struct lagkv, lag, 128, 2, 65536, "kvpress 0.5.5 (authors' code: 1024)",
           "entries of a part"),
    FB_INT(struct lagkv, sink, 4, 0, 4096, "kvpress 0.5.5 (authors' code: 16)",
           "first entries, which stay"),
    FB_INT(struct lagkv, cross, 0, 0, 1, "kvpress 0.5.5",
           "1: compare scores across parts, not places within them"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct lagkv *lagkv = params;

    choices->reads = FB_READS_KEYS | FB_READS_VALUES | FB_READS_POSITION;
    /* places are the same in all heads */
    choices->compares = lagkv->cross != 0 ? FB_COMPARES_HEADS : FB_COMPARES_NOTHING;
    choices->sink = lagkv->sink;
    choices->min_tokens = lagkv->sink + 2 * lagkv->lag;
}

/* `n` parts of every head, from entry `first` on: [kv_heads * n, lag, d]. */
static fb_tensor parts(fb_ops *ops, fb_tensor x, int64_t first, int64_t n, int64_t lag)
{
    const int64_t shape[] = {fb_size(ops, x, 0) * n, lag, fb_size(ops, x, CHANNELS)};

    return fb_reshape(ops, fb_narrow(ops, x, ENTRIES, first, n * lag), 3, shape);
}

/* How far the rows of x [parts, lag, d] spread on the scale of `next`: [parts, lag]. */
static fb_tensor stand_out(fb_ops *ops, fb_tensor x, fb_tensor next)
{
    const int64_t shape[] = {fb_size(ops, x, 0), 1, fb_size(ops, x, CHANNELS)};
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_RANGE);
    fb_tensor high = fb_amax(ops, next, ENTRIES), range;
    fb_tensor low = fb_amax(ops, fb_scale(ops, next, -1), ENTRIES); /* its negative */

    range = fb_maximum(ops, fb_add(ops, high, low, 1), least);
    low = fb_reshape(ops, low, 3, shape);
    x = fb_div(ops, fb_add(ops, x, low, 1), fb_reshape(ops, range, 3, shape));
    return fb_softmax(ops, fb_sqrt(ops, fb_var(ops, x, CHANNELS)));
}

/* score [kv_heads, n] of the entries behind the first `sink`, and those around it. */
static fb_tensor with_ends(fb_ops *ops, const fb_signals *see, fb_tensor score,
                           int64_t sink)
{
    const int64_t behind = see->m - sink - fb_size(ops, score, ENTRIES);
    const fb_tensor ones = fb_full(ops, 2, (int64_t[]){see->kv_heads, behind}, 1);
    const fb_tensor last =
        fb_narrow(ops, see->position, ENTRIES, see->m - behind, behind);
    const fb_tensor tail = fb_add(ops, ones, last, 1 / (double)see->n);

    if (sink > 0)
        score = fb_cat(ops, fb_full(ops, 2, (int64_t[]){see->kv_heads, sink}, 2), score,
                       ENTRIES);
    return fb_cat(ops, score, tail, ENTRIES);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct lagkv *lagkv = params;
    const int64_t lag = lagkv->lag, first = lagkv->sink;
    const int64_t n = (see->m - first) / lag - 1; /* parts that have a next one */
    const fb_tensor best =
        fb_full(ops, 1, (int64_t[]){1}, (double)(lag - 1) / (double)lag);
    const fb_tensor keys = stand_out(ops, parts(ops, see->keys, first, n, lag),
                                     parts(ops, see->keys, first + lag, n, lag));
    const fb_tensor values = stand_out(ops, parts(ops, see->values, first, n, lag),
                                       parts(ops, see->values, first + lag, n, lag));
    fb_tensor out = fb_scale(ops, fb_add(ops, keys, values, 1), 0.5);

    if (lagkv->cross == 0) out = fb_add(ops, best, fb_rank(ops, out), -1 / (double)lag);
    out = fb_reshape(ops, out, 2, (int64_t[]){see->kv_heads, n * lag});
    return with_ends(ops, see, out, first);
}

const fb_rule fb_rule_lagkv = {
    FB_RULE_HEAD,
    .name = "lagkv",
    .summary = "entries that stand out against the text that follows",
    .family = "mixed",
    .source = "Liang et al. 2025, arXiv:2504.04704",
    .runs = FB_RUNS_ONE_SHOT,
    .params = lagkv_params,
    .params_bytes = sizeof(struct lagkv),
    .choose = choose,
    .score = score,
};
