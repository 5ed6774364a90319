/* test_export_kept.c - kept sets leave the program as they are stored, or not at all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "model/safetensors.h"
#include "report/export_kept.h"
#include "store/query.h"
#include "tests/support/results.h"

/* The model of the support file has 2 layers of 2 kv heads; of a text of 8 tokens they keep
 * 0 to 3 entries. */
enum { LAYERS = 2, HEADS = 2, SLOTS = LAYERS * HEADS, CONTEXT = 8 };

static const int32_t positions[] = {0, 5, 7};

typedef struct fixture {
    char path[64], out[80];
    fb_store *store;
    const fb_results *results;
    fb_store_kept kept[SLOTS];
    int64_t total;
} fixture;

static void make_sets(fixture *f)
{
    for (int s = 0; s < SLOTS; s++) {
        f->kept[s] = (fb_store_kept){s / HEADS, s % HEADS, s, positions};
        f->total += f->kept[s].n;
    }
}

/* Two cells with the sets, and one of the rule `full` without. */
static void put_cells(fixture *f)
{
    const struct results_ids ids = results_begin(f->store, "random");
    const int64_t task = results_task(f->store, "needle", "kl", true);
    const int64_t rule = results_rule(f->store, "snapkv", "snapkv:window=64");
    const int64_t full = results_rule(f->store, "full", "full");
    const int64_t budget = results_budget(f->store, "20%");

    for (int i = 0; i < 3; i++) {
        const int64_t sample = results_sample(f->store, task, i);
        fb_store_cell cell =
            results_cell(&ids, sample, i == 2 ? full : rule, budget, 0.2);

        cell.full_entries = SLOTS * CONTEXT;
        cell.kept_entries = i == 2 ? cell.full_entries : f->total;
        cell.kept_sha256 = "00ff";
        if (i < 2) cell.kept = f->kept, cell.n_kept = SLOTS;
        assert_ok(fb_store_put_cell(f->store, &cell));
    }
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    results_path(f->path);
    (void)snprintf(f->out, sizeof f->out, "%s.out", f->path);
    make_sets(f);
    assert_ok(fb_store_open(&f->store, f->path));
    put_cells(f);
    assert_ok(fb_store_read(f->store, NULL, &f->results));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    fb_results_free(f->results);
    fb_store_close(f->store);
    (void)unlink(f->out);
    results_remove(f->path);
    free(f);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), 0);
    return 0;
}

static void export(fixture *f, fb_kept_format format)
{
    fb_kept_cells cells;
    fb_writer writer;

    assert_ok(fb_kept_open(&cells, f->store, f->results));
    assert_int_equal(cells.n, 2);
    fb_writer_open(&writer, f->out);
    assert_ok(fb_writer_close(&writer, fb_kept_write(&cells, format, &writer)));
    fb_kept_close(&cells);
}

static void check_head(const fb_json *head, const fb_store_kept *kept)
{
    assert_int_equal(fb_json_count(head), kept->n);
    for (int64_t j = 0; j < kept->n; j++) {
        int64_t position = -1;

        assert_true(fb_json_int(fb_json_at(head, (size_t)j), &position));
        assert_int_equal(position, kept->position[j]);
    }
}

static void check_line(const fixture *f, const char *line, size_t n, int sample)
{
    fb_json *root;
    const fb_json *kept;
    int64_t context = 0;

    assert_ok(fb_json_parse(&root, line, n));
    assert_string_equal(fb_json_string(fb_json_get(root, "rule")), "snapkv");
    assert_string_equal(fb_json_string(fb_json_get(root, "expression")),
                        "snapkv:window=64");
    assert_string_equal(fb_json_string(fb_json_get(root, "budget")), "20%");
    assert_string_equal(fb_json_string(fb_json_get(root, "sample")),
                        f->results->samples[sample].key);
    assert_ok(fb_json_want_int(&context, root, "n"));
    assert_int_equal(context, CONTEXT);
    kept = fb_json_get(root, "kept");
    assert_int_equal(fb_json_count(kept), LAYERS);
    for (size_t s = 0; s < SLOTS; s++)
        check_head(fb_json_at(fb_json_at(kept, s / HEADS), s % HEADS), &f->kept[s]);
    fb_json_free(root);
}

static void a_line_of_json_is_a_cell_with_its_set(void **state)
{
    fixture *f = *state;
    char *text, *at;
    size_t n;

    export(f, FB_KEPT_JSONL);
    assert_ok(fb_file_read(&text, &n, f->out, (size_t)1 << 20));
    at = text;
    for (int i = 0; i < 2; i++) {
        const size_t length = strcspn(at, "\n");

        check_line(f, at, length, i);
        at += length + 1;
    }
    assert_int_equal(*at, '\0');
    fb_free(text);
}

