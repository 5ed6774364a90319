/* differences.c - which differences are real: forest plots and the tests behind them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <math.h>
#include <string.h>

/* The baseline's label if some rule was tested against it, else NULL. */
static const char *baseline_label(const fb_page *page)
{
    const fb_analysis *analysis = page->analysis;

    for (int t = 0; t < analysis->n_tables && analysis->baseline >= 0; t++)
        for (int i = 0; i < analysis->tables[t].n_rows; i++)
            if (analysis->tables[t].rows[i].verdict != FB_VERDICT_reference)
                return page->results->rules[analysis->baseline].label;
    return NULL;
}

static void panels(const fb_page *page)
{
    const fb_results *results = page->results;

    fb_html(page->out, "<div class=\"two chart-part%s\">\n",
            results->n_tasks == 1 ? " one" : "");
    for (int t = 0; t < results->n_tasks; t++) {
        fb_html(page->out, "<div><h3>%s</h3><small>", results->tasks[t].name);
        fb_html_measure(page->out, &results->tasks[t]);
        fb_text_puts(page->out, "</small>");
        fb_page_chart(page, "forest", t);
        fb_text_puts(page->out, "</div>\n");
    }
    fb_text_puts(page->out, "</div>\n");
}

static void row_of(const fb_page *page, const fb_table *table, const fb_row *row)
{
    const int digits = table->digits;
    const bool tested = row->verdict != FB_VERDICT_reference;

    fb_text_puts(page->out, "<tr><th scope=\"row\">");
    fb_html_rule(page, row->rule);
    fb_text_puts(page->out, "</th>");
    fb_page_kept_cell(page, table, row);
    fb_html_signed_cell(page->out, row->difference, digits);
    fb_html_interval_cell(page->out, row->difference_interval, digits, true);
    if (tested) {
        fb_html_p_cell(page->out, row->p);
        fb_html_p_cell(page->out, row->p_holm);
    } else {
        fb_text_puts(page->out, "<td></td><td></td>");
    }
    fb_html(page->out, "<td class=\"l\">%s</td><td class=\"l\">%s</td></tr>\n",
            fb_verdict_words(row->verdict), row->letters);
}

static void numbers(const fb_page *page, int task, const char *baseline)
{
    fb_page_table_open(page, "differences", task);
    fb_html(page->out, "<caption><b>%s</b>: rule minus %s, paired by document, with ",
            page->results->tasks[task].name, baseline);
    fb_html_confidence(page);
    fb_text_puts(page->out, " intervals; ");
    fb_html_measure(page->out, &page->results->tasks[task]);
    fb_text_puts(page->out,
                 "</caption>\n<thead><tr><th scope=\"col\">rule</th>"
                 "<th scope=\"col\">kept</th><th scope=\"col\">difference</th>"
                 "<th scope=\"col\">interval</th><th scope=\"col\">p</th>"
                 "<th scope=\"col\">p (Holm)</th><th scope=\"col\" class=\"l\">verdict"
                 "</th><th scope=\"col\" class=\"l\">group</th></tr></thead>\n");
    for (int b = 0; b < page->results->n_budgets; b++) {
        const fb_table *table = fb_analysis_table(page->analysis, task, b);

        if (table == NULL || fb_table_baseline(table) == NULL) continue;
        fb_text_puts(page->out, "<tbody>\n");
        for (int i = 0; i < table->n_rows - table->n_apart; i++)
            if (i != table->baseline) row_of(page, table, &table->rows[i]);
        fb_text_puts(page->out, "</tbody>\n");
    }
    fb_page_table_close(page, "differences", task);
    fb_page_few(page, task);
}

