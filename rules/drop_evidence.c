/* drop_evidence.c - everything stays but the tokens that hold the answer.
 *
 * Whether a sample tests eviction at all: where losing the evidence changes nothing, the model
 * answers from something else, and what a rule keeps says nothing there. Takes no budget. The
 * place of the evidence is the task's to know.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->keeps_all = true;
    choices->reference = FB_REFERENCE_NO_EVIDENCE;
}

const fb_rule fb_rule_drop_evidence = {
    FB_RULE_HEAD,
    .name = "drop_evidence",
    .summary = "everything but the tokens that hold the answer: does the sample test "
               "eviction?",
    .family = "reference",
    .source = "FlexBudget: a check of samples",
    .runs = FB_RUNS_ONE_SHOT,
    .choose = choose,
};
