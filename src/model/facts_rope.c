/* facts_rope.c - rotary bases and how they are stretched.
 *
 * config.json states them in three ways: `rope_theta` beside `rope_scaling`; one object
 * `rope_parameters`; or one such object for each kind of layer. Which numbers each kind
 * of stretching needs, and what stands for a missing one, is as in transformers 5.2
 * (modeling_rope_utils.py, the models' configuration files).
 *
 * GGUF has flat keys, and tensors for factors per pair: those of Llama 3 are longrope's
 * with one length. What follows from them is as in llama.cpp (src/llama-model.cpp,
 * src/llama-context.cpp).
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/facts_read.h"

#include "base/memory.h"
#include "base/text.h"
#include "ops/elementary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SHORT, LONG, N_LISTS };

/* GGUF's names; NULL: it has none. */
static const char *const gguf_kind_names[FB_N_ROPE_KINDS] = {
    [FB_ROPE_PLAIN] = "none",
    [FB_ROPE_LINEAR] = "linear",
    [FB_ROPE_YARN] = "yarn",
    [FB_ROPE_LONGROPE] = "longrope",
};

static fb_status find_kind(const char *key, const char *name,
                           const char *const names[FB_N_ROPE_KINDS], fb_rope_kind *out)
{
    fb_text known;
    fb_status status;

    for (int k = 0; k < FB_N_ROPE_KINDS; k++)
        if (names[k] != NULL && strcmp(name, names[k]) == 0) {
            *out = (fb_rope_kind)k;
            return FB_OK;
        }
    fb_text_init(&known, 1 << 10);
    for (int k = 0; k < FB_N_ROPE_KINDS; k++)
        if (names[k] != NULL)
            fb_text_printf(&known, "%s'%s'", k == 0 ? "" : ", ", names[k]);
    status = fb_fail(FB_UNSUPPORTED, "'%s' is '%s'; %s are understood", key, name,
                     fb_text_string(&known));
    fb_text_clear(&known);
    return status;
}

/* --- what follows from the numbers ---------------------------------------------- */

/* By how much cosine and sine grow where nothing is stated. */
static double size_of(const fb_rope *rope)
{
    if (rope->factor <= 1) return 1;
    if (rope->kind == FB_ROPE_YARN) return 0.1 * fb_log_d(rope->factor) + 1;
    if (rope->kind == FB_ROPE_LONGROPE && rope->first_length > 1)
        return __builtin_sqrt(1 + fb_log_d(rope->factor) /
                                      fb_log_d((double)rope->first_length));
    return 1;
}

static fb_status check_angles(const fb_rope *rope, const fb_model_facts *f,
                              int64_t length)
{
    const int64_t half = f->rotary_dim / 2;
    float frequency[FB_ROPE_MOST_HALF];

    fb_rope_frequencies(rope, half, length, frequency);
    for (int64_t i = 0; i < half; i++) {
        const double angle = (double)frequency[i] * (double)f->context_length;

        if (!(angle >= 0 && angle <= FB_LARGEST_ANGLE))
            return fb_fail(FB_FORMAT,
                           "rotary pair %" PRId64 " turns by %g in a text of %" PRId64
                           " tokens; 0 to %.0f would be right",
                           i, angle, f->context_length, FB_LARGEST_ANGLE);
    }
    return FB_OK;
}

static fb_status check(const fb_rope *rope, const fb_model_facts *f)
{
    if (!(rope->theta > 1))
        return fb_fail(FB_FORMAT,
                       "a rotary base is %g; a number above 1 would be right",
                       rope->theta);
    if (rope->kind == FB_ROPE_LLAMA3 && !(rope->low < rope->high))
        return fb_fail(FB_FORMAT,
                       "'low_freq_factor' %g is not below 'high_freq_factor' %g",
                       rope->low, rope->high);
    if (rope->kind == FB_ROPE_LONGROPE && rope->short_factors == NULL)
        return fb_fail(FB_FORMAT,
                       "rotary factors per pair are missing: 'longrope' "
                       "needs %" PRId64 " short and as many long ones",
                       f->rotary_dim / 2);
    FB_TRY(check_angles(rope, f, 1));
    return check_angles(rope, f, f->context_length);
}

