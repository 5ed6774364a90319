/* test_store_write.c - what is put into a results file comes out again, once.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/text.h"
#include "store/query.h"
#include "tests/support/results.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A fresh file and what every test needs in it. */
struct fixture {
    char path[64];
    fb_store *store;
    struct results_ids ids;
    int64_t task, sample, rule, budget;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    results_path(f->path);
    assert_ok(fb_store_open(&f->store, f->path));
    f->ids = results_begin(f->store, "random");
    f->task = results_task(f->store, "needle", "kl", true);
    f->sample = results_sample(f->store, f->task, 1);
    f->rule = results_rule(f->store, "snapkv", "snapkv:window=64");
    f->budget = results_budget(f->store, "20%");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fb_store_close(f->store);
    results_remove(f->path);
    free(f);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), 0);
    return 0;
}

static const fb_store_score scores[] = {{"kl", 0.1}, {"nll", 1e-300}, {"em", 1}};
static const fb_store_count counts[] = {{"context", "model", "mm", 7, 1e12, 3.5},
                                        {"context", "signal", "sum", 1, 2e9, 0},
                                        {"evict", "score", "mul", 2, 5, 6}};
static const fb_store_peak peaks[] = {{"context", "kv", 256000}, {"answer", "kv", 9}};
static const fb_store_time times[] = {{"context", 1000, true}, {"context", 1100, true}};
static const int32_t first[] = {0, 1, 2, 300, 70000}, last[] = {2147483647};
static const fb_store_kept kept[] = {
    {0, 0, 5, first}, {0, 1, 0, NULL}, {1, 0, 1, last}};

static fb_store_cell full_cell(const struct fixture *f)
{
    fb_store_cell cell = results_cell(&f->ids, f->sample, f->rule, f->budget, 0.2);

    cell.answer = "4 217 903";
    cell.answer_tokens = "[4, 17]";
    cell.stop = "end";
    cell.fused_flops = 1.5e12;
    cell.step_flops = (double)NAN;
    cell.step_bytes = 1e-300;
    cell.plain_flops = 2.5e13;
    cell.scores = scores, cell.n_scores = 3;
    cell.counts = counts, cell.n_counts = 3;
    cell.peaks = peaks, cell.n_peaks = 2;
    cell.times = times, cell.n_times = 2;
    cell.kept = kept, cell.n_kept = 3;
    return cell;
}

/* Scripts read columns by place: the view of the first release begins every later one. */
static void the_columns_of_tidy_keep_their_places(void **state)
{
    static const char columns[] =
        "experiment,model,task,task_version,sample,document,depth,length,context_"
        "tokens,"
        "rule,expression,family,budget,seed,status,full_entries,budget_bytes,"
        "budget_entries,kept_entries,kept_bytes,evicted,free_choices,fallback,shrunk,"
        "answer,expected,metric,value,unit,is_primary,digest,spec_sha256,task_params,"
        "task_data,fused_flops,step_flops,step_bytes,plain_flops";
    struct fixture *f = *state;
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = NULL;
    fb_text found = {0};

    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM tidy", -1, &statement, NULL),
                     SQLITE_OK);
    fb_text_init(&found, 0);
    for (int i = 0; i < sqlite3_column_count(statement); i++)
        fb_text_printf(&found, "%s%s", i == 0 ? "" : ",",
                       sqlite3_column_name(statement, i));
    assert_memory_equal(fb_text_string(&found), columns, sizeof columns - 1);
    fb_text_clear(&found);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
}

/* All that is put between begin and end, or nothing. */
static void rows_of_one_transaction_are_kept_or_taken_back_together(void **state)
{
    struct fixture *f = *state;
    const fb_store_budget row = {"33%", "ratio", "0.33"};
    int64_t id, again;

    assert_ok(fb_store_begin(f->store));
    assert_ok(fb_store_put_budget(f->store, &row, &id));
    assert_int_equal(fb_store_end(f->store, fb_fail(FB_IO, "on purpose")), FB_IO);
    assert_ok(fb_store_begin(f->store));
    assert_ok(fb_store_put_budget(f->store, &(fb_store_budget){"44%", "ratio", "0.44"},
                                  &again));
    assert_int_equal(again, id); /* the first was not kept: its id is free */
    assert_ok(fb_store_end(f->store, FB_OK));
    assert_ok(fb_store_put_budget(f->store, &row, &id));
    assert_int_not_equal(again, id);
}

