/* pretokenize.h - text to words, inside which tokens are merged.
 *
 * Each cut (tokens.h) divides every piece that the one before it left by its regular
 * expression. Which cuts a model was trained with its file says; others give other
 * tokens.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_PRETOKENIZE_H
#define FB_MODEL_PRETOKENIZE_H

#include "model/tokens.h"

typedef struct fb_pretokenizer fb_pretokenizer;

/* FB_UNSUPPORTED where an expression is not understood. */
FB_MUST_USE fb_status fb_pretokenizer_new(fb_pretokenizer **out, const fb_cut *cuts,
                                          int n);
void fb_pretokenizer_free(fb_pretokenizer *pretokenizer); /* takes NULL */

/* False if a character of `text`, which need not be UTF-8, is none that PCRE2's tables
 * of Unicode know: a letter of a newer Unicode is cut as a symbol. */
FB_MUST_USE fb_status fb_pretokenizer_knows(const fb_pretokenizer *pretokenizer,
                                            fb_span text, bool *out);

typedef fb_status fb_take_word(void *context, fb_span word);

/* Calls `take` for each word of `text`, which must be valid UTF-8, in order. */
FB_MUST_USE fb_status fb_pretokenize(const fb_pretokenizer *pretokenizer, fb_span text,
                                     fb_take_word *take, void *context);

#endif
