/* shown.c - see shown.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/shown.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* --- characters --- */

static void spell(fb_glyph *out, char letter, int digits, unsigned code)
{
    out->width =
        snprintf(out->text, sizeof out->text, "\\%c%0*x", letter, digits, code);
}

/* Marks that turn the direction of what follows, beyond the end of an answer. */
static bool turns_lines(utf8proc_int32_t point)
{
    return (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

/* Whoever does not know a character may give it any width up to 2. */
static int width_of(utf8proc_int32_t point, utf8proc_category_t category)
{
    const int width = utf8proc_charwidth(point);

    return category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CO ? 2
                                                                                : width;
}

static void show_point(utf8proc_int32_t point, const char *bytes, size_t n,
                       fb_glyph *out)
{
    const utf8proc_category_t category = utf8proc_category(point);

    if (point == '\t') {
        *out = (fb_glyph){.text = "    ", .width = 4};
    } else if (category == UTF8PROC_CATEGORY_CC && point < 0x80) {
        spell(out, 'x', 2, (unsigned)point);
    } else if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL ||
               category == UTF8PROC_CATEGORY_ZP || turns_lines(point)) {
        spell(out, 'u', 4, (unsigned)point);
    } else {
        memcpy(out->text, bytes, n);
        out->width = width_of(point, category);
    }
}

size_t fb_show_next(const char *bytes, size_t n, bool grows, fb_glyph *out)
{
    const size_t length = fb_utf8_length(bytes, n);
    utf8proc_int32_t point = 0;

    *out = (fb_glyph){.width = 0};
    if (n == 0 || (length == 0 && grows && fb_utf8_is_cut(bytes, n))) return 0;
    if (length == 0) {
        spell(out, 'x', 2, (unsigned char)bytes[0]);
        return 1;
    }
    if (bytes[0] == '\n') {
        out->ends_line = true;
        return 1;
    }
    (void)utf8proc_iterate((const utf8proc_uint8_t *)bytes, (utf8proc_ssize_t)length,
                           &point);
    show_point(point, bytes, length, out);
    return length;
}

/* --- lines --- */

/* Lines at work. A word is kept back until it is known on which line it fits. */
typedef struct lines {
    fb_text *out;
    int indent, width; /* width 0: lines are as long as they are */
    int column;        /* of the line so far; 0: there is none yet */
    int spaces;        /* between it and the word */
    char word[512];
    size_t n_word;
    int word_width;
    int n; /* begun so far */
} lines;

static void begin_line(lines *l)
{
    fb_text_printf(l->out, "%*s", l->indent, "");
    l->column = l->indent;
    l->n++;
}

static void end_line(lines *l)
{
    fb_text_puts(l->out, "\n");
    l->column = 0;
}

/* Spaces at the beginning of a line are the model's own, unless we broke it there. */
static void put_word(lines *l)
{
    if (l->n_word == 0) return;
    if (l->width > 0 && l->column > l->indent &&
        l->column + l->spaces + l->word_width >= l->width) {
        end_line(l);
        l->spaces = 0;
    }
    if (l->column == 0) begin_line(l);
    fb_text_printf(l->out, "%*s", l->spaces, "");
    fb_text_add(l->out, l->word, l->n_word);
    l->column += l->spaces + l->word_width;
    l->n_word = 0;
    l->spaces = l->word_width = 0;
}

/* Spaces that alone would fill a line are not more than one line. */
static void put_space(lines *l)
{
    put_word(l);
    if (l->width == 0 || l->indent + l->spaces + 2 < l->width) l->spaces++;
}

static void put_glyph(lines *l, const fb_glyph *glyph)
{
    const size_t n = strlen(glyph->text);
    const bool is_full = l->n_word + n > sizeof l->word;

    if (is_full || (l->width > 0 &&
                    l->indent + l->spaces + l->word_width + glyph->width >= l->width))
        put_word(l); /* longer than a line: broken inside */
    memcpy(l->word + l->n_word, glyph->text, n);
    l->n_word += n;
    l->word_width += glyph->width;
}

static void put_break(lines *l)
{
    put_word(l);
    l->spaces = 0;
    if (l->column == 0) l->n++; /* an empty line */
    end_line(l);
}

static int show(lines *l, const char *bytes, size_t n, bool grows)
{
    fb_glyph glyph;
    size_t taken;

    for (; (taken = fb_show_next(bytes, n, grows, &glyph)) > 0;
         bytes += taken, n -= taken) {
        if (glyph.ends_line)
            put_break(l);
        else if (*bytes == ' ')
            put_space(l);
        else
            put_glyph(l, &glyph);
    }
    put_word(l);
    if (l->column > 0) end_line(l);
    return l->n;
}

void fb_show_lines(const char *bytes, size_t n, int indent, fb_text *out)
{
    lines l = {.out = out, .indent = indent};

    (void)show(&l, bytes, n, false);
}

int fb_show_wrapped(const char *bytes, size_t n, bool grows, int indent, int width,
                    fb_text *out)
{
    lines l = {.out = out, .indent = indent, .width = width};

    return show(&l, bytes, n, grows);
}
