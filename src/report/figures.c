/* figures.c - the numbers under the answer: up to two tasks, and the bytes.
 *
 * A task whose expected answers the full cache gives at least half the time is shown
 * by how many a rule still gives, for that can be told to anyone; another one by its
 * measure.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <math.h>
#include <string.h>

static const fb_row *full_row(const fb_page *page, const fb_table *table)
{
    for (int i = 0; i < table->n_rows; i++)
        if (fb_page_is_full(page, table->rows[i].rule)) return &table->rows[i];
    return NULL;
}

static bool counts_answers(const fb_page *page, const fb_table *table)
{
    const fb_row *full = full_row(page, table);

    return full != NULL && full->em >= 0.5;
}

static void value_of(const fb_page *page, const fb_table *table, const fb_row *row,
                     bool as_count)
{
    if (as_count)
        fb_html_number(page->out, row->em * table->n_samples, 0);
    else
        fb_html_number(page->out, row->mean, table->digits);
}

/* "Full cache 16, oracle 16, random 0." */
static void references(const fb_page *page, const fb_table *table, const fb_row *best,
                       bool as_count)
{
    const fb_row *base = fb_table_baseline(table);
    bool first = true;

    for (int i = 0; i < table->n_rows; i++) {
        const fb_row *row = &table->rows[i];
        const bool is_full = fb_page_is_full(page, row->rule);

        if (row == best || (fb_page_is_compared(page, row->rule) && row != base))
            continue;
        fb_text_puts(page->out, first ? " " : ", ");
        if (is_full)
            fb_text_puts(page->out, first ? "Full cache" : "full cache");
        else
            fb_html_breakable(page->out, page->results->rules[row->rule].label);
        fb_text_puts(page->out, "\xC2\xA0");
        value_of(page, table, row, as_count);
        first = false;
    }
    if (!first) fb_text_puts(page->out, ".");
}

static const char *standing(const fb_row *row)
{
    switch (row->verdict) {
    case FB_VERDICT_better:
        return "beats";
    case FB_VERDICT_worse:
        return "loses to";
    default:
        return "is not distinguishable from";
    }
}

/* "First of the rules by KL, 0.64 nat, it beats random."; one that does not beat it is
 * not praised: "By KL, 2.15 nat, it is not distinguishable from random." */
static void place(const fb_page *page, const fb_table *table, const fb_row *best,
                  bool as_count)
{
    const fb_result_task *task = &page->results->tasks[table->task];
    const fb_row *base = fb_table_baseline(table);
    const bool is_first = best->verdict == FB_VERDICT_better;

    if (base == NULL || base == best) return;
    if (is_first) fb_text_puts(page->out, " First of the rules");
    if (as_count) {
        fb_html(page->out, " %s %s,\xC2\xA0", is_first ? "by" : "By",
                fb_say_metric(task->metric));
        fb_html_number(page->out, best->mean, table->digits);
        fb_html(page->out, "%s%s", *task->unit == '\0' ? "" : "\xC2\xA0", task->unit);
    }
    fb_html(page->out, "%s %s ", is_first || as_count ? ", it" : " It", standing(best));
    fb_html_breakable(page->out, page->results->rules[base->rule].label);
    fb_text_puts(page->out, ".");
}

static void task_figure(const fb_page *page, const fb_table *table)
{
    const fb_result_task *task = &page->results->tasks[table->task];
    const fb_row *best = fb_page_best(page, table);
    const bool as_count = counts_answers(page, table);

    if (best == NULL) return;
    fb_text_puts(page->out, "<div class=\"fig\"><div class=\"n\">");
    value_of(page, table, best, as_count);
    if (as_count)
        fb_html(page->out, " <span>of %d %s right</span></div>\n<p>", table->n_samples,
                fb_plural(table->n_samples, "answer", "answers"));
    else
        fb_html(page->out, " <span>%s%s</span></div>\n<p>", task->unit,
                strcmp(task->metric, "kl") == 0 ? " from full" : "");
    fb_html_rule(page, best->rule);
    fb_html(page->out, " on %s at ", task->name);
    fb_html_budget(page->out, &page->results->budgets[table->budget]);
    fb_text_puts(page->out, ".");
    references(page, table, best, as_count);
    place(page, table, best, as_count);
    fb_text_puts(page->out, "</p></div>\n");
}

/* The context is read whole before anything is evicted. */
static bool is_one_shot(const fb_page *page)
{
    const char *protocol = page->results->protocol;

    return protocol != NULL && strncmp(protocol, "prefill", 7) == 0;
}

static void extra_work(const fb_page *page, const fb_row *row)
{
    const double percent = 100 * row->extra_flops;

    if (!isfinite(percent) || row->verdict == FB_VERDICT_reference) return;
    fb_text_puts(page->out, " Choosing them costs ");
    fb_html_rule(page, row->rule);
    if (percent > 0 && percent < 0.01)
        fb_text_puts(page->out, " under 0.01");
    else {
        fb_text_puts(page->out, " ");
        fb_html_number(page->out, percent, percent == 0 ? 0 : percent < 1 ? 2 : 1);
    }
    fb_text_puts(page->out, "\xC2\xA0% of the operations that read the context.");
}

static void bytes_figure(const fb_page *page, const fb_table *table)
{
    const fb_row *best = fb_page_best(page, table);

    if (best == NULL || !(best->kept_bytes > 0)) return;
    fb_text_puts(page->out, "<div class=\"fig\"><div class=\"n\">");
    fb_say_bytes(page->out, best->kept_bytes);
    if (best->full_bytes > 0) {
        fb_text_puts(page->out, " <span>of ");
        fb_say_bytes(page->out, best->full_bytes);
        fb_text_puts(page->out, "</span>");
    }
    fb_text_puts(page->out, "</div>\n<p>of keys and values kept at ");
    fb_html_budget(page->out, &page->results->budgets[table->budget]);
    fb_text_puts(page->out, ", the mean per document.");
    if (is_one_shot(page))
        fb_text_puts(page->out, " While the context is read, all of it is there.");
    extra_work(page, best);
    fb_text_puts(page->out, "</p></div>\n");
}

void fb_page_figures(const fb_page *page)
{
    const fb_table *first = NULL;
    int n = 0;

    fb_text_puts(page->out, "<div class=\"figs\">\n");
    for (int t = 0; t < page->results->n_tasks && n < 2; t++) {
        const fb_table *table = fb_analysis_table(page->analysis, t, page->budget);

        if (table == NULL) continue;
        if (first == NULL) first = table;
        task_figure(page, table);
        n++;
    }
    if (first != NULL) bytes_figure(page, first);
    fb_text_puts(page->out, "</div>\n");
}
