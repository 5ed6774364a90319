/* gguf_value.h - how a checked file is kept: between gguf.c, which reads it, and
 * gguf_value.c, which hands out its metadata.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_GGUF_VALUE_H
#define FB_MODEL_GGUF_VALUE_H

#include "model/gguf.h"

/* Types of metadata values, by GGUF's numbers. */
enum {
    FB_GGUF_U8,
    FB_GGUF_I8,
    FB_GGUF_U16,
    FB_GGUF_I16,
    FB_GGUF_U32,
    FB_GGUF_I32,
    FB_GGUF_F32,
    FB_GGUF_BOOL,
    FB_GGUF_STRING,
    FB_GGUF_ARRAY,
    FB_GGUF_U64,
    FB_GGUF_I64,
    FB_GGUF_F64,
    FB_GGUF_COUNT
};

typedef struct fb_gguf_pair {
    fb_span key;
    uint32_t type, element; /* element: of an array; else the same as type */
    uint64_t n;             /* elements; 1 if not an array */
    const uint8_t *at;      /* the elements */
    size_t n_bytes;
} fb_gguf_pair;

struct fb_gguf {
    fb_map map;
    bool owns_map;
    fb_gguf_pair *pairs; /* sorted by key */
    size_t n_pairs;
    fb_stored_list tensors;
};

/* Bytes of an element (of a string: the least); 0: no such type, or an array. */
size_t fb_gguf_type_size(uint32_t type);
const char *fb_gguf_type_name(uint32_t type);                           /* "u32" */
const fb_gguf_pair *fb_gguf_find(const fb_gguf *gguf, const char *key); /* or NULL */

#endif
