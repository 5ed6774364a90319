/* h2o.c - heavy hitters: attention summed over every query, and the newest entries.
 *
 *     score[g, j]  =  sum over all queries i of the mean over h of A[h, i, j]
 *
 * h: the query heads of kv head g. While text comes in, each entry carries its sum; what
 * an entry that left had is gone with it. Half of the budget goes to the
 * newest entries by definition, the rest to the heaviest others. Sums favour old
 * entries, which met more queries: that bias is H2O; `observed_attention` divides it
 * out.
 *
 * Reads    attention summed over queries.
 * Source   Zhang et al. 2023, "H2O: Heavy-Hitter Oracle for Efficient Generative
 * Inference of Large Language Models", arXiv:2306.14048.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct h2o {
    double recent;
};

static const fb_param h2o_params[] = {
    FB_REAL(struct h2o, recent, 0.5, 0, 1, "the authors' code: equal parts",
            "share of the budget for the newest entries"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct h2o *h2o = params;

    choices->reads = FB_READS_ATTENTION_SUM;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 1;
    choices->recent_quota = h2o->recent;
}

static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const fb_tensor sum = fb_group_mean(ops, see, see->attention_sum);

    (void)params;
    return fb_add(ops, see->state,
                  fb_reshape(ops, sum, 3, (int64_t[]){see->kv_heads, 1, see->m}), 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_reshape(ops, see->state, 2, (int64_t[]){see->kv_heads, see->m});
}

const fb_rule fb_rule_h2o = {
    FB_RULE_HEAD,
    .name = "h2o",
    .summary = "most attention so far, and the newest entries, half each",
    .family = "attention",
    .source = "Zhang et al. 2023, arXiv:2306.14048",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = h2o_params,
    .params_bytes = sizeof(struct h2o),
    .choose = choose,
    .update = update,
    .score = score,
};
