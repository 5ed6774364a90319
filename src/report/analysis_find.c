/* analysis_find.c - what the tables of the smallest budget allow to say.
 *
 * The decision alone, without words: a pure function of verdicts, letters and order, so
 * that anybody can derive the sentence from the tables by hand.
 *
 *   1. nothing was tested                                              empty
 *   2. every tested rule is the baseline under another name            same
 *   3. no rule beats the baseline in any task                          none
 *   4. some rules lead in every task: one, or several                  winner, tie
 *      ... but a rule that does not beat it is not told from the best  unsure
 *   5. the best rule of one task loses to the baseline in another      reversal
 *   6. else                                                            split
 *
 * A rule leads a task if it beats the baseline (corrected) and shares the first letter
 * of the best one that does: those are not distinguishable from each other.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_parts.h"

#include <string.h>

const fb_row *fb_analysis_row(const fb_table *table, int rule)
{
    for (int row = 0; row < table->n_rows; row++)
        if (table->rows[row].rule == rule) return &table->rows[row];
    return NULL;
}

static bool shares_letter(const fb_row *row, const fb_row *best)
{
    return row == best ||
           (best->letters[0] != 0 && strchr(row->letters, best->letters[0]) != NULL);
}

int fb_analysis_leaders(const fb_table *table, int out[FB_MOST_LEADERS])
{
    const fb_row *best = NULL;
    int n = 0;

    for (int r = 0; r < table->n_rows && n < FB_MOST_LEADERS; r++) {
        const fb_row *row = &table->rows[r];

        if (row->verdict != FB_VERDICT_better) continue;
        if (best == NULL) best = row;
        if (shares_letter(row, best)) out[n++] = r;
    }
    return n;
}

static bool leads(const fb_table *table, int rule)
{
    int leaders[FB_MOST_LEADERS];
    const int n = fb_analysis_leaders(table, leaders);

    for (int i = 0; i < n; i++)
        if (table->rows[leaders[i]].rule == rule) return true;
    return false;
}

int fb_analysis_neighbours(const fb_table *table, int out[FB_MOST_LEADERS])
{
    int leaders[FB_MOST_LEADERS], n = 0;

    if (fb_analysis_leaders(table, leaders) == 0) return 0;
    for (int r = 0; r < table->n_rows && n < FB_MOST_LEADERS; r++)
        if (table->rows[r].verdict == FB_VERDICT_open &&
            shares_letter(&table->rows[r], &table->rows[leaders[0]]))
            out[n++] = r;
    return n;
}

static int count_verdicts(const fb_table *const *tables, int n, fb_verdict verdict)
{
    int count = 0;

    for (int t = 0; t < n; t++)
        for (int r = 0; r < tables[t]->n_rows; r++)
            count += tables[t]->rows[r].verdict == verdict;
    return count;
}

static bool is_same_everywhere(const fb_table *const *tables, int n,
                               const fb_results *results)
{
    for (int t = 0; t < n; t++) {
        const fb_table *table = tables[t];

        for (int r = 0; r < table->n_rows; r++) {
            const fb_row *baseline = &table->rows[table->baseline];

            if (table->rows[r].verdict == FB_VERDICT_reference) continue;
            if (strcmp(results->rules[table->rows[r].rule].expression,
                       results->rules[baseline->rule].expression) != 0)
                return false;
        }
    }
    return true;
}

static void find_winners(fb_finding *out, const fb_table *const *tables, int n)
{
    int leaders[FB_MOST_LEADERS], neighbours[FB_MOST_LEADERS];
    const int n_leaders = fb_analysis_leaders(tables[0], leaders);

    for (int i = 0; i < n_leaders; i++) {
        const int rule = tables[0]->rows[leaders[i]].rule;
        bool everywhere = true;

        for (int t = 1; t < n; t++)
            everywhere = everywhere && leads(tables[t], rule);
        if (everywhere) out->rules[out->n_rules++] = rule;
    }
    if (out->n_rules == 0) return;
    out->kind = out->n_rules == 1 ? FB_FINDING_winner : FB_FINDING_tie;
    for (int t = 0; t < n; t++)
        if (fb_analysis_neighbours(tables[t], neighbours) > 0)
            out->kind = FB_FINDING_unsure;
}

/* Both ends are significant, with opposite signs. */
static bool find_reversal(fb_finding *out, const fb_table *const *tables, int n)
{
    for (int a = 0; a < n; a++) {
        int leaders[FB_MOST_LEADERS];

        if (fb_analysis_leaders(tables[a], leaders) == 0) continue;
        for (int b = 0; b < n; b++) {
            const int rule = tables[a]->rows[leaders[0]].rule;
            const fb_row *row = fb_analysis_row(tables[b], rule);

            if (row == NULL || row->verdict != FB_VERDICT_worse) continue;
            *out = (fb_finding){.kind = FB_FINDING_reversal,
                                .rules = {rule},
                                .n_rules = 1,
                                .best_for = a,
                                .worse_for = b};
            return true;
        }
    }
    return false;
}

void fb_analysis_find(fb_finding *out, const fb_table *const *tables, int n,
                      const fb_results *results)
{
    const int n_better = count_verdicts(tables, n, FB_VERDICT_better);
    const int n_tested = n_better + count_verdicts(tables, n, FB_VERDICT_worse) +
                         count_verdicts(tables, n, FB_VERDICT_open);

    *out = (fb_finding){.kind = FB_FINDING_empty};
    if (n_tested == 0) return;
    out->kind = FB_FINDING_none;
    if (is_same_everywhere(tables, n, results)) out->kind = FB_FINDING_same;
    if (n_better == 0 || out->kind == FB_FINDING_same) return;
    find_winners(out, tables, n);
    if (out->n_rules > 0 || find_reversal(out, tables, n)) return;
    out->kind = FB_FINDING_split;
}
