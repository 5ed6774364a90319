/* vocabulary.c - tokens and merges, from what a file says of them to what texts are made
 * of.
 *
 * Byte-level files write the bytes of normal tokens in GPT-2's alphabet: the 188
 * printable Latin-1 characters stand for themselves, the other 68 bytes for U+0100 and
 * up, in order. A token with a character outside that alphabet is taken literally; no
 * text can be made of it, as with control tokens. SentencePiece's files write U+2581 for
 * a space and <0x0A> for a byte.
 *
 * A token that is looked for as a whole (kind USER) can be what a merge makes, too:
 * SentencePiece has it so. A normal one of the same text comes first.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/vocabulary.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALPHABET = 0x144, MARK = 3 /* bytes of U+2581 */, MOST_MERGED = 1 << 10 };

/* --- spelling ------------------------------------------------------------------- */

typedef struct speller {
    fb_spelling spelling;
    int16_t byte_of[ALPHABET]; /* of each code point of the alphabet; -1: not in it */
} speller;

static bool is_itself(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

static speller speller_of(const fb_tokens *t)
{
    speller s = {.spelling = t->spelling};
    int next = 0x100;

    for (int c = 0; c < ALPHABET; c++)
        s.byte_of[c] = -1;
    for (int byte = 0; byte < 256; byte++)
        s.byte_of[is_itself(byte) ? byte : next++] = (int16_t)byte;
    return s;
}

/* Turns `text` into the bytes it spells; false if it is not in the alphabet. */
static bool spell_in_bytes(const speller *s, fb_span text, char *out, size_t *n_out)
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
        if (c >= ALPHABET || s->byte_of[c] < 0) return false;
        out[n++] = (char)s->byte_of[c];
    }
    *n_out = n;
    return true;
}

/* A space for each U+2581; false if it has a space already, which no text has when it
 * is merged. */
static bool spell_with_spaces(fb_span text, char *out, size_t *n_out)
{
    bool has_space = false;
    size_t n = 0;

    for (size_t i = 0; i < text.n; n++) {
        const bool is_mark =
            text.n - i >= MARK && memcmp(text.bytes + i, FB_SPACE_MARK, MARK) == 0;

        out[n] = is_mark ? ' ' : text.bytes[i];
        has_space |= text.bytes[i] == ' ';
        i += is_mark ? MARK : 1;
    }
    *n_out = n;
    return !has_space;
}

static bool spell(const speller *s, fb_span text, char *out, size_t *n_out)
{
    return s->spelling == FB_SPELT_IN_BYTES ? spell_in_bytes(s, text, out, n_out)
                                            : spell_with_spaces(text, out, n_out);
}

/* --- tokens --------------------------------------------------------------------- */

static bool is_user(const fb_vocabulary *v, int32_t id)
{
    return v->kind[id] == FB_TOKEN_USER;
}

static int compare_words(const void *a, const void *b)
{
    return fb_span_compare(((const fb_word *)a)->bytes, ((const fb_word *)b)->bytes);
}

