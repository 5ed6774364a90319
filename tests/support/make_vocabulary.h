/* make_vocabulary.h - a small byte-level vocabulary for tests, as GGUF metadata.
 *
 * Ids 0 to 255 are the bytes, in order. Behind them stand the words and special tokens
 * that a test adds. Texts are given as the bytes they stand for.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_MAKE_VOCABULARY_H
#define TESTS_SUPPORT_MAKE_VOCABULARY_H

#include "tests/support/make_gguf.h"

#include <stdio.h>

enum { VOCABULARY_MOST = 1024, VOCABULARY_TEXT = 96, CONTROL = 3, USER_DEFINED = 4 };

typedef struct make_vocabulary {
    char token[VOCABULARY_MOST][VOCABULARY_TEXT]; /* as the file writes them */
    int32_t kind[VOCABULARY_MOST];
    int n;
    char merge[VOCABULARY_MOST][2 * VOCABULARY_TEXT];
    int n_merges;
} make_vocabulary;

/* `text` in GPT-2's alphabet, appended to `out`. */
static inline void vocabulary_spell(char *out, const char *text, size_t n)
{
    char *to = out + strlen(out);

    for (size_t i = 0; i < n; i++) {
        const int byte = (unsigned char)text[i];
        int code = byte, hidden = 0x100;

        if (byte <= 0x20 || (byte >= 0x7f && byte <= 0xa0) || byte == 0xad) {
            for (int b = 0; b < byte; b++)
                hidden += b <= 0x20 || (b >= 0x7f && b <= 0xa0) || b == 0xad;
            code = hidden;
        }
        if (code >= 0x80) *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(code >= 0x80 ? 0x80 | (code & 0x3f) : code);
    }
    *to = '\0';
}

static inline void vocabulary_begin(make_vocabulary *v)
{
    memset(v, 0, sizeof *v);
    for (int b = 0; b < 256; b++) {
        vocabulary_spell(v->token[b], &(char){(char)b}, 1);
        v->kind[b] = 1;
    }
    v->n = 256;
}

/* A token that `left` and `right` merge into; ranks are in order of calls. */
static inline int vocabulary_merge(make_vocabulary *v, const char *left,
                                   const char *right)
{
    char *merge = v->merge[v->n_merges++];

    make_check(v->n < VOCABULARY_MOST && v->n_merges <= VOCABULARY_MOST);
    make_check(2 * (strlen(left) + strlen(right)) < VOCABULARY_TEXT);
    vocabulary_spell(merge, left, strlen(left));
    (void)strcat(merge, " ");
    vocabulary_spell(merge, right, strlen(right));
    vocabulary_spell(v->token[v->n], left, strlen(left));
    vocabulary_spell(v->token[v->n], right, strlen(right));
    v->kind[v->n] = 1;
    return v->n++;
}

static inline int vocabulary_special(make_vocabulary *v, const char *text, int kind)
{
    make_check(v->n < VOCABULARY_MOST && strlen(text) < VOCABULARY_TEXT);
    (void)strcpy(v->token[v->n], text);
    v->kind[v->n] = kind;
    return v->n++;
}

/* Metadata to an open file: everything a tokenizer needs but the pre-tokenizer's name,
 * which is left out if `pre` is NULL. */
static inline void vocabulary_put(const make_vocabulary *v, make_gguf *m,
                                  const char *pre)
{
    static const char *texts[VOCABULARY_MOST];

    make_text(m, "tokenizer.ggml.model", "gpt2");
    if (pre != NULL) make_text(m, "tokenizer.ggml.pre", pre);
    for (int i = 0; i < v->n; i++)
        texts[i] = v->token[i];
    make_texts(m, "tokenizer.ggml.tokens", texts, v->n);
    make_ints(m, "tokenizer.ggml.token_type", v->kind, v->n);
    for (int i = 0; i < v->n_merges; i++)
        texts[i] = v->merge[i];
    make_texts(m, "tokenizer.ggml.merges", texts, v->n_merges);
}

#endif