static void a_row_put_twice_is_one_row(void **state)
{
    struct fixture *f = *state;
    const struct results_ids again = results_begin(f->store, "random");

    assert_int_equal(again.experiment, f->ids.experiment);
    assert_int_equal(again.host, f->ids.host);
    assert_int_equal(again.model, f->ids.model);
    assert_int_equal(results_task(f->store, "needle", "kl", true), f->task);
    assert_int_equal(results_sample(f->store, f->task, 1), f->sample);
    assert_int_equal(results_rule(f->store, "snapkv", "snapkv:window=64"), f->rule);
    assert_int_equal(results_budget(f->store, "20%"), f->budget);
}

static void rows_of_other_identity_are_other_rows(void **state)
{
    struct fixture *f = *state;

    assert_int_not_equal(results_task(f->store, "needle", "em", false), f->task);
    assert_int_not_equal(results_sample(f->store, f->task, 2), f->sample);
    assert_int_not_equal(results_rule(f->store, "snapkv-16", "snapkv:window=64"),
                         f->rule);
    assert_int_not_equal(results_rule(f->store, "snapkv", "snapkv:window=16"), f->rule);
    assert_int_not_equal(results_budget(f->store, "0.2"), f->budget);
}

/* The task, rule, model and sample of a second experiment, each like that of the fixture
 * but for something that decides what its readers see. */
static void put_twins(const struct fixture *f, struct results_ids *ids,
                      fb_store_cell *cell)
{
    const fb_store_experiment experiment = {.name = "twin",
                                            .spec = "name: twin\n",
                                            .spec_sha256 = "77",
                                            .class_name = "open",
                                            .program = "flexbudget 0.1.0"};
    const fb_store_model model = {.sha256 = RESULTS_MODEL,
                                  .name = "tiny",
                                  .architecture = "llama",
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .template_sha256 = "7e"};
    const fb_store_task task = {.name = "needle",
                                .version = 1,
                                .params = "{}",
                                .metric = "kl",
                                .unit = "nat",
                                .lower_is_better = true,
                                .margin = 0.5};
    const fb_store_rule rule = {.label = "snapkv",
                                .expression = "snapkv:window=64",
                                .family = "attention",
                                .origin = "built-in",
                                .abi = 1,
                                .deployable = true,
                                .accounted = true,
                                .is_reference = true};
    int64_t id;

    ids->host = f->ids.host;
    assert_ok(fb_store_put_experiment(f->store, &experiment, &ids->experiment));
    assert_ok(fb_store_put_model(f->store, &model, &ids->model));
    assert_ok(fb_store_put_task(f->store, &task, &id));
    *cell = results_cell(ids, results_sample(f->store, id, 1), f->rule, f->budget, 0.2);
    assert_ok(fb_store_put_rule(f->store, &rule, &cell->rule));
}

static void check_own(struct fixture *f, const char *spec, double margin,
                      bool is_reference, const char *template)
{
    const fb_results *r;

    assert_ok(fb_store_read(f->store, spec, &r));
    assert_int_equal(r->n_tasks, 1);
    assert_int_equal(r->n_rules, 1);
    assert_near(r->tasks[0].margin, margin, 0);
    assert_int_equal(r->rules[0].is_reference, is_reference);
    if (template == NULL)
        assert_null(r->model.template_sha256);
    else
        assert_string_equal(r->model.template_sha256, template);
    fb_results_free(r);
}

static void experiments_of_one_file_keep_their_own_values(void **state)
{
    struct fixture *f = *state;
    struct results_ids ids;
    fb_store_cell cell = full_cell(f);

    assert_ok(fb_store_put_cell(f->store, &cell));
    put_twins(f, &ids, &cell);
    assert_int_not_equal(ids.model, f->ids.model);
    assert_int_not_equal(cell.sample, f->sample);
    assert_int_not_equal(cell.rule, f->rule);
    assert_ok(fb_store_put_cell(f->store, &cell));
    check_own(f, RESULTS_SPEC, 0.02, false, NULL);
    check_own(f, "77", 0.5, true, "7e");
}

