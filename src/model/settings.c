/* settings.c - see settings.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const struct {
    const char *gguf, *config;
} keys[FB_N_FIELDS] = {
#define FB_FIELD(name, gguf, config) [FB_FIELD_##name] = {gguf, config},
    FB_FIELDS
#undef FB_FIELD
};

fb_field_key fb_settings_key(const fb_settings *s, fb_field field)
{
    fb_field_key key = {{0}};

    if (s->config != NULL)
        (void)snprintf(key.text, sizeof key.text, "%s", keys[field].config);
    else if (keys[field].gguf[0] != '\0')
        (void)snprintf(key.text, sizeof key.text, "%s.%s", s->family->gguf,
                       keys[field].gguf);
    return key;
}

static const fb_json *member(const fb_json *object, const char *key)
{
    const fb_json *value = key[0] == '\0' ? NULL : fb_json_get(object, key);

    return fb_json_is_null(value) ? NULL : value;
}

bool fb_settings_has(const fb_settings *s, fb_field field)
{
    const fb_field_key key = fb_settings_key(s, field);

    if (s->config != NULL) return member(s->config, key.text) != NULL;
    return key.text[0] != '\0' && fb_gguf_has(s->gguf, key.text);
}

static fb_status missing(const char *key)
{
    return fb_fail(FB_FORMAT, "'%s' is missing", key);
}

/* --- config.json ---------------------------------------------------------------- */

fb_status fb_config_int_or(const fb_json *object, const char *key, int64_t low,
                           int64_t high, int64_t *out)
{
    const fb_json *value = member(object, key);
    int64_t number;

    if (value == NULL) return FB_OK;
    if (!fb_json_int(value, &number))
        return fb_fail(FB_FORMAT, "'%s' is %s; a whole number would be right", key,
                       fb_json_type(value));
    if (number < low || number > high)
        return fb_fail(FB_FORMAT,
                       "'%s' is %" PRId64 "; %" PRId64 " to %" PRId64 " would be right",
                       key, number, low, high);
    *out = number;
    return FB_OK;
}

static fb_status positive(const char *key, double value)
{
    if (isfinite(value) && value > 0) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is %g; a number above 0 would be right", key,
                   value);
}

fb_status fb_config_real_or(const fb_json *object, const char *key, double *out)
{
    const fb_json *value = member(object, key);
    double number;

    if (value == NULL) return FB_OK;
    if (!fb_json_real(value, &number))
        return fb_fail(FB_FORMAT, "'%s' is %s; a number would be right", key,
                       fb_json_type(value));
    FB_TRY(positive(key, number));
    *out = number;
    return FB_OK;
}

static fb_status config_bool(const fb_json *object, const char *key, bool *out)
{
    const fb_json *value = member(object, key);

    if (fb_json_bool(value, out)) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is %s; true or false would be right", key,
                   fb_json_type(value));
}

/* --- either --------------------------------------------------------------------- */

fb_status fb_settings_int(const fb_settings *s, fb_field field, int64_t low,
                          int64_t high, int64_t *out)
{
    const fb_field_key key = fb_settings_key(s, field);

    if (s->config == NULL) return fb_gguf_int(s->gguf, key.text, low, high, out);
    if (!fb_settings_has(s, field)) return missing(key.text);
    return fb_config_int_or(s->config, key.text, low, high, out);
}

fb_status fb_settings_real(const fb_settings *s, fb_field field, double *out)
{
    const fb_field_key key = fb_settings_key(s, field);

    if (s->config != NULL) {
        if (!fb_settings_has(s, field)) return missing(key.text);
        return fb_config_real_or(s->config, key.text, out);
    }
    FB_TRY(fb_gguf_real(s->gguf, key.text, out));
    return positive(key.text, *out);
}

fb_status fb_settings_bool(const fb_settings *s, fb_field field, bool *out)
{
    const fb_field_key key = fb_settings_key(s, field);

    if (s->config != NULL) return config_bool(s->config, key.text, out);
    return fb_gguf_bool(s->gguf, key.text, out);
}

fb_status fb_settings_int_or(const fb_settings *s, fb_field field, int64_t low,
                             int64_t high, int64_t *out)
{
    return fb_settings_has(s, field) ? fb_settings_int(s, field, low, high, out)
                                     : FB_OK;
}

fb_status fb_settings_real_or(const fb_settings *s, fb_field field, double *out)
{
    return fb_settings_has(s, field) ? fb_settings_real(s, field, out) : FB_OK;
}

fb_status fb_settings_bool_or(const fb_settings *s, fb_field field, bool *out)
{
    return fb_settings_has(s, field) ? fb_settings_bool(s, field, out) : FB_OK;
}
