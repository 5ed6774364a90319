/* answer.c - the top of the page: the sentence, its numbers, what it holds for.
 *
 * Sentence and paragraph come from the analysis as plain text; names of rules in them
 * get their colour here.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <math.h>
#include <string.h>

/* --- prose */

static bool is_label_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '-' || (unsigned char)c >= 0x80;
}

/* The rule whose label stands at `at` as a whole word, -1 if none; the longest wins. */
static int rule_at(const fb_results *results, const char *at)
{
    size_t longest = 0;
    int found = -1;

    for (int r = 0; r < results->n_rules; r++) {
        const char *label = results->rules[r].label;
        const size_t n = strlen(label);

        if (n <= longest || strncmp(at, label, n) != 0) continue;
        if (is_label_byte(label[n - 1]) && is_label_byte(at[n])) continue;
        longest = n;
        found = r;
    }
    return found;
}

static void prose(const fb_page *page, const char *text)
{
    const char *start = text;

    for (const char *at = text; *at != '\0';) {
        const bool in_word = at > text && is_label_byte(at[-1]);
        const int rule = in_word ? -1 : rule_at(page->results, at);

        if (rule < 0) {
            at++;
            continue;
        }
        fb_html_bytes(page->out, start, (size_t)(at - start));
        fb_html_rule(page, rule);
        at += strlen(page->results->rules[rule].label);
        start = at;
    }
    fb_html_text(page->out, start);
}

/* --- badges */

static void badge(const fb_page *page, const char *name, const char *value)
{
    if (value != NULL && *value != '\0')
        fb_html(page->out, "<li>%s <b>%s</b></li>\n", name, value);
}

/* "prefill.agnostic.original" in words. */
static void protocol_badge(const fb_page *page)
{
    static const char *const words[][2] = {
        {"agnostic", "question not seen"},
        {"aware", "question seen"},
        {"original", "original positions"},
        {"compact", "compact positions"},
    };
    const char *at = page->results->protocol;

    if (at == NULL || *at == '\0') return;
    fb_text_puts(page->out, "<li>protocol <b>");
    for (;;) {
        const size_t n = strcspn(at, ".");
        const char *word = NULL;

        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i][0]) == n && strncmp(at, words[i][0], n) == 0)
                word = words[i][1];
        if (word != NULL)
            fb_html_text(page->out, word);
        else
            fb_html_bytes(page->out, at, n);
        if (at[n] == '\0') break;
        fb_text_puts(page->out, ", ");
        at += n + 1;
    }
    fb_text_puts(page->out, "</b></li>\n");
}

static void documents_badge(const fb_page *page)
{
    const fb_results *results = page->results;
    double tokens = 0;
    int documents = 0;

    for (int t = 0; t < page->analysis->n_tables; t++)
        if (page->analysis->tables[t].n_documents > documents)
            documents = page->analysis->tables[t].n_documents;
    for (int s = 0; s < results->n_samples; s++)
        tokens += (double)results->samples[s].context_tokens / results->n_samples;
    if (documents == 0) return;
    fb_html(page->out, "<li>documents <b>%d", documents);
    if (tokens > 0) {
        const double step = tokens < 200 ? 10 : tokens < 2000 ? 50 : 100;

        fb_text_puts(page->out, " \xC3\x97 about ");
        fb_html_number(page->out, step * floor(tokens / step + 0.5), 0, 0);
        fb_text_puts(page->out, " tokens");
    }
    fb_text_puts(page->out, "</b></li>\n");
}

/* Whether an experiment is of the closed class, and inside the compute quota, is not
 * looked at yet: then the page says so instead of a class. */
static void class_badge(const fb_page *page)
{
    const char *name = page->results->class_name;
    const char *reasons = page->results->class_reasons;

    if (name == NULL || *name == '\0' || strcmp(name, "unchecked") == 0)
        fb_text_puts(page->out,
                     "<li>class and compute quota <b>not checked yet</b></li>\n");
    else
        fb_html(page->out, "<li>class <b>%s</b> %s</li>\n", name, reasons);
}

