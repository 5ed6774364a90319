/* recall_rules.h - rules that only tests need, bound through the same interface.
 *
 *   seen:kernel=K   the oracle's score smoothed as snapkv smooths: what snapkv would
 *                   choose if its window were the question
 *   vnorm           the largest values stay
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_RECALL_RULES_H
#define TESTS_SUPPORT_RECALL_RULES_H

#include "tests/support/recall.h"

#include "rule/bound.h"

#include <stdio.h>

/* One parameter, `x`: every local rule has just one. */
struct recall_param {
    int64_t x;
};

static const fb_param recall_params[] = {
    FB_INT(struct recall_param, x, 1, 0, 63, "test", "kernel of seen"),
    FB_PARAM_END,
};

static inline void recall_seen_choose(const void *params, fb_choices *choices)
{
    const struct recall_param *p = params;

    choices->reads = FB_READS_FUTURE;
    choices->pool_average = p->x;
}

static inline fb_tensor recall_seen_score(fb_ops *ops, const fb_signals *see,
                                          const void *params)
{
    (void)ops, (void)params;
    return see->future_attention; /* [heads, m] */
}

static inline void recall_vnorm_choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_VALUES;
}

static inline fb_tensor recall_vnorm_score(fb_ops *ops, const fb_signals *see,
                                           const void *params)
{
    (void)params;
    return fb_sum(ops, fb_mul(ops, see->values, see->values), 2); /* [kv_heads, m] */
}

#define RECALL_RULE(rule_name, stem)                                                   \
    static const fb_rule recall_rule_##stem = {                                        \
        FB_RULE_HEAD,                                                                  \
        .name = rule_name,                                                             \
        .family = "test",                                                              \
        .runs = FB_RUNS_ONE_SHOT,                                                      \
        .params = recall_params,                                                       \
        .params_bytes = sizeof(struct recall_param),                                   \
        .choose = recall_##stem##_choose,                                              \
        .score = recall_##stem##_score,                                                \
    }

RECALL_RULE("seen", seen);
RECALL_RULE("vnorm", vnorm);

static inline fb_bound_rule *recall_bind(const fb_rule *rule, int64_t x)
{
    fb_bound_rule *out;

    assert_ok(fb_bound_rule_new(&out, rule));
    ((struct recall_param *)out->params)->x = x;
    assert_ok(fb_bound_rule_finish(out));
    return out;
}

/* A rule of the program by its expression, or one of the above as "@seen:5". */
static inline fb_bound_rule *recall_rule(const char *text)
{
    static const fb_rule *const local[] = {&recall_rule_seen, &recall_rule_vnorm};
    fb_bound_rule *out;
    char name[32];
    int x = 0;

    if (text[0] != '@') {
        assert_ok(fb_rule_parse(&out, text));
        return out;
    }
    assert_true(sscanf(text, "@%31[a-z]:%d", name, &x) >= 1);
    for (int i = 0; i < 2; i++)
        if (strcmp(local[i]->name, name) == 0) return recall_bind(local[i], x);
    fail_msg("no local rule '%s'", text);
    return NULL;
}

#endif
