/* observed_attention.c - attention summed over queries, per query that could look.
 *
 *     score[g, j]  =  sum over queries i of the mean over h of A[h, i, j]
 *                     /  (n - position of j)
 *
 * h: the query heads of kv head g. While text comes in, each entry carries its sum. The newest entries met few queries,
 * near ones, so their averages are high: recency comes in by itself.
 *
 * Reads    attention summed over queries, positions.
 * Source   kvpress ObservedAttentionPress (which cites H2O, but see h2o.c).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_ATTENTION_SUM | FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 1;
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
    const fb_tensor n = fb_full(ops, 1, (int64_t[]){1}, (double)see->n);
    const fb_tensor queries =
        fb_add(ops, n, see->position, -1); /* [kv_heads, m] that saw an entry */
    const fb_tensor sum =
        fb_reshape(ops, see->state, 2, (int64_t[]){see->kv_heads, see->m});

    (void)params;
    return fb_div(ops, sum, queries);
}

const fb_rule fb_rule_observed_attention = {
    FB_RULE_HEAD,
    .name = "observed_attention",
    .summary = "mean attention of the queries that could look",
    .family = "attention",
    .source = "kvpress 0.5.5 ObservedAttentionPress",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .choose = choose,
    .update = update,
    .score = score,
};
