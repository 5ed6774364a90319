/* model.c - opens a model and hands out its parts.
 *
 * The file is mapped only while it is being read: weights (resident ones too),
 * vocabulary and facts are copies of their own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/model.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/builtin.h"
#include "model/folder.h"
#include "model/gguf.h"
#include "model/guard.h"
#include "model/identity.h"
#include "model/model_inside.h"
#include "model/tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FORMATS = 48 };

/* The files of a model, open while it is being read: one of them. */
typedef struct files {
    const char *path;
    fb_gguf *gguf;
    fb_folder *folder;
    fb_guard guard;
} files;

/* --- facts ---------------------------------------------------------------------- */

static const fb_stored_list *tensors_of(const files *x)
{
    return x->gguf != NULL ? fb_gguf_tensors(x->gguf) : fb_folder_tensors(x->folder);
}

static fb_status copy_name(char **out, fb_span name)
{
    const fb_shown shown = fb_span_show(name);

    *out = fb_strdup(shown.text);
    return *out == NULL ? fb_fail(FB_NO_MEMORY, "no memory for a name") : FB_OK;
}

/* "SmolLM2-135M-Instruct.Q4_1" of "models/SmolLM2-135M-Instruct.Q4_1.gguf"; slashes at
 * the end of a folder do not count. */
static fb_span last_part(const char *path)
{
    static const char end[] = ".gguf";
    const size_t n_end = sizeof end - 1;
    size_t n = strlen(path), from;

    while (n > 1 && path[n - 1] == '/')
        n--;
    for (from = n; from > 0 && path[from - 1] != '/';)
        from--;
    if (n - from > n_end && memcmp(path + n - n_end, end, n_end) == 0) n -= n_end;
    return (fb_span){path + from, n - from};
}

static fb_status read_names(fb_model *m, const files *x)
{
    static const char key[] = "general.name";
    fb_span title;

    FB_TRY(copy_name(&m->name, last_part(x->path)));
    m->facts.name = m->name;
    if (x->gguf == NULL || !fb_gguf_has(x->gguf, key)) return FB_OK;
    FB_TRY(fb_gguf_string(x->gguf, key, &title));
    FB_TRY(copy_name(&m->title, title));
    if (strcmp(m->title, m->name) != 0) m->facts.title = m->title;
    return FB_OK;
}

typedef struct share {
    const fb_blocks *format;
    size_t n_bytes;
} share;

static int compare_shares(const void *a, const void *b)
{
    const share *x = a, *y = b;

    if (x->n_bytes != y->n_bytes) return x->n_bytes > y->n_bytes ? -1 : 1;
    return strcmp(x->format->name, y->format->name);
}

/* "Q4_1, Q8_0, F32" */
static fb_status read_weight_types(fb_model *m, const fb_stored_list *tensors)
{
    share shares[MOST_FORMATS] = {{0}};
    fb_text text;
    fb_status status;
    int n = 0;

    for (size_t i = 0; i < tensors->n; i++) {
        const fb_stored *t = &tensors->tensors[i];
        int s = 0;

        while (s < n && shares[s].format != t->format)
            s++;
        if (s == MOST_FORMATS) continue; /* there are fewer formats than that */
        if (s == n) shares[n++].format = t->format;
        shares[s].n_bytes += t->n_bytes;
    }
    qsort(shares, (size_t)n, sizeof *shares, compare_shares);
    fb_text_init(&text, 1 << 10);
    for (int s = 0; s < n; s++)
        fb_text_printf(&text, "%s%s", s == 0 ? "" : ", ", shares[s].format->name);
    status = fb_text_status(&text);
    m->weight_types = fb_strdup(fb_text_string(&text));
    m->facts.weight_types = m->weight_types;
    if (m->weight_types == NULL) status = fb_fail(FB_NO_MEMORY, "no memory for a name");
    fb_text_clear(&text);
    return status;
}

/* Scores count where there are no merges. */
static void hash_tokenizer(fb_model *m, const fb_gguf *g)
{
    static const char *const keys[] = {
        "tokenizer.ggml.tokens",          "tokenizer.ggml.merges",
        "tokenizer.ggml.token_type",      "tokenizer.ggml.pre",
        "tokenizer.ggml.scores",          "tokenizer.ggml.add_space_prefix",
        "tokenizer.ggml.unknown_token_id"};
    const size_t n = fb_gguf_has(g, keys[1]) ? 4 : sizeof keys / sizeof *keys;
    fb_hash hash;

    fb_hash_init(&hash);
    for (size_t k = 0; k < n; k++) {
        const fb_span value = fb_gguf_raw(g, keys[k]);

        for (int i = 0; i < 8; i++)
            fb_hash_add(&hash, &(uint8_t){(uint8_t)((uint64_t)value.n >> (8 * i))}, 1);
        fb_hash_add(&hash, value.bytes, value.n);
    }
    fb_hash_hex(&hash, m->facts.tokenizer_sha256);
}

