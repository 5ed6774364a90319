/* verify_words.h - what `verify` says in the end, and where it looks for files.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_VERIFY_WORDS_H
#define FB_CLI_VERIFY_WORDS_H

#include "experiment/verify.h"

#define FB_VERIFY_WORDS                                                                \
    "Not in the certificate are the ids of rows and what earlier calls of verify "     \
    "stored. Times and memory peaks are covered by the check of the file, but never "  \
    "compared with those of a new run. A backend of PyTorch promises no bits: there "  \
    "a cell counts if kept positions and answer are the same and every score is "      \
    "within 0.001 (of its size, above one)."

typedef struct fb_verification {
    const fb_results *results;
    const fb_verified *verified; /* n 0: nothing was run again */
    const fb_text *problems;     /* of the file, a line each */
    const char *path;
} fb_verification;

/* The file is as certified, and all cells are equal or within what is promised. */
bool fb_verify_holds(const fb_verification *v);
void fb_verify_add_words(const fb_verification *v, fb_text *out);
void fb_verify_add_json(const fb_verification *v, fb_text *out);

/* A specification whose data of tasks and files of rules are in `folder`: it has their
 * names alone. */
FB_MUST_USE fb_status fb_verify_place_files(const char *spec, const char *folder,
                                            fb_text *out);

#endif
