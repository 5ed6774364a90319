/* in_use.h - bytes of all accounts together.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_IN_USE_H
#define TESTS_SUPPORT_IN_USE_H

#include "base/memory.h"

static inline size_t bytes_in_use(void)
{
    size_t bytes = 0;

    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        bytes += fb_memory_now((fb_account)a);
    return bytes;
}

/* Since the peaks were reset: no less than there was at any time. */
static inline size_t most_bytes(void)
{
    size_t bytes = 0;

    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        bytes += fb_memory_peak((fb_account)a);
    return bytes;
}

#endif
