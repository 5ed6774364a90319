/* test_task_registry.c - task expressions, parameters, and the checks of documents.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/hash.h"
#include "tests/support/task_env.h"
#include "tests/support/test.h"

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

static void refuses(const char *expression, const char *sentence)
{
    fb_bound_task *task = NULL;

    assert_int_equal(fb_task_parse(&task, expression), FB_USAGE);
    assert_null(task);
    assert_string_equal(fb_error_message(), sentence);
}

static void prints(const char *expression, const char *text, const char *json)
{
    fb_bound_task *task = NULL;
    fb_text out;

    assert_int_equal(fb_task_parse(&task, expression), FB_OK);
    fb_text_init(&out, 0);
    fb_bound_task_print(task, &out);
    assert_string_equal(fb_text_string(&out), text);
    fb_text_clear(&out);
    fb_bound_task_print_json(task, &out);
    assert_string_equal(fb_text_string(&out), json);
    fb_text_clear(&out);
    fb_bound_task_free(task);
}

static void every_listed_task_is_complete(void **state)
{
    (void)state;
    assert_int_equal(fb_task_count(), 4);
    for (int i = 0; i < fb_task_count(); i++) {
        const fb_task *task = fb_task_at(i);

        assert_ptr_equal(fb_task_find(task->name), task);
        assert_true(task->summary[0] != 0 && task->source[0] != 0);
        assert_true(task->version >= 1);
        assert_non_null(fb_metric_find(task->metric));
        assert_non_null(task->make);
        for (const fb_param *row = task->params; row->name != NULL; row++) {
            assert_true(row->help[0] != 0 && row->origin[0] != 0);
            assert_true(row->offset < task->params_bytes);
        }
    }
    assert_null(fb_task_find("template")); /* built and tested, not listed */
}

static void the_canonical_text_writes_all_defaults_out(void **state)
{
    (void)state;
    prints("recall", "recall:tokens=257,pairs=23,filler=live,answer=1,samples=100",
           "{\"tokens\": 257, \"pairs\": 23, \"filler\": \"live\", \"answer\": 1, "
           "\"samples\": 100}");
    prints("recall:samples=3,filler=inert",
           "recall:tokens=257,pairs=23,filler=inert,answer=1,samples=3",
           "{\"tokens\": 257, \"pairs\": 23, \"filler\": \"inert\", \"answer\": 1, "
           "\"samples\": 3}");
}

static void pairs_set_one_by_one_give_the_same_task(void **state)
{
    fb_bound_task *task = NULL;
    fb_text out;

    (void)state;
    assert_int_equal(fb_task_bind(&task, "needle"), FB_OK);
    assert_true(fb_bound_task_is_default(task, "samples"));
    assert_int_equal(fb_bound_task_set(task, "samples", "3"), FB_OK);
    assert_false(fb_bound_task_is_default(task, "samples"));
    assert_true(fb_bound_task_is_default(task, "length"));
    assert_false(fb_bound_task_is_default(task, "no such key"));
    assert_int_equal(fb_bound_task_check(task), FB_OK);
    fb_text_init(&out, 0);
    fb_bound_task_print(task, &out);
    assert_string_equal(
        fb_text_string(&out),
        "needle:length=512,samples=3,depths=0,keys=1,asked=4,kind=number");
    fb_text_clear(&out);
    fb_bound_task_free(task);
}

static void wrong_expressions_are_refused_with_the_way_out(void **state)
{
    (void)state;
    refuses("needles", "unknown task 'needles'; did you mean 'needle'?");
    refuses("", "unknown task ''\nhelp: flexbudget tasks lists them");
    refuses("needle:lenght=1",
            "task 'needle': unknown parameter 'lenght'; did you mean 'length'? it has "
            "length, samples, depths, keys, asked, kind");
    refuses("needle:length=1",
            "task 'needle': length=1 is out of range; 32 to 1048576");
    refuses("needle:keys=4,keys=3", "task 'needle': 'keys' is given twice");
    refuses("needle:keys", "task 'needle': 'keys' is not key=value");
    refuses("needle:", "task 'needle': '' is not key=value");
    refuses("needle:data=x", "task 'needle': it reads no data; 'data' has no meaning");
    refuses("jsonl", "task 'jsonl': data is missing; data=PATH names the file");
    refuses("jsonl:data=", "task 'jsonl': data= needs a path");
    refuses("jsonl:data=a,data=b", "task 'jsonl': 'data' is given twice");
    refuses("jsonl:data=a,metric=bleu",
            "task 'jsonl': metric=bleu is not one of its words; record, contains_all, "
            "contains_any, exact, f1, f1_zh, rouge_l, class, choice, choice_v2, "
            "number_first, count, retrieval, code_sim, nll or kl");
}

