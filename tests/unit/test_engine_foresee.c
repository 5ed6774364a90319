/* test_engine_foresee.c - what rules are shown of questions that are still to come.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"

#include <math.h>

enum { CONTEXT = 50, HEADS = 2, LAYERS = 2, ONE = 0, ALL, BOTH, RULES };

static const char *const expressions[RULES] = {"oracle", "oracle_document",
                                               "blend(oracle,oracle_document)"};
static int32_t context[CONTEXT];
static const int32_t words[] = {2, 20, 44, 2, 7, 5, 41, 30};
static const fb_question first = {words, words + 2, 2, 1};
static const fb_question second = {words + 3, words + 5, 2, 3};

static rig the;
static fb_bound_rule *rules[RULES];
static fb_reading *reading;

static int open_reading(void **state)
{
    (void)state;
    rig_text(context, CONTEXT, 21);
    rig_open(&the, "builtin", NULL, NULL);
    rig_read(&the, &reading, rules, expressions, RULES, context, CONTEXT);
    return 0;
}

static int close_reading(void **state)
{
    (void)state;
    rig_forget(reading, rules, RULES);
    rig_close(&the);
    return 0;
}

static void scores_of(int rule, float out[LAYERS][HEADS * CONTEXT])
{
    for (int64_t l = 0; l < LAYERS; l++)
        assert_ok(fb_to_host(the.ops, fb_reading_score(reading, rule, l), out[l],
                             sizeof out[l]));
}

static void one_question_is_all_there_is_of_a_document_with_one(void **state)
{
    static float one[LAYERS][HEADS * CONTEXT], all[LAYERS][HEADS * CONTEXT];

    (void)state;
    assert_ok(fb_foresee_document(reading, &second, 1));
    assert_ok(fb_foresee(reading, &second));
    scores_of(ONE, one);
    scores_of(ALL, all);
    assert_memory_equal(one, all, sizeof one);
}

/* The first has 3 rows, the second 5. */
static void the_future_of_a_document_is_the_mean_over_the_rows_of_all(void **state)
{
    static float a[LAYERS][HEADS * CONTEXT], b[LAYERS][HEADS * CONTEXT];
    static float all[LAYERS][HEADS * CONTEXT];

    (void)state;
    assert_ok(fb_foresee_document(reading, (fb_question[]){first, second}, 2));
    assert_ok(fb_foresee(reading, &first));
    scores_of(ONE, a);
    assert_ok(fb_foresee(reading, &second));
    scores_of(ONE, b);
    scores_of(ALL, all);
    assert_true(memcmp(a, b, sizeof a) != 0);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < HEADS * CONTEXT; i++)
            assert_true(fabsf(all[l][i] - (3 * a[l][i] + 5 * b[l][i]) / 8) < 1e-6f);
}

static void looking_again_forgets_what_was_seen(void **state)
{
    static float once[LAYERS][HEADS * CONTEXT], again[LAYERS][HEADS * CONTEXT];

    (void)state;
    assert_ok(fb_foresee_document(reading, &first, 1));
    scores_of(ALL, once);
    assert_ok(fb_foresee_document(reading, (fb_question[]){second, first}, 2));
    assert_ok(fb_foresee_document(reading, &first, 1));
    scores_of(ALL, again);
    assert_memory_equal(once, again, sizeof once);
}

static void a_rule_may_read_both_futures(void **state)
{
    static float a[LAYERS][HEADS * CONTEXT], b[LAYERS][HEADS * CONTEXT];

    (void)state;
    assert_ok(fb_foresee_document(reading, (fb_question[]){first, second}, 2));
    assert_ok(fb_foresee(reading, &first));
    scores_of(BOTH, a);
    assert_ok(fb_foresee(reading, &second));
    scores_of(BOTH, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
}

static void a_question_without_an_answer_is_refused(void **state)
{
    const fb_question open = {words, NULL, 2, 0};

    (void)state;
    assert_fails(fb_foresee_document(reading, (fb_question[]){first, open}, 2),
                 FB_USAGE, "a reference answer of at least one token");
}

static void neither_future_can_be_deployed(void **state)
{
    (void)state;
    for (int r = 0; r < RULES; r++)
        assert_false(fb_bound_rule_is_deployable(rules[r]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_question_is_all_there_is_of_a_document_with_one),
        cmocka_unit_test(the_future_of_a_document_is_the_mean_over_the_rows_of_all),
        cmocka_unit_test(looking_again_forgets_what_was_seen),
        cmocka_unit_test(a_rule_may_read_both_futures),
        cmocka_unit_test(a_question_without_an_answer_is_refused),
        cmocka_unit_test(neither_future_can_be_deployed),
    };
    return cmocka_run_group_tests(tests, open_reading, close_reading);
}
