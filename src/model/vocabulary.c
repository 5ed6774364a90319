/* vocabulary.c - tokens and merges of a GGUF file.
 *
 * The file writes the bytes of normal tokens in GPT-2's alphabet: the 188 printable
 * Latin-1 characters stand for themselves, the other 68 bytes for U+0100 and up, in
 * order. A token with a character outside that alphabet is taken literally; no text can
 * be made of it, as with the other kinds of tokens.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/vocabulary.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 20, MOST_MERGES = 1 << 22, ALPHABET = 0x144 };

/* --- the alphabet --------------------------------------------------------------- */

static bool is_itself(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

/* The byte for each code point of the alphabet; -1: not in it. */
static void make_alphabet(int16_t byte_of[ALPHABET])
{
    int next = 0x100;

    for (int c = 0; c < ALPHABET; c++)
        byte_of[c] = -1;
    for (int byte = 0; byte < 256; byte++)
        byte_of[is_itself(byte) ? byte : next++] = (int16_t)byte;
}

/* Turns `text` into the bytes it spells; false if it is not in the alphabet. */
static bool spell(const int16_t byte_of[ALPHABET], fb_span text, char *out,
                  size_t *n_out)
{
    const unsigned char *at = (const unsigned char *)text.bytes;
    size_t i = 0, n = 0;

    while (i < text.n) {
        unsigned c = at[i++];

        if (c >= 0x80) { /* all of the alphabet is one or two bytes of UTF-8 */
            if (c < 0xc2 || c > 0xc5 || i == text.n || (at[i] & 0xc0) != 0x80)
                return false;
            c = (c & 0x1f) << 6 | (at[i++] & 0x3f);
        }
        if (c >= ALPHABET || byte_of[c] < 0) return false;
        out[n++] = (char)byte_of[c];
    }
    *n_out = n;
    return true;
}

/* --- tokens --------------------------------------------------------------------- */

static int compare_bytes(fb_span a, fb_span b)
{
    const int order = memcmp(a.bytes, b.bytes, a.n < b.n ? a.n : b.n);

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static int compare_words(const void *a, const void *b)
{
    return compare_bytes(((const fb_word *)a)->bytes, ((const fb_word *)b)->bytes);
}

static fb_status allocate_tokens(fb_vocabulary *v, size_t text_bytes)
{
    const size_t n = (size_t)v->n;

    v->bytes = fb_alloc(FB_ACCOUNT_other, text_bytes);
    v->begin = fb_zalloc(FB_ACCOUNT_other, (n + 1) * sizeof *v->begin);
    v->kind = fb_zalloc(FB_ACCOUNT_other, n);
    v->words = fb_zalloc(FB_ACCOUNT_other, n * sizeof *v->words);
    if (v->bytes == NULL || v->begin == NULL || v->kind == NULL || v->words == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a vocabulary of %zu tokens", n);
    return FB_OK;
}

static fb_status read_kinds(fb_vocabulary *v, const fb_gguf *g)
{
    static const char key[] = "tokenizer.ggml.token_type";
    fb_gguf_array kinds;

    FB_TRY(fb_gguf_ints(g, key, &kinds));
    if (kinds.n != v->n)
        return fb_fail(FB_FORMAT,
                       "'%s' has %" PRId64 " %s; %" PRId32
                       ", one per token, would be right",
                       key, kinds.n, fb_plural(kinds.n, "element", "elements"), v->n);
    for (int32_t id = 0; id < v->n; id++) {
        const int64_t kind = fb_gguf_next_int(&kinds);

        if (kind < FB_TOKEN_NORMAL || kind > FB_TOKEN_BYTE)
            return fb_fail(FB_FORMAT, "token %" PRId32 " has the unknown type %" PRId64,
                           id, kind);
        v->kind[id] = (uint8_t)kind;
    }
    return FB_OK;
}

/* Puts a token's bytes behind the earlier ones, and among the words if it is one. */
static void add_token(fb_vocabulary *v, const int16_t byte_of[ALPHABET], int32_t id,
                      fb_span text)
{
    char *to = v->bytes + v->begin[id];
    const bool is_normal =
        v->kind[id] == FB_TOKEN_NORMAL || v->kind[id] == FB_TOKEN_BYTE;
    size_t n;

    if (is_normal && spell(byte_of, text, to, &n)) {
        if (n > 0) v->words[v->n_words++] = (fb_word){{to, n}, id};
        if (n == 1) v->byte[(unsigned char)*to] = id;
    } else {
        n = text.n;
        memcpy(to, text.bytes, n);
    }
    v->begin[id + 1] = v->begin[id] + n;
}

static fb_status read_tokens(fb_vocabulary *v, const fb_gguf *g)
{
    static const char key[] = "tokenizer.ggml.tokens";
    int16_t byte_of[ALPHABET];
    fb_gguf_array tokens;

    FB_TRY(fb_gguf_strings(g, key, &tokens));
    if (tokens.n == 0 || tokens.n > MOST_TOKENS)
        return fb_fail(FB_FORMAT,
                       "'%s' has %" PRId64 " elements; 1 to %d would be right", key,
                       tokens.n, MOST_TOKENS);
    v->n = (int32_t)tokens.n;
    FB_TRY(allocate_tokens(v, fb_gguf_raw(g, key).n));
    FB_TRY(read_kinds(v, g));
    make_alphabet(byte_of);
    for (int b = 0; b < 256; b++)
        v->byte[b] = -1;
    for (int32_t id = 0; id < v->n; id++)
        add_token(v, byte_of, id, fb_gguf_next_string(&tokens));
    qsort(v->words, (size_t)v->n_words, sizeof *v->words, compare_words);
    for (int32_t i = 1; i < v->n_words; i++)
        if (compare_words(&v->words[i - 1], &v->words[i]) == 0)
            return fb_fail(FB_FORMAT,
                           "tokens %" PRId32 " and %" PRId32 " have the same text",
                           v->words[i - 1].id, v->words[i].id);
    return FB_OK;
}

int32_t fb_vocabulary_find(const fb_vocabulary *v, fb_span bytes)
{
    const fb_word wanted = {.bytes = bytes};
    const fb_word *word =
        bsearch(&wanted, v->words, (size_t)v->n_words, sizeof wanted, compare_words);

    return word == NULL ? -1 : word->id;
}

/* --- merges --------------------------------------------------------------------- */

static int compare_merges(const void *a, const void *b)
{
    const fb_merge *x = a, *y = b;

    if (x->pair != y->pair) return x->pair < y->pair ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* "left right" in the alphabet, which has no space. `room`: as many bytes as text. */
static bool parse_merge(const fb_vocabulary *v, const int16_t byte_of[ALPHABET],
                        fb_span text, char *room, fb_merge *out)
{
    const char *space = memchr(text.bytes, ' ', text.n);
    size_t n_left, n_right;
    int32_t left, right;

    if (space == NULL) return false;
    n_left = (size_t)(space - text.bytes);
    if (!spell(byte_of, (fb_span){text.bytes, n_left}, room, &n_left)) return false;
    text.n -= (size_t)(space + 1 - text.bytes);
    text.bytes = space + 1;
    if (!spell(byte_of, text, room + n_left, &n_right)) return false;
    left = fb_vocabulary_find(v, (fb_span){room, n_left});
    right = fb_vocabulary_find(v, (fb_span){room + n_left, n_right});
    out->pair = fb_merge_pair(left, right);
    out->id = fb_vocabulary_find(v, (fb_span){room, n_left + n_right});
    return left >= 0 && right >= 0 && out->id >= 0;
}

static fb_status read_merge(const fb_vocabulary *v, const int16_t byte_of[ALPHABET],
                            fb_span text, fb_merge *out)
{
    char room[1024];

    if (text.n <= sizeof room && parse_merge(v, byte_of, text, room, out)) return FB_OK;
    return fb_fail(FB_FORMAT,
                   "merge %" PRId32 ", '%s', is not two tokens that make a third one",
                   out->rank, fb_span_show(text).text);
}

/* Drops all but the first of equal pairs: only the lowest rank can ever be used. */
static void keep_first(fb_vocabulary *v)
{
    int32_t n = 0;

    for (int32_t i = 0; i < v->n_merges; i++)
        if (i == 0 || v->merges[i].pair != v->merges[n - 1].pair)
            v->merges[n++] = v->merges[i];
    v->n_merges = n;
}

static fb_status read_merges(fb_vocabulary *v, const fb_gguf *g)
{
    static const char key[] = "tokenizer.ggml.merges";
    int16_t byte_of[ALPHABET];
    fb_gguf_array merges;

    FB_TRY(fb_gguf_strings(g, key, &merges));
    if (merges.n > MOST_MERGES)
        return fb_fail(FB_FORMAT, "'%s' has %" PRId64 " elements; at most %d are read",
                       key, merges.n, MOST_MERGES);
    v->n_merges = (int32_t)merges.n;
    v->merges = fb_zalloc(FB_ACCOUNT_other, (size_t)v->n_merges * sizeof *v->merges);
    if (v->merges == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the merges");
    make_alphabet(byte_of);
    for (int32_t i = 0; i < v->n_merges; i++) {
        v->merges[i].rank = i;
        FB_TRY(read_merge(v, byte_of, fb_gguf_next_string(&merges), &v->merges[i]));
    }
    qsort(v->merges, (size_t)v->n_merges, sizeof *v->merges, compare_merges);
    keep_first(v);
    return FB_OK;
}

const fb_merge *fb_vocabulary_merge(const fb_vocabulary *v, int32_t left, int32_t right)
{
    const uint64_t pair = fb_merge_pair(left, right);
    const fb_merge *low = v->merges;
    size_t n = (size_t)v->n_merges;

    while (n > 0) { /* the answer, if any, is among low[0 .. n) */
        const size_t half = n / 2;

        if (low[half].pair == pair) return &low[half];
        if (low[half].pair < pair) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return NULL;
}

/* --- the whole ------------------------------------------------------------------ */

fb_status fb_vocabulary_new(fb_vocabulary **out, const fb_gguf *g)
{
    fb_vocabulary *v = fb_zalloc(FB_ACCOUNT_other, sizeof *v);
    fb_status status;

    *out = NULL;
    if (v == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a vocabulary");
    status = read_tokens(v, g);
    if (status == FB_OK) status = read_merges(v, g);
    if (status == FB_OK)
        *out = v;
    else
        fb_vocabulary_free(v);
    return status;
}

void fb_vocabulary_free(fb_vocabulary *v)
{
    if (v == NULL) return;
    fb_free(v->bytes);
    fb_free(v->begin);
    fb_free(v->kind);
    fb_free(v->words);
    fb_free(v->merges);
    fb_free(v);
}

int32_t fb_vocabulary_size(const fb_vocabulary *v)
{
    return v->n;
}

fb_span fb_vocabulary_bytes(const fb_vocabulary *v, int32_t id)
{
    return (fb_span){v->bytes + v->begin[id], v->begin[id + 1] - v->begin[id]};
}

fb_token_kind fb_vocabulary_kind(const fb_vocabulary *v, int32_t id)
{
    return (fb_token_kind)v->kind[id];
}
