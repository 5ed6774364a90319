/* machine.h - an open model with its operators and engine, for tests that run one.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_MACHINE_H
#define TESTS_SUPPORT_MACHINE_H

#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static inline void must(fb_status status, const char *file, int line)
{
    if (status == FB_OK) return;
    print_error("%s\n", fb_error_message());
    _fail(file, line);
}

/* Fails the test with the recorded sentence if the call fails. */
#define MUST(call) must((call), __FILE__, __LINE__)

typedef struct machine {
    fb_ops *ops;
    fb_model *model;
    fb_engine *engine;
} machine;

static inline void machine_open(machine *m, const char *model)
{
    const fb_ops_options ops_options = {.device = NULL};
    const fb_engine_options engine_options = {.chunk = 0};

    *m = (machine){0};
    MUST(fb_ops_open(&m->ops, &ops_options));
    MUST(fb_model_open(&m->model, m->ops, model));
    MUST(fb_engine_open(&m->engine, m->ops, m->model, &engine_options));
}

static inline void machine_close(machine *m)
{
    fb_engine_close(m->engine);
    fb_model_close(m->model);
    fb_ops_close(m->ops);
    *m = (machine){0};
}

/* The model that the reference vectors were made with; the test fails without it. */
static inline void machine_open_reference(machine *m)
{
    const char *folder = getenv("FLEXBUDGET_MODELS");
    char path[4096];

    snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf",
             folder == NULL ? "build/models" : folder);
    machine_open(m, path);
    assert_string_equal(
        fb_model_get_facts(m->model)->sha256,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

/* All elements of an f32 tensor; free with fb_free. */
static inline float *machine_floats(machine *m, fb_tensor a, int64_t *n_out)
{
    int64_t n = 1;
    float *out;

    MUST(fb_ops_status(m->ops));
    for (int i = 0; i < fb_n_dims(m->ops, a); i++)
        n *= fb_size(m->ops, a, i);
    out = fb_alloc(FB_ACCOUNT_other, (size_t)n * sizeof *out);
    assert_non_null(out);
    MUST(fb_to_host(m->ops, a, out, (size_t)n * sizeof *out));
    if (n_out != NULL) *n_out = n;
    return out;
}

#endif