static void badges(const fb_page *page)
{
    const fb_results *results = page->results;

    fb_text_puts(page->out, "<ul class=\"badges\">\n");
    protocol_badge(page);
    badge(page, "protection, sinks + recent", results->protection);
    class_badge(page);
    badge(page, "model", results->model.name);
    documents_badge(page);
    badge(page, "kernel", results->kernel);
    fb_text_puts(page->out, "</ul>\n");
}

/* --- three numbers */

static void score_of(const fb_page *page, const fb_table *table, const char *name,
                     const fb_row *row)
{
    const int digits = fb_page_digits(page, table->task);

    if (row == NULL) return;
    fb_html_breakable(page->out, name);
    fb_text_puts(page->out, "\xC2\xA0");
    fb_html_number(page->out, row->mean, digits, 0);
}

/* "Full cache 0.000, oracle 0.022, random 0.199." */
static void neighbours(const fb_page *page, const fb_table *table, const fb_row *best)
{
    const fb_row *base = fb_table_baseline(table);
    bool first = true;

    fb_text_puts(page->out, " ");
    for (int i = 0; i < table->n_rows; i++) {
        const fb_row *row = &table->rows[i];
        const char *label = page->results->rules[row->rule].label;
        const bool reference = !fb_page_is_compared(page, row->rule) || row == base;

        if (!reference || row == best) continue;
        fb_text_puts(page->out, first ? "" : ", ");
        score_of(page, table,
                 fb_page_is_full(page, row->rule)
                     ? (first ? "Full cache" : "full cache")
                     : label,
                 row);
        first = false;
    }
    fb_text_puts(page->out, first ? "" : ".");
}

static const char *standing(const fb_row *row)
{
    switch (row->verdict) {
    case FB_VERDICT_better:
        return "beats";
    case FB_VERDICT_worse:
        return "loses to";
    default:
        return "not distinguishable from";
    }
}

/* The rule that comes first on a task: its score, and what it stands between. */
static void quality_figure(const fb_page *page, const fb_table *table)
{
    const fb_result_task *task = &page->results->tasks[table->task];
    const fb_row *best = fb_page_best(page, table);
    const fb_row *base = fb_table_baseline(table);
    const char *unit = task->unit == NULL ? "" : task->unit;

    if (best == NULL) return;
    fb_text_puts(page->out, "<div class=\"fig\"><div class=\"n\">");
    fb_html_number(page->out, best->mean, fb_page_digits(page, table->task), 0);
    fb_html(page->out, " <span>%s%s</span></div>\n<p>", unit,
            task->metric != NULL && strcmp(task->metric, "kl") == 0 ? " from full"
                                                                    : "");
    fb_html_rule(page, best->rule);
    fb_html(page->out, " on %s at ", task->name);
    fb_html_budget(page->out, &page->results->budgets[table->budget]);
    if (base != NULL && base != best)
        fb_html(page->out, ", first of the rules: %s %s", standing(best),
                page->results->rules[base->rule].label);
    fb_text_puts(page->out, ".");
    neighbours(page, table, best);
    if (isfinite(best->em) && best->em > 0 && strcmp(task->metric, "em") != 0) {
        fb_text_puts(page->out, " Answers right at every token: ");
        fb_html_number(page->out, best->em * table->n_samples, 0, 0);
        fb_html(page->out, " of %d.", table->n_samples);
    }
    fb_text_puts(page->out, "</p></div>\n");
}

static void extra_work(const fb_page *page, const fb_row *row)
{
    const double percent = 100 * row->extra_flops;

    if (percent > 0 && percent < 0.01)
        fb_text_puts(page->out, "under 0.01");
    else
        fb_html_number(page->out, percent, percent == 0 ? 0 : percent < 1 ? 2 : 1, 0);
    fb_text_puts(page->out, "\xC2\xA0%");
}

/* The context is read whole before anything is evicted. */
static bool is_one_shot(const fb_page *page)
{
    const char *protocol = page->results->protocol;

    return protocol != NULL && strncmp(protocol, "prefill", 7) == 0;
}

