/* tokens_steps.c - the steps of tokenizer.json: normalizer, pre_tokenizer, decoder and
 * post_processor.
 *
 * What a step does: the documentation and the source of Hugging Face's `tokenizers`
 * 0.22.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/tokens_json.h"

#include <string.h>

static const fb_span none = {"", 0}, space = {" ", 1}, mark = {FB_SPACE_MARK, 3};

/* ByteLevel's own expression, GPT-2's. */
static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?"
                           "[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static bool is_missing(const fb_json *value)
{
    return value == NULL || fb_json_is_null(value);
}

static fb_status type_of(const fb_json *step, const char **out)
{
    return fb_json_want_string(out, step, "type");
}

static fb_status unknown(const char *type, const char *known)
{
    return fb_fail(FB_UNSUPPORTED, "'%s' is not understood; %s are",
                   fb_span_show(fb_span_of(type)).text, known);
}

/* Each element of a Sequence, through the function for one. */
static fb_status each(fb_tokens *t, const fb_json *step, const char *key,
                      fb_status one(fb_tokens *, const fb_json *, const char *))
{
    fb_json *list;

    FB_TRY(fb_json_want_array(&list, step, key));
    for (size_t i = 0; i < fb_json_count(list); i++) {
        const char *type;

        FB_TRY(type_of(fb_json_at(list, i), &type));
        FB_TRY(one(t, fb_json_at(list, i), type));
    }
    return FB_OK;
}

/* A string under `key`, or under "String" of an object there; NULL: something else. */
static const char *plain_pattern(const fb_json *step)
{
    const fb_json *pattern = fb_json_get(step, "pattern");
    const char *text = fb_json_string(pattern);

    return text != NULL ? text : fb_json_string(fb_json_get(pattern, "String"));
}

static const char *string_of(const fb_json *step, const char *key)
{
    const char *text = fb_json_string(fb_json_get(step, key));

    return text == NULL ? "" : text;
}

/* --- normalizer ----------------------------------------------------------------- */

static fb_status add_replace(fb_tokens *t, const fb_json *step)
{
    const char *from = plain_pattern(step), *to;

    FB_TRY(fb_json_want_string(&to, step, "content"));
    if (from == NULL || from[0] == '\0')
        return fb_fail(FB_UNSUPPORTED, "the pattern of 'Replace' is no plain text");
    return fb_rewriting_add(&t->before, FB_REWRITE_REPLACE, fb_span_of(from),
                            fb_span_of(to));
}

static fb_status add_normalizer(fb_tokens *t, const fb_json *step, const char *type)
{
    const char *text;

    if (strcmp(type, "NFC") == 0)
        return fb_rewriting_add(&t->before, FB_REWRITE_NFC, none, none);
    if (strcmp(type, "NFKC") == 0)
        return fb_rewriting_add(&t->before, FB_REWRITE_NFKC, none, none);
    if (strcmp(type, "Replace") == 0) return add_replace(t, step);
    if (strcmp(type, "Prepend") != 0)
        return unknown(type, "NFC, NFKC, Prepend, Replace and one Sequence of these");
    FB_TRY(fb_json_want_string(&text, step, "prepend"));
    return fb_rewriting_add(&t->before, FB_REWRITE_PREPEND, none, fb_span_of(text));
}

fb_status fb_tokens_add_normalizer(fb_tokens *t, const fb_json *step)
{
    const char *type;

    if (is_missing(step)) return FB_OK;
    FB_TRY(type_of(step, &type));
    if (strcmp(type, "Sequence") == 0)
        return each(t, step, "normalizers", add_normalizer);
    return add_normalizer(t, step, type);
}

/* --- pre_tokenizer -------------------------------------------------------------- */

static fb_status set_behaviour(fb_cut *cut, const fb_json *step)
{
    const char *behaviour;
    bool invert;

    FB_TRY(fb_json_want_string(&behaviour, step, "behavior"));
    FB_TRY(fb_tokens_want_bool(step, "invert", false, &invert));
    if (strcmp(behaviour, "Isolated") == 0)
        cut->how = FB_CUT_APART;
    else if (strcmp(behaviour, "Removed") == 0)
        cut->how = invert ? FB_CUT_MATCHES : FB_CUT_BETWEEN;
    else if (strcmp(behaviour, "MergedWithPrevious") == 0 && !invert)
        cut->how = FB_CUT_WITH_LEFT;
    else
        return fb_fail(FB_UNSUPPORTED,
                       "a 'Split' that is '%s'%s is not understood; Isolated, Removed "
                       "and MergedWithPrevious are",
                       fb_span_show(fb_span_of(behaviour)).text,
                       invert ? " and inverted" : "");
    return FB_OK;
}

