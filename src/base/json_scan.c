/* json_scan.c - see json_scan.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json_scan.h"

#include "base/text.h"

#include <string.h>

void fb_json_scan_init(fb_json_scan *s, char *text, size_t n)
{
    *s = (fb_json_scan){.begin = text, .at = text, .end = text + n};
}

void fb_json_scan_again(fb_json_scan *s, fb_span raw)
{
    union { /* the text without the const of the span */
        const char *bytes;
        char *text;
    } value = {.bytes = raw.bytes};

    fb_json_scan_init(s, value.text, raw.n);
}

static void fail(fb_json_scan *s, const char *wanted)
{
    if (s->wanted == NULL) s->wanted = wanted;
}

char fb_json_scan_peek(fb_json_scan *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
    return s->wanted == NULL && s->at < s->end ? *s->at : '\0';
}

static bool take(fb_json_scan *s, char wanted)
{
    if (fb_json_scan_peek(s) != wanted) return false;
    s->at++;
    return true;
}

/* --- arrays and objects --------------------------------------------------------- */

void fb_json_scan_enter(fb_json_scan *s, char bracket)
{
    if (!take(s, bracket)) {
        fail(s, bracket == '{' ? "an object" : "an array");
        return;
    }
    if (s->depth == FB_JSON_DEPTH) {
        fail(s, "less depth");
        return;
    }
    s->close[s->depth] = bracket == '{' ? '}' : ']';
    s->fresh[s->depth++] = true;
}

static bool go_on(fb_json_scan *s)
{
    const int d = s->depth - 1;

    if (take(s, s->close[d])) {
        s->depth--;
        return false;
    }
    if (!s->fresh[d] && !take(s, ','))
        fail(s, s->close[d] == '}' ? "',' or '}'" : "',' or ']'");
    s->fresh[d] = false;
    return s->wanted == NULL;
}

bool fb_json_scan_member(fb_json_scan *s, fb_span *key)
{
    if (s->wanted != NULL || !go_on(s)) return false;
    *key = fb_json_scan_string(s);
    if (!take(s, ':')) fail(s, "':'");
    return s->wanted == NULL;
}

bool fb_json_scan_element(fb_json_scan *s)
{
    return s->wanted == NULL && go_on(s);
}

/* --- strings -------------------------------------------------------------------- */

/* Four hexadecimal digits behind "\u"; -1: they are not. */
static int32_t hexadecimal(fb_json_scan *s)
{
    int32_t value = 0;

    if (s->end - s->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char c = *s->at++;
        const char *digit =
            c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);

        if (digit == NULL) return -1;
        value = value * 16 + (int32_t)(digit - digits);
    }
    return value;
}