static fb_rope plain(double theta, int64_t length)
{
    return (fb_rope){.kind = FB_ROPE_PLAIN,
                     .theta = theta,
                     .factor = 1,
                     .first_length = length,
                     .low = 1,
                     .high = 4,
                     .fast = 32,
                     .slow = 1,
                     .rounds = true,
                     .size = 1};
}

static fb_status room_for_factors(const fb_model_facts *f, fb_facts_room *room,
                                  int which)
{
    const size_t half = (size_t)f->rotary_dim / 2;

    fb_free(room->factors[which]);
    room->factors[which] =
        fb_alloc(FB_ACCOUNT_other, half * sizeof *room->factors[which]);
    if (room->factors[which] == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for rotary factors");
    return FB_OK;
}

static fb_status check_factor(const char *name, float factor)
{
    if (isfinite(factor) && factor > 0) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' holds %g; numbers above 0 would be right", name,
                   (double)factor);
}

/* --- config.json ---------------------------------------------------------------- */

static bool is_said(const fb_json *object, const char *key)
{
    const fb_json *value = fb_json_get(object, key);

    return value != NULL && !fb_json_is_null(value);
}

static fb_status want_real(const fb_json *object, const char *key, double *out)
{
    if (is_said(object, key)) return fb_config_real_or(object, key, out);
    return fb_fail(FB_FORMAT, "'%s' is missing", key);
}

static fb_status read_factor_list(const fb_model_facts *f, fb_facts_room *room,
                                  const fb_json *object, const char *key, int which)
{
    const fb_json *list = fb_json_get(object, key);
    const int64_t half = f->rotary_dim / 2;

    if ((int64_t)fb_json_count(list) != half || !fb_json_is_array(list))
        return fb_fail(FB_FORMAT, "'%s' is no list of %" PRId64 " numbers", key, half);
    FB_TRY(room_for_factors(f, room, which));
    for (int64_t i = 0; i < half; i++) {
        double value = 0;

        (void)fb_json_real(fb_json_at(list, (size_t)i), &value);
        room->factors[which][i] = (float)value;
        FB_TRY(check_factor(key, room->factors[which][i]));
    }
    return FB_OK;
}

static fb_status read_longrope(fb_model_facts *f, fb_facts_room *room, int r,
                               const fb_json *object)
{
    const int first = r * N_LISTS;

    FB_TRY(read_factor_list(f, room, object, "short_factor", first + SHORT));
    FB_TRY(read_factor_list(f, room, object, "long_factor", first + LONG));
    f->rope[r].short_factors = room->factors[first + SHORT];
    f->rope[r].long_factors = room->factors[first + LONG];
    return FB_OK;
}

static fb_status refuse_lists(const fb_rope *rope, const fb_json *object)
{
    static const char *const lists[] = {"short_factor", "long_factor"};

    for (int i = 0; i < 2; i++)
        if (is_said(object, lists[i]))
            return fb_fail(FB_UNSUPPORTED,
                           "'%s' stands beside the rotary type '%s'; it belongs to "
                           "'longrope'",
                           lists[i], fb_rope_kind_names[rope->kind]);
    return FB_OK;
}

static fb_status read_type(fb_rope *rope, const fb_family *family,
                           const fb_json *object)
{
    const char *type = fb_json_string(fb_json_get(object, "rope_type"));

    if (type == NULL) type = fb_json_string(fb_json_get(object, "type"));
    if (type == NULL) return FB_OK;
    if (family->yarn_is_longrope &&
        (strcmp(type, "su") == 0 || strcmp(type, "yarn") == 0))
        type = "longrope";
    return find_kind("rope_type", type, fb_rope_kind_names, &rope->kind);
}

/* The trained length may stand inside the object or beside it. `dynamic` always grows
 * from the model's length; for the other kinds that is the default, but Phi-3's is
 * another, so longrope has to say it. */
static fb_status read_first_length(fb_rope *rope, const fb_json *config,
                                   const fb_json *object)
{
    static const char key[] = "original_max_position_embeddings";
    int64_t inside = 0, beside = 0;

    if (rope->kind == FB_ROPE_DYNAMIC) return FB_OK;
    FB_TRY(fb_config_int_or(object, key, 1, INT32_MAX, &inside));
    FB_TRY(fb_config_int_or(config, key, 1, INT32_MAX, &beside));
    if (inside > 0 && beside > 0 && inside != beside)
        return fb_fail(FB_FORMAT,
                       "'%s' is %" PRId64 " and, among rotary parameters, %" PRId64
                       "; one number would be right",
                       key, beside, inside);
    if (inside > 0 || beside > 0)
        rope->first_length = inside > 0 ? inside : beside;
    else if (rope->kind == FB_ROPE_LONGROPE)
        return fb_fail(FB_FORMAT, "'%s' is missing", key);
    return FB_OK;
}

