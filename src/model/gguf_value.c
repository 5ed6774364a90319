/* gguf_value.c - metadata by key, with the key in every sentence of failure.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/gguf_value.h"

#include "model/cursor.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[FB_GGUF_COUNT] = {
    [FB_GGUF_U8] = {"u8", 1},         [FB_GGUF_I8] = {"i8", 1},
    [FB_GGUF_U16] = {"u16", 2},       [FB_GGUF_I16] = {"i16", 2},
    [FB_GGUF_U32] = {"u32", 4},       [FB_GGUF_I32] = {"i32", 4},
    [FB_GGUF_F32] = {"f32", 4},       [FB_GGUF_BOOL] = {"bool", 1},
    [FB_GGUF_STRING] = {"string", 8}, [FB_GGUF_ARRAY] = {"an array", 0},
    [FB_GGUF_U64] = {"u64", 8},       [FB_GGUF_I64] = {"i64", 8},
    [FB_GGUF_F64] = {"f64", 8},
};

size_t fb_gguf_type_size(uint32_t type)
{
    return type < FB_GGUF_COUNT ? types[type].size : 0;
}

const char *fb_gguf_type_name(uint32_t type)
{
    return type < FB_GGUF_COUNT ? types[type].name : "of no known type";
}

static bool is_integer(uint32_t type)
{
    return type <= FB_GGUF_I32 || type == FB_GGUF_U64 || type == FB_GGUF_I64;
}

/* A whole number of any width; u64 above INT64_MAX becomes that: no range has it. */
static int64_t integer_at(const uint8_t *at, uint32_t type)
{
    fb_cursor c = {at, types[type].size, false};
    const uint64_t bits = fb_cursor_uint(&c, (int)types[type].size);

    switch (type) {
    case FB_GGUF_I8:
        return (int8_t)bits;
    case FB_GGUF_I16:
        return (int16_t)bits;
    case FB_GGUF_I32:
        return (int32_t)bits;
    case FB_GGUF_I64:
        return (int64_t)bits;
    default:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    }
}

static fb_status missing(const char *key)
{
    return fb_fail(FB_FORMAT, "'%s' is missing", key);
}

static fb_status mistyped(const fb_gguf_pair *pair, const char *key, const char *right)
{
    return fb_fail(FB_FORMAT, "'%s' is %s; %s would be right", key,
                   fb_gguf_type_name(pair->type), right);
}

bool fb_gguf_has(const fb_gguf *g, const char *key)
{
    return fb_gguf_find(g, key) != NULL;
}

fb_status fb_gguf_int(const fb_gguf *g, const char *key, int64_t low, int64_t high,
                      int64_t *out)
{
    const fb_gguf_pair *pair = fb_gguf_find(g, key);

    if (pair == NULL) return missing(key);
    if (!is_integer(pair->type)) return mistyped(pair, key, "a whole number");
    *out = integer_at(pair->at, pair->type);
    if (*out < low || *out > high)
        return fb_fail(FB_FORMAT,
                       "'%s' is %" PRId64 "; %" PRId64 " to %" PRId64 " would be right",
                       key, *out, low, high);
    return FB_OK;
}

static bool is_string(uint32_t type)
{
    return type == FB_GGUF_STRING;
}

static bool is_real(uint32_t type)
{
    return type == FB_GGUF_F32 || type == FB_GGUF_F64;
}

static double real_at(const uint8_t *at, uint32_t type)
{
    fb_cursor c = {at, types[type].size, false};
    const uint64_t bits = fb_cursor_uint(&c, (int)types[type].size);
    const uint32_t low = (uint32_t)bits;
    float narrow;
    double wide;

    if (type == FB_GGUF_F64) return memcpy(&wide, &bits, sizeof wide), wide;
    return memcpy(&narrow, &low, sizeof narrow), (double)narrow;
}

fb_status fb_gguf_real(const fb_gguf *g, const char *key, double *out)
{
    const fb_gguf_pair *pair = fb_gguf_find(g, key);

    if (pair == NULL) return missing(key);
    if (is_integer(pair->type))
        *out = (double)integer_at(pair->at, pair->type);
    else if (is_real(pair->type))
        *out = real_at(pair->at, pair->type);
    else
        return mistyped(pair, key, "a number");
    return FB_OK;
}

fb_status fb_gguf_bool(const fb_gguf *g, const char *key, bool *out)
{
    const fb_gguf_pair *pair = fb_gguf_find(g, key);

    if (pair == NULL) return missing(key);
    if (pair->type != FB_GGUF_BOOL) return mistyped(pair, key, "a bool");
    *out = pair->at[0] != 0;
    return FB_OK;
}

fb_status fb_gguf_string(const fb_gguf *g, const char *key, fb_span *out)
{
    const fb_gguf_pair *pair = fb_gguf_find(g, key);

    if (pair == NULL) return missing(key);
    if (pair->type != FB_GGUF_STRING) return mistyped(pair, key, "a string");
    *out = (fb_span){(const char *)pair->at + 8, pair->n_bytes - 8};
    return FB_OK;
}

fb_span fb_gguf_raw(const fb_gguf *g, const char *key)
{
    const fb_gguf_pair *pair = fb_gguf_find(g, key);

    if (pair == NULL) return (fb_span){"", 0};
    return (fb_span){(const char *)pair->at, pair->n_bytes};
}

static fb_status array(const fb_gguf *g, const char *key, bool is_right(uint32_t),
                       const char *right, fb_gguf_array *out)
{
    const fb_gguf_pair *pair = fb_gguf_find(g, key);

    if (pair == NULL) return missing(key);
    if (pair->type != FB_GGUF_ARRAY)
        return fb_fail(FB_FORMAT, "'%s' is %s; an array of %s would be right", key,
                       fb_gguf_type_name(pair->type), right);
    if (!is_right(pair->element))
        return fb_fail(FB_FORMAT, "'%s' is an array of %s; %s would be right", key,
                       fb_gguf_type_name(pair->element), right);
    if (pair->n > INT32_MAX)
        return fb_fail(FB_FORMAT, "'%s' has %" PRIu64 " elements; at most %d are read",
                       key, pair->n, INT32_MAX);
    *out = (fb_gguf_array){(int64_t)pair->n, pair->element, pair->at, pair->n_bytes};
    return FB_OK;
}

fb_status fb_gguf_strings(const fb_gguf *g, const char *key, fb_gguf_array *out)
{
    return array(g, key, is_string, "strings", out);
}

fb_status fb_gguf_ints(const fb_gguf *g, const char *key, fb_gguf_array *out)
{
    return array(g, key, is_integer, "whole numbers", out);
}

fb_status fb_gguf_reals(const fb_gguf *g, const char *key, fb_gguf_array *out)
{
    return array(g, key, is_real, "reals", out);
}

fb_span fb_gguf_next_string(fb_gguf_array *a)
{
    fb_cursor c = {a->at, a->left, false};
    const uint64_t n = fb_cursor_uint(&c, 8);
    const uint8_t *bytes = fb_cursor_skip(&c, n);

    a->at = c.at;
    a->left = c.left;
    a->n--;
    return bytes == NULL ? (fb_span){"", 0} : (fb_span){(const char *)bytes, (size_t)n};
}

int64_t fb_gguf_next_int(fb_gguf_array *a)
{
    const int64_t value = integer_at(a->at, a->type);

    a->at += types[a->type].size;
    a->n--;
    return value;
}

double fb_gguf_next_real(fb_gguf_array *a)
{
    const double value = real_at(a->at, a->type);

    a->at += types[a->type].size;
    a->n--;
    return value;
}
