/* test_experiment_run.c - what is stored, what a broken rule costs, stopping.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/context.h"
#include "store/store.h"
#include "tests/support/small_folder.h"

#include <sqlite3.h>

static fb_run_result result;

static fb_status run(const char *name, const fb_run_options *how)
{
    fb_run_options options = how != NULL ? *how : (fb_run_options){0};

    options.path = test_path(folder, name);
    return fb_run(s.plan, s.ops, &options, &result);
}

static void read_results(const char *name, fb_store **store, const fb_results **results)
{
    assert_ok(fb_store_open_read(store, test_path(folder, name)));
    assert_ok(fb_store_read(*store, NULL, results));
}

static void every_cell_is_stored_with_its_numbers(void **state)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.n_cells, 10);
    assert_int_equal(result.done, 10);
    read_results("a.db", &store, &r);
    assert_int_equal(r->n_cells, 10);
    assert_string_equal(r->digest, result.digest);
    assert_string_equal(r->baseline, "random");
    assert_string_equal(r->kernel, "native.f32.kv32");
    assert_non_null(r->certificate);
    for (int i = 0; i < r->n_cells; i++) {
        const fb_result_cell *cell = &r->cells[i];
        double kl = -1, nll = -1;

        assert_string_equal(cell->status, "done");
        assert_true(fb_result_score(cell, "kl", &kl) && kl >= 0);
        assert_true(fb_result_score(cell, "nll", &nll) && nll >= 0);
        assert_int_equal(cell->full_entries, 64 * 4);
        assert_int_equal(cell->kept_entries, cell->full_entries - cell->evicted);
        assert_true(cell->kept_bytes <= cell->budget_bytes);
        assert_int_equal(cell->kept_bytes, cell->kept_entries * 256);
        assert_int_equal(strlen(cell->digest), 64);
        if (cell->budget < 0) assert_true(kl == 0);
    }
    fb_results_free(r);
    fb_store_close(store);
}

static void the_form_of_weights_changes_no_result(void **state)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;
    char digest[FB_HASH_HEX];

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", NULL));
    memcpy(digest, result.digest, sizeof digest);
    small_close(&s);
    small_open(&s, SMALL_TEXT "weights: resident\n");
    assert_int_equal(fb_model_weight_form(s.model), FB_WEIGHTS_RESIDENT);
    assert_ok(run("b.db", NULL));
    assert_string_equal(result.digest, digest);
    read_results("b.db", &store, &r);
    assert_non_null(strstr(r->host, "\"weights\": \"resident\""));
    fb_results_free(r);
    fb_store_close(store);
    assert_ok(run("a.db", NULL)); /* it is the same experiment */
    assert_int_equal(result.before, 10);
}

static void the_type_of_the_cache_is_part_of_the_experiment(void **state)
{
    static const char *const texts[] = {
        "name: small\nmodel: {file: builtin, cache: f32}\n" SMALL_REST,
        "name: small\nmodel: {file: builtin, cache: f16}\n" SMALL_REST,
        "name: small\nmodel: {file: builtin, cache: bf16}\n" SMALL_REST};
    static const char *const kernels[] = {"native.f32.kv32", "native.f32.kvf16",
                                          "native.f32.kvbf16"};
    char digest[3][FB_HASH_HEX];

    (void)state;
    for (int t = 0; t < 3; t++) {
        const char *name = (const char *const[]){"a.db", "b.db", "c.db"}[t];
        const fb_results *r = NULL;
        fb_store *store = NULL;

        small_open(&s, texts[t]);
        assert_ok(run(name, NULL));
        memcpy(digest[t], result.digest, FB_HASH_HEX);
        read_results(name, &store, &r);
        assert_string_equal(r->kernel, kernels[t]);
        assert_non_null(strstr(r->certificate, kernels[t]));
        for (int i = 0; i < r->n_cells; i++) {
            const fb_result_cell *cell = &r->cells[i];

            assert_string_equal(cell->status, "done");
            assert_int_equal(cell->kept_bytes,
                             cell->kept_entries * (t == 0 ? 256 : 128));
            assert_true(cell->kept_bytes <= cell->budget_bytes);
        }
        fb_results_free(r);
        fb_store_close(store);
        small_close(&s);
    }
    assert_string_not_equal(digest[0], digest[1]);
    assert_string_not_equal(digest[1], digest[2]);
    small_open(&s, texts[1]);
    assert_fails(run("a.db", NULL), FB_USAGE, "cache changed (f32 -> f16)");
}

