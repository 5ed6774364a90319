/* stats.h - paired tests, intervals, corrections: pure functions on arrays.
 *
 * Unit of analysis: a document. Differences are paired by sample. Random draws are
 * those of <flexbudget/task.h> (xoshiro256**), one call per replicate and document, in
 * order, so that a result repeats to the last digit. Formulas: each with its source at
 * its place.
 *
 * Must never: read files, know rules or tasks. Uses libm: results are stored by nobody
 * as bits.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STATS_STATS_H
#define FB_STATS_STATS_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fb_interval {
    double low, high;
} fb_interval;

double fb_mean_of(const double *x, int n);
double fb_sd_of(const double *x, int n); /* divisor n - 1; 0 for n = 1 */
/* Quantile of type 7 of sorted values: h = (n - 1) p, linear between neighbours. */
double fb_quantile(const double *sorted, int n, double p);

/* Percentile bootstrap of the mean over documents: x [n], group[i] in [0, n_groups) the
 * document of x[i] (NULL: each its own). The pooled mean of the drawn documents'
 * values. */
FB_MUST_USE fb_status fb_bootstrap_mean(fb_interval *out, const double *x,
                                        const int *group, int n, int n_groups,
                                        double confidence, int replicates,
                                        uint64_t seed);

/* Likewise of the mean of x over the mean of y, both of the same drawn documents; draws
 * whose mean of y is not positive do not count, and without others both ends are NAN. */
FB_MUST_USE fb_status fb_bootstrap_ratio(fb_interval *out, const double *x,
                                         const double *y, const int *group, int n,
                                         int n_groups, double confidence,
                                         int replicates, uint64_t seed);

/* The median of x [n]; the percentile bootstrap of it, values drawn one by one. */
FB_MUST_USE fb_status fb_median_of(double *out, const double *x, int n);
FB_MUST_USE fb_status fb_bootstrap_median(fb_interval *out, const double *x, int n,
                                          double confidence, int replicates,
                                          uint64_t seed);
/* How far each of x [n] stands out, to z [n]: 0.6745 (x - median) / MAD, where that is 0
 * by the mean distance instead. Beyond 3.5 a value is called an outlier. */
FB_MUST_USE fb_status fb_modified_z(double *z, const double *x, int n);

/* Two-sided sign-flip test of mean d = 0, whole documents flipped together: exact for
 * at most 20 documents, else `draws` random patterns and (hits + 1) / (draws + 1). */
FB_MUST_USE fb_status fb_sign_flip(double *p_out, const double *d, const int *group,
                                   int n, int n_groups, int draws, uint64_t seed);

/* Holm 1979: p [n] to adjusted p [n], in the order given. */
void fb_holm(const double *p, int n, double *out);

/* Smallest difference of a paired mean that n documents would show with power 0.8 at
 * two-sided `alpha`: noncentral t, with the s.d. of the differences. */
double fb_smallest_effect(double sd, int n, double alpha, double power);

/* Letters: groups[i] gets the letters of rule i, such that two rules share one if and
 * only if `differs` [n * n] is false for them (insert-and-absorb, Piepho 2004).
 * `order`: best first. */
FB_MUST_USE fb_status fb_letters(const bool *differs, const int *order, int n,
                                 char (*letters)[32]);

double fb_normal_quantile(double p);
double fb_t_quantile(double p, double df);
double fb_t_cdf(double t, double df);

#endif
