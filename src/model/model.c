/* model.c - opens a model and hands out its parts.
 *
 * The file is mapped only while it is being read: weights, vocabulary and facts are
 * copies of their own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/model.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/builtin.h"
#include "model/gguf.h"
#include "model/identity.h"
#include "model/llama.h"
#include "model/rope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FORMATS = 48 };

struct fb_model {
    fb_model_facts facts;
    char *name, *title, *weight_types;
    fb_ops *ops; /* of the weights; NULL: none loaded */
    fb_llama llama;
    fb_tokenizer *tokenizer;
    fb_template chat_template;
    float *frequency; /* [head_dim / 2] */
};

/* --- facts ---------------------------------------------------------------------- */

static fb_status refuse_other_architectures(const fb_gguf *g)
{
    static const char key[] = "general.architecture";
    fb_span architecture;

    FB_TRY(fb_gguf_string(g, key, &architecture));
    if (fb_span_is(architecture, "llama")) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'%s' is '%s'; 'llama' is understood", key,
                   fb_span_show(architecture).text);
}

static fb_status copy_name(char **out, fb_span name)
{
    const fb_shown shown = fb_span_show(name);

    *out = fb_strdup(shown.text);
    return *out == NULL ? fb_fail(FB_NO_MEMORY, "no memory for a name") : FB_OK;
}

