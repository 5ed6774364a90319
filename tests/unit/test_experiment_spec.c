/* test_experiment_spec.c - files and options become one experiment with one identity.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_experiment.h"

#include <sys/stat.h>

static fb_spec spec;

static int close_spec(void **state)
{
    (void)state;
    fb_spec_clear(&spec);
    return 0;
}

static fb_status parse(const char *text)
{
    fb_spec_clear(&spec);
    FB_TRY(fb_spec_init(&spec));
    return fb_spec_parse(&spec, "e.yaml", text, strlen(text));
}

static void typed(const char *text)
{
    assert_ok(parse(text));
    assert_ok(fb_spec_check(&spec, NULL, NULL));
}

static void hash_of(const char *text, char out[FB_HASH_HEX])
{
    typed(text);
    assert_ok(fb_spec_hash(&spec, out));
}

static void a_file_becomes_rules_tasks_budgets_and_seeds(void **state)
{
    (void)state;
    typed(SMALL_TEXT "seeds: [3, 4]\nstatistics: {confidence: 90 %, margin: 0.5}\n");
    assert_int_equal(spec.n_rules, 3);
    assert_string_equal(spec.rules[2].label, "h2o");
    assert_int_equal(spec.n_tasks, 1);
    assert_int_equal(spec.n_budgets, 2);
    assert_int_equal(spec.budgets[1].numerator * 4, spec.budgets[1].denominator);
    assert_int_equal(spec.n_seeds, 2);
    assert_int_equal(spec.seeds[1], 4);
    assert_string_equal(spec.baseline, "random");
    assert_int_equal(spec.protect.kind, FB_PROTECT_EXPERIMENT);
    assert_int_equal(spec.protect.sink, 1);
    assert_int_equal(spec.protect.recent, 2);
    assert_string_equal(fb_values_text(&spec.values, FB_SET_confidence), "90%");
}

static void labels_are_given_in_both_forms(void **state)
{
    (void)state;
    typed("model: builtin\ntasks: [recall]\nbudgets: [10%]\n"
          "rules:\n  - mine: snapkv:window=16\n  - 'other: adakv(snapkv)'\n");
    assert_string_equal(spec.rules[0].label, "mine");
    assert_string_equal(spec.rules[1].label, "other");
    assert_int_equal(fb_spec_find_rule(&spec, "other"), 1);
    assert_int_equal(fb_spec_find_rule(&spec, "nobody"), -1);
    assert_string_equal(spec.baseline, "mine"); /* no `random`: the first that evicts */
}

static void the_effective_text_is_the_same_experiment(void **state)
{
    char before[FB_HASH_HEX], after[FB_HASH_HEX];
    fb_text text;

    (void)state;
    hash_of(SMALL_TEXT "question: \"a: 'b' # c\"\n", before);
    fb_text_init(&text, 0);
    assert_ok(fb_spec_print(&spec, false, &text));
    hash_of(fb_text_string(&text), after);
    assert_string_equal(before, after);
    fb_text_clear(&text);
    assert_ok(fb_spec_print(&spec, true, &text)); /* for people, comments and all */
    hash_of(fb_text_string(&text), after);
    assert_string_equal(before, after);
    fb_text_clear(&text);
}

static void what_changes_no_result_changes_no_identity(void **state)
{
    char plain[FB_HASH_HEX], other[FB_HASH_HEX];

    (void)state;
    hash_of(SMALL_TEXT, plain);
    hash_of(SMALL_TEXT "threads: 3\nisa: plain\nmemory: {limit: 2GiB}\n"
                       "weights: resident\n",
            other);
    assert_string_equal(plain, other);
    hash_of(SMALL_TEXT "baseline: random\nseeds: [1]\nsamples: all\n", other);
    assert_string_equal(plain, other); /* defaults written out */
    hash_of(SMALL_TEXT "seeds: [2]\n", other);
    assert_string_not_equal(plain, other);
    hash_of(SMALL_TEXT "data: {bad_records: skip}\n", other);
    assert_string_not_equal(plain, other);
    hash_of("name: small\nmodel: {file: builtin, cache: f16}\n" SMALL_REST, other);
    assert_string_not_equal(plain, other);
    hash_of("name: small\nmodel: {file: builtin, cache: f32}\n" SMALL_REST, other);
    assert_string_equal(plain, other);
}

