/* data.c - the numbers of the charts as JSON for the script, and nothing else: what
 * people read stands in the page itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "report/page.h"

#include <math.h>

static void add_string(const fb_page *page, const char *value)
{
    if (value == NULL)
        fb_text_puts(page->out, "null");
    else
        fb_json_add_string(page->out, value);
}

static void number(const fb_page *page, const char *name, double value)
{
    fb_text_printf(page->out, ",\"%s\":", name);
    fb_json_add_real(page->out, value);
}

static void string(const fb_page *page, const char *name, const char *value)
{
    fb_text_printf(page->out, ",\"%s\":", name);
    add_string(page, value);
}

static void rules(const fb_page *page)
{
    fb_text_puts(page->out, "\"rules\":[");
    for (int r = 0; r < page->results->n_rules; r++) {
        const fb_look look = fb_rule_look(page->results, r);

        fb_text_printf(page->out, "%s{\"full\":%s,\"compared\":%s", r == 0 ? "" : ",",
                       fb_page_is_full(page, r) ? "true" : "false",
                       fb_page_is_compared(page, r) ? "true" : "false");
        string(page, "label", page->results->rules[r].label);
        string(page, "expression", page->results->rules[r].expression);
        string(page, "color", look.color);
        string(page, "shape", look.shape);
        string(page, "dash", look.dash);
        fb_text_puts(page->out, "}");
    }
    fb_text_puts(page->out, "],\n");
}

static void tasks(const fb_page *page)
{
    fb_text_puts(page->out, "\"tasks\":[");
    for (int t = 0; t < page->results->n_tasks; t++) {
        const fb_result_task *task = &page->results->tasks[t];

        fb_text_printf(page->out, "%s{\"lower\":%s", t == 0 ? "" : ",",
                       task->lower_is_better ? "true" : "false");
        string(page, "name", task->name);
        string(page, "metric", task->metric);
        string(page, "words", fb_metric_words(task->metric));
        string(page, "unit", task->unit);
        fb_text_puts(page->out, "}");
    }
    fb_text_puts(page->out, "],\n");
}

static void row(const fb_page *page, const fb_row *r)
{
    const bool is_apart = fb_stands_apart(r, page->analysis->baseline);

    fb_text_printf(
        page->out, "{\"rule\":%d,\"n\":%d,\"apart\":%s,\"ranked\":%s,\"real\":%s",
        r->rule, r->n, is_apart ? "true" : "false",
        r->is_without_choice || is_apart ? "false" : "true",
        r->verdict == FB_VERDICT_better || r->verdict == FB_VERDICT_worse ? "true"
                                                                          : "false");
    number(page, "mean", r->mean);
    number(page, "low", r->mean_interval.low);
    number(page, "high", r->mean_interval.high);
    number(page, "difference", r->difference);
    number(page, "difference_low", r->difference_interval.low);
    number(page, "difference_high", r->difference_interval.high);
    number(page, "p", r->verdict == FB_VERDICT_reference ? (double)NAN : r->p_holm);
    string(page, "group", r->letters);
    fb_text_puts(page->out, "}");
}

static void tables(const fb_page *page)
{
    bool first = true;

    fb_text_puts(page->out, "\"tables\":[");
    for (int t = 0; t < page->results->n_tasks; t++)
        for (int b = 0; b < page->results->n_budgets; b++) {
            const fb_table *table = fb_analysis_table(page->analysis, t, b);

            if (table == NULL) continue;
            fb_text_printf(page->out,
                           "%s{\"task\":%d,\"budget\":%d,\"digits\":%d,\"baseline\":%d",
                           first ? "" : ",\n", t, b, table->digits,
                           fb_table_baseline(table) == NULL ? -1 : table->baseline);
            number(page, "margin", table->margin);
            number(page, "share", fb_table_share(page, table));
            fb_text_puts(page->out, ",\"rows\":[");
            for (int i = 0; i < table->n_rows; i++) {
                fb_text_puts(page->out, i == 0 ? "" : ",");
                row(page, &table->rows[i]);
            }
            fb_text_puts(page->out, "]}");
            first = false;
        }
    fb_text_puts(page->out, "]");
}

void fb_page_data(const fb_page *page)
{
    fb_text_printf(page->out, "{\"number\":%d,\"budget\":%d", page->number,
                   page->budget);
    number(page, "confidence", page->analysis->confidence);
    fb_text_puts(page->out, ",\n\"budgets\":[");
    for (int b = 0; b < page->results->n_budgets; b++) {
        fb_text_puts(page->out, b == 0 ? "" : ",");
        add_string(page, page->results->budgets[b].asked);
    }
    fb_text_puts(page->out, "],\n");
    rules(page);
    tasks(page);
    tables(page);
    fb_text_puts(page->out, "}");
}
