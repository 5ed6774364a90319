/* text.c - growing strings, distances of words, numbers in text.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/text.h"

#include "base/memory.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t DEFAULT_MOST = (size_t)1 << 30;
static const size_t FIRST_CAPACITY = 256;

static size_t largest(const fb_text *text)
{
    return text->most == 0 ? DEFAULT_MOST : text->most;
}

void fb_text_init(fb_text *text, size_t most)
{
    *text = (fb_text){.most = most};
}

void fb_text_clear(fb_text *text)
{
    const size_t most = text->most;

    fb_free(text->bytes);
    fb_text_init(text, most);
}

/* Makes room for `n` more bytes and the zero behind them. */
static bool reserve(fb_text *text, size_t n)
{
    size_t capacity = text->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : text->capacity;
    char *bytes;

    if (text->failed) return false;
    if (n > largest(text) - text->n) return !(text->failed = true);
    while (capacity <= text->n + n)
        capacity *= 2;
    if (capacity == text->capacity) return true;
    bytes = fb_realloc(FB_ACCOUNT_other, text->bytes, capacity);
    if (bytes == NULL) return !(text->failed = true);
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void fb_text_add(fb_text *text, const char *bytes, size_t n)
{
    if (!reserve(text, n)) return;
    if (n > 0) memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    text->bytes[text->n] = 0;
}

void fb_text_puts(fb_text *text, const char *string)
{
    fb_text_add(text, string, strlen(string));
}

void fb_text_printf(fb_text *text, const char *format, ...)
{
    va_list args, again;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n < 0) text->failed = true;
    if (n >= 0 && reserve(text, (size_t)n)) {
        (void)vsnprintf(text->bytes + text->n, (size_t)n + 1, format, again);
        text->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

const char *fb_text_string(const fb_text *text)
{
    return text->bytes == NULL ? "" : text->bytes;
}

fb_status fb_text_status(const fb_text *text)
{
    if (!text->failed) return FB_OK;
    return fb_fail(FB_NO_MEMORY, "a text grew beyond %zu bytes or beyond the memory",
                   largest(text));
}

/* --- words --- */

const char *fb_plural(int64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

void fb_print_count(int64_t count, char *out, size_t n)
{
    char digits[32];
    size_t length, used = 0;

    (void)snprintf(digits, sizeof digits, "%lld", (long long)count);
    length = strlen(digits);
    for (size_t i = 0; i < length && used + 2 < n; i++) {
        const size_t left = length - i;

        if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
}

enum { LONGEST_WORD = 63 };

static int min3(int a, int b, int c)
{
    const int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Optimal string alignment (Damerau and Levenshtein, restricted): row i of the table is
 * the distance of the first i letters of `a` to every beginning of `b`; three rows are
 * enough. */
int fb_word_distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    int rows[3][LONGEST_WORD + 1];

    if (n > LONGEST_WORD || m > LONGEST_WORD) return INT_MAX;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];

        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            const int swap =
                i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]
                    ? second[j - 2] + 1
                    : INT_MAX;

            row[j] = min3(row[j - 1] + 1, above[j] + 1,
                          above[j - 1] + (a[i - 1] != b[j - 1]));
            if (swap < row[j]) row[j] = swap;
        }
    }
    return rows[n % 3][m];
}

/* A third of the letters may be wrong, at least one: 'kv' means 'kv2', not 'h2o'. */
const char *fb_nearest_word(const char *word, const char *const *words, int n)
{
    const size_t length = strlen(word);
    int best = length < 6 ? 1 : (int)(length / 3);
    const char *nearest = NULL;

    if (length > LONGEST_WORD) return NULL;
    for (int i = 0; i < n; i++) {
        const int distance = fb_word_distance(word, words[i]);

        if (distance > best || (distance == best && nearest != NULL)) continue;
        if ((size_t)distance >= length) continue; /* nothing in common */
        best = distance;
        nearest = words[i];
    }
    return nearest;
}

