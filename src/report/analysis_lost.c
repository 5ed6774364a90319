/* analysis_lost.c - what a rule lost of the full cache's quality, paired by sample.
 *
 * In the metric's own unit, and where higher is better as a share of the full cache's
 * mean: a loss in nats has no share. KL is a distance from the full cache, whether that
 * has a row or not. Documents are drawn as for every other interval of the table.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis_parts.h"

#include <math.h>
#include <string.h>

static const double *values_of(const fb_table *table, int row) /* [n_samples] */
{
    return table->values + (size_t)row * (size_t)table->n_samples;
}

/* The full cache has the first row; NULL: it has none. */
static const double *values_of_full(const fb_table *table, const fb_results *results)
{
    const fb_result_rule *rule = &results->rules[table->rows[0].rule];

    return strcmp(rule->expression, "full") == 0 ? values_of(table, 0) : NULL;
}

static fb_status find_share(fb_table *table, int at, const double *full,
                            const fb_analysis_options *options)
{
    const double mean = fb_mean_of(full, table->n_samples);
    fb_row *row = &table->rows[at];

    if (!(mean > 0)) return FB_OK;
    row->share = row->mean / mean;
    return fb_bootstrap_ratio(&row->share_interval, values_of(table, at), full,
                              table->documents, table->n_samples, table->n_documents,
                              options->confidence, options->replicates, options->seed);
}

/* `d` [n_samples]: room. */
static fb_status find_lost(fb_table *table, int at, const double *full, double sign,
                           const fb_analysis_options *options, double *d)
{
    fb_row *row = &table->rows[at];

    for (int s = 0; s < table->n_samples; s++)
        d[s] = sign * (values_of(table, at)[s] - full[s]);
    row->lost = fb_mean_of(d, table->n_samples);
    return fb_bootstrap_mean(&row->lost_interval, d, table->documents, table->n_samples,
                             table->n_documents, options->confidence,
                             options->replicates, options->seed);
}

static void forget(fb_row *row)
{
    row->lost = row->share = (double)NAN;
    row->lost_interval = row->share_interval = (fb_interval){(double)NAN, (double)NAN};
}

static fb_status find_all(fb_table *table, const double *full, bool lower_is_better,
                          const fb_analysis_options *options)
{
    const double sign = lower_is_better ? 1 : -1;
    double *d =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)table->n_samples, sizeof *d));
    fb_status status = FB_OK;

    if (d == NULL) return fb_fail(FB_NO_MEMORY, "no memory for what was lost");
    for (int r = 0; r < table->n_rows && status == FB_OK; r++) {
        status = find_lost(table, r, full, sign, options, d);
        if (status == FB_OK && !lower_is_better)
            status = find_share(table, r, full, options);
    }
    fb_free(d);
    return status;
}

fb_status fb_analysis_lost(fb_table *table, const fb_analyser *analyser)
{
    const fb_result_task *task = &analyser->results->tasks[table->task];
    const double *full;

    for (int r = 0; r < table->n_rows; r++) {
        fb_row *row = &table->rows[r];

        forget(row);
        if (strcmp(task->metric, "kl") != 0) continue;
        row->lost = row->mean;
        row->lost_interval = row->mean_interval;
    }
    if (table->n_rows == 0 || strcmp(task->metric, "kl") == 0) return FB_OK;
    full = values_of_full(table, analyser->results);
    if (full == NULL) return FB_OK;
    return find_all(table, full, task->lower_is_better, &analyser->options);
}
