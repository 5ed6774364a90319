/* tokens_json.c - tokenizer.json of Hugging Face's `tokenizers`: BPE.
 *
 * Vocabulary and merges, which are large, are walked over in place; the other parts are
 * parsed. Format: the serialisation code of `tokenizers` 0.22.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/tokens_json.h"

#include "base/json_scan.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_PART = 1 << 20 };

/* --- parts ---------------------------------------------------------------------- */

/* Members by name, as they stand in the text. */
typedef struct part {
    const char *name;
    fb_span raw; /* empty: missing */
} part;

/* Members that are not asked for are stepped over. */
static fb_status find_parts(fb_span object, part *parts, int n)
{
    fb_json_scan s;
    fb_span key;

    fb_json_scan_again(&s, object);
    fb_json_scan_enter(&s, '{');
    while (fb_json_scan_member(&s, &key)) {
        const fb_span raw = fb_json_scan_raw(&s);

        for (int p = 0; p < n; p++) {
            if (!fb_span_is(key, parts[p].name)) continue;
            if (parts[p].raw.n > 0)
                return fb_fail(FB_FORMAT, "'%s' is there twice", parts[p].name);
            parts[p].raw = raw;
        }
    }
    fb_json_scan_finish(&s);
    return fb_json_scan_status(&s);
}

static bool is_missing(fb_span raw)
{
    return raw.n == 0 || fb_span_is(raw, "null");
}

/* An object of limited size; NULL if it is missing or null. */
static fb_status parse(const part *p, fb_json **out)
{
    fb_status status;

    *out = NULL;
    if (is_missing(p->raw)) return FB_OK;
    if (p->raw.n > MOST_PART)
        return fb_fail(FB_UNSUPPORTED, "'%s' has %zu bytes; at most %d are read",
                       p->name, p->raw.n, MOST_PART);
    if (p->raw.bytes[0] != '{') return fb_fail(FB_FORMAT, "'%s' is no object", p->name);
    status = fb_json_parse(out, p->raw.bytes, p->raw.n);
    return fb_context(status, "'%s'", p->name);
}

fb_status fb_tokens_want_bool(const fb_json *object, const char *key, bool otherwise,
                              bool *out)
{
    const fb_json *value = fb_json_get(object, key);

    *out = otherwise;
    if (value == NULL || fb_json_is_null(value) || fb_json_bool(value, out))
        return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is %s; true or false would be right", key,
                   fb_json_type(value));
}

/* --- vocabulary ----------------------------------------------------------------- */

static fb_status put_token(fb_tokens *t, fb_span text, int64_t id)
{
    if (id < 0 || id >= t->n)
        return fb_fail(FB_FORMAT,
                       "token '%s' has the id %" PRId64
                       ", but the embedding has %" PRId32 " rows",
                       fb_span_show(text).text, id, t->n);
    if (t->token[id].kind != FB_TOKEN_UNUSED)
        return fb_fail(FB_FORMAT, "two tokens have the id %" PRId64, id);
    t->token[id].text = text;
    t->token[id].kind = FB_TOKEN_NORMAL;
    return FB_OK;
}

static fb_status read_vocabulary(fb_tokens *t, fb_span raw)
{
    fb_json_scan s;
    fb_span text;

    fb_json_scan_again(&s, raw);
    fb_json_scan_enter(&s, '{');
    while (fb_json_scan_member(&s, &text)) {
        const int64_t id = fb_json_scan_int(&s);

        FB_TRY(fb_json_scan_status(&s));
        FB_TRY(put_token(t, text, id));
    }
    return fb_json_scan_status(&s);
}

/* --- merges --------------------------------------------------------------------- */

/* "left right"; older files write merges so. */
static bool split_merge(fb_span text, fb_token_pair *out)
{
    const char *space = memchr(text.bytes, ' ', text.n);
    size_t n;

    if (space == NULL) return false;
    n = (size_t)(space - text.bytes);
    *out = (fb_token_pair){{text.bytes, n}, {space + 1, text.n - n - 1}};
    return memchr(out->right.bytes, ' ', out->right.n) == NULL;
}

/* ["left", "right"] */
static bool take_pair(fb_json_scan *s, fb_token_pair *out)
{
    fb_json_scan_enter(s, '[');
    if (!fb_json_scan_element(s)) return false;
    out->left = fb_json_scan_string(s);
    if (!fb_json_scan_element(s)) return false;
    out->right = fb_json_scan_string(s);
    return !fb_json_scan_element(s);
}

