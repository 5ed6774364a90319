/* hollow.c - models without weights: of a config.json alone, and twins for operators that
 * have no numbers.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "model/model_inside.h"

#include <string.h>

enum { MOST_CONFIG = 16 << 20 };

/* --- a config.json --- */

/* "Llama-3" of "models/Llama-3/config.json", "llama" of "llama.json". */
static fb_span name_of(const char *path)
{
    static const char own[] = "config.json", end[] = ".json";
    size_t n = strlen(path), from;

    if (n > strlen(own) && strcmp(path + n - strlen(own), own) == 0 &&
        path[n - strlen(own) - 1] == '/')
        n -= strlen(own) + 1;
    else if (n > strlen(end) && strcmp(path + n - strlen(end), end) == 0)
        n -= strlen(end);
    for (from = n; from > 0 && path[from - 1] != '/';)
        from--;
    return (fb_span){path + from, n - from};
}

/* Bits of a number in the files that the config.json would lie beside. */
static fb_status read_bits(const fb_json *config, int *bits, const char **name)
{
    static const struct {
        const char *said, *name;
        int bits;
    } types[] = {
        {"bfloat16", "BF16", 16}, {"float16", "F16", 16}, {"float32", "F32", 32}};
    const fb_json *value = fb_json_get(config, "dtype");
    const char *said;

    if (value == NULL) value = fb_json_get(config, "torch_dtype");
    said = value == NULL || fb_json_is_null(value) ? "float32" : fb_json_string(value);
    for (size_t i = 0; said != NULL && i < sizeof types / sizeof *types; i++)
        if (strcmp(said, types[i].said) == 0) {
            *bits = types[i].bits;
            *name = types[i].name;
            return FB_OK;
        }
    return fb_fail(
        FB_UNSUPPORTED,
        "'torch_dtype' is '%s'; bfloat16, float16 and float32 are understood",
        said == NULL ? fb_json_type(value) : fb_span_show(fb_span_of(said)).text);
}

static fb_status read_config(fb_model *m, const fb_json *config)
{
    fb_settings settings = {.config = config};
    const char *type;
    int bits = 0;

    if (!fb_json_is_object(config)) return fb_fail(FB_FORMAT, "not a JSON object");
    FB_TRY(fb_json_want_string(&type, config, "model_type"));
    FB_TRY(fb_family_of_config(&settings.family, type));
    FB_TRY(fb_facts_read(&m->facts, &m->room, &settings, NULL));
    FB_TRY(read_bits(config, &bits, &m->facts.weight_types));
    FB_TRY(fb_weights_hollow(&m->weights, NULL, NULL, bits, &m->facts,
                             m->options.weights));
    m->facts.weight_bytes = m->weights.bytes;
    m->facts.file_bytes = m->weights.file_bytes;
    return FB_OK;
}

static fb_status read_file(fb_model *m, const char *path)
{
    const fb_shown name = fb_span_show(name_of(path));
    fb_json *config = NULL;
    char *text = NULL;
    size_t n;
    fb_status status;

    m->facts.name = m->name = fb_strdup(name.text);
    if (m->name == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a name");
    FB_TRY(fb_file_read(&text, &n, path, MOST_CONFIG));
    status = fb_json_parse(&config, text, n);
    if (status == FB_OK) status = read_config(m, config);
    fb_json_free(config);
    fb_free(text);
    return status;
}

fb_status fb_model_open_config(fb_model **out, const char *path,
                               const fb_model_options *options)
{
    fb_model *m = fb_zalloc(FB_ACCOUNT_other, sizeof *m);
    fb_status status;

    *out = NULL;
    if (m == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    if (options != NULL) m->options = *options;
    fb_template_find(&m->chat_template, NULL);
    status = read_file(m, path);
    if (status == FB_OK) {
        *out = m;
        return FB_OK;
    }
    fb_model_close(m);
    return fb_context(status, "model '%s'", path);
}

/* --- a twin --- */

fb_status fb_model_open_hollow(fb_model **out, fb_ops *ops, const fb_model *like)
{
    fb_model *m = fb_zalloc(FB_ACCOUNT_other, sizeof *m);
    fb_status status;

    *out = NULL;
    if (m == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    m->facts = like->facts;
    m->ops = ops;
    m->options = like->options;
    m->tokenizer = like->tokenizer;
    m->chat_template = like->chat_template;
    m->like = like;
    status = fb_weights_hollow(&m->weights, ops, &like->weights, 0, &m->facts,
                               m->options.weights);
    if (status == FB_OK) {
        *out = m;
        return FB_OK;
    }
    fb_model_close(m);
    return status;
}
