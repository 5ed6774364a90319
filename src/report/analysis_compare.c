/* analysis_compare.c - which differences of a table are real.
 *
 * Each rule against the baseline: paired by sample, documents resampled and flipped
 * whole, Holm over the rules that are tested. Letters: all pairs of tested rules and
 * the baseline, Holm over those pairs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LETTERED = 64 };

/* One comparison at work: room for a value per sample and per document. */
struct work {
    const fb_analyser *analyser;
    fb_table *table;
    double *d;          /* [n_samples] */
    double *document_d; /* [n_documents] */
    double *size;       /* [n_documents], samples of each */
    double *p, *holm;   /* [n_rows] */
};

static const double *values_of(const fb_table *table, int row) /* [n_samples] */
{
    return table->values + (size_t)row * (size_t)table->n_samples;
}

bool fb_is_draw(const fb_result_rule *rule)
{
    return rule->family != NULL && strcmp(rule->family, "random") == 0;
}

static bool is_tested(const fb_table *table, const fb_analyser *analyser, int row)
{
    const fb_result_rule *rule = &analyser->results->rules[table->rows[row].rule];

    return table->baseline >= 0 && row != table->baseline && rule->deployable &&
           !rule->is_reference && !fb_is_draw(rule) &&
           !table->rows[row].is_without_choice && row < table->n_rows - table->n_apart;
}

/* Fills d with row a minus row b. */
static void subtract(struct work *work, int a, int b)
{
    const double *x = values_of(work->table, a), *y = values_of(work->table, b);

    for (int s = 0; s < work->table->n_samples; s++)
        work->d[s] = x[s] - y[s];
}

static void average_documents(double *out, double *size, const fb_table *table,
                              const double *x)
{
    for (int i = 0; i < table->n_documents; i++)
        out[i] = size[i] = 0;
    for (int s = 0; s < table->n_samples; s++) {
        out[table->documents[s]] += x[s];
        size[table->documents[s]]++;
    }
    for (int i = 0; i < table->n_documents; i++)
        out[i] /= size[i];
}

static fb_status interval_of(fb_interval *out, const struct work *work, const double *x)
{
    const fb_table *table = work->table;
    const fb_analysis_options *options = &work->analyser->options;

    return fb_bootstrap_mean(out, x, table->documents, table->n_samples,
                             table->n_documents, options->confidence,
                             options->replicates, options->seed);
}

static fb_status flip(double *p_out, const struct work *work)
{
    const fb_table *table = work->table;
    const fb_analysis_options *options = &work->analyser->options;

    return fb_sign_flip(p_out, work->d, table->documents, table->n_samples,
                        table->n_documents, options->draws, options->seed);
}

static fb_status compare_row(struct work *work, int at)
{
    fb_table *table = work->table;
    fb_row *row = &table->rows[at];

    FB_TRY(interval_of(&row->mean_interval, work, values_of(table, at)));
    row->p = row->p_holm = row->difference = row->sd = (double)NAN;
    row->difference_interval = (fb_interval){(double)NAN, (double)NAN};
    if (table->baseline < 0) return FB_OK;
    subtract(work, at, table->baseline);
    row->difference = fb_mean_of(work->d, table->n_samples);
    FB_TRY(interval_of(&row->difference_interval, work, work->d));
    average_documents(work->document_d, work->size, table, work->d);
    row->sd = fb_sd_of(work->document_d, table->n_documents);
    if (is_tested(table, work->analyser, at)) FB_TRY(flip(&row->p, work));
    return FB_OK;
}

/* --- verdicts --- */

static fb_verdict verdict_of(const struct work *work, const fb_row *row)
{
    const fb_results *results = work->analyser->results;
    const bool lower_is_better = results->tasks[work->table->task].lower_is_better;

    if (!(row->p_holm < 1 - work->analyser->options.confidence)) return FB_VERDICT_open;
    return (row->difference < 0) == lower_is_better ? FB_VERDICT_better
                                                    : FB_VERDICT_worse;
}

