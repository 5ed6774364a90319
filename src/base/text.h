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

void fb_text_init(fb_text *text,
                  size_t most);    /* most: largest number of bytes; 0: 1 GiB */
void fb_text_clear(fb_text *text); /* frees; ready for use again */
void fb_text_add(fb_text *text, const char *bytes, size_t n);
void fb_text_puts(fb_text *text, const char *string);
void fb_text_printf(fb_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *fb_text_string(const fb_text *text); /* lent; "" when empty */
FB_MUST_USE fb_status fb_text_status(const fb_text *text);

/* Distance of two words (insert, delete, replace, swap of neighbours): for "did you
 * mean".
 */
int fb_word_distance(const char *a, const char *b);
/* The nearest of `n` words if it is near enough to be meant, else NULL. */
const char *fb_nearest_word(const char *word, const char *const *words, int n);

/* Whole-string numbers: false unless all of `string` is one. */
bool fb_parse_int(const char *string, int64_t *out);
bool fb_parse_real(const char *string, double *out); /* finite; '.' in every locale */

#endif
