/* pretokenize.h - text to words, inside which tokens are merged.
 *
 * A pre-tokenizer is a list of regular expressions. Each cuts every piece that the one
 * before it left into its matches and what lies between them. Which list a model was
 * trained with is named by `tokenizer.ggml.pre`; a wrong list gives other tokens, so an
 * unknown name is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_PRETOKENIZE_H
#define FB_MODEL_PRETOKENIZE_H

#include "model/gguf.h"

typedef struct fb_pretokenizer fb_pretokenizer;

/* FB_UNSUPPORTED with the names that are known. */
FB_MUST_USE fb_status fb_pretokenizer_new(fb_pretokenizer **out, fb_span name);
void fb_pretokenizer_free(fb_pretokenizer *pretokenizer); /* takes NULL */

const char *fb_pretokenizer_name(const fb_pretokenizer *pretokenizer);
/* A word that is a token is taken as it is, without merging. */
bool fb_pretokenizer_takes_whole_words(const fb_pretokenizer *pretokenizer);
/* Text is brought to Unicode's form NFC before it is cut. */
bool fb_pretokenizer_wants_nfc(const fb_pretokenizer *pretokenizer);
/* Where the file does not say whether a text begins with BOS. */
bool fb_pretokenizer_adds_bos(const fb_pretokenizer *pretokenizer);

/* False if a character of `text`, which need not be UTF-8, is none that PCRE2's tables
 * of Unicode know: a letter of a newer Unicode is cut as a symbol. */
FB_MUST_USE fb_status fb_pretokenizer_knows(const fb_pretokenizer *pretokenizer,
                                            fb_span text, bool *out);

typedef fb_status fb_take_word(void *context, fb_span word);

/* Calls `take` for each word of `text`, which must be valid UTF-8, in order. */
FB_MUST_USE fb_status fb_pretokenize(const fb_pretokenizer *pretokenizer, fb_span text,
                                     fb_take_word *take, void *context);

#endif
