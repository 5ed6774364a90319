/* test_analysis_tables.c - which rows and samples a table has, and what they cost.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_parts.h"
#include "tests/support/analysed.h"

/* --- rows and samples --- */

static void a_table_has_every_rule_once_and_full_first(void **state)
{
    struct fixture *f = *state;

    analyse_plain(f);
    assert_int_equal(f->analysis->n_tables, 4);
    for (int t = 0; t < 4; t++) {
        const fb_table *table = &f->analysis->tables[t];

        assert_int_equal(table->n_rows, 4);
        assert_int_equal(table->n_samples, 8);
        assert_int_equal(table->n_documents, 8);
        assert_int_equal(table->n_left_out, 0);
        assert_string_equal(f->results->rules[table->rows[0].rule].label, "full");
        for (int r = 2; r < 4; r++) /* lower is better */
            assert_true(table->rows[r - 1].mean < table->rows[r].mean);
        assert_int_equal(table->baseline, 3);
    }
}

static void costs_are_means_over_the_cells(void **state)
{
    struct fixture *f = *state;
    const fb_row *full, *row;

    analyse_plain(f);
    full = &f->analysis->tables[0].rows[0];
    row = &f->analysis->tables[0].rows[1];
    assert_near(row->filled, 1, 0);
    assert_near(row->kept_bytes, 400 * 128, 0);
    assert_near(row->budget_bytes, 400 * 128, 0);
    assert_near(row->full_bytes, 2000 * 128, 0);
    assert_near(full->kept_bytes, 2000 * 128, 0);
    assert_near(row->held_bytes, 400 * 128, 0);
    assert_near(row->peak_bytes, 2000 * 128, 0);
    assert_near(row->extra_flops, 4.0 / 2000, 1e-15);
    assert_near(full->extra_flops, 0, 0);
    assert_near(row->extra_most, 4.0 / 2000, 1e-15);
    assert_near(row->fused_flops, 300.0 / 2000, 1e-15);
    assert_near(row->step_bytes, 1e6, 0);
    assert_true(isnan(row->step_flops));
    assert_true(isnan(row->em));
    assert_near(row->kl, row->mean, 0);
}

static void without_a_store_only_the_ledgers_are_unknown(void **state)
{
    struct fixture *f = *state;

    results_put_trial(f->store, &plain);
    assert_ok(fb_store_read(f->store, NULL, &f->results));
    assert_ok(fb_analyse(&f->analysis, NULL, f->results, &quick));
    assert_true(isnan(f->analysis->tables[0].rows[1].extra_flops));
    assert_near(f->analysis->tables[0].rows[1].filled, 1, 0);
}

static double failing_value(const struct results_trial *trial, int task, int rule,
                            int budget, int document)
{
    if (rule == 2 && document == 3 && budget == 0) return (double)NAN;
    return plain_value(trial, task, rule, budget, document);
}

static void a_sample_that_one_rule_failed_is_left_out_for_all(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = plain;

    trial.value = failing_value;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_int_equal(f->analysis->tables[0].n_samples, 7);
    assert_int_equal(f->analysis->tables[0].n_left_out, 1);
    assert_int_equal(f->analysis->tables[0].rows[0].n, 7);
    assert_int_equal(f->analysis->tables[1].n_samples, 8);
}

static double absent_value(const struct results_trial *trial, int task, int rule,
                           int budget, int document)
{
    if (rule == 2) return (double)NAN;
    return plain_value(trial, task, rule, budget, document);
}

static void a_rule_that_always_failed_has_no_row(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = plain;

    trial.value = absent_value;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_int_equal(f->analysis->tables[0].n_rows, 3);
    assert_int_equal(f->analysis->tables[0].n_samples, 8);
}

static double nothing(const struct results_trial *trial, int task, int rule, int budget,
                      int document)
{
    (void)trial, (void)task, (void)budget, (void)document;
    return rule == 0 ? 0 : (double)NAN;
}

static void without_a_finished_rule_there_is_no_table(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = plain;
    char *text;

    trial.value = nothing;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_int_equal(f->analysis->n_tables, 0);
    assert_string_equal(f->analysis->headline,
                        "Nothing was compared: no sample is finished under random and "
                        "another rule; random: 8 of 8 cells failed (first: on "
                        "purpose).");
    assert_string_equal(f->analysis->paragraph, "");
    assert_int_equal(f->analysis->n_failures, 2 * 2 * 3); /* every rule but full */
    assert_int_equal(f->analysis->n_done, 2 * 8);
    for (int format = 0; format < 3; format++) {
        assert_ok(fb_analysis_print(f->analysis, (fb_format)format, &text));
        fb_free(text);
    }
}

