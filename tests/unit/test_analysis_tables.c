/* test_analysis_tables.c - rows, samples and costs of tables; text, JSON and CSV of them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis.h"
#include "tests/support/golden.h"
#include "tests/support/results.h"

#define MINUS "\xe2\x88\x92"

static const char *const tasks[] = {"needle", "continuation"};
static const char *const budgets[] = {"20%", "50%"};
static const char *const labels[] = {"full", "random", "snapkv", "a,\"b\" \xc3\xa9\n"};

static double plain_value(const struct results_trial *trial, int task, int rule,
                          int budget, int document)
{
    (void)trial;
    return rule == 0 ? 0 : 1 + task - 0.3 * rule - 0.1 * budget + 0.01 * document;
}

static const struct results_trial plain = {.tasks = tasks,
                                           .rules = labels,
                                           .budgets = budgets,
                                           .n_tasks = 2,
                                           .n_rules = 4,
                                           .n_budgets = 2,
                                           .n_documents = 8,
                                           .metric = "kl",
                                           .baseline = "random",
                                           .value = plain_value};

static const fb_analysis_options quick = {.replicates = 100, .margin = -1};

struct fixture {
    char path[64];
    fb_store *store;
    const fb_results *results;
    fb_analysis *analysis;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    results_path(f->path);
    must(fb_store_open(&f->store, f->path));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fb_analysis_free(f->analysis);
    fb_results_free(f->results);
    fb_store_close(f->store);
    results_remove(f->path);
    free(f);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), 0);
    return 0;
}

static void analyse(struct fixture *f)
{
    must(fb_store_read(f->store, NULL, &f->results));
    must(fb_analyse(&f->analysis, f->store, f->results, &quick));
}

static void analyse_plain(struct fixture *f)
{
    results_put_trial(f->store, &plain);
    analyse(f);
}

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
    assert_near(row->extra_flops, 4.0 / 2000, 1e-15);
    assert_near(full->extra_flops, 0, 0);
    assert_true(isnan(row->em));
    assert_near(row->kl, row->mean, 0);
}

static void without_a_store_only_the_ledgers_are_unknown(void **state)
{
    struct fixture *f = *state;

    results_put_trial(f->store, &plain);
    must(fb_store_read(f->store, NULL, &f->results));
    must(fb_analyse(&f->analysis, NULL, f->results, &quick));
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
                        "another rule.");
    assert_string_equal(f->analysis->paragraph, "");
    for (int format = 0; format < 3; format++) {
        must(fb_analysis_print(f->analysis, (fb_format)format, &text));
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
    double values[4];

    for (int s = 0; s < 8; s++) {
        char key[8], group[8];
        const fb_store_sample sample = {
            .task = task, .key = key, .group = group, .tokens_sha256 = key};
        int64_t id;

        (void)snprintf(key, sizeof key, "%d/%d", s / 2, s % 2);
        (void)snprintf(group, sizeof group, "doc %d", s / 2);
        must(fb_store_put_sample(f->store, &sample, &id));
        for (int r = 0; r < 2; r++)
            results_put_cell(f->store, &plain,
                             results_cell(&ids, id, rules[r], budget, 0.2), s + 10 * r);
    }
    analyse(f);
    assert_int_equal(f->analysis->tables[0].n_samples, 8);
    assert_int_equal(f->analysis->tables[0].n_documents, 4);
    must(fb_table_values(f->analysis, 0, 0, values));
    for (int d = 0; d < 4; d++)
        assert_near(values[d], 2 * d + 0.5, 0);
    assert_int_equal(fb_table_values(f->analysis, 1, 0, values), FB_USAGE);
    assert_int_equal(fb_table_values(f->analysis, 0, 2, values), FB_USAGE);
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
    must(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    assert_non_null(
        strstr(text, "\ntight: 8 cells had no entry to choose: not ranked\n"));
    assert_non_null(strstr(text, "\nx: 2 cells used the fallback"));
    fb_free(text);
}

/* --- the baseline --- */

