/* use_ops.h - operators on one thread, opened once for all tests of a file.
 *
 * Included behind the other headers, whose functions have parameters of the same name.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_USE_OPS_H
#define TESTS_SUPPORT_USE_OPS_H

#include "ops/ops.h"
#include "tests/support/test.h"

static fb_ops *ops;

static inline int open_ops(void **state)
{
    (void)state;
    return fb_ops_open(&ops, &(fb_ops_options){.threads = 1}) == FB_OK ? 0 : -1;
}

static inline int close_ops(void **state)
{
    (void)state;
    fb_ops_close(ops);
    return 0;
}

#endif