/* Two questions on each of four documents: eight samples, four documents. */
static void samples_of_one_document_are_resampled_together(void **state)
{
    struct fixture *f = *state;
    const struct results_ids ids = results_begin(f->store, "random");
    const int64_t task = results_task(f->store, "needle", "kl", true);
    const int64_t rules[] = {results_rule(f->store, "random", "random"),
                             results_rule(f->store, "x", "x")};
    const int64_t budget = results_budget(f->store, "20%");

    for (int s = 0; s < 8; s++) {
        char key[32], group[32];
        const fb_store_sample sample = {
            .task = task, .key = key, .group = group, .tokens_sha256 = key};
        int64_t id;

        (void)snprintf(key, sizeof key, "%d/%d", s / 2, s % 2);
        (void)snprintf(group, sizeof group, "doc %d", s / 2);
        assert_ok(fb_store_put_sample(f->store, &sample, &id));
        for (int r = 0; r < 2; r++)
            results_put_cell(f->store, &plain,
                             results_cell(&ids, id, rules[r], budget, 0.2), s + 10 * r);
    }
    analyse(f);
    assert_int_equal(f->analysis->tables[0].n_samples, 8);
    assert_int_equal(f->analysis->tables[0].n_documents, 4);
    assert_near(f->analysis->tables[0].rows[1].p, 2.0 / 16, 0);
}

static void seeds_are_averaged_within_a_sample(void **state)
{
    struct fixture *f = *state;
    const struct results_ids ids = results_begin(f->store, "random");
    const int64_t task = results_task(f->store, "needle", "kl", true);
    const int64_t random = results_rule(f->store, "random", "random");
    const int64_t x = results_rule(f->store, "x", "x");
    const int64_t budget = results_budget(f->store, "20%");

    for (int s = 0; s < 8; s++) {
        const int64_t sample = results_sample(f->store, task, s);

        for (int64_t seed = 1; seed <= 3; seed++) {
            fb_store_cell cell = results_cell(&ids, sample, random, budget, 0.2);

            cell.seed = seed;
            results_put_cell(f->store, &plain, cell, s + (double)seed);
        }
        results_put_cell(f->store, &plain, results_cell(&ids, sample, x, budget, 0.2),
                         s);
    }
    analyse(f);
    assert_near(f->analysis->tables[0].rows[1].mean, 3.5 + 2, 1e-15);
    assert_near(f->analysis->tables[0].rows[1].n_seeds, 3, 0);
    assert_near(f->analysis->tables[0].rows[0].difference, -2, 1e-15);
    assert_non_null(strstr(f->analysis->signature, "|n:8|s:3|"));
}

static void a_rule_without_any_choice_is_marked_and_not_ranked(void **state)
{
    struct fixture *f = *state;
    const struct results_ids ids = results_begin(f->store, "random");
    const int64_t task = results_task(f->store, "needle", "kl", true);
    const char *const names[] = {"random", "x", "tight"};
    char *text;

    for (int s = 0; s < 8; s++)
        for (int r = 0; r < 3; r++) {
            fb_store_cell cell =
                results_cell(&ids, results_sample(f->store, task, s),
                             results_rule(f->store, names[r], names[r]),
                             results_budget(f->store, "20%"), 0.2);

            if (r == 2) cell.free_choices = 0;
            cell.fallback = r == 1 && s < 2;
            results_put_cell(f->store, &plain, cell, 2 - r);
        }
    analyse(f);
    assert_string_equal(f->results->rules[f->analysis->tables[0].rows[0].rule].label,
                        "tight");
    assert_int_equal(f->analysis->tables[0].rows[0].verdict, FB_VERDICT_reference);
    assert_string_equal(f->analysis->tables[0].rows[0].letters, "");
    assert_int_equal(f->analysis->tables[0].rows[1].verdict, FB_VERDICT_better);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    assert_non_null(
        strstr(text, "\ntight: 8 cells had no entry to choose: not ranked\n"));
    assert_non_null(strstr(text, "\nx: 2 cells used the fallback"));
    fb_free(text);
}

/* --- what was lost --- */

static void make_anew(struct fixture *f)
{
    fb_analysis_free(f->analysis);
    fb_results_free(f->results);
    fb_store_close(f->store);
    f->analysis = NULL;
    f->results = NULL;
    assert_int_equal(unlink(f->path), 0);
    assert_ok(fb_store_open(&f->store, f->path));
}

static double points_value(const struct results_trial *trial, int task, int rule,
                           int budget, int document)
{
    return 40 + 4 * (document % 3) -
           100 * plain_value(trial, task, rule, budget, document) / 5;
}

