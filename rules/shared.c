/* shared.c - one set of entries for all heads of a layer.
 *
 *     score[j]  =  sum over kv heads g of inner score[g, j]
 *
 * A cache whose heads hold the same tokens needs one list of positions per layer. Sums ask
 * for scores that can be compared between heads.
 *
 * Source   FlexBudget; the sets of chunk-wise rules (ChunkKV, arXiv:2502.00299) are shared
 *          like this.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { HEADS = 0, ENTRIES = 1 };

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const int64_t columns = fb_size(ops, inner[0], ENTRIES);

    (void)see;
    (void)params;
    return fb_reshape(ops, fb_sum(ops, inner[0], HEADS), 2, (int64_t[]){1, columns});
}

const fb_rule fb_rule_shared = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "shared",
    .summary = "one set of entries for all heads of a layer",
    .family = "mixed",
    .source = "FlexBudget",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .n_inner = 1,
    .wrap = wrap,
};
