/* reader.h - what the files that read an experiment share; inside the store only.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STORE_READER_H
#define FB_STORE_READER_H

#include "store/pool.h"
#include "store/query.h"

/* The ids of rows, ascending once sorted, each with its index in an array. */
typedef struct fb_links {
    struct link *link; /* [n] */
    int n;
} fb_links;

typedef struct fb_reader {
    fb_results results;
    fb_pool pool;
    fb_store *store;
    fb_query query; /* the one at hand */
    fb_links tasks, samples, rules, budgets;
} fb_reader;

/* Opens the query at hand, its first parameter the id of the experiment. */
void fb_reader_query(fb_reader *reader, const char *sql);

/* Columns of its row. A word is a text that must be there: "" in a file that says NULL
 * nevertheless. */
const char *fb_reader_text(fb_reader *reader, int column);
const char *fb_reader_word(fb_reader *reader, int column);
int64_t fb_reader_int(const fb_reader *reader, int column);
bool fb_reader_bool(const fb_reader *reader, int column);

/* Whether the file is of this schema or a newer one. */
FB_MUST_USE fb_status fb_reader_is_since(const fb_reader *reader, int64_t schema,
                                         bool *out);
/* Room in the pool for as many rows as `count_sql` counts. */
FB_MUST_USE fb_status fb_reader_take(void **out, int *n_out, fb_reader *reader,
                                     const char *count_sql, size_t size);
FB_MUST_USE fb_status fb_reader_dangling(const fb_reader *reader, const char *what);

FB_MUST_USE fb_status fb_links_take(fb_reader *reader, fb_links *links, int n);
void fb_links_add(fb_links *links, int64_t id, int index);
void fb_links_sort(fb_links *links);
bool fb_links_find(int *out, const fb_links *links, int64_t id);

/* Reads the cells with their scores; what they refer to has been read. */
FB_MUST_USE fb_status fb_reader_cells(fb_reader *reader);

/* Gives each task its name, by kinds, parameters and data: see fb_result_task. */
FB_MUST_USE fb_status fb_name_tasks(fb_pool *pool, fb_result_task *tasks, int n);

#endif
