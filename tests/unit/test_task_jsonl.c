/* test_task_jsonl.c - records of a user's file, line by line.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/task_env.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static env_list list;
static char path[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/fb_jsonl_%ld.jsonl", (long)getpid());
    return 0;
}

static int clear(void **state)
{
    (void)state;
    env_clear(&list);
    list.refuses = false;
    (void)unlink(path);
    return 0;
}

static void write_file(const char *text)
{
    assert_int_equal(fb_file_write(path, text, strlen(text)), FB_OK);
}

/* Reads `text` as a file, with more parameters behind it ("" for none). */
static fb_status read_text(const char *text, const char *parameters)
{
    const fb_task_env env = env_of(&list);
    char expression[256];

    write_file(text);
    (void)snprintf(expression, sizeof expression, "jsonl:data=%s%s", path, parameters);
    env_clear(&list);
    return env_make(&env, expression);
}

/* One record that must be rejected with this in the sentence. */
static void rejects(const char *record, const char *complaint)
{
    char text[4096], place[128];

    (void)snprintf(text, sizeof text,
                   "{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\"}\n%s\n",
                   record);
    assert_int_equal(read_text(text, ""), FB_OK);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.n_rejected, 1);
    if (strstr(list.last_reject, complaint) == NULL)
        fail_msg("'%s' not in '%s'", complaint, list.last_reject);
    (void)snprintf(place, sizeof place, "%s:2: ", path);
    assert_non_null(strstr(list.last_reject, place));
}

static void a_record_becomes_a_document(void **state)
{
    const env_document *document = &list.documents[0];

    (void)state;
    assert_int_equal(
        read_text("{\"id\": \"one\", \"doc_id\": \"d\", \"context\": \"Text.\", "
                  "\"question\": \"Which?\", \"answers\": [\"this\", \"that\"], "
                  "\"answer_prefix\": \"Answer:\", \"metric\": \"f1\", "
                  "\"max_new_tokens\": 5}",
                  ""),
        FB_OK);
    assert_int_equal(list.n, 1);
    assert_string_equal(document->key, "one");
    assert_string_equal(document->group, "d");
    assert_string_equal(document->context, "Text.");
    assert_int_equal(document->n_probes, 1);
    assert_string_equal(document->probes[0].key, "one");
    assert_string_equal(document->probes[0].question, "\n\nWhich?");
    assert_string_equal(document->probes[0].prefix, "Answer:");
    assert_string_equal(document->probes[0].answer, " this");
    assert_int_equal(document->probes[0].n_references, 2);
    assert_string_equal(document->probes[0].metric, "f1");
    assert_int_equal(document->probes[0].max_tokens, 5);
    assert_true(document->probes[0].depth == -1);
}

static void white_space_at_a_seam_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("{\"context\": \"Text.\\n\\n\", \"question\": \"Which?\", "
                  "\"answer\": \" this\", \"answer_prefix\": \"A:\"}\n"
                  "{\"context\": \"Text.\", \"question\": \" Which?\", "
                  "\"answer\": \"this\", \"answer_prefix\": \"A: \"}\n"
                  "{\"context\": \"Text.\", \"question\": \"\", "
                  "\"answer\": \"this\"}\n",
                  ""),
        FB_OK);
    assert_string_equal(list.documents[0].probes[0].question, "Which?");
    assert_string_equal(list.documents[0].probes[0].answer, " this");
    assert_string_equal(list.documents[1].probes[0].question, " Which?");
    assert_string_equal(list.documents[1].probes[0].answer, "this");
    assert_string_equal(list.documents[2].probes[0].question, "");
    assert_string_equal(list.documents[2].probes[0].answer, "this");
}

