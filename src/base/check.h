/* check.h - assertions about our own mistakes; always on.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_CHECK_H
#define FB_BASE_CHECK_H

_Noreturn void fb_assert_failed(const char *file, int line, const char *condition);

#define FB_ASSERT(condition)                                                           \
    ((condition) ? (void)0 : fb_assert_failed(__FILE__, __LINE__, #condition))

#endif
