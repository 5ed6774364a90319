/* defensive.c - entries that any of the last queries needs, not only most of them.
 *
 *     P[h, i]   =  pool_kernel(A[h, i]), scaled to the sum that it had before
 *     M[g, j]   =  max over heads h of g and the last `window` queries i of P[h, i, j]
 *     N[g, j]   =  mean over heads h of g of || W_O[h] v[g, j] ||_1
 *     score     =  max(M[g, j], mean_j M[g, j])  *  N[g, j] / sum over all g of N[g, j]
 *
 * over entries before the window; the mean is a floor for what was never looked at. In each
 * head those that hold the first `mass` - b of its mean attention stay first, at most k -
 * window of them, where b is the window's own share of the attention. The authors took b
 * from the last columns before the window (bias=code), by an oversight as it seems.
 *
 * Which these are depends on the budget, but what a larger budget keeps contains what a
 * smaller one keeps, so there is an order for all budgets: by score, but the p-th of those of
 * its head (from 0) has a place before kv_heads * p + 1 among all entries of the layer. The
 * result is the score that stood at the place of an entry. Equal splits take it head by head.
 *
 * Reads    attention of the last `window` queries, values, output weights.
 * Source   Feng et al. 2025, "Taming the Fragility of KV Cache Eviction in LLM Inference",
 *          arXiv:2510.13334, and the authors' code (efficient_defensivekv_press.py). Its
 *          heads share a layer's budget: `adakv(defensive, safeguard=0)`.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1, COLUMNS = 2 };
enum { TRUE_BIAS, CODE_BIAS };
/* Of `order`. Random layers of 2 heads and 3000 entries can take hundreds; with 24, 4 in 100
 * choices of 2 or 3 heads were not the authors', by at most 1.2 % of what is kept. */
enum { ROUNDS = 24 };
static const double SMALLEST_SUM = 1e-30; /* nothing was looked at: 0, not 0/0 */

struct defensive {
    int64_t window, kernel, bias;
    double mass;
};

