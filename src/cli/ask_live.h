/* ask_live.h - answers that grow in place on a terminal.
 *
 * A block per answer, one under the other, drawn again a few times per second: the
 * cursor goes up, every line is written anew. What is drawn never fills more than the
 * screen, for lines that have left it cannot be taken back: a long answer shows its last
 * lines. In the end all of it is taken back, and the whole answers are printed.
 *
 * Where stdout is no terminal that moves, but stderr is one, a line there says how far
 * it is.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_ASK_LIVE_H
#define FB_CLI_ASK_LIVE_H

#include "cli/ask_words.h"

#include <stdio.h>

typedef struct fb_ask_live {
    FILE *stream;    /* drawn on; NULL: nothing is */
    bool has_blocks; /* answers, not only the line */
    fb_ask_look look;
    int descriptor;
    int n_lines;     /* that the next frame takes back */
    int64_t last_ns; /* when a frame was drawn; 0: never */
    fb_text frame;
} fb_ask_live;

/* `answers_go_there`: stdout gets the blocks in the end, so they may grow there. */
void fb_ask_live_open(fb_ask_live *live, const fb_ask_look *look, bool answers_go_there,
                      bool quiet);
/* The watch of fb_ask_options; `self` is the fb_ask_live. */
void fb_ask_live_watch(void *self, const fb_ask *ask);
/* Takes back what is drawn. */
void fb_ask_live_close(fb_ask_live *live);

#endif
