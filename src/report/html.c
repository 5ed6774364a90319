/* html.c - escaping, and numbers for people.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/html.h"

#include "base/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"
#define MINUS       "\xE2\x88\x92"
#define DASH        "\xE2\x80\x93"

static bool is_control(unsigned char c)
{
    return (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7F;
}

static const char *entity(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return is_control(c) ? REPLACEMENT : NULL;
    }
}

static void escape(fb_text *out, const char *bytes, size_t n, const char *break_after)
{
    for (size_t i = 0; i < n;) {
        const size_t length = fb_utf8_length(bytes + i, n - i);
        const char *other = length == 0 ? REPLACEMENT : entity((unsigned char)bytes[i]);

        if (other != NULL)
            fb_text_puts(out, other);
        else
            fb_text_add(out, bytes + i, length);
        if (bytes[i] != '\0' && strchr(break_after, bytes[i]) != NULL)
            fb_text_puts(out, "<wbr>");
        i += length == 0 ? 1 : length;
    }
}

void fb_html_bytes(fb_text *out, const char *bytes, size_t n)
{
    escape(out, bytes, n, "");
}

void fb_html_text(fb_text *out, const char *string)
{
    if (string != NULL) escape(out, string, strlen(string), "");
}

void fb_html_breakable(fb_text *out, const char *string)
{
    if (string != NULL) escape(out, string, strlen(string), "_/,(");
}

void fb_html(fb_text *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    for (;;) {
        const size_t plain = strcspn(format, "%");

        fb_text_add(out, format, plain);
        format += plain;
        if (*format == '\0') break;
        switch (format[1]) {
        case 's':
            fb_html_text(out, va_arg(args, const char *));
            break;
        case 'd':
            fb_text_printf(out, "%d", va_arg(args, int));
            break;
        default:
            FB_ASSERT(format[1] == '%');
            fb_text_puts(out, "%");
        }
        format += 2;
    }
    va_end(args);
}

void fb_html_number(fb_text *out, double value, int digits, unsigned flags)
{
    char buffer[400]; /* the largest double has 309 digits before the point */
    const char *magnitude = buffer;

    if (!isfinite(value)) {
        fb_text_puts(out, DASH);
        return;
    }
    (void)snprintf(buffer, sizeof buffer, "%.*f", digits, value);
    if (*magnitude == '-') magnitude++;
    if (strspn(magnitude, "0.") != strlen(magnitude)) {
        if (value < 0)
            fb_text_puts(out, MINUS);
        else if ((flags & FB_NUMBER_SIGNED) != 0)
            fb_text_puts(out, "+");
    }
    fb_text_puts(out, magnitude);
}

void fb_html_interval(fb_text *out, double low, double high, int digits, unsigned flags)
{
    if (!isfinite(low) || !isfinite(high)) return;
    fb_html_number(out, low, digits, flags);
    fb_text_puts(out, " to ");
    fb_html_number(out, high, digits, flags);
}

void fb_html_p(fb_text *out, double p)
{
    if (p < 0.001)
        fb_text_puts(out, "&lt;0.001");
    else
        fb_html_number(out, p, p < 0.0995 ? 3 : 2, 0);
}

void fb_html_size(fb_text *out, double n_bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;

    while (n_bytes >= 1000 && unit < 4) {
        n_bytes /= 1024;
        unit++;
    }
    fb_html_number(out, n_bytes, unit == 0 || n_bytes >= 99.95 ? 0 : 1, 0);
    fb_text_printf(out, " %s", units[unit]);
}

/* Opens a cell that carries `value` with all its digits, or nothing. */
static void open_cell(fb_text *out, double value)
{
    fb_text_puts(out, "<td data-v=\"");
    if (isfinite(value)) fb_text_add_real(out, value);
    fb_text_puts(out, "\">");
}

void fb_html_p_cell(fb_text *out, double p)
{
    open_cell(out, p);
    fb_html_p(out, p);
    fb_text_puts(out, "</td>");
}

void fb_html_size_cell(fb_text *out, double n_bytes)
{
    open_cell(out, n_bytes);
    fb_html_size(out, n_bytes);
    fb_text_puts(out, "</td>");
}

void fb_html_cell(fb_text *out, double value, int digits, unsigned flags)
{
    open_cell(out, value);
    fb_html_number(out, value, digits, flags);
    fb_text_puts(out, "</td>");
}

void fb_html_interval_cell(fb_text *out, double low, double high, int digits,
                           unsigned flags)
{
    fb_text_puts(out, "<td data-v=\"");
    if (isfinite(low) && isfinite(high)) {
        fb_text_add_real(out, low);
        fb_text_puts(out, " to ");
        fb_text_add_real(out, high);
    }
    fb_text_puts(out, "\">");
    fb_html_interval(out, low, high, digits, flags);
    fb_text_puts(out, "</td>");
}

/* In JSON '<' stands in strings alone, where it may be written as a number. */
void fb_html_json(fb_text *out, const char *json, size_t n)
{
    while (n > 0) {
        const char *less = memchr(json, '<', n);
        const size_t plain = less == NULL ? n : (size_t)(less - json);

        fb_text_add(out, json, plain);
        if (less != NULL) fb_text_puts(out, "\\u003c");
        json += plain + (less != NULL);
        n -= plain + (less != NULL);
    }
}

size_t fb_utf8_cut(const char *bytes, size_t n, size_t most)
{
    if (n <= most) return n;
    while (most > 0 && ((unsigned char)bytes[most] & 0xC0) == 0x80)
        most--;
    return most;
}
