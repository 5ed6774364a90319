/* test_experiment_plan.c - documents, samples, cells.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_folder.h"

/* A plan of the records of a file, with settings behind. */
static void plan_records(const char *records, const char *settings)
{
    char path[TEST_PATH + 16], text[2048];

    (void)snprintf(path, sizeof path, "%s/d.jsonl", folder);
    test_write(path, records);
    (void)snprintf(text, sizeof text,
                   "model: builtin\nrules: [full, random]\nbudgets: [50%%]\n"
                   "tasks: ['jsonl:data=%s']\n%s",
                   path, settings);
    small_open(&s, text);
}

static void the_grid_has_a_cell_for_each_combination(void **state)
{
    fb_cell *cells = NULL;
    int64_t all = 0;
    int n = 0;

    (void)state;
    small_open(&s, SMALL_TEXT "seeds: [7, 8, 9]\n");
    assert_int_equal(s.plan->n_documents, 2);
    assert_int_equal(s.plan->n_samples, 2);
    assert_ok(fb_plan_cells(s.plan, 0, NULL, &cells, &n));
    /* full once, random per budget and seed, h2o per budget */
    assert_int_equal(n, 1 + 2 * 3 + 2);
    assert_int_equal(cells[0].budget, -1);
    assert_int_equal(cells[0].seed, 0);
    assert_int_equal(cells[0].k, 64);
    assert_int_equal(cells[1].seed, 7);
    assert_int_equal(cells[3].seed, 9);
    assert_int_equal(cells[1].k, 32);
    assert_int_equal(cells[n - 1].seed, 0);
    assert_int_equal(cells[n - 1].k, 16);
    fb_free(cells);
    assert_ok(fb_plan_count(s.plan, NULL, &all));
    assert_int_equal(all, 2 * n);
}

static int64_t count(const char *only)
{
    fb_filter *filter = NULL;
    int64_t n = 0;

    assert_ok(fb_filter_parse(&filter, only));
    assert_ok(fb_plan_count(s.plan, filter, &n));
    fb_filter_free(filter);
    return n;
}

static void filters_choose_cells(void **state)
{
    fb_filter *filter = NULL;

    (void)state;
    small_open(&s, SMALL_TEXT "seeds: [7, 8]\n");
    assert_int_equal(count("rule=full"), 2);
    assert_int_equal(count("rule=r*"), 2 * 2 * 2);
    assert_int_equal(count("rule=h?o,budget=50%"), 2);
    assert_int_equal(count("budget=full"), 2);
    assert_int_equal(count("seed=8"), 2 * 2);
    assert_int_equal(count("rule=full,rule=h2o"), 2 + 4);
    assert_int_equal(count("task=recall,sample=recall/0,rule=h2o"), 2);
    assert_int_equal(count("task=needle"), 0);
    assert_int_equal(count("rule=h2o,rules=full"), 0);
    assert_fails(fb_filter_parse(&filter, "ruel=a"), FB_USAGE, "did you mean 'rule'");
    assert_fails(fb_filter_parse(&filter, "h2o"), FB_USAGE, "KEY=PATTERN");
    assert_fails(fb_filter_parse(&filter, ""), FB_USAGE, "KEY=PATTERN");
}

static void patterns_of_filters_are_those_of_shells(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool passes;
    } rows[] = {
        {"rule=*", "", true},
        {"rule=a*c", "abbc", true},
        {"rule=a*c", "abb", false},
        {"rule=?", "a", true},
        {"rule=?", "", false},
        {"rule=**b*", "ab", true},
        {"rule=a*b*c", "axbxbc", true},
        {"rule=f(a,b)", "f(a,b)", true},
        {"rule=a:b=1,c=2", "a:b=1,c=2", true},
        {"rule=a:b=1,c=2,seed=1", "a:b=1,c=2", true},
        {"rule=a:b=1,c=2,seed=1", "a:b=1", false},
        {"rule=f(a,rule=b)", "f(a,rule=b)", true},
        {"rule=a,rule=b,c", "b,c", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fb_filter *filter = NULL;

        assert_ok(fb_filter_parse(&filter, rows[i].pattern));
        assert_int_equal(fb_filter_passes(filter, "rule", rows[i].text),
                         rows[i].passes);
        assert_true(fb_filter_passes(filter, "task", rows[i].text));
        fb_filter_free(filter);
    }
}

static void equal_contexts_share_one_reading(void **state)
{
    const fb_plan_sample *samples;

    (void)state;
    plan_records("{\"key\": \"a\", \"context\": \"A0B1\", \"question\": \"?A\", "
                 "\"answer\": \"0\"}\n"
                 "{\"key\": \"x\", \"context\": \"C0D1\", \"question\": \"?C\", "
                 "\"answer\": \"0\"}\n"
                 "{\"key\": \"b\", \"context\": \"A0B1\", \"question\": \"?B\", "
                 "\"answer\": \"1\"}\n",
                 "");
    assert_int_equal(s.plan->n_documents, 2);
    assert_int_equal(s.plan->n_samples, 3);
    assert_int_equal(s.plan->documents[0].n_samples, 2);
    samples = &s.plan->samples[s.plan->documents[0].first_sample];
    assert_string_equal(samples[0].key, "a");
    assert_string_equal(samples[1].key, "b");
    assert_string_not_equal(samples[0].tokens_sha256, samples[1].tokens_sha256);
    assert_true(s.plan->documents[0].stream != s.plan->documents[1].stream);
}

