/* test_analysis_quota.c - what costs more than all were allowed stands apart.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/analysed.h"

static const char *const rules[] = {"full", "random", "x", "dear", "y"};
enum { DEAR = 3, N_RULES = 5 };

/* `dear` is the best of all, y better than random, x worse. */
static double value(const struct results_trial *trial, int task, int rule, int budget,
                    int document)
{
    static const double mean[N_RULES] = {0, 1, 1.3, 0.2, 0.8};

    (void)trial;
    return mean[rule] + task + 0.1 * budget + 0.01 * ((document * 7 + rule) % 5);
}

/* Of 2000; selection costs 2 more. With one document above 5 %, on average below. */
static double signals(int rule, int document)
{
    return rule == DEAR ? (document == 5 ? 99 : 40) : 2;
}

static const struct results_trial trial = {.tasks = tasks,
                                           .rules = rules,
                                           .budgets = budgets,
                                           .n_tasks = 2,
                                           .n_rules = N_RULES,
                                           .n_budgets = 2,
                                           .n_documents = 8,
                                           .metric = "kl",
                                           .baseline = "random",
                                           .value = value,
                                           .signals = signals};

static const fb_row *row_of(const struct fixture *f, const char *label)
{
    const fb_table *table = &f->analysis->tables[0];

    for (int r = 0; r < table->n_rows; r++)
        if (strcmp(f->results->rules[table->rows[r].rule].label, label) == 0)
            return &table->rows[r];
    return NULL;
}

static void analyse_with(struct fixture *f, const struct results_trial *what)
{
    results_put_trial(f->store, what);
    analyse(f);
}

static void one_document_above_the_quota_is_enough(void **state)
{
    struct fixture *f = *state;
    const fb_table *table;
    const fb_row *dear;

    analyse_with(f, &trial);
    table = &f->analysis->tables[0];
    dear = row_of(f, "dear");
    assert_int_equal(table->n_apart, 1);
    assert_ptr_equal(dear, &table->rows[table->n_rows - 1]);
    assert_true(dear->is_over_quota);
    assert_near(dear->extra_flops, (42 * 7 + 101) / 8.0 / 2000, 1e-15);
    assert_near(dear->extra_most, 101.0 / 2000, 1e-15);
    assert_near(f->analysis->quota, 0.05, 1e-15);
    assert_true(isnan(dear->p) && isnan(dear->p_holm));
    assert_string_equal(dear->letters, "");
    assert_int_equal(dear->verdict, FB_VERDICT_reference);
    assert_int_equal(row_of(f, "y")->verdict, FB_VERDICT_better);
    assert_null(strstr(f->analysis->headline, "dear"));
    assert_non_null(strstr(f->analysis->paragraph,
                           "dear costs more than the quota of 5 % of the operations "
                           "that read the context and stands apart."));
}

/* The largest share is not above itself. */
static void a_rule_that_takes_all_of_the_quota_keeps_to_it(void **state)
{
    struct fixture *f = *state;
    struct results_trial what = trial;

    what.compute = "cap5.05";
    analyse_with(f, &what);
    assert_int_equal(f->analysis->tables[0].n_apart, 0);
    assert_int_equal(row_of(f, "dear")->verdict, FB_VERDICT_better);
    assert_string_equal(row_of(f, "dear")->letters, "a");
    assert_non_null(strstr(f->analysis->headline, "dear"));
}

/* Two tested rules: the smallest p is doubled and no more, and letters are of three. */
static void others_are_judged_as_if_it_were_not_there(void **state)
{
    struct fixture *f = *state;

    analyse_with(f, &trial);
    assert_near(row_of(f, "y")->p, 2.0 / 256, 0); /* eight documents, all of one sign */
    assert_near(row_of(f, "y")->p_holm, 2 * row_of(f, "y")->p, 1e-15);
    assert_near(row_of(f, "x")->p_holm, 2 * row_of(f, "x")->p, 1e-15);
    assert_string_equal(row_of(f, "y")->letters, "a");
    assert_string_equal(row_of(f, "random")->letters, "b");
    assert_string_equal(row_of(f, "x")->letters, "c");
}

/* Where extra work is only shown, or the file does not say, all stand together. */
static void without_a_quota_nothing_stands_apart(void **state)
{
    static const char *const others[] = {"report", "report5", "cap", "matched"};
    struct fixture *f = *state;
    struct results_trial what = trial;

    what.compute = others[0];
    analyse_with(f, &what);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        fb_results results = *f->results;

        results.compute = others[i];
        fb_analysis_free(f->analysis);
        assert_ok(fb_analyse(&f->analysis, f->store, &results, &quick));
        assert_int_equal(f->analysis->tables[0].n_apart, 0);
        assert_true(isinf(f->analysis->quota));
        assert_false(row_of(f, "dear")->is_over_quota);
        assert_near(row_of(f, "dear")->p_holm, 3 * row_of(f, "dear")->p, 1e-15);
    }
}

/* Others are measured against it: it stays where it is, and that is said. */
static void a_baseline_does_not_stand_apart(void **state)
{
    struct fixture *f = *state;
    struct results_trial what = trial;
    char *text;

    what.baseline = "dear";
    analyse_with(f, &what);
    assert_int_equal(f->analysis->tables[0].n_apart, 0);
    assert_true(row_of(f, "dear")->is_over_quota);
    assert_int_equal(row_of(f, "y")->verdict, FB_VERDICT_worse);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    assert_non_null(strstr(text, "dear: +5.05 % with the dearest document, above the "
                                 "quota; others are measured against it"));
    fb_free(text);
}

/* What references cost is no rule's choice. */
static void references_are_exempt(void **state)
{
    struct fixture *f = *state;
    struct results_trial what = trial;

    what.compute = "cap0";
    analyse_with(f, &what);
    assert_int_equal(f->analysis->tables[0].n_apart, 3);
    assert_false(row_of(f, "random")->is_over_quota);
    assert_false(row_of(f, "full")->is_over_quota);
    assert_non_null(strstr(f->analysis->headline,
                           "Nothing was compared: no rule was tested against random; "
                           "dear, y and x cost more than the quota of 0 %"));
    assert_null(strstr(f->analysis->paragraph, "beats"));
    assert_non_null(
        strstr(f->analysis->paragraph, "no rule was tested against random"));
}

static void every_format_has_a_section_of_them(void **state)
{
    struct fixture *f = *state;
    char *text, *json, *csv;

    analyse_with(f, &trial);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_JSON, &json));
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_CSV, &csv));
    assert_non_null(strstr(text,
                           "\nAbove the quota of 5 % of the operations that read the "
                           "context, so not compared:\ndear "));
    assert_non_null(strstr(text, "dear: +5.05 % with the dearest document, above the "
                                 "quota\n"));
    assert_non_null(strstr(json, "\"quota\":0.05,"));
    assert_non_null(strstr(json, "],\"above_quota\":[{\"rule\":\"dear\","));
    assert_non_null(strstr(csv, ",dear,dear,kl,nat,above_quota,,8,"));
    fb_free(text);
    fb_free(json);
    fb_free(csv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(one_document_above_the_quota_is_enough),
        test(a_rule_that_takes_all_of_the_quota_keeps_to_it),
        test(others_are_judged_as_if_it_were_not_there),
        test(without_a_quota_nothing_stands_apart),
        test(a_baseline_does_not_stand_apart),
        test(references_are_exempt),
        test(every_format_has_a_section_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