/* "needle 0.52 nat at 20 %; continuation ..." : what this number of documents shows. */
static void smallest_effects(const fb_page *page)
{
    bool first = true;

    for (int t = 0; t < page->results->n_tasks; t++) {
        const fb_table *table = fb_analysis_table(page->analysis, t, page->budget);
        const fb_result_task *task = &page->results->tasks[t];

        if (table == NULL || !isfinite(table->smallest_effect) ||
            !(table->smallest_effect > 0))
            continue;
        fb_html(page->out,
                first ? " Smallest difference that so many documents show in four "
                        "runs of five: %s\xC2\xA0"
                      : ", %s\xC2\xA0",
                task->name);
        fb_html_number(page->out, table->smallest_effect, table->digits);
        fb_html(page->out, "\xC2\xA0%s", task->unit);
        first = false;
    }
    if (first) return;
    fb_text_puts(page->out, " (at ");
    fb_html_budget(page->out, &page->results->budgets[page->budget]);
    fb_text_puts(page->out, ").");
}

static void margin(const fb_page *page, const fb_table *table)
{
    fb_text_puts(page->out, "\xC2\xB1");
    fb_text_add_real(page->out, table->margin);
    fb_html(page->out, "\xC2\xA0%s", page->results->tasks[table->task].unit);
}

/* The table if all tasks have one and the same margin, else NULL. */
static const fb_table *common_margin(const fb_page *page)
{
    const fb_result_task *tasks = page->results->tasks;
    const fb_table *first = fb_analysis_table(page->analysis, 0, page->budget);

    for (int t = 0; first != NULL && t < page->results->n_tasks; t++) {
        const fb_table *table = fb_analysis_table(page->analysis, t, page->budget);

        if (table == NULL || table->margin != first->margin ||
            strcmp(tasks[t].unit, tasks[0].unit) != 0)
            return NULL;
    }
    return first != NULL && first->margin > 0 ? first : NULL;
}

/* The smallest difference that matters, by task. */
static void margins(const fb_page *page)
{
    const fb_table *common = common_margin(page);
    bool first = true;

    if (common != NULL) {
        margin(page, common);
        return;
    }
    for (int t = 0; t < page->results->n_tasks; t++) {
        const fb_table *table = fb_analysis_table(page->analysis, t, page->budget);

        if (table == NULL || !(table->margin > 0)) continue;
        fb_html(page->out, "%s%s\xC2\xA0", first ? "" : ", ",
                page->results->tasks[t].name);
        margin(page, table);
        first = false;
    }
    fb_text_puts(page->out, first ? "none is set" : "");
}

static void caption(const fb_page *page)
{
    fb_text_puts(page->out,
                 "<p class=\"cap\">Smallest difference that matters, the grey "
                 "band: ");
    margins(page);
    fb_text_puts(page->out,
                 ". p: sign flips of whole documents. Group: rules that share a letter "
                 "are not distinguishable. " FB_LETTER_WORDS
                 " An interval that leaves out 0 "
                 "beside a p that is too large is no contradiction: intervals are not "
                 "corrected for several comparisons.");
    smallest_effects(page);
    fb_text_puts(page->out, "</p>\n");
}

void fb_page_differences(fb_page *page)
{
    const char *baseline = baseline_label(page);

    fb_page_open(page, "differences", "Which differences are real?");
    if (baseline == NULL) {
        fb_text_puts(page->out,
                     "<p>None was tested: there is no rule that could be paired with "
                     "the baseline.</p>\n");
        fb_page_close(page);
        return;
    }
    fb_html(page->out, "<p>Rule minus %s on the same documents", baseline);
    fb_text_puts(page->out, "<span class=\"chart-part\">, ");
    fb_page_budget(page);
    fb_text_puts(page->out, " kept. Filled: p\xC2\xA0&lt;\xC2\xA0");
    fb_html_number(page->out, 1 - page->analysis->confidence, 2);
    fb_text_puts(page->out, " after Holm over the rules tested");
    if (page->results->n_tasks > 1)
        fb_text_puts(page->out, ". All panels use the order of the first");
    fb_text_puts(page->out, "</span>.</p>\n");
    panels(page);
    caption(page);
    fb_page_numbers_open(page);
    for (int t = 0; t < page->results->n_tasks; t++)
        numbers(page, t, baseline);
    fb_text_puts(page->out, "</details>\n");
    fb_page_close(page);
}
