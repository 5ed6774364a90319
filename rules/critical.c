/* critical.c - a rule's best entries, then those whose values also move the output.
 *
 *     N[g, j]  =  mean over heads h of g of  || W_O[h] v[g, j] ||_1
 *
 * Of the k entries that a head keeps, floor(first * k) are the best by the inner score
 * (what is protected counts among them), the others the best by (score + epsilon) * N.
 * Inside `adakv` heads share the budget by the inner score.
 *
 * Reads    values, output weights, and what the inner rule reads.
 * Source   Feng et al. 2025, "Identify Critical KV Cache in LLM Inference from an Output
 *          Perturbation Perspective", arXiv:2502.03805; as kvpress 0.5.5 CriticalKVPress.
 *          Its CriticalAdaKVPress also forces the entries that AdaKV's safeguard makes
 *          sure: `adakv(critical(..., safeguard=0.2), safeguard=0.2)`.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static const double HIGHEST = 3e38; /* above any score */

struct critical {
    double first, epsilon, safeguard;
};

static const fb_param critical_params[] = {
    FB_REAL(struct critical, first, 0.5, 0, 1, "paper, kvpress 0.5.5",
            "share of a head's entries that the inner score alone chooses"),
    FB_REAL(struct critical, epsilon, 1e-4, 0, 1, "paper, kvpress 0.5.5",
            "added to the inner score before it is weighed"),
    FB_REAL(struct critical, safeguard, 0, 0, 1, "FlexBudget (kvpress: that of AdaKV)",
            "share of an equal split that the inner score chooses at least"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads |= FB_READS_VALUES | FB_READS_OUTPUT_WEIGHT;
    choices->planes = 2;
}

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const struct critical *critical = params;
    const fb_tensor epsilon = fb_full(ops, 1, (int64_t[]){1}, critical->epsilon);
    const fb_tensor norm = fb_output_norm(ops, see, fb_size(ops, inner[0], 1));
    const fb_tensor second = fb_mul(ops, fb_add(ops, inner[0], epsilon, 1), norm);

    return fb_cat(ops, inner[0], second, 0);
}

/* [kv_heads, 1] how many columns of each head the inner score alone chooses. */
static fb_tensor count_first(fb_ops *ops, const fb_select_input *in,
                             const struct critical *critical)
{
    const int64_t n_protected = in->m - fb_size(ops, in->scores, 1);
    double count[FB_MAX_KV_HEADS];
    int64_t sum = 0, mean, sure;

    for (int64_t g = 0; g < in->kv_heads; g++)
        sum += in->k[g] + n_protected;
    mean = sum / in->kv_heads;
    sure = (int64_t)((double)mean * critical->safeguard);
    for (int64_t g = 0; g < in->kv_heads; g++) {
        int64_t first = (int64_t)((double)(in->k[g] + n_protected) * critical->first);

        first = (first > sure ? first : sure) - n_protected;
        count[g] = (double)(first < in->k[g] ? first : in->k[g]);
    }
    return fb_column(ops, count, in->kv_heads);
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const int64_t g = in->kv_heads;
    const fb_tensor inner = fb_narrow(ops, in->scores, 0, 0, g);
    const fb_tensor second = fb_narrow(ops, in->scores, 0, g, g);
    const fb_tensor is_first =
        fb_less(ops, fb_rank(ops, inner), count_first(ops, in, params));

    return fb_where(ops, is_first, fb_full(ops, 1, (int64_t[]){1}, HIGHEST), second);
}

const fb_rule fb_rule_critical = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "critical",
    .summary = "a rule's best, then those whose values also move the output",
    .family = "mixed",
    .source = "Feng et al. 2025, arXiv:2502.03805",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = critical_params,
    .params_bytes = sizeof(struct critical),
    .choose = choose,
    .wrap = wrap,
    .select = select,
};