/* One ran with --no-prompts, one did not. */
static void a_sample_with_texts_is_another_row(void **state)
{
    struct fixture *f = *state;
    char hash[FB_HASH_HEX];
    fb_store_sample sample = {
        .task = f->task, .key = "1", .tokens_sha256 = hash, .depth = -1};
    int64_t without, with;

    (void)snprintf(hash, sizeof hash, "%064d", 1);
    assert_ok(fb_store_put_sample(f->store, &sample, &without));
    assert_int_equal(without, f->sample);
    sample.context = "text";
    assert_ok(fb_store_put_sample(f->store, &sample, &with));
    assert_int_not_equal(with, without);
}

static void a_note_is_kept_once(void **state)
{
    struct fixture *f = *state;
    const fb_results *r;
    const fb_store_cell cell = full_cell(f);

    assert_ok(fb_store_put_cell(f->store, &cell));
    for (int i = 0; i < 2; i++)
        assert_ok(
            fb_store_put_note(f->store, f->ids.experiment, 0, "warning", "3 cut"));
    assert_ok(fb_store_put_note(f->store, f->ids.experiment, 1, "warning", "3 cut"));
    assert_ok(fb_store_read(f->store, NULL, &r));
    assert_int_equal(r->n_notes, 2);
    assert_string_equal(r->notes[0], "warning: 3 cut");
    fb_results_free(r);
}

static void check_cell(const fb_result_cell *cell)
{
    double value;

    assert_string_equal(cell->status, "done");
    assert_string_equal(cell->answer, "4 217 903");
    assert_null(cell->reason);
    assert_int_equal(cell->kept_entries, 400);
    assert_int_equal(cell->full_entries, 2000);
    assert_true(fb_result_score(cell, "kl", &value));
    assert_near(value, 0.1, 0);
    assert_true(fb_result_score(cell, "nll", &value));
    assert_true(value > 0 && value < 2e-300);
    assert_false(fb_result_score(cell, "f1", &value));
    assert_near(cell->fused_flops, 1.5e12, 0);
    assert_near(cell->plain_flops, 2.5e13, 0);
    assert_true(isnan(cell->step_flops));
    assert_true(cell->step_bytes > 0 && cell->step_bytes < 2e-300);
}

static void a_cell_comes_back_as_it_was(void **state)
{
    struct fixture *f = *state;
    const fb_store_cell cell = full_cell(f);
    const fb_results *r;

    assert_ok(fb_store_put_cell(f->store, &cell));
    assert_ok(fb_store_read(f->store, NULL, &r));
    assert_string_equal(r->name, "trial");
    assert_string_equal(r->baseline, "random");
    assert_string_equal(r->protocol, "prefill.agnostic.original");
    assert_string_equal(r->model.name, "tiny");
    assert_string_equal(r->host, "{\"cpu\": \"any\"}");
    assert_null(r->certificate);
    assert_int_equal(r->n_tasks, 1);
    assert_true(r->tasks[0].lower_is_better);
    assert_int_equal(r->n_samples, 1);
    assert_string_equal(r->samples[0].group, "1");
    assert_near(r->samples[0].depth, -1, 0);
    assert_int_equal(r->n_rules, 1);
    assert_string_equal(r->rules[0].label, "snapkv");
    assert_int_equal(r->n_budgets, 1);
    assert_int_equal(r->n_cells, 1);
    check_cell(&r->cells[0]);
    fb_results_free(r);
}

