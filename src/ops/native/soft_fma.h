/* soft_fma.h - a fused multiply-add for CPUs that have none.
 *
 * The product of two floats is exact in double. Its sum with c is rounded to odd: when
 * it is not exact, the last bit of the double is made 1. Rounding that to float gives
 * what one rounding of the exact sum would have given, because a double has more than
 * two bits more than a float (Boldo and Melquiond 2008, "Emulation of a FMA and
 * correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions
 * on Computers 57(4)). That holds for subnormal results too.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_SOFT_FMA_H
#define FB_OPS_SOFT_FMA_H

#include <stdint.h>
#include <string.h>

static inline float fb_soft_fmaf(float a, float b, float c)
{
    const double product = (double)a * (double)b;
    const double addend = (double)c;
    double sum = product + addend;
    /* What `sum` lost (Knuth's two-sum); NaN for sums that are not finite. */
    const double part = sum - product;
    const double lost = (product - (sum - part)) + (addend - part);
    uint64_t bits;

    memcpy(&bits, &sum, sizeof bits);
    if ((bits & 1) == 0 && (lost > 0 || lost < 0)) {
        bits += (lost > 0) == (sum > 0) ? 1 : UINT64_MAX; /* away from, or towards 0 */
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}

#endif
