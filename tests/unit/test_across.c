/* test_across.c - two runs across backends, with an answer that was worked out by hand.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/results.h"
#include "tests/support/test.h"

#include "base/memory.h"
#include "report/across.h"

/* Three documents that both runs have. What differs, first and second:
 *
 *   document  score      slot 0             slot 1       kept      answer
 *   0         1.0  1.0   2 3 5 7 / same     1 / same     equal     1 2 / 1 2
 *   1         2.0  2.5   2 3 5 7 / 2 3 5 8  1 / 1        unequal   1 2 / 1 3
 *   2         3.0  4.0   not stored                      unequal   none / 1 2
 *
 * Differences 0, 0.5, 1: their mean is 0.5. A mean of three drawn ones is 0 in 1 of 27
 * cases, more than 2.5 %, so the interval goes from 0 to 1. Entries: all 5 of 5, then 4 of
 * 5; mean 0.9. */
static const double scores[2][4] = {{1, 2, 3, 7}, {1, 2.5, 4, 0}};
static const char *const answers[2][4] = {{"[1,2]", "[1,2]", NULL, NULL},
                                          {"[1,2]", "[1,3]", "[1,2]", NULL}};
static const char *const hashes[2][4] = {{"aa", "bb", "cc", "dd"},
                                         {"aa", "b2", "c2", "dd"}};

struct side {
    char path[64];
    fb_store *store;
    const fb_results *results;
};

static void put_cell(fb_store *store, fb_store_cell cell, int side, int document)
{
    static const int32_t one[] = {1}, same[] = {2, 3, 5, 7}, other[] = {2, 3, 5, 8};
    const bool is_other = side == 1 && document == 1;
    const fb_store_kept kept[] = {{0, 0, 4, is_other ? other : same}, {0, 1, 1, one}};
    const fb_store_score score = {"kl", scores[side][document]};

    cell.scores = &score;
    cell.n_scores = 1;
    cell.answer_tokens = answers[side][document];
    if (cell.evicted > 0) cell.kept_sha256 = hashes[side][document];
    if (cell.evicted > 0 && document < 2) {
        cell.kept = kept;
        cell.n_kept = 2;
    }
    assert_ok(fb_store_put_cell(store, &cell));
}

/* The second has its samples in another order, and lacks the last document. */
static void open_side(struct side *s, int side, const char *protocol)
{
    struct results_ids ids;
    fb_store *store;
    int64_t task, rule, full, budget, all;
    const int n = side == 0 ? 4 : 3;

    results_path(s->path);
    assert_ok(fb_store_open(&store, s->path));
    ids = results_begin_as(store, "h2o", side == 0 ? NULL : "torch-2.13.0.cpu.f32.kv32",
                           protocol);
    task = results_task(store, "recall", "kl", true);
    full = results_rule(store, "full", "full");
    rule = results_rule(store, "h2o", "h2o");
    all = results_budget(store, "full");
    budget = results_budget(store, "20%");
    for (int i = 0; i < n; i++) {
        const int document = side == 0 ? i : n - 1 - i;
        const int64_t sample = results_sample(store, task, document);

        put_cell(store, results_cell(&ids, sample, rule, budget, 0.2), side, document);
        put_cell(store, results_cell(&ids, sample, full, all, 1), side, document);
    }
    fb_store_close(store);
    assert_ok(fb_store_open_read(&s->store, s->path));
    assert_ok(fb_store_read(s->store, NULL, &s->results));
}

static void close_side(struct side *s)
{
    fb_results_free(s->results);
    fb_store_close(s->store);
    results_remove(s->path);
}

static fb_status compare(fb_across **out, const struct side *a, const struct side *b)
{
    const fb_across_side first = {a->store, a->results},
                         second = {b->store, b->results};

    return fb_compare_across(out, &first, &second, NULL);
}

