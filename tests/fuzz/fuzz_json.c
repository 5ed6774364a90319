/* fuzz_json.c - any bytes as JSON: refused with a sentence, or a tree that can be walked
 * and written again.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_value(fb_text *out, const fb_json *value);

static void write_object(fb_text *out, const fb_json *value)
{
    fb_text_puts(out, "{");
    for (void *m = fb_json_first(value); m != NULL; m = fb_json_next(value, m)) {
        if (m != fb_json_first(value)) fb_text_puts(out, ",");
        fb_json_add_string(out, fb_json_key(m));
        fb_text_puts(out, ":");
        write_value(out, fb_json_value(m));
    }
    fb_text_puts(out, "}");
}

static void write_array(fb_text *out, const fb_json *value)
{
    fb_text_puts(out, "[");
    for (size_t i = 0; i < fb_json_count(value); i++) {
        if (i > 0) fb_text_puts(out, ",");
        write_value(out, fb_json_at(value, i));
    }
    fb_text_puts(out, "]");
}

static void write_value(fb_text *out, const fb_json *value)
{
    int64_t integer;
    double real;
    bool yes;

    if (fb_json_is_object(value))
        write_object(out, value);
    else if (fb_json_is_array(value))
        write_array(out, value);
    else if (fb_json_string(value) != NULL)
        fb_json_add_string(out, fb_json_string(value));
    else if (fb_json_int(value, &integer))
        fb_text_printf(out, "%lld", (long long)integer);
    else if (fb_json_real(value, &real))
        fb_json_add_real(out, real);
    else if (fb_json_bool(value, &yes))
        fb_text_puts(out, yes ? "true" : "false");
    else
        fb_text_puts(out, "null");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fb_text once = {0}, twice = {0};
    fb_json *root;

    if (fb_json_parse(&root, (const char *)data, size) != FB_OK) {
        FB_ASSERT(root == NULL && fb_error_message()[0] != 0);
        return 0;
    }
    write_value(&once, root);
    fb_json_free(root);
    FB_ASSERT(fb_json_parse(&root, once.bytes, once.n) == FB_OK);
    write_value(&twice, root);
    fb_json_free(root);
    FB_ASSERT(strcmp(fb_text_string(&once), fb_text_string(&twice)) == 0);
    fb_text_clear(&once);
    fb_text_clear(&twice);
    return 0;
}
