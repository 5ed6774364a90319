/* page.c - the skeleton of the page, its content policy, and markup that repeats.
 *
 * page.html has slots in double braces; each is filled by one function below. The
 * policy allows the two scripts by their SHA-256 (Content Security Policy Level 3,
 * 2.3.1 "hash-source": base64 of the digest of the bytes between the tags) and nothing
 * else: no request, no frame, no form, no eval.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"
#include "report/unlike.h"

#include "base/embed.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

FB_EMBED(page_html, "src/report/page.html");
FB_EMBED(page_css, "src/report/page.css");
FB_EMBED(page_js, "src/report/page.js");
FB_EMBED(charts_js, "web/vega.min.js");
FB_EMBED(config_json, "src/report/charts/config.json");
FB_EMBED(order_json, "src/report/charts/order.vl.json");
FB_EMBED(quality_json, "src/report/charts/quality.vl.json");
FB_EMBED(forest_json, "src/report/charts/forest.vl.json");

/* All that the slots are filled from. */
struct job {
    fb_text *out;
    const fb_analysis *const *analyses;
    int n;
    const fb_report_options *options;
};

/* --- markup that repeats */

void fb_page_open(fb_page *page, const char *name, const char *heading)
{
    page->section++;
    fb_html(page->out,
            "<section class=\"wrap\" id=\"e%d-%s\"><h2>%d\xE2\x80\x82%s</h2>\n",
            page->number, name, page->section, heading);
}

void fb_page_close(fb_page *page)
{
    fb_text_puts(page->out, "</section>\n");
}

void fb_page_table_open(const fb_page *page, const char *name, int number)
{
    fb_html(page->out,
            "<div class=\"scroll\"><table class=\"t-%s\" id=\"e%d-t-%s-%d\">\n", name,
            page->number, name, number);
}

void fb_page_table_end(const fb_page *page)
{
    fb_text_puts(page->out, "</table></div>\n");
}

void fb_page_table_copy(const fb_page *page, const char *name, int number)
{
    static const char *const forms[][2] = {{"csv", "Copy as CSV"},
                                           {"markdown", "Copy as Markdown"}};

    fb_text_puts(page->out, "<p class=\"copy js noprint\">");
    for (int i = 0; i < 2; i++)
        fb_html(page->out,
                "<button class=\"plain\" type=\"button\" data-copy=\"%s\" "
                "data-table=\"e%d-t-%s-%d\">%s</button> ",
                forms[i][0], page->number, name, number, forms[i][1]);
    fb_text_puts(page->out, "</p>\n");
}

void fb_page_table_close(const fb_page *page, const char *name, int number)
{
    fb_page_table_end(page);
    fb_page_table_copy(page, name, number);
}

void fb_page_few(const fb_page *page, int task)
{
    int fewest = FB_FEW_DOCUMENTS;

    for (int b = 0; b < page->results->n_budgets; b++) {
        const fb_table *table = fb_analysis_table(page->analysis, task, b);

        if (table != NULL && table->n_documents < fewest) fewest = table->n_documents;
    }
    if (fewest == FB_FEW_DOCUMENTS) return;
    fb_text_puts(page->out, "<p class=\"cap\">");
    fb_say_few(page->out, fewest);
    fb_text_puts(page->out, ".</p>\n");
}

void fb_page_failed(const fb_page *page, int task)
{
    fb_text words = {0};

    for (int i = 0; i < page->analysis->n_failures; i++) {
        const fb_failure *failure = &page->analysis->failures[i];

        if (failure->task != task) continue;
        fb_text_clear(&words);
        fb_say_failure(&words, page->analysis, failure);
        fb_say_clean(&words, 0);
        fb_text_puts(page->out, "<p class=\"cap\">");
        if (failure->budget >= 0) {
            fb_html_budget(page->out, &page->results->budgets[failure->budget]);
            fb_text_puts(page->out, ", ");
        }
        fb_html_text(page->out, fb_text_string(&words));
        fb_text_puts(page->out, "</p>\n");
    }
    page->out->failed |= words.failed;
    fb_text_clear(&words);
}

void fb_page_numbers_open(const fb_page *page)
{
    fb_text_puts(page->out,
                 "<details class=\"numbers\" open><summary>The numbers</summary>\n");
}

void fb_page_chart(const fb_page *page, const char *chart, int task)
{
    fb_html(page->out,
            "<div class=\"chart\" data-chart=\"%s\" data-task=\"%d\"></div>\n", chart,
            task);
}

