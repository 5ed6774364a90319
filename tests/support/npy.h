/* npy.h - a reader of .npy files (version 1, C order, little-endian), for tests only.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_NPY_H
#define TESTS_SUPPORT_NPY_H

#include "base/file.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NPY_MOST_DIMS = 4, NPY_MOST_BYTES = 1 << 26 };

typedef struct npy {
    char *file; /* owned */
    int n_dims;
    int64_t shape[NPY_MOST_DIMS];
    const void *data; /* in `file` */
} npy;

/* "... 'shape': (4, 30, 3, 38), ..." */
static inline void npy_shape(npy *a, const char *header)
{
    const char *at = strstr(header, "'shape': (");

    assert_non_null(at);
    for (at += strlen("'shape': ("); *at != ')';) {
        char *end;

        assert_true(a->n_dims < NPY_MOST_DIMS);
        a->shape[a->n_dims++] = strtoll(at, &end, 10);
        assert_true(end != at);
        at = end + strspn(end, ", ");
    }
}

/* `type`: "|u1" or "<f4"; any other in the file fails the test. */
static inline void npy_open(npy *a, const char *path, const char *type)
{
    char header[512], wanted[32];
    size_t n, n_header, n_data = type[2] == '4' ? 4 : 1;

    *a = (npy){0};
    if (fb_file_read(&a->file, &n, path, NPY_MOST_BYTES) != FB_OK)
        fail_msg("%s: %s", path, fb_error_message());
    assert_true(n > 10 && memcmp(a->file, "\x93NUMPY\x01", 7) == 0);
    n_header = (size_t)(uint8_t)a->file[8] + 256 * (size_t)(uint8_t)a->file[9];
    assert_true(n_header < sizeof header && 10 + n_header <= n);
    memcpy(header, a->file + 10, n_header);
    header[n_header] = '\0';
    snprintf(wanted, sizeof wanted, "'descr': '%s'", type);
    assert_non_null(strstr(header, wanted));
    assert_non_null(strstr(header, "'fortran_order': False"));
    npy_shape(a, header);
    for (int i = 0; i < a->n_dims; i++)
        n_data *= (size_t)a->shape[i];
    assert_int_equal(10 + n_header + n_data, n);
    a->data = a->file + 10 + n_header;
}

static inline void npy_close(npy *a)
{
    fb_free(a->file);
    *a = (npy){0};
}

#endif
