/* quantised.c - everything stays, in fewer bits a number: what else the bytes could buy.
 *
 * Keys and values are rounded once the context has been read; 32 channels of an entry have
 * a step and a least number in common, and these are counted: 9 bits a number where 8 are
 * asked for, 5 where 4 are. The formula is in src/engine/quantise.c. Takes no budget: its
 * bytes are to be compared with those of the budgets.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct quantised {
    int64_t bits;
};

static const fb_param quantised_params[] = {
    FB_INT(struct quantised, bits, 8, 2, 8, "FlexBudget", "bits a number"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct quantised *quantised = params;

    choices->keeps_all = true;
    choices->reference = FB_REFERENCE_QUANTISED;
    choices->bits = quantised->bits;
}

const fb_rule fb_rule_quantised = {
    FB_RULE_HEAD,
    .name = "quantised",
    .summary =
        "the full cache in 8 or fewer bits a number: what else the bytes could buy",
    .family = "reference",
    .source = "rounding of 32 channels as q4_1 of llama.cpp",
    .runs = FB_RUNS_ONE_SHOT,
    .params = quantised_params,
    .params_bytes = sizeof(struct quantised),
    .choose = choose,
};
