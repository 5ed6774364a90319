/* keyformer.c - attention summed over every query, of logits with Gumbel noise on them.
 *
 *     score[g, j]  =  sum over all queries i, mean over h, of
 *                     softmax_j((x[h, i, j] + zeta[h, i, j]) / tau)
 *
 * x: logits; h: the query heads of kv head g; zeta: standard Gumbel numbers. The noise
 * stands for the tokens that have left and took their share of the softmax with them. A
 * softmax does not change when a row of logits moves, so ln A takes the place of x. The
 * code raises tau by 0.01 with each token of an answer; a context is the prompt, for which it
 * is 1.
 *
 * Reads    attention of all queries, block by block; random numbers.
 * Source   Adnan et al. 2024, "Keyformer: KV Cache Reduction through Key Tokens Selection
 *          for Efficient Generative Inference", arXiv:2403.09054; constants from its code.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct keyformer {
    double tau, recent;
};

static const fb_param keyformer_params[] = {
    FB_REAL(struct keyformer, tau, 1, 0.01, 100, "the authors' code: its first value",
            "temperature of the noisy softmax"),
    FB_REAL(struct keyformer, recent, 0.3, 0, 1, "the authors' code",
            "share of the budget for the newest entries"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct keyformer *keyformer = params;

    choices->reads = FB_READS_ATTENTION_BLOCK | FB_READS_RANDOM;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 1;
    choices->recent_quota = keyformer->recent;
}

static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct keyformer *keyformer = params;
    const fb_tensor exponential = /* of mean 1; -ln of it is a Gumbel number */
        fb_scale(ops, fb_log(ops, see->block_random), -1);
    const fb_tensor noisy = /* what is not seen is -inf and stays it */
        fb_log(ops, fb_div(ops, see->block_attention, exponential));
    const fb_tensor share = fb_softmax(ops, fb_scale(ops, noisy, 1 / keyformer->tau));
    const fb_tensor sum = fb_group_mean(ops, see, fb_sum(ops, share, 1));

    return fb_add(ops, see->state,
                  fb_reshape(ops, sum, 3, (int64_t[]){see->kv_heads, 1, see->m}), 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_reshape(ops, see->state, 2, (int64_t[]){see->kv_heads, see->m});
}

const fb_rule fb_rule_keyformer = {
    FB_RULE_HEAD,
    .name = "keyformer",
    .summary = "most attention so far of logits with Gumbel noise, and the newest",
    .family = "attention",
    .source = "Adnan et al. 2024, arXiv:2403.09054",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = keyformer_params,
    .params_bytes = sizeof(struct keyformer),
    .choose = choose,
    .update = update,
    .score = score,
};
