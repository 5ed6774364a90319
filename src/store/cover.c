/* cover.c - see cover.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/cover.h"
#include "base/memory.h"
#include "store/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ?1 is the experiment; ?2 a cell of it, 0 for all. */
#define OF(column)                                                                     \
    "(SELECT " column " FROM cell WHERE experiment_id = ?1 AND (?2 = 0 OR id = ?2))"

typedef struct source {
    const char *name, *sql;
    bool is_made;
    bool by_cell;         /* ?1 is one cell, and they are walked in their own order */
    const char *left_out; /* a column that belongs to `made` */
} source;

static const source sources[FB_COVER_TABLES] = {
    {.name = "experiment",
     .sql = "SELECT * FROM experiment WHERE id = ?1 AND ?2 = 0",
     .left_out = "created"},
    {.name = "model",
     .sql = "SELECT * FROM model WHERE id IN " OF("model_id") " ORDER BY sha256, name, "
                                                              "facts"},
    {.name = "task",
     .sql =
         "SELECT * FROM task WHERE id IN (SELECT task_id FROM sample WHERE id IN " OF(
             "sample_id") ") ORDER BY name, version, params, data_sha256, metric, "
                          "margin"},
    {.name = "sample",
     .sql =
         "SELECT sample.*, (SELECT name || ' ' || coalesce(params, '') || ' ' || "
         "coalesce(data_sha256, '') FROM task WHERE id = task_id) AS task FROM sample "
         "WHERE id IN " OF(
             "sample_id") " ORDER BY task, key, tokens_sha256, has_texts"},
    {.name = "rule",
     .sql = "SELECT * FROM rule WHERE id IN " OF("rule_id") " ORDER BY label, "
                                                            "expression, about"},
    {.name = "budget",
     .sql = "SELECT * FROM budget WHERE id IN " OF("budget_id") " ORDER BY kind, "
                                                                "value, asked"},
    {.name = "cell",
     .sql = "SELECT cell.*, (SELECT sha256 FROM model WHERE id = model_id) AS model "
            "FROM cell WHERE id = ?1",
     .by_cell = true},
    {.name = "score",
     .sql = "SELECT * FROM score WHERE cell_id = ?1 ORDER BY metric",
     .by_cell = true},
    {.name = "ledger",
     .sql = "SELECT * FROM ledger WHERE cell_id = ?1 ORDER BY phase, scope, op",
     .by_cell = true},
    {.name = "kept",
     .sql = "SELECT * FROM kept WHERE cell_id = ?1 ORDER BY layer, kv_head",
     .by_cell = true},
    {.name = "note",
     .sql = "SELECT note.*, (SELECT digest FROM cell WHERE id = cell_id) AS cell "
            "FROM note WHERE experiment_id = ?1 AND ?2 = 0 ORDER BY level, text, cell"},
    {.name = "host",
     .sql = "SELECT * FROM host WHERE id = (SELECT host_id FROM cell WHERE id = ?1)",
     .by_cell = true,
     .is_made = true},
    {.name = "memory",
     .sql = "SELECT * FROM memory WHERE cell_id = ?1 ORDER BY phase, account",
     .by_cell = true,
     .is_made = true},
    {.name = "timing",
     .sql = "SELECT timing.*, (SELECT sha256 FROM host WHERE id = host_id) AS host "
            "FROM timing WHERE cell_id = ?1 ORDER BY phase, repetition, host",
     .by_cell = true,
     .is_made = true},
};

/* --- values --- */

/* FNV-1a, stirred in the end so that sums tell values apart. Names a column; the proof is
 * the SHA-256 of the table. */
static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < n; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    h = (h ^ (h >> 31)) * UINT64_C(0x7fb5d329728ea185);
    return h ^ (h >> 27);
}

/* A value as bytes: its type, its length, itself. What is long is lent, behind a head. */
static void add_value(fb_hash *hash, uint64_t *sum, sqlite3_stmt *row, int column)
{
    char head[64];
    const void *bytes = NULL;
    size_t n = 0;
    double real;
    uint64_t bits;

    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        (void)snprintf(head, sizeof head, "i%" PRId64 "\n",
                       (int64_t)sqlite3_column_int64(row, column));
        break;
    case SQLITE_FLOAT:
        real = sqlite3_column_double(row, column);
        memcpy(&bits, &real, sizeof bits);
        (void)snprintf(head, sizeof head, "r%016" PRIx64 "\n", bits);
        break;
    case SQLITE_NULL:
        (void)snprintf(head, sizeof head, "n\n");
        break;
    default:
        bytes = sqlite3_column_blob(row, column);
        n = (size_t)sqlite3_column_bytes(row, column);
        (void)snprintf(head, sizeof head, "b%zu:", n);
    }
    fb_hash_add(hash, head, strlen(head));
    if (n > 0) fb_hash_add(hash, bytes, n);
    *sum += mix(mix(UINT64_C(0xcbf29ce484222325), head, strlen(head)), bytes, n);
}

static bool is_id(const char *name)
{
    const size_t n = strlen(name);

    return strcmp(name, "id") == 0 || (n > 3 && strcmp(name + n - 3, "_id") == 0);
}

/* --- rows --- */

typedef struct cover {
    fb_hash hash;
    fb_cover_table *table;
    const source *from;
} cover;

