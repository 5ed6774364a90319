/* streaming_llm.c - the first few tokens and the newest ones.
 *
 *     keep j < sink, and the newest k - sink
 *
 * The first tokens receive attention whatever they say ("attention sinks"); losing them
 * breaks the model. Under a common protection of sinks this equals `recency`.
 *
 * Reads    positions.
 * Source   Xiao et al. 2023, "Efficient Streaming Language Models with Attention
 * Sinks", arXiv:2309.17453. Original positions are kept, as kvpress does.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct streaming_llm {
    int64_t sink;
};

static const fb_param streaming_llm_params[] = {
    FB_INT(struct streaming_llm, sink, 4, 0, 4096, "paper, kvpress 0.5.5",
           "first tokens kept under `protect: published`"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct streaming_llm *streaming_llm = params;

    choices->reads = FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->sink = streaming_llm->sink;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    (void)ops;
    return see->position;
}

const fb_rule fb_rule_streaming_llm = {
    FB_RULE_HEAD,
    .name = "streaming_llm",
    .summary = "attention sinks and the newest entries",
    .family = "position",
    .source = "Xiao et al. 2023, arXiv:2309.17453",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = streaming_llm_params,
    .params_bytes = sizeof(struct streaming_llm),
    .choose = choose,
    .score = score,
};
