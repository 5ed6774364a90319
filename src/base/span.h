/* span.h - bytes that somebody else owns: text inside a file, not ended by a zero.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_SPAN_H
#define FB_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fb_span {
    const char *bytes;
    size_t n;
} fb_span;

/* Printable in a sentence: at most 64 bytes, others than printable ASCII as '?'. */
typedef struct fb_shown {
    char text[68];
} fb_shown;

fb_span fb_span_of(const char *string);
fb_shown fb_span_show(fb_span span);
bool fb_span_is(fb_span span, const char *string);
/* Byte by byte, the shorter first: below 0, 0 or above, as memcmp. */
int fb_span_compare(fb_span a, fb_span b);

#endif
