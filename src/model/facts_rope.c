/* facts_rope.c - rotary bases and how they are stretched.
 *
 * config.json states them in three ways: `rope_theta` beside `rope_scaling`; one object
 * `rope_parameters`; or one such object for each kind of layer. GGUF has flat keys, and
 * tensors for factors per pair: those of Llama 3 are longrope's with one length.
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

enum { SHORT, LONG };

static fb_status find_kind(const char *key, const char *name, fb_rope_kind *out)
{
    fb_text known;
    fb_status status;

    for (int k = 0; k < FB_N_ROPE_KINDS; k++)
        if (strcmp(name, fb_rope_kind_names[k]) == 0) {
            *out = (fb_rope_kind)k;
            return FB_OK;
        }
    fb_text_init(&known, 1 << 10);
    for (int k = 0; k < FB_N_ROPE_KINDS; k++)
        fb_text_printf(&known, "%s'%s'", k == 0 ? "" : ", ", fb_rope_kind_names[k]);
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

static fb_status check(const fb_rope *rope, const fb_model_facts *f)
{
    if (rope->kind == FB_ROPE_LLAMA3 && !(rope->low < rope->high))
        return fb_fail(FB_FORMAT,
                       "'low_freq_factor' %g is not below 'high_freq_factor' %g",
                       rope->low, rope->high);
    if (rope->kind == FB_ROPE_LONGROPE && rope->short_factors == NULL)
        return fb_fail(FB_FORMAT,
                       "rotary factors per pair are missing: 'longrope' "
                       "needs %" PRId64 " short and as many long ones",
                       f->rotary_dim / 2);
    return FB_OK;
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
                     .rounds = true};
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

static fb_status read_longrope(fb_rope *rope, const fb_model_facts *f,
                               fb_facts_room *room, const fb_json *object)
{
    FB_TRY(read_factor_list(f, room, object, "short_factor", SHORT));
    FB_TRY(read_factor_list(f, room, object, "long_factor", LONG));
    rope->short_factors = room->factors[SHORT];
    rope->long_factors = room->factors[LONG];
    if (rope->first_length < f->context_length)
        rope->factor = (double)f->context_length / (double)rope->first_length;
    return FB_OK;
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

/* One object: `rope_scaling`, `rope_parameters` or a part of it. */
static fb_status read_object(fb_rope *rope, const fb_model_facts *f,
                             fb_facts_room *room, const fb_json *object)
{
    const char *type = fb_json_string(fb_json_get(object, "rope_type"));

    if (type == NULL) type = fb_json_string(fb_json_get(object, "type"));
    if (type != NULL) {
        /* Phi-3's older files say "su". */
        if (strcmp(type, "su") == 0) type = "longrope";
        FB_TRY(find_kind("rope_type", type, &rope->kind));
    }
    FB_TRY(fb_config_real_or(object, "rope_theta", &rope->theta));
    FB_TRY(fb_config_real_or(object, "factor", &rope->factor));
    FB_TRY(fb_config_real_or(object, "low_freq_factor", &rope->low));
    FB_TRY(fb_config_real_or(object, "high_freq_factor", &rope->high));
    FB_TRY(fb_config_real_or(object, "beta_fast", &rope->fast));
    FB_TRY(fb_config_real_or(object, "beta_slow", &rope->slow));
    FB_TRY(fb_config_int_or(object, "original_max_position_embeddings", 1, INT32_MAX,
                            &rope->first_length));
    (void)fb_json_bool(fb_json_get(object, "truncate"), &rope->rounds);
    if (rope->kind == FB_ROPE_LONGROPE) FB_TRY(read_longrope(rope, f, room, object));
    rope->size = size_of(rope);
    if (rope->kind == FB_ROPE_YARN) FB_TRY(read_mscale(rope, object));
    return fb_config_real_or(object, "attention_factor", &rope->size);
}

