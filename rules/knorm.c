/* knorm.c - entries with short keys stay.
 *
 *     score[g, j]  =  -|| k[g, j] ||_2
 *
 * Keys with a small norm tend to draw attention. Rotary embedding does not change a
 * norm. Norms are not comparable between heads: no head-wise allocation without
 * normalising.
 *
 * Reads    keys.
 * Source   Devoto et al. 2024, "A Simple and Effective L2 Norm-Based Strategy for KV
 * Cache Compression", arXiv:2406.11430; no layer skipped, as kvpress.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { CHANNELS = 2 }; /* the dimension of the keys that goes away */

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const fb_tensor square = fb_mul(ops, see->keys, see->keys); /* [kv_heads, m, d] */
    const fb_tensor norm =
        fb_sqrt(ops, fb_sum(ops, square, CHANNELS)); /* [kv_heads, m] */

    (void)params;
    return fb_scale(ops, norm, -1);
}

const fb_rule fb_rule_knorm = {
    FB_RULE_HEAD,
    .name = "knorm",
    .summary = "entries whose keys are short",
    .family = "key",
    .source = "Devoto et al. 2024, arXiv:2406.11430",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .choose = choose,
    .score = score,
};