static const char *baseline_of(struct fixture *f, const char *asked, const char *stored)
{
    struct results_trial trial = plain;
    fb_analysis_options options = quick;

    if (f->results == NULL) {
        trial.baseline = stored;
        results_put_trial(f->store, &trial);
        must(fb_store_read(f->store, NULL, &f->results));
    }
    options.baseline = asked;
    fb_analysis_free(f->analysis);
    must(fb_analyse(&f->analysis, f->store, f->results, &options));
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
    must(fb_store_read(f->store, NULL, &f->results));
    options.baseline = "snapvk";
    assert_int_equal(fb_analyse(&f->analysis, f->store, f->results, &options),
                     FB_NOT_FOUND);
    assert_string_equal(fb_error_message(),
                        "no rule 'snapvk' in these results; did you mean 'snapkv'");
    assert_null(f->analysis);
}

/* --- text, JSON, CSV --- */

static int width_of(const char *line, size_t n)
{
    int width = 0;

    for (size_t i = 0; i < n; i++)
        width += ((unsigned char)line[i] & 0xc0) != 0x80;
    return width;
}

static void columns_are_aligned_by_characters(void **state)
{
    static const char *const names[] = {"full", "random", "snapkv", "adakv(\xc3\xa9)"};
    struct fixture *f = *state;
    struct results_trial trial = plain;
    char *text;
    int n_lines = 0, width = 0;

    trial.rules = names;
    results_put_trial(f->store, &trial);
    analyse(f);
    must(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    for (const char *line = text; *line != 0; line += strcspn(line, "\n") + 1) {
        const size_t n = strcspn(line, "\n");

        if (n == 0) width = 0;
        for (int r = -1; r < 4; r++) {
            const char *name = r < 0 ? "rule " : names[r];

            if (strncmp(line, name, strlen(name)) != 0) continue;
            if (r >= 0 && width == 0) continue; /* of the paragraph */
            if (r < 0) width = width_of(line, n);
            n_lines++;
            assert_int_equal(width_of(line, n), width);
            assert_true(line[n - 1] != ' ');
        }
    }
    assert_int_equal(n_lines, 4 * 5);
    fb_free(text);
}

static void the_text_says_what_a_person_needs(void **state)
{
    static const char *const words[] = {
        "closed class · prefill, question not seen · tiny",
        "\nneedle · 20 % = 50.0 KiB of 250 KiB (mean) · 8 samples, 8 documents · KL in "
        "nat, lower is better\n",
        "rule ",
        "95 % interval",
        "vs random",
        "p (Holm)",
        "\nsame letter: not distinguishable at 95 %",
        "\nfb1|m:3f2a9c|k:native.f32.kv32|p:prefill.agnostic.original|g:4+16|b:20%,50%|"
        "c:cap5|t:needle.1,continuation.1|n:16|s:1|v:0.1.0\n",
        MINUS "0.30",
        "+0.2 %",
        "0.016",
        "100 %"};
    struct fixture *f = *state;
    char *text;

    analyse_plain(f);
    must(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]) == NULL) fail_msg("no '%s' in:\n%s", words[i], text);
    fb_free(text);
}

static void check_json_row(json_t *got, const struct fixture *f, const fb_row *row)
{
    assert_string_equal(json_string_value(golden_at(got, "rule")),
                        f->results->rules[row->rule].label);
    assert_string_equal(json_string_value(golden_at(got, "group")), row->letters);
    assert_near(golden_number(got, "mean"), row->mean, 0);
    assert_near(golden_number(got, "low"), row->mean_interval.low, 0);
    assert_near(golden_number(got, "difference_high"), row->difference_interval.high,
                0);
    assert_near(golden_number(got, "p_holm"), row->p_holm, 0);
    assert_near(golden_number(got, "extra_flops"), row->extra_flops, 0);
    assert_int_equal(golden_number(got, "n"), 8);
    assert_true(json_is_null(golden_at(got, "em")));
}

