/* a2sf.c - accumulated attention that forgets: what was paid long ago counts less.
 *
 *     score[g, j]  =  sum over all queries i of  decay^(n - 1 - i) * A[g, i, j]
 *
 * A[g]: the mean over the query heads of kv head g; n: tokens read. So an entry does not
 * lead for having been there first, as under `h2o`. While text comes in, each entry carries
 * its sum.
 *
 * The paper tunes the factor for each model and task, between 0.1 and 0.99; there is no
 * published default.
 *
 * Reads    attention of all queries, block by block.
 * Source   Jo and Shin 2024, "A2SF: Accumulative Attention Scoring with Forgetting Factor
 *          for Token Pruning in Transformer Decoder", arXiv:2407.20485.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct a2sf {
    double decay, recent;
};

static const fb_param a2sf_params[] = {
    FB_REAL(struct a2sf, decay, 0.9, 0, 1, "ours; the paper tunes it",
            "what a token's attention is worth one token later"),
    FB_REAL(struct a2sf, recent, 0, 0, 1, "ours: the factor prefers what is new anyway",
            "share of the budget for the newest entries"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct a2sf *a2sf = params;

    choices->reads = FB_READS_ATTENTION_BLOCK;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 1;
    choices->recent_quota = a2sf->recent;
}

/* decay^(t-1), ..., decay, 1 as [kv_heads, 1, t]; *all: decay^t. */
static fb_tensor weights(fb_ops *ops, int64_t kv_heads, int64_t t, double decay,
                         double *all)
{
    fb_tensor row = fb_full(ops, 3, (int64_t[]){kv_heads, 1, 1}, 1);

    *all = decay;
    for (int64_t i = 1; i < t; i++) {
        row = fb_cat(ops, fb_full(ops, 3, (int64_t[]){kv_heads, 1, 1}, *all), row, 2);
        *all *= decay;
    }
    return row;
}

static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct a2sf *a2sf = params;
    const fb_tensor rows = fb_block_mean(ops, see); /* [kv_heads, t, m] */
    double all;
    const fb_tensor weight =
        weights(ops, see->kv_heads, fb_size(ops, rows, 1), a2sf->decay, &all);

    return fb_add(ops, fb_scale(ops, see->state, all),
                  fb_bmm(ops, weight, false, rows, false), 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_reshape(ops, see->state, 2, (int64_t[]){see->kv_heads, see->m});
}

const fb_rule fb_rule_a2sf = {
    FB_RULE_HEAD,
    .name = "a2sf",
    .summary = "most attention so far, that of long ago counting less",
    .family = "attention",
    .source = "Jo and Shin 2024, arXiv:2407.20485",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = a2sf_params,
    .params_bytes = sizeof(struct a2sf),
    .choose = choose,
    .update = update,
    .score = score,
};
