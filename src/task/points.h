/* points.h - texts as arrays of code points, for the scorers.
 *
 * The benchmarks' own scorers are Python and work on code points; so do ours.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TASK_POINTS_H
#define FB_TASK_POINTS_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of code points, lent or owned as the function says. */
typedef struct fb_points {
    int32_t *at;
    size_t n;
} fb_points;

/* From UTF-8; a byte that is none becomes U+FFFD. Free with fb_points_clear. */
FB_MUST_USE fb_status fb_points_read(fb_points *out, const char *text);
/* A fresh copy; the same in lower case. */
FB_MUST_USE fb_status fb_points_copy(fb_points *out, fb_points text);
FB_MUST_USE fb_status fb_points_lower(fb_points *out, fb_points text);
void fb_points_clear(fb_points *points);

bool fb_point_is_space(int32_t point); /* Python's str.isspace */
bool fb_point_is_digit(int32_t point); /* decimal digit of any script */
bool fb_point_is_word(int32_t point);  /* letter or number of any script, or '_' */
bool fb_point_is_punctuation(int32_t point); /* the 32 of ASCII */

fb_points fb_points_strip(fb_points text); /* a part of it */
bool fb_points_equal(fb_points a, fb_points b);
/* Order by content; for qsort. */
int fb_points_compare(const void *a, const void *b);
/* Where `part` first occurs in `text`, or -1. An empty part occurs at 0. */
int64_t fb_points_find(fb_points text, fb_points part);

/* The next stretch without white space, cut from the front of `rest`; false if there
 * is none left. */
bool fb_points_next_word(fb_points *rest, fb_points *word);

#endif