static const fb_param defensive_params[] = {
    FB_INT(struct defensive, window, 32, 1, 4096, "the authors' code",
           "how many of the last queries are looked at"),
    FB_INT(struct defensive, kernel, 5, 1, 63, "the authors' code",
           "width of the smoothing; odd"),
    FB_WORD(struct defensive, bias, TRUE_BIAS, "true|code",
            "FlexBudget (authors: code)", "whose attention counts as the window's own"),
    FB_REAL(struct defensive, mass, 0.9, 0, 1, "the authors' code",
            "share of the attention that is kept in any case"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct defensive *defensive = params;

    choices->reads =
        FB_READS_WINDOW_ATTENTION | FB_READS_VALUES | FB_READS_OUTPUT_WEIGHT;
    choices->compares = FB_COMPARES_LAYERS;
    choices->window = defensive->window;
    choices->unscored_last = defensive->window;
    if (defensive->kernel % 2 == 0)
        choices->pool_average = defensive->kernel; /* refused */
}

/* All elements of x in one row. */
static fb_tensor row(fb_ops *ops, fb_tensor x)
{
    int64_t n = 1;

    for (int i = 0; i < fb_n_dims(ops, x); i++)
        n *= fb_size(ops, x, i);
    return fb_reshape(ops, x, 2, (int64_t[]){1, n});
}

/* M with its floor [kv_heads, c], of attention [heads, w, c]. */
static fb_tensor worst_case(fb_ops *ops, const fb_signals *see, fb_tensor attention,
                            int64_t kernel)
{
    const int64_t w = fb_size(ops, attention, QUERIES);
    const int64_t c = fb_size(ops, attention, COLUMNS), g = see->kv_heads;
    const fb_tensor pooled = fb_avg_pool1d(ops, attention, kernel);
    const fb_tensor sum =
        fb_maximum(ops, fb_sum(ops, pooled, COLUMNS), fb_number(ops, SMALLEST_SUM));
    const fb_tensor factor = fb_div(ops, fb_sum(ops, attention, COLUMNS), sum);
    fb_tensor most =
        fb_mul(ops, pooled, fb_reshape(ops, factor, 3, (int64_t[]){see->heads, w, 1}));

    most = fb_reshape(ops, most, 3, (int64_t[]){g, see->heads / g * w, c});
    most = fb_amax(ops, most, QUERIES);
    return fb_maximum(ops, most,
                      fb_reshape(ops, fb_mean(ops, most, 1), 2, (int64_t[]){g, 1}));
}

/* N over its sum, [kv_heads, c]. */
static fb_tensor output_share(fb_ops *ops, const fb_signals *see, int64_t c)
{
    const fb_tensor norm = fb_output_norm(ops, see, c);
    const fb_tensor sum =
        fb_maximum(ops, fb_sum(ops, norm, 0), fb_number(ops, SMALLEST_SUM));

    return fb_div(ops, norm, sum);
}

/* b [1]: the mean mass of `n` columns of the window's attention from `first` on. */
static fb_tensor own_mass(fb_ops *ops, fb_tensor attention, int64_t first, int64_t n)
{
    const fb_tensor own = fb_narrow(ops, attention, COLUMNS, first, n);

    return fb_mean(ops, row(ops, fb_sum(ops, own, COLUMNS)), 1);
}

/* 1 where an entry belongs to the first `mass` [1] of mean [kv_heads, c], else 0;
 * `place` [kv_heads, c] in the order of that. */
static fb_tensor is_needed(fb_ops *ops, fb_tensor mean, fb_tensor place, fb_tensor mass)
{
    const int64_t g = fb_size(ops, mean, 0), c = fb_size(ops, mean, 1);
    const fb_tensor sum = fb_reshape(ops, fb_sum(ops, mean, 1), 2, (int64_t[]){g, 1});
    const fb_tensor sorted = fb_gather(ops, mean, fb_topk(ops, mean, c));
    const fb_tensor shares =
        fb_div(ops, sorted, fb_maximum(ops, sum, fb_number(ops, SMALLEST_SUM)));
    const fb_tensor is_before = fb_less(ops, fb_cumsum(ops, shares), mass);
    const fb_tensor count = fb_sum(ops, is_before, 1); /* [kv_heads] */

    return fb_less(ops, place, fb_reshape(ops, count, 2, (int64_t[]){g, 1}));
}

/* x [1, n] in falling order, whatever its own. */
static fb_tensor sort(fb_ops *ops, fb_tensor x)
{
    return fb_gather(ops, x, fb_topk(ops, x, fb_size(ops, x, 1)));
}

/* -0, -1, .. by falling x [1, n]: the place of each element, turned round. */
static fb_tensor places_below(fb_ops *ops, fb_tensor x)
{
    return fb_scale(ops, fb_rank(ops, x), -1);
}

/* The score that stands at the place of each entry, where one that is needed comes before
 * its `due` place; x, needed, due [1, n]. Entries that move up push others back, which may
 * then be late themselves: a few rounds settle that. */
static fb_tensor order(fb_ops *ops, fb_tensor x, fb_tensor needed, fb_tensor due)
{
    const fb_tensor early = fb_scale(ops, due, -1);
    fb_tensor at = places_below(ops, x), by_place, index;

    for (int i = 0; i < ROUNDS; i++)
        at = places_below(ops, fb_where(ops, needed, fb_maximum(ops, at, early), at));
    /* entry of each place, then as numbers that can be sorted: the place of each entry */
    by_place = fb_topk(ops, at, fb_size(ops, x, 1));
    by_place = fb_gather(ops, fb_rank(ops, fb_scale(ops, x, 0)), by_place);
    index = fb_topk(ops, fb_scale(ops, by_place, -1), fb_size(ops, x, 1));
    return fb_gather(ops, sort(ops, x), index);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct defensive *defensive = params;
    const fb_tensor attention = see->window_attention; /* [heads, w, m] */
    const int64_t w = fb_size(ops, attention, QUERIES), c = see->m - w;
    const int64_t g = see->kv_heads, n = w < c ? w : c;
    const fb_tensor past = fb_narrow(ops, attention, COLUMNS, 0, c);
    const fb_tensor mean = fb_mean(
        ops, fb_reshape(ops, past, 3, (int64_t[]){g, see->heads / g * w, c}), QUERIES);
    const fb_tensor bias = defensive->bias == TRUE_BIAS
                               ? own_mass(ops, attention, c, w)
                               : own_mass(ops, attention, c - n, n);
    const fb_tensor mass = fb_add(ops, fb_number(ops, defensive->mass), bias, -1);
    const fb_tensor place = fb_rank(ops, mean); /* [kv_heads, c] */
    const fb_tensor needed = is_needed(ops, mean, place, mass);
    const fb_tensor plain = fb_mul(ops, worst_case(ops, see, past, defensive->kernel),
                                   output_share(ops, see, c));
    const fb_tensor due =
        fb_add(ops, fb_scale(ops, place, (double)g), fb_number(ops, 0.5), -1);
    const fb_tensor ordered =
        order(ops, row(ops, plain), row(ops, needed), row(ops, due));

    return fb_cat(ops, fb_reshape(ops, ordered, 2, (int64_t[]){g, c}),
                  fb_full(ops, 2, (int64_t[]){g, w}, 0), 1);
}

const fb_rule fb_rule_defensive = {
    FB_RULE_HEAD,
    .name = "defensive",
    .summary = "what any of the last queries looks at, not only most of them",
    .family = "mixed",
    .source = "Feng et al. 2025, arXiv:2510.13334",
    .runs = FB_RUNS_ONE_SHOT,
    .params = defensive_params,
    .params_bytes = sizeof(struct defensive),
    .effort = "window",
    .choose = choose,
    .score = score,
};
