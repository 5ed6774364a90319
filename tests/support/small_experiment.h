/* small_experiment.h - an experiment on the built-in model, as tests need it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_SMALL_EXPERIMENT_H
#define TESTS_SUPPORT_SMALL_EXPERIMENT_H

#include "base/memory.h"
#include "experiment/run.h"
#include "tests/support/test.h"

#define SMALL_TEXT                                                                     \
    "name: small\n"                                                                    \
    "model: builtin\n" SMALL_REST
/* Without the name and the model. */
#define SMALL_REST                                                                     \
    "tasks: [{recall: {tokens: 64, pairs: 8, samples: 2}}]\n"                          \
    "rules: [full, random, h2o]\n"                                                     \
    "budgets: [50%, 25%]\n"                                                            \
    "protocol: {protect: {sink: 1, recent: 2}}\n"

/* From text to plan, with a model and its operators. */
typedef struct small {
    fb_spec spec;
    fb_ops *ops;
    fb_model *model;
    fb_plan *plan;
} small;

/* Every step that can fail, so that tests of failing memory walk through them. */
static inline fb_status small_try(small *s, const char *text)
{
    const fb_ops_options options = {.threads = 1};
    fb_model_options form;

    *s = (small){0};
    FB_TRY(fb_spec_init(&s->spec));
    FB_TRY(fb_spec_parse(&s->spec, "small", text, strlen(text)));
    FB_TRY(fb_spec_check(&s->spec, NULL, NULL));
    FB_TRY(fb_ops_open(&s->ops, &options));
    form = (fb_model_options){fb_spec_weights(&s->spec)};
    FB_TRY(fb_model_open(&s->model, s->ops, "builtin", &form));
    FB_TRY(fb_spec_bind_model(&s->spec, fb_model_get_facts(s->model)));
    return fb_plan_new(&s->plan, &s->spec, s->model, NULL, NULL);
}

static inline void small_open(small *s, const char *text)
{
    assert_ok(small_try(s, text));
}

static inline void small_close(small *s)
{
    fb_plan_free(s->plan);
    fb_model_close(s->model);
    fb_ops_close(s->ops);
    fb_spec_clear(&s->spec);
    *s = (small){0};
}

#endif
