/* reread.c - the prompt is cut: only its last tokens, as many as the budget, are read.
 *
 * What an eviction has to beat where memory is short: the entries that are left of one have
 * been made with the whole text in view, those here without. The tokens stand at positions
 * 0, 1, ..., the question behind them; nothing in front of them is protected. Costs a pass
 * over them in place of one over the whole text.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reference = FB_REFERENCE_REREAD;
}

const fb_rule fb_rule_reread = {
    FB_RULE_HEAD,
    .name = "reread",
    .summary = "the prompt cut to the budget: its last tokens, read without the others",
    .family = "reference",
    .source = "FlexBudget: truncation as a baseline",
    .runs = FB_RUNS_ONE_SHOT,
    .choose = choose,
};
