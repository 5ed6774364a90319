/* oracle_document.c - the ceiling of a cache that serves every question on its document.
 *
 *     score[g, j]  =  mean over heads h of g, mean over rows i of A[h, i, j]
 *
 * with the rows of all questions on the document in the experiment and of their reference
 * answers, each on the full cache. `oracle` knows which of them will be asked; a rule that
 * evicts before the question cannot, so this ceiling is the one to look at where a document
 * has several. With one question both are the same.
 *
 * Reads    attention not yet paid, of all questions.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_DOCUMENT_FUTURE;
    choices->compares = FB_COMPARES_LAYERS;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops;
    (void)params;
    return see->document_future; /* [heads, m] */
}

const fb_rule fb_rule_oracle_document = {
    FB_RULE_HEAD,
    .name = "oracle_document",
    .summary = "what all questions on the document will look at: a ceiling, not "
               "deployable",
    .family = "reference",
    .source =
        "FlexBudget: attention mass of the teacher-forced passes on the full cache",
    .runs = FB_RUNS_ONE_SHOT,
    .choose = choose,
    .score = score,
};
