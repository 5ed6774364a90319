/* bpe.c - merges by rank: a linked list of symbols and a heap of pairs.
 *
 * Each symbol knows the rank of the merge with its right neighbour. The heap holds
 * (rank, left symbol), smallest rank first, leftmost first among equals. An entry is
 * stale when its symbol's rank has changed since; stale ones are skipped. Every merge
 * removes a symbol and adds two entries at most: O(n log n).
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/bpe.h"

#include "base/memory.h"
#include "model/vocabulary.h"

#include <string.h>

enum { NONE = -1, HEAP_PER_SYMBOL = 3 };

struct fb_bpe_symbol {
    int32_t id;             /* NONE: merged into its left neighbour */
    int32_t left, right;    /* symbols; NONE at the ends */
    int32_t rank, together; /* of the merge with the right one; NONE: there is none */
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

/* One symbol per byte that has a token. Returns how many. */
static int32_t split(const fb_vocabulary *v, fb_span word,
                     struct fb_bpe_symbol *symbols)
{
    int32_t n = 0;

    for (size_t i = 0; i < word.n; i++) {
        const int32_t id = v->byte[(unsigned char)word.bytes[i]];

        if (id < 0) continue;
        symbols[n] = (struct fb_bpe_symbol){id, n - 1, n + 1, NONE, NONE};
        n++;
    }
    if (n > 0) symbols[n - 1].right = NONE;
    return n;
}

/* Finds the merge of symbol `s` with its right neighbour and puts it on the heap. */
static void offer(const fb_bpe *bpe, const fb_vocabulary *v, int32_t s, size_t *n_heap)
{
    struct fb_bpe_symbol *left = &bpe->symbols[s];
    const fb_merge *merge;

    left->rank = NONE;
    if (left->right == NONE) return;
    merge = fb_vocabulary_merge(v, left->id, bpe->symbols[left->right].id);
    if (merge == NULL) return;
    left->rank = merge->rank;
    left->together = merge->id;
    push(bpe->heap, n_heap, (struct fb_bpe_pair){merge->rank, s});
}

static void join(const fb_bpe *bpe, int32_t s)
{
    struct fb_bpe_symbol *left = &bpe->symbols[s];
    struct fb_bpe_symbol *right = &bpe->symbols[left->right];

    left->id = left->together;
    left->right = right->right;
    if (right->right != NONE) bpe->symbols[right->right].left = s;
    right->id = right->rank = NONE;
}

fb_status fb_bpe_encode(fb_bpe *bpe, const fb_vocabulary *v, fb_span word, fb_ids *out)
{
    size_t n_heap = 0;
    int32_t n;

    FB_TRY(reserve(bpe, word.n));
    n = split(v, word, bpe->symbols);
    for (int32_t s = 0; s < n; s++)
        offer(bpe, v, s, &n_heap);
    while (n_heap > 0) {
        const struct fb_bpe_pair pair = pop(bpe->heap, &n_heap);
        const struct fb_bpe_symbol *symbol = &bpe->symbols[pair.symbol];

        if (symbol->rank != pair.rank) continue; /* stale */
        join(bpe, pair.symbol);
        offer(bpe, v, pair.symbol, &n_heap);
        if (symbol->left != NONE) offer(bpe, v, symbol->left, &n_heap);
    }
    for (int32_t s = 0; s < n; s++)
        if (bpe->symbols[s].id != NONE) FB_TRY(fb_ids_add(out, bpe->symbols[s].id));
    return FB_OK;
}