static void two_backends_are_compared_cell_by_cell(void **state)
{
    struct side a, b;
    fb_across *across;
    const fb_across_row *row;

    (void)state;
    open_side(&a, 0, NULL);
    open_side(&b, 1, NULL);
    assert_ok(compare(&across, &a, &b));
    assert_int_equal(across->n_pairs, 6);
    assert_int_equal(across->n_only_first, 2);
    assert_int_equal(across->n_only_second, 0);
    assert_int_equal(across->n_rows, 2);
    row = &across->rows[0]; /* the full cache: nothing was evicted */
    assert_int_equal(row->budget, -1);
    assert_int_equal(row->n_sets, 0);
    assert_true(isnan(row->common));
    row = &across->rows[1];
    assert_string_equal(a.results->rules[row->rule].label, "h2o");
    assert_int_equal(row->n_cells, 3);
    assert_int_equal(row->n_documents, 3);
    assert_int_equal(row->n_sets, 3);
    assert_int_equal(row->n_equal_sets, 1);
    assert_int_equal(row->n_positions, 2);
    assert_int_equal(row->n_entries, 10);
    assert_int_equal(row->n_exchanged, 1);
    assert_float_equal(row->common, 0.9, 1e-12);
    assert_int_equal(row->n_answers, 2);
    assert_int_equal(row->n_equal_answers, 1);
    assert_float_equal(row->first, 2, 1e-12);
    assert_float_equal(row->second, 2.5, 1e-12);
    assert_float_equal(row->difference, 0.5, 1e-12);
    assert_float_equal(row->interval.low, 0, 1e-12);
    assert_float_equal(row->interval.high, 1, 1e-12);
    fb_across_free(across);
    close_side(&a);
    close_side(&b);
}

static void what_was_found_is_said(void **state)
{
    static const char *const said[] = {
        "First native.f32.kv32, second torch-2.13.0.cpu.f32.kv32, 6 cells of both: the "
        "kept sets are equal in\n1 of 3, 1 of 10 entries are exchanged in the 2 cells "
        "of which both files hold positions, the free\nanswers are equal in 2 of 4, "
        "the largest mean difference, second less first, is +0.500 nat ",
        "\nrule  cells  equal sets  exchanged entries  equal answers  first  second  "
        "difference    95 % interval\n"
        "h2o       3      1 of 3            1 of 10         1 of 2  2.000   2.500      "
        "+0.500  0.000 to +1.000\n",
        "left out: 2 cells of the first and 0 of the second"};
    struct side a, b;
    fb_across *across;
    char *text;

    (void)state;
    open_side(&a, 0, NULL);
    open_side(&b, 1, NULL);
    assert_ok(compare(&across, &a, &b));
    assert_ok(fb_across_print(across, FB_FORMAT_TEXT, &text));
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (strstr(text, said[i]) == NULL)
            fail_msg("'%s' is not in:\n%s", said[i], text);
    fb_free(text);
    assert_ok(fb_across_print(across, FB_FORMAT_JSON, &text));
    assert_non_null(strstr(text, "\"equal_sets\":1,\"position_cells\":2,\"entries\":10,"
                                 "\"exchanged_entries\":1,\"answers\":2,"
                                 "\"equal_answers\":1,\"equal_entries\":0.9"));
    fb_free(text);
    assert_ok(fb_across_print(across, FB_FORMAT_CSV, &text));
    assert_non_null(strstr(text, ",recall,20%,h2o,h2o,kl,nat,3,3,3,1,2,10,1,2,1,0.9"));
    fb_free(text);
    fb_across_free(across);
    close_side(&a);
    close_side(&b);
}

static void runs_that_differ_in_more_are_refused(void **state)
{
    struct side a, b;
    fb_across *across;

    (void)state;
    open_side(&a, 0, NULL);
    open_side(&b, 1, "prefill.aware.original");
    assert_fails(compare(&across, &a, &b), FB_USAGE,
                 "the two runs differ in more than the backend: protocol "
                 "(prefill.agnostic.original and prefill.aware.original)");
    assert_null(across);
    close_side(&a);
    close_side(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_backends_are_compared_cell_by_cell),
        cmocka_unit_test(what_was_found_is_said),
        cmocka_unit_test(runs_that_differ_in_more_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
