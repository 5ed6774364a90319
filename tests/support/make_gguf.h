/* make_gguf.h - small GGUF files, right or wrong, written in memory by a test.
 *
 * The counts in the header are those of what was added, unless the test overwrites
 * them. Data of tensors is 32 bytes per tensor of zeros unless given.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_MAKE_GGUF_H
#define TESTS_SUPPORT_MAKE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef MAKE_ROOM /* set it before the include for larger files */
#define MAKE_ROOM (1 << 20)
#endif
enum { MAKE_MOST = MAKE_ROOM, MAKE_PAIRS_AT = 16, MAKE_TENSORS_AT = 8 };
enum {
    MAKE_U32 = 4,
    MAKE_I32 = 5,
    MAKE_F32 = 6,
    MAKE_BOOL = 7,
    MAKE_STRING = 8,
    MAKE_ARRAY = 9,
    MAKE_U64 = 10
};

typedef struct make_gguf {
    uint8_t bytes[MAKE_MOST];
    size_t n;
    uint64_t n_pairs, n_tensors, data_bytes;
} make_gguf;

/* Also for programs without a test framework. */
static inline void make_check(bool condition)
{
    if (!condition) abort();
}

static inline void make_put(make_gguf *m, const void *bytes, size_t n)
{
    make_check(n <= MAKE_MOST - m->n);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static inline void make_uint(make_gguf *m, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        make_put(m, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

static inline void make_set(make_gguf *m, size_t at, uint64_t value, int n_bytes)
{
    const size_t n = m->n;

    m->n = at;
    make_uint(m, value, n_bytes);
    m->n = n;
}

static inline void make_string(make_gguf *m, const char *string)
{
    make_uint(m, strlen(string), 8);
    make_put(m, string, strlen(string));
}

static inline void make_begin(make_gguf *m)
{
    m->n = 0;
    m->n_pairs = m->n_tensors = m->data_bytes = 0;
    make_put(m, "GGUF", 4);
    make_uint(m, 3, 4);
    make_uint(m, 0, 8);
    make_uint(m, 0, 8);
}

static inline void make_key(make_gguf *m, const char *key, uint32_t type)
{
    make_string(m, key);
    make_uint(m, type, 4);
    make_set(m, MAKE_PAIRS_AT, ++m->n_pairs, 8);
}

static inline void make_u32(make_gguf *m, const char *key, uint32_t value)
{
    make_key(m, key, MAKE_U32);
    make_uint(m, value, 4);
}

static inline void make_bool(make_gguf *m, const char *key, int value)
{
    make_key(m, key, MAKE_BOOL);
    make_uint(m, (uint64_t)value, 1);
}

static inline void make_f32(make_gguf *m, const char *key, float value)
{
    make_key(m, key, MAKE_F32);
    make_put(m, &value, 4);
}

static inline void make_text(make_gguf *m, const char *key, const char *value)
{
    make_key(m, key, MAKE_STRING);
    make_string(m, value);
}

static inline void make_texts(make_gguf *m, const char *key, const char *const *values,
                              int n)
{
    make_key(m, key, MAKE_ARRAY);
    make_uint(m, MAKE_STRING, 4);
    make_uint(m, (uint64_t)n, 8);
    for (int i = 0; i < n; i++)
        make_string(m, values[i]);
}

static inline void make_ints(make_gguf *m, const char *key, const int32_t *values,
                             int n)
{
    make_key(m, key, MAKE_ARRAY);
    make_uint(m, MAKE_I32, 4);
    make_uint(m, (uint64_t)n, 8);
    for (int i = 0; i < n; i++)
        make_uint(m, (uint32_t)values[i], 4);
}

static inline void make_reals(make_gguf *m, const char *key, const float *values, int n)
{
    make_key(m, key, MAKE_ARRAY);
    make_uint(m, MAKE_F32, 4);
    make_uint(m, (uint64_t)n, 8);
    for (int i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof bits);
        make_uint(m, bits, 4);
    }
}

/* An info of up to two dimensions (rows 0: one), placed behind the earlier ones. */
static inline void make_tensor(make_gguf *m, const char *name, uint64_t columns,
                               uint64_t rows, uint32_t type, uint64_t n_bytes)
{
    make_string(m, name);
    make_uint(m, rows == 0 ? 1 : 2, 4);
    make_uint(m, columns, 8);
    if (rows != 0) make_uint(m, rows, 8);
    make_uint(m, type, 4);
    make_uint(m, m->data_bytes, 8);
    m->data_bytes += (n_bytes + 31) / 32 * 32;
    make_set(m, MAKE_TENSORS_AT, ++m->n_tensors, 8);
}

static inline void make_f32_tensor(make_gguf *m, const char *name, uint64_t columns,
                                   uint64_t rows)
{
    make_tensor(m, name, columns, rows, 0, 4 * columns * (rows == 0 ? 1 : rows));
}

/* Pads, and gives every tensor its bytes: zeros. Returns where the data begins. */
static inline size_t make_data(make_gguf *m)
{
    size_t begin;

    while (m->n % 32 != 0)
        make_uint(m, 0, 1);
    begin = m->n;
    make_check(m->data_bytes <= MAKE_MOST - m->n);
    memset(m->bytes + m->n, 0, m->data_bytes);
    m->n += m->data_bytes;
    return begin;
}

#endif
