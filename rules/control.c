/* control.c - the matched control of a rule: as many entries of each head, by chance.
 *
 * What the rule within protects stays, and in each layer and kv head as many other entries
 * as it chose are drawn from all that it could choose from. So the two differ in which
 * entries these are, and in nothing else: plain `random` differs in the shares of layers
 * and heads too, and in what a window or a quota keeps.
 *
 * It needs no formula; the draw is the engine's (src/select/select.c), apart from random
 * numbers that the rule itself may read.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

const fb_rule fb_rule_control = {
    FB_RULE_HEAD,
    .kind = FB_KIND_CONTROL,
    .name = "control",
    .summary = "as many entries as the rule chooses, layer by layer and head by head, "
               "by chance",
    .family = "random",
    .source = "FlexBudget: the matched control of a rule",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .n_inner = 1,
};