static fb_status take_merge(fb_tokens *t, fb_json_scan *s)
{
    fb_token_pair *to = &t->merge[t->n_merges];
    const bool is_pair = fb_json_scan_peek(s) == '[';
    const bool is_good =
        is_pair ? take_pair(s, to) : split_merge(fb_json_scan_string(s), to);

    FB_TRY(fb_json_scan_status(s));
    if (!is_good)
        return fb_fail(FB_FORMAT,
                       "merge %" PRId32 " is no pair of tokens: 'a b' or ['a', 'b']",
                       t->n_merges);
    t->n_merges++;
    return FB_OK;
}

static int64_t count_elements(fb_span raw)
{
    fb_json_scan s;
    int64_t n = 0;

    fb_json_scan_again(&s, raw);
    fb_json_scan_enter(&s, '[');
    while (fb_json_scan_element(&s)) {
        (void)fb_json_scan_raw(&s);
        n++;
    }
    return n;
}

static fb_status read_merges(fb_tokens *t, fb_span raw)
{
    const int64_t n = count_elements(raw);
    fb_json_scan s;

    if (n > FB_MOST_MERGES)
        return fb_fail(FB_FORMAT, "%" PRId64 " merges; at most %d are read", n,
                       FB_MOST_MERGES);
    t->merge = fb_alloc(FB_ACCOUNT_other, (size_t)n * sizeof *t->merge);
    if (t->merge == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the merges");
    fb_json_scan_again(&s, raw);
    fb_json_scan_enter(&s, '[');
    while (t->n_merges < n && fb_json_scan_element(&s))
        FB_TRY(take_merge(t, &s));
    return fb_json_scan_status(&s);
}

/* --- the model ------------------------------------------------------------------ */

enum {
    TYPE,
    VOCABULARY,
    MERGES,
    BYTES,
    FUSES,
    WHOLE,
    UNKNOWN,
    DROPOUT,
    PREFIX,
    SUFFIX,
    N_MODEL
};

/* What would make other tokens than the code does, unless it is null, 0 or "". */
static fb_status refuse_others(const part *parts)
{
    for (int p = DROPOUT; p <= SUFFIX; p++) {
        const fb_span raw = parts[p].raw;

        if (is_missing(raw) || fb_span_is(raw, "\"\"") || fb_span_is(raw, "0.0") ||
            fb_span_is(raw, "0"))
            continue;
        return fb_fail(FB_UNSUPPORTED, "'%s' is %s; null is understood", parts[p].name,
                       fb_span_show(raw).text);
    }
    return FB_OK;
}

static fb_status flag(const part *p, bool *out)
{
    *out = fb_span_is(p->raw, "true");
    if (*out || is_missing(p->raw) || fb_span_is(p->raw, "false")) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is %s; true or false would be right", p->name,
                   fb_span_show(p->raw).text);
}

/* A string; an empty span if it is missing or null. */
static fb_status string(const part *p, fb_span *out)
{
    fb_json_scan s;

    *out = (fb_span){"", 0};
    if (is_missing(p->raw)) return FB_OK;
    fb_json_scan_again(&s, p->raw);
    *out = fb_json_scan_string(&s);
    return fb_context(fb_json_scan_status(&s), "'%s'", p->name);
}

static fb_status check_type(const part *p)
{
    fb_span type;

    FB_TRY(string(p, &type));
    if (type.n == 0 || fb_span_is(type, "BPE")) return FB_OK; /* older: none */
    return fb_fail(FB_UNSUPPORTED, "the model is '%s'; 'BPE' is understood",
                   fb_span_show(type).text);
}

static fb_status find_unknown(fb_tokens *t, const part *p)
{
    fb_span text;

    FB_TRY(string(p, &text));
    if (text.n == 0) return FB_OK;
    for (int32_t id = 0; id < t->n && t->unknown < 0; id++)
        if (fb_span_compare(t->token[id].text, text) == 0) t->unknown = id;
    if (t->unknown >= 0) return FB_OK;
    return fb_fail(FB_FORMAT, "the unknown token '%s' is not in the vocabulary",
                   fb_span_show(text).text);
}

static bool is_byte(fb_span text)
{
    return fb_token_byte(text) >= 0;
}