static void the_folder_of_the_model_is_no_part_of_the_identity(void **state)
{
    char here[FB_HASH_HEX], there[FB_HASH_HEX];
    const char *rest = "tasks: [recall]\nrules: [full]\n";
    char text[256];

    (void)state;
    (void)snprintf(text, sizeof text, "model: a.gguf\n%s", rest);
    hash_of(text, here);
    (void)snprintf(text, sizeof text, "model: {file: /some/where/a.gguf}\n%s", rest);
    hash_of(text, there);
    assert_string_equal(here, there);
    (void)snprintf(text, sizeof text, "model: {file: a.gguf, sha256: 00}\n%s", rest);
    hash_of(text, there);
    assert_string_not_equal(here, there);
}

static void a_model_with_another_hash_is_refused(void **state)
{
    fb_model_facts facts = {.sha256 = "1234567890123456"};

    (void)state;
    typed("model: {file: builtin, sha256: abcdefabcdefabcdef}\ntasks: [recall]\n"
          "rules: [full]\n");
    assert_fails(fb_spec_bind_model(&spec, &facts), FB_USAGE, "abcdefabcdef");
    typed("model: builtin\ntasks: [recall]\nrules: [full]\n");
    assert_ok(fb_spec_bind_model(&spec, &facts));
    assert_string_equal(fb_values_text(&spec.values, FB_SET_model_sha256),
                        facts.sha256);
}

/* --- data of tasks --- */

static char folder[TEST_PATH];

static int open_folder(void **state)
{
    (void)state;
    test_folder(folder);
    assert_int_equal(chdir(folder), 0);
    return 0;
}

static int close_folder(void **state)
{
    assert_int_equal(chdir("/"), 0);
    test_folder_remove(folder);
    return close_spec(state);
}

#define ON_DATA(path)                                                                  \
    "model: builtin\ntasks: [{jsonl: {data: " path "}}]\nrules: [full]\n"

static void the_data_is_known_by_its_bytes_and_not_by_its_path(void **state)
{
    char here[FB_HASH_HEX], there[FB_HASH_HEX];

    (void)state;
    assert_int_equal(mkdir("else", 0777), 0);
    test_write("own.jsonl", "{}\n");
    test_write("else/own.jsonl", "{}\n");
    hash_of(ON_DATA("own.jsonl"), here);
    hash_of(ON_DATA("else/own.jsonl"), there);
    assert_string_equal(here, there);
    test_write("else/own.jsonl", "{} \n");
    hash_of(ON_DATA("else/own.jsonl"), there);
    assert_string_not_equal(here, there);
    test_write("other.jsonl", "{}\n");
    hash_of(ON_DATA("other.jsonl"), there);
    assert_string_equal(here, there);
}

static void a_name_in_other_words_counts(void **state)
{
    char one[FB_HASH_HEX], other[FB_HASH_HEX];

    (void)state;
    assert_ok(fb_spec_hash_text("question: \"a:data=x,sha256=1\"\ntasks:\n", one));
    assert_ok(fb_spec_hash_text("question: \"a:data=y,sha256=1\"\ntasks:\n", other));
    assert_string_not_equal(one, other);
    assert_ok(fb_spec_hash_text("model:\n  file: a\n  sha256: auto\n", one));
    assert_ok(fb_spec_hash_text("model:\n  file: b\n  sha256: auto\n", other));
    assert_string_not_equal(one, other);
    assert_ok(fb_spec_hash_text("model:\n  file: a\n  sha256: 12\n", one));
    assert_ok(fb_spec_hash_text("model:\n  file: b\n  sha256: 12\n", other));
    assert_string_equal(one, other);
    assert_ok(fb_spec_hash_text("model:\n  file: b\n  sha256: 13\n", other));
    assert_string_not_equal(one, other);
}

