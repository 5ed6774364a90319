/* template.h - chat templates known by the hash of their text; unknown ones are
 * refused.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_TEMPLATE_H
#define FB_MODEL_TEMPLATE_H

#include "base/hash.h"
#include "base/text.h"

#include <stdbool.h>

/* What stands around the text of a user's turn. */
typedef struct fb_template {
    const char *family; /* "chatml", "llama3", "none", ...; NULL: unknown hash */
    const char *before; /* begin of the conversation to begin of the user's text */
    const char *after;  /* end of the user's text to begin of the model's turn */
    bool has_bos;       /* the text before writes the BOS itself */
    char sha256[FB_HASH_HEX]; /* of the file's template; "" if it has none */
} fb_template;

/* The template of a file's text (NULL: none, family "none": nothing before, newline
 * after). An unknown one leaves family NULL: fb_template_check says so with the way
 * out. */
void fb_template_find(fb_template *out, const char *text);
/* The same by the hash of a text that does not end in a newline. */
void fb_template_of_hash(fb_template *out, const char *sha256);
/* Replaces the template by a family's, as it is where nothing else is known; FB_USAGE
 * with the names. A file's own template of that family stays. */
FB_MUST_USE fb_status fb_template_choose(fb_template *out, const char *family);
/* FB_UNSUPPORTED for an unknown template, naming its hash and `model.template`. */
FB_MUST_USE fb_status fb_template_check(const fb_template *chat_template);

/* The text of a folder's template: that of chat_template.jinja, else `chat_template` of
 * tokenizer_config.json: of several the one called "default". Nothing is added to `out`
 * where there is none. */
FB_MUST_USE fb_status fb_template_read(fb_text *out, bool *is_there,
                                       const char *folder);

#endif
