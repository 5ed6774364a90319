/* test_fail_loaded.c - the n-th allocation fails while a file of rules is loaded and bound:
 * it is said, nothing leaks, and the next try is well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "rule/rule.h"
#include "tests/support/in_use.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[TEST_PATH];

/* The file of tests/fail/loaded/twin.c; NULL without a compiler. */
static const char *build_twin(void)
{
    const char *path = test_path(folder, "twin.so"), *cc = getenv("CC");
    char command[4 * TEST_PATH];

    (void)snprintf(command, sizeof command,
                   "%s -std=c11 -Iinclude -fPIC -shared -o %s tests/fail/loaded/twin.c",
                   cc == NULL ? "cc" : cc, path);
    return system(command) == 0 ? path : NULL;
}

static fb_status load_and_bind(const char *path)
{
    fb_rule_files files = {0};
    fb_bound_rule *bound = NULL;
    fb_status status = fb_rule_files_add(&files, path, NULL, NULL);

    if (status == FB_OK)
        status = fb_rule_parse_with(&bound, "adakv(normalise(twin))", &files);
    fb_bound_rule_free(bound);
    fb_rule_files_clear(&files);
    return status;
}

static void a_failing_allocation_is_said_and_leaks_nothing(void **state)
{
    const size_t before = bytes_in_use();
    const char *path = build_twin();
    fb_status status = FB_NO_MEMORY;
    int64_t n = 1;

    (void)state;
    assert_non_null(path);
    for (; status != FB_OK; n++) {
        assert_true(n < 1000);
        fb_memory_fail_at(n);
        status = load_and_bind(path);
        fb_memory_fail_at(0);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
        assert_int_equal(bytes_in_use(), before);
    }
    assert_true(n > 8);
    assert_ok(load_and_bind(path));
}

static void two_tables_of_names_do_not_meet(void **state)
{
    const char *path = build_twin();
    fb_rule_files first = {0}, second = {0};
    const fb_rule_file *file = NULL;
    fb_bound_rule *bound = NULL;

    (void)state;
    assert_ok(fb_rule_files_add(&first, path, NULL, &file));
    assert_int_equal(file->n, 1);
    assert_fails(fb_rule_parse_with(&bound, "twin", &second), FB_USAGE,
                 "unknown rule 'twin'");
    assert_ok(fb_rule_files_add(&second, path, file->sha256, NULL));
    assert_ok(fb_rule_files_add(&second, path, NULL, NULL)); /* there already */
    assert_int_equal(second.n, 1);
    fb_rule_files_clear(&first);
    assert_ok(fb_rule_parse_with(&bound, "twin", &second));
    fb_bound_rule_free(bound);
    fb_rule_files_clear(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_allocation_is_said_and_leaks_nothing),
        cmocka_unit_test(two_tables_of_names_do_not_meet),
    };
    int failed;

    test_folder(folder);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