static void the_effective_text_holds_the_data_to_its_hash(void **state)
{
    char before[FB_HASH_HEX], after[FB_HASH_HEX];
    fb_text text;

    (void)state;
    assert_int_equal(mkdir("else", 0777), 0);
    test_write("own.jsonl", "{}\n");
    test_write("else/own.jsonl", "{}\n");
    hash_of(ON_DATA("else/own.jsonl"), before);
    fb_text_init(&text, 0);
    assert_ok(fb_spec_print(&spec, false, &text));
    assert_null(strstr(fb_text_string(&text), "else"));
    hash_of(fb_text_string(&text), after); /* with the data beside it */
    assert_string_equal(before, after);
    test_write("own.jsonl", "{\"changed\": 1}\n");
    assert_ok(parse(fb_text_string(&text)));
    assert_fails(fb_spec_check(&spec, NULL, NULL), FB_USAGE, "e.yaml:");
    assert_non_null(strstr(fb_error_message(), "sha256 is ca3d163bab05..., but the "
                                               "data 'own.jsonl' has "));
    fb_text_clear(&text);
}

static void data_that_cannot_be_read_is_said_with_its_place(void **state)
{
    (void)state;
    assert_ok(parse(ON_DATA("none.jsonl")));
    assert_fails(fb_spec_check(&spec, NULL, NULL), FB_NOT_FOUND,
                 "e.yaml:2:9: task 'jsonl': 'none.jsonl': cannot open");
}

static void a_copy_of_the_data_is_the_same_task(void **state)
{
    (void)state;
    test_write("a.jsonl", "{}\n");
    test_write("b.jsonl", "{}\n");
    assert_ok(parse(ON_DATA("a.jsonl}}, {jsonl: {data: b.jsonl")));
    assert_fails(fb_spec_check(&spec, NULL, NULL), FB_USAGE,
                 "listed twice, with the same data");
    test_write("b.jsonl", "{}\n{}\n");
    typed(ON_DATA("a.jsonl}}, {jsonl: {data: b.jsonl"));
    assert_int_equal(spec.n_tasks, 2);
}

static void changed_data_is_named(void **state)
{
    fb_text before, after, changes;

    (void)state;
    fb_text_init(&before, 0);
    fb_text_init(&after, 0);
    fb_text_init(&changes, 0);
    test_write("own.jsonl", "{}\n");
    typed(ON_DATA("own.jsonl"));
    assert_ok(fb_spec_print(&spec, false, &before));
    test_write("own.jsonl", "{}\n\n");
    typed(ON_DATA("own.jsonl"));
    assert_ok(fb_spec_print(&spec, false, &after));
    assert_ok(fb_spec_changes(before.bytes, after.bytes, &changes));
    assert_non_null(strstr(changes.bytes, "tasks changed (...data=own.jsonl,sha256="
                                          "ca3d163bab05"));
    assert_non_null(strstr(changes.bytes, " -> ...data=own.jsonl,sha256="));
    fb_text_clear(&before);
    fb_text_clear(&after);
    fb_text_clear(&changes);
}

static void an_experiment_has_a_name(void **state)
{
    (void)state;
    assert_ok(parse("name: \"\"\nmodel: builtin\ntasks: [recall]\nrules: [full]\n"));
    assert_fails(fb_spec_check(&spec, NULL, NULL), FB_USAGE,
                 "e.yaml:1:7: the name of the experiment is empty");
}

static void places_are_named(void **state)
{
    (void)state;
    assert_fails(parse("bugets: [10%]\n"), FB_USAGE,
                 "e.yaml:1:1: unknown key 'bugets'; did you mean 'budgets'?");
    assert_fails(parse("protocol:\n  protect: {snk: 3}\n"), FB_USAGE, "e.yaml:2:12");
    assert_fails(parse("seeds: [1, x]\n"), FB_USAGE, "e.yaml:1:12");
    assert_fails(parse("rules: [{a: b, c: d}]\n"), FB_USAGE, "e.yaml:1:9");
    assert_fails(parse("tasks: [{recall: 3}]\n"), FB_USAGE, "{key: value");
    assert_fails(parse("tasks: [{recall: {tokens: {a: b}}}]\n"), FB_USAGE, "parameter");
    assert_fails(parse("samples:\n"), FB_USAGE, "a value is missing");
    assert_fails(parse("claims: [a]\n"), FB_UNSUPPORTED, "e.yaml:1:1");
    assert_fails(parse("- a\n"), FB_FORMAT, "map of keys");
    assert_ok(
        parse("model: builtin\ntasks: [recall]\nbudgets: [20%]\nrules:\n - nix\n"));
    assert_fails(fb_spec_check(&spec, NULL, NULL), FB_USAGE, "e.yaml:5:4: ");
}