static fb_status add_split(fb_tokens *t, const fb_json *step)
{
    const char *literal = plain_pattern(step);
    const char *regex =
        fb_json_string(fb_json_get(fb_json_get(step, "pattern"), "Regex"));
    fb_cut cut = {.pattern = literal != NULL ? literal : regex,
                  .is_literal = literal != NULL};

    if (cut.pattern == NULL || cut.pattern[0] == '\0')
        return fb_fail(FB_FORMAT, "a 'Split' has no pattern");
    FB_TRY(set_behaviour(&cut, step));
    return fb_tokens_add_cut(t, cut);
}

static fb_status add_byte_level(fb_tokens *t, const fb_json *step)
{
    fb_cut cut = {0};
    bool cuts;

    FB_TRY(fb_tokens_want_bool(step, "add_prefix_space", true, &cut.adds_space));
    FB_TRY(fb_tokens_want_bool(step, "use_regex", true, &cuts));
    if (cuts) cut.pattern = gpt2;
    t->spelling = FB_SPELT_IN_BYTES;
    return cuts || cut.adds_space ? fb_tokens_add_cut(t, cut) : FB_OK;
}

static fb_status add_digits(fb_tokens *t, const fb_json *step)
{
    bool alone;

    FB_TRY(fb_tokens_want_bool(step, "individual_digits", false, &alone));
    return fb_tokens_add_cut(t, (fb_cut){.pattern = alone ? "\\p{N}" : "\\p{N}+"});
}

/* "always", "first" or "never", of a Metaspace; older files say add_prefix_space. */
static fb_status scheme_of(const fb_json *step, const char **out)
{
    bool adds;

    *out = fb_json_string(fb_json_get(step, "prepend_scheme"));
    FB_TRY(fb_tokens_want_bool(step, "add_prefix_space", true, &adds));
    if (*out == NULL) *out = adds ? "always" : "never";
    if (strcmp(*out, "always") == 0 || strcmp(*out, "first") == 0 ||
        strcmp(*out, "never") == 0)
        return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "'prepend_scheme' is '%s'; always, first and never "
                   "are understood",
                   fb_span_show(fb_span_of(*out)).text);
}

static fb_status check_mark(const fb_json *step)
{
    if (strcmp(string_of(step, "replacement"), FB_SPACE_MARK) == 0) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'replacement' of 'Metaspace' is not U+2581");
}

static fb_status add_metaspace(fb_tokens *t, const fb_json *step)
{
    const char *scheme;
    bool cuts;

    FB_TRY(check_mark(step));
    FB_TRY(scheme_of(step, &scheme));
    FB_TRY(fb_tokens_want_bool(step, "split", true, &cuts));
    if (t->n_cuts > 0)
        return fb_fail(FB_UNSUPPORTED, "a 'Metaspace' that is not the first step");
    FB_TRY(fb_rewriting_add(&t->after, FB_REWRITE_REPLACE, space, mark));
    if (strcmp(scheme, "never") != 0) {
        FB_TRY(fb_rewriting_add(&t->after, FB_REWRITE_PREPEND, none, mark));
        t->after.step[t->after.n - 1].unless_there = true;
        t->after.step[t->after.n - 1].first_only = strcmp(scheme, "first") == 0;
    }
    if (!cuts) return FB_OK;
    return fb_tokens_add_cut(
        t, (fb_cut){.pattern = FB_SPACE_MARK "[^" FB_SPACE_MARK "]*"});
}

static fb_status add_pre_tokenizer(fb_tokens *t, const fb_json *step, const char *type)
{
    if (t->spelling == FB_SPELT_IN_BYTES)
        return fb_fail(FB_UNSUPPORTED, "a '%s' behind 'ByteLevel'",
                       fb_span_show(fb_span_of(type)).text);
    if (strcmp(type, "Split") == 0) return add_split(t, step);
    if (strcmp(type, "ByteLevel") == 0) return add_byte_level(t, step);
    if (strcmp(type, "Digits") == 0) return add_digits(t, step);
    if (strcmp(type, "Metaspace") == 0) return add_metaspace(t, step);
    return unknown(type,
                   "ByteLevel, Digits, Metaspace, Split and one Sequence of these");
}

fb_status fb_tokens_add_pre_tokenizer(fb_tokens *t, const fb_json *step)
{
    const char *type;

    t->spelling = FB_SPELT_WITH_SPACES; /* until a step says otherwise */
    if (is_missing(step)) return FB_OK;
    FB_TRY(type_of(step, &type));
    if (strcmp(type, "Sequence") == 0)
        return each(t, step, "pretokenizers", add_pre_tokenizer);
    return add_pre_tokenizer(t, step, type);
}