void fb_page_budget(const fb_page *page)
{
    for (int b = 0; b < page->results->n_budgets; b++) {
        fb_html(page->out, "<span data-budget=\"%d\"%s>", b,
                b == page->budget ? "" : " hidden");
        fb_html_budget(page->out, &page->results->budgets[b]);
        fb_text_puts(page->out, "</span>");
    }
}

void fb_page_kept_cell(const fb_page *page, const fb_table *table, const fb_row *row)
{
    fb_text_puts(page->out, "<td>");
    if (fb_page_is_full(page, row->rule))
        fb_text_puts(page->out, "100\xC2\xA0%");
    else
        fb_html_budget(page->out, &page->results->budgets[table->budget]);
    fb_text_puts(page->out, "</td>");
}

/* --- one experiment */

static void order_rules(fb_page *page)
{
    const int n_rules = page->results->n_rules;
    int n = 0;

    for (int t = 0; t < page->results->n_tasks && n == 0; t++) {
        const fb_table *table = fb_analysis_table(page->analysis, t, page->budget);

        for (int i = 0; table != NULL && i < table->n_rows; i++)
            page->order[n++] = table->rows[i].rule;
    }
    for (int r = 0; r < n_rules; r++) {
        int i = 0;

        while (i < n && page->order[i] != r)
            i++;
        if (i == n) page->order[n++] = r;
    }
}

/* False when there is no memory. */
static bool page_init(fb_page *page, const struct job *job, int i)
{
    const fb_results *results = job->analyses[i]->results;

    *page = (fb_page){.out = job->out,
                      .analysis = job->analyses[i],
                      .results = results,
                      .options = job->options,
                      .number = i + 1};
    page->order = fb_alloc(FB_ACCOUNT_other, (size_t)results->n_rules * sizeof(int));
    if (page->order == NULL) {
        job->out->failed = true;
        return false;
    }
    page->budget = fb_analysis_smallest_budget(page->analysis);
    if (page->budget < 0 && results->n_budgets > 0) page->budget = 0;
    order_rules(page);
    return true;
}

/* Where there are several parts, also which one this is and how to get to the others. */
static void masthead(const fb_page *page, int n_parts)
{
    const fb_results *results = page->results;

    fb_html(page->out,
            "<div class=\"top wrap\"><span><b>FlexBudget</b> report \xC2\xB7 %s",
            results->name);
    if (n_parts > 1)
        fb_html(page->out, " \xC2\xB7 part %d of %d", page->number, n_parts);
    fb_text_puts(page->out, "</span><span>");
    fb_html_date(page->out, results->created);
    fb_html(page->out, " \xC2\xB7 <a href=\"#e%d-all\">all numbers</a>", page->number);
    if (page->number < n_parts)
        fb_html(page->out, " \xC2\xB7 <a href=\"#e%d\">part %d</a>", page->number + 1,
                page->number + 1);
    if (page->options->across != NULL)
        fb_text_puts(page->out, " \xC2\xB7 <a href=\"#across\">across backends</a>");
    fb_text_puts(page->out, "</span></div>\n");
}

/* What keeps the numbers of this part apart from those of the first. */
static void unlike(const fb_page *page, const fb_results *first)
{
    fb_text words = {0};

    if (fb_say_unlike(&words, first, page->results))
        fb_html(
            page->out,
            "<p class=\"cap wrap\"><b>Not to be compared number by number with part "
            "1</b>: part 1 and this one differ in %s.</p>\n",
            fb_text_string(&words));
    fb_text_clear(&words);
}

static void experiment(const struct job *job, int i)
{
    fb_page page;

    if (!page_init(&page, job, i)) return;
    fb_html(page.out, "<article data-experiment=\"%d\" id=\"e%d\">\n", i, i + 1);
    masthead(&page, job->n);
    if (i > 0) unlike(&page, job->analyses[0]->results);
    fb_page_answer(&page);
    fb_page_quality(&page);
    fb_page_differences(&page);
    fb_page_apart(&page);
    fb_page_tasks(&page);
    fb_page_samples(&page);
    fb_page_memory(&page);
    fb_page_trust(&page);
    fb_page_everything(&page);
    fb_text_puts(page.out, "</article>\n");
    fb_free(page.order);
}

/* --- the slots of page.html */