static void count_problem(void *self, const char *problem)
{
    int *n = self;

    assert_true(problem[0] != '\0');
    (*n)++;
}

static void every_problem_is_told(void **state)
{
    int n = 0;

    (void)state;
    assert_ok(parse("rules: [snapvk, full, full]\ntasks: [nix]\nbudgets: [abc, 16t]\n"
                    "seeds: [1, 1]\n"));
    assert_int_equal(fb_spec_check(&spec, count_problem, &n), FB_USAGE);
    assert_int_equal(n, 7); /* model, two rules, task, two budgets, seed */
}

static void ranges_of_budgets_are_exact(void **state)
{
    fb_budget *budgets = NULL;
    int n = 0;
    char text[32];

    (void)state;
    assert_ok(fb_budgets_expand("10%..50%+10%", &budgets, &n));
    assert_int_equal(n, 5);
    fb_budget_print(&budgets[2], text, sizeof text);
    assert_string_equal(text, "30%");
    fb_free(budgets);
    assert_ok(fb_budgets_expand("5%..80%*2", &budgets, &n));
    assert_int_equal(n, 5);
    fb_budget_print(&budgets[4], text, sizeof text);
    assert_string_equal(text, "80%");
    fb_free(budgets);
    assert_ok(fb_budgets_expand("64t..256t*2", &budgets, &n));
    assert_int_equal(n, 3);
    fb_free(budgets);
    assert_ok(fb_budgets_expand("10 %..50 %+15 %", &budgets, &n)); /* 10, 25, 40 */
    assert_int_equal(n, 3);
    fb_budget_print(&budgets[2], text, sizeof text);
    assert_string_equal(text, "40%");
    fb_free(budgets);
    assert_ok(fb_budgets_expand("20%..20%*2", &budgets, &n));
    assert_int_equal(n, 1);
    fb_free(budgets);
    assert_ok(fb_budgets_expand("1MiB..4MB*2", &budgets, &n));
    assert_int_equal(n, 2);
    fb_free(budgets);
    assert_ok(fb_budgets_expand("0.1%..0.3%+0.1%", &budgets, &n));
    assert_int_equal(n, 3);
    fb_free(budgets);
    assert_ok(fb_budgets_expand("900000GB..1000000GB*1000000", &budgets, &n));
    assert_int_equal(n, 1);
    fb_free(budgets);
    assert_ok(fb_budgets_expand("900000GB..1000000GB+1000000GB", &budgets, &n));
    assert_int_equal(n, 1);
    fb_free(budgets);
}

static void ranges_that_make_no_sense_are_refused(void **state)
{
    const char *const bad[] = {"10%..50%",
                               "50%..10%+10%",
                               "10%..50t+10%",
                               "10%..50%+0%",
                               "10%..50%*1",
                               "10%..50%*-2",
                               "..",
                               "10%..+10%",
                               "1t..9999t+1t",
                               "10%..50%+5t",
                               "9000000000GB..9223372036GB+9223372036GB"};
    fb_budget *budgets = NULL;
    int n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fb_budgets_expand(bad[i], &budgets, &n), FB_USAGE);
        assert_null(budgets);
    }
    assert_fails(fb_budgets_expand("50%..10%+10%", &budgets, &n), FB_USAGE,
                 "ends before it begins; write 10%..50%+10%");
}

static void token_budgets_below_the_protection_show_the_arithmetic(void **state)
{
    (void)state;
    assert_ok(parse("model: builtin\ntasks: [recall]\nrules: [random]\n"
                    "budgets: [16 tokens]\n"));
    assert_fails(
        fb_spec_check(&spec, NULL, NULL), FB_BUDGET,
        "budget of 16 tokens per head leaves a rule nothing to choose: sinks 4 "
        "+ recent 16 = 20 are protected\nhelp: use at least 21 tokens, or "
        "--protect 4+8");
    typed("model: builtin\ntasks: [recall]\nrules: [random]\nbudgets: [21t]\n");
    typed("model: builtin\ntasks: [recall]\nrules: [random]\nbudgets: [16t]\n"
          "protocol: {protect: none}\n");
}

