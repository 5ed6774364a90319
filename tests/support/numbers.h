/* numbers.h - random test data that is the same in every run, and comparisons that
 * print the first wrong element.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TESTS_NUMBERS_H
#define FB_TESTS_NUMBERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct numbers {
    uint64_t state;
} numbers;

static inline uint64_t number_bits(numbers *r)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = r->state;

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [low, high]. */
static inline int64_t number_int(numbers *r, int64_t low, int64_t high)
{
    return low + (int64_t)(number_bits(r) % (uint64_t)(high - low + 1));
}

/* In (-1, 1). */
static inline float number_unit(numbers *r)
{
    return (float)((double)(number_bits(r) >> 11) * 0x1p-52 - 1);
}

/* n floats in (-size, size). Free with free. */
static inline float *number_array(numbers *r, int64_t n, float size)
{
    float *x = malloc(((size_t)n + 1) * sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = size * number_unit(r);
    return x;
}

/* As above, of few different values: many ties. */
static inline float *number_ties(numbers *r, int64_t n)
{
    float *x = malloc(((size_t)n + 1) * sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)number_int(r, -3, 3) / 2;
    return x;
}

static inline bool is_close(double got, double want, double tolerance)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got >= want && got <= want;
    return fabs(got - want) <= tolerance * (1 + fabs(want));
}

/* Largest difference over the largest size of theirs. */
static inline double relative_difference(const float *theirs, const float *ours,
                                         int64_t n)
{
    double most = 0, largest = 0;

    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)theirs[i] - (double)ours[i]));
        largest = fmax(largest, fabs((double)theirs[i]));
    }
    return most / largest;
}

/* True if all are close; else says where not. */
static inline bool all_close(const char *name, const float *got, const double *want,
                             int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!is_close((double)got[i], want[i], tolerance)) {
            fprintf(stderr, "%s: element %lld of %lld is %.9g, not %.9g\n", name,
                    (long long)i, (long long)n, (double)got[i], want[i]);
            return false;
        }
    return true;
}

/* True if all have the same bits; else says where not. */
static inline bool all_equal(const char *name, const float *a, const float *b,
                             int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0) {
            fprintf(stderr, "%s: element %lld of %lld: %a and %a\n", name, (long long)i,
                    (long long)n, (double)a[i], (double)b[i]);
            return false;
        }
    return true;
}

#endif