static void bytes_figure(const fb_page *page, const fb_table *table)
{
    const fb_row *best = fb_page_best(page, table);

    if (best == NULL || !(best->kept_bytes > 0)) return;
    fb_text_puts(page->out, "<div class=\"fig\"><div class=\"n\">");
    fb_html_size(page->out, best->kept_bytes);
    if (best->full_bytes > 0) {
        fb_text_puts(page->out, " <span>of ");
        fb_html_size(page->out, best->full_bytes);
        fb_text_puts(page->out, "</span>");
    }
    fb_text_puts(page->out, "</div>\n<p>of keys and values kept at ");
    fb_html_budget(page->out, &page->results->budgets[table->budget]);
    fb_text_puts(page->out, ", the mean per document.");
    if (isfinite(best->extra_flops)) {
        fb_text_puts(page->out, " Choosing them costs ");
        fb_html_rule(page, best->rule);
        fb_text_puts(page->out, " ");
        extra_work(page, best);
        fb_text_puts(page->out, " of the operations that read the context.");
    }
    if (is_one_shot(page))
        fb_text_puts(page->out, " The peak while reading is the full cache.");
    fb_text_puts(page->out, "</p></div>\n");
}

static void figures(const fb_page *page)
{
    const fb_table *first = NULL;
    int n = 0;

    fb_text_puts(page->out, "<div class=\"figs\">\n");
    for (int t = 0; t < page->results->n_tasks && n < 2; t++) {
        const fb_table *table = fb_page_table(page, t, page->budget);

        if (table == NULL) continue;
        if (first == NULL) first = table;
        quality_figure(page, table);
        n++;
    }
    if (first != NULL) bytes_figure(page, first);
    fb_text_puts(page->out, "</div>\n");
}

/* --- the order of the rules, where tasks do not agree on it */

static void order(const fb_page *page)
{
    if (page->results->n_tasks < 2 || !fb_page_order_differs(page)) return;
    fb_text_puts(page->out,
                 "<div class=\"keep chart-part\"><h3>Order of the rules at ");
    fb_page_budget(page);
    fb_text_puts(
        page->out,
        " kept</h3>\n<p class=\"cap\">Best at the top. Rules of one column that "
        "share a letter are not distinguishable (all pairs, Holm).</p>\n");
    fb_page_chart(page, "order", 0);
    fb_text_puts(page->out, "</div>\n");
}

/* A line of text that changes with the chosen budget is written once per budget. */
static void budget_bar(const fb_page *page)
{
    const fb_results *results = page->results;

    if (results->n_budgets < 2) return;
    fb_text_puts(page->out,
                 "<div class=\"bar js noprint\"><div class=\"wrap\"><fieldset>"
                 "<legend>kept</legend><span class=\"seg\">");
    for (int b = 0; b < results->n_budgets; b++) {
        fb_html(page->out, "<label><input type=\"radio\" name=\"b%d\" value=\"%d\"%s>",
                page->number, b, b == page->budget ? " checked" : "");
        fb_html_budget(page->out, &results->budgets[b]);
        fb_text_puts(page->out, "</label>");
    }
    fb_text_puts(page->out, "</span></fieldset></div></div>\n");
}

void fb_page_answer(fb_page *page)
{
    const fb_analysis *analysis = page->analysis;
    const char *question = page->results->question;
    const char *headline =
        analysis->headline != NULL ? analysis->headline : page->results->name;

    fb_html(page->out, "<section class=\"first wrap\" id=\"e%d-answer\">",
            page->number);
    if (question != NULL && *question != '\0')
        fb_html(page->out, "<p class=\"asked\">%s</p>\n", question);
    fb_html(page->out, "<h%d class=\"answer\">", page->number == 1 ? 1 : 2);
    fb_html_text(page->out, headline);
    fb_html(page->out, "</h%d>\n", page->number == 1 ? 1 : 2);
    if (analysis->paragraph != NULL && *analysis->paragraph != '\0') {
        fb_text_puts(page->out, "<p class=\"lead\">");
        prose(page, analysis->paragraph);
        fb_text_puts(page->out, "</p>\n");
    }
    badges(page);
    figures(page);
    order(page);
    fb_page_close(page);
    budget_bar(page);
}
