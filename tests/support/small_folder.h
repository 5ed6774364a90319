/* small_folder.h - a small experiment `s` and a folder for its files, for a file of tests.
 *
 * Included behind the other headers, whose functions have parameters of the same names.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_SMALL_FOLDER_H
#define TESTS_SUPPORT_SMALL_FOLDER_H

#include "tests/support/small_experiment.h"

static small s;
static char folder[TEST_PATH];

static inline int open_folder(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static inline int close_all(void **state)
{
    (void)state;
    small_close(&s);
    test_folder_remove(folder);
    return 0;
}

#endif
