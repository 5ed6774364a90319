/* shown.h - what a model has said, as a terminal may show it.
 *
 * A model's output is text and never control: what a terminal would obey, or what is no
 * text at all, is spelled out. A control character becomes \x1b, one that ends or turns
 * lines \u2028, a byte that is no UTF-8 \xff; a tab is four spaces; only a line feed ends
 * a line.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_SHOWN_H
#define FB_BASE_SHOWN_H

#include "base/text.h"

/* A character as it is shown. */
typedef struct fb_glyph {
    char text[16]; /* with a zero behind it */
    int width;     /* columns, perhaps one too many, never one too few */
    bool ends_line;
} fb_glyph;

/* The first character of `bytes` [n]: how many of them it is; 0 at the end, and where a
 * character is cut and `grows` says that the rest may still come. */
size_t fb_show_next(const char *bytes, size_t n, bool grows, fb_glyph *out);

/* `bytes` [n] behind an indent of spaces: lines as they are, each with its end. */
void fb_show_lines(const char *bytes, size_t n, int indent, fb_text *out);
/* The same, broken between words so that no line reaches column `width`; `grows` as
 * above. How many lines there are. */
int fb_show_wrapped(const char *bytes, size_t n, bool grows, int indent, int width,
                    fb_text *out);

#endif
