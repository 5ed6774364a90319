/* poison.h - in checked builds, memory that nobody may read is full of NaN.
 *
 * New persistent memory and memory about to be freed: an entry that was never written,
 * or was evicted, spoils every result that it touches.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_NATIVE_POISON_H
#define FB_OPS_NATIVE_POISON_H

#include <stddef.h>
#include <string.h>

#ifdef FB_CHECKED
static inline void fb_native_poison(void *block, size_t bytes)
{
    memset(block, 0xff, bytes); /* a NaN in f32 and f64 */
}
#else
static inline void fb_native_poison(void *block, size_t bytes)
{
    (void)block;
    (void)bytes;
}
#endif

#endif
