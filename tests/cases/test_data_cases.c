/* test_data_cases.c - cases A05, A06, A07, F05, F06: odd and broken data of users.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/task_env.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static env_list list;

static int clear(void **state)
{
    (void)state;
    env_clear(&list);
    list.refuses = false;
    return 0;
}

static void with_file(const char *text, const char *format)
{
    const fb_task_env env = env_of(&list);
    char path[64], expression[256];

    (void)snprintf(path, sizeof path, "/tmp/fb_case_%ld", (long)getpid());
    assert_int_equal(fb_file_write(path, text, strlen(text)), FB_OK);
    (void)snprintf(expression, sizeof expression, "%s,data=%s", format, path);
    env_clear(&list);
    if (env_make(&env, expression) != FB_OK) fail_msg("%s", fb_error_message());
    (void)unlink(path);
}

/* A05: an empty context goes on where the model has a BOS; else it is counted. */
static void a05_an_empty_context_is_counted_and_the_run_goes_on(void **state)
{
    fb_task_env env = env_of(&list);

    (void)state;
    assert_int_equal(env_make(&env, "jsonl:data=tests/cases/data/empty_context.jsonl"),
                     FB_OK);
    assert_int_equal(list.n, 3);
    assert_string_equal(list.documents[1].context, "");
    env_clear(&list);
    env.template_tokens = 0;
    assert_int_equal(env_make(&env, "jsonl:data=tests/cases/data/empty_context.jsonl"),
                     FB_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.n_rejected, 1);
    assert_string_equal(list.last_reject,
                        "tests/cases/data/empty_context.jsonl:2: the context is empty, "
                        "and this model has neither a BOS nor a template to stand for "
                        "it");
}

/* A06: seconds, and a sample that fits or the smallest feasible length. */
static void a06_lengths_fit_or_name_the_smallest(void **state)
{
    static const char *const tasks[] = {"needle", "continuation", "needle:keys=4"};
    static const int lengths[] = {64, 256, 2048};
    const fb_task_env env = env_of(&list);
    const clock_t begin = clock();

    (void)state;
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            char expression[64];

            (void)snprintf(expression, sizeof expression, "%s%slength=%d", tasks[t],
                           strchr(tasks[t], ':') == NULL ? ":" : ",", lengths[i]);
            env_clear(&list);
            if (env_make(&env, expression) != FB_OK)
                assert_non_null(
                    strstr(fb_error_message(), "the smallest that fits is"));
            else
                assert_int_equal(list.n, 12);
            assert_true(list.n == 12 || lengths[i] == 64);
        }
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 10);
}

/* A07: a 1-token document first and blank documents between. */
static void a07_short_and_blank_documents_are_skipped_and_counted(void **state)
{
    static const char words[] = "one two three four five six seven eight nine ten "
                                "one two three four five six seven eight nine ten "
                                "one two three four five six seven eight nine ten\n";
    char text[1024];

    (void)state;
    (void)snprintf(text, sizeof text, "Word\n\n\n\n \n\n%s\n\nToo short.\n\n\n%s",
                   words, words);
    with_file(text, "continuation:length=44,scored=5,documents=blank_line");
    assert_int_equal(list.n, 2);
    assert_int_equal(list.n_skipped, 2);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(list.documents[i].context, words, 40);
    assert_true(list.documents[0].probes[0].answer[0] == ' ');

    (void)snprintf(text, sizeof text, "%s%s", words, words);
    with_file(text, "continuation:length=44,scored=3"); /* stretch after stretch */
    assert_int_equal(list.n, 2);
    assert_int_equal(list.n_skipped, 0);
    assert_string_not_equal(list.documents[0].context, list.documents[1].context);
}

static void a07_a_file_with_nothing_of_use_says_so(void **state)
{
    static const char *const texts[] = {"", "\n\n", "Word", "Word\n\nWord\n"};
    static const char *const splits[] = {"one", "blank_line"};
    const fb_task_env env = env_of(&list);
    char path[64], expression[256];

    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/fb_case_%ld", (long)getpid());
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t k = 0; k < sizeof splits / sizeof *splits; k++) {
            assert_int_equal(fb_file_write(path, texts[i], strlen(texts[i])), FB_OK);
            (void)snprintf(expression, sizeof expression,
                           "continuation:data=%s,documents=%s", path, splits[k]);
            assert_int_equal(env_make(&env, expression), FB_FORMAT);
            assert_non_null(strstr(fb_error_message(), "no document"));
            assert_int_equal(list.n, 0);
        }
    (void)unlink(path);
}

