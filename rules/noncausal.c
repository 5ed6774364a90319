/* noncausal.c - what its neighbours look at, later ones as well as earlier ones.
 *
 * The text is cut in chunks of `chunk` tokens. Within each, without a causal mask,
 *
 *     a[h, j]      =  sum over queries i of softmax_j( q[h, i].k[g, j] )
 *     score[g, j]  =  z( pool_3( mean over heads h of g of a[h, j]  *  ||v[g, j]|| ) )
 *
 * z makes the mean over all kv heads of the layer 0 and the deviation (divisor N - 1) 1.
 * A last chunk of l < chunk tokens has fewer queries: its sums count chunk / l times.
 * `tail=kvpress`: as there, it is filled up with keys whose logits are 0, which take part
 * in the softmax, and with queries that look at all alike. The logits are not scaled, in
 * kvpress and in the authors' engine alike; scale=model scales them as attention does.
 * Under skip_first, skip_last these tokens are left out and get the layer's best score.
 *
 * Reads    keys, values, queries of the whole text.
 * Source   Chari and Van Durme 2025, "Compactor: Calibrated Query-Agnostic KV Cache
 *          Compression with Approximate Leverage Scores", arXiv:2507.08143; with values
 *          and pool as kvpress 0.5.5 NonCausalAttnPress.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { TOKENS = 1, CHANNELS = 2, COLUMNS = 2 };
enum { NO_SCALE, MODEL_SCALE };
enum { EXACT, KVPRESS };
static const double SMALLEST_DEVIATION = 1e-6;

struct noncausal {
    int64_t chunk, scale, tail, skip_first, skip_last;
};

static const fb_param noncausal_params[] = {
    FB_INT(struct noncausal, chunk, 256, 1, 65536, "kvpress 0.5.5 (authors: 128)",
           "tokens that look at each other"),
    FB_WORD(struct noncausal, scale, NO_SCALE, "none|model", "authors' code, kvpress",
            "what the logits are scaled by"),
    FB_WORD(struct noncausal, tail, EXACT, "exact|kvpress", "FlexBudget",
            "how a last, shorter chunk is made up for"),
    FB_INT(struct noncausal, skip_first, 0, 0, 4096, "kvpress 0.5.5 (compactor: 8)",
           "first tokens left out"),
    FB_INT(struct noncausal, skip_last, 0, 0, 4096, "kvpress 0.5.5 (compactor: 4)",
           "newest tokens left out"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct noncausal *noncausal = params;

    choices->reads = FB_READS_KEYS | FB_READS_VALUES | FB_READS_QUERIES;
    choices->compares = FB_COMPARES_LAYERS;
    choices->queries = INT64_MAX;
    choices->sink = noncausal->skip_first;
    choices->recent = noncausal->skip_last;
    choices->min_tokens = noncausal->skip_first + noncausal->skip_last + 1;
}

/* Mean over the heads of a kv head of the sums a [kv_heads, n] of `n` tokens. */
static fb_tensor look(fb_ops *ops, const fb_signals *see, int64_t first, int64_t n,
                      const struct noncausal *noncausal)
{
    const int64_t g = see->kv_heads, r = see->heads / g, missing = noncausal->chunk - n;
    const bool fills = noncausal->tail == KVPRESS && missing > 0;
    const fb_tensor keys = fb_narrow(ops, see->keys, TOKENS, first, n);
    const fb_tensor queries =
        fb_reshape(ops, fb_narrow(ops, see->queries, TOKENS, first, n), 3,
                   (int64_t[]){g, r * n, see->head_dim});
    fb_tensor z = fb_bmm(ops, queries, false, keys, true), sum; /* [kv_heads, r*n, n] */

    if (noncausal->scale == MODEL_SCALE) z = fb_scale(ops, z, see->scale);
    if (fills)
        z = fb_cat(ops, z, fb_full(ops, 3, (int64_t[]){g, r * n, missing}, 0), COLUMNS);
    sum = fb_scale(ops, fb_sum(ops, fb_softmax(ops, z), 1), 1 / (double)r);
    if (!fills) return fb_scale(ops, sum, (double)noncausal->chunk / (double)n);
    return fb_add(ops, fb_narrow(ops, sum, 1, 0, n), fb_number(ops, (double)missing),
                  1 / (double)noncausal->chunk);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct noncausal *p = params;
    const int64_t n = see->m - p->skip_first - p->skip_last;
    const fb_tensor values = fb_narrow(ops, see->values, TOKENS, p->skip_first, n);
    const fb_tensor square = fb_sum(ops, fb_mul(ops, values, values), CHANNELS);
    fb_tensor all = FB_NONE, some;

    for (int64_t at = 0; at < n; at += p->chunk) {
        const int64_t length = n - at < p->chunk ? n - at : p->chunk;

        some = look(ops, see, p->skip_first + at, length, p);
        all = at == 0 ? some : fb_cat(ops, all, some, 1);
    }
    all = fb_avg_pool1d(ops, fb_mul(ops, all, fb_sqrt(ops, square)), 3);
    return fb_with_best_around(ops, fb_standardise(ops, all, SMALLEST_DEVIATION),
                               p->skip_first, p->skip_last);
}

const fb_rule fb_rule_noncausal = {
    FB_RULE_HEAD,
    .name = "noncausal",
    .summary = "what its neighbours look at, later ones too",
    .family = "mixed",
    .source = "Chari and Van Durme 2025, arXiv:2507.08143",
    .runs = FB_RUNS_ONE_SHOT,
    .params = noncausal_params,
    .params_bytes = sizeof(struct noncausal),
    .effort = "chunk",
    .choose = choose,
    .score = score,
};