static void children_of_a_cell_come_back_as_they_were(void **state)
{
    struct fixture *f = *state;
    const fb_store_cell cell = full_cell(f);
    fb_store_count *got_counts;
    fb_store_kept *got_kept;
    int n;

    assert_ok(fb_store_put_cell(f->store, &cell));
    assert_ok(fb_store_read_counts(f->store, 1, &got_counts, &n));
    assert_int_equal(n, 3);
    assert_string_equal(got_counts[1].scope, "signal");
    assert_string_equal(got_counts[2].op, "mul");
    assert_near(got_counts[0].flops, 1e12, 0);
    assert_ok(fb_store_read_kept(f->store, 1, &got_kept, &n));
    assert_int_equal(n, 3);
    assert_int_equal(got_kept[0].n, 5);
    assert_memory_equal(got_kept[0].position, first, sizeof first);
    assert_int_equal(got_kept[1].n, 0);
    assert_int_equal(got_kept[2].position[0], 2147483647);
    fb_free(got_counts);
    fb_free(got_kept);
    assert_ok(fb_store_read_counts(f->store, 99, &got_counts, &n));
    assert_int_equal(n, 0);
    fb_free(got_counts);
}

/* For whoever asks in SQL: the program reads neither. */
static void peaks_and_times_of_a_cell_are_there(void **state)
{
    struct fixture *f = *state;
    const fb_store_cell cell = full_cell(f);
    int64_t got;

    assert_ok(fb_store_put_cell(f->store, &cell));
    assert_ok(fb_query_number(&got, f->store,
                              "SELECT peak_bytes FROM memory WHERE cell_id = 1 AND "
                              "phase = 'context' AND account = 'kv'",
                              NULL, 0));
    assert_int_equal(got, 256000);
    assert_ok(fb_query_number(&got, f->store,
                              "SELECT ns FROM timing WHERE cell_id = 1 AND "
                              "phase = 'context' AND repetition = 1 AND shared = 1",
                              NULL, 0));
    assert_int_equal(got, 1100);
}

static void a_finished_cell_is_never_written_again(void **state)
{
    struct fixture *f = *state;
    const fb_store_cell cell = full_cell(f);
    bool is_there;

    assert_ok(fb_store_has_cell(f->store, &cell, &is_there));
    assert_false(is_there);
    assert_ok(fb_store_put_cell(f->store, &cell));
    assert_ok(fb_store_has_cell(f->store, &cell, &is_there));
    assert_true(is_there);
    assert_int_equal(fb_store_put_cell(f->store, &cell), FB_DEFECT);
    assert_ok(
        fb_store_put_note(f->store, f->ids.experiment, 0, "warning", "still usable"));
}

static void a_failed_cell_is_replaced(void **state)
{
    struct fixture *f = *state;
    fb_store_cell cell = full_cell(f);
    const fb_results *r;
    bool is_there;

    cell.status = "failed";
    cell.reason = "NaN";
    cell.digest = NULL;
    assert_ok(fb_store_put_cell(f->store, &cell));
    assert_ok(fb_store_has_cell(f->store, &cell, &is_there));
    assert_false(is_there);
    cell = full_cell(f);
    assert_ok(fb_store_put_cell(f->store, &cell));
    assert_ok(fb_store_read(f->store, NULL, &r));
    assert_int_equal(r->n_cells, 1);
    check_cell(&r->cells[0]);
    assert_int_equal(r->cells[0].n_scores, 3);
    fb_results_free(r);
}

/* Each of these breaks a promise; nothing of the cell may stay behind. */
static void a_cell_that_breaks_a_promise_leaves_nothing(void **state)
{
    static const int32_t falling[] = {3, 2}, twice[] = {4, 4};
    static const fb_store_score nan_score[] = {{"kl", (double)NAN}};
    static const fb_store_kept falls[] = {{0, 0, 2, falling}};
    static const fb_store_kept repeats[] = {{0, 0, 2, twice}};
    struct fixture *f = *state;
    fb_store_cell bad[6];
    const fb_results *r;

    for (int i = 0; i < 6; i++)
        bad[i] = full_cell(f);
    bad[0].kept = falls, bad[0].n_kept = 1;
    bad[1].kept = repeats, bad[1].n_kept = 1;
    bad[2].scores = nan_score, bad[2].n_scores = 1;
    bad[3].sample = 99;
    bad[4].answer_tokens = "[1, ";
    bad[5].digest = NULL;
    for (int i = 0; i < 6; i++)
        assert_int_equal(fb_store_put_cell(f->store, &bad[i]), FB_DEFECT);
    assert_ok(fb_store_read(f->store, NULL, &r));
    assert_int_equal(r->n_cells, 0);
    fb_results_free(r);
}

