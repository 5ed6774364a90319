/* gguf.h - a reader of well-formed GGUF files, for tests only.
 *
 * Independent of src/model on purpose: what the tool writes is checked by other eyes
 * than those that read it in the program. Files are trusted; a broken one fails the
 * running test. Little-endian machines.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_GGUF_H
#define TESTS_SUPPORT_GGUF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct gguf_tensor {
    char name[64];
    uint64_t rows, columns; /* rows 1: a vector */
    uint32_t type;
    size_t at; /* in the file */
} gguf_tensor;

typedef struct gguf {
    const uint8_t *bytes;
    size_t n, at;
    int n_tensors;
    gguf_tensor tensor[64];
} gguf;

static inline uint64_t gguf_uint(gguf *g, size_t n_bytes)
{
    uint64_t value = 0;

    assert_true(n_bytes <= g->n - g->at);
    memcpy(&value, g->bytes + g->at, n_bytes);
    g->at += n_bytes;
    return value;
}

static inline void gguf_skip(gguf *g, uint64_t type, uint64_t n)
{
    static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    for (uint64_t i = 0; i < n; i++) {
        if (type == 8) { /* string */
            g->at += gguf_uint(g, 8);
        } else if (type == 9) { /* array */
            const uint64_t inner = gguf_uint(g, 4);
            gguf_skip(g, inner, gguf_uint(g, 8));
        } else {
            assert_true(type < sizeof size);
            g->at += size[type];
        }
    }
}

static inline void gguf_tensor_info(gguf *g, gguf_tensor *t)
{
    const uint64_t n_name = gguf_uint(g, 8);
    uint64_t n_dims;

    assert_true(n_name < sizeof t->name);
    memcpy(t->name, g->bytes + g->at, n_name);
    t->name[n_name] = '\0';
    g->at += n_name;
    n_dims = gguf_uint(g, 4);
    assert_true(n_dims == 1 || n_dims == 2);
    t->columns = gguf_uint(g, 8);
    t->rows = n_dims == 2 ? gguf_uint(g, 8) : 1;
    t->type = (uint32_t)gguf_uint(g, 4);
    t->at = gguf_uint(g, 8);
}

/* Reads the table of contents; `bytes` is lent. */
static inline void gguf_open(gguf *g, const uint8_t *bytes, size_t n)
{
    uint64_t n_pairs;

    *g = (gguf){.bytes = bytes, .n = n};
    assert_int_equal(gguf_uint(g, 4), 0x46554747);
    assert_int_equal(gguf_uint(g, 4), 3);
    g->n_tensors = (int)gguf_uint(g, 8);
    n_pairs = gguf_uint(g, 8);
    assert_true(g->n_tensors <= 64);
    for (uint64_t i = 0; i < n_pairs; i++) {
        gguf_skip(g, 8, 1);
        gguf_skip(g, gguf_uint(g, 4), 1);
    }
    for (int i = 0; i < g->n_tensors; i++)
        gguf_tensor_info(g, &g->tensor[i]);
    for (int i = 0; i < g->n_tensors; i++)
        g->tensor[i].at += (g->at + 31) / 32 * 32;
}

/* The tensor of that name; a missing one fails the test. */
static inline const gguf_tensor *gguf_find(const gguf *g, const char *name)
{
    for (int i = 0; i < g->n_tensors; i++)
        if (strcmp(g->tensor[i].name, name) == 0) return &g->tensor[i];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

#endif