static void changes_are_listed_by_key(void **state)
{
    fb_text a, b, changes;

    (void)state;
    fb_text_init(&a, 0);
    fb_text_init(&b, 0);
    fb_text_init(&changes, 0);
    typed(SMALL_TEXT);
    assert_ok(fb_spec_print(&spec, false, &a));
    assert_ok(fb_spec_changes(a.bytes, a.bytes, &changes));
    assert_int_equal(changes.n, 0);
    typed(
        "name: small\nmodel: builtin\nbudgets: [50%, 10%]\nrules: [full, random, h2o]\n"
        "tasks: [{recall: {tokens: 64, pairs: 8, samples: 2}}]\n"
        "protocol: {protect: 1+2, query: aware}\n");
    assert_ok(fb_spec_print(&spec, false, &b));
    assert_ok(fb_spec_changes(a.bytes, b.bytes, &changes));
    assert_string_equal(changes.bytes, "budgets changed (50%,25% -> 50%,10%), query "
                                       "changed (agnostic -> aware)");
    fb_text_clear(&a);
    fb_text_clear(&b);
    fb_text_clear(&changes);
}

static void a_general_limit_becomes_the_samples_of_a_task(void **state)
{
    fb_text text;

    (void)state;
    typed("model: builtin\ntasks: [recall]\nrules: [full]\nsamples: 7\n");
    fb_text_init(&text, 0);
    fb_spec_print_task(&spec, 0, false, &text);
    assert_non_null(strstr(fb_text_string(&text), "samples=7"));
    fb_text_clear(&text);
}

static void every_setting_has_words_for_people(void **state)
{
    const fb_option *rows = fb_settings();

    (void)state;
    for (int i = 0; i < FB_SET_COUNT; i++) {
        assert_non_null(rows[i].key);
        assert_true(rows[i].help[0] != '\0' && rows[i].argument != NULL);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(rows[i].key, rows[j].key);
            if (rows[i].letter != 0)
                assert_int_not_equal(rows[i].letter, rows[j].letter);
        }
    }
    assert_true(fb_option_is_end(&rows[FB_SET_COUNT]));
}

static void memory_that_fails_anywhere_is_said_and_leaks_nothing(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_status status = FB_NO_MEMORY;
    int64_t n;

    (void)state;
    for (n = 1; status != FB_OK && n < 5000; n++) {
        fb_spec s = {0};

        fb_memory_fail_at(n);
        status = fb_spec_init(&s);
        if (status == FB_OK)
            status = fb_spec_parse(&s, "small", SMALL_TEXT, strlen(SMALL_TEXT));
        if (status == FB_OK) status = fb_spec_check(&s, NULL, NULL);
        fb_memory_fail_at(0);
        assert_true(status == FB_OK || status == FB_NO_MEMORY);
        fb_spec_clear(&s);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    }
    assert_int_equal(status, FB_OK);
    assert_true(n > 50);
}

#define test(name) cmocka_unit_test_teardown(name, close_spec)
#define test_in_folder(name)                                                           \
    cmocka_unit_test_setup_teardown(name, open_folder, close_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_file_becomes_rules_tasks_budgets_and_seeds),
        test(labels_are_given_in_both_forms),
        test(the_effective_text_is_the_same_experiment),
        test(what_changes_no_result_changes_no_identity),
        test(the_folder_of_the_model_is_no_part_of_the_identity),
        test(a_model_with_another_hash_is_refused),
        test_in_folder(the_data_is_known_by_its_bytes_and_not_by_its_path),
        test_in_folder(a_name_in_other_words_counts),
        test_in_folder(the_effective_text_holds_the_data_to_its_hash),
        test_in_folder(data_that_cannot_be_read_is_said_with_its_place),
        test_in_folder(a_copy_of_the_data_is_the_same_task),
        test_in_folder(changed_data_is_named),
        test(an_experiment_has_a_name),
        test(places_are_named),
        test(every_problem_is_told),
        test(ranges_of_budgets_are_exact),
        test(ranges_that_make_no_sense_are_refused),
        test(token_budgets_below_the_protection_show_the_arithmetic),
        test(changes_are_listed_by_key),
        test(a_general_limit_becomes_the_samples_of_a_task),
        test(every_setting_has_words_for_people),
        test(memory_that_fails_anywhere_is_said_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
