/* tokens_folder.c - the tokenizer of a folder: tokenizer.json or tokenizer.model, and
 * what the files beside it say of its marks.
 *
 * tokenizer_config.json names BOS and says whether it is added (else the post_processor
 * of tokenizer.json does), generation_config.json and config.json say what ends an
 * answer.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json_scan.h"
#include "base/memory.h"
#include "model/folder.h"
#include "model/tokens_json.h"

#include <inttypes.h>
#include <string.h>

enum {
    MOST_TOKENIZER = 64 << 20,
    MOST_MODEL = 16 << 20,
    MOST_CONFIG = 16 << 20,
    MOST_SMALL = 1 << 20,
    MOST_ELEMENT = 1 << 14
};

/* --- tokenizer_config.json ------------------------------------------------------ */

typedef struct config {
    fb_span bos, eos; /* texts; empty: not said */
    bool says_bos, adds_bos, is_legacy;
    fb_span added; /* added_tokens_decoder, as it stands in the text */
} config;

/* A string, or an object whose `content` is one. What was parsed is kept in `holder`. */
static fb_status token_text(fb_span raw, fb_json **holder, fb_span *out)
{
    fb_text list = {0};
    const fb_json *value;
    const char *text;
    fb_status status;

    if (raw.n > MOST_ELEMENT)
        return fb_fail(FB_UNSUPPORTED, "a token's name of %zu bytes", raw.n);
    fb_text_add(&list, "[", 1); /* a bare string is no document to the parser */
    fb_text_add(&list, raw.bytes, raw.n);
    fb_text_add(&list, "]", 1);
    status = fb_text_status(&list);
    if (status == FB_OK) status = fb_json_parse(holder, list.bytes, list.n);
    fb_text_clear(&list);
    FB_TRY(status);
    value = fb_json_at(*holder, 0);
    text = fb_json_string(fb_json_is_object(value) ? fb_json_get(value, "content")
                                                   : value);
    if (text != NULL) *out = fb_span_of(text);
    return FB_OK;
}

static bool is_true(fb_span raw)
{
    return fb_span_is(raw, "true");
}

static fb_status scan_config(config *c, char *text, size_t n, fb_json *holders[2])
{
    fb_json_scan s;
    fb_span key;

    *c = (config){.bos = {"", 0}, .eos = {"", 0}, .is_legacy = true, .added = {"", 0}};
    fb_json_scan_init(&s, text, n);
    fb_json_scan_enter(&s, '{');
    while (fb_json_scan_member(&s, &key)) {
        const fb_span raw = fb_json_scan_raw(&s);

        FB_TRY(fb_json_scan_status(&s));
        if (fb_span_is(key, "bos_token") && holders[0] == NULL)
            FB_TRY(token_text(raw, &holders[0], &c->bos));
        else if (fb_span_is(key, "eos_token") && holders[1] == NULL)
            FB_TRY(token_text(raw, &holders[1], &c->eos));
        else if (fb_span_is(key, "add_bos_token") && !fb_span_is(raw, "null")) {
            c->says_bos = true;
            c->adds_bos = is_true(raw);
        } else if (fb_span_is(key, "legacy") && !fb_span_is(raw, "null"))
            c->is_legacy = is_true(raw);
        else if (fb_span_is(key, "added_tokens_decoder"))
            c->added = raw;
    }
    return fb_json_scan_status(&s);
}

static fb_status set_marks(fb_tokens *t, const config *c)
{
    const int32_t eos = c->eos.n == 0 ? -1 : fb_tokens_find(t, c->eos);
    const int32_t bos = c->bos.n == 0 ? -1 : fb_tokens_find(t, c->bos);

    if (eos >= 0) FB_TRY(fb_tokens_add_end(t, eos));
    if (bos >= 0) t->bos = bos;
    if (c->says_bos) t->adds_bos = c->adds_bos;
    if (c->says_bos && c->adds_bos && t->bos < 0)
        return fb_fail(FB_FORMAT, "'add_bos_token' is true, but '%s' is no such token",
                       fb_span_show(c->bos).text);
    return FB_OK;
}

static fb_status add_token(fb_tokens *t, fb_span id_text, fb_span raw)
{
    char digits[16] = "";
    int64_t id = -1;

    if (id_text.n < sizeof digits) memcpy(digits, id_text.bytes, id_text.n);
    if (!fb_parse_int(digits, &id) || id < 0)
        return fb_fail(FB_FORMAT, "'%s' is no id", fb_span_show(id_text).text);
    /* What SentencePiece has itself it also looks for itself. */
    if (id < t->n && t->token[id].kind != FB_TOKEN_UNUSED) return FB_OK;
    return fb_tokens_add_token(t, raw, id);
}

