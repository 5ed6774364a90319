/* recency.c - the newest entries stay.
 *
 *     score[j]  =  position of j
 *
 * Reads    positions.
 * Source   a sliding window over the whole context.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    (void)ops;
    return see->position;
}

const fb_rule fb_rule_recency = {
    FB_RULE_HEAD,
    .name = "recency",
    .summary = "the newest entries",
    .family = "position",
    .source = "sliding window",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .choose = choose,
    .score = score,
};