/* The difference from the full cache as baseline is what was lost, the other way round. */
static void what_was_lost_is_the_difference_from_the_full_cache(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = plain;

    trial.value = points_value;
    trial.metric = "f1";
    trial.higher_is_better = true;
    trial.baseline = "full";
    results_put_trial(f->store, &trial);
    analyse(f);
    for (int t = 0; t < f->analysis->n_tables; t++)
        for (int r = 0; r < 4; r++) {
            const fb_row *row = &f->analysis->tables[t].rows[r];

            assert_near(row->lost, -row->difference, 0);
            assert_near(row->lost_interval.low, -row->difference_interval.high, 1e-12);
            assert_near(row->lost_interval.high, -row->difference_interval.low, 1e-12);
            assert_near(row->share, row->mean / f->analysis->tables[t].rows[0].mean, 0);
            assert_true(row->share_interval.low <= row->share);
            assert_true(row->share <= row->share_interval.high);
        }
    assert_near(f->analysis->tables[0].rows[0].share_interval.low, 1, 0);
}

static void a_loss_in_nats_is_no_share(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = plain;
    const fb_row *row;

    trial.metric = "nll";
    results_put_trial(f->store, &trial);
    analyse(f);
    row = &f->analysis->tables[0].rows[1];
    assert_near(row->lost, row->mean, 1e-15); /* the full cache's are 0 */
    assert_near(row->lost_interval.high, row->mean_interval.high, 1e-15);
    assert_true(isnan(row->share) && isnan(row->share_interval.low));
}

static void without_the_full_cache_only_kl_is_known_to_be_lost(void **state)
{
    static const char *const some[] = {"random", "x"};
    struct fixture *f = *state;
    struct results_trial trial = plain;

    trial.rules = some;
    trial.n_rules = 2;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_near(f->analysis->tables[0].rows[0].lost,
                f->analysis->tables[0].rows[0].mean, 0);
    make_anew(f);
    trial.metric = "nll";
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_true(isnan(f->analysis->tables[0].rows[0].lost));
}

/* --- two rows --- */

static const fb_row *row_of(const struct fixture *f, int table, const char *label)
{
    const fb_table *at = &f->analysis->tables[table];

    for (int r = 0; r < at->n_rows; r++)
        if (strcmp(f->results->rules[at->rows[r].rule].label, label) == 0)
            return &at->rows[r];
    fail_msg("no row '%s'", label);
    return NULL;
}

/* Within a table a pair is what the table says of a row and the baseline. */
static void a_pair_is_compared_as_its_table_does(void **state)
{
    struct fixture *f = *state;
    const fb_table *table;
    fb_pair pair;

    analyse_plain(f);
    table = &f->analysis->tables[0];
    for (int r = 0; r < table->n_rows; r++) {
        const fb_row *row = &table->rows[r];

        assert_ok(fb_analysis_pair(&pair, f->analysis, table, row, table,
                                   &table->rows[table->baseline]));
        assert_int_equal(pair.n_samples, table->n_samples);
        assert_int_equal(pair.n_documents, table->n_documents);
        assert_near(pair.difference, row->difference, 0);
        assert_near(pair.interval.low, row->difference_interval.low, 0);
        assert_near(pair.interval.high, row->difference_interval.high, 0);
        if (!isnan(row->p)) assert_near(pair.p, row->p, 0);
    }
}

/* One cell of the first budget failed: that document counts in neither. */
static void across_budgets_a_pair_has_the_common_samples(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = plain;
    const fb_table *first, *second;
    fb_pair pair;

    trial.value = failing_value;
    results_put_trial(f->store, &trial);
    analyse(f);
    first = &f->analysis->tables[0];
    second = &f->analysis->tables[1];
    assert_int_equal(first->task, second->task);
    for (int turn = 0; turn < 2; turn++) {
        assert_ok(fb_analysis_pair(
            &pair, f->analysis, turn == 0 ? first : second, row_of(f, turn, "snapkv"),
            turn == 0 ? second : first, row_of(f, 1 - turn, "snapkv")));
        assert_int_equal(pair.n_samples, 7);
        assert_int_equal(pair.n_documents, 7);
        /* 0.1 less at the larger budget, whatever the document */
        assert_near(pair.difference, turn == 0 ? 0.1 : -0.1, 1e-12);
        assert_near(pair.p, 2.0 / 128, 0);
    }
}

/* --- other experiments in the file --- */

static void copy_rows(const struct fixture *f, fb_row out[4][4])
{
    for (int t = 0; t < 4; t++)
        for (int r = 0; r < 4; r++)
            out[t][r] = *row_of(f, t, labels[r]);
}