static void correct(struct work *work)
{
    fb_table *table = work->table;
    int n = 0;

    for (int row = 0; row < table->n_rows; row++)
        if (is_tested(table, work->analyser, row)) work->p[n++] = table->rows[row].p;
    fb_holm(work->p, n, work->holm);
    n = 0;
    for (int row = 0; row < table->n_rows; row++)
        if (is_tested(table, work->analyser, row)) {
            table->rows[row].p_holm = work->holm[n++];
            table->rows[row].verdict = verdict_of(work, &table->rows[row]);
        }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median over tested rows of what this many documents could have shown at Holm's
 * first step: in proportion to the s.d., so of the median s.d. Sign flips have a
 * smallest p, 2 / 2^n: where that step cannot reach it, nothing could. */
static void find_smallest_effect(struct work *work)
{
    const double alpha = 1 - work->analyser->options.confidence;
    fb_table *table = work->table;
    double *sds = work->p;
    int n = 0;

    for (int row = 0; row < table->n_rows; row++)
        if (is_tested(table, work->analyser, row)) sds[n++] = table->rows[row].sd;
    table->smallest_effect = (double)NAN;
    if (n == 0) return;
    qsort(sds, (size_t)n, sizeof *sds, by_value);
    table->smallest_effect = fb_smallest_effect(fb_quantile(sds, n, 0.5),
                                                table->n_documents, alpha / n, 0.8);
    if (n * ldexp(2, -table->n_documents) >= alpha)
        table->smallest_effect = (double)INFINITY;
}

/* --- letters --- */

/* Which pairs of `lettered` [n] rows differ, into `differs` [n, n]. */
static fb_status compare_pairs(struct work *work, const int *lettered, int n,
                               bool *differs, double *p, double *holm)
{
    int n_pairs = 0;

    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            subtract(work, lettered[i], lettered[j]);
            FB_TRY(flip(&p[n_pairs++], work));
        }
    fb_holm(p, n_pairs, holm);
    n_pairs = 0;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            const bool is_real =
                holm[n_pairs++] < 1 - work->analyser->options.confidence;

            differs[i * n + j] = differs[j * n + i] = is_real;
        }
    return FB_OK;
}

/* Rows are sorted, so the order of the lettered ones is that of their quality. Without
 * enough letters the column stays empty. */
static fb_status give_letters(struct work *work, const int *lettered, int n,
                              const bool *differs)
{
    char letters[MOST_LETTERED][32];
    int order[MOST_LETTERED];
    fb_status status;

    for (int i = 0; i < n; i++)
        order[i] = i;
    status = fb_letters(differs, order, n, letters);
    if (status == FB_UNSUPPORTED) return FB_OK;
    for (int i = 0; i < n && status == FB_OK; i++) {
        char *out = work->table->rows[lettered[i]].letters;

        for (int c = 0; c < 32; c++)
            out[c] = letters[i][c];
    }
    return status;
}

static fb_status group_rows(struct work *work)
{
    fb_table *table = work->table;
    int lettered[MOST_LETTERED], n = 0;
    bool *differs;
    double *p;
    fb_status status;

    if (table->baseline < 0) return FB_OK;
    for (int row = 0; row < table->n_rows; row++)
        if (row == table->baseline || is_tested(table, work->analyser, row)) {
            if (n == MOST_LETTERED) return FB_OK; /* too many to tell apart */
            lettered[n++] = row;
        }
    p = fb_zalloc(FB_ACCOUNT_other, (size_t)(n * n) * sizeof *p);
    differs = fb_zalloc(FB_ACCOUNT_other, (size_t)(n * n) * sizeof *differs);
    if (p == NULL || differs == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory to compare %d rules", n);
    else /* n (n - 1) / 2 pairs: two lists of them fit into n * n */
        status = compare_pairs(work, lettered, n, differs, p, p + n * (n - 1) / 2);
    if (status == FB_OK) status = give_letters(work, lettered, n, differs);
    fb_free(differs);
    fb_free(p);
    return status;
}

static fb_status compare_all(struct work *work)
{
    for (int row = 0; row < work->table->n_rows; row++)
        FB_TRY(compare_row(work, row));
    correct(work);
    find_smallest_effect(work);
    return group_rows(work);
}

fb_status fb_analysis_compare(fb_table *table, const fb_analyser *analyser)
{
    const size_t n_samples = (size_t)table->n_samples, n_rows = (size_t)table->n_rows;
    const size_t n_documents = (size_t)table->n_documents;
    struct work work = {.analyser = analyser, .table = table};
    fb_status status;

    if (table->n_rows == 0) return FB_OK;
    work.d = fb_alloc(FB_ACCOUNT_other,
                      (n_samples + 2 * n_documents + 2 * n_rows) * sizeof *work.d);
    if (work.d == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to compare %d rules", table->n_rows);
    work.document_d = work.d + n_samples;
    work.size = work.document_d + n_documents;
    work.p = work.size + n_documents;
    work.holm = work.p + n_rows;
    status = compare_all(&work);
    fb_free(work.d);
    return status;
}
