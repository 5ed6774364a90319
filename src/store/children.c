/* children.c - parts of a cell that only some readers want, and the digest.
 *
 * Each list comes as one block: the array, then the texts or positions that it points
 * to. Two passes over the same rows, the first to know how much that is.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/memory.h"
#include "store/query.h"

#include <limits.h>
#include <string.h>

/* An array with room behind it. */
struct list {
    char *block, *tail;
    size_t left; /* bytes from `tail` on */
    int most;
};

/* `sql` gives the number of rows and of the bytes behind them. */
static fb_status open_list(struct list *out, fb_store *store, const char *sql,
                           int64_t cell, size_t item_size)
{
    const fb_value id = fb_value_int(cell);
    int64_t n = 0, bytes = 0;
    fb_query query;

    *out = (struct list){0};
    fb_query_open(&query, store, sql, &id, 1);
    if (fb_query_next(&query)) {
        n = fb_query_int(&query, 0);
        bytes = fb_query_int(&query, 1);
    }
    FB_TRY(fb_query_close(&query));
    if (n < 0 || bytes < 0 || n > INT_MAX || bytes > INT_MAX)
        return fb_fail(FB_FORMAT, "results '%s': a cell has too many rows",
                       store->path);
    out->block = fb_zalloc(FB_ACCOUNT_other, (size_t)n * item_size + (size_t)bytes);
    if (out->block == NULL) return fb_fail(FB_NO_MEMORY, "no memory to read a cell");
    out->tail = out->block + (size_t)n * item_size;
    out->left = (size_t)bytes;
    out->most = (int)n;
    return FB_OK;
}

/* A copy behind the array; "" if it does not fit, which only a foreign file does. */
static const char *add_text(struct list *list, const char *text)
{
    const size_t size = text == NULL ? 1 : strlen(text) + 1;
    char *copy = list->tail;

    if (text == NULL || size > list->left) return "";
    memcpy(copy, text, size);
    list->tail += size;
    list->left -= size;
    return copy;
}

fb_status fb_store_read_counts(fb_store *store, int64_t cell, fb_store_count **out,
                               int *n_out)
{
    const fb_value id = fb_value_int(cell);
    fb_store_count *counts;
    struct list list;
    fb_status status;
    fb_query query;

    *out = NULL;
    *n_out = 0;
    FB_TRY(open_list(&list, store,
                     "SELECT count(*), total(length(CAST(phase AS BLOB)) + "
                     "length(CAST(scope AS BLOB)) + length(CAST(op AS BLOB)) + 3) "
                     "FROM ledger WHERE cell_id = ?1",
                     cell, sizeof *counts));
    counts = (void *)list.block;
    fb_query_open(&query, store,
                  "SELECT phase, scope, op, calls, flops, bytes FROM ledger "
                  "WHERE cell_id = ?1 ORDER BY phase, scope, op",
                  &id, 1);
    for (; *n_out < list.most && fb_query_next(&query); (*n_out)++)
        counts[*n_out] =
            (fb_store_count){.phase = add_text(&list, fb_query_text(&query, 0)),
                             .scope = add_text(&list, fb_query_text(&query, 1)),
                             .op = add_text(&list, fb_query_text(&query, 2)),
                             .calls = fb_query_int(&query, 3),
                             .flops = fb_query_real(&query, 4),
                             .bytes = fb_query_real(&query, 5)};
    status = fb_query_close(&query);
    if (status == FB_OK)
        *out = counts;
    else
        fb_free(counts);
    return status;
}

fb_status fb_store_read_peaks(fb_store *store, int64_t cell, fb_store_peak **out,
                              int *n_out)
{
    const fb_value id = fb_value_int(cell);
    fb_store_peak *peaks;
    struct list list;
    fb_status status;
    fb_query query;

    *out = NULL;
    *n_out = 0;
    FB_TRY(
        open_list(&list, store,
                  "SELECT count(*), total(length(CAST(phase AS BLOB)) + "
                  "length(CAST(account AS BLOB)) + 2) FROM memory WHERE cell_id = ?1",
                  cell, sizeof *peaks));
    peaks = (void *)list.block;
    fb_query_open(&query, store,
                  "SELECT phase, account, peak_bytes FROM memory WHERE cell_id = ?1 "
                  "ORDER BY phase, account",
                  &id, 1);
    for (; *n_out < list.most && fb_query_next(&query); (*n_out)++)
        peaks[*n_out] =
            (fb_store_peak){.phase = add_text(&list, fb_query_text(&query, 0)),
                            .account = add_text(&list, fb_query_text(&query, 1)),
                            .peak_bytes = fb_query_int(&query, 2)};
    status = fb_query_close(&query);
    if (status == FB_OK) {
        *out = peaks;
        return FB_OK;
    }
    fb_free(list.block);
    *n_out = 0;
    return status;
}

