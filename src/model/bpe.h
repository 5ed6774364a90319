/* bpe.h - a vocabulary, and the merging of a word's symbols into its tokens.
 *
 * Byte pair encoding (Sennrich et al. 2016): a word starts as one symbol per byte (GPT-2)
 * or per character (SentencePiece). Then, as long as two neighbours can be merged, those
 * that come first become one, leftmost first: first in the list of merges, or those
 * whose token has the highest score.
 *
 * A vocabulary is read-only once it is open.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_BPE_H
#define FB_MODEL_BPE_H

#include "model/tokenizer.h"
#include "model/tokens.h"

typedef struct fb_vocabulary fb_vocabulary;

/* Nothing of `tokens` is kept. */
FB_MUST_USE fb_status fb_vocabulary_new(fb_vocabulary **out, const fb_tokens *tokens);
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
/* Appends the tokens of a word. What has no token falls back to tokens of its bytes
 * where the vocabulary does so, or else to the unknown token; where there is none it is
 * left out before merging. */
FB_MUST_USE fb_status fb_bpe_encode(fb_bpe *bpe, const fb_vocabulary *vocabulary,
                                    fb_span word, fb_ids *out);

#endif
