/* cover.h - hashes over everything that a file says of one experiment, table by table.
 *
 * What a certificate rests on: whoever changes a recorded byte changes the hash of its
 * table, and the sum of its column says which one it was. Rows come in an order that the
 * rows themselves give, and what they refer to is written out instead of its id: two files
 * with the same content have the same hashes. Columns are those that the file has, so a
 * new one is covered from its first day.
 *
 * Not covered: ids of rows, `certificate` and `verification` (they come after).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STORE_COVER_H
#define FB_STORE_COVER_H

#include "store/store.h"

enum { FB_COVER_TABLES = 14, FB_COVER_COLUMNS = 48 };

typedef struct fb_cover_column {
    char name[32];
    uint64_t sum; /* of a checksum of every value: the order of rows is not in it */
} fb_cover_column;

typedef struct fb_cover_table {
    const char *name;
    bool is_made; /* when and where: may differ between equal results */
    int64_t rows;
    char sha256[FB_HASH_HEX];
    fb_cover_column columns[FB_COVER_COLUMNS];
    int n_columns;
} fb_cover_table;

typedef struct fb_cover {
    fb_cover_table tables[FB_COVER_TABLES]; /* what others refer to comes first */
} fb_cover;

/* Of the experiment of `results`, read from the same store; `cell`: of this index and what
 * it refers to alone, -1: of all. Free with fb_free. */
FB_MUST_USE fb_status fb_store_cover(fb_cover **out, fb_store *store,
                                     const fb_results *results, int cell);

/* Adds what differs between two tables, "score.value, score.metric"; "ledger: what its rows
 * belong to" where each column has the same values, but not in the same rows. */
void fb_cover_add_differences(const fb_cover_table *a, const fb_cover_table *b,
                              fb_text *out);

#endif
