/* index.h - a hash table from 64-bit hashes to numbers.
 *
 * Open addressing, never more than half full. Several numbers may have one hash: the
 * caller knows what is equal, and asks for one after the other.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_INDEX_H
#define FB_BASE_INDEX_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fb_index {
    struct fb_index_slot *slot; /* [capacity] */
    size_t n, capacity;         /* a power of two, or 0 */
} fb_index;

FB_MUST_USE fb_status fb_index_add(fb_index *table, uint64_t hash, int value);
/* The next number with that hash; `*at`, at first 0, says where the search stands. */
bool fb_index_next(const fb_index *table, uint64_t hash, size_t *at, int *out);
bool fb_index_has(const fb_index *table, uint64_t hash);
void fb_index_clear(fb_index *table);

#endif
