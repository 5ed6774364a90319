/* forecast.h - what an experiment takes at its longest context, rule by rule and phase by
 * phase, counted before anything is computed (foretell.h).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_FORECAST_H
#define FB_EXPERIMENT_FORECAST_H

#include "experiment/foretell.h"
#include "experiment/plan.h"

/* A budget on the longest context. */
typedef struct fb_forecast_budget {
    char text[32]; /* as asked */
    int64_t k;     /* entries a head */
    double bytes;
} fb_forecast_budget;

typedef struct fb_forecast_rule {
    const char *label; /* lent */
    const fb_bound_rule *rule;
    int n_seeds; /* it is scored once for each in the same reading */
    /* FLOPs that it adds, under the largest budget as shares of the plain pass:
     * what the quota is about, and where a kernel keeps no attention. NAN of a rule that
     * looks ahead, which has no price. */
    double open, fused;
    char *reason; /* why there is none of it; NULL: there is */
} fb_forecast_rule;

typedef struct fb_forecast {
    fb_foretell
        like; /* a cell as all are, without rule and k; what it lends stays lent */
    double token_bytes;  /* keys and values of one, in layers that are evicted from */
    double full_bytes;   /* of all */
    double window_bytes; /* of layers that slide, beside them */
    double plain_flops;  /* of reading the context with a full cache */
    fb_forecast_budget *budgets; /* [n_budgets] */
    fb_forecast_rule *rules;     /* [n_rules] */
    int n_budgets, n_rules;
    /* Of the cell that takes most, alone, where all rules read the context together; what
     * the process has in use besides is in `other`. */
    fb_foretold most;
    const char *heaviest; /* its rule */
} fb_forecast;

/* Rules (label, rule, n_seeds) and budgets (text, k) are copied; labels and rules stay
 * lent. A rule that cannot be run has a reason; FB_BUDGET or
 * the like if none can. */
FB_MUST_USE fb_status fb_forecast_make(fb_forecast *out, const fb_foretell *like,
                                       const fb_forecast_rule *rules, int n_rules,
                                       const fb_forecast_budget *budgets,
                                       int n_budgets);
/* The same of the longest context of a plan, and of the cells that pass the filter. */
FB_MUST_USE fb_status fb_forecast_plan(fb_forecast *out, const fb_plan *plan,
                                       const fb_filter *only);
void fb_forecast_clear(fb_forecast *forecast);

/* FB_USAGE if a context, with what is asked and answered behind it, is longer than the
 * model takes. `help`: what to do. */
FB_MUST_USE fb_status fb_forecast_check_length(const fb_model_facts *facts,
                                               int64_t n_tokens, const char *help);

#endif
