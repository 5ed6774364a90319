/* match_price.h - inside of src/experiment: what a rule takes of the operations that read a
 * context, foretold once for samples that give a rule the same to do.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_MATCH_PRICE_H
#define FB_EXPERIMENT_MATCH_PRICE_H

#include "engine/engine.h"
#include "experiment/plan.h"

typedef struct fb_pricing {
    const fb_plan *plan;
    int *texts; /* [n_texts] samples, of those alike to a rule the first */
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
 * share of the plain pass over the text: the largest over the budgets. In a stream a question
 * is part of the text. */
FB_MUST_USE fb_status fb_price(fb_pricing *pricing, int text, int rule,
                               const fb_bound_rule *bound, double *out);

bool fb_is_above(double quota, double share);

/* The effort (fb_bound_rule_with_effort) of a rule of the spec that keeps to the quota with
 * every text while the next does not, and its share; -1 if the least is too much, and its
 * share of some text. `text`: one with which the rule as written is above. */
FB_MUST_USE fb_status fb_match_solve(fb_pricing *pricing, int rule, double quota,
                                     int text, int64_t *out, double *share_out);

#endif
