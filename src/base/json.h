/* json.h - JSON read strictly, and the few things needed to write it.
 *
 * A thin layer on jansson: duplicate keys, broken UTF-8, text after the value, numbers
 * that do not fit and strings with a zero byte are refused; integers are exact. Keys of
 * an object keep the order of the text. Memory is the program's, account `other`.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_JSON_H
#define FB_BASE_JSON_H

#include "base/text.h"

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json_t fb_json; /* any value; what getters return is lent by the root */

/* An array or object from `n` bytes. FB_FORMAT with the column, and the line if there
 * is more than one. The caller has limited `n`.
 */
FB_MUST_USE fb_status fb_json_parse(fb_json **out, const char *text, size_t n);
/* A file of at most `most` bytes. */
FB_MUST_USE fb_status fb_json_read(fb_json **out, const char *path, size_t most);
void fb_json_free(fb_json *root); /* takes NULL */

/* --- what a value is: NULL stands for "not there" and is of no type --- */

bool fb_json_is_object(const fb_json *value);
bool fb_json_is_array(const fb_json *value);
bool fb_json_is_null(const fb_json *value);
const char *fb_json_string(const fb_json *value);     /* NULL unless a string */
bool fb_json_int(const fb_json *value, int64_t *out); /* false unless an integer */
bool fb_json_real(const fb_json *value, double *out); /* integers too */
bool fb_json_bool(const fb_json *value, bool *out);   /* false unless true or false */
const char *fb_json_type(const fb_json *value);       /* "a string", "nothing", ... */
size_t fb_json_count(const fb_json *value);           /* elements or members, else 0 */
fb_json *fb_json_at(const fb_json *array, size_t i);  /* NULL outside */
fb_json *fb_json_get(const fb_json *object, const char *key); /* NULL if absent */

/* Members in the order of the text:
 *     for (void *m = fb_json_first(o); m != NULL; m = fb_json_next(o, m))
 */
void *fb_json_first(const fb_json *object);
void *fb_json_next(const fb_json *object, void *member);
const char *fb_json_key(void *member);
fb_json *fb_json_value(void *member);

/* --- members that must be there: FB_FORMAT with key, what it is, what it must be
 * --- */

FB_MUST_USE fb_status fb_json_want_string(const char **out, const fb_json *object,
                                          const char *key);
FB_MUST_USE fb_status fb_json_want_int(int64_t *out, const fb_json *object,
                                       const char *key);
FB_MUST_USE fb_status fb_json_want_real(double *out, const fb_json *object,
                                        const char *key);
FB_MUST_USE fb_status fb_json_want_object(fb_json **out, const fb_json *object,
                                          const char *key);
FB_MUST_USE fb_status fb_json_want_array(fb_json **out, const fb_json *object,
                                         const char *key);

/* --- writing: sticky, like all of fb_text --- */

/* A quoted string; bytes that are not UTF-8 become U+FFFD. */
void fb_json_add_string(fb_text *text, const char *string);
void fb_json_add_bytes(fb_text *text, const char *bytes, size_t n);
/* The shortest number that reads back as `value`; null for NaN and infinities. */
void fb_json_add_real(fb_text *text, double value);

#endif
