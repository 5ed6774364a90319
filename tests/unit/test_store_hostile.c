/* test_store_hostile.c - foreign, newer, truncated and mutated files give one sentence.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "tests/support/results.h"

#include <flexbudget/task.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char path[64];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    results_path(f->path);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    results_remove(f->path);
    free(f);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), 0);
    return 0;
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static size_t read_bytes(const char *path, uint8_t *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");
    size_t n;

    assert_non_null(file);
    n = fread(bytes, 1, most, file);
    assert_true(n < most);
    assert_int_equal(fclose(file), 0);
    return n;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    char *message = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A sound file with one cell of everything. */
static void write_sound(const char *path)
{
    static const int32_t positions[] = {1, 5, 900};
    static const fb_store_score score = {"kl", 0.5};
    static const fb_store_count count = {"context", "model", "mm", 1, 2, 3};
    static const fb_store_peak peak = {"context", "kv", 7};
    static const fb_store_kept kept = {0, 1, 3, positions};
    struct results_ids ids;
    fb_store_cell cell;
    fb_store *store;

    assert_ok(fb_store_open(&store, path));
    ids = results_begin(store, "random");
    cell = results_cell(
        &ids, results_sample(store, results_task(store, "needle", "kl", true), 1),
        results_rule(store, "snapkv", "snapkv"), results_budget(store, "20%"), 0.2);
    cell.scores = &score, cell.n_scores = 1;
    cell.counts = &count, cell.n_counts = 1;
    cell.peaks = &peak, cell.n_peaks = 1;
    cell.kept = &kept, cell.n_kept = 1;
    assert_ok(fb_store_put_cell(store, &cell));
    fb_store_close(store);
}

/* Opens and reads all there is; whatever is wrong must be one sentence. */
static fb_status read_everything(const char *path)
{
    const fb_results *results = NULL;
    fb_store *store = NULL;
    fb_store_count *counts = NULL;
    fb_store_kept *kept = NULL;
    fb_status status;
    int n = 0;

    status = fb_store_open_read(&store, path);
    if (status == FB_OK) status = fb_store_read(store, NULL, &results);
    for (int i = 0; status == FB_OK && i < results->n_cells; i++) {
        status = fb_store_read_counts(store, results->cells[i].id, &counts, &n);
        fb_free(counts);
        if (status == FB_OK)
            status = fb_store_read_kept(store, results->cells[i].id, &kept, &n);
        fb_free(kept);
        counts = NULL, kept = NULL;
    }
    fb_results_free(results);
    fb_store_close(store);
    if (status != FB_OK) assert_true(strlen(fb_error_message()) > 10);
    return status;
}

static void expect_refusal(const char *path, fb_status status, const char *words)
{
    struct stat before, after;
    fb_store *store;

    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(fb_store_open(&store, path), status);
    assert_null(store);
    if (strstr(fb_error_message(), words) == NULL) fail_msg("%s", fb_error_message());
    assert_int_equal(fb_store_open_read(&store, path), status);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size); /* left as it was */
}

static void a_text_file_is_not_taken_for_results(void **state)
{
    struct fixture *f = *state;
    const char text[] = "name: which-signal\nrules: [full, snapkv]\n";

    write_bytes(f->path, text, sizeof text - 1);
    expect_refusal(f->path, FB_FORMAT, "not a results file");
}

static void a_database_of_another_program_is_left_alone(void **state)
{
    struct fixture *f = *state;

    run_sql(f->path, "CREATE TABLE music (title TEXT)");
    expect_refusal(f->path, FB_FORMAT, "not one of results");
    run_sql(f->path, "PRAGMA application_id = 7");
    expect_refusal(f->path, FB_FORMAT, "not one of results");
}

static void a_newer_schema_is_refused_with_its_number(void **state)
{
    struct fixture *f = *state;

    write_sound(f->path);
    run_sql(f->path, "PRAGMA user_version = 9");
    expect_refusal(f->path, FB_UNSUPPORTED, "schema 9");
    run_sql(f->path, "PRAGMA user_version = 0");
    expect_refusal(f->path, FB_FORMAT, "no schema number");
}

/* Its experiments are another version's, and its rows may not tell ours apart. */
static void an_older_schema_is_read_and_not_written(void **state)
{
    struct fixture *f = *state;
    fb_store *store;

    write_sound(f->path);
    run_sql(f->path, "PRAGMA user_version = 1");
    assert_int_equal(read_everything(f->path), FB_OK);
    assert_fails(fb_store_open(&store, f->path), FB_UNSUPPORTED,
                 "schema 1 is that of an older program");
    assert_null(store);
    assert_int_equal(read_everything(f->path), FB_OK); /* left as it was */
    run_sql(f->path, "DROP VIEW point; DROP VIEW tidy; "
                     "ALTER TABLE cell DROP COLUMN plain_flops; "
                     "PRAGMA user_version = 5");
    assert_int_equal(read_everything(f->path), FB_OK);
    run_sql(f->path, "ALTER TABLE cell DROP COLUMN fused_flops; "
                     "ALTER TABLE cell DROP COLUMN step_flops; "
                     "ALTER TABLE cell DROP COLUMN step_bytes; "
                     "PRAGMA user_version = 4");
    assert_int_equal(read_everything(f->path), FB_OK);
    run_sql(f->path, "DROP INDEX rule_identity; ALTER TABLE rule DROP COLUMN about; "
                     "PRAGMA user_version = 3");
    assert_int_equal(read_everything(f->path), FB_OK);
}