static void cells_are_sorted_by_sample_rule_budget_seed(void **state)
{
    struct fixture *f = *state;
    const int64_t full = results_budget(f->store, "full");
    const int64_t rule = results_rule(f->store, "h2o", "h2o");
    int64_t sample[12];
    const fb_results *r;

    for (int i = 11; i >= 0; i--)
        sample[i] = results_sample(f->store, f->task, i);
    for (int i = 0; i < 12; i++)
        for (int64_t seed = 2; seed >= 1; seed--) {
            fb_store_cell cell =
                results_cell(&f->ids, sample[i], rule, seed == 1 ? full : f->budget, 1);

            cell.seed = seed;
            assert_ok(fb_store_put_cell(f->store, &cell));
        }
    assert_ok(fb_store_read(f->store, NULL, &r));
    assert_int_equal(r->n_samples, 12);
    assert_int_equal(r->n_cells, 24);
    assert_int_equal(r->n_budgets, 1);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(atoi(r->samples[i].key), i);
        assert_int_equal(r->cells[2 * i].sample, i);
        assert_int_equal(r->cells[2 * i].budget, -1);
        assert_int_equal(r->cells[2 * i + 1].budget, 0);
    }
    fb_results_free(r);
}

/* The same cells, other order and other row ids: the digest does not know. */
static void the_digest_does_not_depend_on_the_order(void **state)
{
    struct fixture *f = *state;
    char digest[2][FB_HASH_HEX], empty[FB_HASH_HEX];

    assert_ok(fb_store_digest(f->store, f->ids.experiment, empty));
    for (int order = 0; order < 2; order++) {
        char path[64];
        fb_store *store;

        results_path(path);
        assert_ok(fb_store_open(&store, path));
        (void)results_begin(store, NULL);
        (void)results_sample(store, results_task(store, "needle", "kl", true), 1);
        (void)results_rule(store, "snapkv", "snapkv");
        (void)results_budget(store, "20%");
        for (int i = 0; i < 4; i++) {
            const int64_t seed = order == 0 ? i : 3 - i;
            fb_store_cell cell = full_cell(f);
            char name[16];

            (void)snprintf(name, sizeof name, "d%d", (int)seed);
            cell.seed = seed;
            cell.digest = name;
            assert_ok(fb_store_put_cell(store, &cell));
        }
        assert_ok(fb_store_digest(store, 1, digest[order]));
        fb_store_close(store);
        results_remove(path);
    }
    assert_string_equal(digest[0], digest[1]);
    assert_string_not_equal(digest[0], empty);
}

static void one_file_holds_several_experiments(void **state)
{
    struct fixture *f = *state;
    const fb_store_experiment second = {.name = "second",
                                        .spec = "name: second\n",
                                        .spec_sha256 = "bb",
                                        .class_name = "open",
                                        .program = "flexbudget 0.1.0"};
    const fb_store_cell cell = full_cell(f);
    const fb_results *r;
    int64_t id;

    assert_ok(fb_store_put_cell(f->store, &cell));
    assert_ok(fb_store_put_experiment(f->store, &second, &id));
    assert_ok(fb_store_put_certificate(f->store, id, "{\"n\": 1}", "cc"));
    assert_ok(fb_store_put_certificate(f->store, id, "{\"n\": 1}", "cc"));
    assert_ok(fb_store_read(f->store, NULL, &r));
    assert_string_equal(r->name, "second");
    assert_string_equal(r->certificate, "{\"n\": 1}");
    assert_int_equal(r->n_cells, 0);
    fb_results_free(r);
    assert_ok(fb_store_read(f->store, RESULTS_SPEC, &r));
    assert_string_equal(r->name, "trial");
    assert_int_equal(r->n_cells, 1);
    fb_results_free(r);
    assert_int_equal(fb_store_read(f->store, "dead", &r), FB_NOT_FOUND);
    assert_null(r);
}

