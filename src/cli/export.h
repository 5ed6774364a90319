/* export.h - what the command `export` can write.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_EXPORT_H
#define FB_CLI_EXPORT_H

#include "cli/results.h"

/* The rules of an experiment as settings of kvpress, or why there are none. */
FB_MUST_USE fb_status fb_export_peer(const fb_results *results, bool is_json,
                                     fb_text *out);
/* One of them at a budget (-1: none), in a line; to `notes` a line for each thing in which
 * the experiment is not run as presses are there. `spec`: of the results, parsed. */
FB_MUST_USE fb_status fb_export_peer_one(const fb_results *results, const fb_spec *spec,
                                         int rule, int budget, fb_text *out,
                                         fb_text *notes);

#endif