static int32_t number_at(const fb_stored *t, int64_t i)
{
    int32_t number;

    memcpy(&number, t->data + 4 * i, sizeof number);
    return number;
}

static void check_tensors(const fixture *f, const fb_stored_list *list, int cell)
{
    char name[32];
    const fb_stored *counts, *all;
    int64_t at = 0;

    (void)snprintf(name, sizeof name, "%d.counts", cell);
    counts = fb_stored_find(list, name);
    (void)snprintf(name, sizeof name, "%d.positions", cell);
    all = fb_stored_find(list, name);
    assert_non_null(counts);
    assert_non_null(all);
    assert_int_equal(counts->shape[0], HEADS);
    assert_int_equal(counts->shape[1], LAYERS);
    assert_int_equal(all->shape[0], f->total);
    assert_int_equal((uintptr_t)all->data % 4, 0);
    for (int64_t s = 0; s < SLOTS; s++) {
        assert_int_equal(number_at(counts, s), f->kept[s].n);
        for (int64_t j = 0; j < f->kept[s].n; j++)
            assert_int_equal(number_at(all, at++), f->kept[s].position[j]);
    }
}

static void tensors_are_read_by_our_own_reader(void **state)
{
    fixture *f = *state;
    fb_safetensors *file;

    export(f, FB_KEPT_SAFETENSORS);
    assert_ok(fb_safetensors_open(&file, f->out));
    assert_int_equal(fb_safetensors_list(file)->n, 4);
    check_tensors(f, fb_safetensors_list(file), 0);
    check_tensors(f, fb_safetensors_list(file), 1);
    fb_safetensors_close(file);
}

static void refuses(fixture *f, const char *sql, const char *part)
{
    fb_kept_cells cells;

    fb_results_free(f->results);
    f->results = NULL;
    assert_int_equal(sqlite3_exec(f->store->db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_ok(fb_store_read(f->store, NULL, &f->results));
    assert_fails(fb_kept_open(&cells, f->store, f->results),
                 strstr(part, "no cell") != NULL ? FB_NOT_FOUND : FB_FORMAT, part);
    assert_null(cells.cell);
}

static void sets_that_are_not_what_their_cells_say_are_refused(void **state)
{
    fixture *f = *state;

    refuses(f,
            "UPDATE kept SET positions = x'08', n = 1 WHERE layer = 0 AND kv_head = 1",
            "'snapkv' on sample '0' has a position behind the end");
    refuses(
        f,
        "UPDATE kept SET positions = x'020101', n = 3 WHERE layer = 0 AND kv_head = 1",
        "has not as many entries as its cell says");
    refuses(f, "UPDATE cell SET full_entries = full_entries + 1",
            "one part for each head");
    refuses(f, "UPDATE cell SET full_entries = -8", "has a position behind the end");
    refuses(f, "UPDATE kept SET kv_head = -4 WHERE kv_head = 0",
            "one part for each head");
    refuses(f, "UPDATE kept SET layer = 9223372036854775807 WHERE layer = 1",
            "kept sets of 4 heads, the last in layer 9223372036854775807");
    refuses(f, "DELETE FROM kept WHERE layer = 0 AND kv_head = 1",
            "kept sets of 3 heads");
    refuses(f, "DELETE FROM kept", "no cell of ");
}

/* The file of before stays, and nothing is left beside it. */
static void what_cannot_be_written_leaves_the_old_file(void **state)
{
    fixture *f = *state;
    fb_kept_cells cells;
    fb_writer writer;
    char *text;
    size_t n;

    assert_ok(fb_file_write(f->out, "old", 3));
    assert_ok(fb_kept_open(&cells, f->store, f->results));
    fb_writer_open(&writer, f->out);
    assert_ok(fb_kept_write(&cells, FB_KEPT_JSONL, &writer));
    assert_fails(fb_writer_close(&writer, fb_fail(FB_IO, "on purpose")), FB_IO,
                 "on purpose");
    assert_ok(fb_file_read(&text, &n, f->out, 100));
    assert_string_equal(text, "old");
    fb_free(text);
    fb_writer_open(&writer, "/nonexistent/kept");
    assert_ok(fb_kept_write(&cells, FB_KEPT_SAFETENSORS, &writer));
    assert_fails(fb_writer_close(&writer, FB_OK), FB_IO, "cannot write: No such");
    fb_kept_close(&cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_of_json_is_a_cell_with_its_set, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(tensors_are_read_by_our_own_reader, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            sets_that_are_not_what_their_cells_say_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_leaves_the_old_file,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
