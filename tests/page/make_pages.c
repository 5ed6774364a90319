/* make_pages.c - writes the pages that run_page.py looks at.
 *
 *     make_pages FOLDER
 *
 * measured.html comes from a results file with measured lines, its numbers once more
 * in measured.json, as `compare --json` prints them. The others are stand-ins for what
 * experiments can be: small, large, with gaps, with hostile words.
 *
 * SPDX-License-Identifier: MIT
 */
#include "measured.h"

#include "base/file.h"
#include "report/report.h"
#include "tests/support/fake_results.h"

static const char *folder;

static void path_of(char out[4096], const char *name)
{
    (void)snprintf(out, 4096, "%s/%s", folder, name);
}

static void measured_page(void **state)
{
    const fb_report_options all = {.samples = FB_REPORT_ALL_SAMPLES};
    char page[4096], numbers[4096], database[64], *json;
    const fb_results *results;
    fb_analysis *analysis;
    fb_store *store;

    (void)state;
    path_of(page, "measured.html");
    path_of(numbers, "measured.json");
    results_path(database);
    assert_ok(fb_store_open(&store, database));
    measured_fill(store);
    assert_ok(fb_store_read(store, NULL, &results));
    assert_ok(fb_analyse(&analysis, store, results, NULL));
    assert_ok(fb_report_write(page, (const fb_analysis *const *)&analysis, 1, &all));
    assert_ok(fb_analysis_print(analysis, FB_FORMAT_JSON, &json));
    assert_ok(fb_file_write(numbers, json, strlen(json)));
    fb_free(json);
    fb_analysis_free(analysis);
    fb_results_free(results);
    fb_store_close(store);
    results_remove(database);
}

static void write_page(const char *name, fake_shape shape)
{
    char path[4096];
    fake *f = fake_new(shape);
    const fb_analysis *analysis = &f->analysis;

    assert_non_null(f);
    path_of(path, name);
    assert_ok(fb_report_write(path, &analysis, 1, NULL));
    fake_free(f);
}

static const fake_shape usual = {.rules = 10, .budgets = 2, .tasks = 2, .samples = 8};
static const fake_shape most = {
    .rules = FAKE_RULES, .budgets = FAKE_BUDGETS, .tasks = FAKE_TASKS, .samples = 4};

static void smallest_page(void **state)
{
    (void)state;
    write_page("smallest.html",
               (fake_shape){.rules = 1, .budgets = 1, .tasks = 1, .samples = 0});
    write_page("small.html",
               (fake_shape){.rules = 2, .budgets = 1, .tasks = 1, .samples = 3});
}

static void largest_page(void **state)
{
    (void)state;
    write_page("most.html", most);
}

static void pages_of_odd_experiments(void **state)
{
    fake_shape hostile = usual, holes = most, names = usual;

    (void)state;
    hostile.hostile = true;
    holes.holes = true;
    names.long_labels = true;
    write_page("hostile.html", hostile);
    write_page("holes.html", holes);
    write_page("names.html", names);
}

/* Names of tasks that a phone has hardly room for. */
static void page_of_tasks(void **state)
{
    static const char *const names[] = {"recall:filler=live", "recall:filler=inert"};
    char path[4096];
    fake *f = fake_new(usual);
    const fb_analysis *analysis = &f->analysis;

    (void)state;
    assert_non_null(f);
    for (int t = 0; t < usual.tasks; t++)
        f->tasks[t].name = names[t];
    path_of(path, "tasks.html");
    assert_ok(fb_report_write(path, &analysis, 1, NULL));
    fake_free(f);
}

/* The second one compares rules that are all the same: A against A. */
static void page_of_two_experiments(void **state)
{
    char path[4096];
    fake_shape twins = usual;
    const fb_analysis *both[2];
    fake *a, *b;

    (void)state;
    twins.twins = true;
    a = fake_new(usual);
    b = fake_new(twins);
    assert_non_null(a);
    assert_non_null(b);
    both[0] = &a->analysis;
    both[1] = &b->analysis;
    path_of(path, "two.html");
    assert_ok(fb_report_write(path, both, 2, NULL));
    fake_free(a);
    fake_free(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_page), cmocka_unit_test(smallest_page),
        cmocka_unit_test(largest_page),  cmocka_unit_test(pages_of_odd_experiments),
        cmocka_unit_test(page_of_tasks), cmocka_unit_test(page_of_two_experiments),
    };

    if (argc != 2) return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
