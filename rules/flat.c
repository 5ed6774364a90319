/* flat.c - one budget for all layers and heads: the highest scores of all stay.
 *
 * Every head is sure of its best max(1, floor(alpha * k)) entries, protected ones counted;
 * the rest of the budget goes to the highest other scores wherever they are, equal ones to
 * the lower layer, then head. On one layer this is adakv with safeguard = alpha. Nothing
 * can leave before the last layer is scored.
 *
 * Needs    scores that can be compared between layers and heads.
 * Source   KVzip, Kim et al. 2025, arXiv:2505.23416, and Layer-DefensiveKV, arXiv:2510.13334,
 *          both without a safeguard.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct flat {
    double alpha;
};

static const fb_param flat_params[] = {
    FB_REAL(struct flat, alpha, 0, 0, 1, "KVzip's code",
            "share of an equal split that every head is sure of"),
    FB_PARAM_END,
};

static fb_tensor scores(fb_ops *ops, const fb_spread_input *in, int64_t layer,
                        const void *params)
{
    (void)ops;
    (void)params;
    return in->scores[layer];
}

static fb_status spread(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out)
{
    const struct flat *flat = params;
    const int64_t sure = (int64_t)((double)in->k * flat->alpha);

    return fb_spread_by_rank(ops, in, scores, params, sure > 1 ? sure : 1, k_out);
}

const fb_rule fb_rule_flat = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "flat",
    .summary = "the highest scores of all layers and heads together",
    .family = "mixed",
    .source = "Kim et al. 2025, arXiv:2505.23416",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .needs = FB_COMPARES_LAYERS,
    .params = flat_params,
    .params_bytes = sizeof(struct flat),
    .spread = spread,
};
