/* test_rule_choosers.c - rules whose choice depends on the budget, by hand-made planes of
 * scores: `critical` and `compactor`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/test.h"
#include "tests/support/use_ops.h"

#include <stdio.h>
#include <string.h>

enum { HEADS = 2, N = 8 };

/* Two planes of two heads: heads of the first, then of the second. */
static const float planes[2 * HEADS * N] = {
    9, 8, 7, 6, 5, 4, 3, 2, /* falling */
    9, 8, 7, 6, 5, 4, 3, 2, /* the same */
    1, 2, 3, 4, 5, 6, 7, 8, /* rising */
    1, 1, 1, 1, 9, 1, 1, 1, /* one alone */
};

/* What `expression` keeps of each head under k entries, as "0 1 7|0 1 4". */
static void keeps(const char *expression, int64_t recent, int64_t k, const char *wanted)
{
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, 0, recent};
    fb_bound_rule *rule;
    fb_selection s;
    fb_tensor scores;
    char text[128] = "";
    size_t n = 0;

    assert_ok(fb_rule_parse(&rule, expression));
    fb_scope_open(ops);
    scores = fb_from_host(ops, FB_F32, 2, (int64_t[]){2 * HEADS, N}, planes);
    assert_ok(fb_select(&s, ops,
                        &(fb_selector){.rule = rule,
                                       .protect = protect,
                                       .layers = 1,
                                       .kv_heads = HEADS,
                                       .n = N,
                                       .scores = &scores},
                        k));
    for (int64_t g = 0; g < HEADS; g++)
        for (int64_t i = 0; i < s.kept.count[g]; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d",
                                  i > 0   ? " "
                                  : g > 0 ? "|"
                                          : "",
                                  s.kept.position[g][i]);
    assert_string_equal(text, wanted);
    fb_selection_clear(&s);
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
}

static void critical_takes_the_best_of_either_plane(void **state)
{
    (void)state;
    keeps("critical(knorm)", 0, 4, "0 1 6 7|0 1 2 4");
    keeps("critical(knorm,first=1)", 0, 4, "0 1 2 3|0 1 2 3"); /* the inner rule's */
    keeps("critical(knorm,first=0)", 0, 4, "4 5 6 7|0 1 2 4"); /* the other plane's */
    keeps("critical(knorm)", 0, 5, "0 1 5 6 7|0 1 2 3 4"); /* 2 of 5 are the inner's */
}

static void critical_counts_what_is_protected_among_the_first(void **state)
{
    (void)state; /* 2 of 4 are the inner rule's: the protected ones */
    keeps("critical(knorm)", 2, 4, "4 5 6 7|0 4 6 7");
    keeps("critical(knorm)", 1, 4, "0 5 6 7|0 1 4 7");
}

static void critical_chooses_what_a_safeguard_makes_sure_first(void **state)
{
    (void)state;
    keeps("critical(knorm,first=0,safeguard=0.5)", 0, 4, "0 1 6 7|0 1 2 4");
}

static void compactor_weighs_the_second_plane_by_the_share_that_leaves(void **state)
{
    (void)state; /* 9 - j + (j + 1) / 2 falls; 5 of head 1 + 9 / 2 is its best */
    keeps("compactor(knorm,recency)", 0, 4, "0 1 2 3|0 1 2 4");
    keeps("compactor(knorm,recency)", 0, 1,
          "0|4"); /* 5 + 9 * 7 / 8 against 9 + 7 / 8 */
    keeps("compactor(knorm,recency)", 0, 7, "0 1 2 3 4 5 6|0 1 2 3 4 5 6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(critical_takes_the_best_of_either_plane),
        cmocka_unit_test(critical_counts_what_is_protected_among_the_first),
        cmocka_unit_test(critical_chooses_what_a_safeguard_makes_sure_first),
        cmocka_unit_test(compactor_weighs_the_second_plane_by_the_share_that_leaves),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
