/* facts.c - the numbers that describe a model, from its settings.
 *
 * Keys of GGUF: github.com/ggml-org/ggml, docs/gguf.md. A key that asks for a computation
 * which the engine does not do is refused unless it holds the value that changes nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/facts.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/facts_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_LAYERS = 512,
    MOST_HEADS = 1024,
    MOST_HEAD_DIM = 1024,
    MOST_WIDTH = 1 << 17,
    MOST_FFN = 1 << 20,
};

static fb_status read_heads(fb_model_facts *f, const fb_settings *s)
{
    FB_TRY(fb_settings_int(s, FB_FIELD_heads, 1, MOST_HEADS, &f->heads));
    f->kv_heads = f->heads;
    FB_TRY(fb_settings_int_or(s, FB_FIELD_kv_heads, 1, f->heads, &f->kv_heads));
    if (f->kv_heads > FB_MAX_KV_HEADS)
        return fb_fail(FB_UNSUPPORTED, "%" PRId64 " kv heads; %d is the most",
                       f->kv_heads, FB_MAX_KV_HEADS);
    if (f->heads % f->kv_heads == 0) return FB_OK;
    return fb_fail(FB_FORMAT,
                   "'%s' is %" PRId64 ", which does not divide the %" PRId64 " %s",
                   fb_settings_key(s, FB_FIELD_kv_heads).text, f->kv_heads, f->heads,
                   fb_plural(f->heads, "head", "heads"));
}

/* Values are as wide as keys. */
static fb_status check_value_dim(const fb_model_facts *f, const fb_settings *s)
{
    int64_t value = f->head_dim;

    FB_TRY(fb_settings_int_or(s, FB_FIELD_value_dim, 1, INT32_MAX, &value));
    if (value == f->head_dim) return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "'%s' is %" PRId64 "; only the head size, %" PRId64
                   ", is understood",
                   fb_settings_key(s, FB_FIELD_value_dim).text, value, f->head_dim);
}

static fb_status read_head_dim(fb_model_facts *f, const fb_settings *s)
{
    const fb_field_key key = fb_settings_key(s, FB_FIELD_head_dim);

    if (!fb_settings_has(s, FB_FIELD_head_dim) && f->width % f->heads != 0)
        return fb_fail(FB_FORMAT,
                       "'%s' is missing and the width %" PRId64
                       " is not a multiple of the %" PRId64 " heads",
                       key.text, f->width, f->heads);
    f->head_dim = f->width / f->heads;
    FB_TRY(fb_settings_int_or(s, FB_FIELD_head_dim, 2, MOST_HEAD_DIM, &f->head_dim));
    if (f->head_dim < 2 || f->head_dim % 2 != 0 || f->head_dim > MOST_HEAD_DIM)
        return fb_fail(FB_FORMAT,
                       "heads of size %" PRId64 "; an even number up to %d would be "
                       "right, from '%s' or width by heads",
                       f->head_dim, MOST_HEAD_DIM, key.text);
    return check_value_dim(f, s);
}

/* The first columns of a head are rotated: all, unless a part is named. */
static fb_status read_rotary_dim(fb_model_facts *f, const fb_settings *s)
{
    double part = 1;

    f->rotary_dim = f->head_dim;
    FB_TRY(fb_settings_int_or(s, FB_FIELD_rotary_dim, 1, INT32_MAX, &f->rotary_dim));
    if (s->config != NULL) FB_TRY(fb_facts_read_rotary_part(&part, s));
    if (part != 1) f->rotary_dim = (int64_t)((double)f->head_dim * part);
    if (f->rotary_dim >= 2 && f->rotary_dim <= f->head_dim && f->rotary_dim % 2 == 0)
        return FB_OK;
    return fb_fail(FB_FORMAT,
                   "%" PRId64 " of the %" PRId64
                   " columns of a head are to be rotated; an even number of them "
                   "would be right",
                   f->rotary_dim, f->head_dim);
}

/* The number under a key of GGUF, if it is there, is the one that asks for nothing. */
static fb_status want_neutral(const fb_settings *s, const char *name, double neutral)
{
    char key[96];
    double value;

    (void)snprintf(key, sizeof key, "%s.%s", s->family->gguf, name);
    if (!fb_gguf_has(s->gguf, key)) return FB_OK;
    FB_TRY(fb_gguf_real(s->gguf, key, &value));
    if (value == neutral) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'%s' is %g; only %g is understood", key, value,
                   neutral);
}

/* Every token sees those before it, and no other. */
static fb_status want_causal(const fb_settings *s)
{
    char key[96];
    bool is_causal;

    (void)snprintf(key, sizeof key, "%s.attention.causal", s->family->gguf);
    if (!fb_gguf_has(s->gguf, key)) return FB_OK;
    FB_TRY(fb_gguf_bool(s->gguf, key, &is_causal));
    if (is_causal) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'%s' is false; only true is understood", key);
}

/* Keys of GGUF for a computation that is not done here, and the value that asks for
 * none. */
static fb_status refuse_gguf_extras(const fb_settings *s)
{
    static const char *const extra[] = {"expert_count",
                                        "attention.clamp_kqv",
                                        "attention.max_alibi_bias",
                                        "attention.scale",
                                        "attention.output_scale",
                                        "attention.temperature_length",
                                        "attention.temperature_scale",
                                        "attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "logit_scale",
                                        "embedding_scale",
                                        "residual_scale",
                                        "rope.scaling.alpha"};

    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
        FB_TRY(want_neutral(s, extra[i], 0));
    /* Every which layer is global: the family says so already. */
    FB_TRY(
        want_neutral(s, "attention.sliding_window_pattern", s->family->global_every));
    return want_causal(s);
}