static void running_again_computes_nothing_and_says_the_same(void **state)
{
    char digest[FB_HASH_HEX];

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", NULL));
    memcpy(digest, result.digest, sizeof digest);
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.before, 10);
    assert_int_equal(result.done, 0);
    assert_string_equal(result.digest, digest);
}

static void another_experiment_needs_another_file_or_add(void **state)
{
    const fb_run_options add = {.add = true};

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", NULL));
    small_close(&s);
    small_open(&s, SMALL_TEXT "seeds: [2]\n");
    assert_fails(run("a.db", NULL), FB_USAGE, "seeds changed (1 -> 2)");
    assert_ok(run("a.db", &add));
    assert_int_equal(result.done, 10);
    assert_ok(run("a.db", NULL)); /* now it is there */
    assert_int_equal(result.before, 10);
}

static void change_results(const char *name, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(test_path(folder, name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void another_version_of_the_program_does_not_continue(void **state)
{
    const fb_run_options add = {.add = true};

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", NULL));
    change_results("a.db", "UPDATE experiment SET program = 'flexbudget 0.0.9'; "
                           "DELETE FROM cell WHERE id > 5");
    assert_fails(run("a.db", NULL), FB_USAGE,
                 "a.db: this experiment was begun by flexbudget 0.0.9, and this is "
                 "flexbudget ");
    assert_non_null(strstr(fb_error_message(), "\nhelp: go on with that program"));
    assert_int_equal(result.done, 0);
    assert_fails(run("a.db", &add), FB_USAGE, "begun by flexbudget 0.0.9");
    small_close(&s);
    small_open(&s, SMALL_TEXT "seeds: [2]\n");
    assert_fails(run("a.db", &add), FB_USAGE, "begun by flexbudget 0.0.9");
    assert_ok(run("b.db", NULL));
    assert_int_equal(result.done, 10);
}

static int64_t count_hosts(const char *name)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    int64_t n;

    assert_int_equal(sqlite3_open(test_path(folder, name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(DISTINCT host_id) FROM cell",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    n = sqlite3_column_int64(statement, 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return n;
}

static void another_host_continues_and_each_cell_keeps_its_own(void **state)
{
    char digest[FB_HASH_HEX];

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", NULL));
    memcpy(digest, result.digest, sizeof digest);
    change_results("a.db", "UPDATE host SET sha256 = 'e15e', description = '{}'; "
                           "DELETE FROM cell WHERE id > 5; DELETE FROM certificate; "
                           "UPDATE experiment SET class = 'open'");
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.before, 5);
    assert_int_equal(result.done, 5);
    assert_string_equal(result.digest, digest);
    assert_int_equal(count_hosts("a.db"), 2);
}

static void changed_cells_are_refused_and_lost_scores_made_again(void **state)
{
    static const char *const changes[] = {
        "UPDATE score SET value = 0 WHERE cell_id = 2 AND metric = 'nll'",
        "UPDATE cell SET answer_tokens = '[1]' WHERE id = 2",
        "UPDATE cell SET fallback = 1 - fallback WHERE id = 2",
        "INSERT INTO score VALUES (2, 'mine', 1)",
    };
    char digest[FB_HASH_HEX];

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", NULL));
    memcpy(digest, result.digest, sizeof digest);
    change_results("a.db", "DELETE FROM score WHERE cell_id = 2 AND metric = 'nll'; "
                           "DELETE FROM score WHERE cell_id = 3");
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.before, 8);
    assert_int_equal(result.done, 2);
    assert_string_equal(result.digest, digest);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "b%zu.db", i);
        assert_ok(run(name, NULL));
        change_results(name, changes[i]);
        assert_fails(run(name, NULL), FB_IO, "1 of 10 cells is not what was stored");
    }
    assert_ok(run("c.db", NULL));
    change_results("c.db", "UPDATE experiment SET spec = spec || '#'");
    assert_fails(run("c.db", NULL), FB_IO, "the specification of ");
}

/* Runs records of the user's, who has changed the file since or not. */
static fb_status run_records(const char *text, const fb_run_options *how)
{
    char spec[2048];

    test_write(test_path(folder, "own.jsonl"), text);
    (void)snprintf(spec, sizeof spec,
                   "model: builtin\ntasks: [{jsonl: {data: %s}}]\nrules: [full]\n",
                   test_path(folder, "own.jsonl"));
    small_close(&s);
    small_open(&s, spec);
    return run("a.db", how);
}

static void changed_data_is_another_experiment(void **state)
{
    static const char first[] =
        "{\"context\": \"aA0bB1\", \"question\": \"?A\", \"answers\": \"0\"}\n";
    static const char second[] =
        "{\"context\": \"aA0bB1\", \"question\": \"?B\", \"answers\": \"1\"}\n";
    const fb_run_options add = {.add = true};

    (void)state;
    assert_ok(run_records(first, NULL));
    assert_ok(run_records(first, NULL));
    assert_int_equal(result.before, 1);
    assert_fails(run_records(second, NULL), FB_USAGE,
                 "a.db holds another experiment: tasks changed (...data=own.jsonl");
    assert_ok(run_records(second, &add));
    assert_int_equal(result.done, 1);
}

/* The hash is taken when the settings are checked, the documents are made later. */
static void results_are_not_stored_under_the_hash_of_other_data(void **state)
{
    char spec[2048];
    fb_plan *plan = NULL;

    (void)state;
    test_write(test_path(folder, "own.jsonl"),
               "{\"context\": \"aA0bB1\", \"question\": \"?A\", \"answer\": \"0\"}\n");
    (void)snprintf(spec, sizeof spec,
                   "model: builtin\ntasks: [{jsonl: {data: %s}}]\nrules: [full]\n",
                   test_path(folder, "own.jsonl"));
    small_open(&s, spec);
    test_write(test_path(folder, "own.jsonl"),
               "{\"context\": \"aA0bB1\", \"question\": \"?B\", \"answer\": \"1\"}\n");
    assert_fails(fb_plan_new(&plan, &s.spec, s.model, NULL, NULL), FB_IO,
                 "changed while it was read; run again when nobody writes to it");
    assert_null(plan);
}

static int64_t count_rows(const char *table)
{
    char sql[64];
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = NULL;
    int64_t n;

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    assert_int_equal(sqlite3_open(test_path(folder, "a.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    n = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return n;
}

/* One transaction: where the last of them cannot be stored, none is. */
static void the_rows_before_the_first_cell_are_stored_together(void **state)
{
    fb_store *store = NULL;
    sqlite3 *db = NULL;

    (void)state;
    assert_ok(fb_store_open(&store, test_path(folder, "a.db")));
    fb_store_close(store);
    assert_int_equal(sqlite3_open(test_path(folder, "a.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "CREATE TRIGGER no BEFORE INSERT ON sample WHEN "
                                  "(SELECT count(*) FROM sample) = 1 BEGIN "
                                  "SELECT raise(ABORT, 'no second sample'); END",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    (void)sqlite3_close(db);
    small_open(&s, SMALL_TEXT);
    assert_int_not_equal(run("a.db", NULL), FB_OK);
    assert_non_null(strstr(fb_error_message(), "no second sample"));
    assert_int_equal(count_rows("experiment"), 0);
    assert_int_equal(count_rows("model"), 0);
    assert_int_equal(count_rows("sample"), 0);
}

/* --- several experiments in a file --- */

static void check_kept(const char *spec_sha256, double margin, const char *reference)
{
    fb_store *store;
    const fb_results *r;

    assert_ok(fb_store_open_read(&store, test_path(folder, "a.db")));
    assert_ok(fb_store_read(store, spec_sha256, &r));
    assert_true(r->tasks[0].margin == margin);
    for (int i = 0; i < r->n_rules; i++)
        assert_int_equal(r->rules[i].is_reference,
                         strcmp(r->rules[i].label, "full") == 0 ||
                             strcmp(r->rules[i].label, reference) == 0);
    fb_results_free(r);
    fb_store_close(store);
}

static void experiments_of_one_file_keep_their_margins_and_references(void **state)
{
    const fb_run_options add = {.add = true};
    char first[FB_HASH_HEX], second[FB_HASH_HEX];

    (void)state;
    small_open(&s, SMALL_TEXT "statistics: {margin: 0.25}\n");
    assert_ok(fb_spec_hash(&s.spec, first));
    assert_ok(run("a.db", NULL));
    small_close(&s);
    small_open(&s, SMALL_TEXT "statistics: {margin: 0.75}\nreference: h2o\n");
    assert_ok(fb_spec_hash(&s.spec, second));
    assert_ok(run("a.db", &add));
    check_kept(first, 0.25, "full");
    check_kept(second, 0.75, "h2o");
}

/* --- broken rules --- */

static void choose_keys(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
}

static void choose_future(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_FUTURE;
}

/* NaN in the last layer: log(-1). */
static fb_tensor not_a_number(fb_ops *ops, const fb_signals *see, const void *params)
{
    const double value = see->layer == see->n_layers - 1 ? -1 : 1;

    (void)params;
    return fb_log(ops, fb_full(ops, 2, (int64_t[]){see->kv_heads, see->m}, value));
}

static fb_tensor three_rows(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)see;
    (void)params;
    return fb_full(ops, 2, (int64_t[]){3, 7}, 1);
}

static const fb_rule broken = {FB_RULE_HEAD,
                               .kind = FB_KIND_RULE,
                               .name = "broken",
                               .summary = "a rule for tests",
                               .family = "key",
                               .source = "none",
                               .runs = FB_RUNS_ONE_SHOT,
                               .choose = choose_keys,
                               .score = not_a_number};
static const fb_rule broken_oracle = {FB_RULE_HEAD,
                                      .kind = FB_KIND_RULE,
                                      .name = "broken_oracle",
                                      .summary = "a rule for tests",
                                      .family = "reference",
                                      .source = "none",
                                      .runs = FB_RUNS_ONE_SHOT,
                                      .choose = choose_future,
                                      .score = not_a_number};

/* Puts a rule that is in no list at the place of `h2o`. */
static void open_with(const fb_rule *rule)
{
    fb_spec_rule *place;

    small_open(&s, SMALL_TEXT);
    place = &s.spec.rules[2];
    fb_bound_rule_free(place->rule);
    place->rule = NULL;
    assert_ok(fb_rule_bind(&place->rule, rule));
}

static void loses_its_own_cells(const fb_rule *rule, const char *words)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;
    int failed = 0;

    open_with(rule);
    assert_fails(run("a.db", NULL), FB_DEFECT, "4 of 10 cells failed");
    assert_int_equal(result.done, 6);
    assert_int_equal(result.failed, 4);
    assert_string_equal(result.failed_rule, "h2o"); /* its label */
    read_results("a.db", &store, &r);
    assert_int_equal(r->n_cells, 10);
    for (int i = 0; i < r->n_cells; i++) {
        if (strcmp(r->cells[i].status, "done") == 0) continue;
        failed++;
        assert_string_equal(r->cells[i].status, "failed");
        assert_string_equal(r->rules[r->cells[i].rule].label, "h2o");
        assert_non_null(strstr(r->cells[i].reason, words));
    }
    assert_int_equal(failed, 4);
    fb_results_free(r);
    fb_store_close(store);
}

static void a_rule_that_breaks_a_promise_loses_its_own_cells(void **state)
{
    (void)state;
    loses_its_own_cells(&broken, "NaN");
}

static void so_does_one_that_reads_the_future(void **state)
{
    (void)state;
    loses_its_own_cells(&broken_oracle, "NaN");
}

static void a_wrong_shape_is_told_as_it_came(void **state)
{
    fb_rule rule = broken;

    (void)state;
    rule.score = three_rows;
    loses_its_own_cells(&rule, "wrong shape: [3, 7] came, [R, ");
}

static void another_that_reads_the_future_goes_on(void **state)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;
    fb_spec_rule *place;
    int n_oracle = 0;

    (void)state;
    open_with(&broken_oracle);
    place = &s.spec.rules[1];
    fb_bound_rule_free(place->rule);
    assert_ok(fb_rule_parse(&place->rule, "oracle"));
    assert_fails(run("a.db", NULL), FB_DEFECT, "4 of 10 cells failed");
    read_results("a.db", &store, &r);
    for (int i = 0; i < r->n_cells; i++) {
        const bool is_broken =
            strcmp(r->rules[r->cells[i].rule].label, s.spec.rules[2].label) == 0;

        n_oracle += r->cells[i].rule == 1;
        assert_string_equal(r->cells[i].status, is_broken ? "failed" : "done");
    }
    assert_int_equal(n_oracle, 4);
    fb_results_free(r);
    fb_store_close(store);
}

static void failed_cells_are_tried_again(void **state)
{
    (void)state;
    open_with(&broken);
    assert_int_equal(run("a.db", NULL), FB_DEFECT);
    assert_int_equal(run("a.db", NULL), FB_DEFECT);
    assert_int_equal(result.before, 6);
    assert_int_equal(result.failed, 4);
}

static fb_tensor zeros(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_full(ops, 2, (int64_t[]){see->kv_heads, see->m}, 0);
}

static int count_warnings(const char *words)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;
    int n = 0;

    read_results("a.db", &store, &r);
    for (int i = 0; i < r->n_notes; i++)
        n += strstr(r->notes[i], words) != NULL;
    fb_results_free(r);
    fb_store_close(store);
    return n;
}

static void a_warning_that_no_longer_holds_is_gone(void **state)
{
    fb_rule mended = broken;

    (void)state;
    mended.score = zeros;
    open_with(&broken);
    assert_int_equal(run("a.db", NULL), FB_DEFECT);
    assert_int_equal(count_warnings("cells failed"), 1);
    small_close(&s);
    open_with(&mended); /* the same experiment, by its text */
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.done, 4);
    assert_int_equal(count_warnings("cells failed"), 0);
}

/* --- records of the user's --- */

static void keys_and_metrics_of_a_record_are_the_users(void **state)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;
    char text[2048];

    (void)state;
    test_write(test_path(folder, "own.jsonl"),
               "{\"key\": \"a\\\"b\\\\\", \"context\": \"aA0bB1cdefghijkl\", "
               "\"question\": \"?A\", \"answers\": \"0\", \"metric\": \"em_tf\"}\n");
    (void)snprintf(text, sizeof text,
                   "model: builtin\n"
                   "tasks: [{jsonl: {data: %s}}]\n"
                   "rules: [full, random]\n"
                   "budgets: [50%%]\n"
                   "protocol: {protect: none}\n",
                   test_path(folder, "own.jsonl"));
    small_open(&s, text);
    assert_ok(run("a.db", NULL));
    read_results("a.db", &store, &r);
    assert_int_equal(r->n_cells, 2);
    assert_string_equal(r->samples[0].key, "a\"b\\");
    assert_non_null(strstr(r->certificate, "0/a\\\"b\\\\"));
    for (int i = 0; i < r->n_cells; i++) {
        double own = -1, of_task = -2;

        assert_true(fb_result_score(&r->cells[i], "em_tf", &own));
        assert_true(fb_result_score(&r->cells[i], "score", &of_task));
        assert_true(own == of_task);
    }
    fb_results_free(r);
    fb_store_close(store);
}

/* --- answers that cannot be measured or scored --- */

static double highest; /* the KL above which the kernel below breaks down */

static fb_status kl_that_fails(void *self, const fb_call *call)
{
    const double *out = call->host_out;

    FB_TRY(fb_backend_native.kernels[FB_OP_kl](self, call));
    for (int64_t r = 0; r < call->in[1].shape[0]; r++)
        if (out[r] > highest) return fb_fail(FB_DEFECT, "a kernel that fails");
    return FB_OK;
}

/* Operators as before, but for that one. */
static void break_kl(void)
{
    static fb_kernel *kernels[FB_OP_COUNT];
    static fb_backend backend;

    memcpy(kernels, fb_backend_native.kernels, sizeof kernels);
    kernels[FB_OP_kl] = kl_that_fails;
    backend = fb_backend_native;
    backend.kernels = kernels;
    s.ops->backend = &backend;
}

static double kl_of(const fb_result_cell *cell)
{
    double kl = -1;

    assert_true(fb_result_score(cell, "kl", &kl));
    return kl;
}

/* Five cells of a sample are one group, which fails with any of them. */
static void a_cell_that_cannot_be_measured_is_lost_alone(void **state)
{
    const fb_results *whole = NULL, *r = NULL;
    fb_store *of_whole = NULL, *store = NULL;
    int failed = 0;

    (void)state;
    small_open(&s, SMALL_TEXT); /* answers of one token */
    assert_ok(run("whole.db", NULL));
    read_results("whole.db", &of_whole, &whole);
    highest = kl_of(&whole->cells[1]);
    break_kl();
    assert_fails(run("a.db", NULL), FB_DEFECT, "cells failed: a kernel that fails");
    read_results("a.db", &store, &r);
    assert_int_equal(r->n_cells, whole->n_cells);
    for (int i = 0; i < r->n_cells; i++) {
        const fb_result_cell *cell = &r->cells[i], *as = &whole->cells[i];

        if (kl_of(as) <= highest) {
            assert_string_equal(cell->status, "done");
            assert_string_equal(cell->digest, as->digest);
            continue;
        }
        failed++;
        assert_string_equal(cell->status, "failed");
        assert_string_equal(cell->reason, "a kernel that fails");
    }
    assert_true(failed > 0 && failed < r->n_cells - 2);
    assert_int_equal(result.failed, failed);
    assert_int_equal(result.done, r->n_cells - failed);
    s.ops->backend = &fb_backend_native; /* mended: only those are tried again */
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.done, failed);
    assert_string_equal(result.digest, whole->digest);
    fb_results_free(whole);
    fb_store_close(of_whole);
    fb_results_free(r);
    fb_store_close(store);
}

