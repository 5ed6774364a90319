/* tova.c - what the last token looks at, all heads of a layer together.
 *
 *     score[j]  =  mean over all heads h of A[h, n - 1, j]
 *
 * One score for all kv heads of a layer; the last token itself is kept.
 *
 * Reads    attention of the last query.
 * Source   Oren et al. 2024, "Transformers are Multi-State RNNs", arXiv:2401.06104; the
 * last token is kept, as kvpress does (in the authors' cache it may go).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1 };

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_WINDOW_ATTENTION;
    choices->window = 1;
    choices->unscored_last = 1;
    choices->group = FB_GROUP_LAYER;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_mean(ops, see->window_attention, QUERIES); /* [heads, m], of one row */
}

const fb_rule fb_rule_tova = {
    FB_RULE_HEAD,
    .name = "tova",
    .summary = "what the last token looks at, one set per layer",
    .family = "attention",
    .source = "Oren et al. 2024, arXiv:2401.06104",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .choose = choose,
    .score = score,
};