/* --- kept positions --- */

/* The next LEB128 number of at most 31 bits; false at the end or beyond that. */
static bool next_step(const uint8_t **at, const uint8_t *end, int64_t *out)
{
    uint64_t step = 0;

    for (int shift = 0; shift < 35 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;

        step |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = (int64_t)step;
            return step <= INT32_MAX;
        }
    }
    return false;
}

/* Ascending positions from their bytes; false unless they are just `n`. */
static bool unpack(int32_t *out, int64_t n, const uint8_t *at, size_t n_bytes)
{
    const uint8_t *end = n_bytes == 0 ? at : at + n_bytes;
    int64_t position = 0, step = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!next_step(&at, end, &step) || (i > 0 && step == 0)) return false;
        position += step;
        if (position > INT32_MAX) return false;
        out[i] = (int32_t)position;
    }
    return at == end;
}

/* One row: layer, head, n, bytes. Every position has a byte at least, so `n` is
 * bounded by what was counted. */
static bool read_head(struct list *list, fb_store_kept *out, const fb_query *query)
{
    int32_t *positions = (void *)list->tail;
    size_t n_bytes;
    const void *bytes = fb_query_blob(query, 3, &n_bytes);

    *out = (fb_store_kept){.layer = fb_query_int(query, 0),
                           .kv_head = fb_query_int(query, 1),
                           .n = fb_query_int(query, 2),
                           .position = positions};
    if (out->n < 0 || (uint64_t)out->n > n_bytes ||
        (size_t)out->n * sizeof *positions > list->left)
        return false;
    list->tail += (size_t)out->n * sizeof *positions;
    list->left -= (size_t)out->n * sizeof *positions;
    return unpack(positions, out->n, bytes, n_bytes);
}

fb_status fb_store_read_kept(fb_store *store, int64_t cell, fb_store_kept **out,
                             int *n_out)
{
    const fb_value id = fb_value_int(cell);
    bool is_sound = true;
    fb_store_kept *kept;
    struct list list;
    fb_status status;
    fb_query query;

    *out = NULL;
    *n_out = 0;
    FB_TRY(open_list(&list, store,
                     "SELECT count(*), 4 * total(length(positions)) FROM kept "
                     "WHERE cell_id = ?1",
                     cell, sizeof *kept));
    kept = (void *)list.block;
    fb_query_open(&query, store,
                  "SELECT layer, kv_head, n, positions FROM kept WHERE cell_id = ?1 "
                  "ORDER BY layer, kv_head",
                  &id, 1);
    while (is_sound && *n_out < list.most && fb_query_next(&query))
        is_sound = read_head(&list, &kept[(*n_out)++], &query);
    status = fb_query_close(&query);
    if (status == FB_OK && !is_sound)
        status =
            fb_fail(FB_FORMAT, "results '%s': kept positions are damaged", store->path);
    if (status == FB_OK)
        *out = kept;
    else {
        *n_out = 0;
        fb_free(kept);
    }
    return status;
}

/* --- the experiment's digest: its sorted cell digests, a line each, hashed --- */

fb_status fb_store_digest(fb_store *store, int64_t experiment, char out[FB_HASH_HEX])
{
    const fb_value id = fb_value_int(experiment);
    fb_query query;
    fb_hash hash;

    fb_hash_init(&hash);
    fb_query_open(&query, store,
                  "SELECT digest FROM cell WHERE experiment_id = ?1 AND "
                  "status = 'done' ORDER BY digest",
                  &id, 1);
    while (fb_query_next(&query)) {
        const char *digest = fb_query_text(&query, 0);

        if (digest != NULL) fb_hash_add(&hash, digest, strlen(digest));
        fb_hash_add(&hash, "\n", 1);
    }
    fb_hash_hex(&hash, out);
    return fb_query_close(&query);
}