static void so_is_one_whose_answer_cannot_be_scored(void **state)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;
    char text[2048];
    int n_references;
    fb_status status;

    (void)state;
    test_write(test_path(folder, "own.jsonl"),
               "{\"context\": \"aA0bB1cdefghijkl\", \"question\": \"?A\", "
               "\"answers\": \"0\", \"metric\": \"f1\"}\n"
               "{\"context\": \"aA0bB1cdefghijkl\", \"question\": \"?B\", "
               "\"answers\": \"1\", \"metric\": \"f1\"}\n");
    (void)snprintf(text, sizeof text,
                   "model: builtin\n"
                   "tasks: [{jsonl: {data: %s}}]\n"
                   "rules: [full, random]\n"
                   "budgets: [50%%]\n"
                   "protocol: {protect: none}\n",
                   test_path(folder, "own.jsonl"));
    small_open(&s, text);
    n_references = s.plan->samples[0].references.n;
    s.plan->samples[0].references.n = 0;
    status = run("a.db", NULL);
    s.plan->samples[0].references.n = n_references;
    assert_int_equal(fb_status_exit_code(status), 1);
    assert_non_null(strstr(fb_error_message(), "2 of 4 cells failed: metric 'f1'"));
    read_results("a.db", &store, &r);
    assert_int_equal(r->n_cells, 4);
    for (int i = 0; i < r->n_cells; i++)
        assert_string_equal(r->cells[i].status,
                            r->cells[i].sample == 0 ? "failed" : "done");
    fb_results_free(r);
    fb_store_close(store);
}