static void names_default_to_the_line_and_the_context(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("\n{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\"}\n"
                  "{\"context\": \"c\", \"question\": \"r\", \"answer\": \"a\"}\n"
                  "{\"context\": \"d\", \"question\": \"r\", \"answer\": \"a\", "
                  "\"id\": 17}\n",
                  ""),
        FB_OK);
    assert_string_equal(list.documents[0].key, "line 2");
    assert_string_equal(list.documents[2].key, "17");
    assert_string_equal(list.documents[0].group, list.documents[1].group);
    assert_string_not_equal(list.documents[0].group, list.documents[2].group);
    assert_int_equal(strlen(list.documents[0].group), 64);
}

static void turns_are_separate_questions(void **state)
{
    (void)state;
    assert_int_equal(
        read_text(
            "{\"id\": \"t\", \"context\": \"c\", \"turns\": [{\"question\": \"q\", "
            "\"answer\": \"a\"}, {\"question\": \"r\", \"answers\": [\"b\"]}]}",
            ""),
        FB_OK);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.documents[0].n_probes, 2);
    assert_string_equal(list.documents[0].probes[1].key, "t/2");
    assert_string_equal(list.documents[0].probes[1].question, "\n\nr");
    assert_string_equal(list.documents[0].probes[1].answer, "b");
}

static void the_task_may_set_one_metric_for_all(void **state)
{
    static const char text[] =
        "{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\", \"metric\": "
        "\"f1\"}\n{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\"}\n";

    (void)state;
    assert_int_equal(read_text(text, ""), FB_OK);
    assert_string_equal(list.documents[0].probes[0].metric, "f1");
    assert_string_equal(list.documents[1].probes[0].metric, "contains_any");
    assert_int_equal(read_text(text, ",metric=nll,max_tokens=7"), FB_OK);
    assert_null(list.documents[0].probes[0].metric);
    assert_int_equal(list.documents[0].probes[0].max_tokens, 7);
}

static void a_bad_record_is_rejected_with_its_line_and_reason(void **state)
{
    (void)state;
    rejects("{\"context\": \"c\", \"question\": \"q\"}", "'answers' is missing");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answers\": []}",
            "'answers' is missing");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answers\": [1]}",
            "must be a list of strings alone");
    rejects("{\"context\": \"c\", \"answer\": \"a\"}", "'question' is missing");
    rejects("{\"question\": \"q\", \"answer\": \"a\"}", "'context' is missing");
    rejects("{\"context\": null, \"question\": \"q\", \"answer\": \"a\"}",
            "'context' is missing");
    rejects("{\"context\": 5, \"question\": \"q\", \"answer\": \"a\"}",
            "must be a string");
    rejects("[1, 2]", "must be an object");
    rejects("{\"context\": \"\\ud800\", \"question\": \"q\", \"answer\": \"a\"}", "");
    rejects("{\"context\": \"\\u0000\", \"question\": \"q\", \"answer\": \"a\"}", "");
    rejects("{\"context\": \"\xff\", \"question\": \"q\", \"answer\": \"a\"}", "");
    rejects("{\"context\": \"unterminated", "");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"\"}",
            "answer 1 is empty");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\", \" \\n\"]}",
            "answer 2 is nothing but white space");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"\\u00a0\\u3000\", "
            "\"answer_prefix\": \"A:\", \"metric\": \"contains_all\"}",
            "answer 1 is nothing but white space");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\", "
            "\"metric\": \"bleu\"}",
            "unknown metric 'bleu'");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\", "
            "\"metric\": \"nll\"}",
            "one table has one unit");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\", "
            "\"metric\": \"class\"}",
            "needs the names of all classes");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\", "
            "\"max_tokens\": 0}",
            "'max_tokens' is 0; 1 to 65536");
    rejects("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\", "
            "\"id\": \"line 1\"}",
            "was used before");
    rejects("{\"context\": \"c\", \"turns\": [1]}", "a list of objects alone");
    rejects("{\"context\": \"c\", \"turns\": {}}", "a list of objects");
    rejects("{\"context\": \"c\", \"turns\": [{\"question\": \"q\"}]}",
            "turn 1: 'answers' is missing");
}

