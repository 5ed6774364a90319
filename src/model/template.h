/* template.h - chat templates known by the hash of their text; unknown ones are
 * refused.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_TEMPLATE_H
#define FB_MODEL_TEMPLATE_H

#include "base/hash.h"

#include <stdbool.h>

/* What stands around the text of a user's turn. */
typedef struct fb_template {
    /* "chatml", "none", "raw" (built-in model), NULL: unknown hash */
    const char *family;
    const char *before; /* begin of the conversation to begin of the user's text */
    const char *after;  /* end of the user's text to begin of the model's turn */
    bool has_bos;       /* the text before writes the BOS itself */
    char sha256[FB_HASH_HEX]; /* of the file's template; "" if it has none */
} fb_template;

/* The template of a file's text (NULL: none, family "none": nothing before, newline
 * after). An unknown one leaves family NULL: fb_template_check says so with the way
 * out. */
void fb_template_find(fb_template *out, const char *text);
/* Replaces the template by a family's ("none", "chatml"); FB_USAGE with the names. */
FB_MUST_USE fb_status fb_template_choose(fb_template *out, const char *family);
/* FB_UNSUPPORTED for an unknown template, naming its hash and `model.template`. */
FB_MUST_USE fb_status fb_template_check(const fb_template *chat_template);

#endif
