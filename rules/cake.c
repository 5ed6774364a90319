/* cake.c - looked at by the last queries, or by some of them and not by others.
 *
 * What queries disagree about may be needed soon, so their variance counts too:
 *
 *     score[h, j]  =  pool_kernel( mean_i A[h, i, j]  +  gamma * var_i A[h, i, j] )
 *
 * over the last `window` queries i, with the variance's divisor window - 1; then the mean
 * over the query heads of a kv head. The window's own entries have no score and are kept.
 * This is the score alone; the paper shares the budget between layers as well.
 *
 * Reads    attention of the last `window` queries.
 * Source   Qin et al. 2025, "CAKE: Cascading and Adaptive KV Cache Eviction with Layer
 *          Preferences", arXiv:2503.12491; defaults of the authors' code.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1 }; /* the dimension of the attention that goes away */

struct cake {
    int64_t window, kernel;
    double gamma;
};

static const fb_param cake_params[] = {
    FB_INT(struct cake, window, 32, 1, 4096, "authors' code",
           "how many of the last queries vote"),
    FB_INT(struct cake, kernel, 5, 1, 63, "authors' code",
           "neighbours averaged together; odd"),
    FB_REAL(struct cake, gamma, 200, 0, 1e6, "authors' code",
            "weight of disagreement between queries"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct cake *cake = params;

    choices->reads = FB_READS_WINDOW_ATTENTION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->window = cake->window;
    choices->unscored_last = cake->window;
    choices->pool_average = cake->kernel;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct cake *cake = params;
    const fb_tensor mean =
        fb_mean(ops, see->window_attention, QUERIES);                  /* [heads, m] */
    const fb_tensor var = fb_var(ops, see->window_attention, QUERIES); /* [heads, m] */

    return fb_add(ops, mean, var, cake->gamma);
}

const fb_rule fb_rule_cake = {
    FB_RULE_HEAD,
    .name = "cake",
    .summary = "what the last queries look at, or disagree about",
    .family = "attention",
    .source = "Qin et al. 2025, arXiv:2503.12491",
    .runs = FB_RUNS_ONE_SHOT,
    .params = cake_params,
    .params_bytes = sizeof(struct cake),
    .effort = "window",
    .choose = choose,
    .score = score,
};
