/* moments.c - means, spreads, quantiles.
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