static void base64(fb_text *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t bits = (uint32_t)bytes[i] << 16 |
                              (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        const char quad[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                              left > 1 ? digits[bits >> 6 & 63] : '=',
                              left > 2 ? digits[bits & 63] : '='};

        fb_text_add(out, quad, sizeof quad);
    }
}

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void script_hash(fb_text *out, const unsigned char *begin,
                        const unsigned char *end)
{
    char hex[FB_HASH_HEX];
    uint8_t digest[32];

    fb_hash_bytes(begin, (size_t)(end - begin), hex);
    for (int i = 0; i < 32; i++)
        digest[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    fb_text_puts(out, " 'sha256-");
    base64(out, digest, sizeof digest);
    fb_text_puts(out, "'");
}

static void embedded(fb_text *out, const unsigned char *begin, const unsigned char *end)
{
    fb_text_add(out, (const char *)begin, (size_t)(end - begin));
}

static void fill_policy(const struct job *job)
{
    fb_text_puts(job->out,
                 "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
                 "base-uri 'none'; form-action 'none'; script-src");
    script_hash(job->out, charts_js, charts_js_end);
    script_hash(job->out, page_js, page_js_end);
}

static void fill_title(const struct job *job)
{
    const char *name = job->options->title != NULL ? job->options->title
                                                   : job->analyses[0]->results->name;

    fb_html(job->out, "%s \xC2\xB7 FlexBudget", name);
}

static void fill_style(const struct job *job)
{
    embedded(job->out, page_css, page_css_end);
}

static void fill_body(const struct job *job)
{
    for (int i = 0; i < job->n; i++)
        experiment(job, i);
    if (job->options->across != NULL) fb_page_across(job->out, job->options->across);
}

static void charts_data(fb_text *out)
{
    fb_text_puts(out, "{\"config\":");
    embedded(out, config_json, config_json_end);
    fb_text_puts(out, ",\"charts\":{\"order\":");
    embedded(out, order_json, order_json_end);
    fb_text_puts(out, ",\"quality\":");
    embedded(out, quality_json, quality_json_end);
    fb_text_puts(out, ",\"forest\":");
    embedded(out, forest_json, forest_json_end);
    fb_text_puts(out, "},\n");
}

static void fill_data(const struct job *job)
{
    fb_text json = {0};
    const struct job to_json = {&json, job->analyses, job->n, job->options};

    charts_data(&json);
    fb_text_puts(&json, "\"experiments\":[");
    for (int i = 0; i < job->n; i++) {
        fb_page page;

        fb_text_puts(&json, i == 0 ? "" : ",\n");
        if (!page_init(&page, &to_json, i)) break;
        fb_page_data(&page);
        fb_free(page.order);
    }
    fb_text_puts(&json, "]}");
    fb_html_json(job->out, fb_text_string(&json), json.n);
    job->out->failed |= json.failed;
    fb_text_clear(&json);
}

static void fill_charts(const struct job *job)
{
    embedded(job->out, charts_js, charts_js_end);
}

static void fill_script(const struct job *job)
{
    embedded(job->out, page_js, page_js_end);
}

static const struct slot {
    const char *name;
    void (*fill)(const struct job *job);
} slots[] = {
    {"{{policy}}", fill_policy}, {"{{title}}", fill_title}, {"{{style}}", fill_style},
    {"{{body}}", fill_body},     {"{{data}}", fill_data},   {"{{charts}}", fill_charts},
    {"{{script}}", fill_script},
};
enum { N_SLOTS = (int)(sizeof slots / sizeof *slots) };

static void fill(const struct job *job)
{
    const char *at = (const char *)page_html;
    const char *next;

    for (; (next = strstr(at, "{{")) != NULL; at = strstr(next, "}}") + 2) {
        fb_text_add(job->out, at, (size_t)(next - at));
        for (int i = 0; i < N_SLOTS; i++)
            if (strncmp(next, slots[i].name, strlen(slots[i].name)) == 0)
                slots[i].fill(job);
    }
    fb_text_puts(job->out, at);
}

/* --- front doors */

fb_status fb_report_html(char **out, const fb_analysis *const *analyses, int n,
                         const fb_report_options *options)
{
    static const fb_report_options usual = {.samples = FB_REPORT_SAMPLES};
    fb_text text;
    const struct job job = {&text, analyses, n, options == NULL ? &usual : options};
    fb_status status;

    *out = NULL;
    if (n < 1) return fb_fail(FB_USAGE, "a report needs at least one experiment");
    fb_text_init(&text, 0);
    fill(&job);
    status = fb_text_status(&text);
    if (status == FB_OK)
        *out = text.bytes; /* now the caller's */
    else
        fb_text_clear(&text);
    return fb_context(status, "writing the report page");
}

fb_status fb_report_write(const char *path, const fb_analysis *const *analyses, int n,
                          const fb_report_options *options)
{
    char *html;
    fb_status status = fb_report_html(&html, analyses, n, options);

    if (status == FB_OK) status = fb_file_write(path, html, strlen(html));
    fb_free(html);
    return status == FB_OK ? FB_OK : fb_context(status, "report '%s'", path);
}
