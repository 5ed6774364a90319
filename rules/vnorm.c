/* vnorm.c - entries with large values stay.
 *
 *     p = 1, 2     score[g, j]  =  || v[g, j] ||_p
 *     p = range    score[g, j]  =  max over channels of v[g, j]  -  min over channels
 *
 * What an entry can add to the output is bounded by its value. The baseline for rules that
 * weigh attention by values. The first tokens have small values: without protected sinks
 * this rule evicts them first. Norms are not comparable between heads.
 *
 * Reads    values.
 * Source   FlexBudget, as a baseline; the range is the magnitude of VaSE (arXiv:2606.03928).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { CHANNELS = 2 }; /* the dimension of the values that goes away */
enum { ONE, TWO, RANGE };

struct vnorm {
    int64_t p;
};

static const fb_param vnorm_params[] = {
    FB_WORD(struct vnorm, p, TWO, "1|2|range", "FlexBudget", "how a value is measured"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_VALUES;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct vnorm *vnorm = params;
    const fb_tensor v = see->values; /* [kv_heads, m, d] */
    fb_tensor high, low;

    if (vnorm->p == ONE) return fb_sum(ops, fb_abs(ops, v), CHANNELS);
    if (vnorm->p == TWO) return fb_sqrt(ops, fb_sum(ops, fb_mul(ops, v, v), CHANNELS));
    high = fb_amax(ops, v, CHANNELS);
    low = fb_scale(ops, fb_amax(ops, fb_scale(ops, v, -1), CHANNELS), -1);
    return fb_add(ops, high, low, -1);
}

const fb_rule fb_rule_vnorm = {
    FB_RULE_HEAD,
    .name = "vnorm",
    .summary = "entries whose values are large",
    .family = "value",
    .source = "FlexBudget, a baseline; range: arXiv:2606.03928",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = vnorm_params,
    .params_bytes = sizeof(struct vnorm),
    .choose = choose,
    .score = score,
};
