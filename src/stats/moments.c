/* moments.c - means, spreads, quantiles, rank correlation.
 *
 * Sums run from the first value to the last, in double, so a result repeats.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "stats/stats.h"

#include <math.h>

double fb_mean_of(const double *x, int n)
{
    double sum = 0;

    FB_ASSERT(n > 0);
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

double fb_sd_of(const double *x, int n)
{
    const double mean = fb_mean_of(x, n);
    double squares = 0;

    if (n == 1) return 0;
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return sqrt(squares / (n - 1));
}

/* Type 7 of Hyndman and Fan 1996, "Sample quantiles in statistical packages". */
double fb_quantile(const double *sorted, int n, double p)
{
    const double h = (n - 1) * p;
    const int below = (int)floor(h);

    FB_ASSERT(n > 0 && p >= 0 && p <= 1);
    if (below >= n - 1) return sorted[n - 1];
    return sorted[below] + (h - below) * (sorted[below + 1] - sorted[below]);
}

/* Rank of x[at], 1 = smallest; equal values share their average rank. */
static double rank_of(const double *x, int n, int at)
{
    int smaller = 0, equal = 0;

    for (int i = 0; i < n; i++) {
        smaller += x[i] < x[at];
        equal += x[i] <= x[at] && x[i] >= x[at];
    }
    return smaller + (equal + 1) / 2.0;
}

/* Pearson's correlation of the ranks; NAN where one side does not vary. The mean rank
 * is (n + 1) / 2 whatever the ties. Quadratic in n: rules are few. */
double fb_spearman(const double *a, const double *b, int n)
{
    const double mean = (n + 1) / 2.0;
    double ab = 0, aa = 0, bb = 0;

    for (int i = 0; i < n; i++) {
        const double u = rank_of(a, n, i) - mean;
        const double v = rank_of(b, n, i) - mean;

        ab += u * v;
        aa += u * u;
        bb += v * v;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : (double)NAN;
}
