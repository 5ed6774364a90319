/* gguf.c - opens a GGUF file and checks all of it before anything is used.
 *
 * Layout (github.com/ggml-org/ggml, docs/gguf.md), little-endian: magic, version,
 * number of tensors, number of pairs; the pairs (key, type, value); the tensor infos
 * (name, dimensions, format, offset); padding to the alignment; the data. Versions 2
 * and 3 are the same for little-endian files.
 *
 * The file is mapped and stays where it is. Pairs and infos become small tables that
 * are sorted by name, so a doubled name shows as equal neighbours and a look-up is a
 * binary search.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/gguf.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/cursor.h"
#include "model/gguf_value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLDEST = 2,
    NEWEST = 3,
    MOST_ENTRIES = 1 << 16, /* of either table: far above any model */
    MOST_KEY = 65535,
    MOST_NAME = 64, /* both as the format's description says */
    ALIGNMENT = 32, /* where `general.alignment` does not say */
    PAIR_BYTES = 8 + 1 + 4 + 1,
    INFO_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
};

/* --- small ---------------------------------------------------------------------- */

static int compare_pairs(const void *a, const void *b)
{
    return fb_span_compare(((const fb_gguf_pair *)a)->key,
                           ((const fb_gguf_pair *)b)->key);
}

static fb_status cut_short(const fb_gguf *g, const char *where)
{
    return fb_fail(FB_FORMAT,
                   "the file ends after %zu bytes inside %s; it is cut short", g->map.n,
                   where);
}

/* --- header --------------------------------------------------------------------- */

static fb_status read_header(fb_gguf *g, fb_cursor *c)
{
    const fb_span start = {(const char *)g->map.bytes, g->map.n < 4 ? g->map.n : 4};
    uint64_t version, n_tensors, n_pairs;

    if (!fb_span_is(start, "GGUF"))
        return fb_fail(FB_FORMAT, "not a GGUF file: it begins with '%s' and has %zu %s",
                       fb_span_show(start).text, g->map.n,
                       fb_plural((int64_t)g->map.n, "byte", "bytes"));
    fb_cursor_skip(c, 4);
    version = fb_cursor_uint(c, 4);
    n_tensors = fb_cursor_uint(c, 8);
    n_pairs = fb_cursor_uint(c, 8);
    if (c->failed) return cut_short(g, "the header of 24 bytes");
    if (version >= 1u << 24)
        return fb_fail(FB_UNSUPPORTED, "a big-endian GGUF file; little-endian ones are "
                                       "understood");
    if (version < OLDEST || version > NEWEST)
        return fb_fail(FB_UNSUPPORTED,
                       "GGUF version %" PRIu64 "; %d to %d are understood", version,
                       OLDEST, NEWEST);
    if (n_pairs > MOST_ENTRIES || n_pairs > c->left / PAIR_BYTES)
        return fb_fail(FB_FORMAT,
                       "%" PRIu64 " metadata pairs in a file of %zu bytes; at most %d "
                       "are read",
                       n_pairs, g->map.n, MOST_ENTRIES);
    if (n_tensors > MOST_ENTRIES || n_tensors > c->left / INFO_BYTES)
        return fb_fail(FB_FORMAT,
                       "%" PRIu64
                       " tensors in a file of %zu bytes; at most %d are read",
                       n_tensors, g->map.n, MOST_ENTRIES);
    g->n_pairs = (size_t)n_pairs;
    g->tensors.n = (size_t)n_tensors;
    return FB_OK;
}

/* --- metadata ------------------------------------------------------------------- */

static fb_span read_string(fb_cursor *c)
{
    const uint64_t n = fb_cursor_uint(c, 8);
    const uint8_t *bytes = fb_cursor_skip(c, n);

    return bytes == NULL ? (fb_span){"", 0} : (fb_span){(const char *)bytes, (size_t)n};
}

static void skip_elements(fb_cursor *c, uint32_t type, uint64_t n)
{
    const size_t size = fb_gguf_type_size(type);

    if (type == FB_GGUF_STRING) {
        while (n-- > 0 && !c->failed)
            read_string(c);
    } else if (n > c->left / size) {
        c->failed = true;
    } else {
        fb_cursor_skip(c, n * size);
    }
}

