/* test.h - cmocka, and the few phrases that most tests need.
 *
 * A test is named by the sentence it proves. It prints "skip: why" before it skips, so
 * that the reason reaches the last lines of `make test`.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TEST_SUPPORT_H
#define FB_TEST_SUPPORT_H

#include <flexbudget/error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The call gives FB_OK; otherwise its sentence is shown. */
#define assert_ok(call)                                                                \
    do {                                                                               \
        if ((call) != FB_OK) fail_msg("%s: %s", #call, fb_error_message());            \
    } while (0)

/* The call gives this failure, and its sentence contains `words`. */
#define assert_fails(call, wanted, words)                                              \
    do {                                                                               \
        assert_int_equal(call, wanted);                                                \
        if (strstr(fb_error_message(), words) == NULL)                                 \
            fail_msg("'%s' is not in '%s'", words, fb_error_message());                \
    } while (0)

#define skip_because(reason)                                                           \
    do {                                                                               \
        print_message("skip: %s\n", reason);                                           \
        skip();                                                                        \
    } while (0)

/* Loops are this much longer in `make test-long`. */
static inline int64_t long_or_short(int64_t many, int64_t few)
{
    return getenv("FLEXBUDGET_TEST_LONG") == NULL ? few : many;
}

/* A fresh folder; write "/name" behind it. Removed by test_folder_remove, files and
 * all.
 */
enum { TEST_PATH = 512 };

static inline void test_folder(char out[TEST_PATH])
{
    const char *parent = getenv("TMPDIR");

    (void)snprintf(out, TEST_PATH, "%s/flexbudget-XXXXXX",
                   parent == NULL ? "/tmp" : parent);
    assert_non_null(mkdtemp(out));
}

static inline void test_folder_remove(const char *folder)
{
    char command[TEST_PATH + 16];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* folder/name, lent until the next call. */
static inline const char *test_path(const char *folder, const char *name)
{
    static char path[2 * TEST_PATH];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline void test_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#endif
