/* analysis_fill.c - the values of one table: which rules, which samples, which numbers.
 *
 * A row is a rule that has a finished cell at the budget, or is the full cache. A
 * sample is used if every row has a value for it. Several seeds of a cell are averaged
 * within the sample. Rows are sorted best first, the full cache before all, what is above
 * the quota behind all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- cells: sorted by (sample, rule, budget, seed) --- */

static int compare_place(const fb_result_cell *cell, int sample, int rule, int budget)
{
    if (cell->sample != sample) return cell->sample < sample ? -1 : 1;
    if (cell->rule != rule) return cell->rule < rule ? -1 : 1;
    return (cell->budget > budget) - (cell->budget < budget);
}

static const fb_result_cell *cells_at(const fb_results *results, int sample, int rule,
                                      int budget, int *n_out)
{
    int low = 0, high = results->n_cells, n = 0;

    while (low < high) { /* the first cell not before the place */
        const int middle = low + (high - low) / 2;

        if (compare_place(&results->cells[middle], sample, rule, budget) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + n < results->n_cells &&
           compare_place(&results->cells[low + n], sample, rule, budget) == 0)
        n++;
    *n_out = n;
    return &results->cells[low];
}

const fb_result_cell *fb_analysis_cells(const fb_results *results, int sample, int rule,
                                        int budget, int *n_out)
{
    const fb_result_cell *cells = cells_at(results, sample, rule, budget, n_out);

    return *n_out > 0 ? cells : cells_at(results, sample, rule, -1, n_out);
}

/* The mean over seeds of the task's metric; false if no cell has it. */
static bool value_of(double *out, const fb_table *table, const fb_results *results,
                     int sample, int rule)
{
    const char *metric = results->tasks[table->task].metric;
    const fb_result_cell *cells;
    double sum = 0, value;
    int n, n_values = 0;

    cells = fb_analysis_cells(results, sample, rule, table->budget, &n);
    for (int c = 0; c < n; c++)
        if (fb_result_is_done(&cells[c]) &&
            fb_result_score(&cells[c], metric, &value) && isfinite(value)) {
            sum += value;
            n_values++;
        }
    *out = sum / n_values;
    return n_values > 0;
}

/* --- rules and samples --- */

static bool has_values(const fb_table *table, const fb_results *results, int rule)
{
    double value;

    for (int s = 0; s < results->n_samples; s++)
        if (results->samples[s].task == table->task &&
            value_of(&value, table, results, s, rule))
            return true;
    return false;
}

static bool is_full(const fb_results *results, int rule)
{
    return strcmp(results->rules[rule].expression, "full") == 0;
}

/* Sets n_rows and the rule of each row, in the order of the rules. Without a rule that
 * was evicted there is no table. */
static void find_rules(fb_table *table, const fb_results *results)
{
    int n_evicted = 0;

    for (int r = 0; r < results->n_rules; r++)
        if (has_values(table, results, r)) {
            table->rows[table->n_rows++].rule = r;
            n_evicted += !is_full(results, r);
        }
    if (n_evicted == 0) table->n_rows = 0;
}

static bool is_complete(const fb_table *table, const fb_results *results, int sample)
{
    double value;

    for (int row = 0; row < table->n_rows; row++)
        if (!value_of(&value, table, results, sample, table->rows[row].rule))
            return false;
    return true;
}

/* The document of a sample: samples of one group share it. */
static int document_of(const fb_table *table, const fb_results *results, int sample)
{
    const char *group = results->samples[sample].group;

    for (int s = table->n_samples - 1; s >= 0; s--)
        if (strcmp(results->samples[table->samples[s]].group, group) == 0)
            return table->documents[s];
    return table->n_documents;
}

static void find_samples(fb_table *table, const fb_results *results)
{
    for (int s = 0; s < results->n_samples; s++) {
        int document;

        if (results->samples[s].task != table->task) continue;
        if (!is_complete(table, results, s)) {
            table->n_left_out++;
            continue;
        }
        document = document_of(table, results, s);
        table->samples[table->n_samples] = s;
        table->documents[table->n_samples++] = document;
        if (document == table->n_documents) table->n_documents++;
    }
}

/* --- rows --- */

static void read_values(double *out, const fb_table *table, const fb_results *results,
                        int rule) /* [n_samples] */
{
    for (int s = 0; s < table->n_samples; s++)
        (void)value_of(&out[s], table, results, table->samples[s], rule);
}

static bool is_before(const fb_row *a, const fb_row *b, const fb_analyser *analyser,
                      bool lower_is_better)
{
    const fb_results *results = analyser->results;
    const bool is_apart = fb_stands_apart(a, analyser->baseline);

    if (is_full(results, a->rule) != is_full(results, b->rule))
        return is_full(results, a->rule);
    if (is_apart != fb_stands_apart(b, analyser->baseline)) return !is_apart;
    if (a->mean < b->mean) return lower_is_better;
    if (a->mean > b->mean) return !lower_is_better;
    return a->rule < b->rule;
}

static void sort_rows(fb_table *table, const fb_analyser *analyser)
{
    const bool lower_is_better = analyser->results->tasks[table->task].lower_is_better;

    for (int i = 1; i < table->n_rows; i++)
        for (int j = i; j > 0 && is_before(&table->rows[j], &table->rows[j - 1],
                                           analyser, lower_is_better);
             j--) {
            const fb_row row = table->rows[j];

            table->rows[j] = table->rows[j - 1];
            table->rows[j - 1] = row;
        }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One number of digits for a whole panel, from the median of its rows: one row far off
 * shall not blur the others. `sizes` is room for a value per row. */
static int digits_of(const fb_table *table, const char *unit, double *sizes)
{
    double median;

    if (table->n_rows == 0) return 0;
    for (int row = 0; row < table->n_rows; row++)
        sizes[row] = fabs(table->rows[row].mean);
    qsort(sizes, (size_t)table->n_rows, sizeof *sizes, by_value);
    median = fb_quantile(sizes, table->n_rows, 0.5);
    if (strcmp(unit, "nat") == 0) return median < 0.5 ? 3 : 2;
    return median > 2 ? 1 : 2; /* points of 100, or a share of 1 */
}

/* Room for every rule and sample that there could be. */
static fb_status take_room(fb_table *table, const fb_results *results)
{
    const size_t n_rules = (size_t)results->n_rules;
    const size_t n_samples = (size_t)results->n_samples;

    table->rows = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n_rules, sizeof(fb_row)));
    table->samples = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n_samples, sizeof(int)));
    table->documents = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n_samples, sizeof(int)));
    if (table->rows == NULL || table->samples == NULL || table->documents == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a table of %d rules",
                       results->n_rules);
    return FB_OK;
}

