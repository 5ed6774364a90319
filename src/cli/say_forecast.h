/* say_forecast.h - what a context takes, as tables and as JSON.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_SAY_FORECAST_H
#define FB_CLI_SAY_FORECAST_H

#include "experiment/forecast.h"

/* Budgets, memory by phase, rules. Without memory by phase: of a backend of which nobody
 * here knows it. */
void fb_say_forecast(const fb_forecast *forecast, bool has_memory, fb_text *out);
/* The same as a JSON object. */
void fb_say_forecast_json(const fb_forecast *forecast, bool has_memory, fb_text *out);

#endif
