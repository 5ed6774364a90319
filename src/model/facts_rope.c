/* facts_rope.c - rotary bases and how they are stretched.
 *
 * config.json and GGUF state it in ways of their own: facts_rope_config.c,
 * facts_rope_gguf.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/facts_rope.h"

#include "base/memory.h"
#include "base/text.h"
#include "ops/elementary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

fb_status fb_rope_find_kind(const char *key, const char *name,
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

double fb_rope_size(const fb_rope *rope)
{
    if (rope->factor <= 1) return 1;
    if (rope->kind == FB_ROPE_YARN) return 0.1 * fb_log_d(rope->factor) + 1;
    if (rope->kind == FB_ROPE_LONGROPE && rope->first_length > 1)
        return __builtin_sqrt(1 + fb_log_d(rope->factor) /
                                      fb_log_d((double)rope->first_length));
    return 1;
}

fb_status fb_rope_room(const fb_model_facts *f, fb_facts_room *room, int which)
{
    const size_t half = (size_t)f->rotary_dim / 2;

    fb_free(room->factors[which]);
    room->factors[which] =
        fb_alloc(FB_ACCOUNT_other, half * sizeof *room->factors[which]);
    if (room->factors[which] == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for rotary factors");
    return FB_OK;
}

fb_status fb_rope_check_factor(const char *name, float factor)
{
    if (isfinite(factor) && factor > 0) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' holds %g; numbers above 0 would be right", name,
                   (double)factor);
}

/* --- what is plausible --- */

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

/* --- reading --- */

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
    FB_TRY(s->config != NULL ? fb_rope_read_config(f, room, s)
                             : fb_rope_read_gguf(f, room, s, tensors));
    if (!has_two)
        f->rope[FB_ROPE_LOCAL] = f->rope[FB_ROPE_GLOBAL];
    else if (all_have_windows)
        f->rope[FB_ROPE_GLOBAL] = f->rope[FB_ROPE_LOCAL];
    for (int r = 0; r < FB_N_ROPES; r++)
        FB_TRY(check(&f->rope[r], f));
    return FB_OK;
}
