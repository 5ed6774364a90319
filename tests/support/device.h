/* device.h - which backend a test runs on: FLEXBUDGET_TEST_DEVICE names its device
 * ("torch:cpu", "torch:cuda:0"); without it, the native one.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TESTS_DEVICE_H
#define FB_TESTS_DEVICE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline const char *test_device(void)
{
    const char *name = getenv("FLEXBUDGET_TEST_DEVICE");

    return name == NULL || name[0] == '\0' ? "cpu" : name;
}

static inline bool test_is_native(void)
{
    return strcmp(test_device(), "cpu") == 0;
}

#endif