static void the_deciding_metric_follows_the_parameter(void **state)
{
    static const struct {
        const char *expression, *metric;
    } cases[] = {
        {"needle", "kl"}, {"jsonl:data=x", "score"}, {"jsonl:data=x,metric=f1", "f1"}};
    fb_bound_task *task = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(fb_task_parse(&task, cases[i].expression), FB_OK);
        assert_string_equal(fb_bound_task_metric(task)->name, cases[i].metric);
        fb_bound_task_free(task);
    }
}

/* --- a task that breaks promises, one by one --- */

static const char *const good_answer[] = {"yes"};

static fb_document broken;
static fb_probe broken_probe;
static int copies;

static fb_status make_broken(const fb_task_env *env, const void *values,
                             const char *data)
{
    (void)values;
    (void)data;
    for (int i = 0; i < copies; i++)
        FB_TRY(env->emit(env->self, &broken));
    return FB_OK;
}

static const fb_task breaker = {
    FB_TASK_HEAD, .name = "breaker", .summary = "",     .source = "",
    .version = 1, .metric = "kl",    .params_bytes = 8, .make = make_broken,
};

static void reset(void)
{
    broken_probe = (fb_probe){.key = "p",
                              .question = "?",
                              .references = good_answer,
                              .n_references = 1,
                              .max_tokens = 4,
                              .depth = -1};
    broken = (fb_document){
        .key = "d", .context = "text", .probes = &broken_probe, .n_probes = 1};
    copies = 1;
}

static fb_status run_breaker(const fb_task_env *env)
{
    fb_bound_task *task = NULL;
    fb_status status;

    assert_int_equal(fb_task_bind_unlisted(&task, &breaker), FB_OK);
    status = fb_task_make(task, env);
    fb_bound_task_free(task);
    return status;
}

/* Runs the breaker as it now is, expects this complaint, repairs it. */
static void breaks(const char *complaint)
{
    const fb_task_env env = env_of(&list);

    assert_int_equal(run_breaker(&env), FB_DEFECT);
    if (strstr(fb_error_message(), complaint) == NULL)
        fail_msg("'%s' not in '%s'", complaint, fb_error_message());
    env_clear(&list);
    reset();
}

static void a_broken_document_never_gets_out(void **state)
{
    static const char *const empty[] = {""}, *const blank[] = {"yes", " \t\n"};
    static const char *const classes[] = {"\xff"};
    static const fb_byte_span outside = {2, 5}, backward = {3, 3};

    (void)state;
    reset();
    broken.key = "";
    breaks("the key of a document is empty");
    broken.context = NULL;
    breaks("there is no context");
    broken.context = "a\xc3";
    breaks("the context is not UTF-8 at byte 1");
    broken.context = "\xed\xa0\x80";
    breaks("the context is not UTF-8 at byte 0"); /* a surrogate */
    broken.n_probes = 0;
    breaks("there is no question");
    broken_probe.key = NULL;
    breaks("the key of a probe is empty");
    broken_probe.n_references = 0;
    breaks("there is no answer");
    broken_probe.references = empty;
    breaks("answer 1 is empty");
    broken_probe.references = blank;
    broken_probe.n_references = 2;
    breaks("answer 2 is nothing but white space");
    broken_probe.max_tokens = 0;
    breaks("an answer of 0 tokens");
    broken_probe.classes = classes;
    broken_probe.n_classes = 1;
    breaks("the class name is not UTF-8");
    broken_probe.evidence = &outside;
    broken_probe.n_evidence = 1;
    breaks("evidence 2 to 5 lies outside the context of 4 bytes");
    broken_probe.evidence = &backward;
    broken_probe.n_evidence = 1;
    breaks("evidence 3 to 3");
    broken_probe.depth = 1.5;
    breaks("a depth of 1.5");
    broken_probe.metric = "bleu";
    breaks("unknown metric 'bleu'");
    broken_probe.metric = "f1";
    breaks("one table has one unit");
    copies = 2;
    breaks("the key 'p' of a probe was used before");
    copies = 0;
    breaks("no document");
}

