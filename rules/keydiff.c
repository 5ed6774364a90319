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

enum { ENTRIES = 1 };

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
    choices->compares = FB_COMPARES_HEADS;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t one_row[] = {see->kv_heads, 1, see->head_dim};
    const fb_tensor keys = fb_unit_rows(ops, see->keys); /* [kv_heads, m, d] */
    const fb_tensor mean = fb_mean(ops, keys, ENTRIES);  /* [kv_heads, d] */
    const fb_tensor anchor = fb_unit_rows(ops, fb_reshape(ops, mean, 3, one_row));
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
