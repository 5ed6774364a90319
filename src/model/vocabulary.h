/* vocabulary.h - how a vocabulary is kept: for vocabulary.c and bpe.c.
 *
 * Everything is sorted and searched by halving: no file can make that slow.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_VOCABULARY_H
#define FB_MODEL_VOCABULARY_H

#include "model/bpe.h"

typedef struct fb_word {
    fb_span bytes;
    int32_t id;
} fb_word;

typedef struct fb_merge {
    uint64_t pair; /* left id, then right id */
    int32_t rank;  /* place in the file */
    int32_t id;    /* of the merged token */
} fb_merge;

struct fb_vocabulary {
    int32_t n;
    char *bytes;       /* of all tokens, one behind the other: what they stand for */
    size_t *begin;     /* [n + 1] */
    uint8_t *kind;     /* [n] */
    int32_t byte[256]; /* token of a single byte; -1: none */
    fb_word *words;    /* what texts are made of, sorted by bytes */
    int32_t n_words;
    fb_merge *merges; /* sorted by pair */
    int32_t n_merges;
    int32_t *rank;  /* [n] of tokens by score, 0 the highest; NULL: merges by a list */
    size_t longest; /* bytes of a word */
    bool by_characters, falls_to_bytes, fuses_unknown;
    int32_t unknown; /* -1: none */
};

static inline uint64_t fb_merge_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The merge of two neighbours; NULL: there is none. */
const fb_merge *fb_vocabulary_merge(const fb_vocabulary *vocabulary, int32_t left,
                                    int32_t right);

#endif
