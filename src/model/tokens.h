/* tokens.h - what a tokenizer is made of, whatever file it comes from.
 *
 * A reader (tokens_gguf.c, tokens_json.c, tokens_spm.c) fills this in from a file that
 * it has checked; fb_tokenizer_new makes a tokenizer of it and keeps nothing. Texts are
 * lent: from the file, or from memory that goes with fb_tokens_clear.
 *
 * How a text becomes tokens:
 *   1. tokens that stand for themselves are looked for (control ones only where the text
 *      is a template's);
 *   2. what is left between them is rewritten, step by step;
 *   3. each cut divides every piece that the one before it left;
 *   4. the symbols of a piece are merged: bytes or characters, by a list of merges or by
 *      the scores of the tokens.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_TOKENS_H
#define FB_MODEL_TOKENS_H

#include "base/hash.h"
#include "base/json.h"
#include "base/span.h"
#include "model/rewrite.h"

enum {
    FB_MOST_TOKENS = 1 << 20,
    FB_MOST_MERGES = 1 << 22,
    FB_MOST_CUTS = 8,
    FB_MOST_ENDS = 16,
};

typedef enum fb_token_kind { /* by GGUF's numbers */
                             FB_TOKEN_NORMAL = 1,
                             FB_TOKEN_UNKNOWN,
                             FB_TOKEN_CONTROL, /* marks structure: `skip_special` leaves it out */
                             FB_TOKEN_USER, /* text of its own that is never split */
                             FB_TOKEN_UNUSED,
                             FB_TOKEN_BYTE,
} fb_token_kind;

enum {                            /* of tokens that stand for themselves */
       FB_TOKEN_STRIPS_LEFT = 1,  /* swallows white space before it */
       FB_TOKEN_STRIPS_RIGHT = 2, /* and after it */
       FB_TOKEN_REWRITTEN = 4,    /* looked for behind step 2, whose words it has */
       FB_TOKEN_NORMALIZED = 8,   /* the same, after step 2 with its own text */
};

typedef struct fb_token {
    fb_span text;
    float score;
    uint8_t kind, flags;
} fb_token;

typedef struct fb_token_pair {
    fb_span left, right;
} fb_token_pair;

/* How the file writes the text of normal tokens. */
typedef enum fb_spelling {
    FB_SPELT_IN_BYTES,    /* GPT-2's alphabet: one character per byte */
    FB_SPELT_WITH_SPACES, /* U+2581 is a space; "<0x0A>" is a byte */
} fb_spelling;

typedef enum fb_cut_how {
    FB_CUT_APART,    /* matches, and what lies between them */
    FB_CUT_MATCHES,  /* matches alone: the rest goes away */
    FB_CUT_BETWEEN,  /* what lies between: matches go away */
    FB_CUT_WITH_LEFT /* each match together with what lies before it */
} fb_cut_how;

typedef struct fb_cut {
    const char *pattern; /* Oniguruma's notation (expression.h); NULL: nothing is cut */
    fb_cut_how how;
    bool is_literal; /* the pattern is a plain text */
    bool adds_space; /* first, to each piece that does not begin with one */
} fb_cut;

typedef struct fb_tokens {
    fb_token *token; /* [n], own */
    int32_t n;
    fb_token_pair *merge; /* [n_merges], own, in order of rank */
    int32_t n_merges;
    bool by_score; /* instead of merges: the highest score first */
    fb_spelling spelling;
    bool falls_to_bytes; /* unknown characters become tokens of bytes */
    bool fuses_unknown;  /* unknown neighbours become one unknown token */
    bool whole_words;    /* a piece that is a token is taken as it is */
    int32_t unknown;     /* -1: what has no token gives nothing */
    fb_rewriting before; /* step 2 */
    fb_rewriting after;  /* the same, behind the tokens that are FB_TOKEN_REWRITTEN */
    fb_cut cut[FB_MOST_CUTS];
    int n_cuts;
    bool drops_space; /* a decoded text loses one space at its start */
    const char *name; /* of the way words are cut, for people */
    int32_t bos;      /* -1: none */
    bool adds_bos;
    int32_t end[FB_MOST_ENDS]; /* end an answer */
    int n_ends;
    char *file, *config; /* own memory that texts are lent from; may be NULL */
    fb_json *json;       /* the same */
} fb_tokens;

/* `n` tokens of kind UNUSED without text. The rest stays as it is. */
FB_MUST_USE fb_status fb_tokens_allocate(fb_tokens *tokens, int64_t n);
FB_MUST_USE fb_status fb_tokens_add_cut(fb_tokens *tokens, fb_cut cut);
/* Once each; ids outside the tokens are FB_FORMAT. */
FB_MUST_USE fb_status fb_tokens_add_end(fb_tokens *tokens, int64_t id);
/* The tokens that end a turn, where there are such: files often name only what ends a
 * text. They are known by their text, as in llama.cpp. */
FB_MUST_USE fb_status fb_tokens_add_turn_ends(fb_tokens *tokens);
/* The control or user token of that text; -1: there is none. */
int32_t fb_tokens_find(const fb_tokens *tokens, fb_span text);
/* The byte that a token's text "<0x0A>" stands for; -1: it says something else. */
int fb_token_byte(fb_span text);
/* A hash of all that decides about ids. */
void fb_tokens_hash(const fb_tokens *tokens, char out[FB_HASH_HEX]);
void fb_tokens_clear(fb_tokens *tokens); /* takes a zeroed one */

/* The cuts that `tokenizer.ggml.pre` names, with what goes with them. FB_UNSUPPORTED
 * naming the known ones. */
FB_MUST_USE fb_status fb_tokens_cut_as(fb_tokens *tokens, fb_span name);

/* --- readers: all of `out` is theirs to set; fb_tokens_clear it, failed or not --- */

struct fb_gguf;
/* Texts are lent from the file. */
FB_MUST_USE fb_status fb_tokens_read_gguf(fb_tokens *out, const struct fb_gguf *gguf);
/* A folder of Hugging Face's with tokenizer.json or, without it, tokenizer.model. There
 * are as many tokens as the embedding has `rows`; those without a text are UNUSED. */
FB_MUST_USE fb_status fb_tokens_read_folder(fb_tokens *out, const char *folder,
                                            int64_t rows);
/* The bytes of one of these files; `text` becomes memory of `out`. */
FB_MUST_USE fb_status fb_tokens_read_json(fb_tokens *out, char *text, size_t n,
                                          int64_t rows);
FB_MUST_USE fb_status fb_tokens_read_spm(fb_tokens *out, char *bytes, size_t n,
                                         int64_t rows);

#endif
