/* quality.c - quality against budget: a panel per task, and every number below.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Side measures of a row that get a column where any row of the task has one. */
static const struct side {
    const char *metric, *heading;
    size_t offset;
    int digits;
} sides[] = {
    {"kl", "KL, nat", offsetof(fb_row, kl), 3},
    {"nll", "NLL, nat", offsetof(fb_row, nll), 3},
    {"em", "exact, share", offsetof(fb_row, em), 2},
    {"top1", "same top token, share", offsetof(fb_row, top1), 2},
};
enum { N_SIDES = (int)(sizeof sides / sizeof *sides) };

static double side_of(const fb_row *row, const struct side *side)
{
    return *(const double *)(const void *)((const char *)row + side->offset);
}

static bool has_side(const fb_page *page, int task, const struct side *side)
{
    const char *metric = page->results->tasks[task].metric;

    if (metric != NULL && strcmp(metric, side->metric) == 0) return false;
    for (int b = 0; b < page->results->n_budgets; b++) {
        const fb_table *table = fb_analysis_table(page->analysis, task, b);

        for (int i = 0; table != NULL && i < table->n_rows; i++)
            if (isfinite(side_of(&table->rows[i], side))) return true;
    }
    return false;
}

static void chips(const fb_page *page)
{
    fb_text_puts(page->out, "<div class=\"chips js noprint\" role=\"group\" "
                            "aria-label=\"Rules shown in the figures\">\n");
    for (int i = 0; i < page->results->n_rules; i++) {
        const int r = page->order[i];

        if (fb_page_is_full(page, r)) continue;
        fb_html(page->out,
                "<button type=\"button\" data-rule=\"%d\" aria-pressed=\"true\">", r);
        fb_html_swatch(page, r);
        fb_html(page->out, "%s</button>\n", page->results->rules[r].label);
    }
    fb_text_puts(page->out, "</div>\n");
}

static void panels(const fb_page *page)
{
    const fb_results *results = page->results;

    fb_html(page->out, "<div class=\"two chart-part%s\">\n",
            results->n_tasks == 1 ? " one" : "");
    for (int t = 0; t < results->n_tasks; t++) {
        const fb_result_task *task = &results->tasks[t];

        fb_html(page->out, "<div><h3>%s</h3><small>", task->name);
        fb_html_measure(page->out, task);
        fb_text_puts(page->out, "</small>");
        fb_page_chart(page, "quality", t);
        fb_text_puts(page->out, "</div>\n");
    }
    fb_text_puts(page->out, "</div>\n");
}

static void head(const fb_page *page, int task)
{
    fb_html(page->out,
            "<thead><tr><th scope=\"col\">rule</th><th scope=\"col\">kept</th>"
            "<th scope=\"col\">%s</th><th scope=\"col\">interval</th>",
            fb_say_metric(page->results->tasks[task].metric));
    for (int i = 0; i < N_SIDES; i++)
        if (has_side(page, task, &sides[i]))
            fb_html(page->out, "<th scope=\"col\">%s</th>", sides[i].heading);
    fb_text_puts(
        page->out,
        "<th scope=\"col\" class=\"l\">group</th><th scope=\"col\">documents</th>"
        "</tr></thead>\n");
}

static void row_of(const fb_page *page, const fb_table *table, const fb_row *row)
{
    const int digits = table->digits;

    fb_text_printf(page->out, "<tr%s><th scope=\"row\">",
                   fb_page_is_compared(page, row->rule) ? "" : " class=\"base\"");
    fb_html_rule(page, row->rule);
    fb_text_puts(page->out, "</th>");
    fb_page_kept_cell(page, table, row);
    fb_html_cell(page->out, row->mean, digits);
    fb_html_interval_cell(page->out, row->mean_interval, digits, false);
    for (int i = 0; i < N_SIDES; i++)
        if (has_side(page, table->task, &sides[i]))
            fb_html_cell(page->out, side_of(row, &sides[i]), sides[i].digits);
    fb_html(page->out, "<td class=\"l\">%s</td><td>%d</td></tr>\n", row->letters,
            row->n);
}

static void numbers(const fb_page *page, int task)
{
    const fb_result_task *t = &page->results->tasks[task];
    int left_out = 0;

    fb_page_table_open(page, "means", task);
    fb_html(page->out, "<caption><b>%s</b>: means over documents with ", t->name);
    fb_html_confidence(page);
    fb_text_puts(page->out, " intervals; ");
    fb_html_measure(page->out, t);
    fb_html(page->out, ", %s is better</caption>\n",
            t->lower_is_better ? "lower" : "higher");
    head(page, task);
    for (int b = 0; b < page->results->n_budgets; b++) {
        const fb_table *table = fb_analysis_table(page->analysis, task, b);

        if (table == NULL) continue;
        left_out += table->n_left_out;
        fb_text_puts(page->out, "<tbody>\n");
        for (int i = 0; i < table->n_rows - table->n_apart; i++)
            row_of(page, table, &table->rows[i]);
        fb_text_puts(page->out, "</tbody>\n");
    }
    fb_page_table_close(page, "means", task);
    fb_page_few(page, task);
    fb_page_failed(page, task);
    if (left_out > 0)
        fb_html(page->out,
                "<p class=\"cap\">%d %s left out of these tables: not finished under "
                "every rule.</p>\n",
                left_out, fb_plural(left_out, "sample is", "samples are"));
}

void fb_page_quality(fb_page *page)
{
    fb_page_open(page, "quality", "Quality against budget");
    fb_html(page->out,
            "<p>Every rule starts as the full cache and loses as memory shrinks. What "
            "the oracle keeps shows the room that is left; %s is the floor that a rule "
            "has to beat.</p>\n",
            fb_page_baseline(page));
    chips(page);
    panels(page);
    fb_text_puts(page->out,
                 "<p class=\"cap chart-part\">Up is better in every panel; the scales "
                 "differ. Thick: measured. Thin: to the full cache, where nothing is "
                 "evicted and all rules agree by definition. Bands: ");
    fb_html_confidence(page);
    fb_text_puts(page->out, " percentile bootstrap over documents; point at a mark to "
                            "bring its band forward.</p>\n");
    fb_page_numbers_open(page);
    for (int t = 0; t < page->results->n_tasks; t++)
        numbers(page, t);
    fb_text_puts(page->out, "</details>\n");
    fb_page_close(page);
}
