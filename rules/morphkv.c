/* morphkv.c - what the last queries look at, each with all heads of its group at once.
 *
 *     score[g, j]  =  sum (or max) over the last `window` queries i of
 *                     softmax over past entries j of sum over heads h of g of s q[h, i].k[g, j]
 *
 * The newest `window` entries have no score and are kept.
 *
 * Reads    keys, the last queries (recomputed, so that entries carry nothing).
 * Source   Ghadia et al. 2025, "Dialogue Without Limits: Constant-Sized KV Caches for
 *          Extended Responses in LLMs", arXiv:2503.00979; the authors' sum_fused and
 *          max_fused, which keep the rows of attention instead of the queries.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { SUM, MAX };
enum { ENTRIES = 1, QUERIES = 1 };

struct morphkv {
    int64_t window, fusion;
};

static const fb_param morphkv_params[] = {
    FB_INT(struct morphkv, window, 32, 1, 4096, "paper",
           "how many of the last queries vote"),
    FB_WORD(struct morphkv, fusion, SUM, "sum|max", "paper",
            "how the votes of several queries are joined"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct morphkv *morphkv = params;

    choices->reads = FB_READS_KEYS | FB_READS_QUERIES;
    choices->compares = FB_COMPARES_LAYERS;
    choices->queries = morphkv->window;
    choices->unscored_last = morphkv->window;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct morphkv *morphkv = params;
    const int64_t w = morphkv->window, n = see->m - w;
    const int64_t g = see->kv_heads, r = see->heads / g, d = see->head_dim;
    const fb_tensor keys = fb_narrow(ops, see->keys, ENTRIES, 0, n);
    const fb_tensor q =
        fb_sum(ops, fb_reshape(ops, see->queries, 3, (int64_t[]){g, r, w * d}), 1);
    fb_tensor x =
        fb_bmm(ops, fb_reshape(ops, q, 3, (int64_t[]){g, w, d}), false, keys,
               true); /* [kv_heads, w, n]: the sum of logits is that of queries */

    x = fb_softmax(ops, fb_scale(ops, x, see->scale));
    x = morphkv->fusion == SUM ? fb_sum(ops, x, QUERIES) : fb_amax(ops, x, QUERIES);
    return fb_cat(ops, x, fb_full(ops, 2, (int64_t[]){g, w}, 0), ENTRIES);
}

const fb_rule fb_rule_morphkv = {
    FB_RULE_HEAD,
    .name = "morphkv",
    .summary = "what the last queries look at, heads of a group as one",
    .family = "attention",
    .source = "Ghadia et al. 2025, arXiv:2503.00979",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = morphkv_params,
    .params_bytes = sizeof(struct morphkv),
    .effort = "window",
    .choose = choose,
    .score = score,
};
