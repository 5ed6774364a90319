/* template_read.c - the chat template of a folder.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json_scan.h"
#include "base/memory.h"
#include "model/folder.h"
#include "model/template.h"

#include <string.h>

enum { MOST_TEMPLATE = 1 << 20, MOST_CONFIG = 16 << 20 };

static const char jinja[] = "chat_template.jinja", config[] = "tokenizer_config.json";

static fb_status add(fb_text *out, fb_span text)
{
    if (memchr(text.bytes, 0, text.n) != NULL)
        return fb_fail(FB_FORMAT, "the chat template holds a zero byte");
    if (text.n > MOST_TEMPLATE)
        return fb_fail(FB_UNSUPPORTED,
                       "a chat template of %zu bytes; at most %d are read", text.n,
                       MOST_TEMPLATE);
    fb_text_add(out, text.bytes, text.n);
    return fb_text_status(out);
}

/* {"name": ..., "template": ...} of a list; only the one called "default" counts. */
static fb_status add_named(fb_text *out, bool *is_there, fb_json_scan *s)
{
    fb_span key, name = {"", 0}, text = {"", 0};

    fb_json_scan_enter(s, '{');
    while (fb_json_scan_member(s, &key))
        if (fb_span_is(key, "name"))
            name = fb_json_scan_string(s);
        else if (fb_span_is(key, "template"))
            text = fb_json_scan_string(s);
        else
            (void)fb_json_scan_raw(s);
    FB_TRY(fb_json_scan_status(s));
    if (!fb_span_is(name, "default") || *is_there) return FB_OK;
    *is_there = true;
    return add(out, text);
}

static fb_status add_value(fb_text *out, bool *is_there, fb_json_scan *s)
{
    const char first = fb_json_scan_peek(s);

    if (first == 'n') { /* null */
        (void)fb_json_scan_raw(s);
        return fb_json_scan_status(s);
    }
    if (first != '[') {
        const fb_span text = fb_json_scan_string(s);

        FB_TRY(fb_json_scan_status(s));
        *is_there = true;
        return add(out, text);
    }
    fb_json_scan_enter(s, '[');
    while (fb_json_scan_element(s))
        FB_TRY(add_named(out, is_there, s));
    FB_TRY(fb_json_scan_status(s));
    if (*is_there) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "none of its chat templates is called 'default'");
}

static fb_status scan_config(fb_text *out, bool *is_there, char *text, size_t n)
{
    fb_json_scan s;
    fb_span key;

    fb_json_scan_init(&s, text, n);
    fb_json_scan_enter(&s, '{');
    while (fb_json_scan_member(&s, &key))
        if (fb_span_is(key, "chat_template") && !*is_there)
            FB_TRY(add_value(out, is_there, &s));
        else
            (void)fb_json_scan_raw(&s);
    return fb_json_scan_status(&s);
}

fb_status fb_template_read(fb_text *out, bool *is_there, const char *folder)
{
    const bool is_file = fb_folder_has(folder, jinja);
    const char *name = is_file ? jinja : config;
    fb_status status;
    char *text;
    size_t n;

    *is_there = is_file;
    if (!is_file && !fb_folder_has(folder, config)) return FB_OK;
    FB_TRY(
        fb_folder_read(&text, &n, folder, name, is_file ? MOST_TEMPLATE : MOST_CONFIG));
    status =
        is_file ? add(out, (fb_span){text, n}) : scan_config(out, is_there, text, n);
    fb_free(text);
    return fb_context(status, "%s", name);
}
