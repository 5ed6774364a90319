/* facts_rope_gguf.c - rotary stretching of a GGUF file.
 *
 * It has flat keys, and tensors for factors per pair: those of Llama 3 are longrope's
 * with one length. What follows from them is as in llama.cpp (src/llama-model.cpp,
 * src/llama-context.cpp).
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/facts_rope.h"

#include <inttypes.h>

/* GGUF's names; NULL: it has none. */
static const char *const gguf_kind_names[FB_N_ROPE_KINDS] = {
    [FB_ROPE_PLAIN] = "none",
    [FB_ROPE_LINEAR] = "linear",
    [FB_ROPE_YARN] = "yarn",
    [FB_ROPE_LONGROPE] = "longrope",
};

static fb_status read_factor_tensor(const fb_model_facts *f, fb_facts_room *room,
                                    const fb_stored *t, int which)
{
    const fb_shown name = fb_span_show(t->name);
    const int64_t half = f->rotary_dim / 2;

    /* Formats of whole numbers and F64 are known by size only. */
    if (t->rows != 1 || t->columns != half || t->format->per_block != 1 ||
        t->format->unpack == NULL)
        return fb_fail(FB_FORMAT,
                       "tensor '%s' is [%" PRId64 ", %" PRId64 "] in %s; [1, %" PRId64
                       "] in F32 would be right",
                       name.text, t->rows, t->columns, t->format->name, half);
    FB_TRY(fb_rope_room(f, room, which));
    t->format->unpack(t->data, half, room->factors[which]);
    for (int64_t i = 0; i < half; i++)
        FB_TRY(fb_rope_check_factor(name.text, room->factors[which][i]));
    return FB_OK;
}

/* Factors per pair: Llama 3 has one list, longrope two. llama.cpp would stretch once
 * more by a factor beside them; no converter writes one. */
static fb_status read_tensors(fb_model_facts *f, fb_facts_room *room,
                              const fb_stored_list *tensors)
{
    const fb_stored *one = fb_stored_find(tensors, "rope_freqs.weight");
    const fb_stored *small = fb_stored_find(tensors, "rope_factors_short.weight");
    const fb_stored *large = fb_stored_find(tensors, "rope_factors_long.weight");
    fb_rope *rope = &f->rope[FB_ROPE_GLOBAL];

    if ((small == NULL) != (large == NULL))
        return fb_fail(FB_FORMAT, "the tensor 'rope_factors_%s.weight' is missing",
                       small == NULL ? "short" : "long");
    if (one == NULL && small == NULL) return FB_OK;
    if (rope->factor != 1)
        return fb_fail(FB_UNSUPPORTED,
                       "rotary positions are stretched by %g and by factors per "
                       "pair; one of the two is understood",
                       rope->factor);
    FB_TRY(read_factor_tensor(f, room, one != NULL ? one : small, FB_LIST_SHORT));
    FB_TRY(read_factor_tensor(f, room, one != NULL ? one : large, FB_LIST_LONG));
    rope->kind = FB_ROPE_LONGROPE;
    rope->short_factors = room->factors[FB_LIST_SHORT];
    rope->long_factors = room->factors[FB_LIST_LONG];
    return FB_OK;
}

/* "linear" is what a factor means where no type is named, "none" takes no factor. */
static fb_status read_gguf_type(fb_rope *rope, const fb_settings *s)
{
    const fb_field_key key = fb_settings_key(s, FB_FIELD_rope_type);
    fb_span type;

    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_linear, &rope->factor));
    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_factor, &rope->factor));
    rope->kind = rope->factor != 1 ? FB_ROPE_LINEAR : FB_ROPE_PLAIN;
    if (!fb_settings_has(s, FB_FIELD_rope_type)) return FB_OK;
    FB_TRY(fb_gguf_string(s->gguf, key.text, &type));
    FB_TRY(fb_rope_find_kind(key.text, fb_span_show(type).text, gguf_kind_names,
                             &rope->kind));
    if (rope->kind == FB_ROPE_PLAIN) rope->factor = 1;
    return FB_OK;
}

static fb_status want_neutral(const fb_settings *s, fb_field field, double neutral)
{
    const fb_field_key key = fb_settings_key(s, field);
    double value = neutral;

    if (fb_settings_has(s, field)) FB_TRY(fb_gguf_real(s->gguf, key.text, &value));
    if (value == neutral) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'%s' is %g; only %g is understood", key.text, value,
                   neutral);
}

/* yarn has a size of its own, which `attn_factor` multiplies; the other kinds have
 * none, longrope included: converters write it out. */
static fb_status read_gguf_size(fb_rope *rope, const fb_settings *s)
{
    const bool is_yarn = rope->kind == FB_ROPE_YARN;
    double by = 1;

    FB_TRY(want_neutral(s, FB_FIELD_yarn_ext, is_yarn ? 1 : 0));
    FB_TRY(want_neutral(s, FB_FIELD_yarn_size, 1));
    FB_TRY(want_neutral(s, FB_FIELD_yarn_log, 0));
    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_size, &by));
    rope->size = is_yarn ? fb_rope_size(rope) * by : by;
    return FB_OK;
}

fb_status fb_rope_read_gguf(fb_model_facts *f, fb_facts_room *room,
                            const fb_settings *s, const fb_stored_list *tensors)
{
    fb_rope *rope = &f->rope[FB_ROPE_GLOBAL];

    FB_TRY(fb_settings_int_or(s, FB_FIELD_first_length, 1, INT32_MAX,
                              &rope->first_length));
    FB_TRY(read_gguf_type(rope, s));
    FB_TRY(read_tensors(f, room, tensors));
    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_fast, &rope->fast));
    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_slow, &rope->slow));
    return read_gguf_size(rope, s);
}
