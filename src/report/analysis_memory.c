/* analysis_memory.c - where the memory of a row was, and what of it the budget bounds.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_parts.h"

#include <math.h>
#include <string.h>

enum { ANSWER = 2 };

static const char *const phases[FB_MEMORY_PHASES] = {"context", "evict", "answer",
                                                     "decode"};

const char *fb_memory_phase_name(int phase)
{
    return phases[phase];
}

/* --- means --- */

struct sums {
    double bytes[FB_MEMORY_PHASES][FB_ACCOUNT_COUNT];
    int n[FB_MEMORY_PHASES][FB_ACCOUNT_COUNT];
};

static void add_peak(struct sums *sums, const fb_store_peak *peak)
{
    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
            if (strcmp(peak->phase, phases[p]) == 0 &&
                strcmp(peak->account, fb_account_name((fb_account)a)) == 0) {
                sums->bytes[p][a] += (double)peak->peak_bytes;
                sums->n[p][a]++;
            }
}

static fb_status add_cell(struct sums *sums, fb_store *store, int64_t cell)
{
    fb_store_peak *peaks;
    int n;

    FB_TRY(fb_store_read_peaks(store, cell, &peaks, &n));
    for (int i = 0; i < n; i++)
        add_peak(sums, &peaks[i]);
    fb_free(peaks);
    return FB_OK;
}

static fb_status add_cells(struct sums *sums, const fb_row *row, const fb_table *table,
                           const fb_analyser *analyser)
{
    for (int s = 0; s < table->n_samples; s++) {
        int n;
        const fb_result_cell *cells = fb_analysis_cells(
            analyser->results, table->samples[s], row->rule, table->budget, &n);

        for (int c = 0; c < n; c++)
            if (fb_result_is_done(&cells[c]))
                FB_TRY(add_cell(sums, analyser->store, cells[c].id));
    }
    return FB_OK;
}

/* All that an answer was read from, with its tail; NAN if unknown. */
static double answering(const fb_row *row)
{
    return row->memory[ANSWER][FB_ACCOUNT_kv] +
           row->memory[ANSWER][FB_ACCOUNT_rule_state];
}

fb_status fb_analysis_memory(fb_row *row, const fb_table *table,
                             const fb_analyser *analyser, double tail)
{
    struct sums sums = {0};

    if (analyser->store != NULL) FB_TRY(add_cells(&sums, row, table, analyser));
    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
            row->memory[p][a] =
                sums.n[p][a] > 0 ? sums.bytes[p][a] / sums.n[p][a] : (double)NAN;
    row->is_simulated = answering(row) - tail > 1.001 * row->kept_bytes;
    return FB_OK;
}

/* --- questions --- */

bool fb_table_has_phase(const fb_table *table, int phase)
{
    for (int r = 0; r < table->n_rows; r++)
        if (isfinite(table->rows[r].memory[phase][FB_ACCOUNT_kv])) return true;
    return false;
}

bool fb_table_has_memory(const fb_table *table)
{
    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        if (fb_table_has_phase(table, p)) return true;
    return false;
}

bool fb_rows_agree(const fb_row *a, const fb_row *b, fb_account account)
{
    for (int p = 0; p < FB_MEMORY_PHASES; p++) {
        const double x = a->memory[p][account], y = b->memory[p][account];

        if (isnan(x) != isnan(y) || fabs(x - y) >= 1) return false;
    }
    return true;
}

bool fb_rows_hold_alike(const fb_row *a, const fb_row *b)
{
    return fb_rows_agree(a, b, FB_ACCOUNT_kv) &&
           fb_rows_agree(a, b, FB_ACCOUNT_rule_state) &&
           a->kept_bytes == b->kept_bytes && a->is_simulated == b->is_simulated;
}

double fb_row_peak(const fb_row *row, fb_account account)
{
    double most = (double)NAN;

    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        most = fmax(most, row->memory[p][account]);
    return most;
}

double fb_table_peak(const fb_table *table, fb_account account)
{
    double most = (double)NAN;

    for (int r = 0; r < table->n_rows; r++)
        most = fmax(most, fb_row_peak(&table->rows[r], account));
    return most;
}

/* What the cell held in the phases before the answer, whose tail stands beside the budget. */
static double before_answer(const fb_row *row)
{
    double most = (double)NAN;

    for (int p = 0; p < ANSWER; p++)
        most = fmax(most, row->memory[p][FB_ACCOUNT_kv] +
                              row->memory[p][FB_ACCOUNT_rule_state]);
    return most;
}

double fb_row_resident(const fb_row *row)
{
    return row->full_bytes > 0 && !row->is_simulated ? row->kept_bytes / row->full_bytes
                                                     : (double)NAN;
}

double fb_row_peak_share(const fb_row *row)
{
    return row->full_bytes > 0 && !row->is_simulated
               ? before_answer(row) / row->full_bytes
               : (double)NAN;
}

/* --- what the budget bounds --- */

/* Rows under the budget whose caches held more before the answer; the one that held most. */
static const fb_row *find_unbounded(const fb_analysis *a, const fb_table *table)
{
    const fb_row *found = NULL;

    for (int r = 0; r < table->n_rows; r++) {
        const fb_row *row = &table->rows[r];

        if (a->results->rules[row->rule].is_reference ||
            !(before_answer(row) > row->budget_bytes) || !(row->full_bytes > 0))
            continue;
        if (found == NULL || fb_row_peak_share(row) > fb_row_peak_share(found))
            found = row;
    }
    return found;
}

bool fb_say_simulated(fb_text *text, const fb_row *row)
{
    if (!row->is_simulated) return false;
    fb_text_puts(text, "simulated: its answers are those of ");
    fb_say_bytes(text, row->kept_bytes);
    fb_text_puts(text, ", but it was held in ");
    fb_say_bytes(text, answering(row));
    return true;
}

/* Some rules read on behind the context: then the highest peak is not everybody's. */
static bool peaks_differ(const fb_analysis *a, const fb_table *table,
                         const fb_row *most)
{
    for (int r = 0; r < table->n_rows; r++)
        if (!a->results->rules[table->rows[r].rule].is_reference &&
            fb_row_peak_share(&table->rows[r]) < fb_row_peak_share(most) - 0.005)
            return true;
    return false;
}

bool fb_say_unbounded(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    const fb_row *row = find_unbounded(a, table);

    if (row == NULL) return false;
    fb_text_puts(text, "resident ");
    fb_say_percent(text, fb_row_resident(row));
    fb_text_puts(text, peaks_differ(a, table, row) ? ", peak up to " : ", peak ");
    fb_say_percent(text, fb_row_peak_share(row));
    fb_text_puts(text,
                 " of the full cache: the budget bounds what stays, not the peak, "
                 "for the context is read whole before anything leaves");
    return true;
}