static void fail_fast_stops_at_the_first(void **state)
{
    const fb_run_options fast = {.fail_fast = true};

    (void)state;
    open_with(&broken);
    assert_fails(run("a.db", &fast), FB_DEFECT, "rule 'h2o', sample recall/0");
    assert_int_equal(result.failed, 1);
}

/* --- stopping --- */

static void a_request_to_stop_is_heard_between_groups(void **state)
{
    static volatile sig_atomic_t stop = 1;
    const fb_run_options stopping = {.stop = &stop};

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_int_equal(run("a.db", &stopping), FB_STOPPED);
    assert_int_equal(result.done, 0);
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.done, 10);
}

typedef struct seen {
    int begin, cell, end;
    int64_t last;
    volatile sig_atomic_t stop;
    int stop_at;
} seen;

static void watch(void *self, const fb_run_progress *now)
{
    seen *w = self;

    w->begin += strcmp(now->event, "begin") == 0;
    w->cell += strcmp(now->event, "cell") == 0;
    w->end += strcmp(now->event, "end") == 0;
    assert_true(now->cells >= w->last && now->cells <= now->n_cells);
    w->last = now->cells;
    if (w->stop_at > 0 && w->cell >= w->stop_at) w->stop = 1;
}

static void the_one_who_watches_is_told_of_every_cell(void **state)
{
    seen w = {0};
    const fb_run_options watched = {.watch = watch, .self = &w};

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("a.db", &watched));
    assert_int_equal(w.begin, 1);
    assert_int_equal(w.cell, 10);
    assert_int_equal(w.end, 1);
}

