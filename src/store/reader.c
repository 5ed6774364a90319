/* reader.c - columns, and ids that become indices.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/reader.h"

#include <limits.h>
#include <stdlib.h>

const char *fb_reader_text(fb_reader *reader, int column)
{
    return fb_pool_text(&reader->pool, fb_query_text(&reader->query, column));
}

const char *fb_reader_word(fb_reader *reader, int column)
{
    const char *text = fb_query_text(&reader->query, column);

    return fb_pool_text(&reader->pool, text == NULL ? "" : text);
}

int64_t fb_reader_int(const fb_reader *reader, int column)
{
    return fb_query_int(&reader->query, column);
}

bool fb_reader_bool(const fb_reader *reader, int column)
{
    return fb_query_int(&reader->query, column) != 0;
}

void fb_reader_query(fb_reader *reader, const char *sql)
{
    const fb_value experiment = fb_value_int(reader->results.experiment);

    fb_query_open(&reader->query, reader->store, sql, &experiment, 1);
}

/* --- ids to indices --- */

struct link {
    int64_t id;
    int index;
};

static int by_id(const void *a, const void *b)
{
    const struct link *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

bool fb_links_find(int *out, const fb_links *links, int64_t id)
{
    const struct link key = {.id = id};
    const struct link *found = NULL;

    if (links->n > 0)
        found =
            bsearch(&key, links->link, (size_t)links->n, sizeof *links->link, by_id);
    if (found != NULL) *out = found->index;
    return found != NULL;
}

fb_status fb_reader_dangling(const fb_reader *reader, const char *what)
{
    return fb_fail(FB_FORMAT, "results '%s': a row names a %s that is not there",
                   reader->store->path, what);
}

fb_status fb_reader_is_since(const fb_reader *reader, int64_t schema, bool *out)
{
    int64_t version = 0;
    const fb_status status =
        fb_query_number(&version, reader->store, "PRAGMA user_version", NULL, 0);

    *out = version >= schema;
    return status;
}

fb_status fb_reader_take(void **out, int *n_out, fb_reader *reader,
                         const char *count_sql, size_t size)
{
    const fb_value experiment = fb_value_int(reader->results.experiment);
    int64_t n = 0;

    *out = NULL;
    *n_out = 0;
    FB_TRY(fb_query_number(&n, reader->store, count_sql, &experiment, 1));
    if (n < 0 || n > INT_MAX / 2)
        return fb_fail(FB_FORMAT, "results '%s': too many rows", reader->store->path);
    *out = fb_pool_take(&reader->pool, (size_t)n, size);
    *n_out = (int)n;
    return fb_pool_status(&reader->pool);
}

fb_status fb_links_take(fb_reader *reader, fb_links *links, int n)
{
    links->link = fb_pool_take(&reader->pool, (size_t)n, sizeof *links->link);
    return fb_pool_status(&reader->pool);
}

void fb_links_add(fb_links *links, int64_t id, int index)
{
    links->link[links->n++] = (struct link){id, index};
}

void fb_links_sort(fb_links *links)
{
    if (links->n > 0) qsort(links->link, (size_t)links->n, sizeof *links->link, by_id);
}
