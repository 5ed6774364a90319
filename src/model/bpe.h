/* bpe.h - a vocabulary, and the merging of a word's bytes into its tokens.
 *
 * Byte-level BPE (Sennrich et al. 2016; bytes as in GPT-2): a word starts as one token
 * per byte; then, as long as two neighbours have a merge, those with the merge that
 * stands first in the file become one token, leftmost first.
 *
 * A vocabulary is read-only once it is open.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_BPE_H
#define FB_MODEL_BPE_H

#include "model/gguf.h"
#include "model/tokenizer.h"

typedef enum fb_token_kind { /* by GGUF's numbers */
                             FB_TOKEN_NORMAL = 1,
                             FB_TOKEN_UNKNOWN,
                             FB_TOKEN_CONTROL, /* marks structure: `skip_special` leaves it out */
                             FB_TOKEN_USER, /* text of its own that is never split */
                             FB_TOKEN_UNUSED,
                             FB_TOKEN_BYTE,
} fb_token_kind;

typedef struct fb_vocabulary fb_vocabulary;

FB_MUST_USE fb_status fb_vocabulary_new(fb_vocabulary **out, const fb_gguf *gguf);
void fb_vocabulary_free(fb_vocabulary *vocabulary); /* takes NULL */

int32_t fb_vocabulary_size(const fb_vocabulary *vocabulary);
/* Lent: what the token stands for in a text. */
fb_span fb_vocabulary_bytes(const fb_vocabulary *vocabulary, int32_t id);
fb_token_kind fb_vocabulary_kind(const fb_vocabulary *vocabulary, int32_t id);
/* The token that a text can be made of with exactly these bytes; -1: none. */
int32_t fb_vocabulary_find(const fb_vocabulary *vocabulary, fb_span bytes);

/* Memory for one word at a time, reused; start it zeroed. One per thread. */
typedef struct fb_bpe {
    struct fb_bpe_symbol *symbols;
    struct fb_bpe_pair *heap;
    size_t capacity; /* bytes of a word that fit */
} fb_bpe;

void fb_bpe_clear(fb_bpe *bpe);
/* Appends the tokens of a word. Bytes without a token are left out before merging. */
FB_MUST_USE fb_status fb_bpe_encode(fb_bpe *bpe, const fb_vocabulary *vocabulary,
                                    fb_span word, fb_ids *out);

#endif
