/* full.c - nothing is evicted: what every rule is compared with.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->keeps_all = true;
}

const fb_rule fb_rule_full = {
    FB_RULE_HEAD,
    .name = "full",
    .summary = "keeps everything: the reference, whatever the budget",
    .family = "reference",
    .source = "no eviction",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .choose = choose,
};
