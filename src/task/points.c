/* points.c - texts as arrays of code points, for the scorers.
 *
 * SPDX-License-Identifier: MIT
 */
#include "task/points.h"

#include "base/memory.h"

#include <string.h>
#include <utf8proc.h>

enum { REPLACEMENT = 0xFFFD, DOTTED_I = 0x130, DOT_ABOVE = 0x307 };

static fb_status new_points(fb_points *out, size_t n)
{
    *out = (fb_points){NULL, 0};
    out->at = fb_alloc(FB_ACCOUNT_other, fb_size_mul(n + 1, sizeof *out->at));
    if (out->at == NULL) return fb_fail(FB_NO_MEMORY, "no memory to score a text");
    return FB_OK;
}

fb_status fb_points_read(fb_points *out, const char *text)
{
    const size_t n = strlen(text);

    FB_TRY(new_points(out, n));
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t point = REPLACEMENT;
        const utf8proc_ssize_t used = utf8proc_iterate(
            (const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &point);

        i += used > 0 ? (size_t)used : 1;
        out->at[out->n++] = used > 0 ? point : REPLACEMENT;
    }
    return FB_OK;
}

fb_status fb_points_copy(fb_points *out, fb_points text)
{
    FB_TRY(new_points(out, text.n));
    memcpy(out->at, text.at, text.n * sizeof *text.at);
    out->n = text.n;
    return FB_OK;
}

fb_status fb_points_lower(fb_points *out, fb_points text)
{
    FB_TRY(new_points(out, fb_size_mul(text.n, 2)));
    for (size_t i = 0; i < text.n; i++) {
        const int32_t point = text.at[i];

        out->at[out->n++] = point == DOTTED_I ? 'i' : utf8proc_tolower(point);
        if (point == DOTTED_I) out->at[out->n++] = DOT_ABOVE;
    }
    return FB_OK;
}

void fb_points_clear(fb_points *points)
{
    fb_free(points->at);
    *points = (fb_points){NULL, 0};
}

bool fb_point_is_space(int32_t point)
{
    static const int32_t others[] = {0x20,   0x85,   0xA0,   0x1680, 0x2028,
                                     0x2029, 0x202F, 0x205F, 0x3000};

    if ((point >= 0x9 && point <= 0xD) || (point >= 0x1C && point <= 0x1F)) return true;
    if (point >= 0x2000 && point <= 0x200A) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (point == others[i]) return true;
    return false;
}

bool fb_point_is_digit(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_ND;
}

bool fb_point_is_word(int32_t point)
{
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return true;
    default:
        return point == '_';
    }
}

bool fb_point_is_punctuation(int32_t point)
{
    return point > 0 && point < 0x80 &&
           strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", point) != NULL;
}

fb_points fb_points_strip(fb_points text)
{
    while (text.n > 0 && fb_point_is_space(text.at[0])) {
        text.at++;
        text.n--;
    }
    while (text.n > 0 && fb_point_is_space(text.at[text.n - 1]))
        text.n--;
    return text;
}

bool fb_points_equal(fb_points a, fb_points b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n * sizeof *a.at) == 0;
}

int fb_points_compare(const void *a, const void *b)
{
    const fb_points *x = a, *y = b;
    const size_t n = x->n < y->n ? x->n : y->n;

    for (size_t i = 0; i < n; i++)
        if (x->at[i] != y->at[i]) return x->at[i] < y->at[i] ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

int64_t fb_points_find(fb_points text, fb_points part)
{
    for (size_t i = 0; i + part.n <= text.n; i++)
        if (memcmp(text.at + i, part.at, part.n * sizeof *part.at) == 0)
            return (int64_t)i;
    return -1;
}

bool fb_points_next_word(fb_points *rest, fb_points *word)
{
    while (rest->n > 0 && fb_point_is_space(rest->at[0])) {
        rest->at++;
        rest->n--;
    }
    *word = (fb_points){rest->at, 0};
    while (rest->n > 0 && !fb_point_is_space(rest->at[0])) {
        rest->at++;
        rest->n--;
        word->n++;
    }
    return word->n > 0;
}
