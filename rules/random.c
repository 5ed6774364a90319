/* random.c - the floor: each entry draws a number, the largest stay.
 *
 *     score[g, j]  =  u(seed, document, layer, g, position j),   uniform in (0, 1)
 *
 * The number depends on nothing else, so one draw serves all budgets (smaller kept sets
 * lie inside larger ones). Without protected sinks it is a straw man; see `protect`.
 *
 * Reads    random numbers of the engine.
 * Source   kvpress RandomPress, but independent in every layer and head.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_RANDOM;
    choices->compares = FB_COMPARES_LAYERS;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops;
    (void)params;
    return see->random; /* [kv_heads, m] */
}

const fb_rule fb_rule_random = {
    FB_RULE_HEAD,
    .name = "random",
    .summary = "a fair draw: the floor that a rule has to beat",
    .family = "random",
    .source = "kvpress RandomPress",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .choose = choose,
    .score = score,
};
