/* robust.c - medians of times, their intervals, and what stands out among them.
 *
 * Times have a floor and a long tail, so they are summed up by medians. Sources: Efron
 * 1979, "Bootstrap methods: another look at the jackknife"; Iglewicz and Hoaglin 1993,
 * "How to detect and handle outliers", the modified z-score and its limit of 3.5.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/memory.h"
#include "stats/stats.h"

#include <flexbudget/task.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of_room(double *room, int n)
{
    qsort(room, (size_t)n, sizeof *room, by_value);
    return fb_quantile(room, n, 0.5);
}

fb_status fb_median_of(double *out, const double *x, int n)
{
    double *room;

    *out = (double)NAN;
    if (n < 1) return fb_fail(FB_USAGE, "there are no values to take the median of");
    room = fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *room));
    if (room == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a median of %d values", n);
    memcpy(room, x, (size_t)n * sizeof *room);
    *out = median_of_room(room, n);
    fb_free(room);
    return FB_OK;
}

/* `room` [n + replicates]: a drawn sample, then the medians. */
static void resample(fb_interval *out, const double *x, int n, double confidence,
                     int replicates, uint64_t seed, double *room)
{
    double *medians = room + n;
    fb_random random;

    fb_random_seed(&random, seed, 0);
    for (int r = 0; r < replicates; r++) {
        for (int i = 0; i < n; i++)
            room[i] = x[fb_random_below(&random, (uint64_t)n)];
        medians[r] = median_of_room(room, n);
    }
    qsort(medians, (size_t)replicates, sizeof *medians, by_value);
    out->low = fb_quantile(medians, replicates, (1 - confidence) / 2);
    out->high = fb_quantile(medians, replicates, (1 + confidence) / 2);
}

fb_status fb_bootstrap_median(fb_interval *out, const double *x, int n,
                              double confidence, int replicates, uint64_t seed)
{
    double *room;

    FB_ASSERT(confidence > 0 && confidence < 1 && replicates > 0);
    *out = (fb_interval){(double)NAN, (double)NAN};
    if (n < 1) return fb_fail(FB_USAGE, "there are no values to take the median of");
    room = fb_alloc(FB_ACCOUNT_other,
                    fb_size_mul((size_t)n + (size_t)replicates, sizeof *room));
    if (room == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for %d resamples", replicates);
    resample(out, x, n, confidence, replicates, seed, room);
    fb_free(room);
    return FB_OK;
}

/* 0.6745 and 1.2533: what makes the median and the mean of the distances from the median
 * estimates of the s.d. of a normal distribution. */
fb_status fb_modified_z(double *z, const double *x, int n)
{
    double median, apart, mean = 0;

    FB_TRY(fb_median_of(&median, x, n));
    for (int i = 0; i < n; i++) {
        z[i] = fabs(x[i] - median);
        mean += z[i] / n;
    }
    FB_TRY(fb_median_of(&apart, z, n));
    for (int i = 0; i < n; i++) {
        if (apart > 0)
            z[i] = 0.6745 * (x[i] - median) / apart;
        else /* more than half of the values are equal */
            z[i] = mean > 0 ? (x[i] - median) / (1.253314 * mean) : 0;
    }
    return FB_OK;
}
