/* rig.h - the built-in model, opened and ready, for tests of the engine.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_RIG_H
#define TESTS_SUPPORT_RIG_H

#include "engine/engine.h"
#include "tests/support/test.h"

enum { RIG_RULES = 16 };

typedef struct rig {
    fb_ops *ops;
    fb_model *model;
    fb_engine *engine;
} rig;

static inline void rig_open(rig *r, const char *model, const fb_ops_options *ops,
                            const fb_engine_options *engine)
{
    static const fb_ops_options two_threads = {.threads = 2};

    assert_ok(fb_ops_open(&r->ops, ops != NULL ? ops : &two_threads));
    assert_ok(fb_model_open(&r->model, r->ops, model, NULL));
    assert_ok(fb_engine_open(&r->engine, r->ops, r->model, engine));
}

static inline void rig_close(rig *r)
{
    fb_engine_close(r->engine);
    fb_model_close(r->model);
    fb_ops_close(r->ops);
}

/* One reading of a text for several rules, each with seed 1. */
static inline void rig_read(rig *r, fb_reading **out, fb_bound_rule **rules,
                            const char *const *expressions, int n_rules,
                            const int32_t *context, int64_t n)
{
    fb_seeded_rule seeded[RIG_RULES];

    assert_true(n_rules <= RIG_RULES);
    for (int i = 0; i < n_rules; i++) {
        assert_ok(fb_rule_parse(&rules[i], expressions[i]));
        seeded[i] = (fb_seeded_rule){rules[i], 1};
    }
    assert_ok(fb_read(out, r->engine, context, n, seeded, n_rules, 1));
}

static inline void rig_forget(fb_reading *reading, fb_bound_rule **rules, int n_rules)
{
    fb_reading_free(reading);
    for (int i = 0; i < n_rules; i++)
        fb_bound_rule_free(rules[i]);
}

/* BOS, then n - 1 ids of the built-in model that look like text: keys, values and filler. */
static inline void rig_text(int32_t *ids, int64_t n, uint64_t seed)
{
    ids[0] = 0;
    for (int64_t i = 1; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)(4 + (seed >> 33) % 60);
    }
}

#endif
