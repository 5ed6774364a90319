/* query.h - one SQL statement at a time; inside the store only.
 *
 * Sticky: after the first failure a query binds nothing and finds no rows; ask once
 * with fb_query_close(). Whatever SQLite says becomes one sentence with the file's
 * name.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STORE_QUERY_H
#define FB_STORE_QUERY_H

#include "store/store.h"

#include <sqlite3.h>

struct fb_store {
    sqlite3 *db;
    char *path;
    bool writes;
};

/* What is bound to one parameter. */
typedef struct fb_value {
    enum { FB_VALUE_TEXT, FB_VALUE_INT, FB_VALUE_REAL, FB_VALUE_BLOB } kind;
    const void *bytes; /* of a text or blob; NULL is SQL's NULL */
    size_t n;          /* of a blob */
    int64_t integer;
    double real;
} fb_value;

fb_value fb_value_text(const char *text); /* lent until the query has run; takes NULL */
fb_value fb_value_blob(const void *bytes, size_t n);
fb_value fb_value_int(int64_t integer);
fb_value fb_value_id(int64_t id); /* 0 is SQL's NULL */
fb_value fb_value_real(double real);

typedef struct fb_query {
    fb_store *store;
    sqlite3_stmt *statement;
    int code; /* of SQLite; SQLITE_OK until something fails */
} fb_query;

/* A statement with its first `n` parameters bound. Must be closed, whatever happens. */
void fb_query_open(fb_query *query, fb_store *store, const char *sql,
                   const fb_value *values, int n);
/* Starts again with other values. */
void fb_query_again(fb_query *query, const fb_value *values, int n);
bool fb_query_next(fb_query *query); /* false: no further row, or a failure */
FB_MUST_USE fb_status fb_query_close(fb_query *query);

/* Columns of the row at hand. */
int64_t fb_query_int(const fb_query *query, int column);
double fb_query_real(const fb_query *query, int column);
bool fb_query_is_null(const fb_query *query, int column);
const char *fb_query_text(const fb_query *query, int column); /* NULL for SQL's NULL */
const void *fb_query_blob(const fb_query *query, int column, size_t *n_out);

/* Runs a statement to its end; the first column of its first row, if asked for. */
FB_MUST_USE fb_status fb_query_run(fb_store *store, const char *sql,
                                   const fb_value *values, int n);
FB_MUST_USE fb_status fb_query_number(int64_t *out, fb_store *store, const char *sql,
                                      const fb_value *values, int n);
/* Ends a transaction: commits if `status` is FB_OK, else takes all back. */
FB_MUST_USE fb_status fb_query_end(fb_store *store, fb_status status);

/* open.c - a store in memory with the tables of this program and nothing in them. Close it
 * in any case. */
FB_MUST_USE fb_status fb_store_open_model(fb_store **out);

/* The failure that SQLite's last answer stands for, with the path in front. */
FB_MUST_USE fb_status fb_store_failure(const fb_store *store, int code);

#endif
