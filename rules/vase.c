/* vase.c - the values that stand out most, and a draw among the others by attention.
 *
 *     range[g, j]   =  max over channels - min over channels of v[g, j]
 *     weight[g, j]  =  mean over heads h of g of avg pool of mean over the last `window`
 *                      queries i of softmax over past entries j of s q[h, i].k[g, j]
 *
 * Of the k entries that a head keeps, floor(large * k) are those of the widest range (first
 * tokens that are protected count among them); the others are drawn without replacement, with these weights:
 * the highest log weight + Gumbel number (sample=1), or the highest weight (sample=0).
 * The newest `window` entries have no weight and are kept.
 *
 * Reads    keys, values, the last queries, random numbers.
 * Source   VaSE 2026, arXiv:2606.03928, and its code: window 64, a quarter by range, first 4
 *          tokens kept since values of sinks are small.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1, QUERIES = 2, CHANNELS = 2 };
static const double HIGHEST = 3e38; /* above any order */

struct vase {
    int64_t window, kernel, sink, sample;
    double large;
};

static const fb_param vase_params[] = {
    FB_INT(struct vase, window, 64, 1, 4096, "the authors' code",
           "how many of the last queries weigh, and are kept"),
    FB_INT(struct vase, kernel, 5, 1, 63, "the authors' code",
           "width of the smoothing; odd"),
    FB_INT(struct vase, sink, 4, 0, 4096, "the authors' code",
           "first tokens kept under `protect: published`"),
    FB_INT(struct vase, sample, 1, 0, 1, "paper",
           "1: the rest is drawn; 0: the heaviest stay"),
    FB_REAL(struct vase, large, 0.25, 0, 1, "the authors' code: 1024 of 4096",
            "share of a head's entries that the range of values chooses"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct vase *vase = params;

    choices->reads = FB_READS_KEYS | FB_READS_VALUES | FB_READS_QUERIES;
    if (vase->sample != 0) choices->reads |= FB_READS_RANDOM;
    choices->queries = vase->window;
    choices->unscored_last = vase->window;
    choices->sink = vase->sink;
    choices->planes = 2;
}

/* [kv_heads, n] of the first n entries. */
static fb_tensor weights(fb_ops *ops, const fb_signals *see, int64_t n, int64_t kernel)
{
    const int64_t g = see->kv_heads, r = see->heads / g, d = see->head_dim;
    const int64_t w = fb_size(ops, see->queries, ENTRIES);
    const fb_tensor keys = fb_narrow(ops, see->keys, ENTRIES, 0, n);
    fb_tensor x = fb_reshape(ops, see->queries, 3, (int64_t[]){g, r * w, d});

    x = fb_softmax(ops, fb_scale(ops, fb_bmm(ops, x, false, keys, true), see->scale));
    x = fb_mean(ops, fb_reshape(ops, x, 4, (int64_t[]){g, r, w, n}), QUERIES);
    return fb_mean(ops, fb_avg_pool1d(ops, x, kernel), 1);
}

/* -log(-log(u)) of uniform numbers. */
static fb_tensor gumbel(fb_ops *ops, fb_tensor u)
{
    u = fb_scale(ops, fb_log(ops, u), -1);
    return fb_scale(ops, fb_log(ops, u), -1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct vase *vase = params;
    const int64_t g = see->kv_heads, n = see->m - vase->window;
    const fb_tensor none = fb_full(ops, 2, (int64_t[]){g, vase->window}, 0);
    const fb_tensor lowest = fb_full(ops, 1, (int64_t[]){1}, -HIGHEST);
    const fb_tensor low = fb_amax(ops, fb_scale(ops, see->values, -1), CHANNELS);
    const fb_tensor range = fb_add(ops, fb_amax(ops, see->values, CHANNELS), low, 1);
    fb_tensor lot = fb_log(ops, weights(ops, see, n, vase->kernel));

    lot = fb_maximum(ops, lot, lowest);
    if (vase->sample != 0)
        lot = fb_add(ops, lot, gumbel(ops, fb_narrow(ops, see->random, ENTRIES, 0, n)),
                     1);
    return fb_cat(ops, range, fb_cat(ops, lot, none, ENTRIES), 0);
}

/* [kv_heads, 1] how many columns of each head the range chooses. */
static fb_tensor count_large(fb_ops *ops, const fb_select_input *in, double large)
{
    const int64_t n_protected = in->m - fb_size(ops, in->scores, ENTRIES);
    double count[FB_MAX_KV_HEADS];

    for (int64_t g = 0; g < in->kv_heads; g++) {
        const int64_t n =
            (int64_t)((double)(in->k[g] + n_protected) * large) - in->first;

        count[g] = (double)(n < in->k[g] ? n : in->k[g]);
    }
    return fb_column(ops, count, in->kv_heads);
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const struct vase *vase = params;
    const fb_tensor range = fb_narrow(ops, in->scores, 0, 0, in->kv_heads);
    const fb_tensor lot = fb_narrow(ops, in->scores, 0, in->kv_heads, in->kv_heads);
    const fb_tensor is_large =
        fb_less(ops, fb_rank(ops, range), count_large(ops, in, vase->large));

    return fb_where(ops, is_large, fb_full(ops, 1, (int64_t[]){1}, HIGHEST), lot);
}

const fb_rule fb_rule_vase = {
    FB_RULE_HEAD,
    .name = "vase",
    .summary = "values that stand out, and a draw among the others by attention",
    .family = "mixed",
    .source = "VaSE 2026, arXiv:2606.03928",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = vase_params,
    .params_bytes = sizeof(struct vase),
    .effort = "window",
    .choose = choose,
    .score = score,
    .select = select,
};