static void an_unknown_field_is_told_once_per_file(void **state)
{
    char want[256];

    (void)state;
    assert_int_equal(
        read_text("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\", "
                  "\"task\": \"t\", \"doc_id\": 1}\n"
                  "{\"context\": \"c\", \"question\": \"r\", \"answer\": \"a\", "
                  "\"answer_prefx\": \"A:\", \"zzzzzzzz\": 1}\n"
                  "{\"context\": \"c\", \"question\": \"s\", \"answer\": \"a\", "
                  "\"answer_prefx\": \"A:\"}\n",
                  ""),
        FB_OK);
    assert_int_equal(list.n, 3);
    (void)snprintf(want, sizeof want,
                   "%s:2: unknown field 'answer_prefx' ignored; did you mean "
                   "'answer_prefix'?\n%s:2: unknown field 'zzzzzzzz' ignored\n",
                   path, path);
    assert_string_equal(list.notes, want);
}

/* The table that is printed is the one that is read. */
static void the_example_of_the_help_is_a_record(void **state)
{
    const fb_task *task = fb_task_find("jsonl");

    (void)state;
    assert_non_null(task);
    assert_int_equal(read_text(task->example, ""), FB_OK);
    assert_int_equal(list.n, 1);
    assert_string_equal(list.notes, "");
}

static void refusing_stops_at_the_first_bad_record(void **state)
{
    (void)state;
    list.refuses = true;
    assert_int_equal(
        read_text(
            "{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\"}\n[]\n{}", ""),
        FB_FORMAT);
    assert_non_null(strstr(fb_error_message(), "task 'jsonl': "));
    assert_non_null(strstr(fb_error_message(), ".jsonl:2: "));
    assert_int_equal(list.n_rejected, 1);
}

static void a_file_without_a_good_record_is_refused(void **state)
{
    const fb_task_env env = env_of(&list);

    (void)state;
    assert_int_equal(read_text("[]\n", ""), FB_FORMAT);
    assert_non_null(strstr(fb_error_message(), "no document; 1 record was"));
    assert_int_equal(read_text("\n \n", ""), FB_FORMAT);
    assert_non_null(strstr(fb_error_message(), "help: flexbudget tasks jsonl shows"));
    assert_int_equal(env_make(&env, "jsonl:data=/nowhere/x.jsonl"), FB_NOT_FOUND);
    assert_non_null(strstr(fb_error_message(), "'/nowhere/x.jsonl'"));
    assert_int_equal(env_make(&env, "jsonl:data=/tmp"), FB_FORMAT);
    assert_non_null(strstr(fb_error_message(), "'/tmp': a folder"));
}

static void an_empty_context_is_a_matter_of_the_model(void **state)
{
    fb_task_env env = env_of(&list);
    char expression[128];

    (void)state;
    write_file("{\"context\": \"\", \"question\": \"q\", \"answer\": \"a\"}\n"
               "{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\"}\n");
    (void)snprintf(expression, sizeof expression, "jsonl:data=%s", path);
    assert_int_equal(env_make(&env, expression), FB_OK);
    assert_int_equal(list.n, 2);
    env_clear(&list);
    env.template_tokens = 0;
    assert_int_equal(env_make(&env, expression), FB_OK);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.n_rejected, 1);
}

static void a_limit_ends_the_reading(void **state)
{
    fb_task_env env = env_of(&list);
    char expression[128];

    (void)state;
    write_file("{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\"}\n"
               "{\"context\": \"d\", \"question\": \"q\", \"answer\": \"a\"}\n"
               "broken\n");
    (void)snprintf(expression, sizeof expression, "jsonl:data=%s", path);
    env.samples = 2;
    assert_int_equal(env_make(&env, expression), FB_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.n_rejected, 0);
}

/* --- lines --- */

