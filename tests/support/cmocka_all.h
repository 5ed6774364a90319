/* cmocka_all.h - cmocka with the headers that it needs first.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_CMOCKA_ALL_H
#define TESTS_SUPPORT_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A call that must succeed; prints the sentence if it does not. */
#define must(call)                                                                     \
    do {                                                                               \
        if ((call) != FB_OK) fail_msg("%s: %s", #call, fb_error_message());            \
    } while (0)

/* A call that must fail with `status` and a sentence that contains `part`. */
#define must_fail(call, wanted, part)                                                  \
    do {                                                                               \
        assert_int_equal(call, wanted);                                                \
        if (strstr(fb_error_message(), part) == NULL)                                  \
            fail_msg("'%s' is not in '%s'", part, fb_error_message());                 \
    } while (0)

#endif
