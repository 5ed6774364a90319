/* lookahead.c - what a draft of the answer looks at.
 *
 *     score[g, j]  =  mean over heads h of g of avg pool of mean over the draft's tokens i of
 *                     A[h, i, j]
 *
 * After the context the model goes on with `draft` tokens, greedily; these queries take the
 * place of the last ones of the prompt, which need not be like those to come (`snapkv`).
 * Under `query: aware` the draft answers the question, else it is whatever the model would
 * say of the context.
 *
 * The paper drafts on a small cache, so that the draft is cheap. Here, where the context was
 * just read, the full cache is still there and drafts no dearer by memory. Its second form,
 * which joins the window of the prompt, is a `blend` that no rule is, as the two look at
 * different moments.
 *
 * Reads    attention of a draft.
 * Source   Wang et al. 2025, "Lookahead Q-Cache: Achieving More Consistent KV Cache Eviction
 *          via Pseudo Query", arXiv:2505.20334; neither text with its constants nor code could
 *          be had: the length is provisional, the smoothing that of SnapKV.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct lookahead {
    int64_t draft, kernel;
};

static const fb_param lookahead_params[] = {
    FB_INT(struct lookahead, draft, 8, 1, 4096, "provisional", "tokens of the draft"),
    FB_INT(struct lookahead, kernel, 5, 1, 63, "kvpress 0.5.5 SnapKVPress",
           "width of the smoothing; odd"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct lookahead *lookahead = params;

    choices->reads = FB_READS_REPLAY;
    choices->replay = (fb_replay){.draft = lookahead->draft};
    choices->compares = FB_COMPARES_LAYERS;
    choices->pool_average = lookahead->kernel;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops;
    (void)params;
    return see->replay_attention;
}

const fb_rule fb_rule_lookahead = {
    FB_RULE_HEAD,
    .name = "lookahead",
    .summary = "what a draft of the answer looks at, smoothed",
    .family = "attention",
    .source = "Wang et al. 2025, arXiv:2505.20334",
    .runs = FB_RUNS_ONE_SHOT,
    .params = lookahead_params,
    .params_bytes = sizeof(struct lookahead),
    .effort = "draft",
    .choose = choose,
    .score = score,
};
