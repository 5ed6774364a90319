/* tokens_added.c - tokens that a folder adds to a vocabulary: they stand for themselves.
 *
 * `special` ones are control tokens; the others are looked for in data too. `lstrip` and
 * `rstrip` are honoured. `normalized` is honoured for tokens that are not special; those
 * that are are looked for as they are written. `single_word` is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json_scan.h"
#include "model/tokens_json.h"

#include <inttypes.h>

enum { MOST_BYTES = 1 << 10, MOST_ELEMENT = 1 << 14 };

typedef struct flags {
    bool special, single_word, lstrip, rstrip, normalized;
} flags;

static fb_status read_flags(const fb_json *object, flags *out)
{
    FB_TRY(fb_tokens_want_bool(object, "special", false, &out->special));
    FB_TRY(fb_tokens_want_bool(object, "single_word", false, &out->single_word));
    FB_TRY(fb_tokens_want_bool(object, "lstrip", false, &out->lstrip));
    FB_TRY(fb_tokens_want_bool(object, "rstrip", false, &out->rstrip));
    return fb_tokens_want_bool(object, "normalized", !out->special, &out->normalized);
}

static fb_status place(fb_tokens *t, int64_t id, fb_span text, const flags *f)
{
    fb_token *token = &t->token[id];

    if (token->kind != FB_TOKEN_UNUSED && fb_span_compare(token->text, text) != 0)
        return fb_fail(FB_FORMAT,
                       "the token '%s' is added as %" PRId64 ", which is '%s' already",
                       fb_span_show(text).text, id, fb_span_show(token->text).text);
    token->kind = f->special ? FB_TOKEN_CONTROL : FB_TOKEN_USER;
    token->flags = (uint8_t)((f->lstrip ? FB_TOKEN_STRIPS_LEFT : 0) |
                             (f->rstrip ? FB_TOKEN_STRIPS_RIGHT : 0));
    if (!f->special && f->normalized) token->flags |= FB_TOKEN_NORMALIZED;
    token->text = text;
    return FB_OK;
}

static fb_status add(fb_tokens *t, int64_t id, fb_span text, const fb_json *object)
{
    flags f;

    FB_TRY(read_flags(object, &f));
    if (text.n == 0 || text.n > MOST_BYTES)
        return fb_fail(FB_FORMAT, "token %" PRId64 " has %zu bytes; 1 to %d are read",
                       id, text.n, MOST_BYTES);
    if (f.single_word)
        return fb_fail(FB_UNSUPPORTED,
                       "'single_word' of the token '%s' is true; false is understood",
                       fb_span_show(text).text);
    if (id >= t->n && f.special) return FB_OK; /* the model cannot read it */
    if (id < 0 || id >= t->n)
        return fb_fail(FB_FORMAT,
                       "the token '%s' is added as %" PRId64
                       ", but the embedding has %" PRId32 " rows",
                       fb_span_show(text).text, id, t->n);
    return place(t, id, text, &f);
}

/* The text under `content`, decoded where it stands: so it can be lent. */
static fb_status content_of(fb_span raw, fb_span *out)
{
    fb_json_scan s;
    fb_span key;

    *out = (fb_span){"", 0};
    fb_json_scan_again(&s, raw);
    fb_json_scan_enter(&s, '{');
    while (fb_json_scan_member(&s, &key))
        if (fb_span_is(key, "content"))
            *out = fb_json_scan_string(&s);
        else
            (void)fb_json_scan_raw(&s);
    return fb_json_scan_status(&s);
}

fb_status fb_tokens_add_token(fb_tokens *t, fb_span raw, int64_t id)
{
    fb_json *object;
    fb_span text;
    fb_status status = FB_OK;

    if (raw.n > MOST_ELEMENT)
        return fb_fail(FB_UNSUPPORTED, "an element of %zu bytes; at most %d are read",
                       raw.n, MOST_ELEMENT);
    FB_TRY(fb_json_parse(&object, raw.bytes, raw.n));
    if (!fb_json_is_object(object))
        status = fb_fail(FB_FORMAT, "an element is no object");
    if (status == FB_OK && id < 0) status = fb_json_want_int(&id, object, "id");
    if (status == FB_OK) status = content_of(raw, &text);
    if (status == FB_OK) status = add(t, id, text, object);
    fb_json_free(object);
    return status;
}
