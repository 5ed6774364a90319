/* safetensors.c - opens a safetensors file and checks all of it before anything is used.
 *
 * Layout (github.com/huggingface/safetensors, README): the length of the header in 8
 * bytes, little-endian; the header, a JSON object of name -> {dtype, shape,
 * data_offsets}, with strings about the file under `__metadata__`; the data, without
 * holes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/safetensors.h"

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

enum {
    MOST_HEADER = 100 << 20, /* as the format's own reader says */
    MOST_TENSORS = 1 << 16,
    MOST_NAME = 256,
    LENGTH_BYTES = 8,
};

struct fb_safetensors {
    fb_map map;
    fb_json *header; /* owns the names */
    fb_stored_list list;
};

/* Formats by name; numbers are those of GGUF (blocks.h). */
static const struct {
    const char *name;
    uint32_t type;
} formats[] = {{"F32", 0},  {"F16", 1},  {"BF16", 30}, {"I8", 24},
               {"I16", 25}, {"I32", 26}, {"I64", 27},  {"F64", 28}};

static fb_status read_format(fb_stored *t, const fb_json *entry)
{
    const char *name;

    FB_TRY(fb_json_want_string(&name, entry, "dtype"));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            t->format = fb_blocks_find(formats[i].type);
    if (t->format != NULL) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "format '%s'; F32, F16 and BF16 are understood",
                   name);
}

/* Slowest dimension first in the file. */
static fb_status read_shape(fb_stored *t, const fb_json *entry)
{
    fb_json *list;
    int64_t elements = 1;

    FB_TRY(fb_json_want_array(&list, entry, "shape"));
    t->n_dims = (int)fb_json_count(list);
    if (fb_json_count(list) > 4)
        return fb_fail(FB_UNSUPPORTED, "%zu dimensions; up to 4 are understood",
                       fb_json_count(list));
    for (int i = 0; i < 4; i++)
        t->shape[i] = 1;
    for (int i = 0; i < t->n_dims; i++) {
        int64_t *size = &t->shape[t->n_dims - 1 - i];

        if (!fb_json_int(fb_json_at(list, (size_t)i), size) || *size < 1 ||
            __builtin_mul_overflow(elements, *size, &elements))
            return fb_fail(FB_FORMAT,
                           "dimension %d is no number above 0 that can be counted", i);
    }
    t->columns = t->shape[0];
    t->rows = elements / t->columns;
    return FB_OK;
}

/* `data` and `n`: all of the file's data. `*end` becomes the last byte that is used. */
static fb_status place(fb_stored *t, const fb_json *entry, const uint8_t *data,
                       size_t n, size_t *end)
{
    int64_t from = -1, to = -1;
    fb_json *list;

    FB_TRY(fb_json_want_array(&list, entry, "data_offsets"));
    if (fb_json_count(list) != 2 || !fb_json_int(fb_json_at(list, 0), &from) ||
        !fb_json_int(fb_json_at(list, 1), &to) || from < 0 || to < from)
        return fb_fail(FB_FORMAT, "'data_offsets' are not two ascending numbers");
    FB_TRY(fb_stored_measure(t));
    if ((uint64_t)(to - from) != t->n_bytes)
        return fb_fail(FB_FORMAT, "%" PRId64 " bytes for a shape that takes %zu",
                       to - from, t->n_bytes);
    if ((uint64_t)to > n)
        return fb_fail(FB_FORMAT,
                       "its data end at byte %" PRId64 " of %zu; the file is cut short",
                       to, n);
    t->data = data + from;
    if ((size_t)to > *end) *end = (size_t)to;
    return FB_OK;
}

