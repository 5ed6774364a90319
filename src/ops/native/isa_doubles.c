/* isa_doubles.c - sums in double over long rows: what the measures of an answer need.
 *
 * Sixteen lanes, lane l takes the elements l, l + 16, ..., and a fixed tree adds the
 * lanes: the same bits whatever the width of a vector. No fused operation here: plain
 * IEEE doubles are the same everywhere.
 *
 * exp as in elementary.c, but results below 2^-1021 are 0.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/isa_vector.h"

enum { TREE = 16, DLANES = FB_LANES / 2, VECTORS = TREE / DLANES };

typedef double dvec __attribute__((vector_size(4 * FB_LANES)));
typedef int64_t lvec __attribute__((vector_size(4 * FB_LANES)));
typedef uint64_t ulvec __attribute__((vector_size(4 * FB_LANES)));

FB_INLINE dvec all_d(double x)
{
    return x - (dvec){0};
}

FB_INLINE dvec load_d(const float *from)
{
    dvec v;

    for (int i = 0; i < DLANES; i++)
        v[i] = (double)from[i];
    return v;
}

FB_INLINE dvec keep(lvec mask, dvec x)
{
    return (dvec)(mask & (lvec)x);
}

FB_INLINE dvec exp_dvec(dvec x)
{
    static const double c[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
        1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
        1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2,
    };
    const dvec rounder = all_d(0x1.8p52);
    const dvec shifted = x * all_d(0x1.71547652b82fep+0) + rounder;
    const dvec n = shifted - rounder;
    const dvec r =
        x - n * all_d(0x1.62e42fef00000p-1) - n * all_d(0x1.473de6af278edp-34);
    dvec e = all_d(c[0]);

    FB_UNROLL
    for (int i = 1; i < 12; i++)
        e = e * r + all_d(c[i]);
    e = all_d(1) + (r + r * r * e);
    e = (dvec)((ulvec)e + ((ulvec)shifted << 52));
    return keep((lvec)(x > all_d(-707)), e);
}

typedef struct sums {
    dvec v[VECTORS];
} sums;

FB_INLINE double tree(const sums *s)
{
    double lanes[TREE];

    memcpy(lanes, s->v, sizeof lanes);
    for (int apart = TREE / 2; apart > 0; apart /= 2)
        for (int l = 0; l < apart; l++)
            lanes[l] += lanes[l + apart];
    return lanes[0];
}

/* The next 16 elements of a row, or those that are left and `rest` behind them. */
FB_INLINE const float *next(const float *x, int64_t left, float rest, float *room)
{
    if (left >= TREE) return x;
    for (int l = 0; l < TREE; l++)
        room[l] = l < left ? x[l] : rest;
    return room;
}

static double sum_exp(const float *x, int64_t n, double max)
{
    sums s = {0};
    float room[TREE];

    for (int64_t i = 0; i < n; i += TREE) {
        const float *at = next(x + i, n - i, -__builtin_inff(), room);

        for (int v = 0; v < VECTORS; v++)
            s.v[v] += exp_dvec(load_d(at + v * DLANES) - all_d(max));
    }
    return tree(&s);
}

static double kl(const float *x, double a, const float *y, double b, int64_t n)
{
    sums s = {0};
    float x_room[TREE], y_room[TREE];

    for (int64_t i = 0; i < n; i += TREE) {
        const float *x_at = next(x + i, n - i, -__builtin_inff(), x_room);
        const float *y_at = next(y + i, n - i, 0, y_room);

        for (int v = 0; v < VECTORS; v++) {
            const dvec p = load_d(x_at + v * DLANES) - all_d(a);
            const dvec q = load_d(y_at + v * DLANES) - all_d(b);
            const dvec e = exp_dvec(p);

            s.v[v] += keep((lvec)(e > all_d(0)), e * (p - q));
        }
    }
    return tree(&s);
}

static double sum(const float *x, int64_t n)
{
    sums s = {0};
    float room[TREE];

    for (int64_t i = 0; i < n; i += TREE) {
        const float *at = next(x + i, n - i, 0, room);

        for (int v = 0; v < VECTORS; v++)
            s.v[v] += load_d(at + v * DLANES);
    }
    return tree(&s);
}

extern const fb_isa_doubles FB_TABLE(fb_isa_doubles);
const fb_isa_doubles FB_TABLE(fb_isa_doubles) = {
    .sum_exp = sum_exp,
    .kl = kl,
    .sum = sum,
};
