/* kvcompose.c - what the context looks at when it is read again behind itself.
 *
 *     s[g, j]      =  mean over heads h of g of max over queries i of A[h, i, j]
 *     score[g, j]  =  s[g, j]  +  mean over all kv heads g' of s[g', j]
 *
 * The whole context is fed a second time; its tokens i look at everything before them, the
 * entries j of the first reading and each other. `composite(kvcompose)` is the published
 * form, in which layers share the budget.
 *
 * Reads    attention of a second reading.
 * Source   Akulov et al. 2025, "KVCompose: Efficient Structured KV Cache Compression with
 *          Composite Tokens", arXiv:2509.05165; as kvpress 0.5.5 KVComposePress.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { HEADS = 0 };

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_REPLAY;
    choices->compares = FB_COMPARES_LAYERS;
    choices->replay = (fb_replay){.piece = INT64_MAX, .sees_all = true};
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const fb_tensor own = fb_group_mean(ops, see, see->replay_attention);

    (void)params;
    return fb_add(ops, own, fb_mean(ops, own, HEADS), 1);
}

const fb_rule fb_rule_kvcompose = {
    FB_RULE_HEAD,
    .name = "kvcompose",
    .summary = "what the context looks at when it is read again",
    .family = "attention",
    .source = "Akulov et al. 2025, arXiv:2509.05165",
    .runs = FB_RUNS_ONE_SHOT,
    .choose = choose,
    .score = score,
};
