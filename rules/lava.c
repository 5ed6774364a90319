/* lava.c - what the last queries look at, times what the head can say at most.
 *
 *     score[h, j]  =  pool_kernel( mean over the last `window` queries i of A[h, i, j] )
 *                     * max over entries before the window of || v[g(h), j] ||_1
 *
 * with the maximum as pool, then the maximum over the query heads of a kv head. The factor
 * is one number for a head: it changes no order within the head and makes heads comparable,
 * for a share of the budget between them. The window's own entries have no score and are
 * kept.
 *
 * Reads    attention of the last `window` queries, values.
 * Source   Shen et al. 2025, "LAVa: Layer-wise KV Cache Eviction with Dynamic Budget
 *          Allocation", arXiv:2509.09754; defaults of the authors' code.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1, ENTRIES = 1, CHANNELS = 2 };

struct lava {
    int64_t window, kernel;
};

static const fb_param lava_params[] = {
    FB_INT(struct lava, window, 32, 1, 4096, "authors' code",
           "how many of the last queries vote"),
    FB_INT(struct lava, kernel, 7, 1, 63, "authors' code",
           "neighbours that share the largest score; odd"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct lava *lava = params;

    choices->reads = FB_READS_WINDOW_ATTENTION | FB_READS_VALUES;
    choices->compares = FB_COMPARES_HEADS;
    choices->window = lava->window;
    choices->unscored_last = lava->window;
    choices->pool_max = lava->kernel;
    choices->group = FB_GROUP_MAX;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct lava *lava = params;
    const int64_t heads = see->heads, kv_heads = see->kv_heads, m = see->m;
    const fb_tensor mean =
        fb_mean(ops, see->window_attention, QUERIES); /* [heads, m] */
    const fb_tensor past =
        fb_narrow(ops, see->values, ENTRIES, 0, see->m - lava->window);
    const fb_tensor norm = fb_sum(ops, fb_abs(ops, past), CHANNELS);
    const fb_tensor most = fb_amax(ops, norm, ENTRIES); /* [kv_heads] */
    const fb_tensor factor = fb_reshape(ops, most, 3, (int64_t[]){kv_heads, 1, 1});
    const fb_tensor grouped =
        fb_reshape(ops, mean, 3, (int64_t[]){kv_heads, heads / kv_heads, m});

    return fb_reshape(ops, fb_mul(ops, grouped, factor), 2, (int64_t[]){heads, m});
}

const fb_rule fb_rule_lava = {
    FB_RULE_HEAD,
    .name = "lava",
    .summary = "what the last queries look at, times the head's largest value",
    .family = "mixed",
    .source = "Shen et al. 2025, arXiv:2509.09754",
    .runs = FB_RUNS_ONE_SHOT,
    .params = lava_params,
    .params_bytes = sizeof(struct lava),
    .effort = "window",
    .choose = choose,
    .score = score,
};
