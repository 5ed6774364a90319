/* evidence_only.c - the tokens that hold the answer, and what the experiment protects.
 *
 * Whether the evidence is enough: where it is not, no budget of this size can do, or the model
 * needs the rest of the text to find it. Takes no budget. The place of the evidence is the
 * task's to know.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->keeps_all = true;
    choices->reference = FB_REFERENCE_EVIDENCE;
}

const fb_rule fb_rule_evidence_only = {
    FB_RULE_HEAD,
    .name = "evidence_only",
    .summary = "the tokens that hold the answer and the protected ones alone: are they "
               "enough?",
    .family = "reference",
    .source = "FlexBudget: a check of samples",
    .runs = FB_RUNS_ONE_SHOT,
    .choose = choose,
};