static void a_line_too_long_is_refused_and_the_next_is_read(void **state)
{
    enum { N = (64 << 20) + 10 };
    fb_records *records = NULL;
    const fb_record *record;
    FILE *file = fopen(path, "wb");

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < N; i += 16)
        (void)fputs("                ", file);
    (void)fputs("\n{\"a\": \"b\"}\n", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(fb_records_open(&records, path), FB_OK);
    assert_int_equal(fb_records_next(records, &record), FB_FORMAT);
    assert_non_null(strstr(fb_error_message(), ":1: a line of more than 64 MiB"));
    assert_int_equal(fb_records_next(records, &record), FB_OK);
    assert_non_null(record);
    assert_int_equal(fb_records_line(records), 2);
    assert_int_equal(fb_records_next(records, &record), FB_OK);
    assert_null(record);
    assert_int_equal(fb_records_next(records, &record), FB_OK); /* stays at the end */
    assert_null(record);
    fb_records_close(records);
}

static void lines_longer_than_a_block_are_whole(void **state)
{
    enum { N = 200000 };
    char *text = fb_zalloc(FB_ACCOUNT_other, N + 100);
    size_t n;

    (void)state;
    n = (size_t)sprintf(text,
                        "{\"question\": \"q\", \"answer\": \"a\", \"context\": \"");
    memset(text + n, 'x', N);
    (void)strcpy(text + n + N, "\"}");
    assert_int_equal(read_text(text, ""), FB_OK);
    assert_int_equal(strlen(list.documents[0].context), N);
    fb_free(text);
}

static void a_failed_allocation_fails_cleanly(void **state)
{
    static const char text[] =
        "{\"context\": \"c\", \"answer_prefix\": \"A\", \"turns\": [{\"question\": "
        "\"q\", \"answer\": \"a\"}, {\"question\": \"r\", \"answers\": [\"b\"]}]}\n";
    fb_status status;
    int n = 0;

    (void)state;
    write_file(text);
    do {
        const size_t before = fb_memory_now(FB_ACCOUNT_other);
        const fb_task_env env = env_of(&list);
        char expression[128];

        env_clear(&list);
        (void)snprintf(expression, sizeof expression, "jsonl:data=%s", path);
        fb_memory_fail_at(++n);
        status = env_make(&env, expression);
        fb_memory_fail_at(0);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
    } while (status != FB_OK);
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_becomes_a_document, setup, clear),
        cmocka_unit_test_setup_teardown(white_space_at_a_seam_is_left_alone, setup,
                                        clear),
        cmocka_unit_test_setup_teardown(names_default_to_the_line_and_the_context,
                                        setup, clear),
        cmocka_unit_test_setup_teardown(turns_are_separate_questions, setup, clear),
        cmocka_unit_test_setup_teardown(the_task_may_set_one_metric_for_all, setup,
                                        clear),
        cmocka_unit_test_setup_teardown(
            a_bad_record_is_rejected_with_its_line_and_reason, setup, clear),
        cmocka_unit_test_setup_teardown(an_unknown_field_is_told_once_per_file, setup,
                                        clear),
        cmocka_unit_test_setup_teardown(the_example_of_the_help_is_a_record, setup,
                                        clear),
        cmocka_unit_test_setup_teardown(refusing_stops_at_the_first_bad_record, setup,
                                        clear),
        cmocka_unit_test_setup_teardown(a_file_without_a_good_record_is_refused, setup,
                                        clear),
        cmocka_unit_test_setup_teardown(an_empty_context_is_a_matter_of_the_model,
                                        setup, clear),
        cmocka_unit_test_setup_teardown(a_limit_ends_the_reading, setup, clear),
        cmocka_unit_test_setup_teardown(a_line_too_long_is_refused_and_the_next_is_read,
                                        setup, clear),
        cmocka_unit_test_setup_teardown(lines_longer_than_a_block_are_whole, setup,
                                        clear),
        cmocka_unit_test_setup_teardown(a_failed_allocation_fails_cleanly, setup,
                                        clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