/* Rules have another order where another experiment has put them there before. */
static void numbers_do_not_depend_on_what_else_is_in_the_file(void **state)
{
    struct fixture *f = *state;
    fb_row alone[4][4], beside[4][4];

    analyse_plain(f);
    copy_rows(f, alone);
    make_anew(f);
    for (int r = 3; r >= 0; r--)
        (void)results_rule(f->store, labels[r], labels[r]);
    analyse_plain(f);
    assert_string_equal(f->results->rules[0].label, labels[3]);
    copy_rows(f, beside);
    for (int t = 0; t < 4; t++)
        for (int r = 0; r < 4; r++) {
            const fb_row *a = &alone[t][r], *b = &beside[t][r];

            assert_near(a->mean_interval.low, b->mean_interval.low, 0);
            assert_near(a->mean_interval.high, b->mean_interval.high, 0);
            assert_int_equal(isnan(a->p_holm), isnan(b->p_holm));
            if (!isnan(a->p_holm)) assert_near(a->p_holm, b->p_holm, 0);
            assert_string_equal(a->letters, b->letters);
        }
}

/* --- the baseline --- */

static const char *baseline_of(struct fixture *f, const char *asked, const char *stored)
{
    struct results_trial trial = plain;
    fb_analysis_options options = quick;

    if (f->results == NULL) {
        trial.baseline = stored;
        results_put_trial(f->store, &trial);
        assert_ok(fb_store_read(f->store, NULL, &f->results));
    }
    options.baseline = asked;
    fb_analysis_free(f->analysis);
    assert_ok(fb_analyse(&f->analysis, f->store, f->results, &options));
    return f->results->rules[f->analysis->baseline].label;
}

static void the_baseline_is_the_one_asked_for_else_the_stored_one(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(baseline_of(f, "full", "snapkv"), "full");
    assert_string_equal(baseline_of(f, NULL, "snapkv"), "snapkv");
}

static void else_it_is_random(void **state)
{
    assert_string_equal(baseline_of(*state, NULL, NULL), "random");
}

static void an_unknown_baseline_gets_a_suggestion(void **state)
{
    struct fixture *f = *state;
    fb_analysis_options options = quick;

    results_put_trial(f->store, &plain);
    assert_ok(fb_store_read(f->store, NULL, &f->results));
    options.baseline = "snapvk";
    assert_int_equal(fb_analyse(&f->analysis, f->store, f->results, &options),
                     FB_NOT_FOUND);
    assert_string_equal(fb_error_message(),
                        "no rule 'snapvk' in these results; did you mean 'snapkv'?");
    options.baseline = "elephant";
    assert_int_equal(fb_analyse(&f->analysis, f->store, f->results, &options),
                     FB_NOT_FOUND);
    assert_non_null(strstr(fb_error_message(), "\nhelp: there are  full  random  "));
    assert_null(f->analysis);
}

static void every_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    fb_status status = FB_NO_MEMORY;
    size_t before;
    int64_t n;

    results_put_trial(f->store, &plain);
    assert_ok(fb_store_read(f->store, NULL, &f->results));
    before = fb_memory_now(FB_ACCOUNT_other);
    for (n = 1; status != FB_OK; n += 1 + n / 20) {
        char *text = NULL;

        fb_memory_fail_at(n);
        status = fb_analyse(&f->analysis, f->store, f->results, &quick);
        if (status == FB_OK)
            status = fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text);
        fb_memory_fail_at(0);
        fb_free(text);
        fb_analysis_free(f->analysis);
        f->analysis = NULL;
        assert_true(status == FB_OK || status == FB_NO_MEMORY);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    }
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_table_has_every_rule_once_and_full_first),
        test(costs_are_means_over_the_cells),
        test(without_a_store_only_the_ledgers_are_unknown),
        test(a_sample_that_one_rule_failed_is_left_out_for_all),
        test(a_rule_that_always_failed_has_no_row),
        test(without_a_finished_rule_there_is_no_table),
        test(samples_of_one_document_are_resampled_together),
        test(seeds_are_averaged_within_a_sample),
        test(a_rule_without_any_choice_is_marked_and_not_ranked),
        test(what_was_lost_is_the_difference_from_the_full_cache),
        test(a_loss_in_nats_is_no_share),
        test(without_the_full_cache_only_kl_is_known_to_be_lost),
        test(a_pair_is_compared_as_its_table_does),
        test(across_budgets_a_pair_has_the_common_samples),
        test(numbers_do_not_depend_on_what_else_is_in_the_file),
        test(the_baseline_is_the_one_asked_for_else_the_stored_one),
        test(else_it_is_random),
        test(an_unknown_baseline_gets_a_suggestion),
        test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
