/* gguf.h - a GGUF file, read and checked: metadata by key, tensors by name.
 *
 * Promises: after a successful open every key is unique, every value lies inside the
 * file, every tensor has a known format, a sane shape and data of its own inside the
 * file. Only what was read is allocated for: a hostile count costs nothing. Strings are
 * lent from the file and not ended by a zero; they may hold any byte.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_GGUF_H
#define FB_MODEL_GGUF_H

#include "base/file.h"
#include "base/span.h"
#include "model/stored.h"

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fb_gguf fb_gguf;

/* Opens a file, or bytes that the caller keeps as long as the result. */
FB_MUST_USE fb_status fb_gguf_open(fb_gguf **out, const char *path);
FB_MUST_USE fb_status fb_gguf_open_bytes(fb_gguf **out, const uint8_t *bytes, size_t n);
void fb_gguf_close(fb_gguf *gguf); /* takes NULL */

const fb_map *fb_gguf_map(const fb_gguf *gguf);             /* lent: the whole file */
const fb_stored_list *fb_gguf_tensors(const fb_gguf *gguf); /* lent */

/* Metadata. A missing key, another type or a value out of range is FB_FORMAT with the
 * key in the sentence; whole numbers and reals may be stored in any width. */
bool fb_gguf_has(const fb_gguf *gguf, const char *key);
FB_MUST_USE fb_status fb_gguf_int(const fb_gguf *gguf, const char *key, int64_t low,
                                  int64_t high, int64_t *out);
FB_MUST_USE fb_status fb_gguf_real(const fb_gguf *gguf, const char *key, double *out);
FB_MUST_USE fb_status fb_gguf_bool(const fb_gguf *gguf, const char *key, bool *out);
FB_MUST_USE fb_status fb_gguf_string(const fb_gguf *gguf, const char *key,
                                     fb_span *out);
/* The bytes of a value as they stand in the file: for hashes. Empty if missing. */
fb_span fb_gguf_raw(const fb_gguf *gguf, const char *key);

/* A walk over an array of strings, whole numbers or reals, at most INT32_MAX long. */
typedef struct fb_gguf_array {
    int64_t n; /* elements not yet taken */
    uint32_t type;
    const uint8_t *at;
    size_t left; /* bytes from `at` on */
} fb_gguf_array;

FB_MUST_USE fb_status fb_gguf_strings(const fb_gguf *gguf, const char *key,
                                      fb_gguf_array *out);
FB_MUST_USE fb_status fb_gguf_ints(const fb_gguf *gguf, const char *key,
                                   fb_gguf_array *out);
FB_MUST_USE fb_status fb_gguf_reals(const fb_gguf *gguf, const char *key,
                                    fb_gguf_array *out);
/* Empty where the file no longer holds what was checked: others may write to it. */
fb_span fb_gguf_next_string(fb_gguf_array *array); /* n > 0 */
int64_t fb_gguf_next_int(fb_gguf_array *array);    /* n > 0 */
double fb_gguf_next_real(fb_gguf_array *array);    /* n > 0 */

#endif
