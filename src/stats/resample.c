/* resample.c - the bootstrap interval and the sign-flip test, by document.
 *
 * Values of one document stand or fall together, so both first add them up: a resampled
 * pooled mean is a sum of document sums over a sum of document sizes. Random draws are
 * made in a fixed order, one per replicate and document.
 *
 * Sources: Efron 1979, "Bootstrap methods: another look at the jackknife"; Fisher 1935,
 * "The design of experiments", section 21 (sign flips). Random p values count the
 * observed pattern too (Phipson and Smyth 2010), so they are never 0.
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

enum { EXACT_DOCUMENTS = 20, HALF = EXACT_DOCUMENTS / 2 };
static const double equal_within = 1e-12; /* means this near count as the same */

struct document {
    double sum;
    int n;
};

/* The sum and size of each document of x [n]; every document must have a value. */
static fb_status sum_documents(struct document **out, const double *x, const int *group,
                               int n, int n_groups)
{
    struct document *documents;

    *out = NULL;
    if (n < 1 || n_groups < 1) return fb_fail(FB_USAGE, "there are no values to test");
    FB_ASSERT(group != NULL || n_groups == n);
    documents =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n_groups, sizeof *documents));
    if (documents == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to sum %d documents", n_groups);
    for (int i = 0; i < n; i++) {
        const int g = group == NULL ? i : group[i];

        FB_ASSERT(g >= 0 && g < n_groups);
        documents[g].sum += x[i];
        documents[g].n++;
    }
    for (int g = 0; g < n_groups; g++)
        FB_ASSERT(documents[g].n > 0);
    *out = documents;
    return FB_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double resampled_mean(const struct document *documents, int n_groups,
                             fb_random *random)
{
    double sum = 0;
    int64_t n = 0;

    for (int i = 0; i < n_groups; i++) {
        const struct document *drawn =
            &documents[fb_random_below(random, (uint64_t)n_groups)];

        sum += drawn->sum;
        n += drawn->n;
    }
    return sum / (double)n;
}

static void take_quantiles(fb_interval *out, double *values, int n, double confidence)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    out->low = fb_quantile(values, n, (1 - confidence) / 2);
    out->high = fb_quantile(values, n, (1 + confidence) / 2);
}

fb_status fb_bootstrap_mean(fb_interval *out, const double *x, const int *group, int n,
                            int n_groups, double confidence, int replicates,
                            uint64_t seed)
{
    fb_status status;
    fb_random random;
    struct document *documents = NULL;
    double *means = NULL;

    FB_ASSERT(confidence > 0 && confidence < 1 && replicates > 0);
    *out = (fb_interval){(double)NAN, (double)NAN};
    status = sum_documents(&documents, x, group, n, n_groups);
    if (status != FB_OK) goto done;
    means = fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)replicates, sizeof *means));
    if (means == NULL) {
        status = fb_fail(FB_NO_MEMORY, "no memory for %d resamples", replicates);
        goto done;
    }
    fb_random_seed(&random, seed, 0);
    for (int r = 0; r < replicates; r++)
        means[r] = resampled_mean(documents, n_groups, &random);
    take_quantiles(out, means, replicates, confidence);
done:
    fb_free(means);
    fb_free(documents);
    return status;
}

/* Draws one set of documents for both sums; NAN where the lower one is not positive. */
static double resampled_ratio(const struct document *x, const struct document *y,
                              int n_groups, fb_random *random)
{
    double above = 0, below = 0;

    for (int i = 0; i < n_groups; i++) {
        const uint64_t drawn = fb_random_below(random, (uint64_t)n_groups);

        above += x[drawn].sum;
        below += y[drawn].sum;
    }
    return below > 0 ? above / below : (double)NAN;
}

static fb_status resample_ratio(fb_interval *out, const struct document *x,
                                const struct document *y, int n_groups,
                                double confidence, int replicates, uint64_t seed)
{
    double *ratios =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)replicates, sizeof *ratios));
    fb_random random;
    int n = 0;

    if (ratios == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for %d resamples", replicates);
    fb_random_seed(&random, seed, 0);
    for (int r = 0; r < replicates; r++) {
        ratios[n] = resampled_ratio(x, y, n_groups, &random);
        n += !isnan(ratios[n]);
    }
    if (n > 0) take_quantiles(out, ratios, n, confidence);
    fb_free(ratios);
    return FB_OK;
}

fb_status fb_bootstrap_ratio(fb_interval *out, const double *x, const double *y,
                             const int *group, int n, int n_groups, double confidence,
                             int replicates, uint64_t seed)
{
    struct document *above = NULL, *below = NULL;
    fb_status status;

    FB_ASSERT(confidence > 0 && confidence < 1 && replicates > 0);
    *out = (fb_interval){(double)NAN, (double)NAN};
    status = sum_documents(&above, x, group, n, n_groups);
    if (status == FB_OK) status = sum_documents(&below, y, group, n, n_groups);
    if (status == FB_OK)
        status =
            resample_ratio(out, above, below, n_groups, confidence, replicates, seed);
    fb_free(above);
    fb_free(below);
    return status;
}

/* All 2^n signed sums of the documents; returns how many there are. */
static int signed_sums(double *sums, const struct document *documents, int n)
{
    sums[0] = 0;
    for (int d = 0; d < n; d++)
        for (int i = 0; i < 1 << d; i++) {
            sums[i + (1 << d)] = sums[i] - documents[d].sum;
            sums[i] += documents[d].sum;
        }
    return 1 << n;
}

/* The share of all sign patterns at least as far from 0 as the observed one. Every
 * pattern is one of the left half with one of the right half: 2^20 additions at most.
 */
static double exact_p(const struct document *documents, int n_groups, double least)
{
    double left[1 << HALF] = {0}, right[1 << HALF] = {0};
    const int split = n_groups / 2;
    const int n_left = signed_sums(left, documents, split);
    const int n_right = signed_sums(right, documents + split, n_groups - split);
    int64_t hits = 0;

    for (int i = 0; i < n_left; i++)
        for (int j = 0; j < n_right; j++)
            hits += fabs(left[i] + right[j]) >= least;
    return (double)hits / ((double)n_left * n_right);
}

static double random_p(const struct document *documents, int n_groups, double least,
                       int draws, uint64_t seed)
{
    fb_random random;
    int hits = 0;

    fb_random_seed(&random, seed, 0);
    for (int r = 0; r < draws; r++) {
        double sum = 0;

        for (int d = 0; d < n_groups; d++) /* below(2) is the top bit: 1 keeps */
            sum += fb_random_below(&random, 2) ? documents[d].sum : -documents[d].sum;
        hits += fabs(sum) >= least;
    }
    return (hits + 1.0) / (draws + 1.0);
}

fb_status fb_sign_flip(double *p_out, const double *d, const int *group, int n,
                       int n_groups, int draws, uint64_t seed)
{
    struct document *documents;
    double sum = 0, least;

    *p_out = (double)NAN;
    FB_TRY(sum_documents(&documents, d, group, n, n_groups));
    FB_ASSERT(documents != NULL);
    for (int g = 0; g < n_groups; g++)
        sum += documents[g].sum;
    least = fabs(sum) - equal_within * n;
    *p_out = n_groups <= EXACT_DOCUMENTS
                 ? exact_p(documents, n_groups, least)
                 : random_p(documents, n_groups, least, draws, seed);
    fb_free(documents);
    return FB_OK;
}