static void an_empty_context_needs_something_before_it(void **state)
{
    fb_task_env env = env_of(&list);

    (void)state;
    reset();
    broken.context = "";
    assert_int_equal(run_breaker(&env), FB_OK);
    env.template_tokens = 0;
    assert_int_equal(run_breaker(&env), FB_DEFECT);
    assert_non_null(strstr(fb_error_message(), "neither a BOS nor a template"));
}

static fb_status stop(void *self, const fb_document *document)
{
    (void)self;
    (void)document;
    return fb_fail(FB_STOPPED, "stopped by the user");
}

static void a_stop_from_outside_is_passed_on(void **state)
{
    fb_task_env env = env_of(&list);

    (void)state;
    reset();
    env.emit = stop;
    assert_int_equal(run_breaker(&env), FB_STOPPED);
}

static void thousands_of_keys_stay_unique(void **state)
{
    enum { N = 500 };
    const fb_task_env env = env_of(&list);

    (void)state;
    assert_int_equal(env_make(&env, "recall:samples=500"), FB_UNSUPPORTED);
    list.by_character = true;
    assert_int_equal(env_make(&env, "recall:samples=500"), FB_OK);
    assert_int_equal(list.n, N);
}

/* --- data --- */

static const char *wanted_text;

static fb_status make_reader(const fb_task_env *env, const void *values,
                             const char *data)
{
    const char *text, *again;

    (void)values;
    FB_TRY(env->text(env->self, wanted_text == NULL ? data : wanted_text, &text));
    FB_TRY(env->text(env->self, wanted_text == NULL ? data : wanted_text, &again));
    assert_ptr_equal(text, again);
    broken.context = text;
    return env->emit(env->self, &broken);
}

static const fb_task reader = {
    FB_TASK_HEAD,        .name = "reader", .summary = "",     .source = "",
    .version = 1,        .metric = "kl",   .params_bytes = 8, .data = FB_DATA_OPTIONAL,
    .make = make_reader,
};

/* What the reader hashes and reads with this data, in the list. */
static fb_status read_data(const char *data, const char *wanted, char hash[FB_HASH_HEX])
{
    const fb_task_env env = env_of(&list);
    fb_bound_task *task = NULL;
    fb_status status;

    reset();
    env_clear(&list);
    wanted_text = wanted;
    assert_int_equal(fb_task_bind_unlisted(&task, &reader), FB_OK);
    if (data != NULL) assert_int_equal(fb_bound_task_set(task, "data", data), FB_OK);
    assert_int_equal(fb_bound_task_bind_data(task), FB_OK);
    (void)snprintf(hash, FB_HASH_HEX, "%s", fb_bound_task_data_sha256(task));
    status = fb_task_make(task, &env);
    fb_bound_task_free(task);
    return status;
}

static void the_hash_of_the_data_is_that_of_what_is_read(void **state)
{
    static const char *const paths[] = {"nouns", "LICENSE"};
    char hash[FB_HASH_HEX], wanted[FB_HASH_HEX];

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(read_data(paths[i], NULL, hash), FB_OK);
        fb_hash_bytes(list.documents[0].context, strlen(list.documents[0].context),
                      wanted);
        assert_string_equal(hash, wanted);
    }
}

static void a_task_is_lent_its_data_and_the_library_alone(void **state)
{
    char hash[FB_HASH_HEX];

    (void)state;
    assert_int_equal(read_data(NULL, "nouns", hash), FB_OK);
    assert_string_equal(hash, "");
    assert_int_equal(read_data(NULL, "LICENSE", hash), FB_DEFECT);
    assert_int_equal(read_data("README.md", "LICENSE", hash), FB_DEFECT);
    assert_non_null(
        strstr(fb_error_message(), "a task reads 'LICENSE', which is not its data"));
}

static void data_that_changed_since_it_was_hashed_is_seen(void **state)
{
    char folder[TEST_PATH];
    const char *path;
    fb_bound_task *task = NULL;

    (void)state;
    test_folder(folder);
    path = test_path(folder, "a.txt");
    test_write(path, "one");
    assert_int_equal(fb_task_bind_unlisted(&task, &reader), FB_OK);
    assert_ok(fb_bound_task_set(task, "data", path));
    assert_ok(fb_bound_task_bind_data(task));
    assert_ok(fb_bound_task_check_data(task));
    test_write(path, "two");
    assert_fails(fb_bound_task_check_data(task), FB_IO, "changed while it was read");
    fb_bound_task_free(task);
    test_folder_remove(folder);
}