/* A factor that is stated holds. Where it is null yarn takes the quotient of the
 * lengths; longrope also where it is missing. */
static fb_status read_factor(fb_rope *rope, const fb_model_facts *f,
                             const fb_json *object)
{
    const bool may_follow =
        rope->kind == FB_ROPE_LONGROPE ||
        (rope->kind == FB_ROPE_YARN && fb_json_get(object, "factor") != NULL);

    if (rope->kind == FB_ROPE_PLAIN) return FB_OK;
    if (!may_follow) return want_real(object, "factor", &rope->factor);
    rope->factor = (double)f->context_length / (double)rope->first_length;
    return fb_config_real_or(object, "factor", &rope->factor);
}

/* yarn's size as a quotient of two (DeepSeek's models). */
static fb_status read_mscale(fb_rope *rope, const fb_json *object)
{
    double over = 0, under = 0;

    FB_TRY(fb_config_real_or(object, "mscale", &over));
    FB_TRY(fb_config_real_or(object, "mscale_all_dim", &under));
    if (over > 0 && under > 0 && rope->factor > 1)
        rope->size = (0.1 * over * fb_log_d(rope->factor) + 1) /
                     (0.1 * under * fb_log_d(rope->factor) + 1);
    return FB_OK;
}

static fb_status read_yarn(fb_rope *rope, const fb_json *object)
{
    FB_TRY(fb_config_real_or(object, "beta_fast", &rope->fast));
    FB_TRY(fb_config_real_or(object, "beta_slow", &rope->slow));
    (void)fb_json_bool(fb_json_get(object, "truncate"), &rope->rounds);
    return read_mscale(rope, object);
}

/* One object: `rope_scaling`, `rope_parameters` or a part of it. */
static fb_status read_object(fb_model_facts *f, fb_facts_room *room, int r,
                             const fb_json *config, const fb_json *object)
{
    fb_rope *rope = &f->rope[r];

    FB_TRY(read_type(rope, f->family, object));
    FB_TRY(fb_config_real_or(object, "rope_theta", &rope->theta));
    FB_TRY(rope->kind == FB_ROPE_LONGROPE ? read_longrope(f, room, r, object)
                                          : refuse_lists(rope, object));
    FB_TRY(read_first_length(rope, config, object));
    FB_TRY(read_factor(rope, f, object));
    if (rope->kind == FB_ROPE_LLAMA3) {
        FB_TRY(want_real(object, "low_freq_factor", &rope->low));
        FB_TRY(want_real(object, "high_freq_factor", &rope->high));
    }
    rope->size = size_of(rope);
    if (rope->kind == FB_ROPE_YARN) FB_TRY(read_yarn(rope, object));
    if (rope->kind == FB_ROPE_YARN || rope->kind == FB_ROPE_LONGROPE)
        FB_TRY(fb_config_real_or(object, "attention_factor", &rope->size));
    return FB_OK;
}

/* The object of each rope; NULL: nothing is stated. */
static fb_status find_objects(const fb_settings *s, const fb_json *out[FB_N_ROPES])
{
    const fb_json *all = fb_json_get(s->config, "rope_parameters");
    const bool has_two = s->family->local_theta > 0;
    bool is_split;

    out[FB_ROPE_GLOBAL] = fb_json_get(all, "full_attention");
    out[FB_ROPE_LOCAL] = fb_json_get(all, "sliding_attention");
    is_split = out[FB_ROPE_GLOBAL] != NULL || out[FB_ROPE_LOCAL] != NULL;
    if (!fb_json_is_object(all))
        out[FB_ROPE_GLOBAL] = fb_json_get(s->config, "rope_scaling");
    else if (is_split != has_two)
        return fb_fail(
            FB_UNSUPPORTED, "'rope_parameters' is %s; %s is understood with '%s'",
            is_split ? "for each kind of layer" : "one object for all layers",
            has_two ? "one for each kind of layer" : "one object for all",
            s->family->name);
    else if (!is_split)
        out[FB_ROPE_GLOBAL] = all;
    return FB_OK;
}

