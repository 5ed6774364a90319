/* tidy.h - what clang's analyser cannot know: a failure never gives FB_OK.
 *
 * check_tidy.sh includes it in front of every file but error.c. Without it the analyser
 * follows paths on which fb_fail has returned FB_OK, and finds faults that are none.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/error.h>

#define fb_fail(status, ...)    ((void)fb_fail(status, __VA_ARGS__), (status))
#define fb_context(status, ...) ((void)fb_context(status, __VA_ARGS__), (status))
