/* params.h - named parameters: a table of rows sets, checks and prints a plain struct.
 *
 * Rules and tasks describe their parameters with rows of fb_param (flexbudget/rule.h);
 * everything that concerns all of them is here. `rows` ends with FB_PARAM_END or is
 * NULL for "no parameters". `values` is the struct that the rows' offsets belong to.
 *
 * Failures are FB_USAGE, and nothing has changed then. The sentence does not say whose
 * parameter it was: callers put that in front with fb_context.
 *
 * The printed form is canonical, hence hashed and stored: declared order, defaults
 * written out, every real as the shortest decimal that reads back as the same double.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_PARAMS_H
#define FB_BASE_PARAMS_H

#include "base/text.h"

#include <flexbudget/rule.h> /* fb_param */

/* Every parameter gets its default. */
void fb_params_init(const fb_param *rows, void *values);

/* Sets one parameter from its text: "64", "0.2", "avg", "0.7/0.3". FB_USAGE for an
 * unknown key (with the nearest, or all of them) and for a value of the wrong form or
 * range (with the range). */
FB_MUST_USE fb_status fb_params_set(const fb_param *rows, void *values, const char *key,
                                    const char *text);

/* "window=64,kernel=5,pool=avg,weights=0.7/0.3"; nothing if there are no rows. */
void fb_params_print(const fb_param *rows, const void *values, fb_text *out);
/* {"window": 64, "kernel": 5, "pool": "avg", "weights": [0.7, 0.3]} */
void fb_params_print_json(const fb_param *rows, const void *values, fb_text *out);

/* One row: its value as above, and what is allowed: "1 to 4096", "avg or max". */
void fb_param_print_value(const fb_param *row, const void *values, fb_text *out);
void fb_param_print_range(const fb_param *row, fb_text *out);

#endif