/* --- numbers --- */

bool fb_parse_int(const char *string, int64_t *out)
{
    const char *digits = string + (*string == '-' || *string == '+');
    long long value;

    if (*digits == 0 || digits[strspn(digits, "0123456789")] != 0) return false;
    errno = 0;
    value = strtoll(string, NULL, 10);
    if (errno != 0) return false;
    *out = value;
    return true;
}

static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* strtod of the C locale, whatever the program that uses the library has set. */
static double to_real(const char *string, char **end)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_c_locale);
    return c_locale == (locale_t)0 ? strtod(string, end)
                                   : strtod_l(string, end, c_locale);
}

bool fb_parse_real(const char *string, double *out)
{
    char *end = NULL;
    double value;

    if (*string == 0 || string[strspn(string, "+-.0123456789eE")] != 0) return false;
    value = to_real(string, &end);
    if (end == string || *end != 0 || !isfinite(value)) return false;
    *out = value;
    return true;
}

static bool add_if_not_finite(fb_text *text, double value)
{
    if (isfinite(value)) return false;
    fb_text_puts(text, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return true;
}

/* True if `digits`, with a point in place of the locale's comma, reads back. */
static bool reads_back(char *digits, double value)
{
    char *comma = strchr(digits, ',');

    if (comma != NULL) *comma = '.';
    return to_real(digits, NULL) == value;
}

void fb_text_add_real(fb_text *text, double value)
{
    char digits[32];

    if (add_if_not_finite(text, value)) return;
    for (int precision = 1; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (reads_back(digits, value)) break;
    }
    fb_text_puts(text, digits);
}

void fb_text_add_plain(fb_text *text, double value)
{
    char digits[384]; /* the largest double has 309 before the point */

    if (add_if_not_finite(text, value)) return;
    for (int precision = 0; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*f", precision, value);
        if (reads_back(digits, value)) break;
    }
    fb_text_puts(text, digits);
}

/* --- words of a shell --- */

/* Inside single quotes everything stands for itself but the quote. */
void fb_text_add_quoted(fb_text *text, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789%+,-./:=@_";

    if (word[0] != 0 && word[strspn(word, plain)] == 0) {
        fb_text_puts(text, word);
        return;
    }
    fb_text_puts(text, "'");
    for (; *word != 0; word++) {
        if (*word == '\'')
            fb_text_puts(text, "'\\''");
        else
            fb_text_add(text, word, 1);
    }
    fb_text_puts(text, "'");
}

/* --- UTF-8 --- */

/* Unicode 15, table 3-7: the second byte has a range of its own after some first ones,
 * which excludes overlong forms, surrogates and what lies above U+10FFFF. How many of
 * the bytes belong to a character; of `length_out` that it has, 0: there is none. */
static size_t match_character(const char *bytes, size_t n, size_t *length_out)
{
    const unsigned char *b = (const unsigned char *)bytes;
    const unsigned char first = n == 0 ? 0xFF : b[0];
    const size_t length = first < 0x80   ? 1
                          : first < 0xC2 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    size_t i = 1;

    *length_out = length;
    for (; i < length && i < n; i++) {
        const unsigned char low = i > 1           ? 0x80
                                  : first == 0xE0 ? 0xA0
                                  : first == 0xF0 ? 0x90
                                                  : 0x80;
        const unsigned char high = i > 1           ? 0xBF
                                   : first == 0xED ? 0x9F
                                   : first == 0xF4 ? 0x8F
                                                   : 0xBF;

        if (b[i] < low || b[i] > high) break;
    }
    return i;
}

size_t fb_utf8_length(const char *bytes, size_t n)
{
    size_t length;

    return match_character(bytes, n, &length) == length ? length : 0;
}

bool fb_utf8_is_cut(const char *bytes, size_t n)
{
    size_t length;

    return match_character(bytes, n, &length) == n && n < length;
}
