/* apart.c - rules that cost more than all were allowed: what they cost, and what they would
 * score, which is compared with nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

static bool has_apart(const fb_page *page)
{
    for (int t = 0; t < page->analysis->n_tables; t++)
        if (page->analysis->tables[t].n_apart > 0) return true;
    return false;
}

static void row_of(const fb_page *page, const fb_table *table, const fb_row *row)
{
    fb_text_puts(page->out, "<tr><th scope=\"row\">");
    fb_html_rule(page, row->rule);
    fb_html(page->out, "</th><td class=\"l\">%s</td>",
            page->results->tasks[table->task].name);
    fb_page_kept_cell(page, table, row);
    fb_html_cell(page->out, 100 * row->extra_flops, 1);
    fb_html_cell(page->out, 100 * row->extra_most, 1);
    fb_html_cell(page->out, 100 * row->fused_flops, 1);
    fb_html(page->out, "<td class=\"l\">%s</td>",
            fb_say_metric(page->results->tasks[table->task].metric));
    fb_html_cell(page->out, row->mean, table->digits);
    fb_html_interval_cell(page->out, row->mean_interval, table->digits, false);
    fb_text_puts(page->out, "</tr>\n");
}

void fb_page_apart(fb_page *page)
{
    if (!has_apart(page)) return;
    fb_page_open(page, "apart", "Above the quota");
    fb_text_puts(page->out, "<p>All rules were allowed ");
    fb_say_quota(page->out, page->analysis->quota);
    fb_text_puts(
        page->out,
        ". These took more with some document: they have no p and no letter, and "
        "what is said of the others does not depend on them.</p>\n");
    fb_page_table_open(page, "apart", 0);
    fb_text_puts(
        page->out,
        "<thead><tr><th scope=\"col\">rule</th><th scope=\"col\" class=\"l\">task</th>"
        "<th scope=\"col\">kept</th><th scope=\"col\">cost, %</th>"
        "<th scope=\"col\">at most, %</th><th scope=\"col\">fused, %</th>"
        "<th scope=\"col\" class=\"l\">measure</th><th scope=\"col\">mean</th>"
        "<th scope=\"col\">interval</th></tr></thead><tbody>\n");
    for (int t = 0; t < page->analysis->n_tables; t++) {
        const fb_table *table = &page->analysis->tables[t];

        for (int i = table->n_rows - table->n_apart; i < table->n_rows; i++)
            row_of(page, table, &table->rows[i]);
    }
    fb_text_puts(page->out, "</tbody>\n");
    fb_page_table_close(page, "apart", 0);
    fb_page_close(page);
}
