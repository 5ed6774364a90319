/* entropy.c - layers whose scores are spread over many entries keep more of them.
 *
 *     p = score / sum of the layer's scores,     E = - sum p ln(p + 1e-16)
 *     k[l]  =  protected  +  share of the rest,   in proportion to  E
 *
 * over all kv heads and scored entries of the layer. (The published E is divided by ln of
 * their number, the same in all layers.) Negative scores are first lifted to 0, all of a
 * layer alike. Heads share evenly, or as an allocation within a layer says that this one is
 * put around: entropy(adakv(...)).
 *
 * Needs    scores that are shares of something, as attention is.
 * Source   LAVa, Shen et al. 2025, "LAVa: Layer-wise KV Cache Eviction with Dynamic Budget
 *          Allocation", arXiv:2509.09754, and its code (whole entries by truncation there).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static fb_tensor measure(fb_ops *ops, const fb_signals *see, fb_tensor score,
                         const void *params)
{
    const fb_tensor own =
        fb_narrow(ops, score, 0, 0, see->kv_heads); /* the first plane */
    const int64_t n = see->kv_heads * fb_size(ops, score, 1);
    const fb_tensor row = fb_reshape(ops, own, 2, (int64_t[]){1, n});
    const fb_tensor deepest = fb_amax(ops, fb_scale(ops, row, -1), 1); /* [1] */
    const fb_tensor lift = fb_maximum(ops, deepest, fb_number(ops, 0));
    const fb_tensor mass = fb_add(ops, row, lift, 1);
    const fb_tensor all = fb_add(ops, fb_sum(ops, mass, 1), fb_number(ops, 1e-16), 1);
    const fb_tensor p = fb_div(ops, mass, all);
    const fb_tensor ln = fb_log(ops, fb_add(ops, p, fb_number(ops, 1e-16), 1));
    const fb_tensor entropy = fb_scale(ops, fb_sum(ops, fb_mul(ops, p, ln), 1), -1);

    (void)params;
    return fb_maximum(ops, entropy, fb_number(ops, 0)); /* [1] */
}

const fb_rule fb_rule_entropy = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "entropy",
    .summary = "more entries for layers whose scores are spread",
    .family = "mixed",
    .source = "Shen et al. 2025, arXiv:2509.09754",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .spread = fb_spread_rest_by_measure,
    .measure = measure,
};
