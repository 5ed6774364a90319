/* elementary.h - exp, log, pow, sin and cos in double, the same bits on every machine.
 *
 * Only additions, multiplications and divisions of IEEE doubles, in a fixed order. Their
 * errors are a few units in the 16th digit, so a result rounded to f32 is the correctly
 * rounded one except where the exact value lies within 1e-15 of a boundary.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_ELEMENTARY_H
#define FB_OPS_ELEMENTARY_H

#define FB_LARGEST_ANGLE 0x1p24

double fb_exp_d(double x); /* 0 below about -745, infinite above about 709.8 */
double fb_log_d(double x); /* -inf for 0, NaN for negative numbers */
double fb_pow_d(double x, double y); /* x > 0 */
/* |x| up to FB_LARGEST_ANGLE; beyond about 1e6 their error grows, to 1e-9. */
double fb_sin_d(double x);
double fb_cos_d(double x);

#endif
