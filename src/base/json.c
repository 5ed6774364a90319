/* json.c - a thin layer on jansson.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"

#include "base/file.h"
#include "base/memory.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* jansson reports most failed allocations as errors of the text, so we watch it. */
static _Thread_local bool ran_out;

static void *allocate(size_t size)
{
    void *block = fb_alloc(FB_ACCOUNT_other, size);

    ran_out = ran_out || block == NULL;
    return block;
}

static void use_our_memory(void)
{
    json_set_alloc_funcs(allocate, fb_free);
}

/* --- reading --- */

static fb_status explain(const json_error_t *error, const char *text, size_t n)
{
    if (ran_out || json_error_code(error) == json_error_out_of_memory)
        return fb_fail(FB_NO_MEMORY, "no memory for JSON of %zu bytes", n);
    if (json_error_code(error) == json_error_null_character)
        return fb_fail(FB_FORMAT, "a string with a zero byte (column %d)",
                       error->column);
    if (n == 0 || memchr(text, '\n', n) == NULL)
        return fb_fail(FB_FORMAT, "%s (column %d)", error->text, error->column);
    return fb_fail(FB_FORMAT, "line %d, column %d: %s", error->line, error->column,
                   error->text);
}

fb_status fb_json_parse(fb_json **out, const char *text, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    json_error_t error;

    (void)pthread_once(&once, use_our_memory);
    ran_out = false;
    *out = json_loadb(n == 0 ? "" : text, n, JSON_REJECT_DUPLICATES, &error);
    if (ran_out) { /* a key may be another one then, without an error */
        json_decref(*out);
        *out = NULL;
    }
    return *out == NULL ? explain(&error, text, n) : FB_OK;
}

fb_status fb_json_read(fb_json **out, const char *path, size_t most)
{
    char *text;
    size_t n;
    fb_status status;

    *out = NULL;
    FB_TRY(fb_file_read(&text, &n, path, most));
    status = fb_json_parse(out, text, n);
    fb_free(text);
    return status;
}

void fb_json_free(fb_json *root)
{
    json_decref(root);
}

bool fb_json_is_object(const fb_json *value)
{
    return json_is_object(value);
}

bool fb_json_is_array(const fb_json *value)
{
    return json_is_array(value);
}

bool fb_json_is_null(const fb_json *value)
{
    return json_is_null(value);
}

const char *fb_json_string(const fb_json *value)
{
    return json_string_value(value);
}

bool fb_json_int(const fb_json *value, int64_t *out)
{
    if (!json_is_integer(value)) return false;
    *out = json_integer_value(value);
    return true;
}

bool fb_json_real(const fb_json *value, double *out)
{
    if (!json_is_number(value)) return false;
    *out = json_number_value(value);
    return true;
}

bool fb_json_bool(const fb_json *value, bool *out)
{
    if (!json_is_boolean(value)) return false;
    *out = json_is_true(value);
    return true;
}

const char *fb_json_type(const fb_json *value)
{
    if (value == NULL) return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

size_t fb_json_count(const fb_json *value)
{
    return json_is_array(value) ? json_array_size(value) : json_object_size(value);
}

fb_json *fb_json_at(const fb_json *array, size_t i)
{
    return json_array_get(array, i);
}

fb_json *fb_json_get(const fb_json *object, const char *key)
{
    return json_object_get(object, key);
}

/* jansson's iterators want an object that they could change; these do not. */
static json_t *without_const(const fb_json *value)
{
    union {
        const fb_json *constant;
        json_t *variable;
    } both = {.constant = value};

    return both.variable;
}

void *fb_json_first(const fb_json *object)
{
    return json_object_iter(without_const(object));
}

void *fb_json_next(const fb_json *object, void *member)
{
    return json_object_iter_next(without_const(object), member);
}

const char *fb_json_key(void *member)
{
    return json_object_iter_key(member);
}

fb_json *fb_json_value(void *member)
{
    return json_object_iter_value(member);
}

/* --- members that must be there --- */

static fb_status unwanted(const fb_json *object, const char *key, const char *wanted)
{
    const fb_json *value = fb_json_get(object, key);

    if (value == NULL)
        return fb_fail(FB_FORMAT, "'%s' is missing; %s is needed", key, wanted);
    return fb_fail(FB_FORMAT, "'%s' is %s; %s is needed", key, fb_json_type(value),
                   wanted);
}

fb_status fb_json_want_string(const char **out, const fb_json *object, const char *key)
{
    *out = fb_json_string(fb_json_get(object, key));
    return *out != NULL ? FB_OK : unwanted(object, key, "a string");
}

fb_status fb_json_want_int(int64_t *out, const fb_json *object, const char *key)
{
    if (fb_json_int(fb_json_get(object, key), out)) return FB_OK;
    return unwanted(object, key, "an integer");
}

fb_status fb_json_want_real(double *out, const fb_json *object, const char *key)
{
    if (fb_json_real(fb_json_get(object, key), out)) return FB_OK;
    return unwanted(object, key, "a number");
}

fb_status fb_json_want_object(fb_json **out, const fb_json *object, const char *key)
{
    *out = fb_json_get(object, key);
    return json_is_object(*out) ? FB_OK : unwanted(object, key, "an object");
}

fb_status fb_json_want_array(fb_json **out, const fb_json *object, const char *key)
{
    *out = fb_json_get(object, key);
    return json_is_array(*out) ? FB_OK : unwanted(object, key, "an array");
}

/* --- writing --- */

static void add_control(fb_text *text, unsigned char byte)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};

    if (byte < sizeof letters && letters[byte] != 0)
        fb_text_printf(text, "\\%c", letters[byte]);
    else
        fb_text_printf(text, "\\u%04x", byte);
}

/* Bytes from the start that stand for themselves. */
static size_t plain_prefix(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && bytes[i] >= ' ' && bytes[i] < 0x7f && bytes[i] != '"' &&
           bytes[i] != '\\')
        i++;
    return i;
}

void fb_json_add_bytes(fb_text *text, const char *bytes, size_t n)
{
    fb_text_add(text, "\"", 1);
    while (n > 0) {
        const size_t plain = plain_prefix(bytes, n);
        const size_t one = fb_utf8_length(bytes, n);
        size_t step = plain;

        if (plain > 0) {
            fb_text_add(text, bytes, plain);
        } else if (one == 1 && (*bytes == '"' || *bytes == '\\')) {
            fb_text_printf(text, "\\%c", *bytes);
            step = 1;
        } else if (one == 1) {
            add_control(text, (unsigned char)*bytes);
            step = 1;
        } else {
            fb_text_add(text, one == 0 ? "\xEF\xBF\xBD" : bytes, one == 0 ? 3 : one);
            step = one == 0 ? 1 : one;
        }
        bytes += step;
        n -= step;
    }
    fb_text_add(text, "\"", 1);
}

void fb_json_add_string(fb_text *text, const char *string)
{
    fb_json_add_bytes(text, string, strlen(string));
}

void fb_json_add_real(fb_text *text, double value)
{
    if (isfinite(value))
        fb_text_add_real(text, value);
    else
        fb_text_puts(text, "null");
}
