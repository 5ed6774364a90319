/* query.c - statements, and what SQLite's answers mean to a person.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/query.h"

#include <errno.h>
#include <string.h>

static const struct {
    int code;
    fb_status status;
    const char *sentence; /* NULL: SQLite's own words */
} answers[] = {
    {SQLITE_NOMEM, FB_NO_MEMORY, "no memory"},
    {SQLITE_BUSY, FB_IO, "another process is writing to it; try again when it is done"},
    {SQLITE_LOCKED, FB_IO, "it is locked; try again"},
    {SQLITE_FULL, FB_IO, "no space left"},
    {SQLITE_IOERR, FB_IO,
     "it cannot be read or written: the disk, a quota or a limit on file sizes"},
    {SQLITE_READONLY, FB_IO, "it cannot be written"},
    {SQLITE_PERM, FB_IO, "it may not be opened"},
    {SQLITE_NOTADB, FB_FORMAT, "not a results file"},
    {SQLITE_CORRUPT, FB_FORMAT, "the file is damaged"},
    {SQLITE_TOOBIG, FB_FORMAT, "a value in it is too long"},
    {SQLITE_ERROR, FB_FORMAT, NULL}, /* tables or columns that are not there */
    {SQLITE_CONSTRAINT, FB_DEFECT, NULL},
};

static fb_status cannot_open(const fb_store *store)
{
    const int cause = sqlite3_system_errno(store->db);

    return fb_fail(cause == ENOENT || cause == ENAMETOOLONG ? FB_NOT_FOUND : FB_IO,
                   "results '%s': cannot be opened: %s", store->path,
                   cause == 0 ? "not a plain file" : strerror(cause));
}

fb_status fb_store_failure(const fb_store *store, int code)
{
    const char *words = sqlite3_errmsg(store->db);

    if ((code & 0xff) == SQLITE_CANTOPEN) return cannot_open(store);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if ((code & 0xff) == answers[i].code)
            return fb_fail(answers[i].status, "results '%s': %s", store->path,
                           answers[i].sentence != NULL ? answers[i].sentence : words);
    return fb_fail(FB_IO, "results '%s': %s", store->path, words);
}

/* --- values --- */

fb_value fb_value_text(const char *text)
{
    return (fb_value){.kind = FB_VALUE_TEXT, .bytes = text};
}

fb_value fb_value_blob(const void *bytes, size_t n)
{
    return (fb_value){.kind = FB_VALUE_BLOB, .bytes = bytes, .n = n};
}

fb_value fb_value_int(int64_t integer)
{
    return (fb_value){.kind = FB_VALUE_INT, .integer = integer};
}

fb_value fb_value_id(int64_t id)
{
    return id == 0 ? fb_value_text(NULL) : fb_value_int(id);
}

fb_value fb_value_real(double real)
{
    return (fb_value){.kind = FB_VALUE_REAL, .real = real};
}

static int bind(sqlite3_stmt *statement, int at, const fb_value *value)
{
    switch (value->kind) {
    case FB_VALUE_INT:
        return sqlite3_bind_int64(statement, at, value->integer);
    case FB_VALUE_REAL:
        return sqlite3_bind_double(statement, at, value->real);
    case FB_VALUE_BLOB:
        return sqlite3_bind_blob64(statement, at, value->bytes, value->n,
                                   SQLITE_STATIC);
    case FB_VALUE_TEXT:
        break;
    }
    return sqlite3_bind_text(statement, at, value->bytes, -1, SQLITE_STATIC);
}

/* --- statements --- */

static void bind_all(fb_query *query, const fb_value *values, int n)
{
    for (int i = 0; i < n && query->code == SQLITE_OK; i++)
        query->code = bind(query->statement, i + 1, &values[i]);
}

void fb_query_open(fb_query *query, fb_store *store, const char *sql,
                   const fb_value *values, int n)
{
    *query = (fb_query){.store = store};
    query->code = sqlite3_prepare_v2(store->db, sql, -1, &query->statement, NULL);
    bind_all(query, values, n);
}

void fb_query_again(fb_query *query, const fb_value *values, int n)
{
    if (query->code != SQLITE_OK) return;
    query->code = sqlite3_reset(query->statement);
    bind_all(query, values, n);
}

bool fb_query_next(fb_query *query)
{
    int answer;

    if (query->code != SQLITE_OK) return false;
    answer = sqlite3_step(query->statement);
    if (answer != SQLITE_ROW && answer != SQLITE_DONE) query->code = answer;
    return answer == SQLITE_ROW;
}

fb_status fb_query_close(fb_query *query)
{
    fb_status status = FB_OK;

    if (query->code != SQLITE_OK) status = fb_store_failure(query->store, query->code);
    sqlite3_finalize(query->statement); /* repeats the failure that is known already */
    query->statement = NULL;
    return status;
}

int64_t fb_query_int(const fb_query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

double fb_query_real(const fb_query *query, int column)
{
    return sqlite3_column_double(query->statement, column);
}

bool fb_query_is_null(const fb_query *query, int column)
{
    return sqlite3_column_type(query->statement, column) == SQLITE_NULL;
}

const char *fb_query_text(const fb_query *query, int column)
{
    return (const char *)sqlite3_column_text(query->statement, column);
}

const void *fb_query_blob(const fb_query *query, int column, size_t *n_out)
{
    const void *bytes = sqlite3_column_blob(query->statement, column);

    *n_out = (size_t)sqlite3_column_bytes(query->statement, column);
    return bytes;
}

fb_status fb_query_run(fb_store *store, const char *sql, const fb_value *values, int n)
{
    fb_query query;

    fb_query_open(&query, store, sql, values, n);
    while (fb_query_next(&query)) {
    }
    return fb_query_close(&query);
}

fb_status fb_query_number(int64_t *out, fb_store *store, const char *sql,
                          const fb_value *values, int n)
{
    fb_query query;

    *out = 0;
    fb_query_open(&query, store, sql, values, n);
    if (fb_query_next(&query)) *out = fb_query_int(&query, 0);
    return fb_query_close(&query);
}

/* A file that was removed takes what is written to it without a word. */
static fb_status check_place(const fb_store *store)
{
    int has_moved = 0;

    if (sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) !=
            SQLITE_OK ||
        !has_moved)
        return FB_OK;
    return fb_fail(FB_IO,
                   "results '%s': the file was moved or removed while the program "
                   "wrote to it",
                   store->path);
}

fb_status fb_query_end(fb_store *store, fb_status status)
{
    if (status == FB_OK) status = fb_query_run(store, "COMMIT", NULL, 0);
    if (status == FB_OK && store->writes) status = check_place(store);
    if (status != FB_OK && sqlite3_get_autocommit(store->db) == 0)
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

fb_status fb_store_begin(fb_store *store)
{
    return fb_query_run(store, "BEGIN IMMEDIATE", NULL, 0);
}

fb_status fb_store_end(fb_store *store, fb_status status)
{
    return fb_query_end(store, status);
}
