/* choose_words.h - what the command `choose` adds to a choice.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_CHOOSE_WORDS_H
#define FB_CLI_CHOOSE_WORDS_H

#include "cli/cli.h"
#include "report/choice.h"

typedef struct fb_choose_words {
    fb_choice_words words; /* lent by the texts below */
    fb_text peer, peer_notes, next;
} fb_choose_words;

/* Of what was chosen, else of what is nearest: its settings in kvpress, a command to go on
 * with; how many of the rules that the program knows are not in the results at `path`. */
FB_MUST_USE fb_status fb_choose_words_make(fb_choose_words *out,
                                           const fb_choice *choice, const char *path);
void fb_choose_words_clear(fb_choose_words *words);

#endif
