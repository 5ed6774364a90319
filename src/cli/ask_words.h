/* ask_words.h - the answers of `ask` in words: whole blocks, and JSON.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_ASK_WORDS_H
#define FB_CLI_ASK_WORDS_H

#include "experiment/ask.h"

enum { FB_ASK_INDENT = 2 };

/* How a block is written. */
typedef struct fb_ask_look {
    bool has_colour;
    int width; /* lines are broken before this column; 0: not at all */
} fb_ask_look;

/* The rule of an answer, a line. */
void fb_ask_add_heading(const fb_ask *ask, int i, const fb_ask_look *look,
                        fb_text *out);
/* What it kept, how it differs, how long it took; lines in brackets. */
void fb_ask_add_facts(const fb_ask *ask, int i, const fb_ask_look *look, fb_text *out);
/* All blocks, and the time. */
void fb_ask_add_all(const fb_ask *ask, const fb_ask_look *look, bool stopped,
                    fb_text *out);
/* What a reader has to know of how an answer's entries were chosen; at most one call. */
void fb_ask_warn(const fb_ask *ask, int i, fb_report *report, void *self);
void fb_ask_add_json(const fb_ask *ask, const char *question, bool stopped,
                     fb_text *out);

#endif
