/* test_task_recall.c - sequences for the built-in model.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/task_env.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static env_list list;

static int clear(void **state)
{
    (void)state;
    env_clear(&list);
    return 0;
}

static fb_status make(const char *expression)
{
    fb_task_env env = env_of(&list);

    list.by_character = true;
    env.template_tokens = 1; /* BOS */
    return env_make(&env, expression);
}

/* Keys and values occur once each; the value asked for follows its key. */
static void check_sequence(const env_document *document, int pairs, int t, char low,
                           char high)
{
    const char *context = document->context;
    const env_probe *probe = &document->probes[0];
    const char *key = strchr(context, probe->question[1]);
    int keys = 0, values = 0, fillers = 0, seen[128] = {0};

    for (const char *c = context; *c != 0; c++) {
        const bool is_key = *c >= 'A' && *c <= 'X';
        const bool is_value = (*c >= '0' && *c <= '9') || (*c >= 'm' && *c <= 'z');

        keys += is_key;
        values += is_value;
        fillers += *c >= low && *c <= high;
        if (is_key || is_value) assert_int_equal(seen[(unsigned char)*c]++, 0);
    }
    assert_int_equal(keys, pairs);
    assert_int_equal(values, pairs * t);
    assert_int_equal((size_t)(keys + values + fillers), strlen(context));
    assert_true(probe->question[0] == '?' && strlen(probe->question) == 2);
    assert_non_null(key);
    assert_int_equal(strlen(probe->answer), t);
    assert_memory_equal(key + 1, probe->answer, (size_t)t);
    assert_ptr_equal(context + probe->evidence.begin, key + 1);
    assert_int_equal(probe->evidence.end - probe->evidence.begin, t);
}

static void a_sequence_has_pairs_among_fillers(void **state)
{
    (void)state;
    assert_int_equal(make("recall"), FB_OK);
    assert_int_equal(list.n, 100);
    for (int i = 0; i < list.n; i++) {
        assert_int_equal(strlen(list.documents[i].context), 256);
        check_sequence(&list.documents[i], 23, 1, 'a', 'l');
    }
}

static void answers_may_have_several_tokens(void **state)
{
    (void)state;
    assert_int_equal(make("recall:pairs=6,answer=4,tokens=129,filler=inert"), FB_OK);
    for (int i = 0; i < list.n; i++) {
        assert_int_equal(strlen(list.documents[i].context), 128);
        check_sequence(&list.documents[i], 6, 4, '.', '.');
    }
}

static void the_longest_and_the_shortest_sequence_are_made(void **state)
{
    (void)state;
    assert_int_equal(make("recall:tokens=16384,pairs=24,samples=2"), FB_OK);
    assert_int_equal(strlen(list.documents[0].context), 16383);
    env_clear(&list);
    assert_int_equal(make("recall:tokens=49,pairs=24,samples=2"), FB_OK);
    assert_int_equal(strlen(list.documents[0].context), 48);
}

static void impossible_sequences_are_refused_with_numbers(void **state)
{
    (void)state;
    assert_int_equal(make("recall:tokens=48,pairs=24"), FB_USAGE);
    assert_non_null(strstr(fb_error_message(), "the smallest that fits is 49"));
    assert_int_equal(make("recall:answer=2"), FB_USAGE);
    assert_non_null(strstr(fb_error_message(), "need 46 values; there are 24"));
}

/* The places of the value asked for are uniform: 400 of them in 4 quarters. */
static void questions_ask_about_every_place(void **state)
{
    int quarter[4] = {0};

    (void)state;
    assert_int_equal(make("recall:samples=400"), FB_OK);
    for (int i = 0; i < list.n; i++)
        quarter[(int)(list.documents[i].probes[0].depth * 4)]++;
    for (int i = 0; i < 4; i++)
        assert_in_range(quarter[i], 100 - 35, 100 + 35); /* 4 standard errors */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_sequence_has_pairs_among_fillers, clear),
        cmocka_unit_test_teardown(answers_may_have_several_tokens, clear),
        cmocka_unit_test_teardown(the_longest_and_the_shortest_sequence_are_made,
                                  clear),
        cmocka_unit_test_teardown(impossible_sequences_are_refused_with_numbers, clear),
        cmocka_unit_test_teardown(questions_ask_about_every_place, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
