/* text.h - a growing string with a largest size, and small helpers on strings.
 *
 * Sticky: after the first failure nothing more is added; ask once with
 * fb_text_status().
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_TEXT_H
#define FB_BASE_TEXT_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fb_text {
    char *bytes; /* always ends in a zero byte once anything was added; NULL before */
    size_t n, capacity, most;
    bool failed;
} fb_text;

/* `most`: the largest number of bytes; 0 means 1 GiB. A zeroed fb_text is the same as
 * one initialised with 0. */
void fb_text_init(fb_text *text, size_t most);
void fb_text_clear(fb_text *text); /* frees; ready for use again, same `most` */
void fb_text_add(fb_text *text, const char *bytes, size_t n);
void fb_text_puts(fb_text *text, const char *string);
void fb_text_printf(fb_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The shortest decimal that reads back as `value`, with '.' in every locale; "nan",
 * "inf", "-inf" for those. */
void fb_text_add_real(fb_text *text, double value);
/* The same without an exponent, to 17 digits after the point: for numbers of bytes. */
void fb_text_add_plain(fb_text *text, double value);
/* A word as a POSIX shell reads it back: in quotes where it needs them. */
void fb_text_add_quoted(fb_text *text, const char *word);
const char *fb_text_string(const fb_text *text); /* lent; "" when empty */
FB_MUST_USE fb_status fb_text_status(const fb_text *text);

/* The word of a count: `one` for 1, else `many`; "1 record", "0 records". */
const char *fb_plural(int64_t n, const char *one, const char *many);
/* A long count with commas: "12,345". */
void fb_print_count(int64_t count, char *out, size_t n);

/* Distance of two words (insert, delete, replace, swap of neighbours): for "did you
 * mean". Words longer than 63 bytes are infinitely far from everything (INT_MAX). */
int fb_word_distance(const char *a, const char *b);
/* The nearest of `n` words if it is near enough to be meant, else NULL; the first of
 * equally near ones. */
const char *fb_nearest_word(const char *word, const char *const *words, int n);

/* Whole-string decimal numbers, no blanks around: false unless all of `string` is one
 * and it fits. A real is finite, with '.' in every locale and no hexadecimal. */
bool fb_parse_int(const char *string, int64_t *out);
bool fb_parse_real(const char *string, double *out);

/* Bytes of the UTF-8 character at `bytes` [n], or 0 if there is none that is valid. */
size_t fb_utf8_length(const char *bytes, size_t n);
/* True if `bytes` [n] are not a character, but become one with more bytes behind them. */
bool fb_utf8_is_cut(const char *bytes, size_t n);

#endif
