/* tokenizer.h - text to token ids and back, by the rules of the model's own file.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_TOKENIZER_H
#define FB_MODEL_TOKENIZER_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fb_tokenizer fb_tokenizer;
struct fb_tokens;

/* Nothing of `tokens` is needed afterwards. Read-only once it is there: threads may
 * share it. FB_UNSUPPORTED where an expression is not understood, FB_FORMAT where tokens
 * and merges do not fit together. */
FB_MUST_USE fb_status fb_tokenizer_new(fb_tokenizer **out,
                                       const struct fb_tokens *tokens);
void fb_tokenizer_free(fb_tokenizer *tokenizer); /* takes NULL */

/* A stretch of text. Control tokens are recognised only inside stretches that say so
 * (the template's), never in a user's data; ordinary text is tokenised across the
 * seams. */
typedef struct fb_piece {
    const char *bytes;
    size_t n;
    bool special;
} fb_piece;

typedef struct fb_ids {
    int32_t *ids; /* free with fb_ids_clear */
    int64_t n, capacity;
} fb_ids;

void fb_ids_clear(fb_ids *ids);
FB_MUST_USE fb_status fb_ids_add(fb_ids *ids, int32_t id);

/* Appends the ids of the pieces to `out`. No BOS is added. Input that is not UTF-8 is
 * taken byte by byte where the vocabulary has bytes. What has no token gives the unknown
 * token, or nothing where there is none. */
FB_MUST_USE fb_status fb_tokenizer_encode(const fb_tokenizer *tokenizer,
                                          const fb_piece *pieces, int n_pieces,
                                          fb_ids *out);
/* False if `text` has a character that is newer than the tables of Unicode by which
 * words are cut: its tokens may differ from those that the model was trained on. */
FB_MUST_USE fb_status fb_tokenizer_knows(const fb_tokenizer *tokenizer,
                                         const char *text, bool *out);
/* The text of the ids, to a fresh block with a zero behind it; free with fb_free.
 * Special tokens give their text, or nothing if `skip_special`. Where encoding puts a
 * space in front of a text, one at the start goes away again. */
FB_MUST_USE fb_status fb_tokenizer_decode(const fb_tokenizer *tokenizer,
                                          const int32_t *ids, int64_t n,
                                          bool skip_special, char **out, size_t *n_out);
/* What one id stands for inside a text, [n_out], without a zero behind it; lent. */
const char *fb_tokenizer_bytes(const fb_tokenizer *tokenizer, int32_t id,
                               bool skip_special, size_t *n_out);

int64_t fb_tokenizer_size(const fb_tokenizer *tokenizer);
/* The begin-of-text token; -1: none, or not to be added. */
int32_t fb_tokenizer_bos(const fb_tokenizer *tokenizer);
bool fb_tokenizer_is_end(const fb_tokenizer *tokenizer,
                         int32_t id); /* ends an answer */
/* How words are cut: the name that a GGUF file gives it, else that of the file. */
const char *fb_tokenizer_pre(const fb_tokenizer *tokenizer);

#endif