static fb_status check_activation(const fb_settings *s, const char *key)
{
    const char *wanted = s->family->gate == FB_GATE_GELU ? "gelu_pytorch_tanh" : "silu";
    const fb_json *value = fb_json_get(s->config, key);
    const char *name = fb_json_string(value);

    if (value == NULL || fb_json_is_null(value)) return FB_OK;
    if (name != NULL && strcmp(name, wanted) == 0) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'%s' is '%s'; '%s' is understood with '%s'", key,
                   name == NULL ? fb_json_type(value) : name, wanted, s->family->name);
}

static fb_status refuse_config_extras(const fb_settings *s)
{
    static const char *const extra[] = {"quantization_config",
                                        "attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "num_local_experts",
                                        "logit_scale",
                                        "residual_multiplier"};
    bool is_on = false;
    const fb_json *both = fb_json_get(s->config, "use_bidirectional_attention");

    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        const fb_json *value = fb_json_get(s->config, extra[i]);

        if (value != NULL && !fb_json_is_null(value))
            return fb_fail(FB_UNSUPPORTED,
                           "'%s' is %s; only null is understood, or no such key",
                           extra[i], fb_json_type(value));
    }
    if (fb_json_bool(both, &is_on) && is_on)
        return fb_fail(FB_UNSUPPORTED, "'use_bidirectional_attention' is true; only "
                                       "false is understood");
    if (s->family->gate == FB_GATE_GELU)
        return check_activation(s, "hidden_activation");
    return check_activation(s, "hidden_act");
}

/* 1 / sqrt of the head size, or of what is stated. Gemma 3 27B divides by width / heads
 * instead, which its GGUF does not say; it is known by its 62 layers, as in llama.cpp
 * (src/models/gemma3.cpp). */
static fb_status read_scales(fb_model_facts *f, const fb_settings *s)
{
    double scalar = (double)f->head_dim;

    if (s->gguf != NULL && f->family->scales_embedding && f->layers == 62)
        scalar = (double)f->width / (double)f->heads;
    FB_TRY(fb_settings_real_or(s, FB_FIELD_query_scalar, &scalar));
    f->attention_scale = 1 / __builtin_sqrt(scalar);
    f->embedding_scale =
        f->family->scales_embedding ? __builtin_sqrt((double)f->width) : 1;
    return FB_OK;
}

static fb_status read_vocabulary(fb_model_facts *f, const fb_settings *s,
                                 const fb_stored_list *tensors)
{
    const fb_field_key key = fb_settings_key(s, FB_FIELD_vocabulary);
    const char *name =
        s->config == NULL ? "token_embd.weight" : "model.embed_tokens.weight";
    const fb_stored *embedding;
    int64_t said;

    if (tensors == NULL)
        return fb_settings_int(s, FB_FIELD_vocabulary, 1, INT32_MAX, &f->vocabulary);
    embedding = fb_stored_find(tensors, name);
    if (embedding == NULL)
        return fb_fail(FB_FORMAT, "the tensor '%s' is missing", name);
    f->vocabulary = said = embedding->rows;
    FB_TRY(fb_settings_int_or(s, FB_FIELD_vocabulary, 1, INT32_MAX, &said));
    if (said == f->vocabulary) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is %" PRId64 ", but '%s' has %" PRId64 " %s",
                   key.text, said, name, f->vocabulary,
                   fb_plural(f->vocabulary, "row", "rows"));
}

fb_status fb_facts_read(fb_model_facts *f, fb_facts_room *room, const fb_settings *s,
                        const fb_stored_list *tensors)
{
    f->family = s->family;
    f->architecture = s->family->name;
    FB_TRY(fb_settings_int(s, FB_FIELD_layers, 1, MOST_LAYERS, &f->layers));
    FB_TRY(fb_settings_int(s, FB_FIELD_width, 1, MOST_WIDTH, &f->width));
    FB_TRY(fb_settings_int(s, FB_FIELD_ffn, 1, MOST_FFN, &f->ffn));
    FB_TRY(
        fb_settings_int(s, FB_FIELD_context_length, 1, INT32_MAX, &f->context_length));
    FB_TRY(read_heads(f, s));
    FB_TRY(read_head_dim(f, s));
    FB_TRY(read_rotary_dim(f, s));
    FB_TRY(fb_settings_real(s, FB_FIELD_rms_eps, &f->rms_eps));
    FB_TRY(fb_facts_read_layers(f, room, s));
    FB_TRY(fb_facts_read_rope(f, room, s, tensors));
    FB_TRY(s->config == NULL ? refuse_gguf_extras(s) : refuse_config_extras(s));
    FB_TRY(read_scales(f, s));
    f->head_is_tied = tensors == NULL && s->family->ties_head;
    FB_TRY(fb_settings_bool_or(s, FB_FIELD_tied, &f->head_is_tied));
    return read_vocabulary(f, s, tensors);
}

void fb_facts_clear(fb_facts_room *room)
{
    fb_free(room->layer);
    for (int i = 0; i < 2 * FB_N_ROPES; i++)
        fb_free(room->factors[i]);
}
