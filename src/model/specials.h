/* specials.h - tokens that stand for themselves in a text: control tokens, which are
 * looked for in templates only, and a vocabulary's own texts that are never split.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_SPECIALS_H
#define FB_MODEL_SPECIALS_H

#include "model/tokens.h"

typedef struct fb_special {
    fb_span text;
    int32_t id;
    uint8_t flags;
    bool in_data; /* looked for in data too */
} fb_special;

typedef struct fb_specials {
    fb_special *list; /* [n] sorted by text */
    int32_t n;
    fb_text texts;
    bool begins[256]; /* by first byte */
} fb_specials;

/* Those that are looked for behind the rewriting, or those before it. Nothing of
 * `tokens` is kept. */
FB_MUST_USE fb_status fb_specials_make(fb_specials *out, const fb_tokens *tokens,
                                       bool rewritten);
void fb_specials_clear(fb_specials *specials);
/* The longest one at the start of `text`; those not for data only where they end within
 * the first `n_template` bytes. NULL: none. */
const fb_special *fb_specials_find(const fb_specials *specials, fb_span text,
                                   size_t n_template);

/* Bytes of white space at the end of a text, or at its start. */
size_t fb_space_before(fb_span text);
size_t fb_space_after(fb_span text);

#endif