static fb_status read_gguf_facts(fb_model *m, const files *x)
{
    const fb_map *map = fb_gguf_map(x->gguf);
    fb_settings settings = {.gguf = x->gguf};
    fb_span architecture;

    FB_TRY(fb_gguf_string(x->gguf, "general.architecture", &architecture));
    FB_TRY(fb_family_of_gguf(&settings.family, architecture));
    FB_TRY(fb_facts_read(&m->facts, &m->room, &settings, tensors_of(x)));
    m->facts.file_bytes = map->n;
    fb_identity(map, m->facts.sha256);
    hash_tokenizer(m, x->gguf);
    return FB_OK;
}

static fb_status read_folder_facts(fb_model *m, const files *x)
{
    fb_settings settings = {.config = fb_folder_config(x->folder)};
    const char *type;
    fb_status status = fb_json_want_string(&type, settings.config, "model_type");

    if (status == FB_OK) status = fb_family_of_config(&settings.family, type);
    if (status == FB_OK)
        status = fb_facts_read(&m->facts, &m->room, &settings, tensors_of(x));
    if (status != FB_OK) return fb_context(status, "config.json");
    m->facts.file_bytes = fb_folder_bytes(x->folder);
    return fb_folder_identity(x->folder, m->facts.sha256);
}

static fb_status read_facts(fb_model *m, const files *x)
{
    FB_TRY(x->gguf != NULL ? read_gguf_facts(m, x) : read_folder_facts(m, x));
    FB_TRY(read_names(m, x));
    return read_weight_types(m, tensors_of(x));
}

/* --- opening -------------------------------------------------------------------- */

static fb_status check_size(const fb_model *m)
{
    const int64_t n = fb_tokenizer_size(m->tokenizer);

    if (n == m->facts.vocabulary) return FB_OK;
    return fb_fail(FB_FORMAT,
                   "the tokenizer has %" PRId64 " %s, but 'token_embd.weight' has "
                   "%" PRId64 " %s",
                   n, fb_plural(n, "token", "tokens"), m->facts.vocabulary,
                   fb_plural(m->facts.vocabulary, "row", "rows"));
}

static fb_status read_tokenizer(fb_model *m, const files *x)
{
    fb_tokens tokens;
    fb_status status =
        x->gguf != NULL ? fb_tokens_read_gguf(&tokens, x->gguf)
                        : fb_tokens_read_folder(&tokens, x->path, m->facts.vocabulary);

    if (status == FB_OK) status = fb_tokenizer_new(&m->tokenizer, &tokens);
    if (status == FB_OK && x->folder != NULL)
        fb_tokens_hash(&tokens, m->facts.tokenizer_sha256);
    fb_tokens_clear(&tokens);
    return status == FB_OK ? check_size(m) : status;
}

/* The text of the file's chat template, if it has one. */
static fb_status read_template_text(fb_text *out, bool *is_there, const files *x)
{
    static const char key[] = "tokenizer.chat_template";
    fb_span text;

    *is_there = false;
    if (x->folder != NULL) return fb_template_read(out, is_there, x->path);
    if (!fb_gguf_has(x->gguf, key)) return FB_OK;
    FB_TRY(fb_gguf_string(x->gguf, key, &text));
    if (memchr(text.bytes, 0, text.n) != NULL)
        return fb_fail(FB_FORMAT, "'%s' holds a zero byte", key);
    *is_there = true;
    fb_text_add(out, text.bytes, text.n);
    return fb_text_status(out);
}

static fb_status read_template(fb_model *m, const files *x)
{
    fb_text text = {0};
    bool is_there;
    const fb_status status = read_template_text(&text, &is_there, x);

    if (status == FB_OK)
        fb_template_find(&m->chat_template, is_there ? fb_text_string(&text) : NULL);
    fb_text_clear(&text);
    return status;
}

static fb_status open_files(files *x, const char *path)
{
    fb_span bytes;

    *x = (files){.path = path};
    if (fb_is_builtin(path)) {
        FB_TRY(fb_builtin_find(&bytes, path));
        return fb_gguf_open_bytes(&x->gguf, (const uint8_t *)bytes.bytes, bytes.n);
    }
    if (fb_is_folder(path)) return fb_folder_open(&x->folder, path, &x->guard);
    FB_TRY(fb_guard_add(&x->guard, path));
    return fb_gguf_open(&x->gguf, path);
}