static void put_named(fb_store *store, const char *name, const char *spec_sha256)
{
    const fb_store_experiment row = {.name = name,
                                     .spec = "",
                                     .spec_sha256 = spec_sha256,
                                     .class_name = "open",
                                     .program = "flexbudget 0.1.0"};
    int64_t id;

    assert_ok(fb_store_put_experiment(store, &row, &id));
}

static void finds(fb_store *store, const char *asked, const char *wanted)
{
    char sha256[FB_HASH_HEX];
    int n;

    assert_ok(fb_store_find(store, asked, sha256, &n));
    assert_int_equal(n, 4);
    assert_string_equal(sha256, wanted);
}

static void an_experiment_is_found_by_name_or_by_its_hash(void **state)
{
    struct fixture *f = *state;
    char sha256[FB_HASH_HEX];
    int n;

    put_named(f->store, "second", "ab01");
    put_named(f->store, "twice", "ab02");
    put_named(f->store, "twice", "cd03");
    finds(f->store, NULL, "cd03"); /* the newest */
    finds(f->store, "trial", RESULTS_SPEC);
    finds(f->store, "second", "ab01");
    finds(f->store, "ab02", "ab02");
    finds(f->store, "c", "cd03");
    assert_fails(
        fb_store_find(f->store, "twice", sha256, &n), FB_USAGE,
        "several experiments are 'twice'\nhelp: by name or the beginning of "
        "the hash: 'twice' (cd03), 'twice' (ab02), 'second' (ab01), 'trial' (");
    assert_fails(fb_store_find(f->store, "ab", sha256, &n), FB_USAGE,
                 "several experiments are 'ab'");
    assert_fails(fb_store_find(f->store, "nobody", sha256, &n), FB_NOT_FOUND,
                 "no experiment 'nobody'\nhelp: ");
    assert_string_equal(sha256, "");
}

/* A process that is killed loses open cells only, and leaves a file that opens. */
static void finished_cells_survive_a_killed_process(void **state)
{
    struct fixture *f = *state;
    const fb_results *r;
    pid_t child;
    int how;

    fb_store_close(f->store);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fb_store *store;
        const fb_store_cell cell = full_cell(f);

        if (fb_store_open(&store, f->path) == FB_OK &&
            fb_store_put_cell(store, &cell) == FB_OK)
            (void)kill(getpid(), SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_ok(fb_store_open_read(&f->store, f->path));
    assert_ok(fb_store_read(f->store, NULL, &r));
    assert_int_equal(r->n_cells, 1);
    check_cell(&r->cells[0]);
    fb_results_free(r);
}

static void a_closed_file_stands_alone(void **state)
{
    struct fixture *f = *state;
    struct stat info;
    char wal[80];

    fb_store_close(f->store);
    f->store = NULL;
    (void)snprintf(wal, sizeof wal, "%s-wal", f->path);
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_not_equal(stat(wal, &info), 0);
}

static void a_reader_cannot_write(void **state)
{
    struct fixture *f = *state;
    int64_t id;

    fb_store_close(f->store);
    assert_ok(fb_store_open_read(&f->store, f->path));
    assert_int_equal(fb_store_put_host(f->store, "new", "{}", &id), FB_IO);
    assert_int_equal(id, 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_columns_of_tidy_keep_their_places),
        test(rows_of_one_transaction_are_kept_or_taken_back_together),
        test(a_row_put_twice_is_one_row),
        test(rows_of_other_identity_are_other_rows),
        test(experiments_of_one_file_keep_their_own_values),
        test(a_sample_with_texts_is_another_row),
        test(a_note_is_kept_once),
        test(a_cell_comes_back_as_it_was),
        test(children_of_a_cell_come_back_as_they_were),
        test(peaks_and_times_of_a_cell_are_there),
        test(a_finished_cell_is_never_written_again),
        test(a_failed_cell_is_replaced),
        test(a_cell_that_breaks_a_promise_leaves_nothing),
        test(cells_are_sorted_by_sample_rule_budget_seed),
        test(the_digest_does_not_depend_on_the_order),
        test(one_file_holds_several_experiments),
        test(an_experiment_is_found_by_name_or_by_its_hash),
        test(finished_cells_survive_a_killed_process),
        test(a_closed_file_stands_alone),
        test(a_reader_cannot_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
