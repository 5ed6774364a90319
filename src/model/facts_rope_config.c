/* facts_rope_config.c - rotary bases and stretching of a config.json.
 *
 * It states them in three ways: `rope_theta` beside `rope_scaling`; one object
 * `rope_parameters`; or one such object for each kind of layer. Which numbers each kind
 * of stretching needs, and what stands for a missing one, is as in transformers 5.2
 * (modeling_rope_utils.py, the models' configuration files).
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/facts_rope.h"

#include "ops/elementary.h"

#include <inttypes.h>
#include <string.h>

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
    FB_TRY(fb_rope_room(f, room, which));
    for (int64_t i = 0; i < half; i++) {
        double value = 0;

        (void)fb_json_real(fb_json_at(list, (size_t)i), &value);
        room->factors[which][i] = (float)value;
        FB_TRY(fb_rope_check_factor(key, room->factors[which][i]));
    }
    return FB_OK;
}

static fb_status read_longrope(fb_model_facts *f, fb_facts_room *room, int r,
                               const fb_json *object)
{
    const int first = r * FB_N_LISTS;

    FB_TRY(read_factor_list(f, room, object, "short_factor", first + FB_LIST_SHORT));
    FB_TRY(read_factor_list(f, room, object, "long_factor", first + FB_LIST_LONG));
    f->rope[r].short_factors = room->factors[first + FB_LIST_SHORT];
    f->rope[r].long_factors = room->factors[first + FB_LIST_LONG];
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
    return fb_rope_find_kind("rope_type", type, fb_rope_kind_names, &rope->kind);
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
    rope->size = fb_rope_size(rope);
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

fb_status fb_rope_read_config(fb_model_facts *f, fb_facts_room *room,
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
