/* reference.h - the reference vectors of tests/golden/reference, and their model.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_H

#include "tests/support/golden.h"
#include "tests/support/rig.h"

#include <stdio.h>
#include <stdlib.h>

#define REFERENCE "tests/golden/reference/"

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
    json_t *prompts = golden_load(REFERENCE "prompts.json");
    const id_list out = reference_ids(golden_at(golden_at(prompts, name), "ids"));

    assert_true(out.n > 0);
    json_decref(prompts);
    return out;
}

/* The model that the vectors were made with; the test fails without it. */
static inline void reference_open(rig *r)
{
    const char *path = getenv("FLEXBUDGET_TEST_MODEL");

    rig_open(r, path == NULL ? "build/models/SmolLM2-135M-Instruct.Q4_1.gguf" : path,
             NULL, NULL);
    assert_string_equal(
        fb_model_get_facts(r->model)->sha256,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

/* All elements of an f32 tensor; free with fb_free. */
static inline float *reference_floats(fb_ops *ops, fb_tensor a)
{
    int64_t n = 1;
    float *out;

    assert_ok(fb_ops_status(ops));
    for (int i = 0; i < fb_n_dims(ops, a); i++)
        n *= fb_size(ops, a, i);
    out = fb_alloc(FB_ACCOUNT_other, (size_t)n * sizeof *out);
    assert_non_null(out);
    assert_ok(fb_to_host(ops, a, out, (size_t)n * sizeof *out));
    return out;
}

#endif
