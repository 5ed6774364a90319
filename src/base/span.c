/* span.c - see span.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/span.h"

#include <string.h>

fb_span fb_span_of(const char *string)
{
    return (fb_span){string, strlen(string)};
}

bool fb_span_is(fb_span span, const char *string)
{
    return span.n == strlen(string) && memcmp(span.bytes, string, span.n) == 0;
}

fb_shown fb_span_show(fb_span span)
{
    fb_shown shown = {{0}};
    const size_t n = span.n < 64 ? span.n : 64;

    for (size_t i = 0; i < n; i++)
        shown.text[i] =
            span.bytes[i] >= ' ' && span.bytes[i] <= '~' ? span.bytes[i] : '?';
    if (span.n > n) memcpy(shown.text + n, "...", 4);
    return shown;
}

int fb_span_compare(fb_span a, fb_span b)
{
    const size_t both = a.n < b.n ? a.n : b.n;
    const int order = both == 0 ? 0 : memcmp(a.bytes, b.bytes, both);

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}
