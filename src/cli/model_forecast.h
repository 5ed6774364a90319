/* model_forecast.h - what a model takes at a context, of `flexbudget model --context`.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_MODEL_FORECAST_H
#define FB_CLI_MODEL_FORECAST_H

#include "cli/cli.h"
#include "model/model.h"

/* The command's own options, in the order of its table. */
enum {
    FB_MODEL_json,
    FB_MODEL_families,
    FB_MODEL_context,
    FB_MODEL_budgets,
    FB_MODEL_rules,
    FB_MODEL_cache,
    FB_MODEL_weights,
    FB_MODEL_threads,
};

/* How weights are held, as the options say. */
fb_weight_form fb_model_forecast_weights(const fb_values *own);
/* Adds nothing without --context; with `is_json` the member "plan" behind a comma. */
FB_MUST_USE fb_status fb_model_forecast_print(const fb_values *own,
                                              const fb_model *model, bool is_json,
                                              fb_text *out);

#endif
