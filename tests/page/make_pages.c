/* make_pages.c - writes the pages that run_page.py looks at into a folder.
 *
 *     make_pages FOLDER
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/fake_results.h"

#include "report/report.h"

static int write_page(const char *folder, const char *name, fake_shape shape,
                      const fb_report_options *options)
{
    char path[4096];
    fake *f = fake_new(shape);
    const fb_analysis *analysis;
    fb_status status;

    if (f == NULL) return 1;
    analysis = &f->analysis;
    (void)snprintf(path, sizeof path, "%s/%s.html", folder, name);
    status = fb_report_write(path, &analysis, 1, options);
    if (status != FB_OK) (void)fprintf(stderr, "%s\n", fb_error_message());
    fake_free(f);
    return status != FB_OK;
}

int main(int argc, char **argv)
{
    const fake_shape usual = {.rules = 10, .budgets = 2, .tasks = 2, .samples = 8};
    const fake_shape one = {.rules = 2, .budgets = 1, .tasks = 1, .samples = 3};
    const fake_shape most = {.rules = FAKE_RULES,
                             .budgets = FAKE_BUDGETS,
                             .tasks = FAKE_TASKS,
                             .samples = 4};
    fake_shape hostile = usual, twins = usual, holes = most, names = usual;
    int failed = 0;

    if (argc != 2) return 2;
    hostile.hostile = true;
    twins.twins = true;
    holes.holes = true;
    names.long_labels = true;
    failed += write_page(argv[1], "usual", usual, NULL);
    failed += write_page(argv[1], "one", one, NULL);
    failed += write_page(argv[1], "most", most, NULL);
    failed += write_page(argv[1], "hostile", hostile, NULL);
    failed += write_page(argv[1], "twins", twins, NULL);
    failed += write_page(argv[1], "holes", holes, NULL);
    failed += write_page(argv[1], "names", names, NULL);
    return failed;
}
