/* snapkv.c - what the last queries look at, smoothed.
 *
 *     score[h, j]  =  pool_kernel( mean over the last `window` queries i of A[h, i, j]
 * )
 *
 * then the mean over the query heads of a kv head. The softmax runs over all visible
 * entries, the window included; the window's own entries have no score and are kept.
 * The average pool counts its zero padding, so edges are damped.
 *
 * Reads    attention of the last `window` queries.
 * Source   Li et al. 2024, "SnapKV: LLM Knows What You are Looking for Before
 * Generation", arXiv:2404.14469. Defaults of kvpress 0.5.5; the paper's runs: window
 * 32, kernel 7, max.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1 };
enum { AVERAGE, MAXIMUM };

struct snapkv {
    int64_t window, kernel, pool;
};

static const fb_param snapkv_params[] = {
    FB_INT(struct snapkv, window, 64, 1, 4096, "kvpress 0.5.5 (paper: 32)",
           "how many of the last queries vote"),
    FB_INT(struct snapkv, kernel, 5, 1, 63, "kvpress 0.5.5 (paper: 7)",
           "width of the smoothing; odd"),
    FB_WORD(struct snapkv, pool, AVERAGE, "avg|max", "kvpress 0.5.5 (paper: max)",
            "how neighbours are joined"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct snapkv *snapkv = params;

    choices->reads = FB_READS_WINDOW_ATTENTION;
    choices->window = snapkv->window;
    choices->unscored_last = snapkv->window;
    if (snapkv->pool == AVERAGE) choices->pool_average = snapkv->kernel;
    if (snapkv->pool == MAXIMUM) choices->pool_max = snapkv->kernel;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_mean(ops, see->window_attention, QUERIES); /* [heads, m] */
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
    .choose = choose,
    .score = score,
};
