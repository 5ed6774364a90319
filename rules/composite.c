/* composite.c - layers keep composite entries: the heads' best, second best, ... together.
 *
 *     C[l, i]  =  mean over kv heads of the i-th highest score,     C[0, i] = max_l C[l, i]
 *
 * The highest layers * b of all C are counted by layer, b = k less the protected entries;
 * every head of the layer keeps its own best so many. Layer 0 always gets the most; a layer
 * gets at least one entry.
 *
 * Needs    scores that can be compared between layers.
 * Source   Akulov et al. 2025, "KVCompose: Efficient Structured KV Cache Compression with
 *          Composite Tokens", arXiv:2509.05165; as KVComposePress of kvpress 0.5.5, whose
 *          scores come from a second reading of the text.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { HEADS = 0 };

/* [1, columns] */
static fb_tensor composed(fb_ops *ops, fb_tensor scores)
{
    const int64_t n = fb_size(ops, scores, 1);
    const fb_tensor sorted = fb_gather(ops, scores, fb_topk(ops, scores, n));

    return fb_reshape(ops, fb_mean(ops, sorted, HEADS), 2, (int64_t[]){1, n});
}

static fb_tensor rows(fb_ops *ops, const fb_spread_input *in, int64_t layer,
                      const void *params)
{
    fb_tensor row = composed(ops, in->scores[layer]);

    (void)params;
    for (int64_t l = 1; layer == 0 && l < in->n_layers; l++)
        row = fb_maximum(ops, row, composed(ops, in->scores[l]));
    return row;
}

static fb_status spread(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out)
{
    return fb_spread_by_rank(ops, in, rows, params, 1, k_out);
}

const fb_rule fb_rule_composite = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "composite",
    .summary = "more entries for layers whose ranked scores are high, heads alike",
    .family = "mixed",
    .source = "Akulov et al. 2025, arXiv:2509.05165",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .needs = FB_COMPARES_LAYERS,
    .spread = spread,
};