static fb_status read_config(fb_model_facts *f, fb_facts_room *room,
                             const fb_settings *s)
{
    const fb_json *objects[FB_N_ROPES];

    FB_TRY(find_objects(s, objects));
    for (int r = 0; r < FB_N_ROPES; r++)
        if (fb_json_is_object(objects[r]))
            FB_TRY(read_object(f, room, r, s->config, objects[r]));
    return FB_OK;
}

fb_status fb_facts_read_rotary_part(double *out, const fb_settings *s)
{
    static const char key[] = "partial_rotary_factor";
    const fb_json *places[1 + FB_N_ROPES] = {s->config};
    double part = 0;

    FB_TRY(find_objects(s, places + 1));
    for (int p = 0; p < 1 + FB_N_ROPES; p++) {
        const double before = part;

        FB_TRY(fb_config_real_or(places[p], key, &part));
        if (before > 0 && part != before)
            return fb_fail(FB_FORMAT,
                           "'%s' is %g in one place and %g in another; one number "
                           "would be right",
                           key, before, part);
    }
    *out = part > 0 ? part : 1;
    if (*out == 1 || s->family->rotates_part) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'%s' is %g; only 1 is understood with '%s'", key,
                   *out, s->family->name);
}

/* --- GGUF ----------------------------------------------------------------------- */

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
    FB_TRY(room_for_factors(f, room, which));
    t->format->unpack(t->data, half, room->factors[which]);
    for (int64_t i = 0; i < half; i++)
        FB_TRY(check_factor(name.text, room->factors[which][i]));
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
    FB_TRY(read_factor_tensor(f, room, one != NULL ? one : small, SHORT));
    FB_TRY(read_factor_tensor(f, room, one != NULL ? one : large, LONG));
    rope->kind = FB_ROPE_LONGROPE;
    rope->short_factors = room->factors[SHORT];
    rope->long_factors = room->factors[LONG];
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
    FB_TRY(find_kind(key.text, fb_span_show(type).text, gguf_kind_names, &rope->kind));
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
    rope->size = is_yarn ? size_of(rope) * by : by;
    return FB_OK;
}

static fb_status read_gguf(fb_model_facts *f, fb_facts_room *room, const fb_settings *s,
                           const fb_stored_list *tensors)
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

/* --- either --------------------------------------------------------------------- */

/* The bases that are stated outside of objects, or the family's. */
static fb_status read_bases(fb_model_facts *f, const fb_settings *s)
{
    double theta = 10000, local = s->family->local_theta;

    if (s->config != NULL && s->family->theta > 0) theta = s->family->theta;
    FB_TRY(fb_settings_real_or(s, FB_FIELD_theta, &theta));
    if (!(local > 0) && fb_settings_has(s, FB_FIELD_local_theta))
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' is there; one rotary base for all layers is understood "
                       "with '%s'",
                       fb_settings_key(s, FB_FIELD_local_theta).text, s->family->name);
    FB_TRY(fb_settings_real_or(s, FB_FIELD_local_theta, &local));
    f->rope[FB_ROPE_GLOBAL] = plain(theta, f->context_length);
    f->rope[FB_ROPE_LOCAL] = plain(local, f->context_length);
    return FB_OK;
}

fb_status fb_facts_read_rope(fb_model_facts *f, fb_facts_room *room,
                             const fb_settings *s, const fb_stored_list *tensors)
{
    const bool has_two = s->family->local_theta > 0;
    const bool all_have_windows = f->window > 0 && f->sliding_layers == 0;

    FB_TRY(read_bases(f, s));
    FB_TRY(s->config != NULL ? read_config(f, room, s)
                             : read_gguf(f, room, s, tensors));
    if (!has_two)
        f->rope[FB_ROPE_LOCAL] = f->rope[FB_ROPE_GLOBAL];
    else if (all_have_windows)
        f->rope[FB_ROPE_GLOBAL] = f->rope[FB_ROPE_LOCAL];
    for (int r = 0; r < FB_N_ROPES; r++)
        FB_TRY(check(&f->rope[r], f));
    return FB_OK;
}
