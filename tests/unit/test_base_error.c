/* test_base_error.c - a failure keeps its sentence, for its thread alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/test.h"

#include <pthread.h>

static void a_failure_has_a_sentence_and_a_context_in_front(void **state)
{
    (void)state;
    assert_int_equal(fb_fail(FB_FORMAT, "version %d; %d is understood", 9, 3),
                     FB_FORMAT);
    assert_string_equal(fb_error_message(), "version 9; 3 is understood");
    assert_int_equal(fb_context(FB_FORMAT, "model '%s'", "x.gguf"), FB_FORMAT);
    assert_string_equal(fb_error_message(),
                        "model 'x.gguf': version 9; 3 is understood");
    assert_int_equal(fb_context(FB_OK, "nothing"), FB_OK);
    assert_string_equal(fb_error_message(),
                        "model 'x.gguf': version 9; 3 is understood");
}

static void a_sentence_of_any_length_stays_a_string(void **state)
{
    static char longer[5000];

    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    (void)fb_fail(FB_IO, "%s", longer);
    assert_true(strlen(fb_error_message()) > 500);
    for (int i = 0; i < 5; i++)
        (void)fb_context(FB_IO, "%s", longer);
    assert_true(strlen(fb_error_message()) < sizeof longer);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    (void)fb_fail(FB_IO, "elsewhere");
    return NULL;
}

static void every_thread_has_its_own_sentence(void **state)
{
    pthread_t thread;

    (void)state;
    (void)fb_fail(FB_IO, "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(fb_error_message(), "here");
}

static fb_status passes_on(fb_status status)
{
    FB_TRY(status);
    return FB_OK;
}

static void a_failure_is_passed_on(void **state)
{
    (void)state;
    assert_int_equal(passes_on(FB_OK), FB_OK);
    assert_int_equal(passes_on(FB_BUDGET), FB_BUDGET);
}

static void exit_codes_are_those_of_the_manual(void **state)
{
    (void)state;
    assert_int_equal(fb_status_exit_code(FB_OK), 0);
    assert_int_equal(fb_status_exit_code(FB_USAGE), 2);
    assert_int_equal(fb_status_exit_code(FB_NOT_FOUND), 2);
    assert_int_equal(fb_status_exit_code(FB_FORMAT), 2);
    assert_int_equal(fb_status_exit_code(FB_UNSUPPORTED), 2);
    assert_int_equal(fb_status_exit_code(FB_BUDGET), 2);
    assert_int_equal(fb_status_exit_code(FB_NO_MEMORY), 1);
    assert_int_equal(fb_status_exit_code(FB_IO), 1);
    assert_int_equal(fb_status_exit_code(FB_DEFECT), 1);
    assert_int_equal(fb_status_exit_code(FB_STOPPED), 3);
    assert_string_equal(fb_status_meaning(FB_NO_MEMORY), "out of memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_has_a_sentence_and_a_context_in_front),
        cmocka_unit_test(a_sentence_of_any_length_stays_a_string),
        cmocka_unit_test(every_thread_has_its_own_sentence),
        cmocka_unit_test(a_failure_is_passed_on),
        cmocka_unit_test(exit_codes_are_those_of_the_manual),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
