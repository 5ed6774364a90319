/* roco.c - low mean attention leaves, unless the attention varied most.
 *
 *     mu[g, j]    = S1 / c          S1, S2: sums over the queries i >= j of A[g, i, j] and
 *     sigma[g, j] = sqrt(S2 / c - mu^2)     its square; c: how many queries there were
 *
 * A[g]: the mean over the query heads of kv head g. Of the entries that can be chosen, the
 * max(m - r - sink, those that have to leave) of least sigma are candidates, r = recent *
 * budget; of these the ones of least mu leave. So r is not a number of recent entries, in
 * spite of its name, but of entries that stay for their variance, protected ones counted.
 *
 * Reads    attention of all queries, block by block; positions.
 * Source   Ren and Zhu 2024, "On the Efficacy of Eviction Policy for Key-Value Constrained
 *          Generative Language Model Inference", arXiv:2402.06262; the share, the sinks and
 *          the ten newest from its code (EasyKV, mode `encoding`).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct roco {
    double recent;
    int64_t sink;
};

static const fb_param roco_params[] = {
    FB_REAL(struct roco, recent, 0.1, 0, 1, "the authors' code; 0.3 while decoding",
            "share of the budget that stays for its variance"),
    FB_INT(struct roco, sink, 4, 0, 4096, "the authors' code",
           "first tokens that the paper protects"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct roco *roco = params;

    choices->reads = FB_READS_ATTENTION_BLOCK | FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 2;
    choices->planes = 2;
    choices->sink = roco->sink;
    choices->recent = 10;
}

static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t shape[] = {see->kv_heads, 1, see->m};
    const fb_tensor rows = fb_block_mean(ops, see); /* [kv_heads, t, m] */
    const fb_tensor sum = fb_reshape(ops, fb_sum(ops, rows, 1), 3, shape);
    const fb_tensor squares =
        fb_reshape(ops, fb_sum(ops, fb_mul(ops, rows, rows), 1), 3, shape);

    (void)params;
    return fb_add(ops, see->state, fb_cat(ops, sum, squares, 1), 1);
}

static fb_tensor row_of(fb_ops *ops, const fb_signals *see, int64_t row)
{
    return fb_reshape(ops, fb_narrow(ops, see->state, 1, row, 1), 2,
                      (int64_t[]){see->kv_heads, see->m});
}

/* Planes mu and sigma. */
static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const fb_tensor n = fb_full(ops, 1, (int64_t[]){1}, (double)see->n);
    const fb_tensor zero = fb_full(ops, 1, (int64_t[]){1}, 0);
    const fb_tensor queries = fb_add(ops, n, see->position, -1);
    const fb_tensor mean = fb_div(ops, row_of(ops, see, 0), queries);
    const fb_tensor square = fb_div(ops, row_of(ops, see, 1), queries);
    const fb_tensor variance =
        fb_maximum(ops, fb_add(ops, square, fb_mul(ops, mean, mean), -1), zero);

    (void)params;
    return fb_cat(ops, mean, fb_sqrt(ops, variance), 0);
}

/* Entries of a head that are safe for their variance. */
static double safe(const fb_select_input *in, int64_t columns, int64_t k,
                   const struct roco *roco)
{
    const int64_t budget = k + in->m - columns;
    const int64_t leave = columns - k;
    int64_t candidates = in->m - (int64_t)((double)budget * roco->recent) - roco->sink;

    if (candidates < leave) candidates = leave;
    return candidates < columns ? (double)(columns - candidates) : 0;
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const int64_t columns = fb_size(ops, in->scores, 1);
    const fb_tensor mean = fb_narrow(ops, in->scores, 0, 0, in->kv_heads);
    const fb_tensor sigma = fb_narrow(ops, in->scores, 0, in->kv_heads, in->kv_heads);
    double most[FB_MAX_KV_HEADS];

    for (int64_t g = 0; g < in->kv_heads; g++)
        most[g] = safe(in, columns, in->k[g], params);
    /* no mean of attention is above 1 */
    return fb_add(ops, mean,
                  fb_less(ops, fb_rank(ops, sigma), fb_column(ops, most, in->kv_heads)),
                  2);
}

const fb_rule fb_rule_roco = {
    FB_RULE_HEAD,
    .name = "roco",
    .summary = "most attention on average, and those whose attention varied most",
    .family = "attention",
    .source = "Ren and Zhu 2024, arXiv:2402.06262",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = roco_params,
    .params_bytes = sizeof(struct roco),
    .choose = choose,
    .update = update,
    .score = score,
    .select = select,
};
