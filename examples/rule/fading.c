/* fading.c - a rule in a file of its own: large values stay, old ones fade.
 *
 *     score[g, j]  =  ||v_j||_2  *  e^( (p_j - n) / life )
 *
 * In words: an entry is worth the size of its value, times e^(-1) for every `life` tokens
 * that it is old. It believes that attention moves by
 * large values, and that text looks back less and less.
 *
 * Reads    values, positions.
 * Source   FlexBudget, as an example.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { WIDTH = 2 }; /* the dimension of a value that goes away */

struct fading {
    double life;
};

static const fb_param fading_params[] = {
    FB_REAL(struct fading, life, 256, 1, 1e6, "FlexBudget",
            "tokens after which a value counts 1/e of what it did"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_VALUES | FB_READS_POSITION;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct fading *fading = params;
    const fb_tensor square = fb_mul(ops, see->values, see->values);
    const fb_tensor size = fb_sqrt(ops, fb_sum(ops, square, WIDTH));
    const fb_tensor now = fb_full(ops, 1, (int64_t[]){1}, (double)see->n);
    const fb_tensor age = fb_add(ops, see->position, now, -1); /* below 0 */

    return fb_mul(ops, size, fb_exp(ops, fb_scale(ops, age, 1 / fading->life)));
}

static const fb_rule fading = {
    FB_RULE_HEAD,
    .name = "fading",
    .summary = "large values, the newer the longer",
    .family = "value",
    .source = "FlexBudget, as an example",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = fading_params,
    .params_bytes = sizeof(struct fading),
    .choose = choose,
    .score = score,
};

FB_EXPORT_RULES(&fading);