/* --- decoder -------------------------------------------------------------------- */

/* One space at the start, or nothing. */
static fb_status set_strip(fb_tokens *t, const fb_json *step)
{
    int64_t start, stop;

    FB_TRY(fb_json_want_int(&start, step, "start"));
    FB_TRY(fb_json_want_int(&stop, step, "stop"));
    if (strcmp(string_of(step, "content"), " ") != 0 || start < 0 || start > 1 ||
        stop != 0)
        return fb_fail(FB_UNSUPPORTED, "a 'Strip' of something else than one space at "
                                       "the start");
    t->drops_space = start == 1;
    return FB_OK;
}

static fb_status add_decoder(fb_tokens *t, const fb_json *step, const char *type)
{
    const char *from = plain_pattern(step), *scheme;

    if (strcmp(type, "ByteFallback") == 0 || strcmp(type, "Fuse") == 0) return FB_OK;
    if (strcmp(type, "Strip") == 0) return set_strip(t, step);
    if (strcmp(type, "Replace") == 0 && from != NULL &&
        strcmp(from, FB_SPACE_MARK) == 0 &&
        strcmp(string_of(step, "content"), " ") == 0)
        return FB_OK;
    if (strcmp(type, "Metaspace") != 0)
        return unknown(type,
                       "ByteFallback, Fuse, Metaspace, Strip and Replace of U+2581 "
                       "by a space");
    FB_TRY(check_mark(step));
    FB_TRY(scheme_of(step, &scheme));
    t->drops_space = strcmp(scheme, "never") != 0;
    return FB_OK;
}

fb_status fb_tokens_set_decoder(fb_tokens *t, const fb_json *step)
{
    const bool in_bytes = t->spelling == FB_SPELT_IN_BYTES;
    const char *type;

    if (is_missing(step)) return fb_fail(FB_UNSUPPORTED, "it is missing");
    FB_TRY(type_of(step, &type));
    if (in_bytes && strcmp(type, "ByteLevel") == 0) return FB_OK;
    if (in_bytes || strcmp(type, "ByteLevel") == 0)
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' does not go with a pre_tokenizer that is %s 'ByteLevel'",
                       fb_span_show(fb_span_of(type)).text, in_bytes ? "a" : "no");
    if (strcmp(type, "Sequence") == 0) return each(t, step, "decoders", add_decoder);
    return add_decoder(t, step, type);
}

/* --- post_processor ------------------------------------------------------------- */

/* The id of the token that a template names. */
static fb_status set_bos(fb_tokens *t, const fb_json *step, const fb_json *token)
{
    const char *name;
    const fb_json *ids;
    int64_t id;

    FB_TRY(fb_json_want_string(&name, token, "id"));
    ids = fb_json_get(fb_json_get(fb_json_get(step, "special_tokens"), name), "ids");
    if (fb_json_count(ids) != 1 || !fb_json_int(fb_json_at(ids, 0), &id) || id < 0 ||
        id >= t->n)
        return fb_fail(FB_FORMAT, "the token '%s' of the template has no id",
                       fb_span_show(fb_span_of(name)).text);
    if (t->adds_bos)
        return fb_fail(FB_UNSUPPORTED, "a text begins with more than one token");
    t->bos = (int32_t)id;
    t->adds_bos = true;
    return FB_OK;
}

static fb_status add_template(fb_tokens *t, const fb_json *step)
{
    fb_json *single;

    FB_TRY(fb_json_want_array(&single, step, "single"));
    for (size_t i = 0; i < fb_json_count(single); i++) {
        const fb_json *piece = fb_json_at(single, i);
        const fb_json *token = fb_json_get(piece, "SpecialToken");

        if (fb_json_get(piece, "Sequence") != NULL) return FB_OK; /* the text itself */
        if (token != NULL) FB_TRY(set_bos(t, step, token));
    }
    return fb_fail(FB_FORMAT, "the template has no place for a text");
}

static fb_status add_post_processor(fb_tokens *t, const fb_json *step, const char *type)
{
    if (strcmp(type, "ByteLevel") == 0) return FB_OK; /* about offsets only */
    if (strcmp(type, "TemplateProcessing") == 0) return add_template(t, step);
    return unknown(type, "ByteLevel, TemplateProcessing and one Sequence of these");
}

fb_status fb_tokens_set_post_processor(fb_tokens *t, const fb_json *step)
{
    const char *type;

    if (is_missing(step)) return FB_OK;
    FB_TRY(type_of(step, &type));
    if (strcmp(type, "Sequence") == 0)
        return each(t, step, "processors", add_post_processor);
    return add_post_processor(t, step, type);
}
