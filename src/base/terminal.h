/* terminal.h - what the other end of a stream is able to show.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_TERMINAL_H
#define FB_BASE_TERMINAL_H

#include <stdbool.h>

/* Of a file descriptor: 1 is stdout, 2 is stderr. */
bool fb_terminal_is(int descriptor);
/* Columns: the terminal's, else COLUMNS, else 80; 20 to 500. */
int fb_terminal_width(int descriptor);
/* Lines: the terminal's, else LINES, else 24; at least 1. */
int fb_terminal_height(int descriptor);
/* A terminal that moves its cursor: TERM is set, and not to dumb. */
bool fb_terminal_moves(int descriptor);
/* Such a terminal, and NO_COLOR (https://no-color.org) is unset or empty. */
bool fb_terminal_has_colour(int descriptor);

#endif
