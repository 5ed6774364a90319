/* json_scan.h - a walk over JSON text that builds nothing: for files too large for a
 * tree.
 *
 *     fb_json_scan_init(&s, text, n);
 *     fb_json_scan_enter(&s, '{');
 *     while (fb_json_scan_member(&s, &key))
 *         if (fb_span_is(key, "size")) size = fb_json_scan_int(&s);
 *         else (void)fb_json_scan_raw(&s);
 *     status = fb_json_scan_status(&s);
 *
 * Each value must be taken before the next is asked for. Sticky: after the first failure
 * nothing more is found. Strings are decoded where they stand, so the text changes and
 * spans are good as long as it is. A value taken raw is checked for brackets and quotes
 * only: parse (fb_json_parse) what is used of it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_JSON_SCAN_H
#define FB_BASE_JSON_SCAN_H

#include "base/span.h"

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FB_JSON_DEPTH = 64 };

typedef struct fb_json_scan {
    const char *begin;
    char *at, *end;
    char close[FB_JSON_DEPTH]; /* of the arrays and objects that are open */
    bool fresh[FB_JSON_DEPTH]; /* nothing was taken of them yet */
    int depth;
    const char *wanted; /* what should stand at `at`; NULL: nothing failed */
} fb_json_scan;

void fb_json_scan_init(fb_json_scan *scan, char *text, size_t n);
/* Over a value that another walk took raw: it lies in text that may change. */
void fb_json_scan_again(fb_json_scan *scan, fb_span raw);
/* The first byte of what comes next, which says what it is; 0: the end, or failed. */
char fb_json_scan_peek(fb_json_scan *scan);
/* Into an object ('{') or an array ('['). */
void fb_json_scan_enter(fb_json_scan *scan, char bracket);
/* The key of the next member, or true for a next element; false: there is none left,
 * and the scan is behind the bracket. */
bool fb_json_scan_member(fb_json_scan *scan, fb_span *key_out);
bool fb_json_scan_element(fb_json_scan *scan);
/* Values of a type; something else fails. A string may hold a zero byte. */
fb_span fb_json_scan_string(fb_json_scan *scan);
int64_t fb_json_scan_int(fb_json_scan *scan);
/* Any value, as it stands in the text. */
fb_span fb_json_scan_raw(fb_json_scan *scan);
/* Nothing but white space is left. */
void fb_json_scan_finish(fb_json_scan *scan);
/* FB_FORMAT with line, column and what would be right there. */
FB_MUST_USE fb_status fb_json_scan_status(const fb_json_scan *scan);

#endif
