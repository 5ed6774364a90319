/* peer_notes.h - what rules in another project's words leave to the experiment.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_PEER_NOTES_H
#define FB_CLI_PEER_NOTES_H

#include "cli/cli.h"

/* A line for rules that are alike: what of this experiment is not as that project runs
 * them. */
void fb_say_peers(const fb_line *line);
/* "--protect published --query aware": those of "protect=published query=aware" that the
 * values of the settings `rows` are not, but for keys that `own` has. */
void fb_peer_add_missing(const fb_option *rows, const fb_values *values,
                         const char *settings, const char *own, fb_text *out);

#endif