static void under_aware_the_question_belongs_to_the_context(void **state)
{
    const char *record =
        "{\"key\": \"a\", \"context\": \"A0B1\", \"question\": \"?????A\", "
        "\"answer\": \"0\"}\n";
    int64_t unseen;

    (void)state;
    plan_records(record, "");
    unseen = s.plan->documents[0].context.n;
    assert_int_equal(unseen, 5); /* BOS and four */
    assert_int_equal(s.plan->samples[0].prompt.n, 6);
    assert_int_equal(s.plan->documents[0].protect_last, 0);
    small_close(&s);
    plan_records(record, "protocol: {query: aware}\n");
    assert_int_equal(s.plan->documents[0].context.n, unseen + 5);
    assert_int_equal(s.plan->documents[0].protect_last, 5);
    assert_int_equal(s.plan->samples[0].prompt.n, 1); /* something is read afterwards */
    small_close(&s);
    plan_records(record, "protocol: {query: aware, protect_question: off}\n");
    assert_int_equal(s.plan->documents[0].protect_last, 0);
}

static void long_contexts_are_cut_in_the_middle(void **state)
{
    static char record[20000];
    const fb_plan_document *d;
    int64_t most;

    (void)state;
    (void)snprintf(
        record, sizeof record,
        "{\"key\": \"a\", \"context\": \"A%017000dB\", \"question\": \"?A\", "
        "\"answer\": \"0\", \"max_tokens\": 2}\n",
        0);
    plan_records(record, "");
    d = &s.plan->documents[0];
    most = fb_model_get_facts(s.model)->context_length - 2 - 2;
    assert_int_equal(d->context.n, most / 2 * 2);
    assert_int_equal(d->cut_tokens, 1 + 1 + 17000 + 1 - d->context.n);
    assert_int_equal(s.plan->tasks[0].cut, 1);
    assert_int_equal(d->context.ids[0], 0);                     /* BOS stays */
    assert_int_equal(d->context.ids[1], 16);                    /* A */
    assert_int_equal(d->context.ids[d->context.n - 1], 16 + 1); /* B */
}

static void evidence_is_placed_in_tokens(void **state)
{
    (void)state;
    small_open(&s,
               "model: builtin\ntasks: [{recall: {tokens: 20, pairs: 3, samples: 1}}]\n"
               "rules: [full]\n");
    assert_int_equal(s.plan->samples[0].n_evidence, 1);
    for (int i = 0; i < s.plan->n_samples; i++) {
        const fb_plan_sample *sample = &s.plan->samples[i];
        const fb_ids *context = &s.plan->documents[0].context;
        const int64_t first = sample->evidence[0].begin, last = sample->evidence[0].end;

        assert_true(0 < first && first < last && last <= context->n);
        /* the value that is asked for stands there */
        assert_int_equal(context->ids[last - 1], sample->answer.ids[0]);
    }
}

static void records_that_cannot_be_used_are_refused_or_counted(void **state)
{
    const char *records =
        "{\"key\": \"bad\", \"context\": \"A0\", \"question\": \"\", \"answer\": "
        "\"0\"}\n"
        "{\"key\": \"good\", \"context\": \"A0\", \"question\": \"?A\", \"answer\": "
        "\"0\"}\n";
    char path[TEST_PATH + 16], text[2048];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/d.jsonl", folder);
    test_write(path, records);
    (void)snprintf(text, sizeof text,
                   "model: builtin\nrules: [full]\ntasks: ['jsonl:data=%s']\n", path);
    assert_fails(small_try(&s, text), FB_FORMAT, "d.jsonl:1: sample 'bad'");
    small_close(&s);
    plan_records(records, "data: {bad_records: skip}\n");
    assert_int_equal(s.plan->tasks[0].rejected, 1);
    assert_int_equal(s.plan->n_samples, 1);
    assert_non_null(strstr(s.plan->tasks[0].first_rejection, "bad"));
}

static void byte_budgets_are_checked_against_the_model(void **state)
{
    (void)state;
    assert_fails(small_try(&s, "model: builtin\nrules: [random]\ntasks: [recall]\n"
                               "budgets: [1000B]\n"),
                 FB_BUDGET, "budget of 1000 B is below one entry per head (1.0 KiB)");
    small_close(&s);
    assert_fails(small_try(&s, "model: builtin\nrules: [random]\ntasks: [recall]\n"
                               "budgets: [12KiB]\n"),
                 FB_BUDGET, "budget of 12.0 KiB or 12 tokens per head");
}

static void the_template_in_the_experiment_is_known_or_refused(void **state)
{
    (void)state;
    assert_fails(small_try(&s, SMALL_TEXT "---\n"), FB_FORMAT, "");
    small_close(&s);
    assert_fails(small_try(&s, "model: {file: builtin, template: mine}\nrules: [full]\n"
                               "tasks: [recall]\n"),
                 FB_USAGE, "mine");
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_folder, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_grid_has_a_cell_for_each_combination),
        test(filters_choose_cells),
        test(patterns_of_filters_are_those_of_shells),
        test(equal_contexts_share_one_reading),
        test(under_aware_the_question_belongs_to_the_context),
        test(long_contexts_are_cut_in_the_middle),
        test(evidence_is_placed_in_tokens),
        test(records_that_cannot_be_used_are_refused_or_counted),
        test(byte_budgets_are_checked_against_the_model),
        test(the_template_in_the_experiment_is_known_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
