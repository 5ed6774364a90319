/* html.c - escaping, and cells of tables.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/html.h"

#include "base/check.h"
#include "report/analysis_parts.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"
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

/* A space that would part a number from its unit or its relation does not break. */
static bool is_bound(const char *at, const char *begin, const char *end)
{
    const char before = at > begin ? at[-1] : ' ', after = at + 1 < end ? at[1] : ' ';

    return *at == ' ' &&
           (strchr("<=0123456789", before) != NULL || strchr("<=%", after) != NULL);
}

void fb_html_prose(fb_text *out, const char *bytes, size_t n)
{
    const char *end = bytes + n;
    const char *start = bytes;

    for (const char *at = bytes; at < end; at++) {
        if (!is_bound(at, bytes, end)) continue;
        fb_html_bytes(out, start, (size_t)(at - start));
        fb_text_puts(out, "\xC2\xA0");
        start = at + 1;
    }
    fb_html_bytes(out, start, (size_t)(end - start));
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

void fb_html_number(fb_text *out, double value, int digits)
{
    if (isfinite(value))
        fb_say_number(out, value, digits);
    else
        fb_text_puts(out, DASH);
}

void fb_html_signed(fb_text *out, double value, int digits)
{
    if (isfinite(value))
        fb_say_signed(out, value, digits);
    else
        fb_text_puts(out, DASH);
}

/* Opens a cell that carries `value` with all its digits, or nothing. */
static void open_cell(fb_text *out, double value)
{
    fb_text_puts(out, "<td data-v=\"");
    if (isfinite(value)) fb_text_add_real(out, value);
    fb_text_puts(out, "\">");
}

static void close_cell(fb_text *out)
{
    fb_text_puts(out, "</td>");
}

void fb_html_cell(fb_text *out, double value, int digits)
{
    open_cell(out, value);
    fb_html_number(out, value, digits);
    close_cell(out);
}

void fb_html_signed_cell(fb_text *out, double value, int digits)
{
    open_cell(out, value);
    fb_html_signed(out, value, digits);
    close_cell(out);
}

void fb_html_interval_cell(fb_text *out, fb_interval interval, int digits,
                           bool is_signed)
{
    if (!isfinite(interval.low) || !isfinite(interval.high)) {
        fb_text_puts(out, "<td></td>");
        return;
    }
    fb_text_puts(out, "<td data-v=\"");
    fb_text_add_real(out, interval.low);
    fb_text_puts(out, " to ");
    fb_text_add_real(out, interval.high);
    fb_text_puts(out, "\">");
    fb_say_interval(out, interval, digits, is_signed);
    close_cell(out);
}

void fb_html_p_cell(fb_text *out, double p)
{
    fb_text words = {0};

    fb_say_p(&words, p);
    open_cell(out, p);
    fb_html_text(out, fb_text_string(&words));
    close_cell(out);
    out->failed |= words.failed;
    fb_text_clear(&words);
}

void fb_html_bytes_cell(fb_text *out, double n_bytes)
{
    fb_text_puts(out, "<td data-v=\"");
    if (isfinite(n_bytes)) fb_text_add_plain(out, n_bytes);
    fb_text_puts(out, "\">");
    if (isfinite(n_bytes))
        fb_say_bytes(out, n_bytes);
    else
        fb_text_puts(out, DASH);
    close_cell(out);
}

void fb_html_share_cell(fb_text *out, double share)
{
    fb_text words = {0};

    open_cell(out, share);
    if (isfinite(share))
        fb_say_percent(&words, share);
    else
        fb_text_puts(&words, DASH);
    fb_html_prose(out, fb_text_string(&words), words.n);
    out->failed |= words.failed;
    fb_text_clear(&words);
    close_cell(out);
}

void fb_html_date(fb_text *out, const char *time)
{
    static const char *const months[] = {
        "January", "February", "March",     "April",   "May",      "June",
        "July",    "August",   "September", "October", "November", "December"};
    char year[5] = "", month[3] = "", day[3] = "";
    int64_t m, d;

    if (strlen(time) >= 10) {
        memcpy(year, time, 4);
        memcpy(month, time + 5, 2);
        memcpy(day, time + 8, 2);
    }
    if (fb_parse_int(month, &m) && m >= 1 && m <= 12 && fb_parse_int(day, &d))
        fb_html(out, "%d %s %s", (int)d, months[m - 1], year);
    else
        fb_html_text(out, time);
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
