/* specials.c - see specials.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/specials.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MOST_BYTES = 1 << 10 }; /* of one: bounds the work at each place of a text */

/* --- making --------------------------------------------------------------------- */

static bool is_mark(const fb_tokens *t, int32_t id)
{
    for (int e = 0; e < t->n_ends; e++)
        if (t->end[e] == id) return true;
    return id == t->bos;
}

static bool is_special(const fb_tokens *t, int32_t id, bool rewritten)
{
    const fb_token *token = &t->token[id];
    const int inner = FB_TOKEN_REWRITTEN | FB_TOKEN_NORMALIZED;

    return token->text.n > 0 && ((token->flags & inner) != 0) == rewritten &&
           (token->kind == FB_TOKEN_CONTROL || token->kind == FB_TOKEN_USER ||
            token->kind == FB_TOKEN_UNKNOWN);
}

static int compare_specials(const void *a, const void *b)
{
    const fb_special *x = a, *y = b;
    const int order = fb_span_compare(x->text, y->text);

    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

/* How the text reads where it is looked for, behind the earlier ones. */
static fb_status add_text(fb_text *texts, const fb_tokens *t, int32_t id, size_t *n_out)
{
    const fb_token *token = &t->token[id];
    fb_text room[2];
    fb_span text = token->text;
    fb_status status = FB_OK;

    fb_text_init(&room[0], 1 << 16);
    fb_text_init(&room[1], 1 << 16);
    if (token->flags & FB_TOKEN_NORMALIZED)
        status = fb_rewrite_text(&t->before, FB_BEGINS_STRETCH | FB_BEGINS_TEXT, room,
                                 &text);
    if (status == FB_OK && text.n > MOST_BYTES)
        status =
            fb_fail(FB_UNSUPPORTED,
                    "token %" PRId32 ", which stands for itself, has %zu bytes; at "
                    "most %d are read",
                    id, text.n, MOST_BYTES);
    if (status == FB_OK) fb_text_add(texts, text.bytes, text.n);
    *n_out = text.n;
    fb_text_clear(&room[0]);
    fb_text_clear(&room[1]);
    return status == FB_OK ? fb_text_status(texts) : status;
}

static fb_status add(fb_specials *s, const fb_tokens *t, int32_t id)
{
    const fb_token *token = &t->token[id];
    fb_special *to = &s->list[s->n++];

    *to = (fb_special){.id = id,
                       .flags = token->flags,
                       .in_data = token->kind == FB_TOKEN_USER && !is_mark(t, id)};
    return add_text(&s->texts, t, id, &to->text.n);
}

fb_status fb_specials_make(fb_specials *s, const fb_tokens *t, bool rewritten)
{
    size_t n = 0, at = 0;

    for (int32_t id = 0; id < t->n; id++)
        n += is_special(t, id, rewritten);
    s->list = fb_alloc(FB_ACCOUNT_other, (n + 1) * sizeof *s->list);
    if (s->list == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a tokenizer");
    for (int32_t id = 0; id < t->n; id++)
        if (is_special(t, id, rewritten)) FB_TRY(add(s, t, id));
    for (int32_t i = 0; i < s->n; i++) { /* the texts stand where they stay now */
        fb_span *text = &s->list[i].text;

        text->bytes = fb_text_string(&s->texts) + at;
        at += text->n;
        if (text->n > 0) s->begins[(unsigned char)text->bytes[0]] = true;
    }
    qsort(s->list, (size_t)s->n, sizeof *s->list, compare_specials);
    return FB_OK;
}

void fb_specials_clear(fb_specials *s)
{
    fb_free(s->list);
    fb_text_clear(&s->texts);
    *s = (fb_specials){0};
}

/* --- finding -------------------------------------------------------------------- */

/* The first of `low` to `high`, which are equal up to byte `d`, that has `wanted` or
 * more there. A text that ends before it has less. */
static int32_t first_with(const fb_specials *s, int32_t low, int32_t high, size_t d,
                          int wanted)
{
    while (low < high) {
        const int32_t half = low + (high - low) / 2;
        const fb_span text = s->list[half].text;

        if (text.n <= d || (unsigned char)text.bytes[d] < wanted)
            low = half + 1;
        else
            high = half;
    }
    return low;
}

const fb_special *fb_specials_find(const fb_specials *s, fb_span text,
                                   size_t n_template)
{
    const fb_special *found = NULL;
    int32_t low = 0, high = s->n;

    if (text.n == 0 || !s->begins[(unsigned char)text.bytes[0]]) return NULL;
    for (size_t d = 0; d < text.n && low < high; d++) {
        const unsigned char c = (unsigned char)text.bytes[d];

        low = first_with(s, low, high, d, c);
        high = first_with(s, low, high, d, c + 1);
        if (low < high && s->list[low].text.n == d + 1 &&
            (s->list[low].in_data || d + 1 <= n_template))
            found = &s->list[low];
    }
    return found;
}

/* --- white space ---------------------------------------------------------------- */

/* Bytes of the white space character at the start of a text; 0: it is none. What counts
 * is Unicode's White_Space. */
static size_t space_at(const char *bytes, size_t n)
{
    utf8proc_int32_t c;
    const utf8proc_ssize_t length =
        utf8proc_iterate((const utf8proc_uint8_t *)bytes, (utf8proc_ssize_t)n, &c);

    if (length <= 0) return 0;
    if ((c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 ||
        c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
        c == 0x202f || c == 0x205f || c == 0x3000)
        return (size_t)length;
    return 0;
}

size_t fb_space_after(fb_span text)
{
    size_t n = 0, step;

    while (n < text.n && (step = space_at(text.bytes + n, text.n - n)) > 0)
        n += step;
    return n;
}

size_t fb_space_before(fb_span text)
{
    size_t n = 0;

    for (size_t back = 1; back <= 3 && n + back <= text.n; back++)
        if (space_at(text.bytes + text.n - n - back, back) == back) {
            n += back;
            back = 0;
        }
    return n;
}
