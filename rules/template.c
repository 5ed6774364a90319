/* template.c - a rule that works, to be copied: rename it, change the formula, list it.
 *
 *     score[h, j]  =  max over the last `window` queries i of A[h, i, j]
 *
 * Say here what the rule believes, the formula, what it reads, and where it comes from.
 *
 * Reads    attention of the last `window` queries.
 * Source   FlexBudget, as an example.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1 }; /* the dimension of the attention that goes away */

struct template_ {
    int64_t window;
};

static const fb_param template_params[] = {
    FB_INT(struct template_, window, 16, 1, 4096, "FlexBudget",
           "how many of the last queries vote"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct template_ *template = params;

    choices->reads = FB_READS_WINDOW_ATTENTION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->window = template->window;
    choices->unscored_last = template->window; /* the window itself has no score */
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_amax(ops, see->window_attention, QUERIES); /* [heads, m] */
}

const fb_rule fb_rule_template = {
    FB_RULE_HEAD,
    .name = "template",
    .summary = "the most that any of the last queries looked at it",
    .family = "attention",
    .source = "FlexBudget",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = template_params,
    .params_bytes = sizeof(struct template_),
    .effort = "window",
    .choose = choose,
    .score = score,
};
