/* cur.c - entries that are large beside their neighbours, in key and value, stay.
 *
 *     a[j]  =  ||k[j]||^2 / sum of ||k||^2 over the aligned block of j,   b[j] of v alike
 *     score[g, j]  =  a b  (or a, b, (a + b) / 2)  /  its sum over the entries of g
 *
 * a and b stand for the leverage of a row in a CUR decomposition. The last block may be
 * short. Divided by its own sum alone, as kvpress does, its t entries get up to
 * (block / t)^2 times the score of others: recency by accident. So a short block is scaled
 * by its share of a block; `edge=kvpress` leaves that out.
 *
 * Reads    keys, values.
 * Source   Sengupta et al. 2025, "Value-Guided KV Compression for LLMs via Approximated CUR
 *          Decomposition", arXiv:2509.15038. Defaults of kvpress 0.5.5, whose optional
 *          random projection (without a seed there) is left out.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1, CHANNELS = 2 };
enum { PRODUCT, KEY, VALUE, AVERAGE };
enum { EXACT, KVPRESS };
static const double SMALLEST_SUM = 1e-30; /* a block of zeros has no shares */

struct cur {
    int64_t type, block, sink, edge;
};

static const fb_param cur_params[] = {
    FB_WORD(struct cur, type, PRODUCT, "kv_product|key|value|kv_avg", "kvpress 0.5.5",
            "which squared norms count"),
    FB_INT(struct cur, block, 16, 1, 65536, "kvpress 0.5.5",
           "neighbours that an entry is compared with"),
    FB_INT(struct cur, sink, 4, 0, 4096, "kvpress 0.5.5",
           "first tokens kept under `protect: published`"),
    FB_WORD(struct cur, edge, EXACT, "exact|kvpress", "FlexBudget",
            "whether a short last block is scaled by its length"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct cur *cur = params;

    choices->reads = FB_READS_KEYS | FB_READS_VALUES;
    choices->compares = FB_COMPARES_HEADS;
    choices->sink = cur->sink;
}

/* Every row of x over its sum. */
static fb_tensor shares(fb_ops *ops, fb_tensor x)
{
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_SUM);
    const fb_tensor sum = fb_maximum(ops, fb_sum(ops, x, ENTRIES), least);

    return fb_div(ops, x, fb_reshape(ops, sum, 2, (int64_t[]){fb_size(ops, x, 0), 1}));
}

/* Squared norms of x [kv_heads, m, d], each over the sum of its block [kv_heads, m]. */
static fb_tensor leverage(fb_ops *ops, fb_tensor x, const struct cur *cur)
{
    const fb_tensor square = fb_sum(ops, fb_mul(ops, x, x), CHANNELS);
    const int64_t heads = fb_size(ops, x, 0), m = fb_size(ops, x, 1), n = cur->block;
    const int64_t whole = m / n * n, t = m - whole;
    fb_tensor blocks = FB_NONE, rest;

    if (whole > 0) {
        blocks = fb_narrow(ops, square, ENTRIES, 0, whole);
        blocks = fb_reshape(ops, blocks, 2, (int64_t[]){heads * whole / n, n});
        blocks = fb_reshape(ops, shares(ops, blocks), 2, (int64_t[]){heads, whole});
    }
    if (t == 0) return blocks;
    rest = shares(ops, fb_narrow(ops, square, ENTRIES, whole, t));
    if (cur->edge == EXACT) rest = fb_scale(ops, rest, (double)t / (double)n);
    return whole == 0 ? rest : fb_cat(ops, blocks, rest, ENTRIES);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct cur *cur = params;
    fb_tensor keys = FB_NONE, values;

    if (cur->type != VALUE) keys = leverage(ops, see->keys, cur);
    if (cur->type == KEY) return shares(ops, keys);
    values = leverage(ops, see->values, cur);
    if (cur->type == VALUE) return shares(ops, values);
    if (cur->type == PRODUCT) return shares(ops, fb_mul(ops, keys, values));
    return shares(ops, fb_add(ops, keys, values, 1));
}

const fb_rule fb_rule_cur = {
    FB_RULE_HEAD,
    .name = "cur",
    .summary = "entries with large keys and values beside their neighbours'",
    .family = "mixed",
    .source = "Sengupta et al. 2025, arXiv:2509.15038",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = cur_params,
    .params_bytes = sizeof(struct cur),
    .choose = choose,
    .score = score,
};