static fb_status read_value(const fb_gguf *g, fb_cursor *c, fb_gguf_pair *pair)
{
    const fb_shown key = fb_span_show(pair->key);

    pair->type = pair->element = (uint32_t)fb_cursor_uint(c, 4);
    pair->n = 1;
    if (pair->type == FB_GGUF_ARRAY) {
        pair->element = (uint32_t)fb_cursor_uint(c, 4);
        pair->n = fb_cursor_uint(c, 8);
    }
    if (c->failed) return cut_short(g, key.text);
    if (pair->element == FB_GGUF_ARRAY)
        return fb_fail(FB_UNSUPPORTED, "'%s' is an array of arrays", key.text);
    if (fb_gguf_type_size(pair->element) == 0)
        return fb_fail(FB_FORMAT, "'%s' has the unknown type %" PRIu32, key.text,
                       pair->element);
    pair->at = c->at;
    skip_elements(c, pair->element, pair->n);
    if (c->failed)
        return fb_fail(FB_FORMAT,
                       "'%s' with %" PRIu64 " %s goes past the end of the file "
                       "(%zu bytes)",
                       key.text, pair->n,
                       fb_plural((int64_t)pair->n, "element", "elements"), g->map.n);
    pair->n_bytes = (size_t)(c->at - pair->at);
    return FB_OK;
}

