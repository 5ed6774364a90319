/* rewrite.c - see rewrite.h. Normal forms are utf8proc's.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/rewrite.h"

#include "base/memory.h"

#include <string.h>
#include <utf8proc.h>

fb_status fb_rewriting_add(fb_rewriting *r, fb_rewrite_kind kind, fb_span from,
                           fb_span to)
{
    fb_rewrite step = {.kind = kind};

    if (r->n == FB_MOST_REWRITES)
        return fb_fail(FB_UNSUPPORTED, "more than %d steps change the text",
                       FB_MOST_REWRITES);
    if (from.n > FB_REWRITE_TEXT || to.n > FB_REWRITE_TEXT)
        return fb_fail(FB_UNSUPPORTED,
                       "a step changes the text by more than %d bytes at once",
                       FB_REWRITE_TEXT);
    step.n_from = (uint8_t)from.n;
    step.n_to = (uint8_t)to.n;
    memcpy(step.from, from.bytes, from.n);
    memcpy(step.to, to.bytes, to.n);
    r->step[r->n++] = step;
    return FB_OK;
}

/* The text in a normal form, to `out`. */
static fb_status compose(fb_span text, utf8proc_option_t form, fb_text *out)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text.bytes;
    const utf8proc_ssize_t n_bytes = (utf8proc_ssize_t)text.n;
    utf8proc_ssize_t n = utf8proc_decompose(bytes, n_bytes, NULL, 0, form);
    utf8proc_int32_t *room = NULL;

    if (n >= 0)
        room = fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, sizeof *room));
    if (n < 0 || room == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to compose a text");
    n = utf8proc_decompose(bytes, n_bytes, room, n, form);
    n = utf8proc_reencode(room, n, form);
    if (n >= 0) fb_text_add(out, (const char *)room, (size_t)n);
    fb_free(room);
    if (n < 0) return fb_fail(FB_DEFECT, "a text cannot be composed");
    return fb_text_status(out);
}

static bool begins_with(fb_span text, fb_span with)
{
    return text.n >= with.n && memcmp(text.bytes, with.bytes, with.n) == 0;
}

static void replace(fb_span text, const fb_rewrite *step, fb_text *out)
{
    const fb_span from = {step->from, step->n_from};

    while (text.n > 0) {
        const char *at = memmem(text.bytes, text.n, from.bytes, from.n);
        const size_t n = at == NULL ? text.n : (size_t)(at - text.bytes);

        fb_text_add(out, text.bytes, n);
        if (at == NULL) return;
        fb_text_add(out, step->to, step->n_to);
        text = (fb_span){at + from.n, text.n - n - from.n};
    }
}

static bool is_prepended(const fb_rewrite *step, fb_span text, int where)
{
    const int wanted = step->first_only ? FB_BEGINS_TEXT : FB_BEGINS_STRETCH;
    const fb_span to = {step->to, step->n_to};

    return text.n > 0 && (where & wanted) != 0 &&
           !(step->unless_there && begins_with(text, to));
}

static bool changes(const fb_rewrite *step, fb_span text, int where)
{
    if (step->kind == FB_REWRITE_PREPEND) return is_prepended(step, text, where);
    if (step->kind == FB_REWRITE_REPLACE)
        return step->n_from > 0 &&
               memmem(text.bytes, text.n, step->from, step->n_from) != NULL;
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.bytes[i] >= 0x80) return true;
    return false; /* ASCII is in every normal form */
}

static fb_status change(const fb_rewrite *step, fb_span text, fb_text *out)
{
    switch (step->kind) {
    case FB_REWRITE_NFC:
        return compose(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE, out);
    case FB_REWRITE_NFKC:
        return compose(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, out);
    case FB_REWRITE_REPLACE:
        replace(text, step, out);
        break;
    case FB_REWRITE_PREPEND:
        fb_text_add(out, step->to, step->n_to);
        fb_text_add(out, text.bytes, text.n);
        break;
    }
    return fb_text_status(out);
}

fb_status fb_rewrite_text(const fb_rewriting *r, int where, fb_text room[2],
                          fb_span *text)
{
    int turn = 0;

    for (int s = 0; s < r->n; s++) {
        fb_text *out = &room[turn];

        if (!changes(&r->step[s], *text, where)) continue;
        fb_text_clear(out);
        FB_TRY(change(&r->step[s], *text, out));
        *text = (fb_span){fb_text_string(out), out->n};
        turn = 1 - turn;
    }
    return FB_OK;
}
