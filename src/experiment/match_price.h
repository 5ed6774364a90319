/* match_price.h - inside of src/experiment: what a rule takes of the operations that read a
 * context, foretold for each context of a plan.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_MATCH_PRICE_H
#define FB_EXPERIMENT_MATCH_PRICE_H

#include "engine/engine.h"
#include "experiment/plan.h"

typedef struct fb_pricing {
    const fb_plan *plan;
    int *texts; /* [n_texts] documents, of those alike to a rule the first */
    int n_texts;
    /* Operators without numbers, and on these: */
    fb_ops *ops;
    fb_model *model;
    fb_engine *engine;
    int32_t *ids; /* as many as the longest has */
} fb_pricing;

/* `out` is to be closed in any case. */
FB_MUST_USE fb_status fb_pricing_open(fb_pricing *out, const fb_plan *plan);
void fb_pricing_close(fb_pricing *pricing);

/* The open price of `bound` (the rule of the spec with this index, or one in its place) as a
 * share of the plain pass over the text: the largest over the budgets, and of a stream over
 * the questions. */
FB_MUST_USE fb_status fb_price(fb_pricing *pricing, int text, int rule,
                               const fb_bound_rule *bound, double *out);

#endif
