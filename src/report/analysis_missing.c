/* analysis_missing.c - what no table can show: cells that failed, cells that are not
 * there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis_parts.h"

/* --- what failed --- */

static void count_cells(fb_failure *all, int64_t *done, const fb_results *results)
{
    for (int c = 0; c < results->n_cells; c++) {
        const fb_result_cell *cell = &results->cells[c];
        const int task = results->samples[cell->sample].task;
        const int place = task * (results->n_budgets + 1) + cell->budget + 1;
        fb_failure *f =
            &all[(size_t)place * (size_t)results->n_rules + (size_t)cell->rule];

        *f = (fb_failure){task,           cell->budget, cell->rule,
                          f->n_cells + 1, f->n_failed,  f->reason};
        if (fb_result_is_done(cell)) {
            ++*done;
            continue;
        }
        if (f->n_failed++ == 0) f->reason = cell->reason == NULL ? "" : cell->reason;
    }
}

fb_status fb_analysis_count_missing(fb_analysis *analysis)
{
    const fb_results *results = analysis->results;
    const size_t n_places =
        fb_size_mul((size_t)results->n_tasks, (size_t)results->n_budgets + 1);
    const size_t n = fb_size_mul(n_places, (size_t)results->n_rules);

    analysis->failures =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *analysis->failures));
    if (analysis->failures == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a list of failures");
    count_cells(analysis->failures, &analysis->n_done, results);
    for (size_t i = 0; i < n; i++)
        if (analysis->failures[i].n_failed > 0)
            analysis->failures[analysis->n_failures++] = analysis->failures[i];
    return FB_OK;
}

bool fb_failure_is_of(const fb_failure *failure, const fb_table *table)
{
    return failure->task == table->task &&
           (failure->budget < 0 || failure->budget == table->budget);
}

bool fb_failure_has_table(const fb_failure *failure, const fb_analysis *analysis)
{
    for (int t = 0; t < analysis->n_tables; t++)
        if (fb_failure_is_of(failure, &analysis->tables[t])) return true;
    return false;
}

bool fb_analysis_is_unfinished(const fb_analysis *analysis)
{
    return analysis->results->planned > analysis->results->n_cells;
}

/* --- in words --- */

void fb_say_failure(fb_text *text, const fb_analysis *analysis, const fb_failure *f)
{
    char failed[32];

    fb_print_count(f->n_failed, failed, sizeof failed);
    fb_text_printf(text, "%s: %s of ", analysis->results->rules[f->rule].label, failed);
    fb_print_count(f->n_cells, failed, sizeof failed);
    fb_text_printf(text, "%s %s failed (first: %s)", failed,
                   fb_plural(f->n_cells, "cell", "cells"), f->reason);
}

void fb_say_unfinished(fb_text *text, const fb_analysis *analysis)
{
    const int64_t n_failed = analysis->results->n_cells - analysis->n_done;
    char done[32], planned[32], failed[32];

    if (!fb_analysis_is_unfinished(analysis)) return;
    fb_print_count(analysis->n_done, done, sizeof done);
    fb_print_count(analysis->results->planned, planned, sizeof planned);
    fb_print_count(n_failed, failed, sizeof failed);
    fb_text_printf(text, "%s of %s planned cells; ", done, planned);
    if (n_failed > 0) fb_text_printf(text, "%s failed, ", failed);
    fb_text_puts(text, "the others are missing");
}