/* "SmolLM2-135M-Instruct.Q4_1" of "models/SmolLM2-135M-Instruct.Q4_1.gguf". */
static fb_status read_names(fb_model *m, const fb_gguf *g, const char *path)
{
    static const char key[] = "general.name", end[] = ".gguf";
    const size_t n_end = sizeof end - 1;
    const char *slash = strrchr(path, '/');
    fb_span name = {slash == NULL ? path : slash + 1, 0}, title;

    name.n = strlen(name.bytes);
    if (name.n > n_end && strcmp(name.bytes + name.n - n_end, end) == 0)
        name.n -= n_end;
    FB_TRY(copy_name(&m->name, name));
    m->facts.name = m->name;
    if (!fb_gguf_has(g, key)) return FB_OK;
    FB_TRY(fb_gguf_string(g, key, &title));
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
static fb_status read_weight_types(fb_model *m, const fb_gguf *g)
{
    share shares[MOST_FORMATS] = {{0}};
    fb_text text;
    fb_status status;
    int n = 0;

    for (int64_t i = 0; i < fb_gguf_n_tensors(g); i++) {
        const fb_gguf_tensor *t = fb_gguf_tensor_at(g, i);
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

static void hash_tokenizer(fb_model *m, const fb_gguf *g)
{
    static const char *const keys[] = {
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.pre",
    };
    fb_hash hash;

    fb_hash_init(&hash);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const fb_span value = fb_gguf_raw(g, keys[k]);
        const uint64_t n = value.n;

        for (int i = 0; i < 8; i++)
            fb_hash_add(&hash, &(uint8_t){(uint8_t)(n >> (8 * i))}, 1);
        fb_hash_add(&hash, value.bytes, value.n);
    }
    fb_hash_hex(&hash, m->facts.tokenizer_sha256);
}

static fb_status read_facts(fb_model *m, const fb_gguf *g, const char *path)
{
    const fb_span bytes = fb_gguf_bytes(g);

    m->facts.architecture = "llama";
    m->facts.file_bytes = bytes.n;
    FB_TRY(refuse_other_architectures(g));
    FB_TRY(read_names(m, g, path));
    FB_TRY(read_weight_types(m, g));
    FB_TRY(fb_llama_facts(&m->facts, g));
    fb_identity(path, bytes.bytes, bytes.n, m->facts.sha256);
    hash_tokenizer(m, g);
    return FB_OK;
}

/* --- opening -------------------------------------------------------------------- */

static fb_status read_tokenizer(fb_model *m, const fb_gguf *g)
{
    FB_TRY(fb_tokenizer_new(&m->tokenizer, g));
    if (fb_tokenizer_size(m->tokenizer) == m->facts.vocabulary) return FB_OK;
    return fb_fail(FB_FORMAT,
                   "the tokenizer has %" PRId64 " %s, but 'token_embd.weight' has "
                   "%" PRId64 " %s",
                   fb_tokenizer_size(m->tokenizer),
                   fb_plural(fb_tokenizer_size(m->tokenizer), "token", "tokens"),
                   m->facts.vocabulary, fb_plural(m->facts.vocabulary, "row", "rows"));
}

static fb_status read_template(fb_model *m, const fb_gguf *g)
{
    static const char key[] = "tokenizer.chat_template";
    fb_text text;
    fb_status status;
    fb_span span;

    fb_template_find(&m->chat_template, NULL);
    if (!fb_gguf_has(g, key)) return FB_OK;
    FB_TRY(fb_gguf_string(g, key, &span));
    if (memchr(span.bytes, 0, span.n) != NULL)
        return fb_fail(FB_FORMAT, "'%s' holds a zero byte", key);
    fb_text_init(&text, 0);
    fb_text_add(&text, span.bytes, span.n);
    status = fb_text_status(&text);
    if (status == FB_OK) fb_template_find(&m->chat_template, fb_text_string(&text));
    fb_text_clear(&text);
    return status;
}

static fb_status read_frequencies(fb_model *m)
{
    const int64_t half = m->facts.head_dim / 2;

    m->frequency = fb_alloc(FB_ACCOUNT_other, (size_t)half * sizeof *m->frequency);
    if (m->frequency == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    fb_rope_frequencies(m->facts.rope_theta, half, m->frequency);
    return FB_OK;
}

static fb_status open_file(fb_gguf **out, const char *path)
{
    fb_span bytes;

    if (!fb_is_builtin(path)) return fb_gguf_open(out, path);
    FB_TRY(fb_builtin_find(&bytes, path));
    return fb_gguf_open_bytes(out, (const uint8_t *)bytes.bytes, bytes.n);
}

static fb_status read_all(fb_model *m, const fb_gguf *g, const char *path)
{
    FB_TRY(read_facts(m, g, path));
    FB_TRY(read_tokenizer(m, g));
    FB_TRY(read_template(m, g));
    FB_TRY(read_frequencies(m));
    FB_TRY(fb_llama_load(&m->llama, m->ops, g, &m->facts));
    m->facts.weight_bytes = m->llama.bytes;
    return FB_OK;
}

fb_status fb_model_open(fb_model **out, fb_ops *ops, const char *path)
{
    fb_model *m = fb_zalloc(FB_ACCOUNT_other, sizeof *m);
    fb_gguf *g = NULL;
    fb_status status;

    *out = NULL;
    if (m == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    m->ops = ops;
    status = open_file(&g, path);
    if (status == FB_OK) status = read_all(m, g, path);
    fb_gguf_close(g);
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
    fb_llama_unload(&m->llama, m->ops);
    fb_tokenizer_free(m->tokenizer);
    fb_free(m->frequency);
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

const fb_layer *fb_model_layer(const fb_model *m, int64_t layer)
{
    return &m->llama.layers[layer];
}

fb_tensor fb_model_embedding(const fb_model *m)
{
    return m->llama.embedding;
}

fb_tensor fb_model_norm(const fb_model *m)
{
    return m->llama.norm;
}

fb_tensor fb_model_head(const fb_model *m)
{
    return m->llama.head;
}

fb_status fb_model_rope(const fb_model *m, fb_ops *ops, const int64_t *position,
                        int64_t n, fb_tensor *cosine_out, fb_tensor *sine_out)
{
    return fb_rope(ops, m->frequency, m->facts.head_dim / 2, position, n, cosine_out,
                   sine_out);
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

double fb_model_attention_scale(const fb_model *m)
{
    return 1 / __builtin_sqrt((double)m->facts.head_dim);
}
