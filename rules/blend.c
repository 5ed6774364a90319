/* blend.c - two signals in one score, e.g. attention and position.
 *
 *     score  =  x * z(a) + y * z(b),      z(s) = (s - mean) / standard deviation
 *
 * mean and deviation (divisor N - 1) over all scored entries of all kv heads of the
 * layer.
 *
 * Source   FlexBudget.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static const double SMALLEST_DEVIATION = 1e-30; /* equal scores have z = 0 */

struct blend {
    double weights[2];
};

static const fb_param blend_params[] = {
    FB_PAIR(struct blend, weights, 0.7, 0.3, 0, 1e6, "FlexBudget",
            "weight of the first / of the second rule"),
    FB_PARAM_END,
};

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const struct blend *blend = params;
    const fb_tensor a = fb_scale(ops, fb_standardise(ops, inner[0], SMALLEST_DEVIATION),
                                 blend->weights[0]);

    (void)see;
    return fb_add(ops, a, fb_standardise(ops, inner[1], SMALLEST_DEVIATION),
                  blend->weights[1]);
}

const fb_rule fb_rule_blend = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "blend",
    .summary = "two rules' standardised scores, weighted",
    .family = "mixed",
    .source = "FlexBudget",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .n_inner = 2,
    .params = blend_params,
    .params_bytes = sizeof(struct blend),
    .wrap = wrap,
};