static fb_status take_values(fb_table *table)
{
    const size_t n = fb_size_mul((size_t)table->n_rows, (size_t)table->n_samples);

    table->values = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof(double)));
    if (table->values == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a table of %d samples",
                       table->n_samples);
    return FB_OK;
}

static void find_baseline(fb_table *table, int rule)
{
    table->baseline = -1;
    for (int row = 0; row < table->n_rows; row++)
        if (table->rows[row].rule == rule) table->baseline = row;
}

fb_status fb_analysis_fill(fb_table *table, const fb_analyser *analyser)
{
    const fb_results *results = analyser->results;
    const fb_result_task *task = &results->tasks[table->task];

    table->baseline = -1;
    table->margin =
        analyser->options.margin < 0 ? task->margin : analyser->options.margin;
    FB_TRY(take_room(table, results));
    find_rules(table, results);
    find_samples(table, results);
    if (table->n_samples == 0) table->n_rows = 0;
    FB_TRY(take_values(table));
    for (int row = 0; row < table->n_rows; row++) { /* in any order: for the means */
        read_values(table->values, table, results, table->rows[row].rule);
        table->rows[row].mean = fb_mean_of(table->values, table->n_samples);
        FB_TRY(fb_analysis_cost(&table->rows[row], table, analyser));
        table->n_apart += fb_stands_apart(&table->rows[row], analyser->baseline);
    }
    sort_rows(table, analyser);
    table->digits = digits_of(table, task->unit, table->values);
    for (int row = 0; row < table->n_rows; row++) {
        table->rows[row].n = table->n_documents;
        read_values(table->values + (size_t)row * (size_t)table->n_samples, table,
                    results, table->rows[row].rule);
    }
    find_baseline(table, analyser->baseline);
    return FB_OK;
}

void fb_analysis_clear(fb_table *table)
{
    fb_free(table->rows);
    fb_free(table->samples);
    fb_free(table->documents);
    fb_free(table->values);
    *table = (fb_table){0};
}