static void a_stopped_run_keeps_whole_groups(void **state)
{
    seen w = {.stop_at = 1};
    const fb_run_options stopping = {.watch = watch, .self = &w, .stop = &w.stop};
    char digest[FB_HASH_HEX];

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_ok(run("whole.db", NULL));
    memcpy(digest, result.digest, sizeof digest);
    assert_int_equal(run("a.db", &stopping), FB_STOPPED);
    assert_int_equal(result.done, 5); /* the group of the first sample */
    assert_ok(run("a.db", NULL));
    assert_int_equal(result.before, 5);
    assert_string_equal(result.digest, digest);
}

static void too_little_memory_is_refused_with_what_is_needed(void **state)
{
    const fb_run_options little = {.memory = 1000};

    (void)state;
    small_open(&s, SMALL_TEXT);
    assert_fails(run("a.db", &little), FB_BUDGET, "memory limit of 1000 B");
    assert_non_null(strstr(fb_error_message(), "--memory"));
    assert_int_not_equal(access(test_path(folder, "a.db"), F_OK), 0);
}

static void a_file_of_another_kind_is_refused(void **state)
{
    (void)state;
    small_open(&s, SMALL_TEXT);
    test_write(test_path(folder, "a.db"),
               "this is a text, and long enough to be seen\n");
    assert_int_equal(run("a.db", NULL), FB_FORMAT);
    assert_fails(run("no/folder/a.db", NULL), FB_NOT_FOUND, "a.db");
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_folder, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(every_cell_is_stored_with_its_numbers),
        test(running_again_computes_nothing_and_says_the_same),
        test(the_form_of_weights_changes_no_result),
        test(the_type_of_the_cache_is_part_of_the_experiment),
        test(another_experiment_needs_another_file_or_add),
        test(another_version_of_the_program_does_not_continue),
        test(another_host_continues_and_each_cell_keeps_its_own),
        test(changed_cells_are_refused_and_lost_scores_made_again),
        test(changed_data_is_another_experiment),
        test(results_are_not_stored_under_the_hash_of_other_data),
        test(the_rows_before_the_first_cell_are_stored_together),
        test(experiments_of_one_file_keep_their_margins_and_references),
        test(a_rule_that_breaks_a_promise_loses_its_own_cells),
        test(so_does_one_that_reads_the_future),
        test(another_that_reads_the_future_goes_on),
        test(a_wrong_shape_is_told_as_it_came),
        test(failed_cells_are_tried_again),
        test(a_warning_that_no_longer_holds_is_gone),
        test(keys_and_metrics_of_a_record_are_the_users),
        test(a_cell_that_cannot_be_measured_is_lost_alone),
        test(so_is_one_whose_answer_cannot_be_scored),
        test(fail_fast_stops_at_the_first),
        test(a_request_to_stop_is_heard_between_groups),
        test(the_one_who_watches_is_told_of_every_cell),
        test(a_stopped_run_keeps_whole_groups),
        test(too_little_memory_is_refused_with_what_is_needed),
        test(a_file_of_another_kind_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
