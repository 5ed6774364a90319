/* adakv.c - heads share a layer's budget by where the highest scores are.
 *
 * Every head is sure of its best max(1, floor(safeguard * k)) entries; the rest of the
 * layer's kv_heads * k entries goes to the highest scores of all heads together. A head
 * then keeps its own best k[g].
 *
 * Needs    scores that can be compared between heads.
 * Source   Feng et al. 2024, "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget
 *          Allocation for Efficient LLM Inference", arXiv:2407.11550; the safeguard as
 * a floor, as kvpress (the authors blend). Dropped entries are really freed.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct adakv {
    double safeguard;
};

static const fb_param adakv_params[] = {
    FB_REAL(struct adakv, safeguard, 0.2, 0, 1, "paper, kvpress 0.5.5",
            "share of an equal split that every head is sure of"),
    FB_PARAM_END,
};

static fb_status share(fb_ops *ops, const fb_share_input *in, const void *params,
                       int64_t *k_out)
{
    const struct adakv *adakv = params;
    const int64_t sure = (int64_t)((double)in->k * adakv->safeguard);

    return fb_share_by_rank(ops, in, sure > 1 ? sure : 1, k_out);
}

const fb_rule fb_rule_adakv = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "adakv",
    .summary = "more entries for heads with the higher scores, within a layer",
    .family = "mixed",
    .source = "Feng et al. 2024, arXiv:2407.11550",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = adakv_params,
    .params_bytes = sizeof(struct adakv),
    .share = share,
};