/* Text without any white space is cut at characters, never inside one. */
static void a07_text_without_spaces_is_cut_at_characters(void **state)
{
    char text[4096] = "";

    (void)state;
    for (int i = 0; i < 300; i++)
        (void)strcat(text, i % 2 == 0 ? "\xe6\x9c\x88" : "\xe4\xba\xae");
    with_file(text, "continuation:length=100,scored=20");
    assert_true(list.n > 2);
    for (int i = 0; i < list.n; i++) {
        assert_int_equal(strlen(list.documents[i].context) % 3, 0);
        assert_int_equal(strlen(list.documents[i].probes[0].answer) % 3, 0);
    }
}

/* F05: what is odd loads, what is broken names file and physical line. */
static void f05_awkward_lines_load(void **state)
{
    const fb_task_env env = env_of(&list);

    (void)state;
    assert_int_equal(env_make(&env, "jsonl:data=tests/cases/data/awkward.jsonl"),
                     FB_OK);
    assert_int_equal(list.n, 4);
    assert_int_equal(list.n_rejected, 0);
    assert_string_equal(list.documents[0].context, "with BOM");
    assert_string_equal(list.documents[1].key, "line 4");
    assert_memory_equal(list.documents[2].context, "\xF0\x9D\x84\x9E", 4);
    assert_int_equal(list.documents[2].probes[0].n_references, 2);
    assert_string_equal(list.documents[3].context, "no newline at the end");
}

static void f05_broken_lines_are_counted_or_refused(void **state)
{
    const fb_task_env env = env_of(&list);

    (void)state;
    assert_int_equal(env_make(&env, "jsonl:data=tests/cases/data/broken.jsonl"), FB_OK);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.n_rejected, 6);
    assert_string_equal(list.documents[0].context, "ok");
    assert_non_null(strstr(list.last_reject, "tests/cases/data/broken.jsonl:7: "
                                             "'context' is"));
    env_clear(&list);
    list.refuses = true;
    assert_int_equal(env_make(&env, "jsonl:data=tests/cases/data/broken.jsonl"),
                     FB_FORMAT);
    assert_non_null(strstr(fb_error_message(), "tests/cases/data/broken.jsonl:2: "));
}

/* F06: plain JSON lines in the shapes that users have. */
static void f06_plain_files_load_as_they_are(void **state)
{
    const fb_task_env env = env_of(&list);

    (void)state;
    assert_int_equal(env_make(&env, "jsonl:data=tests/cases/data/kvpress_rows.jsonl"),
                     FB_OK);
    assert_true(list.n >= 5 && list.n_rejected == 0);
    assert_string_equal(list.documents[0].probes[0].question,
                        "Where was Ada Merrow born?\n");
    assert_string_equal(list.documents[0].probes[0].answer, " Port Aldmere");
    assert_int_equal(list.documents[0].probes[0].max_tokens, 16);
    env_clear(&list);
    assert_int_equal(env_make(&env, "jsonl:data=tests/cases/data/user.jsonl"), FB_OK);
    assert_int_equal(list.n, 5);
    assert_int_equal(list.n_rejected, 0);
    assert_int_equal(list.documents[3].n_probes, 2);
    assert_string_equal(list.documents[2].probes[0].metric, "choice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a05_an_empty_context_is_counted_and_the_run_goes_on,
                                  clear),
        cmocka_unit_test_teardown(a06_lengths_fit_or_name_the_smallest, clear),
        cmocka_unit_test_teardown(a07_short_and_blank_documents_are_skipped_and_counted,
                                  clear),
        cmocka_unit_test_teardown(a07_a_file_with_nothing_of_use_says_so, clear),
        cmocka_unit_test_teardown(a07_text_without_spaces_is_cut_at_characters, clear),
        cmocka_unit_test_teardown(f05_awkward_lines_load, clear),
        cmocka_unit_test_teardown(f05_broken_lines_are_counted_or_refused, clear),
        cmocka_unit_test_teardown(f06_plain_files_load_as_they_are, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
