/* safetensors.h - a reader of safetensors files with F32 tensors, for tests only.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_SAFETENSORS_H
#define TESTS_SUPPORT_SAFETENSORS_H

#include "base/file.h"
#include "base/memory.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct safetensors {
    char *file; /* owned */
    size_t n;
    json_t *header;
    size_t data_at;
} safetensors;

static inline void safetensors_open(safetensors *s, const char *path)
{
    uint64_t n_header;

    *s = (safetensors){0};
    if (fb_file_read(&s->file, &s->n, path, 1 << 26) != FB_OK)
        fail_msg("%s: %s", path, fb_error_message());
    assert_true(s->n > sizeof n_header);
    memcpy(&n_header, s->file, sizeof n_header);
    assert_true(n_header <= s->n - sizeof n_header);
    s->header = json_loadb(s->file + sizeof n_header, n_header, 0, NULL);
    assert_non_null(s->header);
    s->data_at = sizeof n_header + n_header;
}

static inline void safetensors_close(safetensors *s)
{
    json_decref(s->header);
    fb_free(s->file);
    *s = (safetensors){0};
}

/* Copies a tensor of exactly `n` elements of four bytes of type `dtype`. */
static inline void safetensors_read(const safetensors *s, const char *name,
                                    const char *dtype, size_t n, void *out)
{
    json_t *entry = json_object_get(s->header, name);
    json_t *offsets = json_object_get(entry, "data_offsets");
    const size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    const size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));

    if (entry == NULL) fail_msg("no tensor '%s'", name);
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), dtype);
    assert_true(begin <= end && end <= s->n - s->data_at);
    assert_int_equal(end - begin, n * 4);
    memcpy(out, s->file + s->data_at + begin, n * 4);
}

#endif
