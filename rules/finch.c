/* finch.c - what the question looks at, every query of it with the same weight per entry.
 *
 *     score[h, j]  =  mean over the last `window` queries i of A[h, i, j] * i
 *
 * then the mean over the query heads of a kv head; no smoothing. A query at position i
 * spreads its attention over the i entries before it, so the factor takes out that later
 * queries have more to look at. The window's own entries have no score and are kept.
 * Made for a window that is the question: `query: aware`, with `window` its length.
 *
 * Reads    attention of the last `window` queries, positions.
 * Source   Corallo & Papotti 2024, "FINCH: Prompt-guided Key-Value Cache Compression",
 *          arXiv:2408.00167, over the whole prompt at once, as kvpress 0.5.5, which counts i
 *          entries for query i (it sees i + 1). The window is the question there.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { HEADS = 0, ENTRIES = 1, QUERIES = 1 };

struct finch {
    int64_t window, normalise;
};

static const fb_param finch_params[] = {
    FB_INT(struct finch, window, 32, 1, 4096, "FlexBudget (published: the question)",
           "how many of the last queries vote"),
    FB_INT(struct finch, normalise, 1, 0, 1, "paper, kvpress 0.5.5",
           "1: attention times the number of entries looked at"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct finch *finch = params;

    choices->reads = FB_READS_WINDOW_ATTENTION | FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->window = finch->window;
    choices->unscored_last = finch->window;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct finch *finch = params;
    const int64_t w = finch->window;
    const fb_tensor own = fb_narrow(ops, see->position, HEADS, 0, 1); /* of any head */
    const fb_tensor last = fb_narrow(ops, own, ENTRIES, see->m - w, w);
    const fb_tensor before = fb_reshape(ops, last, 2, (int64_t[]){w, 1});
    fb_tensor attention = see->window_attention; /* [heads, w, m] */

    if (finch->normalise != 0) attention = fb_mul(ops, attention, before);
    return fb_mean(ops, attention, QUERIES); /* [heads, m] */
}

const fb_rule fb_rule_finch = {
    FB_RULE_HEAD,
    .name = "finch",
    .summary = "what the question looks at, queries weighted by what they see",
    .family = "attention",
    .source = "Corallo & Papotti 2024, arXiv:2408.00167",
    .runs = FB_RUNS_ONE_SHOT,
    .params = finch_params,
    .params_bytes = sizeof(struct finch),
    .effort = "window",
    .choose = choose,
    .score = score,
};