static void a_missing_file_is_said(void **state)
{
    struct fixture *f = *state;
    fb_store *store;

    assert_int_equal(fb_store_open_read(&store, f->path), FB_NOT_FOUND);
    assert_non_null(strstr(fb_error_message(), f->path));
    assert_null(store);
    assert_int_equal(fb_store_open(&store, "/nonexistent/folder/r.db"), FB_NOT_FOUND);
    assert_fails(fb_store_open_read(&store, "/tmp"), FB_FORMAT, "a folder");
    assert_fails(fb_store_open(&store, "/tmp"), FB_FORMAT, "a folder");
    assert_fails(fb_store_open(&store, "/dev/null"), FB_FORMAT, "not a plain file");
    assert_fails(fb_store_open(&store, ""), FB_USAGE, "the name is empty");
}

/* SQLite would keep ":memory:" in memory and take "file:" for the start of a URI. */
static void every_name_is_the_name_of_a_file(void **state)
{
    static const char *const names[] = {":memory:", "file:r.db?mode=memory"};
    char folder[TEST_PATH], before[TEST_PATH];

    (void)state;
    test_folder(folder);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_sound(names[i]);
        assert_int_equal(access(names[i], F_OK), 0);
        assert_int_equal(read_everything(names[i]), FB_OK);
    }
    assert_int_equal(chdir(before), 0);
    test_folder_remove(folder);
}

static void *open_and_close(void *path)
{
    fb_store *store;
    const fb_status status = fb_store_open(&store, path);

    fb_store_close(store);
    return status == FB_OK ? path : NULL;
}

static void two_may_make_the_same_file_at_once(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 40; i++) {
        pthread_t other;
        void *opened;

        (void)unlink(f->path);
        assert_int_equal(pthread_create(&other, NULL, open_and_close, f->path), 0);
        if (open_and_close(f->path) == NULL) fail_msg("%s", fb_error_message());
        assert_int_equal(pthread_join(other, &opened), 0);
        assert_non_null(opened);
    }
}

static void an_empty_file_becomes_one_of_results(void **state)
{
    struct fixture *f = *state;

    write_bytes(f->path, "", 0);
    assert_int_equal(read_everything(f->path), FB_FORMAT);
    assert_non_null(strstr(fb_error_message(), "nothing in it"));
    write_sound(f->path);
    assert_int_equal(read_everything(f->path), FB_OK);
}

static void a_file_without_experiment_says_so(void **state)
{
    struct fixture *f = *state;
    fb_store *store;

    assert_ok(fb_store_open(&store, f->path));
    fb_store_close(store);
    assert_int_equal(read_everything(f->path), FB_NOT_FOUND);
    assert_non_null(strstr(fb_error_message(), "no experiment"));
}

/* Each statement damages a sound file in a way that SQLite itself allows. */
static void tables_that_were_tampered_with_are_survived(void **state)
{
    static const struct {
        const char *sql;
        fb_status status;
    } cases[] = {
        {"DROP TABLE score", FB_FORMAT},
        {"ALTER TABLE cell RENAME COLUMN digest TO d", FB_FORMAT},
        {"UPDATE cell SET sample_id = 77", FB_FORMAT},
        {"UPDATE sample SET task_id = 77", FB_FORMAT},
        {"UPDATE cell SET rule_id = 77", FB_FORMAT},
        {"DELETE FROM budget", FB_FORMAT},
        {"UPDATE kept SET n = 4", FB_FORMAT},
        {"UPDATE kept SET n = -1", FB_FORMAT},
        {"UPDATE kept SET n = 9223372036854775807", FB_FORMAT},
        {"UPDATE kept SET positions = x'ffffffffffffffffff7f'", FB_FORMAT},
        {"UPDATE kept SET positions = x'0100'", FB_FORMAT},
        {"UPDATE kept SET positions = x''", FB_FORMAT},
        {"UPDATE kept SET positions = x'ffffffff0701'", FB_FORMAT},
        {"UPDATE ledger SET phase = CAST(x'80ff00fe' AS TEXT)", FB_OK},
        {"UPDATE sample SET key = '', grp = ''", FB_OK},
        {"UPDATE score SET value = 9e999", FB_OK},
        {"DROP VIEW tidy; DROP TABLE note; CREATE VIEW note AS SELECT 1 AS id, 1 AS "
         "experiment_id, NULL AS level, NULL AS text",
         FB_OK},
        {"DROP TABLE certificate; CREATE VIEW certificate AS SELECT 1 AS id, 1 AS "
         "experiment_id, load_extension('x') AS body",
         FB_FORMAT},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sql[512];

        write_sound(f->path);
        (void)snprintf(sql, sizeof sql,
                       "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON; %s",
                       cases[i].sql);
        run_sql(f->path, sql);

        assert_int_equal(read_everything(f->path), cases[i].status);
        (void)unlink(f->path);
    }
}

