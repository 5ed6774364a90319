/* test_model_identity.c - a file's hash is remembered, and only of that file.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "model/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A file in the tree that is large and was not changed a second ago. */
static const char old_file[] = "web/vega.min.js";

static char folder[] = "/tmp/flexbudget-identity-XXXXXX";
static char *bytes;
static size_t n;

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL || setenv("XDG_CACHE_HOME", folder, 1) != 0) return 1;
    return fb_file_read(&bytes, &n, old_file, 1 << 24) != FB_OK;
}

/* Of bytes that are said to be those of the file. */
static void identity(const char *path, const void *of, size_t n_of, char *out)
{
    const fb_map map = {of, n_of, fb_file_state_of(path)};

    fb_identity(&map, out);
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    fb_free(bytes);
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static void a_hash_is_computed_once(void **state)
{
    char wanted[FB_HASH_HEX], got[FB_HASH_HEX];
    char *changed = fb_alloc(FB_ACCOUNT_other, n);

    (void)state;
    assert_non_null(changed);
    memcpy(changed, bytes, n);
    changed[0] ^= 1;
    fb_hash_bytes(bytes, n, wanted);
    identity(old_file, bytes, n, got);
    assert_string_equal(got, wanted);
    /* Other bytes under the same file show that they are not looked at again. */
    identity(old_file, changed, n, got);
    assert_string_equal(got, wanted);
    fb_free(changed);
}

static void a_changed_file_is_hashed_again(void **state)
{
    char path[64], first[FB_HASH_HEX], second[FB_HASH_HEX], wanted[FB_HASH_HEX];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/copy", folder);
    assert_int_equal(fb_file_write(path, bytes, n), FB_OK);
    identity(path, bytes, n, first);
    bytes[5] ^= 1;
    assert_int_equal(fb_file_write(path, bytes, n), FB_OK);
    identity(path, bytes, n, second);
    fb_hash_bytes(bytes, n, wanted);
    bytes[5] ^= 1;
    assert_string_equal(second, wanted);
    assert_string_not_equal(first, second);
}

static void a_file_that_has_just_changed_is_not_remembered(void **state)
{
    char path[64], got[FB_HASH_HEX], wanted[FB_HASH_HEX];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/young", folder);
    assert_int_equal(fb_file_write(path, bytes, n), FB_OK);
    identity(path, bytes, n, got);
    bytes[5] ^= 1; /* as if changed within the tick of the clock */
    identity(path, bytes, n, got);
    fb_hash_bytes(bytes, n, wanted);
    bytes[5] ^= 1;
    assert_string_equal(got, wanted);
}

/* A mapping keeps its file when another one gets the name. */
static void a_hash_belongs_to_what_was_mapped(void **state)
{
    char path[64], other[64], got[FB_HASH_HEX], wanted[FB_HASH_HEX];
    fb_map map;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/mapped", folder);
    (void)snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(fb_file_write(path, bytes, n), FB_OK);
    assert_int_equal(fb_map_open(&map, path), FB_OK);
    assert_true(fb_file_state_equal(map.state, fb_file_state_of(path)));
    fb_hash_bytes(bytes, n, wanted);
    assert_int_equal(fb_file_write(other, "x", 1), FB_OK);
    assert_int_equal(rename(other, path), 0);
    assert_false(fb_file_state_equal(map.state, fb_file_state_of(path)));
    fb_identity(&map, got);
    assert_string_equal(got, wanted);
    fb_map_close(&map);
}

static void a_useless_folder_only_costs_time(void **state)
{
    char wanted[FB_HASH_HEX], got[FB_HASH_HEX];

    (void)state;
    fb_hash_bytes(bytes, n, wanted);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null/none", 1), 0);
    identity(old_file, bytes, n, got);
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    assert_string_equal(got, wanted);
}

static void every_failing_allocation_only_costs_time(void **state)
{
    char wanted[FB_HASH_HEX], got[FB_HASH_HEX];

    (void)state;
    fb_hash_bytes(bytes, n, wanted);
    for (int64_t at = 1; at < 12; at++) {
        got[0] = '\0';
        fb_memory_fail_at(at);
        identity(old_file, bytes, n, got);
        fb_memory_fail_at(0);
        assert_string_equal(got, wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_useless_folder_only_costs_time),
        cmocka_unit_test(a_hash_is_computed_once),
        cmocka_unit_test(a_changed_file_is_hashed_again),
        cmocka_unit_test(a_file_that_has_just_changed_is_not_remembered),
        cmocka_unit_test(a_hash_belongs_to_what_was_mapped),
        cmocka_unit_test(every_failing_allocation_only_costs_time),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