static fb_status read_model(fb_tokens *t, fb_span model)
{
    part parts[N_MODEL] = {
        [TYPE] = {"type", {0}},
        [VOCABULARY] = {"vocab", {0}},
        [MERGES] = {"merges", {0}},
        [BYTES] = {"byte_fallback", {0}},
        [FUSES] = {"fuse_unk", {0}},
        [WHOLE] = {"ignore_merges", {0}},
        [UNKNOWN] = {"unk_token", {0}},
        [DROPOUT] = {"dropout", {0}},
        [PREFIX] = {"continuing_subword_prefix", {0}},
        [SUFFIX] = {"end_of_word_suffix", {0}},
    };

    FB_TRY(find_parts(model, parts, N_MODEL));
    FB_TRY(check_type(&parts[TYPE]));
    FB_TRY(refuse_others(parts));
    if (parts[VOCABULARY].raw.n == 0 || parts[MERGES].raw.n == 0)
        return fb_fail(FB_FORMAT, "'vocab' or 'merges' is missing");
    FB_TRY(flag(&parts[BYTES], &t->falls_to_bytes));
    FB_TRY(flag(&parts[FUSES], &t->fuses_unknown));
    FB_TRY(flag(&parts[WHOLE], &t->whole_words));
    FB_TRY(read_vocabulary(t, parts[VOCABULARY].raw));
    FB_TRY(read_merges(t, parts[MERGES].raw));
    for (int32_t id = 0; t->falls_to_bytes && id < t->n; id++)
        if (is_byte(t->token[id].text)) t->token[id].kind = FB_TOKEN_BYTE;
    return find_unknown(t, &parts[UNKNOWN]);
}

/* --- added tokens --------------------------------------------------------------- */

static fb_status read_added(fb_tokens *t, fb_span raw)
{
    fb_json_scan s;

    if (is_missing(raw)) return FB_OK;
    fb_json_scan_again(&s, raw);
    fb_json_scan_enter(&s, '[');
    while (fb_json_scan_element(&s)) {
        const fb_span element = fb_json_scan_raw(&s);

        FB_TRY(fb_json_scan_status(&s));
        FB_TRY(fb_context(fb_tokens_add_token(t, element, -1), "'added_tokens'"));
    }
    return fb_json_scan_status(&s);
}

/* --- the whole ------------------------------------------------------------------ */

enum { ADDED, NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, MODEL, N_PARTS };

/* A part that is needed no longer than the step takes. */
static fb_status apply(fb_tokens *t, const part *p,
                       fb_status step(fb_tokens *, const fb_json *))
{
    fb_json *json;
    fb_status status = parse(p, &json);

    if (status == FB_OK) status = fb_context(step(t, json), "'%s'", p->name);
    fb_json_free(json);
    return status;
}

static bool writes_marks(const fb_rewriting *r)
{
    for (int s = 0; s < r->n; s++)
        if (r->step[s].kind == FB_REWRITE_REPLACE && r->step[s].n_from == 1 &&
            r->step[s].from[0] == ' ')
            return true;
    return false;
}

/* Tokens are kept with spaces for U+2581: a text must come to them so. */
static fb_status check_marks(const fb_tokens *t)
{
    if (t->spelling == FB_SPELT_IN_BYTES || writes_marks(&t->before) ||
        writes_marks(&t->after))
        return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "neither 'ByteLevel' nor a step that writes U+2581 for "
                   "a space: what that makes of spaces is not understood");
}

static fb_status read_parts(fb_tokens *t, fb_span text)
{
    part parts[N_PARTS] = {
        [ADDED] = {"added_tokens", {0}},
        [NORMALIZER] = {"normalizer", {0}},
        [PRE_TOKENIZER] = {"pre_tokenizer", {0}},
        [POST_PROCESSOR] = {"post_processor", {0}},
        [DECODER] = {"decoder", {0}},
        [MODEL] = {"model", {0}},
    };
    const part *pre = &parts[PRE_TOKENIZER];

    FB_TRY(find_parts(text, parts, N_PARTS));
    if (parts[MODEL].raw.n == 0) return fb_fail(FB_FORMAT, "'model' is missing");
    FB_TRY(fb_context(read_model(t, parts[MODEL].raw), "'model'"));
    FB_TRY(apply(t, &parts[NORMALIZER], fb_tokens_add_normalizer));
    FB_TRY(parse(pre, &t->json)); /* patterns are lent */
    FB_TRY(fb_context(fb_tokens_add_pre_tokenizer(t, t->json), "'%s'", pre->name));
    FB_TRY(check_marks(t));
    FB_TRY(apply(t, &parts[DECODER], fb_tokens_set_decoder));
    FB_TRY(read_added(t, parts[ADDED].raw));
    return apply(t, &parts[POST_PROCESSOR], fb_tokens_set_post_processor);
}

fb_status fb_tokens_read_json(fb_tokens *t, char *text, size_t n, int64_t rows)
{
    *t = (fb_tokens){.unknown = -1, .bos = -1, .file = text, .name = "tokenizer.json"};
    FB_TRY(fb_tokens_allocate(t, rows));
    return read_parts(t, (fb_span){text, n});
}
