/* oracle.c - the ceiling: keeps what this very question and answer will look at.
 *
 *     score[g, j]  =  mean over heads h of g, mean over rows i of A[h, i, j]
 *
 * with the rows of the question and of the reference answer on the full cache. Such a
 * score cannot be had in a deployment.
 *
 * Reads    attention not yet paid.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_FUTURE;
    choices->compares = FB_COMPARES_LAYERS;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops;
    (void)params;
    return see->future_attention; /* [heads, m] */
}

const fb_rule fb_rule_oracle = {
    FB_RULE_HEAD,
    .name = "oracle",
    .summary =
        "keeps what the question and answer will look at: the ceiling, not deployable",
    .family = "reference",
    .source = "FlexBudget: attention mass of the teacher-forced pass on the full cache",
    .runs = FB_RUNS_ONE_SHOT,
    .choose = choose,
    .score = score,
};