static fb_status read_config(fb_model_facts *f, fb_facts_room *room,
                             const fb_settings *s)
{
    const fb_json *all = fb_json_get(s->config, "rope_parameters");
    const fb_json *global = fb_json_get(all, "full_attention");
    const fb_json *local = fb_json_get(all, "sliding_attention");

    if (!fb_json_is_object(all)) all = fb_json_get(s->config, "rope_scaling");
    if (!fb_json_is_object(global)) global = all;
    if (fb_json_is_object(global))
        FB_TRY(read_object(&f->rope[FB_ROPE_GLOBAL], f, room, global));
    if (fb_json_is_object(local))
        FB_TRY(read_object(&f->rope[FB_ROPE_LOCAL], f, room, local));
    return FB_OK;
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

/* Factors per pair: Llama 3 has one list, longrope two. */
static fb_status read_tensors(fb_model_facts *f, fb_facts_room *room,
                              const fb_stored_list *tensors)
{
    const fb_stored *one = fb_stored_find(tensors, "rope_freqs.weight");
    const fb_stored *small = fb_stored_find(tensors, "rope_factors_short.weight");
    const fb_stored *large = fb_stored_find(tensors, "rope_factors_long.weight");
    fb_rope *rope = &f->rope[FB_ROPE_GLOBAL];

    if (one == NULL && (small == NULL || large == NULL)) return FB_OK;
    FB_TRY(read_factor_tensor(f, room, one != NULL ? one : small, SHORT));
    FB_TRY(read_factor_tensor(f, room, one != NULL ? one : large, LONG));
    rope->kind = FB_ROPE_LONGROPE;
    rope->short_factors = room->factors[SHORT];
    rope->long_factors = room->factors[LONG];
    if (one == NULL && rope->first_length < f->context_length)
        rope->factor = (double)f->context_length / (double)rope->first_length;
    return FB_OK;
}

static fb_status read_gguf(fb_model_facts *f, fb_facts_room *room, const fb_settings *s,
                           const fb_stored_list *tensors)
{
    const fb_field_key key = fb_settings_key(s, FB_FIELD_rope_type);
    fb_rope *rope = &f->rope[FB_ROPE_GLOBAL];
    fb_span type;

    FB_TRY(fb_settings_int_or(s, FB_FIELD_first_length, 1, INT32_MAX,
                              &rope->first_length));
    FB_TRY(read_tensors(f, room, tensors));
    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_linear, &rope->factor));
    if (rope->factor != 1 && rope->kind == FB_ROPE_PLAIN) rope->kind = FB_ROPE_LINEAR;
    if (fb_settings_has(s, FB_FIELD_rope_type)) {
        FB_TRY(fb_gguf_string(s->gguf, key.text, &type));
        if (!fb_span_is(type, "none"))
            FB_TRY(find_kind(key.text, fb_span_show(type).text, &rope->kind));
        if (rope->kind != FB_ROPE_LONGROPE)
            FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_factor, &rope->factor));
    }
    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_fast, &rope->fast));
    FB_TRY(fb_settings_real_or(s, FB_FIELD_rope_slow, &rope->slow));
    rope->size = size_of(rope);
    return fb_settings_real_or(s, FB_FIELD_rope_size, &rope->size);
}

fb_status fb_facts_read_rope(fb_model_facts *f, fb_facts_room *room,
                             const fb_settings *s, const fb_stored_list *tensors)
{
    double theta = 10000, local; /* both formats' default */

    FB_TRY(fb_settings_real_or(s, FB_FIELD_theta, &theta));
    local = f->family->local_theta > 0 ? f->family->local_theta : theta;
    FB_TRY(fb_settings_real_or(s, FB_FIELD_local_theta, &local));
    f->rope[FB_ROPE_GLOBAL] = plain(theta, f->context_length);
    f->rope[FB_ROPE_LOCAL] = plain(local, f->context_length);
    for (int r = 0; r < FB_N_ROPES; r++)
        f->rope[r].size = 1;
    if (s->config != NULL)
        FB_TRY(fb_settings_int_or(s, FB_FIELD_first_length, 1, INT32_MAX,
                                  &f->rope[FB_ROPE_GLOBAL].first_length));
    FB_TRY(s->config != NULL ? read_config(f, room, s)
                             : read_gguf(f, room, s, tensors));
    for (int r = 0; r < FB_N_ROPES; r++)
        FB_TRY(check(&f->rope[r], f));
    return FB_OK;
}