/* Names come from files: a terminal must not be told to do anything by them. */
static void names_cannot_reach_the_terminal(void **state)
{
    static const char *const names[] = {"full", "random", "x\x1b[31m\r\ny", "z"};
    struct fixture *f = *state;
    struct results_trial trial = plain;
    char *text;

    trial.rules = names;
    results_put_trial(f->store, &trial);
    analyse(f);
    must(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    for (const char *c = text; *c != 0; c++)
        assert_true((unsigned char)*c >= 0x20 || *c == '\n');
    assert_non_null(strstr(text, "\nx?[31m??y "));
    assert_non_null(strstr(f->analysis->paragraph, "x?[31m??y"));
    fb_free(text);
}

static void json_holds_every_number_in_full(void **state)
{
    struct fixture *f = *state;
    json_t *root, *table, *row;
    size_t t, r;
    char *text;

    analyse_plain(f);
    must(fb_analysis_print(f->analysis, FB_FORMAT_JSON, &text));
    root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_int_equal(golden_number(root, "format"), 1);
    assert_string_equal(json_string_value(golden_at(root, "headline")),
                        f->analysis->headline);
    assert_string_equal(json_string_value(golden_at(root, "digest")),
                        f->results->digest);
    assert_string_equal(json_string_value(golden_at(root, "baseline")), "random");
    assert_int_equal(json_array_size(golden_at(root, "tables")), 4);
    json_array_foreach(golden_at(root, "tables"), t, table)
    {
        assert_int_equal(json_array_size(golden_at(table, "rows")), 4);
        json_array_foreach(golden_at(table, "rows"), r, row)
            check_json_row(row, f, &f->analysis->tables[t].rows[r]);
    }
    json_decref(root);
    fb_free(text);
}

/* The next field of RFC 4180 text into `out`; what ends it is returned. */
static char next_field(const char **at, char out[256])
{
    size_t n = 0;
    bool is_quoted = **at == '"';
    char end;

    if (is_quoted) (*at)++;
    while (**at != 0) {
        if (is_quoted && **at == '"') {
            (*at)++;
            if (**at != '"') is_quoted = false;
        }
        if (!is_quoted && (**at == ',' || **at == '\r')) break;
        assert_true(n < 255);
        out[n++] = *(*at)++;
    }
    out[n] = 0;
    end = **at;
    if (end == '\r') assert_int_equal((*at)[1], '\n');
    *at += end == '\r' ? 2 : 1;
    return end;
}

static void csv_has_one_line_per_row_and_its_numbers(void **state)
{
    struct fixture *f = *state;
    char field[64][256], *text;
    const char *at;
    int n_columns = 0, mean = -1;

    analyse_plain(f);
    must(fb_analysis_print(f->analysis, FB_FORMAT_CSV, &text));
    at = text;
    while (next_field(&at, field[n_columns++]) == ',')
        if (strcmp(field[n_columns - 1], "mean") == 0) mean = n_columns - 1;
    assert_string_equal(field[2], "rule");
    assert_true(mean > 0);
    for (int t = 0; t < 4; t++)
        for (int r = 0; r < 4; r++) {
            const fb_row *row = &f->analysis->tables[t].rows[r];

            for (int c = 0; c < n_columns; c++)
                assert_int_equal(next_field(&at, field[c]),
                                 c == n_columns - 1 ? '\r' : ',');
            assert_string_equal(field[2], f->results->rules[row->rule].label);
            assert_near(strtod(field[mean], NULL), row->mean, 0);
            assert_string_equal(field[n_columns - 1], ""); /* top1: not measured */
        }
    assert_int_equal(*at, 0);
    fb_free(text);
}

static void every_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    fb_status status = FB_NO_MEMORY;
    size_t before;
    int64_t n;

    results_put_trial(f->store, &plain);
    must(fb_store_read(f->store, NULL, &f->results));
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

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
        test(the_baseline_is_the_one_asked_for_else_the_stored_one),
        test(else_it_is_random),
        test(an_unknown_baseline_gets_a_suggestion),
        test(columns_are_aligned_by_characters),
        test(the_text_says_what_a_person_needs),
        test(names_cannot_reach_the_terminal),
        test(json_holds_every_number_in_full),
        test(csv_has_one_line_per_row_and_its_numbers),
        test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
