/* export_kept_tensors.c - kept sets as a safetensors file.
 *
 * Two tensors for each cell: `N.counts`, how many entries each head keeps, and
 * `N.positions`, which, head behind head. Layout of the file as in
 * github.com/huggingface/safetensors, README; numbers are little-endian.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/export_kept.h"

#include "base/json.h"
#include "base/memory.h"

#include <string.h>

enum { NUMBER = 4, LENGTH = 8, MOST_HEADER = 100 << 20 }; /* bytes */

/* --- the header --- */

static void add_cells(const fb_kept_cells *cells, fb_text *out)
{
    fb_text list = {0};

    fb_text_init(&list, MOST_HEADER);
    fb_text_puts(&list, "[");
    for (int i = 0; i < cells->n; i++) {
        fb_text_printf(&list, "%s{\"tensors\": \"%d\", ", i == 0 ? "" : ", ", i);
        fb_kept_describe(cells, cells->cell[i], &list);
        fb_text_puts(&list, "}");
    }
    fb_text_puts(&list, "]");
    fb_json_add_string(out, fb_text_string(&list));
    if (list.failed) out->failed = true;
    fb_text_clear(&list);
}

static void add_metadata(const fb_kept_cells *cells, fb_text *out)
{
    const fb_results *r = cells->results;

    fb_text_puts(out, "\"__metadata__\": {\"format\": \"flexbudget kept sets 1\"");
    fb_text_puts(out, ", \"experiment\": ");
    fb_json_add_string(out, r->name);
    fb_text_puts(out, ", \"spec_sha256\": ");
    fb_json_add_string(out, r->spec_sha256);
    fb_text_puts(out, ", \"cells\": ");
    add_cells(cells, out);
    fb_text_puts(out, "}");
}

/* Of the i-th cell; `at` is where its data begin, and becomes where they end. */
static void add_tensors(const fb_kept_cells *cells, int i, int64_t *at, fb_text *out)
{
    const int64_t n = cells->results->cells[cells->cell[i]].kept_entries;
    const int64_t middle = *at + cells->layers * cells->kv_heads * NUMBER;

    fb_text_printf(out,
                   ", \"%d.counts\": {\"dtype\": \"I32\", \"shape\": [%lld, %lld], "
                   "\"data_offsets\": [%lld, %lld]}",
                   i, (long long)cells->layers, (long long)cells->kv_heads,
                   (long long)*at, (long long)middle);
    *at = middle + n * NUMBER;
    fb_text_printf(out,
                   ", \"%d.positions\": {\"dtype\": \"I32\", \"shape\": [%lld], "
                   "\"data_offsets\": [%lld, %lld]}",
                   i, (long long)n, (long long)middle, (long long)*at);
}

static fb_status write_header(const fb_kept_cells *cells, fb_writer *writer)
{
    uint8_t length[LENGTH];
    int64_t at = 0;
    fb_text header = {0};
    fb_status status;

    fb_text_init(&header, MOST_HEADER);
    fb_text_puts(&header, "{");
    add_metadata(cells, &header);
    for (int i = 0; i < cells->n; i++)
        add_tensors(cells, i, &at, &header);
    fb_text_puts(&header, "}");
    while (header.n % LENGTH != 0 && !header.failed)
        fb_text_puts(&header, " ");
    status = fb_text_status(&header);
    for (int i = 0; i < LENGTH; i++)
        length[i] = (uint8_t)((uint64_t)header.n >> (8 * i));
    fb_writer_add(writer, length, sizeof length);
    fb_writer_add(writer, fb_text_string(&header), header.n);
    fb_text_clear(&header);
    if (status == FB_OK) return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "%d kept sets are more than a safetensors file can name; the format "
                   "jsonl has no limit",
                   cells->n);
}

/* --- the data --- */

static void put_number(uint8_t *at, int64_t number)
{
    for (int i = 0; i < NUMBER; i++)
        at[i] = (uint8_t)((uint64_t)number >> (8 * i));
}

static fb_status write_cell(const fb_kept_cells *cells, int cell, fb_writer *writer)
{
    const int64_t slots = cells->layers * cells->kv_heads;
    const int64_t n = cells->results->cells[cell].kept_entries;
    uint8_t *bytes = NULL, *at;
    fb_store_kept *kept;

    FB_TRY(fb_kept_read(cells, cell, &kept));
    bytes = fb_alloc(FB_ACCOUNT_other,
                     fb_size_mul((size_t)(slots + n) + 1, (size_t)NUMBER));
    if (bytes == NULL) {
        fb_free(kept);
        return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
    }
    at = bytes + slots * NUMBER;
    for (int64_t s = 0; s < slots; s++) {
        put_number(bytes + s * NUMBER, kept[s].n);
        for (int64_t j = 0; j < kept[s].n; j++, at += NUMBER)
            put_number(at, kept[s].position[j]);
    }
    fb_writer_add(writer, bytes, (size_t)(at - bytes));
    fb_free(bytes);
    fb_free(kept);
    return FB_OK;
}

fb_status fb_kept_write_tensors(const fb_kept_cells *cells, fb_writer *writer)
{
    FB_TRY(write_header(cells, writer));
    for (int i = 0; i < cells->n; i++)
        FB_TRY(write_cell(cells, cells->cell[i], writer));
    return FB_OK;
}
