/* tova.c - what the last token looks at, all heads of a layer together.
 *
 *     score[j]  =  mean over all heads h of A[h, n - 1, j]
 *
 * One score for all kv heads of a layer, or with `heads=kv` one for each (the mean over its
 * query heads). The last token itself is kept, as kvpress does; with `protect_last=0` it has
 * to win its place, as in the authors' cache.
 *
 * Reads    attention of the last query.
 * Source   Oren et al. 2024, "Transformers are Multi-State RNNs", arXiv:2401.06104;
 *          `heads=kv` as EasyKV while it decodes.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1 };
enum { LAYER, KV };

struct tova {
    int64_t heads, protect_last;
};

static const fb_param tova_params[] = {
    FB_WORD(struct tova, heads, LAYER, "layer|kv", "paper, kvpress 0.5.5",
            "one score for a layer, or for each kv head"),
    FB_INT(struct tova, protect_last, 1, 0, 1, "kvpress 0.5.5 (paper: 0)",
           "1: the last token stays whatever its score"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct tova *tova = params;

    choices->reads = FB_READS_WINDOW_ATTENTION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->window = 1;
    choices->unscored_last = tova->protect_last;
    choices->group = tova->heads == LAYER ? FB_GROUP_LAYER : FB_GROUP_MEAN;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_mean(ops, see->window_attention, QUERIES); /* [heads, m], of one row */
}

const fb_rule fb_rule_tova = {
    FB_RULE_HEAD,
    .name = "tova",
    .summary = "what the last token looks at, one set per layer",
    .family = "attention",
    .source = "Oren et al. 2024, arXiv:2401.06104",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = tova_params,
    .params_bytes = sizeof(struct tova),
    .choose = choose,
    .score = score,
};