static fb_status read_entry(fb_stored *t, void *member, const uint8_t *data, size_t n,
                            size_t *end)
{
    const fb_json *entry = fb_json_value(member);
    fb_status status = FB_OK;

    t->name = fb_span_of(fb_json_key(member));
    if (t->name.n == 0 || t->name.n > MOST_NAME)
        return fb_fail(FB_FORMAT,
                       "a tensor's name of %zu bytes; 1 to %d would be right",
                       t->name.n, MOST_NAME);
    if (!fb_json_is_object(entry))
        status =
            fb_fail(FB_FORMAT, "%s where an object should be", fb_json_type(entry));
    if (status == FB_OK) status = read_format(t, entry);
    if (status == FB_OK) status = read_shape(t, entry);
    if (status == FB_OK) status = place(t, entry, data, n, end);
    return status == FB_OK
               ? FB_OK
               : fb_context(status, "tensor '%s'", fb_span_show(t->name).text);
}

static fb_status read_entries(fb_safetensors *f, const uint8_t *data, size_t n)
{
    const size_t most = fb_json_count(f->header);
    size_t end = 0;

    if (most > MOST_TENSORS)
        return fb_fail(FB_FORMAT, "%zu tensors; at most %d are read", most,
                       MOST_TENSORS);
    f->list.tensors = fb_zalloc(FB_ACCOUNT_other, (most + 1) * sizeof *f->list.tensors);
    if (f->list.tensors == NULL) return fb_fail(FB_NO_MEMORY, "no memory for tensors");
    for (void *m = fb_json_first(f->header); m != NULL; m = fb_json_next(f->header, m))
        if (strcmp(fb_json_key(m), "__metadata__") != 0)
            FB_TRY(read_entry(&f->list.tensors[f->list.n++], m, data, n, &end));
    if (end != n)
        return fb_fail(FB_FORMAT, "%zu %s behind the data of all tensors", n - end,
                       fb_plural((int64_t)(n - end), "byte", "bytes"));
    return fb_stored_sort(&f->list);
}

static fb_status read_all(fb_safetensors *f)
{
    uint64_t length = 0;
    fb_status status;

    if (f->map.n < LENGTH_BYTES)
        return fb_fail(FB_FORMAT,
                       "%zu %s; a safetensors file begins with 8 that hold the length "
                       "of its header",
                       f->map.n, fb_plural((int64_t)f->map.n, "byte", "bytes"));
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)f->map.bytes[i] << (8 * i);
    if (length > MOST_HEADER || length > f->map.n - LENGTH_BYTES)
        return fb_fail(FB_FORMAT,
                       "a header of %" PRIu64 " bytes in a file of %zu; not a "
                       "safetensors file, or cut short",
                       length, f->map.n);
    status = fb_json_parse(&f->header, (const char *)f->map.bytes + LENGTH_BYTES,
                           (size_t)length);
    if (status != FB_OK) return fb_context(status, "its header");
    if (!fb_json_is_object(f->header))
        return fb_fail(FB_FORMAT, "the header is not a JSON object");
    return read_entries(f, f->map.bytes + LENGTH_BYTES + length,
                        f->map.n - LENGTH_BYTES - (size_t)length);
}

fb_status fb_safetensors_open(fb_safetensors **out, const char *path)
{
    fb_safetensors *f = fb_zalloc(FB_ACCOUNT_other, sizeof *f);
    fb_status status;

    *out = NULL;
    if (f == NULL) return fb_fail(FB_NO_MEMORY, "no memory to open a file");
    status = fb_map_open(&f->map, path);
    if (status == FB_OK) status = read_all(f);
    if (status == FB_OK)
        *out = f;
    else
        fb_safetensors_close(f);
    return status;
}

void fb_safetensors_close(fb_safetensors *f)
{
    if (f == NULL) return;
    if (f->map.bytes != NULL) fb_map_close(&f->map);
    fb_json_free(f->header);
    fb_free(f->list.tensors);
    fb_free(f);
}

const fb_stored_list *fb_safetensors_list(const fb_safetensors *f)
{
    return &f->list;
}

const fb_map *fb_safetensors_map(const fb_safetensors *f)
{
    return &f->map;
}
