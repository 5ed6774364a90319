/* draw.c - the best entries of a rule, and some drawn from the others.
 *
 * Of the k entries that a head can choose, k - floor(share * k) are the best of the inner
 * rule. The others are drawn from the rest without replacement, with weights
 *
 *     softmax over the rest of  score / temperature
 *
 * as the largest values of score / temperature - ln(-ln u), u uniform in (0, 1): the order
 * of successive draws (Gumbel). What a rule misjudges still has a chance.
 *
 * Reads    random numbers of the engine.
 * Source   the random eviction of Chen et al. 2024, "NACL: A General and Effective KV Cache
 *          Eviction Framework for LLMs at Inference Time", arXiv:2408.03675. Default of the
 *          authors' code (PaddlePaddle/Research): of 19 parts 12 by score, 7 drawn, at
 *          temperature 1 on attention summed over the proxies; its proxies see the whole
 *          prompt, here they see what is before them.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { PLANES = 2, HEADS = 0, ENTRIES = 1 }; /* planes: the score, the lottery */
static const double HIGHEST = 3e38;

struct draw {
    double share, temperature;
};

static const fb_param draw_params[] = {
    FB_REAL(struct draw, share, 0.37, 0, 1, "authors' code: 7 of 19",
            "share of the choices that are drawn"),
    FB_REAL(struct draw, temperature, 1, 1e-6, 1e6, "authors' code",
            "what scores are divided by; large: a fair draw"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads |= FB_READS_RANDOM;
    choices->planes = PLANES;
}

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const struct draw *draw = params;
    const int64_t columns = fb_size(ops, inner[0], ENTRIES);
    const fb_tensor u = fb_narrow(ops, see->random, ENTRIES, 0, columns);
    const fb_tensor spread = fb_log(ops, fb_scale(ops, fb_log(ops, u), -1));
    const fb_tensor weight = fb_scale(ops, inner[0], 1 / draw->temperature);

    return fb_cat(ops, inner[0], fb_add(ops, weight, spread, -1), HEADS);
}

/* How many of each head's entries are its best: [kv_heads, 1]. */
static fb_tensor count_sure(fb_ops *ops, const fb_select_input *in, double share)
{
    fb_tensor sure = FB_NONE;

    for (int64_t g = 0; g < in->kv_heads; g++) {
        const int64_t drawn = (int64_t)((double)in->k[g] * share);
        const fb_tensor own =
            fb_full(ops, 2, (int64_t[]){1, 1}, (double)(in->k[g] - drawn));

        sure = g == 0 ? own : fb_cat(ops, sure, own, HEADS);
    }
    return sure;
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const struct draw *draw = params;
    const fb_tensor score = fb_narrow(ops, in->scores, HEADS, 0, in->kv_heads);
    const fb_tensor lottery =
        fb_narrow(ops, in->scores, HEADS, in->kv_heads, in->kv_heads);
    const fb_tensor sure = count_sure(ops, in, draw->share);

    return fb_where(ops, fb_less(ops, fb_rank(ops, score), sure),
                    fb_full(ops, 2, (int64_t[]){1, 1}, HIGHEST), lottery);
}

const fb_rule fb_rule_draw = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "draw",
    .summary = "the rule's best entries, and some drawn from the others",
    .family = "mixed",
    .source = "Chen et al. 2024, arXiv:2408.03675",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .n_inner = 1,
    .params = draw_params,
    .params_bytes = sizeof(struct draw),
    .choose = choose,
    .wrap = wrap,
    .select = select,
};
