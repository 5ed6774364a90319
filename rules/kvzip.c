/* kvzip.c - what the model looks at when it is asked to say the context again.
 *
 *     score[g, j]  =  max over heads h of g and queries i of A[h, i, j]
 *
 * The context is fed again behind itself in pieces of `piece` tokens. Before each stands a
 * request to repeat it, from the second on with the last 8 tokens of the piece before, and
 * the end of the user's turn. A: attention of the tokens fed over the first 4 tokens, the
 * entries j of the piece and each other. With `plus`
 *
 *     A[h, i, j] * || W_O[h] v[g, j] ||_2 / || x[i] ||_2
 *
 * stands for A, where x[i] is what attention reads of token i. All heads of all layers share
 * the budget by score: `flat(kvzip)` is the published form, `adakv(kvzip,safeguard=0)` its
 * form for each layer.
 *
 * The authors' code and kvpress feed the user's text without the header of the chat
 * template; what of the header lies behind the 4 sinks is never scored there and leaves
 * first. Here all that was read is fed again.
 *
 * Reads    attention of a second reading, with `plus` values and output weights.
 * Source   Kim et al. 2025, "KVzip: Query-Agnostic KV Cache Compression with Context
 *          Reconstruction", arXiv:2505.23416; as kvpress 0.5.5 KVzipPress, which has `plus`.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { CHANNELS = 3 };

struct kvzip {
    int64_t piece, plus;
};

static const fb_param kvzip_params[] = {
    FB_INT(struct kvzip, piece, 2048, 1, 1048576, "paper, kvpress 0.5.5",
           "tokens that are read again at a time"),
    FB_INT(struct kvzip, plus, 0, 0, 1, "paper (KVzip+ of kvpress: 1)",
           "1: attention counts by what it adds to the residual stream"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct kvzip *kvzip = params;

    choices->reads = FB_READS_REPLAY;
    choices->compares = FB_COMPARES_LAYERS;
    if (kvzip->plus != 0) choices->reads |= FB_READS_VALUES | FB_READS_OUTPUT_WEIGHT;
    choices->group = FB_GROUP_MAX;
    choices->sink = 4;
    choices->replay = (fb_replay){
        .piece = kvzip->piece,
        .first = "\n\nRepeat the previous context exactly.",
        .later = "\n\nRepeat the part of the previous context exactly, starting with",
        .overlap = 8,
        .sinks = 4,
        .by_hidden = kvzip->plus != 0};
}

/* || W_O[h] v[g, j] ||_2 [heads, m], as the form v^T (W_O^T W_O) v: a row of the width of
 * the model for every entry would not fit. */
static fb_tensor output_norm(fb_ops *ops, const fb_signals *see)
{
    const int64_t g = see->kv_heads, r = see->heads / g, d = see->head_dim, m = see->m;
    const fb_tensor zero = fb_full(ops, 1, (int64_t[]){1}, 0);
    const fb_tensor form =
        fb_bmm(ops, see->output_weight, true, see->output_weight, false);
    const fb_tensor rows = fb_reshape(ops, form, 3, (int64_t[]){g, r * d, d});
    const fb_tensor product = fb_bmm(ops, see->values, false, rows, true);
    const fb_tensor values = fb_reshape(ops, see->values, 4, (int64_t[]){g, m, 1, d});
    fb_tensor square = fb_reshape(ops, product, 4, (int64_t[]){g, m, r, d});

    square = fb_sum(ops, fb_mul(ops, square, values), CHANNELS); /* [kv_heads, m, r] */
    square = fb_transpose(ops, fb_maximum(ops, square, zero), 1, 2);
    return fb_sqrt(ops, fb_reshape(ops, square, 2, (int64_t[]){see->heads, m}));
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct kvzip *kvzip = params;

    if (kvzip->plus == 0) return see->replay_attention;
    return fb_mul(ops, see->replay_attention, output_norm(ops, see));
}

const fb_rule fb_rule_kvzip = {
    FB_RULE_HEAD,
    .name = "kvzip",
    .summary = "what the model looks at to repeat the context",
    .family = "attention",
    .source = "Kim et al. 2025, arXiv:2505.23416",
    .runs = FB_RUNS_ONE_SHOT,
    .params = kvzip_params,
    .params_bytes = sizeof(struct kvzip),
    .choose = choose,
    .score = score,
};
