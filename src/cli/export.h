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

#endif
