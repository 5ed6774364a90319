/* snapkv.c - what the last queries look at, smoothed.
 *
 *     score[h, j]  =  pool_kernel( mean over the last `window` queries i of A[h, i, j] )
 *
 * then the mean over the query heads of a kv head. The window's own entries have no score
 * and are kept. `denominator`: the softmax runs over all visible entries, the window
 * included, so a query that looks at its neighbours counts for less; or over the entries
 * before the window alone, as R-KV and MorphKV do. `edge`: the average pool counts its zero
 * padding, so the first and last few scores are damped; or it divides by the entries that
 * are there.
 *
 * Reads    attention of the last `window` queries.
 * Source   Li et al. 2024, "SnapKV: LLM Knows What You are Looking for Before Generation",
 *          arXiv:2404.14469. Defaults of kvpress 0.5.5; the paper's runs: window 32, kernel
 *          7, max (`snapkv_paper`).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1, COLUMNS = 1, ENTRIES = 2 };
enum { AVERAGE, MAXIMUM };
enum { DAMPED, EXACT };
enum { ALL, PAST };
static const double SMALLEST_MASS = 1e-30; /* a query that looks at nothing before it */

struct snapkv {
    int64_t window, kernel, pool, edge, denominator;
};

static const fb_param snapkv_params[] = {
    FB_INT(struct snapkv, window, 64, 1, 4096, "kvpress 0.5.5 (paper: 32)",
           "how many of the last queries vote"),
    FB_INT(struct snapkv, kernel, 5, 1, 63, "kvpress 0.5.5 (paper: 7)",
           "width of the smoothing; odd"),
    FB_WORD(struct snapkv, pool, AVERAGE, "avg|max", "kvpress 0.5.5 (paper: max)",
            "how neighbours are joined"),
    FB_WORD(struct snapkv, edge, DAMPED, "damped|exact", "kvpress 0.5.5, paper",
            "whether the average pool counts its padding"),
    FB_WORD(struct snapkv, denominator, ALL, "all|past", "kvpress 0.5.5, paper",
            "what the softmax of a query runs over"),
    FB_PARAM_END,
};

/* The engine's average pool is the damped one. */
static bool pools_itself(const struct snapkv *snapkv)
{
    return snapkv->pool == AVERAGE && snapkv->edge == EXACT;
}

static void choose(const void *params, fb_choices *choices)
{
    const struct snapkv *snapkv = params;

    choices->reads = FB_READS_WINDOW_ATTENTION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->window = snapkv->window;
    choices->unscored_last = snapkv->window;
    if (snapkv->pool == MAXIMUM)
        choices->pool_max = snapkv->kernel;
    else if (snapkv->kernel % 2 == 0 || !pools_itself(snapkv))
        choices->pool_average = snapkv->kernel; /* an even one is refused by name */
}

/* Rows of a softmax over these entries alone. */
static fb_tensor renormalise(fb_ops *ops, fb_tensor past)
{
    const int64_t shape[] = {fb_size(ops, past, 0), fb_size(ops, past, QUERIES), 1};
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_MASS);
    const fb_tensor mass = fb_maximum(ops, fb_sum(ops, past, ENTRIES), least);

    return fb_div(ops, past, fb_reshape(ops, mass, 3, shape));
}

/* The average over the entries that a kernel meets, of x [heads, n]. */
static fb_tensor exact_pool(fb_ops *ops, fb_tensor x, int64_t kernel)
{
    const int64_t shape[] = {1, fb_size(ops, x, COLUMNS)};
    const fb_tensor met = fb_avg_pool1d(ops, fb_full(ops, 2, shape, 1), kernel);

    return fb_div(ops, fb_avg_pool1d(ops, x, kernel), met);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct snapkv *snapkv = params;
    const int64_t w = snapkv->window, before = see->m - w;
    fb_tensor attention = see->window_attention, mean; /* [heads, w, m] */

    if (!pools_itself(snapkv) && snapkv->denominator == ALL)
        return fb_mean(ops, attention, QUERIES); /* [heads, m] */
    attention = fb_narrow(ops, attention, ENTRIES, 0, before);
    if (snapkv->denominator == PAST) attention = renormalise(ops, attention);
    mean = fb_mean(ops, attention, QUERIES);
    if (pools_itself(snapkv)) mean = exact_pool(ops, mean, snapkv->kernel);
    return fb_cat(ops, mean, fb_full(ops, 2, (int64_t[]){see->heads, w}, 0), COLUMNS);
}

const fb_rule fb_rule_snapkv = {
    FB_RULE_HEAD,
    .name = "snapkv",
    .summary = "what the last queries look at, smoothed",
    .family = "attention",
    .source = "Li et al. 2024, arXiv:2404.14469",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = snapkv_params,
    .params_bytes = sizeof(struct snapkv),
    .effort = "window",
    .choose = choose,
    .score = score,
};
