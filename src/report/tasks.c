/* tasks.c - by task: how much of the baseline's distance to the full cache a rule
 * removes, as a table of shades.
 *
 *     share  =  (baseline - rule) / (baseline - full)      of the means, in %
 *
 * 100 is the full cache, 0 the baseline. The shade stops at 100, the number does not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <math.h>

static const fb_row *full_row(const fb_page *page, const fb_table *table)
{
    for (int i = 0; i < table->n_rows; i++)
        if (fb_page_is_full(page, table->rows[i].rule)) return &table->rows[i];
    return NULL;
}

/* NAN where there is no distance to remove. */
static double share_of(const fb_page *page, const fb_table *table, const fb_row *row)
{
    const fb_row *base = fb_table_baseline(table);
    const fb_row *full = full_row(page, table);

    if (base == NULL || full == NULL) return (double)NAN;
    if (!(fabs(base->mean - full->mean) > 1e-9)) return (double)NAN;
    return 100 * (base->mean - row->mean) / (base->mean - full->mean);
}

/* Some rule beside the two ends of the scale has a share. */
static bool has_shares(const fb_page *page)
{
    for (int t = 0; t < page->analysis->n_tables; t++) {
        const fb_table *table = &page->analysis->tables[t];

        for (int i = 0; i < table->n_rows; i++)
            if (i != table->baseline && !fb_page_is_full(page, table->rows[i].rule) &&
                isfinite(share_of(page, table, &table->rows[i])))
                return true;
    }
    return false;
}

static void cell(const fb_page *page, const fb_table *table, int rule)
{
    const fb_row *row = table == NULL ? NULL : fb_analysis_row(table, rule);
    const double share = row == NULL ? (double)NAN : share_of(page, table, row);

    if (row == NULL || !isfinite(share)) {
        fb_text_puts(page->out, "<td><span>\xE2\x80\x93</span></td>");
    } else if (row == fb_table_baseline(table)) {
        fb_text_puts(page->out, "<td data-v=\"0\"><span>ref</span></td>");
    } else {
        fb_text_puts(page->out, "<td data-v=\"");
        fb_text_add_real(page->out, share);
        fb_text_printf(page->out,
                       "\"%s><span style=\"background-color:rgb(var(--%s)/%.2f)\">",
                       row->verdict == FB_VERDICT_open || row->is_without_choice ||
                               fb_stands_apart(row, page->analysis->baseline)
                           ? " class=\"ns\""
                           : "",
                       share < 0 ? "bad" : "good", 0.72 * fmin(fabs(share), 100) / 100);
        fb_html_signed(page->out, share, 0);
        fb_text_puts(page->out, "</span></td>");
    }
}

static void head(const fb_page *page)
{
    const fb_results *results = page->results;

    fb_text_puts(page->out, "<thead><tr><th></th>");
    for (int t = 0; t < results->n_tasks; t++) {
        fb_text_puts(page->out, t == 0 ? "" : "<th class=\"gap\"></th>");
        fb_html(page->out,
                "<th class=\"grp\" colspan=\"%d\" scope=\"colgroup\">%s</th>",
                results->n_budgets, results->tasks[t].name);
    }
    fb_text_puts(page->out, "</tr>\n<tr><th scope=\"col\">rule</th>");
    for (int t = 0; t < results->n_tasks; t++) {
        if (t > 0) fb_text_puts(page->out, "<th class=\"gap\"></th>");
        for (int b = 0; b < results->n_budgets; b++) {
            fb_text_puts(page->out, "<th scope=\"col\">");
            fb_html_budget(page->out, &results->budgets[b]);
            fb_text_puts(page->out, "</th>");
        }
    }
    fb_text_puts(page->out, "</tr></thead>\n");
}

static void body(const fb_page *page)
{
    const fb_results *results = page->results;

    fb_text_puts(page->out, "<tbody>\n");
    for (int i = 0; i < results->n_rules; i++) {
        const int r = page->order[i];

        if (fb_page_is_full(page, r)) continue;
        fb_text_puts(page->out, "<tr><th scope=\"row\" class=\"marked\">");
        fb_html_swatch(page, r);
        fb_text_puts(page->out, " ");
        fb_html_rule(page, r);
        fb_text_puts(page->out, "</th>");
        for (int t = 0; t < results->n_tasks; t++) {
            if (t > 0) fb_text_puts(page->out, "<td class=\"gap\"></td>");
            for (int b = 0; b < results->n_budgets; b++)
                cell(page, fb_analysis_table(page->analysis, t, b), r);
        }
        fb_text_puts(page->out, "</tr>\n");
    }
    fb_text_puts(page->out, "</tbody>\n");
}

void fb_page_tasks(fb_page *page)
{
    if (!has_shares(page)) return;
    fb_page_open(page, "tasks", "By task");
    fb_html(page->out,
            "<p>Share of the distance from %s to the full cache that a rule removes, "
            "in %%: 100 is the full cache, 0 is %s, below 0 is worse.</p>\n",
            fb_page_baseline(page), fb_page_baseline(page));
    fb_page_table_open(page, "heat", 0);
    head(page);
    body(page);
    fb_page_table_end(page);
    fb_html(
        page->out,
        "<p class=\"key\"><span><i style=\"background:rgb(var(--good)/.72)\"></i>"
        "nearer to full</span><span><i style=\"background:rgb(var(--bad)/.72)\">"
        "</i>worse than %s</span><span><i class=\"hatch\"></i>hatched: not "
        "distinguishable from %s (Holm), nothing left to choose, or above the compute "
        "quota</span></p>\n"
        "<p class=\"cap\">Colour stops at \xC2\xB1"
        "100, the number does not. Tasks "
        "are not averaged: their units differ.</p>\n",
        fb_page_baseline(page), fb_page_baseline(page));
    fb_page_table_copy(page, "heat", 0);
    fb_page_close(page);
}
