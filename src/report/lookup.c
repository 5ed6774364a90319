/* lookup.c - questions that several parts of the page ask the analysis.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <math.h>
#include <string.h>

const fb_row *fb_table_baseline(const fb_table *table)
{
    const int i = table->baseline;

    return i >= 0 && i < table->n_rows ? &table->rows[i] : NULL;
}

const char *fb_page_baseline(const fb_page *page)
{
    const int baseline = page->analysis->baseline;

    return baseline < 0 ? "the baseline" : page->results->rules[baseline].label;
}

bool fb_page_is_full(const fb_page *page, int rule)
{
    const fb_result_rule *r = &page->results->rules[rule];

    return r->expression != NULL && strcmp(r->expression, "full") == 0;
}

bool fb_page_is_compared(const fb_page *page, int rule)
{
    const fb_result_rule *r = &page->results->rules[rule];

    return r->deployable && (r->family == NULL || strcmp(r->family, "reference") != 0);
}

const fb_row *fb_page_best(const fb_page *page, const fb_table *table)
{
    for (int i = 0; i < table->n_rows; i++) {
        const fb_row *row = &table->rows[i];

        if (fb_page_is_compared(page, row->rule) &&
            row->verdict != FB_VERDICT_reference)
            return row;
    }
    return fb_table_baseline(table);
}

double fb_table_share(const fb_page *page, const fb_table *table)
{
    const fb_store_budget *budget = &page->results->budgets[table->budget];
    double ratio, least = (double)INFINITY;

    if (budget->kind != NULL && strcmp(budget->kind, "ratio") == 0 &&
        budget->value != NULL && fb_parse_real(budget->value, &ratio) && ratio > 0)
        return 100 * fmin(ratio, 1);
    for (int i = 0; i < table->n_rows; i++) {
        const fb_row *row = &table->rows[i];

        if (fb_page_is_full(page, row->rule)) continue;
        if (!(row->full_bytes > 0) || !(row->budget_bytes > 0)) continue;
        least = fmin(least, fmin(row->budget_bytes / row->full_bytes, 1));
    }
    return isinf(least) ? (double)NAN : 100 * least; /* some rows take no budget */
}

/* The next row at or after `i` of a rule that both tables compare, or NULL. */
static const fb_row *next_common(const fb_page *page, const fb_table *table,
                                 const fb_table *other, int *i)
{
    while (*i < table->n_rows - table->n_apart) {
        const fb_row *row = &table->rows[(*i)++];
        const fb_row *there = fb_analysis_row(other, row->rule);

        if (fb_page_is_compared(page, row->rule) && there != NULL &&
            there < other->rows + (other->n_rows - other->n_apart))
            return row;
    }
    return NULL;
}

static bool orders_differ(const fb_page *page, const fb_table *a, const fb_table *b)
{
    int i = 0, j = 0;

    for (;;) {
        const fb_row *x = next_common(page, a, b, &i);
        const fb_row *y = next_common(page, b, a, &j);

        if (x == NULL || y == NULL) return false;
        if (x->rule != y->rule) return true;
    }
}

bool fb_page_order_differs(const fb_page *page)
{
    const fb_results *results = page->results;

    for (int b = 0; b < results->n_budgets; b++) {
        const fb_table *first = NULL;

        for (int t = 0; t < results->n_tasks; t++) {
            const fb_table *table = fb_analysis_table(page->analysis, t, b);

            if (table == NULL) continue;
            if (first != NULL && orders_differ(page, first, table)) return true;
            if (first == NULL) first = table;
        }
    }
    return false;
}