static fb_status read_pairs(fb_gguf *g, fb_cursor *c)
{
    g->pairs = fb_zalloc(FB_ACCOUNT_other, g->n_pairs * sizeof *g->pairs);
    if (g->pairs == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the metadata");
    for (size_t i = 0; i < g->n_pairs; i++) {
        fb_gguf_pair *pair = &g->pairs[i];

        pair->key = read_string(c);
        if (c->failed) return cut_short(g, "a metadata key");
        if (pair->key.n == 0 || pair->key.n > MOST_KEY)
            return fb_fail(FB_FORMAT,
                           "metadata key %zu has %zu bytes; 1 to %d would be right", i,
                           pair->key.n, MOST_KEY);
        FB_TRY(read_value(g, c, pair));
    }
    qsort(g->pairs, g->n_pairs, sizeof *g->pairs, compare_pairs);
    for (size_t i = 1; i < g->n_pairs; i++)
        if (compare_pairs(&g->pairs[i - 1], &g->pairs[i]) == 0)
            return fb_fail(FB_FORMAT, "the key '%s' is there twice",
                           fb_span_show(g->pairs[i].key).text);
    return FB_OK;
}

static fb_status read_alignment(const fb_gguf *g, uint64_t *out)
{
    const fb_gguf_pair *pair = fb_gguf_find(g, "general.alignment");
    fb_cursor c;

    *out = ALIGNMENT;
    if (pair == NULL) return FB_OK;
    if (pair->type != FB_GGUF_U32)
        return fb_fail(FB_FORMAT, "'general.alignment' is %s; u32 would be right",
                       fb_gguf_type_name(pair->type));
    c = (fb_cursor){pair->at, pair->n_bytes, false};
    *out = fb_cursor_uint(&c, 4);
    if (*out < 8 || *out > 1u << 20 || (*out & (*out - 1)) != 0)
        return fb_fail(FB_FORMAT,
                       "'general.alignment' is %" PRIu64 "; a power of two of at least "
                       "8 would be right",
                       *out);
    return FB_OK;
}

/* --- tensors -------------------------------------------------------------------- */

static fb_status read_shape(fb_stored *t, fb_cursor *c)
{
    const fb_shown name = fb_span_show(t->name);
    const uint64_t n_dims = fb_cursor_uint(c, 4);
    int64_t elements = 1;

    if (!c->failed && (n_dims == 0 || n_dims > 4))
        return fb_fail(FB_FORMAT,
                       "tensor '%s' has %" PRIu64 " dimensions; 1 to 4 would be right",
                       name.text, n_dims);
    t->n_dims = (int)n_dims;
    for (int d = 0; d < 4; d++) {
        const uint64_t size = d < t->n_dims ? fb_cursor_uint(c, 8) : 1;

        if (c->failed) return FB_OK; /* the caller says so */
        if (size == 0 || size > INT64_MAX ||
            __builtin_mul_overflow(elements, (int64_t)size, &elements))
            return fb_fail(FB_FORMAT,
                           "tensor '%s' has dimension %" PRIu64
                           "; the file cannot hold "
                           "that",
                           name.text, size);
        t->shape[d] = (int64_t)size;
    }
    t->columns = t->shape[0];
    t->rows = elements / t->columns;
    return FB_OK;
}

static fb_status read_format(fb_stored *t, fb_cursor *c)
{
    const fb_shown name = fb_span_show(t->name);
    const uint32_t type = (uint32_t)fb_cursor_uint(c, 4);

    if (c->failed) return FB_OK;
    t->format = fb_blocks_find(type);
    if (t->format == NULL)
        return fb_fail(FB_UNSUPPORTED, "tensor '%s' has the unknown format %" PRIu32,
                       name.text, type);
    return fb_stored_measure(t);
}

/* Reads one info; `data` becomes the offset for now, as the data's place comes last. */
static fb_status read_info(const fb_gguf *g, fb_cursor *c, size_t i, uint64_t *offset)
{
    fb_stored *t = &g->tensors.tensors[i];

    t->name = read_string(c);
    if (!c->failed && (t->name.n == 0 || t->name.n > MOST_NAME))
        return fb_fail(FB_FORMAT,
                       "tensor %zu has a name of %zu bytes; 1 to %d would be "
                       "right",
                       i, t->name.n, MOST_NAME);
    FB_TRY(read_shape(t, c));
    FB_TRY(read_format(t, c));
    *offset = fb_cursor_uint(c, 8);
    return c->failed ? cut_short(g, "the list of tensors") : FB_OK;
}

/* Gives a tensor its bytes among the `n` bytes of data. */
static fb_status place(fb_stored *t, const uint8_t *data, size_t n, uint64_t offset,
                       uint64_t alignment)
{
    const fb_shown name = fb_span_show(t->name);

    if (offset % alignment != 0)
        return fb_fail(FB_FORMAT,
                       "tensor '%s' starts at offset %" PRIu64 ", which is not a "
                       "multiple of the alignment %" PRIu64,
                       name.text, offset, alignment);
    if (offset > n || t->n_bytes > n - offset)
        return fb_fail(FB_FORMAT,
                       "tensor '%s' needs %zu bytes at offset %" PRIu64 " of the data, "
                       "which has %zu %s; the file is cut short",
                       name.text, t->n_bytes, offset, n,
                       fb_plural((int64_t)n, "byte", "bytes"));
    t->data = data + offset;
    return FB_OK;
}

static fb_status read_infos(fb_gguf *g, fb_cursor *c, uint64_t *offsets)
{
    uint64_t alignment, used;

    FB_TRY(read_alignment(g, &alignment));
    for (size_t i = 0; i < g->tensors.n; i++)
        FB_TRY(read_info(g, c, i, &offsets[i]));
    used = g->map.n - c->left;
    used = (alignment - used % alignment) % alignment; /* padding before the data */
    if (fb_cursor_skip(c, used) == NULL && g->tensors.n > 0)
        return cut_short(g, "the padding before the data");
    for (size_t i = 0; i < g->tensors.n; i++)
        FB_TRY(place(&g->tensors.tensors[i], c->at, c->left, offsets[i], alignment));
    return fb_stored_sort(&g->tensors);
}

static fb_status read_tensors(fb_gguf *g, fb_cursor *c)
{
    uint64_t *offsets = fb_alloc(FB_ACCOUNT_other, g->tensors.n * sizeof *offsets);
    fb_status status;

    g->tensors.tensors =
        fb_zalloc(FB_ACCOUNT_other, g->tensors.n * sizeof *g->tensors.tensors);
    if (offsets == NULL || g->tensors.tensors == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for the list of tensors");
    else
        status = read_infos(g, c, offsets);
    fb_free(offsets);
    return status;
}

/* --- open, close, look up ------------------------------------------------------- */

static fb_status read_all(fb_gguf *g)
{
    fb_cursor c = {g->map.bytes, g->map.n, false};

    FB_TRY(read_header(g, &c));
    FB_TRY(read_pairs(g, &c));
    return read_tensors(g, &c);
}

/* Reads a mapped file; closes the half-read one on failure. */
static fb_status finish(fb_gguf **out, fb_gguf *g)
{
    const fb_status status = read_all(g);

    if (status == FB_OK)
        *out = g;
    else
        fb_gguf_close(g);
    return status;
}

fb_status fb_gguf_open(fb_gguf **out, const char *path)
{
    fb_gguf *g = fb_zalloc(FB_ACCOUNT_other, sizeof *g);
    fb_status status;

    *out = NULL;
    if (g == NULL) return fb_fail(FB_NO_MEMORY, "no memory to open a file");
    status = fb_map_open(&g->map, path);
    if (status != FB_OK) {
        fb_free(g);
        return status;
    }
    g->owns_map = true;
    return finish(out, g);
}

fb_status fb_gguf_open_bytes(fb_gguf **out, const uint8_t *bytes, size_t n)
{
    fb_gguf *g = fb_zalloc(FB_ACCOUNT_other, sizeof *g);

    *out = NULL;
    if (g == NULL) return fb_fail(FB_NO_MEMORY, "no memory to open a file");
    g->map = (fb_map){.bytes = bytes, .n = n};
    return finish(out, g);
}

void fb_gguf_close(fb_gguf *g)
{
    if (g == NULL) return;
    if (g->owns_map) fb_map_close(&g->map);
    fb_free(g->pairs);
    fb_free(g->tensors.tensors);
    fb_free(g);
}

const fb_map *fb_gguf_map(const fb_gguf *g)
{
    return &g->map;
}

const fb_stored_list *fb_gguf_tensors(const fb_gguf *g)
{
    return &g->tensors;
}

const fb_gguf_pair *fb_gguf_find(const fb_gguf *g, const char *key)
{
    const fb_gguf_pair wanted = {.key = {key, strlen(key)}};

    return bsearch(&wanted, g->pairs, g->n_pairs, sizeof wanted, compare_pairs);
}