static void a_truncated_file_is_survived(void **state)
{
    static uint8_t bytes[1 << 20];
    struct fixture *f = *state;
    size_t n;
    int n_refused = 0;

    write_sound(f->path);
    n = read_bytes(f->path, bytes, sizeof bytes);
    for (size_t length = 1; length < n; length += n / 60) {
        write_bytes(f->path, bytes, length);
        n_refused += read_everything(f->path) != FB_OK;
    }
    assert_true(n_refused >= 50);
}

/* Seeded mutations of a sound file: any result is fine but a crash or a hang. */
static void a_mutated_file_is_survived(void **state)
{
    static uint8_t sound[1 << 20], bytes[1 << 20];
    struct fixture *f = *state;
    fb_random random;
    int n_refused = 0;
    size_t n;

    write_sound(f->path);
    n = read_bytes(f->path, sound, sizeof sound);
    fb_random_seed(&random, 3, 0);
    for (int round = 0; round < 300; round++) {
        memcpy(bytes, sound, n);
        for (int i = 0; i < 1 + round % 40; i++)
            bytes[fb_random_below(&random, n)] = (uint8_t)fb_random_below(&random, 256);
        write_bytes(f->path, bytes, n);
        n_refused += read_everything(f->path) != FB_OK;
    }
    assert_true(n_refused > 30);
}

/* --- memory: every allocation of ours, then every one of SQLite's, fails once --- */

static fb_status use_file(const char *path)
{
    const fb_results *results = NULL;
    fb_store *store = NULL;
    fb_store_kept *kept = NULL;
    fb_status status;
    int64_t id;
    int n;

    status = fb_store_open(&store, path);
    if (status == FB_OK) status = fb_store_put_host(store, "more", "{}", &id);
    if (status == FB_OK) status = fb_store_read(store, NULL, &results);
    if (status == FB_OK)
        status = fb_store_read_kept(store, results->cells[0].id, &kept, &n);
    fb_free(kept);
    fb_results_free(results);
    fb_store_close(store);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    fb_status status = FB_NO_MEMORY;
    int64_t n;

    write_sound(f->path);
    for (n = 1; status != FB_OK && n < 100; n++) {
        fb_memory_fail_at(n);
        status = use_file(f->path);
        assert_true(status == FB_OK || status == FB_NO_MEMORY);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), 0);
    }
    fb_memory_fail_at(0);
    assert_true(n > 4 && n < 100);
}

static sqlite3_mem_methods plain;
static int64_t fail_in;

static void *failing_malloc(int n)
{
    return fail_in > 0 && --fail_in == 0 ? NULL : plain.xMalloc(n);
}

static void *failing_realloc(void *old, int n)
{
    return fail_in > 0 && --fail_in == 0 ? NULL : plain.xRealloc(old, n);
}

static void sqlite_without_memory_is_survived(void **state)
{
    struct fixture *f = *state;
    sqlite3_mem_methods failing;
    fb_status status = FB_NO_MEMORY;
    int64_t n, n_failed = 0;

    write_sound(f->path);
    assert_int_equal(sqlite3_shutdown(), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain), SQLITE_OK);
    failing = plain;
    failing.xMalloc = failing_malloc;
    failing.xRealloc = failing_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
    for (n = 1; n < 8000; n += 1 + n / 40) { /* early ones one by one */
        fail_in = n;
        status = use_file(f->path);
        n_failed += status != FB_OK;
        assert_true(status == FB_OK || status == FB_NO_MEMORY || status == FB_IO);
        fail_in = 0;
    }
    assert_true(n_failed > 40); /* SQLite does without some of them */
    assert_int_equal(status, FB_OK);
    assert_int_equal(use_file(f->path), FB_OK);
    assert_int_equal(sqlite3_shutdown(), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &plain), SQLITE_OK);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_text_file_is_not_taken_for_results),
        test(a_database_of_another_program_is_left_alone),
        test(a_newer_schema_is_refused_with_its_number),
        test(an_older_schema_is_read_and_not_written),
        test(a_missing_file_is_said),
        test(every_name_is_the_name_of_a_file),
        test(two_may_make_the_same_file_at_once),
        test(an_empty_file_becomes_one_of_results),
        test(a_file_without_experiment_says_so),
        test(tables_that_were_tampered_with_are_survived),
        test(a_truncated_file_is_survived),
        test(a_mutated_file_is_survived),
        test(every_allocation_may_fail),
        test(sqlite_without_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
