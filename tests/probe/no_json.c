/* no_json.c - stands in for base/json in a probe: the built-in model has none.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"

static fb_status none(void)
{
    return fb_fail(FB_UNSUPPORTED, "this probe reads no JSON");
}

fb_status fb_json_parse(fb_json **out, const char *text, size_t n)
{
    (void)text, (void)n;
    *out = NULL;
    return none();
}

fb_status fb_json_read(fb_json **out, const char *path, size_t most)
{
    (void)path, (void)most;
    *out = NULL;
    return none();
}

void fb_json_free(fb_json *root)
{
    (void)root;
}

bool fb_json_is_object(const fb_json *value)
{
    (void)value;
    return false;
}

bool fb_json_is_array(const fb_json *value)
{
    (void)value;
    return false;
}

bool fb_json_is_null(const fb_json *value)
{
    (void)value;
    return false;
}

const char *fb_json_string(const fb_json *value)
{
    (void)value;
    return NULL;
}

bool fb_json_int(const fb_json *value, int64_t *out)
{
    (void)value, (void)out;
    return false;
}

bool fb_json_real(const fb_json *value, double *out)
{
    (void)value, (void)out;
    return false;
}

bool fb_json_bool(const fb_json *value, bool *out)
{
    (void)value, (void)out;
    return false;
}

const char *fb_json_type(const fb_json *value)
{
    (void)value;
    return "nothing";
}

size_t fb_json_count(const fb_json *value)
{
    (void)value;
    return 0;
}

fb_json *fb_json_at(const fb_json *array, size_t i)
{
    (void)array, (void)i;
    return NULL;
}

fb_json *fb_json_get(const fb_json *object, const char *key)
{
    (void)object, (void)key;
    return NULL;
}

void *fb_json_first(const fb_json *object)
{
    (void)object;
    return NULL;
}

void *fb_json_next(const fb_json *object, void *member)
{
    (void)object, (void)member;
    return NULL;
}

const char *fb_json_key(void *member)
{
    (void)member;
    return "";
}

fb_json *fb_json_value(void *member)
{
    (void)member;
    return NULL;
}

fb_status fb_json_want_string(const char **out, const fb_json *object, const char *key)
{
    (void)out, (void)object, (void)key;
    return none();
}

fb_status fb_json_want_object(fb_json **out, const fb_json *object, const char *key)
{
    (void)out, (void)object, (void)key;
    return none();
}

fb_status fb_json_want_array(fb_json **out, const fb_json *object, const char *key)
{
    (void)out, (void)object, (void)key;
    return none();
}
