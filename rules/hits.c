/* hits.c - a layer keeps as many entries as it has among the highest scores of all.
 *
 * Every head brings its best min(max * b, all) entries, b = k less the protected ones; the
 * highest layers * kv_heads * b of all that were brought are counted by layer, and the
 * budget is shared in proportion to the counts, a layer's heads evenly.
 *
 * Needs    scores that can be compared between layers and heads.
 * Source   Zhou et al. 2024, "DynamicKV: Task-Aware Adaptive KV Cache Compression for Long
 *          Context LLMs", arXiv:2412.14838, and its code, where `max` is 10 (5 in its runs)
 *          and the last layer takes what rounding left; here remainders go by size.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct hits {
    double max;
};

static const fb_param hits_params[] = {
    FB_REAL(struct hits, max, 10, 1, 1e6, "authors' code (their runs: 5)",
            "the most that a head can have, in equal splits"),
    FB_PARAM_END,
};

static fb_tensor brought(fb_ops *ops, const fb_spread_input *in, int64_t layer,
                         const void *params)
{
    const struct hits *hits = params;
    const int64_t all = in->m - in->n_protected;
    const double most = hits->max * (double)(in->k - in->n_protected);
    const int64_t n = most < (double)all ? (int64_t)most : all;

    return fb_gather(ops, in->scores[layer], fb_topk(ops, in->scores[layer], n));
}

static fb_status spread(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out)
{
    FB_TRY(fb_spread_by_rank(ops, in, brought, params, 0, k_out));
    for (int64_t i = 0; i < in->n_layers * in->kv_heads; i++)
        in->room[i / in->kv_heads] += (double)(k_out[i] - in->n_protected);
    return fb_spread_rest_by_weight(in, in->room, k_out);
}

const fb_rule fb_rule_hits = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "hits",
    .summary = "more entries for layers with more of the highest scores",
    .family = "mixed",
    .source = "Zhou et al. 2024, arXiv:2412.14838",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .needs = FB_COMPARES_LAYERS,
    .params = hits_params,
    .params_bytes = sizeof(struct hits),
    .spread = spread,
};
