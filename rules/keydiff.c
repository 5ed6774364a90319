/* keydiff.c - entries whose keys point elsewhere than most stay.
 *
 *     a[g]  =  mean_j k[g, j] / ||k[g, j]||,      score[g, j]  =  -cos(k[g, j], a[g])
 *
 * The anchor a is made of every key in the cache, protected ones included.
 *
 * Reads    keys, after rotary embedding.
 * Source   Park et al. 2025, "KeyDiff: Key Similarity-Based KV Cache Eviction for
 *          Long-Context LLM Inference", arXiv:2504.15364; in one step, as kvpress.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1, CHANNELS = 2 };
static const double SMALLEST_NORM = 1e-12; /* a key of zeros has no direction */

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
    choices->compares = FB_COMPARES_HEADS;
}

/* x [kv_heads, rows, d] with every row at length 1. */
static fb_tensor unit(fb_ops *ops, fb_tensor x)
{
    const fb_tensor norm = fb_sqrt(ops, fb_sum(ops, fb_mul(ops, x, x), CHANNELS));
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_NORM);
    const fb_tensor length = fb_maximum(ops, norm, least); /* [kv_heads, rows] */
    const int64_t shape[] = {fb_size(ops, x, 0), fb_size(ops, x, 1), 1};

    return fb_div(ops, x, fb_reshape(ops, length, 3, shape));
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t one_row[] = {see->kv_heads, 1, see->head_dim};
    const fb_tensor keys = unit(ops, see->keys);        /* [kv_heads, m, d] */
    const fb_tensor mean = fb_mean(ops, keys, ENTRIES); /* [kv_heads, d] */
    const fb_tensor anchor = unit(ops, fb_reshape(ops, mean, 3, one_row));
    const fb_tensor cosine =
        fb_bmm(ops, keys, false, anchor, true); /* [kv_heads, m, 1] */

    (void)params;
    return fb_scale(ops, fb_reshape(ops, cosine, 2, (int64_t[]){see->kv_heads, see->m}),
                    -1);
}

const fb_rule fb_rule_keydiff = {
    FB_RULE_HEAD,
    .name = "keydiff",
    .summary = "entries whose keys differ from the mean direction",
    .family = "key",
    .source = "Park et al. 2025, arXiv:2504.15364",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .choose = choose,
    .score = score,
};
