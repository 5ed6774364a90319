/* stored.h - tensors as files store them, found by name.
 *
 * Whatever the file, a tensor is rows of numbers in one of the formats of blocks.h.
 * Names and data are lent from the mapped files.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_STORED_H
#define FB_MODEL_STORED_H

#include "base/span.h"
#include "model/blocks.h"

#include <flexbudget/error.h>

typedef struct fb_stored {
    fb_span name;
    const fb_blocks *format;
    int n_dims;
    int64_t columns, rows; /* rows: product of all dimensions but the fastest */
    int64_t shape[4];      /* fastest first; 1 where there is none */
    const uint8_t *data;
    size_t n_bytes;
} fb_stored;

typedef struct fb_stored_list {
    fb_stored *tensors; /* sorted by name once fb_stored_sort has seen them */
    size_t n;
} fb_stored_list;

/* Fills format-dependent `n_bytes` from shape and format: FB_FORMAT if a row is no whole
 * number of blocks, or the bytes cannot be counted. `columns` and `rows` are set. */
FB_MUST_USE fb_status fb_stored_measure(fb_stored *tensor);
/* Sorts by name. FB_FORMAT for a name that is there twice, and for data that overlap. */
FB_MUST_USE fb_status fb_stored_sort(fb_stored_list *list);
/* NULL: not there. */
const fb_stored *fb_stored_find(const fb_stored_list *list, const char *name);

#endif
