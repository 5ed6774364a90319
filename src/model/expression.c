/* expression.c - see expression.h.
 *
 * PCRE2 10.42 with UTF and UCP matches what passes here as Oniguruma does, but for:
 *   - U+180E, which is white space to PCRE2; so \s is written out as SPACE;
 *   - code points that its Unicode (14 there) does not know.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/expression.h"

#include <stdio.h>
#include <string.h>

#define SPACE                                                                          \
    "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}"         \
    "\\x{202F}\\x{205F}\\x{3000}"

enum { MOST_BYTES = 1 << 12 };

typedef struct translation {
    const char *at;
    fb_text *out;
    bool in_class;
} translation;

static void copy(translation *t, size_t n)
{
    fb_text_add(t->out, t->at, n);
    t->at += n;
}

static fb_status refuse(const translation *t)
{
    char part[13];

    (void)snprintf(part, sizeof part, "%s", t->at);
    return fb_fail(FB_UNSUPPORTED, "an expression has '%s', which is not understood",
                   part);
}

/* \p{L}, \P{Lu}: one or two letters, or the name of a script. */
static fb_status add_property(translation *t)
{
    const size_t n =
        strspn(t->at + 3, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

    if (t->at[2] != '{' || n == 0 || n > 24 || t->at[3 + n] != '}') return refuse(t);
    copy(t, 4 + n);
    return FB_OK;
}

static fb_status add_escape(translation *t)
{
    const char c = t->at[1];

    if (c == 'p' || c == 'P') return add_property(t);
    if (c == 's' || (c == 'S' && !t->in_class)) {
        fb_text_printf(t->out, t->in_class ? "%s" : "[%s]",
                       c == 's' ? SPACE : "^" SPACE);
        t->at += 2;
        return FB_OK;
    }
    if (c == 'd') { /* of Unicode, in both */
        fb_text_puts(t->out, "\\p{Nd}");
        t->at += 2;
        return FB_OK;
    }
    if (c == '\0' || strchr("rntf.()[]{}|?*+-^$/\\'\"&#~", c) == NULL) return refuse(t);
    copy(t, 2);
    return FB_OK;
}

static fb_status add_group(translation *t)
{
    static const char *const kinds[] = {"(?:", "(?i:", "(?!", "(?=", "(?<!", "(?<="};

    if (t->at[1] != '?') {
        copy(t, 1);
        return FB_OK;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strncmp(t->at, kinds[k], strlen(kinds[k])) == 0) {
            copy(t, strlen(kinds[k]));
            return FB_OK;
        }
    return refuse(t);
}

/* A repeated group may match one text in very many ways. */
static fb_status add_group_end(translation *t)
{
    if (t->at[1] != '\0' && strchr("*+{", t->at[1]) != NULL) return refuse(t);
    copy(t, 1);
    return FB_OK;
}

/* "{2}", "{2,}", "{2,3}". "{,3}" is a plain text to some versions of PCRE2 and "{1,2,3}"
 * to all; "{2,3}+" is twice repeated to one and possessive to the other, "{2}?" optional
 * to one and twice to the other. */
static fb_status add_count(translation *t)
{
    static const char digits[] = "0123456789";
    const size_t n_low = strspn(t->at + 1, digits);
    const bool is_range = t->at[1 + n_low] == ',';
    const size_t n = n_low + (is_range ? 1 + strspn(t->at + 2 + n_low, digits) : 0);

    if (n_low == 0 || n > 7 || t->at[1 + n] != '}') return refuse(t);
    if (t->at[2 + n] == '+' || (t->at[2 + n] == '?' && !is_range)) return refuse(t);
    copy(t, 2 + n);
    return FB_OK;
}

static fb_status add_class_begin(translation *t)
{
    t->in_class = true;
    copy(t, t->at[1] == '^' ? 2 : 1);
    return *t->at == ']' ? refuse(t) : FB_OK;
}

static fb_status add_in_class(translation *t)
{
    if (*t->at == '[' || (t->at[0] == '&' && t->at[1] == '&')) return refuse(t);
    t->in_class = *t->at != ']';
    copy(t, 1);
    return FB_OK;
}

static fb_status add_next(translation *t)
{
    if (*t->at == '\\') return add_escape(t);
    if (t->in_class) return add_in_class(t);
    switch (*t->at) {
    case '[':
        return add_class_begin(t);
    case '(':
        return add_group(t);
    case ')':
        return add_group_end(t);
    case '{':
        return add_count(t);
    case '^': /* of a line to one, of the text to the other */
    case '$':
        return refuse(t);
    default:
        copy(t, 1);
        return FB_OK;
    }
}

fb_status fb_expression_add(fb_text *out, const char *pattern)
{
    translation t = {.at = pattern, .out = out};

    if (strlen(pattern) > MOST_BYTES)
        return fb_fail(FB_UNSUPPORTED,
                       "an expression of %zu bytes; at most %d are read",
                       strlen(pattern), MOST_BYTES);
    while (*t.at != '\0')
        FB_TRY(add_next(&t));
    return fb_text_status(out);
}

fb_status fb_expression_add_literal(fb_text *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\^$.[]|()?*+{}", *text) != NULL) fb_text_puts(out, "\\");
        fb_text_add(out, text, 1);
    }
    return fb_text_status(out);
}
