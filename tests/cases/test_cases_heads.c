/* test_cases_heads.c - B05: two query heads of one kv head that rank the entries in opposite
 * order. Which of them decides is the rule's declared way of joining them, the mean if it says
 * nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/test.h"
#include "tests/support/use_ops.h"

enum { HEADS = 4, KV_HEADS = 2, ENTRIES = 4, KEPT = 1 };

/* Of each kv head the first query head likes early entries, the second late ones; together
 * they like entry 1 (of 0 to 3) most. */
static const float hand_made[HEADS * ENTRIES] = {
    6, 5, 2, 0,             /* kv head 0 */
    0, 4, 5, 9, 6, 5, 2, 0, /* kv head 1, the same but for its last number */
    0, 4, 5, 5,
};

static fb_tensor score(fb_ops *o, const fb_signals *see, const void *params)
{
    (void)see;
    (void)params;
    return fb_from_host(o, FB_F32, 2, (int64_t[]){HEADS, ENTRIES}, hand_made);
}

static void choose_mean(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
}

static void choose_max(const void *params, fb_choices *choices)
{
    choose_mean(params, choices);
    choices->group = FB_GROUP_MAX;
}

static void choose_layer(const void *params, fb_choices *choices)
{
    choose_mean(params, choices);
    choices->group = FB_GROUP_LAYER;
}

/* The one entry that stays in each kv head. */
static void keeps(void (*choose)(const void *, fb_choices *), int32_t first,
                  int32_t second)
{
    const fb_rule rule = {
        FB_RULE_HEAD,          .name = "made",   .summary = "scores by hand",
        .family = "attention", .source = "test", .runs = FB_RUNS_ONE_SHOT,
        .choose = choose,      .score = score};
    const fb_signals see = {.n_layers = 1,
                            .heads = HEADS,
                            .kv_heads = KV_HEADS,
                            .head_dim = 2,
                            .n = ENTRIES,
                            .m = ENTRIES};
    fb_bound_rule *bound;
    fb_tensor scores;
    fb_selection s;

    assert_ok(fb_rule_bind(&bound, &rule));
    fb_scope_open(ops);
    scores = fb_bound_rule_score(bound, ops, &see);
    assert_ok(fb_ops_status(ops));
    assert_ok(fb_select(&s, ops,
                        &(fb_selector){.rule = bound,
                                       .protect = {.kind = FB_PROTECT_NONE},
                                       .layers = 1,
                                       .kv_heads = KV_HEADS,
                                       .n = ENTRIES,
                                       .scores = &scores},
                        KEPT));
    assert_int_equal(s.kept.position[0][0], first);
    assert_int_equal(s.kept.position[1][0], second);
    fb_selection_clear(&s);
    fb_scope_close(ops);
    fb_bound_rule_free(bound);
}

static void B05_the_declared_way_of_joining_heads_decides(void **state)
{
    (void)state;
    keeps(choose_mean, 1,
          1);                /* 3 4.5 3.5 4.5, the lower of equal ones; 3 4.5 3.5 2.5 */
    keeps(choose_max, 3, 0); /* 6 5 5 9; 6 5 5 5 */
    keeps(choose_layer, 1, 1); /* 3 4.5 3.5 3.5 in both */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B05_the_declared_way_of_joining_heads_decides),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