static fb_cover_column *find_column(fb_cover_table *table, const char *name)
{
    fb_cover_column *column;

    for (int i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i].name, name) == 0) return &table->columns[i];
    if (table->n_columns == FB_COVER_COLUMNS) return NULL;
    column = &table->columns[table->n_columns++];
    (void)snprintf(column->name, sizeof column->name, "%s", name);
    return column;
}

static fb_status add_row(cover *c, const fb_query *query)
{
    const int n = sqlite3_column_count(query->statement);

    for (int i = 0; i < n; i++) {
        const char *name = sqlite3_column_name(query->statement, i);
        fb_cover_column *column;

        if (name == NULL) return fb_fail(FB_NO_MEMORY, "no memory to check results");
        if (is_id(name)) continue;
        if (c->from->left_out != NULL && strcmp(name, c->from->left_out) == 0) continue;
        column = find_column(c->table, name);
        if (column == NULL)
            return fb_fail(FB_FORMAT, "results '%s': table '%s' has too many columns",
                           query->store->path, c->table->name);
        fb_hash_add(&c->hash, name, strlen(name) + 1);
        add_value(&c->hash, &column->sum, query->statement, i);
    }
    c->table->rows++;
    return FB_OK;
}

static fb_status add_rows(cover *c, fb_query *query)
{
    while (fb_query_next(query))
        FB_TRY(add_row(c, query));
    return FB_OK;
}

static void add_word(fb_hash *hash, const char *word)
{
    char head[32];

    if (word == NULL) word = "";
    (void)snprintf(head, sizeof head, "%zu:", strlen(word));
    fb_hash_add(hash, head, strlen(head));
    fb_hash_add(hash, word, strlen(word));
}

/* Which cell its row and its children are of. */
static void add_identity(cover *c, const fb_results *r, const fb_result_cell *cell)
{
    const fb_result_sample *sample = &r->samples[cell->sample];
    const fb_result_task *task = &r->tasks[sample->task];
    char seed[32];

    (void)snprintf(seed, sizeof seed, "%" PRId64, cell->seed);
    add_word(&c->hash, task->kind);
    add_word(&c->hash, task->params);
    add_word(&c->hash, task->data_sha256);
    add_word(&c->hash, sample->key);
    add_word(&c->hash, sample->tokens_sha256);
    add_word(&c->hash, r->rules[cell->rule].label);
    add_word(&c->hash, cell->budget < 0 ? "full" : r->budgets[cell->budget].asked);
    add_word(&c->hash, seed);
}

static fb_status add_cells(cover *c, fb_query *query, const fb_results *results,
                           int only)
{
    for (int i = 0; i < results->n_cells; i++) {
        const fb_value id = fb_value_int(results->cells[i].id);

        if (only >= 0 && i != only) continue;
        add_identity(c, results, &results->cells[i]);
        fb_query_again(query, &id, 1);
        FB_TRY(add_rows(c, query));
    }
    return FB_OK;
}

static fb_status add_table(fb_cover_table *out, fb_store *store,
                           const fb_results *results, int only, const source *from)
{
    const fb_value values[] = {
        fb_value_int(results->experiment),
        fb_value_int(only >= 0 ? results->cells[only].id : 0),
    };
    cover c = {.table = out, .from = from};
    fb_status status, closed;
    fb_query query;

    *out = (fb_cover_table){.name = from->name, .is_made = from->is_made};
    fb_hash_init(&c.hash);
    fb_query_open(&query, store, from->sql, values, from->by_cell ? 0 : 2);
    status =
        from->by_cell ? add_cells(&c, &query, results, only) : add_rows(&c, &query);
    closed = fb_query_close(&query);
    fb_hash_hex(&c.hash, out->sha256);
    return status != FB_OK ? status : closed;
}

fb_status fb_store_cover(fb_cover **out, fb_store *store, const fb_results *results,
                         int cell)
{
    fb_cover *covers = fb_zalloc(FB_ACCOUNT_other, sizeof *covers);
    fb_status status = FB_OK;

    *out = NULL;
    if (covers == NULL) return fb_fail(FB_NO_MEMORY, "no memory to check results");
    for (int t = 0; t < FB_COVER_TABLES && status == FB_OK; t++)
        status = add_table(&covers->tables[t], store, results, cell, &sources[t]);
    if (status == FB_OK)
        *out = covers;
    else
        fb_free(covers);
    return status;
}

/* --- two of them --- */

static void add_part(fb_text *out, const char *table, const char *column)
{
    fb_text_printf(out, "%s%s%s", out->n > 0 ? ", " : "", table, column);
}

void fb_cover_add_differences(const fb_cover_table *a, const fb_cover_table *b,
                              fb_text *out)
{
    const size_t before = out->n;

    if (strcmp(a->sha256, b->sha256) == 0) return;
    if (a->rows != b->rows) {
        add_part(out, a->name, ": how many rows");
        return;
    }
    for (int i = 0; i < a->n_columns && i < b->n_columns; i++)
        if (strcmp(a->columns[i].name, b->columns[i].name) != 0 ||
            a->columns[i].sum != b->columns[i].sum) {
            add_part(out, a->name, ".");
            fb_text_puts(out, a->columns[i].name);
        }
    if (out->n == before) add_part(out, a->name, ": what its rows belong to");
}
