/* rkv.c - what the last queries look at, less what others say as well.
 *
 *     a[g, j]  =  max pool of the mean over the last `window` queries i of
 *                 softmax over past entries j of max over heads h of g of s q[h, i].k[g, j]
 *     R[g, j]  =  softmax_j of the mean over entries i of S[i, j]
 *     score    =  weight * a  -  (1 - weight) * R
 *
 * S is the cosine of two keys, 0 with itself; of each row i the last entry j with a cosine
 * above `alike` counts as 0 too: the newest of a group of repetitions is not held against
 * itself (retain=last). The newest `window` entries have no score and are kept.
 *
 * Reads    keys, the last queries, positions (to tell an entry from itself).
 * Source   Cai et al. 2025, "R-KV: Redundancy-aware KV Cache Compression for Reasoning
 *          Models", arXiv:2505.24133; weight as in the paper (its code: 0.07). Where a row has
 *          no entry above `alike` that code sets column 0 to 0; here nothing is.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { NONE, LAST };
enum { ENTRIES = 1 };

struct rkv {
    int64_t window, kernel, retain;
    double weight, alike;
};

static const fb_param rkv_params[] = {
    FB_INT(struct rkv, window, 8, 1, 4096, "paper, its code",
           "how many of the last queries vote"),
    FB_INT(struct rkv, kernel, 7, 1, 63, "the authors' code",
           "width of the smoothing by maxima; odd"),
    FB_REAL(struct rkv, weight, 0.1, 0, 1, "paper (its code: 0.07)",
            "of attention; the rest is that of redundancy"),
    FB_REAL(struct rkv, alike, 0.5, -1, 1, "the authors' code",
            "cosine above which keys say the same"),
    FB_WORD(struct rkv, retain, LAST, "none|last", "paper, its code",
            "last: the newest of those that say the same is spared"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct rkv *rkv = params;

    choices->reads = FB_READS_KEYS | FB_READS_QUERIES | FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->queries = rkv->window;
    choices->unscored_last = rkv->window;
}

/* [kv_heads, n] of the first n entries. */
static fb_tensor attention(fb_ops *ops, const fb_signals *see, int64_t n)
{
    const int64_t g = see->kv_heads, r = see->heads / g, d = see->head_dim;
    const int64_t w = fb_size(ops, see->queries, ENTRIES);
    const fb_tensor keys = fb_narrow(ops, see->keys, ENTRIES, 0, n);
    fb_tensor x = fb_reshape(ops, see->queries, 3, (int64_t[]){g, r * w, d});

    x = fb_bmm(ops, x, false, keys, true); /* [kv_heads, r * w, n] */
    x = fb_amax(ops, fb_reshape(ops, x, 3, (int64_t[]){g, r, w * n}), 1);
    x = fb_scale(ops, fb_reshape(ops, x, 3, (int64_t[]){g, w, n}), see->scale);
    return fb_mean(ops, fb_softmax(ops, x), 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct rkv *rkv = params;
    const int64_t n = see->m - rkv->window;
    const fb_tensor a = fb_max_pool1d(ops, attention(ops, see, n), rkv->kernel);
    const fb_tensor r = fb_narrow(
        ops, fb_redundancy(ops, see, rkv->alike, rkv->retain == LAST), ENTRIES, 0, n);
    const fb_tensor past =
        fb_add(ops, fb_scale(ops, a, rkv->weight), r, rkv->weight - 1);

    return fb_cat(ops, past,
                  fb_full(ops, 2, (int64_t[]){see->kv_heads, rkv->window}, 0), ENTRIES);
}

const fb_rule fb_rule_rkv = {
    FB_RULE_HEAD,
    .name = "rkv",
    .summary = "what the last queries look at, less what is said twice",
    .family = "mixed",
    .source = "Cai et al. 2025, arXiv:2505.24133",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = rkv_params,
    .params_bytes = sizeof(struct rkv),
    .effort = "window",
    .choose = choose,
    .score = score,
};
