/* bpe.c - merges by rank: a linked list of symbols and a heap of pairs.
 *
 * Each symbol knows the rank of the merge with its right neighbour. The heap holds
 * (rank, left symbol), smallest rank first, leftmost first among equals. An entry is
 * stale when its symbol's rank has changed since; stale ones are skipped. Every merge
 * removes a symbol and adds two entries at most: O(n log n).
 *
 * Where tokens have scores, what two neighbours make is found by their text, so a
 * character without a token can still be part of one; only what is left over falls back
 * to bytes or to the unknown token. With a list of merges it does so at once.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/bpe.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/vocabulary.h"

#include <string.h>

enum { NONE = -1, HEAP_PER_SYMBOL = 3 };

struct fb_bpe_symbol {
    int32_t id;             /* NONE: no token */
    int32_t left, right;    /* symbols; NONE at the ends */
    int32_t rank, together; /* of the merge with the right one; NONE: there is none */
    uint32_t begin, n;      /* bytes in the word; n 0: merged into its left neighbour */
};

struct fb_bpe_pair {
    int32_t rank, symbol;
};

/* --- the heap ------------------------------------------------------------------- */

static bool is_before(struct fb_bpe_pair a, struct fb_bpe_pair b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.symbol < b.symbol;
}

static void push(struct fb_bpe_pair *heap, size_t *n, struct fb_bpe_pair pair)
{
    size_t at = (*n)++;

    while (at > 0 && is_before(pair, heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = pair;
}

static struct fb_bpe_pair pop(struct fb_bpe_pair *heap, size_t *n)
{
    const struct fb_bpe_pair first = heap[0], last = heap[--*n];
    size_t at = 0;

    for (size_t child = 1; child < *n; child = 2 * at + 1) {
        if (child + 1 < *n && is_before(heap[child + 1], heap[child])) child++;
        if (!is_before(heap[child], last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* --- a word --------------------------------------------------------------------- */

static fb_status reserve(fb_bpe *bpe, size_t n)
{
    size_t capacity = bpe->capacity == 0 ? 64 : bpe->capacity;

    if (n <= bpe->capacity) return FB_OK;
    if (n > INT32_MAX / HEAP_PER_SYMBOL)
        return fb_fail(FB_UNSUPPORTED, "a word of %zu bytes; at most %d are read", n,
                       INT32_MAX / HEAP_PER_SYMBOL);
    while (capacity < n)
        capacity *= 2;
    fb_bpe_clear(bpe);
    bpe->symbols = fb_alloc(FB_ACCOUNT_other, capacity * sizeof *bpe->symbols);
    bpe->heap =
        fb_alloc(FB_ACCOUNT_other, HEAP_PER_SYMBOL * capacity * sizeof *bpe->heap);
    if (bpe->symbols == NULL || bpe->heap == NULL) {
        fb_bpe_clear(bpe);
        return fb_fail(FB_NO_MEMORY, "no memory for a word of %zu bytes", n);
    }
    bpe->capacity = capacity;
    return FB_OK;
}

void fb_bpe_clear(fb_bpe *bpe)
{
    fb_free(bpe->symbols);
    fb_free(bpe->heap);
    *bpe = (fb_bpe){0};
}

/* A word on its way to tokens. */
typedef struct word {
    const fb_bpe *bpe;
    const fb_vocabulary *v;
    fb_span text;
    int32_t n; /* symbols */
    size_t n_heap;
    bool was_unknown; /* what was split off last */
} word;

static void add_symbol(word *w, int32_t id, size_t begin, size_t n)
{
    w->bpe->symbols[w->n] = (struct fb_bpe_symbol){
        id, w->n - 1, w->n + 1, NONE, NONE, (uint32_t)begin, (uint32_t)n};
    w->n++;
    w->was_unknown = false;
}

static bool has_bytes(const fb_vocabulary *v, fb_span text)
{
    bool has_all = v->falls_to_bytes;

    for (size_t i = 0; has_all && i < text.n; i++)
        has_all = v->byte[(unsigned char)text.bytes[i]] >= 0;
    return has_all;
}

/* The symbols of a character, or of a byte, that has no token. */
static void add_unknown(word *w, size_t begin, size_t n)
{
    const fb_vocabulary *v = w->v;

    if (has_bytes(v, (fb_span){w->text.bytes + begin, n})) {
        for (size_t i = begin; i < begin + n; i++)
            add_symbol(w, v->byte[(unsigned char)w->text.bytes[i]], i, 1);
    } else if (v->unknown >= 0) {
        if (!w->was_unknown || !v->fuses_unknown) add_symbol(w, v->unknown, begin, n);
        w->was_unknown = true;
    }
}

/* One symbol per character. */
static void split_characters(word *w)
{
    size_t at = 0;

    while (at < w->text.n) {
        const char *from = w->text.bytes + at;
        size_t n = fb_utf8_length(from, w->text.n - at);
        int32_t id;

        if (n == 0) n = 1;
        id = fb_vocabulary_find(w->v, (fb_span){from, n});
        if (id >= 0 || w->v->rank != NULL)
            add_symbol(w, id, at, n);
        else
            add_unknown(w, at, n);
        at += n;
    }
}

/* One symbol per byte. */
static void split_bytes(word *w)
{
    for (size_t i = 0; i < w->text.n; i++) {
        const int32_t id = w->v->byte[(unsigned char)w->text.bytes[i]];

        if (id >= 0)
            add_symbol(w, id, i, 1);
        else
            add_unknown(w, i, 1);
    }
}

/* The rank of what two neighbours make, and its id; NONE: they make nothing. */
static int32_t rank_of(const word *w, const struct fb_bpe_symbol *left,
                       const struct fb_bpe_symbol *right, int32_t *id_out)
{
    const fb_merge *merge;

    if (w->v->rank != NULL) {
        const fb_span both = {w->text.bytes + left->begin, left->n + right->n};

        *id_out = fb_vocabulary_find(w->v, both);
        return *id_out < 0 ? NONE : w->v->rank[*id_out];
    }
    merge = fb_vocabulary_merge(w->v, left->id, right->id);
    if (merge == NULL) return NONE;
    *id_out = merge->id;
    return merge->rank;
}

/* Finds the merge of symbol `s` with its right neighbour and puts it on the heap. */
static void offer(word *w, int32_t s)
{
    struct fb_bpe_symbol *left = &w->bpe->symbols[s];

    left->rank = NONE;
    if (left->right == NONE) return;
    left->rank = rank_of(w, left, &w->bpe->symbols[left->right], &left->together);
    if (left->rank == NONE) return;
    push(w->bpe->heap, &w->n_heap, (struct fb_bpe_pair){left->rank, s});
}

static void join(const fb_bpe *bpe, int32_t s)
{
    struct fb_bpe_symbol *left = &bpe->symbols[s];
    struct fb_bpe_symbol *right = &bpe->symbols[left->right];

    left->id = left->together;
    left->right = right->right;
    left->n += right->n;
    if (right->right != NONE) bpe->symbols[right->right].left = s;
    right->rank = NONE;
    right->n = 0;
}

static void merge_all(word *w)
{
    for (int32_t s = 0; s < w->n; s++)
        offer(w, s);
    while (w->n_heap > 0) {
        const struct fb_bpe_pair pair = pop(w->bpe->heap, &w->n_heap);
        const struct fb_bpe_symbol *symbol = &w->bpe->symbols[pair.symbol];

        if (symbol->rank != pair.rank) continue; /* stale */
        join(w->bpe, pair.symbol);
        offer(w, pair.symbol);
        if (symbol->left != NONE) offer(w, symbol->left);
    }
}

/* The tokens of a symbol that was left over without one. */
static fb_status take_unknown(const word *w, const struct fb_bpe_symbol *symbol,
                              bool *was_unknown, fb_ids *out)
{
    const fb_vocabulary *v = w->v;
    const fb_span text = {w->text.bytes + symbol->begin, symbol->n};

    if (has_bytes(v, text)) {
        *was_unknown = false;
        for (size_t i = 0; i < text.n; i++)
            FB_TRY(fb_ids_add(out, v->byte[(unsigned char)text.bytes[i]]));
        return FB_OK;
    }
    if (v->unknown >= 0 && !(*was_unknown && v->fuses_unknown))
        FB_TRY(fb_ids_add(out, v->unknown));
    *was_unknown = true;
    return FB_OK;
}

static fb_status take_symbols(const word *w, fb_ids *out)
{
    bool was_unknown = false;

    for (int32_t s = 0; s < w->n; s++) {
        const struct fb_bpe_symbol *symbol = &w->bpe->symbols[s];

        if (symbol->n == 0) continue;
        if (symbol->id == NONE) {
            FB_TRY(take_unknown(w, symbol, &was_unknown, out));
            continue;
        }
        was_unknown = false;
        FB_TRY(fb_ids_add(out, symbol->id));
    }
    return FB_OK;
}

fb_status fb_bpe_encode(fb_bpe *bpe, const fb_vocabulary *v, fb_span text, fb_ids *out)
{
    word w = {.bpe = bpe, .v = v, .text = text};

    FB_TRY(reserve(bpe, text.n));
    (v->by_characters ? split_characters : split_bytes)(&w);
    if (w.n > 0) bpe->symbols[w.n - 1].right = NONE;
    merge_all(&w);
    return take_symbols(&w, out);
}