static fb_status read_all(fb_model *m, const files *x)
{
    const fb_naming naming = x->gguf != NULL ? FB_NAMED_GGUF : FB_NAMED_HF;

    FB_TRY(read_facts(m, x));
    FB_TRY(read_tokenizer(m, x));
    FB_TRY(read_template(m, x));
    FB_TRY(fb_weights_load(&m->weights, m->ops, tensors_of(x), naming, &m->facts,
                           m->options.weights));
    m->facts.weight_bytes = m->weights.bytes;
    return FB_OK;
}

fb_status fb_model_open(fb_model **out, fb_ops *ops, const char *path,
                        const fb_model_options *options)
{
    fb_model *m = fb_zalloc(FB_ACCOUNT_other, sizeof *m);
    fb_status status;
    files x;

    *out = NULL;
    if (m == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    m->ops = ops;
    if (options != NULL) m->options = *options;
    status = open_files(&x, path);
    if (status == FB_OK) status = read_all(m, &x);
    if (status == FB_OK) status = fb_guard_check(&x.guard);
    fb_gguf_close(x.gguf);
    fb_folder_close(x.folder);
    fb_guard_clear(&x.guard);
    if (status == FB_OK) {
        *out = m;
        return FB_OK;
    }
    fb_model_close(m);
    return fb_context(status, "model '%s'", path);
}

void fb_model_close(fb_model *m)
{
    if (m == NULL) return;
    fb_weights_unload(&m->weights, m->ops);
    if (m->like == NULL) fb_tokenizer_free(m->tokenizer);
    fb_facts_clear(&m->room);
    fb_free(m->name);
    fb_free(m->title);
    fb_free(m->weight_types);
    fb_free(m);
}

/* --- parts ---------------------------------------------------------------------- */

const fb_model_facts *fb_model_get_facts(const fb_model *m)
{
    return &m->facts;
}

const fb_tokenizer *fb_model_tokenizer(const fb_model *m)
{
    return m->tokenizer;
}

const fb_template *fb_model_template(const fb_model *m)
{
    return &m->chat_template;
}

fb_weight_form fb_model_weight_form(const fb_model *m)
{
    return m->options.weights;
}

const fb_layer *fb_model_layer(const fb_model *m, int64_t layer)
{
    return &m->weights.layers[layer];
}

fb_tensor fb_model_embedding(const fb_model *m)
{
    return m->weights.embedding;
}

fb_tensor fb_model_norm(const fb_model *m)
{
    return m->weights.norm;
}

fb_tensor fb_model_head(const fb_model *m)
{
    return m->weights.head;
}

fb_status fb_model_rope(const fb_model *m, fb_ops *ops, int rope, int64_t length,
                        const int64_t *position, int64_t n, fb_tensor *cosine_out,
                        fb_tensor *sine_out)
{
    return fb_rope_tables(ops, &m->facts.rope[rope], m->facts.rotary_dim / 2, length,
                          position, n, cosine_out, sine_out);
}

/* --- finding -------------------------------------------------------------------- */

/* The folder of models that are named without a path. */
static void add_folder(fb_text *path)
{
    const char *models = getenv("FLEXBUDGET_MODELS");

    if (models != NULL && models[0] != '\0')
        fb_text_puts(path, models);
    else
        fb_cache_folder(path, "models");
}

fb_status fb_model_find(char **out, const char *name)
{
    const char *found = NULL;
    fb_text path;
    fb_status status;

    *out = NULL;
    fb_text_init(&path, 1 << 16);
    add_folder(&path);
    fb_text_printf(&path, "/%s", name);
    status = fb_text_status(&path);
    if (status != FB_OK) goto done;
    if (fb_is_builtin(name) || access(name, R_OK) == 0)
        found = name;
    else if (errno != ENOENT) {
        status =
            fb_fail(FB_NOT_FOUND, "model '%s': cannot open: %s", name, strerror(errno));
        goto done;
    } else if (access(fb_text_string(&path), F_OK) == 0)
        found = fb_text_string(&path);
    if (found == NULL) {
        status = fb_fail(FB_NOT_FOUND,
                         "no model '%s': neither that file nor '%s' is there\n"
                         "help: a path, 'builtin', or FLEXBUDGET_MODELS=FOLDER for "
                         "names (after 'make demo': build/models)",
                         name, fb_text_string(&path));
        goto done;
    }
    *out = fb_strdup(found);
    if (*out == NULL) status = fb_fail(FB_NO_MEMORY, "no memory for a path");
done:
    fb_text_clear(&path);
    return status;
}
