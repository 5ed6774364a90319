/* scissorhands.c - what got less than its share of attention at most steps leaves.
 *
 *     score[g, j]  =  - #{ i : j <= i, A[g, i, j] < 1 / m_i }
 *
 * A[g]: the mean over the query heads of kv head g; m_i: entries that query i sees (i + 1
 * where nothing has left). Counted over the last `history` queries. An exact count of a
 * sliding window would need a bit for each of its queries; entries carry two counts, of the
 * stretch of `history` tokens at work and of the one before, and that one counts by the share
 * of the window that still reaches into it.
 *
 * The paper drops half of the cache at once when it is full; here the protocol says when.
 *
 * Reads    attention of all queries, block by block.
 * Source   Liu et al. 2023, "Scissorhands: Exploiting the Persistence of Importance
 *          Hypothesis for LLM KV Cache Compression at Test Time", arXiv:2305.17118.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct scissorhands {
    int64_t history, recent;
};

static const fb_param scissorhands_params[] = {
    FB_INT(struct scissorhands, history, 400, 1, 1 << 20, "the paper",
           "queries that are counted"),
    FB_INT(struct scissorhands, recent, 10, 0, 4096, "the paper",
           "newest tokens that the paper protects"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct scissorhands *rule = params;

    choices->reads = FB_READS_ATTENTION_BLOCK;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 2;
    choices->recent = rule->recent;
}

/* For each query of the block 1 at the entries to which it paid less than its mean:
 * [kv_heads, t, m]. */
static fb_tensor lows(fb_ops *ops, const fb_signals *see)
{
    const fb_tensor rows = fb_block_mean(ops, see); /* [kv_heads, t, m] */
    const fb_tensor seen = fb_block_seen(ops, see); /* [t, m] */
    const int64_t t = fb_size(ops, rows, 1);
    const fb_tensor share =
        fb_div(ops, fb_full(ops, 1, (int64_t[]){1}, 1), fb_sum(ops, seen, 1));
    const fb_tensor low =
        fb_less(ops, rows, fb_reshape(ops, share, 2, (int64_t[]){t, 1}));

    return fb_mul(ops, low, seen);
}

/* The sum over queries [first, first + n) of them: [kv_heads, 1, m]. */
static fb_tensor count(fb_ops *ops, fb_tensor low, int64_t first, int64_t n)
{
    return fb_reshape(ops, fb_sum(ops, fb_narrow(ops, low, 1, first, n), 1), 3,
                      (int64_t[]){fb_size(ops, low, 0), 1, fb_size(ops, low, 2)});
}

/* State: count of the stretch at work, of the one before. */
static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct scissorhands *rule = params;
    const int64_t t = fb_size(ops, see->block_attention, 1);
    const fb_tensor low = lows(ops, see);
    fb_tensor now = fb_narrow(ops, see->state, 1, 0, 1);
    fb_tensor before = fb_narrow(ops, see->state, 1, 1, 1);

    for (int64_t at = 0, n; at < t;
         at += n) { /* a stretch, or what the block has of it */
        const int64_t place = (see->n - t + at) % rule->history;
        const int64_t left = rule->history - place;

        n = t - at < left ? t - at : left;
        if (place == 0) before = now;
        now = place == 0 ? count(ops, low, at, n)
                         : fb_add(ops, now, count(ops, low, at, n), 1);
    }
    return fb_cat(ops, now, before, 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct scissorhands *rule = params;
    const int64_t at_work =
        (see->n - 1) % rule->history + 1; /* tokens of the stretch */
    const double left = 1 - (double)at_work / (double)rule->history;
    const fb_tensor all = fb_add(ops, fb_narrow(ops, see->state, 1, 0, 1),
                                 fb_narrow(ops, see->state, 1, 1, 1), left);

    return fb_scale(ops, fb_reshape(ops, all, 2, (int64_t[]){see->kv_heads, see->m}),
                    -1);
}

const fb_rule fb_rule_scissorhands = {
    FB_RULE_HEAD,
    .name = "scissorhands",
    .summary = "fewest steps with less than an equal share of attention",
    .family = "attention",
    .source = "Liu et al. 2023, arXiv:2305.17118",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = scissorhands_params,
    .params_bytes = sizeof(struct scissorhands),
    .choose = choose,
    .update = update,
    .score = score,
};