static int compare_words_and_ids(const void *a, const void *b)
{
    const fb_word *x = a, *y = b;
    const int order = compare_words(a, b);

    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

static fb_status allocate_tokens(fb_vocabulary *v, const fb_tokens *t)
{
    const size_t n = (size_t)t->n;
    size_t text_bytes = 0;

    for (int32_t id = 0; id < t->n; id++)
        text_bytes += t->token[id].text.n;
    v->n = t->n;
    v->bytes = fb_alloc(FB_ACCOUNT_other, text_bytes);
    v->begin = fb_zalloc(FB_ACCOUNT_other, (n + 1) * sizeof *v->begin);
    v->kind = fb_zalloc(FB_ACCOUNT_other, n);
    v->words = fb_zalloc(FB_ACCOUNT_other, n * sizeof *v->words);
    if (v->bytes == NULL || v->begin == NULL || v->kind == NULL || v->words == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a vocabulary of %zu tokens", n);
    return FB_OK;
}

/* Texts can be made of normal tokens; of user's ones where the file merges characters;
 * and of a byte's in the alphabet of bytes, where it is like any other. */
static bool makes_texts(const fb_vocabulary *v, int32_t id)
{
    switch (v->kind[id]) {
    case FB_TOKEN_NORMAL:
        return true;
    case FB_TOKEN_USER:
        return v->by_characters;
    case FB_TOKEN_BYTE:
        return !v->by_characters;
    default:
        return false;
    }
}

/* Puts a token's bytes behind the earlier ones, and among the words if it is one. */
static fb_status add_token(fb_vocabulary *v, const speller *s, int32_t id, fb_span text)
{
    char *to = v->bytes + v->begin[id];
    const bool is_byte = v->by_characters && v->kind[id] == FB_TOKEN_BYTE;
    const int byte = is_byte ? fb_token_byte(text) : -1;
    size_t n = text.n;
    bool is_word = false;

    if (is_byte && byte < 0)
        return fb_fail(FB_FORMAT,
                       "token %" PRId32
                       " is a byte's and reads '%s'; '<0x0A>' would be "
                       "one",
                       id, fb_span_show(text).text);
    if (is_byte) {
        *to = (char)byte;
        n = 1;
        v->byte[byte] = id;
    } else if (makes_texts(v, id)) {
        is_word = spell(s, text, to, &n);
        /* What is not in the alphabet stands for itself. */
        if (!is_word && !v->by_characters) memcpy(to, text.bytes, n = text.n);
    } else {
        memcpy(to, text.bytes, n);
    }
    if (is_word && n > 0) v->words[v->n_words++] = (fb_word){{to, n}, id};
    if (is_word && n == 1 && !v->by_characters) v->byte[(unsigned char)*to] = id;
    if (is_word && n > v->longest) v->longest = n;
    v->begin[id + 1] = v->begin[id] + n;
    return FB_OK;
}

/* Of words with the same bytes the normal one stays. */
static fb_status keep_one_of_each(fb_vocabulary *v)
{
    int32_t n = 0;

    qsort(v->words, (size_t)v->n_words, sizeof *v->words, compare_words_and_ids);
    for (int32_t i = 0; i < v->n_words; i++) {
        fb_word *last = n == 0 ? NULL : &v->words[n - 1], *word = &v->words[i];

        if (last == NULL || compare_words(last, word) != 0)
            v->words[n++] = *word;
        else if (!is_user(v, last->id) && !is_user(v, word->id))
            return fb_fail(FB_FORMAT,
                           "tokens %" PRId32 " and %" PRId32 " have the same text",
                           last->id, word->id);
        else if (!is_user(v, word->id))
            *last = *word;
    }
    v->n_words = n;
    return FB_OK;
}

/* In the alphabet of bytes it would be the bytes of the alphabet's character, not the
 * byte itself, that one without a token falls back to: no file can mean that. */
static fb_status check_bytes(const fb_vocabulary *v)
{
    for (int b = 0; b < 256; b++)
        if (v->falls_to_bytes && !v->by_characters && v->byte[b] < 0)
            return fb_fail(FB_UNSUPPORTED,
                           "'byte_fallback' is true in a vocabulary of bytes that has "
                           "no token for byte %d; only false is understood there",
                           b);
    return FB_OK;
}

static fb_status read_tokens(fb_vocabulary *v, const fb_tokens *t, const speller *s)
{
    FB_TRY(allocate_tokens(v, t));
    v->by_characters = t->spelling == FB_SPELT_WITH_SPACES;
    v->falls_to_bytes = t->falls_to_bytes;
    v->fuses_unknown = t->fuses_unknown;
    v->unknown = t->unknown;
    for (int b = 0; b < 256; b++)
        v->byte[b] = -1;
    for (int32_t id = 0; id < v->n; id++) {
        v->kind[id] = t->token[id].kind;
        FB_TRY(add_token(v, s, id, t->token[id].text));
    }
    FB_TRY(check_bytes(v));
    return keep_one_of_each(v);
}

int32_t fb_vocabulary_find(const fb_vocabulary *v, fb_span bytes)
{
    const fb_word wanted = {.bytes = bytes};
    const fb_word *word;

    if (bytes.n > v->longest) return -1;
    word = bsearch(&wanted, v->words, (size_t)v->n_words, sizeof wanted, compare_words);
    return word == NULL ? -1 : word->id;
}

/* --- merges by a list ----------------------------------------------------------- */

static int compare_merges(const void *a, const void *b)
{
    const fb_merge *x = a, *y = b;

    if (x->pair != y->pair) return x->pair < y->pair ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* What the merges are read with: `others` are the tokens that are no words. */
typedef struct merger {
    fb_vocabulary *v;
    const speller *speller;
    fb_word *others; /* sorted by bytes */
    size_t n_others;
    int32_t rank;
} merger;

static fb_status collect_others(merger *m, const fb_tokens *t)
{
    m->others = fb_alloc(FB_ACCOUNT_other, (size_t)t->n * sizeof *m->others);
    if (m->others == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the merges");
    for (int32_t id = 0; id < t->n; id++)
        if (t->token[id].text.n > 0 && !makes_texts(m->v, id))
            m->others[m->n_others++] = (fb_word){t->token[id].text, id};
    qsort(m->others, m->n_others, sizeof *m->others, compare_words);
    return FB_OK;
}

/* Which of three things the text of a merge is: a word, another token, or none. */
static bool is_token(const merger *m, fb_span text, const char *spelt, size_t n,
                     int32_t *id_out)
{
    const fb_word wanted = {.bytes = text};

    *id_out = fb_vocabulary_find(m->v, (fb_span){spelt, n});
    return *id_out >= 0 || bsearch(&wanted, m->others, m->n_others, sizeof wanted,
                                   compare_words) != NULL;
}

/* The tokens of a merge to `out`; an id stays -1 where no text is made of the token: the
 * merge can then never happen. False: one of the three is no token. */
static bool resolve(const merger *m, const fb_token_pair *pair, char *room,
                    fb_merge *out, bool *can_happen)
{
    char *both = room + 2 * MOST_MERGED, *spelt = room;
    const size_t n_both = pair->left.n + pair->right.n;
    size_t n_left, n_right;
    int32_t left, right;

    memcpy(both, pair->left.bytes, pair->left.n);
    memcpy(both + pair->left.n, pair->right.bytes, pair->right.n);
    if (!spell(m->speller, pair->left, spelt, &n_left)) n_left = 0;
    if (!spell(m->speller, pair->right, spelt + n_left, &n_right)) n_right = 0;
    if (!is_token(m, pair->left, spelt, n_left, &left)) return false;
    if (!is_token(m, pair->right, spelt + n_left, n_right, &right)) return false;
    if (!is_token(m, (fb_span){both, n_both}, spelt, n_left + n_right, &out->id))
        return false;
    out->pair = fb_merge_pair(left, right);
    *can_happen = left >= 0 && right >= 0 && out->id >= 0;
    return true;
}

static fb_status read_merge(merger *m, const fb_token_pair *pair)
{
    char room[4 * MOST_MERGED];
    fb_merge *merge = &m->v->merges[m->v->n_merges];
    bool can_happen = false;

    merge->rank = m->rank;
    if (pair->left.n == 0 || pair->right.n == 0 || pair->left.n > MOST_MERGED ||
        pair->right.n > MOST_MERGED || !resolve(m, pair, room, merge, &can_happen))
        return fb_fail(
            FB_FORMAT,
            "merge %" PRId32 ", '%s %s', is not two tokens that make a third one",
            m->rank, fb_span_show(pair->left).text, fb_span_show(pair->right).text);
    m->v->n_merges += can_happen;
    m->rank++;
    return FB_OK;
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

static fb_status read_merges(fb_vocabulary *v, const fb_tokens *t, const speller *s)
{
    merger m = {.v = v, .speller = s};
    fb_status status;

    v->merges =
        fb_zalloc(FB_ACCOUNT_other, ((size_t)t->n_merges + 1) * sizeof *v->merges);
    if (v->merges == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the merges");
    status = collect_others(&m, t);
    for (int32_t i = 0; status == FB_OK && i < t->n_merges; i++)
        status = read_merge(&m, &t->merge[i]);
    fb_free(m.others);
    qsort(v->merges, (size_t)v->n_merges, sizeof *v->merges, compare_merges);
    keep_first(v);
    return status;
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

/* --- merges by score ------------------------------------------------------------ */

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int compare_scores(const void *a, const void *b)
{
    const scored *x = a, *y = b;

    return (x->score < y->score) - (x->score > y->score);
}

/* Equal scores have equal ranks: between those the place in the text decides. */
static fb_status rank_scores(fb_vocabulary *v, const fb_tokens *t)
{
    scored *order = fb_alloc(FB_ACCOUNT_other, (size_t)v->n * sizeof *order);
    int32_t rank = 0;

    v->rank = fb_alloc(FB_ACCOUNT_other, (size_t)v->n * sizeof *v->rank);
    if (order == NULL || v->rank == NULL) {
        fb_free(order);
        return fb_fail(FB_NO_MEMORY, "no memory for the scores of a vocabulary");
    }
    for (int32_t id = 0; id < v->n; id++)
        order[id] = (scored){t->token[id].score, id};
    qsort(order, (size_t)v->n, sizeof *order, compare_scores);
    for (int32_t i = 0; i < v->n; i++) {
        rank += i > 0 && compare_scores(&order[i - 1], &order[i]) != 0;
        v->rank[order[i].id] = rank;
    }
    fb_free(order);
    return FB_OK;
}

/* --- the whole ------------------------------------------------------------------ */

fb_status fb_vocabulary_new(fb_vocabulary **out, const fb_tokens *t)
{
    fb_vocabulary *v = fb_zalloc(FB_ACCOUNT_other, sizeof *v);
    const speller s = speller_of(t);
    fb_status status;

    *out = NULL;
    if (v == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a vocabulary");
    status = read_tokens(v, t, &s);
    if (status == FB_OK)
        status = t->by_score ? rank_scores(v, t) : read_merges(v, t, &s);
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
    fb_free(v->rank);
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
