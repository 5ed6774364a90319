/* elementary.c - see elementary.h.
 *
 * exp: x = n ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor series to r^13.
 * log: x = 2^n m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1),
 *      by the series of atanh to s^21.
 * pow: exp(y log x) with log x as a sum of two doubles.
 * sin, cos: x = n pi/2 + r, with pi/2 in three pieces (Cody and Waite 1980, "Software
 *      Manual for the Elementary Functions"); Taylor series to r^17 and r^18.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/elementary.h"

#include <stdint.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42fef00000p-1 /* 33 bits: n times it is exact */
#define LN2_LOW  0x1.473de6af278edp-34
#define LOG2_E   0x1.71547652b82fep+0
#define ROUNDER  0x1.8p52 /* x + it - it: x rounded to an integer */

static double from_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t to_bits(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 2^n for -1022 <= n <= 1023. */
static double power_of_two(int64_t n)
{
    return from_bits((uint64_t)(n + 1023) << 52);
}

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1). */
static double polynomial(double x, const double *c, int n)
{
    double sum = c[n - 1];

    for (int i = n - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* e^(r + low), r as above and low below 1e-12. */
static double exp_near_zero(double r, double low)
{
    static const double c[] = {
        1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
        1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
    };

    return 1 + (r + (low * (1 + r + r * r / 2) + r * r * polynomial(r, c, 12)));
}

static double exp_of_sum(double x, double low)
{
    const double n = x * LOG2_E + ROUNDER - ROUNDER;
    const int64_t half = (int64_t)n / 2, rest = (int64_t)n - half;
    const double r = x - n * LN2_HIGH;

    return exp_near_zero(r - n * LN2_LOW, low) * power_of_two(half) *
           power_of_two(rest);
}

double fb_exp_d(double x)
{
    if (!(x > -746)) return x < 0 ? 0 : x; /* NaN stays NaN */
    if (x > 710) return __builtin_inf();
    return exp_of_sum(x, 0);
}

/* x = 2^n (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); x > 0 and finite. */
static double split(double x, double *f)
{
    double n = 0, m;
    uint64_t bits;

    if (x < 0x1p-1022) {
        x *= 0x1p54;
        n = -54;
    }
    bits = to_bits(x);
    n += (double)((int64_t)(bits >> 52) - 1023);
    m = from_bits((bits & 0xfffffffffffff) | UINT64_C(1023) << 52);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m /= 2;
        n += 1;
    }
    *f = m - 1;
    return n;
}

/* 26 high bits of x: products of two such numbers are exact. */
static double high_part(double x)
{
    return from_bits(to_bits(x) & ~UINT64_C(0x7ffffff));
}

/* a * b = its return value + *low, exactly but for a few units in the 33rd digit. */
static double exact_product(double a, double b, double *low)
{
    const double p = a * b, ah = high_part(a), bh = high_part(b);
    const double al = a - ah, bl = b - bh;

    *low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return p;
}

/* log x = its return value + *low; x > 0 and finite. */
static double log_as_sum(double x, double *low)
{
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    double f, lost, s, s_low, series, high, sum;
    const double n = split(x, &f);
    const double divisor = 2 + f, divisor_low = f - (divisor - 2);

    s = f / divisor;
    sum = exact_product(s, divisor, &lost);
    s_low = (f - sum - lost - s * divisor_low) / divisor;
    series = s * s * s * polynomial(s * s, c, 10);
    high = n * LN2_HIGH; /* exact */
    sum = high + 2 * s;
    *low = (high - sum) + 2 * s; /* |n ln 2| > |2 s| unless n is 0 */
    *low += 2 * s_low + series + n * LN2_LOW;
    high = sum + *low;
    *low += sum - high;
    return high;
}

double fb_log_d(double x)
{
    double low;

    if (!(x > 0)) return x < 0 || x > 0 ? __builtin_nan("") : x - __builtin_inf();
    if (x > 0x1.fffffffffffffp1023) return x;
    return log_as_sum(x, &low);
}

double fb_pow_d(double x, double y)
{
    double low, log_low;
    const double log_high = log_as_sum(x, &log_low);
    const double p = exact_product(y, log_high, &low);

    if (!(p > -746)) return p < 0 ? 0 : p;
    if (p > 710) return __builtin_inf();
    return exp_of_sum(p, low + y * log_low);
}

/* --- angles */

/* x = n pi/2 + r + *low with |r| <= pi/4; returns r and n mod 4. */
static double reduce(double x, double *low, int *quarter)
{
    const double n = x * 0x1.45f306dc9c883p-1 + ROUNDER - ROUNDER;
    const double a = x - n * 0x1.921fb54400000p+0; /* exact: 33 bits of pi/2 */
    const double b = n * 0x1.0b4611a600000p-34;    /* the next 33, exact */
    const double c = n * 0x1.3198a2e037073p-69;    /* and the next 53 */
    const double r = a - b - c;

    *low = ((a - r) - b) - c;
    *quarter = (int)((int64_t)n & 3);
    return r;
}

static double sin_near_zero(double r, double low)
{
    static const double c[] = {
        -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000,
    };
    const double square = r * r;

    return r + (r * square * polynomial(square, c, 8) + low * (1 - square / 2));
}

static double cos_near_zero(double r, double low)
{
    static const double c[] = {
        1.0 / 24,
        -1.0 / 720,
        1.0 / 40320,
        -1.0 / 3628800,
        1.0 / 479001600,
        -1.0 / 87178291200,
        1.0 / 20922789888000,
        -1.0 / 6402373705728000,
    };
    const double square = r * r, half = square / 2, most = 1 - half;

    return most +
           ((1 - most - half) + square * square * polynomial(square, c, 8) - r * low);
}

/* sin(x + quarters * pi/2). */
static double sine(double x, int quarters)
{
    double low;
    int quarter;
    const double r = reduce(x, &low, &quarter);

    switch ((quarter + quarters) & 3) {
    case 0:
        return sin_near_zero(r, low);
    case 1:
        return cos_near_zero(r, low);
    case 2:
        return -sin_near_zero(r, low);
    default:
        return -cos_near_zero(r, low);
    }
}

double fb_sin_d(double x)
{
    return sine(x, 0);
}

double fb_cos_d(double x)
{
    return sine(x, 1);
}
