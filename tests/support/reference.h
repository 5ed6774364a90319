/* reference.h - the reference vectors of tests/golden/reference, as a test reads them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_H

#include "base/memory.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define REFERENCE "tests/golden/reference/"

static inline json_t *reference_json(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);

    if (json == NULL) fail_msg("%s: %s", path, error.text);
    return json;
}

/* A list of ids that the test owns; free `ids` with fb_free. */
typedef struct id_list {
    int32_t *ids;
    int64_t n;
} id_list;

static inline id_list reference_ids(const json_t *list)
{
    id_list out = {.n = (int64_t)json_array_size(list)};

    assert_true(json_is_array(list));
    out.ids = fb_alloc(FB_ACCOUNT_other, (size_t)out.n * sizeof *out.ids);
    assert_non_null(out.ids);
    for (int64_t i = 0; i < out.n; i++)
        out.ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return out;
}

/* The ids of prompt "p32", "p300" or "p1500". */
static inline id_list reference_prompt(const char *name)
{
    json_t *prompts = reference_json(REFERENCE "prompts.json");
    const id_list out =
        reference_ids(json_object_get(json_object_get(prompts, name), "ids"));

    assert_true(out.n > 0);
    json_decref(prompts);
    return out;
}

static inline double reference_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value)) fail_msg("no number '%s'", key);
    return json_number_value(value);
}

#endif
