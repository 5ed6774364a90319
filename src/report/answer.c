/* answer.c - the top of the page: the sentence, what it holds for, the order of rules.
 *
 * Sentence and paragraph come from the analysis as plain text; names of rules in them
 * get their colour here. The end of the paragraph, for which model and documents it
 * holds and what they could show, is left out: the badges and the section of the
 * differences say that.
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

static void colored_prose(const fb_page *page, const char *text, const char *end)
{
    const char *start = text;

    for (const char *at = text; at < end;) {
        const bool in_word = at > text && is_label_byte(at[-1]);
        const int rule = in_word ? -1 : rule_at(page->results, at);

        if (rule < 0) {
            at++;
            continue;
        }
        fb_html_prose(page->out, start, (size_t)(at - start));
        fb_html_rule_word(page, rule);
        at += strlen(page->results->rules[rule].label);
        start = at;
    }
    if (start < end) fb_html_prose(page->out, start, (size_t)(end - start));
}

/* Where the paragraph begins to say what it holds for; its end if it does not. */
static const char *end_of_findings(const char *text)
{
    const char *scope = strstr(text, ". Measured on ");

    return scope == NULL ? text + strlen(text) : scope + 1;
}

static void paragraph(const fb_page *page)
{
    const char *text = page->analysis->paragraph;

    if (text == NULL || *text == '\0') return;
    fb_text_puts(page->out, "<p class=\"lead\">");
    colored_prose(page, text, end_of_findings(text));
    fb_text_puts(page->out, "</p>\n");
}

/* A task of which the full cache gets nothing is said to teach nothing. */
static void floors(const fb_page *page)
{
    for (int t = 0; t < page->results->n_tasks; t++) {
        const fb_table *table = fb_analysis_table(page->analysis, t, page->budget);

        if (table == NULL || !fb_is_at_floor(page->analysis, table)) continue;
        fb_html(page->out, "<p class=\"lead\">On %s ", page->results->tasks[t].name);
        fb_say_floor(page->out, table);
        fb_text_puts(page->out, ".</p>\n");
    }
}

/* --- badges */

static void badge(const fb_page *page, const char *name, const char *value)
{
    if (value != NULL && *value != '\0')
        fb_html(page->out, "<li>%s <b>%s</b></li>\n", name, value);
}

static void protocol_badge(const fb_page *page)
{
    fb_text words = {0};

    if (page->results->protocol == NULL) return;
    fb_say_protocol(&words, page->results->protocol);
    badge(page, "protocol", fb_text_string(&words));
    page->out->failed |= words.failed;
    fb_text_clear(&words);
}

/* "4+16" is four sinks and sixteen recent entries. */
static void protection_badge(const fb_page *page)
{
    const char *value = page->results->protection;
    const size_t sinks = value == NULL ? 0 : strspn(value, "0123456789");

    if (sinks == 0 || value[sinks] != '+') {
        badge(page, "protection", value);
        return;
    }
    fb_text_puts(page->out, "<li>protected for all <b>first ");
    fb_html_bytes(page->out, value, sinks);
    fb_html(page->out, ", last %s</b></li>\n", value + sinks + 1);
}

static void verified_badge(const fb_page *page)
{
    fb_text words = {0};

    if (fb_say_verified(&words, page->results))
        fb_html(page->out, "<li>verified <b>%s</b></li>\n", fb_text_string(&words));
    fb_text_clear(&words);
}

static void class_badge(const fb_page *page)
{
    const char *name = page->results->class_name;
    const char *reasons = page->results->class_reasons;

    if (name != NULL && *name != '\0')
        fb_html(page->out, "<li title=\"%s\">class <b>%s</b>%s%s</li>\n",
                FB_CLASS_WORDS, name, reasons == NULL || *reasons == '\0' ? "" : ": ",
                reasons);
    verified_badge(page);
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
        tokens += (double)results->samples[s].context_tokens;
    if (documents == 0) return;
    fb_html(page->out, "<li>documents <b>%d \xC3\x97 ", documents);
    fb_html_number(page->out, tokens / results->n_samples, 0);
    fb_text_puts(page->out, " tokens</b></li>\n");
}

static void badges(const fb_page *page)
{
    fb_text_puts(page->out, "<ul class=\"badges\">\n");
    protocol_badge(page);
    protection_badge(page);
    class_badge(page);
    badge(page, "model", page->results->model.name);
    documents_badge(page);
    badge(page, "kernel", page->results->kernel);
    fb_text_puts(page->out, "</ul>\n");
}

/* --- the order of the rules, where tasks do not agree on it */

static bool are_measured_alike(const fb_result_task *a, const fb_result_task *b)
{
    return strcmp(a->metric, b->metric) == 0 && strcmp(a->unit, b->unit) == 0;
}

/* The first task with the measure of `task`: itself, or one before it. */
static int first_alike(const fb_page *page, int task)
{
    const fb_result_task *tasks = page->results->tasks;
    int t = 0;

    while (!are_measured_alike(&tasks[t], &tasks[task]))
        t++;
    return t;
}

/* " (needle, recall)": all tasks with the measure of this one. */
static void measured_tasks(const fb_page *page, int task)
{
    for (int t = task; t < page->results->n_tasks; t++)
        if (first_alike(page, t) == task)
            fb_html(page->out, "%s%s", t == task ? " (" : ", ",
                    page->results->tasks[t].name);
    fb_text_puts(page->out, ")");
}

/* "KL to the full cache, nat"; where tasks differ in that, with their names. */
static void measures(const fb_page *page)
{
    const int n = page->results->n_tasks;
    bool differ = false;

    for (int t = 0; t < n; t++)
        differ = differ || first_alike(page, t) != 0;
    for (int t = 0; t < n; t++) {
        if (first_alike(page, t) != t) continue;
        fb_text_puts(page->out, t == 0 ? "" : "; ");
        fb_html_measure(page->out, &page->results->tasks[t]);
        if (differ) measured_tasks(page, t);
    }
}

static void order(const fb_page *page)
{
    if (page->results->n_tasks < 2 || !fb_page_order_differs(page)) return;
    fb_text_puts(page->out,
                 "<div class=\"keep chart-part\"><h3>Order of the rules at ");
    fb_page_budget(page);
    fb_text_puts(page->out, " kept</h3>\n<p class=\"cap\">Mean ");
    measures(page);
    fb_text_puts(page->out,
                 "; best at the top. Rules of one column that share a letter are not "
                 "distinguishable (all pairs, Holm).</p>\n");
    fb_page_chart(page, "order", 0);
    fb_text_puts(page->out, "</div>\n");
}

/* --- the whole */

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
    const int level = page->number == 1 ? 1 : 2;

    fb_html(page->out, "<section class=\"first wrap\" id=\"e%d-answer\">",
            page->number);
    if (question != NULL && *question != '\0')
        fb_html(page->out, "<p class=\"asked\">%s</p>\n", question);
    if (fb_analysis_is_unfinished(analysis)) {
        fb_text_puts(page->out, "<p class=\"asked\">");
        fb_say_unfinished(page->out, analysis);
        fb_text_puts(page->out, "</p>\n");
    }
    fb_html(page->out, "<h%d class=\"answer\">", level);
    fb_html_prose(page->out, headline, strlen(headline));
    fb_html(page->out, "</h%d>\n", level);
    paragraph(page);
    floors(page);
    badges(page);
    fb_page_figures(page);
    order(page);
    fb_page_close(page);
    budget_bar(page);
}