static void a_hash_belongs_to_data(void **state)
{
    fb_bound_task *task = NULL;
    char other[FB_HASH_HEX], expression[256];

    (void)state;
    refuses("continuation:sha256=12",
            "task 'continuation': sha256=12: 64 digits of 0 to 9 and a to f");
    fb_hash_bytes("other", 5, other);
    (void)snprintf(expression, sizeof expression, "needle:sha256=%s", other);
    refuses(expression, "task 'needle': it reads no data; 'sha256' has no meaning");
    (void)snprintf(expression, sizeof expression, "continuation:sha256=%s", other);
    refuses(expression, "task 'continuation': sha256 is that of data, which is "
                        "missing");
    (void)snprintf(expression, sizeof expression, "continuation:sha256=%s,sha256=%s",
                   other, other);
    refuses(expression, "task 'continuation': 'sha256' is given twice");
    (void)snprintf(expression, sizeof expression, "jsonl:data=LICENSE,sha256=%s",
                   other);
    assert_int_equal(fb_task_parse(&task, expression), FB_OK);
    assert_int_equal(fb_bound_task_bind_data(task), FB_USAGE);
    assert_non_null(strstr(fb_error_message(), "but the data 'LICENSE' has "));
    fb_bound_task_free(task);
    assert_int_equal(fb_task_parse(&task, "jsonl:data=/nowhere/x"), FB_OK);
    assert_int_equal(fb_bound_task_bind_data(task), FB_NOT_FOUND);
    assert_non_null(strstr(fb_error_message(), "task 'jsonl': '/nowhere/x': cannot"));
    fb_bound_task_free(task);
}

/* --- the template to copy --- */

extern const fb_task fb_task_template;

static void the_template_is_a_working_task(void **state)
{
    const fb_task_env env = env_of(&list);
    fb_bound_task *task = NULL;

    (void)state;
    assert_int_equal(fb_task_bind_unlisted(&task, &fb_task_template), FB_OK);
    assert_int_equal(fb_bound_task_set(task, "things", "64"), FB_OK);
    assert_int_equal(fb_task_make(task, &env), FB_OK);
    fb_bound_task_free(task);
    assert_int_equal(list.n, 10);
    for (int i = 0; i < list.n; i++) {
        const env_probe *probe = &list.documents[i].probes[0];
        char sentence[200];

        (void)snprintf(sentence, sizeof sentence, "%s%s.", probe->prefix,
                       probe->answer);
        assert_memory_equal(list.documents[i].context + probe->evidence.begin, sentence,
                            strlen(sentence));
    }
}

static void the_library_has_texts_and_word_lists(void **state)
{
    char word[16];
    fb_random random;

    (void)state;
    for (int i = 0; i < fb_library_count(); i++) {
        const fb_library_text *text = fb_library_at(i);

        assert_ptr_equal(fb_library_find(text->name), text);
        assert_true(text->title[0] != 0);
        assert_true(strlen(text->text) > 1000);
        assert_true(text->text[strlen(text->text) - 1] == '\n');
    }
    assert_null(fb_library_find("no such text"));
    fb_random_seed(&random, 1, 1);
    for (int i = 0; i < 1000; i++) {
        fb_library_word(fb_library_find("nouns")->text, &random, word, sizeof word);
        assert_true(strlen(word) > 1);
        assert_null(strpbrk(word, " \n\r"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_listed_task_is_complete),
        cmocka_unit_test(the_canonical_text_writes_all_defaults_out),
        cmocka_unit_test(pairs_set_one_by_one_give_the_same_task),
        cmocka_unit_test(wrong_expressions_are_refused_with_the_way_out),
        cmocka_unit_test(the_deciding_metric_follows_the_parameter),
        cmocka_unit_test_teardown(a_broken_document_never_gets_out, clear),
        cmocka_unit_test_teardown(an_empty_context_needs_something_before_it, clear),
        cmocka_unit_test(a_stop_from_outside_is_passed_on),
        cmocka_unit_test_teardown(thousands_of_keys_stay_unique, clear),
        cmocka_unit_test_teardown(the_hash_of_the_data_is_that_of_what_is_read, clear),
        cmocka_unit_test_teardown(a_task_is_lent_its_data_and_the_library_alone, clear),
        cmocka_unit_test(data_that_changed_since_it_was_hashed_is_seen),
        cmocka_unit_test(a_hash_belongs_to_data),
        cmocka_unit_test_teardown(the_template_is_a_working_task, clear),
        cmocka_unit_test(the_library_has_texts_and_word_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