static fb_status add_tokens(fb_tokens *t, fb_span raw)
{
    fb_json_scan s;
    fb_span key;

    if (raw.n == 0) return FB_OK;
    fb_json_scan_again(&s, raw);
    fb_json_scan_enter(&s, '{');
    while (fb_json_scan_member(&s, &key)) {
        const fb_span element = fb_json_scan_raw(&s);

        FB_TRY(fb_json_scan_status(&s));
        FB_TRY(fb_context(add_token(t, key, element), "'added_tokens_decoder'"));
    }
    return fb_json_scan_status(&s);
}

/* What SentencePiece's own file leaves to others. */
static fb_status complete_model(fb_tokens *t, const config *c, const char *folder)
{
    for (int s = 0; s < t->before.n; s++)
        t->before.step[s].first_only = !c->is_legacy;
    if (c->added.n == 0 && fb_folder_has(folder, "added_tokens.json"))
        return fb_fail(FB_UNSUPPORTED,
                       "'added_tokens.json' without 'added_tokens_decoder' is not "
                       "understood\n"
                       "help: AutoTokenizer.from_pretrained(FOLDER).save_pretrained("
                       "FOLDER) of transformers writes 'tokenizer.json'");
    return add_tokens(t, c->added);
}

/* `text` must live as long as the tokens. */
static fb_status apply_config(fb_tokens *t, const char *folder, char *text, size_t n)
{
    fb_json *holders[2] = {NULL, NULL};
    config c;
    fb_status status = scan_config(&c, text, n, holders);

    if (status == FB_OK && t->by_score) status = complete_model(t, &c, folder);
    if (status == FB_OK) status = set_marks(t, &c);
    fb_json_free(holders[0]);
    fb_json_free(holders[1]);
    return status;
}

/* --- what ends an answer -------------------------------------------------------- */

static fb_status add_ends(fb_tokens *t, const fb_json *settings)
{
    const fb_json *ends = fb_json_get(settings, "eos_token_id");
    int64_t id;

    if (ends == NULL || fb_json_is_null(ends)) return FB_OK;
    if (fb_json_int(ends, &id)) return fb_tokens_add_end(t, id);
    if (!fb_json_is_array(ends))
        return fb_fail(FB_FORMAT,
                       "'eos_token_id' is %s; an id or a list of ids would be "
                       "right",
                       fb_json_type(ends));
    for (size_t i = 0; i < fb_json_count(ends); i++) {
        if (!fb_json_int(fb_json_at(ends, i), &id))
            return fb_fail(FB_FORMAT, "'eos_token_id' holds %s",
                           fb_json_type(fb_json_at(ends, i)));
        FB_TRY(fb_tokens_add_end(t, id));
    }
    return FB_OK;
}

static fb_status read_ends(fb_tokens *t, const char *folder)
{
    static const char *const names[] = {"generation_config.json", "config.json"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fb_json *json;
        fb_status status;

        if (!fb_folder_has(folder, names[i])) continue;
        FB_TRY(fb_folder_read_json(&json, folder, names[i], MOST_SMALL));
        status = add_ends(t, json);
        fb_json_free(json);
        FB_TRY(fb_context(status, "%s", names[i]));
    }
    return fb_tokens_add_turn_ends(t);
}

/* --- the whole ------------------------------------------------------------------ */

static fb_status read_tables(fb_tokens *t, const char *folder, int64_t rows)
{
    static const char json[] = "tokenizer.json", model[] = "tokenizer.model";
    char *bytes;
    size_t n;

    if (fb_folder_has(folder, json)) {
        FB_TRY(fb_folder_read(&bytes, &n, folder, json, MOST_TOKENIZER));
        return fb_context(fb_tokens_read_json(t, bytes, n, rows), "%s", json);
    }
    if (!fb_folder_has(folder, model))
        return fb_fail(FB_NOT_FOUND, "neither '%s' nor '%s' is in the folder", json,
                       model);
    FB_TRY(fb_folder_read(&bytes, &n, folder, model, MOST_MODEL));
    return fb_context(fb_tokens_read_spm(t, bytes, n, rows), "%s", model);
}

fb_status fb_tokens_read_folder(fb_tokens *t, const char *folder, int64_t rows)
{
    static const char name[] = "tokenizer_config.json";
    static char nothing[] = "{}";
    char *text = nothing;
    size_t n = sizeof nothing - 1;

    *t = (fb_tokens){.unknown = -1, .bos = -1};
    FB_TRY(read_tables(t, folder, rows));
    if (fb_folder_has(folder, name)) {
        FB_TRY(fb_folder_read(&t->config, &n, folder, name, MOST_CONFIG));
        text = t->config;
    }
    FB_TRY(fb_context(apply_config(t, folder, text, n), "%s", name));
    return read_ends(t, folder);
}