static char *put_utf8(char *to, int32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

/* What stands behind "\u": one code, or the two halves of a pair. */
static int32_t code_point(fb_json_scan *s)
{
    const int32_t high = hexadecimal(s);
    int32_t low;

    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u')
        return -1;
    s->at += 2;
    low = hexadecimal(s);
    if (low < 0xdc00 || low > 0xdfff) return -1;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* An escape, which is longer than what it stands for; NULL: there is no such. */
static char *put_escape(fb_json_scan *s, char *to)
{
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    const char c = s->at < s->end ? *s->at++ : '\0';
    const char *name = c == '\0' ? NULL : strchr(names, c);
    int32_t code;

    if (name != NULL) {
        *to++ = codes[name - names];
        return to;
    }
    code = c == 'u' ? code_point(s) : -1;
    return code < 0 ? NULL : put_utf8(to, code);
}

static char *put_character(fb_json_scan *s, char *to)
{
    const size_t n = fb_utf8_length(s->at, (size_t)(s->end - s->at));

    if (n == 0 || (unsigned char)*s->at < 0x20) return NULL;
    memmove(to, s->at, n);
    s->at += n;
    return to + n;
}

fb_span fb_json_scan_string(fb_json_scan *s)
{
    fb_span string = {"", 0};
    char *to;

    if (!take(s, '"')) {
        fail(s, "a string");
        return string;
    }
    string.bytes = to = s->at;
    while (to != NULL && s->at < s->end && *s->at != '"') {
        if (*s->at == '\\') {
            s->at++;
            to = put_escape(s, to);
        } else {
            to = put_character(s, to);
        }
    }
    if (to == NULL || s->at == s->end) {
        fail(s, "a string of UTF-8 that ends");
        return (fb_span){"", 0};
    }
    s->at++;
    string.n = (size_t)(to - string.bytes);
    return string;
}

/* --- other values --------------------------------------------------------------- */

int64_t fb_json_scan_int(fb_json_scan *s)
{
    char digits[24];
    int64_t value = 0;
    size_t n = 0;

    (void)fb_json_scan_peek(s);
    while (s->at + n < s->end && n + 1 < sizeof digits &&
           strchr("-0123456789.eE+", s->at[n]) != NULL && s->at[n] != '\0')
        n++;
    memcpy(digits, s->at, n);
    digits[n] = '\0';
    if (s->wanted != NULL || n + 1 == sizeof digits || !fb_parse_int(digits, &value)) {
        fail(s, "a whole number");
        return 0;
    }
    s->at += n;
    return value;
}

/* Steps over a string without reading it. */
static void skip_string(fb_json_scan *s)
{
    s->at++;
    while (s->at < s->end && *s->at != '"')
        s->at += *s->at == '\\' && s->at + 1 < s->end ? 2 : 1;
    if (s->at >= s->end) {
        s->at = s->end;
        fail(s, "a string that ends");
        return;
    }
    s->at++;
}

static void skip_scalar(fb_json_scan *s)
{
    const char *from = s->at;

    while (s->at < s->end && *s->at != '\0' &&
           strchr(" \n\r\t,:]}[{\"", *s->at) == NULL)
        s->at++;
    if (s->at == from) fail(s, "a value");
}

static void skip_bracket(fb_json_scan *s, char *close, int *depth)
{
    const char c = *s->at;

    if (c == '{' || c == '[') {
        if (*depth == FB_JSON_DEPTH) {
            fail(s, "less depth");
            return;
        }
        close[(*depth)++] = c == '{' ? '}' : ']';
    } else if (*depth == 0 || close[--*depth] != c) {
        fail(s, "another bracket");
        return;
    }
    s->at++;
}

fb_span fb_json_scan_raw(fb_json_scan *s)
{
    const char c = fb_json_scan_peek(s);
    const char *from = s->at;
    char close[FB_JSON_DEPTH];
    int depth = 0;

    if (c == '\0' || c == ',' || c == ':') fail(s, "a value");
    while (s->wanted == NULL) {
        const char next = fb_json_scan_peek(s);

        if (next == '\0')
            fail(s, "more text");
        else if (strchr("[]{}", next) != NULL)
            skip_bracket(s, close, &depth);
        else if (next == '"')
            skip_string(s);
        else if (depth > 0 && (next == ',' || next == ':'))
            s->at++;
        else
            skip_scalar(s);
        if (depth == 0) break;
    }
    return s->wanted == NULL ? (fb_span){from, (size_t)(s->at - from)}
                             : (fb_span){"", 0};
}

void fb_json_scan_finish(fb_json_scan *s)
{
    (void)fb_json_scan_peek(s);
    if (s->at < s->end) fail(s, "the end of the text");
}

fb_status fb_json_scan_status(const fb_json_scan *s)
{
    const char *line = s->begin;
    int n = 1;

    if (s->wanted == NULL) return FB_OK;
    for (const char *c = s->begin; c < s->at; c++)
        if (*c == '\n') {
            line = c + 1;
            n++;
        }
    return fb_fail(FB_FORMAT, "line %d, column %zu: %s would be right", n,
                   (size_t)(s->at - line) + 1, s->wanted);
}
