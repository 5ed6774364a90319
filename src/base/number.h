/* number.h - the smaller and the larger of two sizes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_NUMBER_H
#define FB_BASE_NUMBER_H

#include <stdint.h>

static inline int64_t fb_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t fb_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
