/* llama_facts.c - the numbers that describe a Llama model, from its metadata.
 *
 * Keys: github.com/ggml-org/ggml, docs/gguf.md. A key that asks for a computation which
 * the engine does not do is refused unless it holds the value that changes nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/llama.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>

enum {
    MOST_LAYERS = 512,
    MOST_HEADS = 1024,
    MOST_HEAD_DIM = 1024,
    MOST_WIDTH = 1 << 17,
    MOST_FFN = 1 << 20,
};

/* An optional whole number: `otherwise` where the key is missing. */
static fb_status int_or(const fb_gguf *g, const char *key, int64_t low, int64_t high,
                        int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return fb_gguf_has(g, key) ? fb_gguf_int(g, key, low, high, out) : FB_OK;
}

static fb_status positive(const char *key, double value)
{
    if (isfinite(value) && value > 0) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is %g; a number above 0 would be right", key,
                   value);
}

static fb_status read_heads(fb_model_facts *f, const fb_gguf *g)
{
    static const char kv[] = "llama.attention.head_count_kv";

    FB_TRY(fb_gguf_int(g, "llama.attention.head_count", 1, MOST_HEADS, &f->heads));
    FB_TRY(int_or(g, kv, 1, f->heads, f->heads, &f->kv_heads));
    if (f->heads % f->kv_heads != 0)
        return fb_fail(FB_FORMAT,
                       "'%s' is %" PRId64 ", which does not divide the %" PRId64 " %s",
                       kv, f->kv_heads, f->heads, fb_plural(f->heads, "head", "heads"));
    return FB_OK;
}

/* Must be equal to the head size, which is what the engine rotates and stores. */
static fb_status same_as_head(const fb_gguf *g, const char *key, int64_t head_dim)
{
    int64_t value;

    FB_TRY(int_or(g, key, 1, INT32_MAX, head_dim, &value));
    if (value == head_dim) return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "'%s' is %" PRId64 "; only the head size, %" PRId64
                   ", is understood",
                   key, value, head_dim);
}

static fb_status read_head_dim(fb_model_facts *f, const fb_gguf *g)
{
    static const char key[] = "llama.attention.key_length";

    if (!fb_gguf_has(g, key) && f->width % f->heads != 0)
        return fb_fail(FB_FORMAT,
                       "'%s' is missing and the width %" PRId64
                       " is not a multiple of the %" PRId64 " heads",
                       key, f->width, f->heads);
    FB_TRY(int_or(g, key, 2, MOST_HEAD_DIM, f->width / f->heads, &f->head_dim));
    if (f->head_dim < 2 || f->head_dim % 2 != 0 || f->head_dim > MOST_HEAD_DIM)
        return fb_fail(FB_FORMAT,
                       "heads of size %" PRId64 "; an even number up to %d would be "
                       "right, from '%s' or width by heads",
                       f->head_dim, MOST_HEAD_DIM, key);
    FB_TRY(same_as_head(g, "llama.attention.value_length", f->head_dim));
    return same_as_head(g, "llama.rope.dimension_count", f->head_dim);
}

static fb_status refuse_scaling(const fb_gguf *g)
{
    static const char key[] = "llama.rope.scaling.type";
    fb_span type;

    if (!fb_gguf_has(g, key)) return FB_OK;
    FB_TRY(fb_gguf_string(g, key, &type));
    if (fb_span_is(type, "none")) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'%s' is '%s'; only 'none' is understood", key,
                   fb_span_show(type).text);
}

/* Keys of a computation that is not done here, and the value that asks for none. */
static fb_status refuse_extras(const fb_gguf *g)
{
    static const struct {
        const char *key;
        double neutral;
    } extra[] = {
        {"llama.rope.scale_linear", 1},
        {"llama.rope.scaling.factor", 1},
        {"llama.expert_count", 0},
        {"llama.attention.sliding_window", 0},
        {"llama.attention.clamp_kqv", 0},
        {"llama.attention.max_alibi_bias", 0},
        {"llama.attention.scale", 0},
        {"llama.attn_logit_softcapping", 0},
        {"llama.final_logit_softcapping", 0},
        {"llama.logit_scale", 0},
        {"llama.embedding_scale", 0},
        {"llama.residual_scale", 0},
    };

    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        double value;

        if (!fb_gguf_has(g, extra[i].key)) continue;
        FB_TRY(fb_gguf_real(g, extra[i].key, &value));
        if (!(value == extra[i].neutral))
            return fb_fail(FB_UNSUPPORTED, "'%s' is %g; only %g is understood",
                           extra[i].key, value, extra[i].neutral);
    }
    return FB_OK;
}

static fb_status read_rotary(fb_model_facts *f, const fb_gguf *g)
{
    static const char base[] = "llama.rope.freq_base";

    f->rope_theta = 10000; /* the format's default */
    if (fb_gguf_has(g, base)) FB_TRY(fb_gguf_real(g, base, &f->rope_theta));
    FB_TRY(positive(base, f->rope_theta));
    return refuse_scaling(g);
}

static fb_status read_vocabulary(fb_model_facts *f, const fb_gguf *g)
{
    static const char key[] = "llama.vocab_size";
    const fb_gguf_tensor *embedding = fb_gguf_find_tensor(g, "token_embd.weight");
    int64_t said;

    if (embedding == NULL)
        return fb_fail(FB_FORMAT, "the tensor 'token_embd.weight' is missing");
    f->vocabulary = embedding->rows;
    FB_TRY(int_or(g, key, 1, INT32_MAX, f->vocabulary, &said));
    if (said == f->vocabulary) return FB_OK;
    return fb_fail(FB_FORMAT,
                   "'%s' is %" PRId64 ", but 'token_embd.weight' has %" PRId64 " %s",
                   key, said, f->vocabulary, fb_plural(f->vocabulary, "row", "rows"));
}

fb_status fb_llama_facts(fb_model_facts *f, const fb_gguf *g)
{
    static const char eps[] = "llama.attention.layer_norm_rms_epsilon";

    FB_TRY(fb_gguf_int(g, "llama.block_count", 1, MOST_LAYERS, &f->layers));
    FB_TRY(fb_gguf_int(g, "llama.embedding_length", 1, MOST_WIDTH, &f->width));
    FB_TRY(fb_gguf_int(g, "llama.feed_forward_length", 1, MOST_FFN, &f->ffn));
    FB_TRY(fb_gguf_int(g, "llama.context_length", 1, INT32_MAX, &f->context_length));
    FB_TRY(read_heads(f, g));
    FB_TRY(read_head_dim(f, g));
    FB_TRY(read_rotary(f, g));
    FB_TRY(fb_gguf_real(g, eps, &f->rms_eps));
    FB_TRY(positive(eps, f->rms_eps));
    FB_TRY(refuse_extras(g));
    return read_vocabulary(f, g);
}
