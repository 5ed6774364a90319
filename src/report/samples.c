/* samples.c - the samples on which the rules differ most.
 *
 * Two rows per sample: its scores, and one that opens in place (answers.c). Every
 * budget is in the page; the script shows the chosen one, without it the first shows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- which samples */

struct candidate {
    int sample;
    double spread; /* largest minus smallest score of the compared rules; -1: none */
};

static int by_spread(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->spread != y->spread) return x->spread < y->spread ? 1 : -1;
    return x->sample < y->sample ? -1 : 1;
}

static double spread_of(const fb_page *page, int sample)
{
    double low = HUGE_VAL, high = -HUGE_VAL;

    for (int r = 0; r < page->results->n_rules; r++) {
        const double score = fb_page_is_compared(page, r)
                                 ? fb_sample_score(page, sample, r, page->budget)
                                 : (double)NAN;

        if (!isfinite(score)) continue;
        low = fmin(low, score);
        high = fmax(high, score);
    }
    return low <= high ? high - low : -1;
}

/* The samples of a task, largest disagreement first, into `out`; how many. */
static int rank(const fb_page *page, int task, struct candidate *out)
{
    int n = 0;

    for (int s = 0; s < page->results->n_samples; s++)
        if (page->results->samples[s].task == task)
            out[n++] = (struct candidate){s, spread_of(page, s)};
    if (n > 1) qsort(out, (size_t)n, sizeof *out, by_spread);
    return n;
}

/* --- the row of scores */

static bool has_column(const fb_page *page, int task, int rule)
{
    const char *metric = page->results->tasks[task].metric;

    /* The distance of the full cache from itself says nothing. */
    return !fb_page_is_full(page, rule) || strcmp(metric, "kl") != 0;
}

static bool has_depth(const fb_page *page, int task)
{
    for (int s = 0; s < page->results->n_samples; s++)
        if (page->results->samples[s].task == task &&
            page->results->samples[s].depth >= 0)
            return true;
    return false;
}

static int n_columns(const fb_page *page, int task)
{
    int n = 2 + has_depth(page, task);

    for (int r = 0; r < page->results->n_rules; r++)
        n += has_column(page, task, r);
    return n;
}

static void head(const fb_page *page, int task)
{
    fb_text_puts(page->out, "<thead><tr><th scope=\"col\">sample</th>");
    if (has_depth(page, task)) fb_text_puts(page->out, "<th scope=\"col\">depth</th>");
    fb_text_puts(page->out, "<th scope=\"col\">tokens</th>");
    for (int i = 0; i < page->results->n_rules; i++) {
        if (!has_column(page, task, page->order[i])) continue;
        fb_text_puts(page->out, "<th scope=\"col\">");
        fb_html_rule(page, page->order[i]);
        fb_text_puts(page->out, "</th>");
    }
    fb_text_puts(page->out, "</tr></thead>\n");
}

static void score_cell(const fb_page *page, int task, int sample, int rule)
{
    fb_html(page->out, "<td data-rule=\"%d\">", rule);
    for (int b = 0; b < page->results->n_budgets; b++) {
        const bool right = fb_sample_is_right(page, sample, rule, b);
        const double score = fb_sample_score(page, sample, rule, b);

        fb_text_printf(page->out, "<span data-budget=\"%d\"%s%s", b,
                       right ? " class=\"ok\"" : "",
                       b == page->budget ? "" : " hidden");
        if (isfinite(score)) {
            fb_text_puts(page->out, " data-v=\"");
            fb_text_add_real(page->out, score);
            fb_text_puts(page->out, "\"");
        }
        fb_text_puts(page->out, right ? ">\xE2\x9C\x93\xC2\xA0" : ">");
        fb_html_number(page->out, score, fb_page_digits(page, task, b));
        fb_text_puts(page->out, "</span>");
    }
    fb_text_puts(page->out, "</td>");
}

static void score_row(const fb_page *page, int task, int sample)
{
    const fb_result_sample *s = &page->results->samples[sample];

    fb_html(page->out, "<tr class=\"s\"><th scope=\"row\">%s</th>", s->key);
    if (has_depth(page, task)) {
        fb_text_puts(page->out, "<td>");
        if (s->depth >= 0) {
            fb_html_number(page->out, 100 * s->depth, 0);
            fb_text_puts(page->out, "\xC2\xA0%");
        }
        fb_text_puts(page->out, "</td>");
    }
    fb_html_cell(page->out, (double)s->context_tokens, 0);
    for (int i = 0; i < page->results->n_rules; i++)
        if (has_column(page, task, page->order[i]))
            score_cell(page, task, sample, page->order[i]);
    fb_text_puts(page->out, "</tr>\n");
}

/* --- the section */

static void samples_of(const fb_page *page, int task, struct candidate *list)
{
    const int n = rank(page, task, list);
    const int limit = page->options->samples;
    const int shown = limit > 0 && limit < n ? limit : n;

    if (n == 0) return;
    fb_page_table_open(page, "samples", task);
    fb_html(page->out, "<caption><b>%s</b>: ", page->results->tasks[task].name);
    fb_html_measure(page->out, &page->results->tasks[task]);
    fb_text_puts(page->out, ", at ");
    fb_page_budget(page);
    fb_html(page->out, ", %s is better; %d of %d %s</caption>\n",
            page->results->tasks[task].lower_is_better ? "lower" : "higher", shown, n,
            fb_plural(n, "sample", "samples"));
    head(page, task);
    for (int i = 0; i < shown; i++) {
        fb_text_puts(page->out, "<tbody>\n");
        score_row(page, task, list[i].sample);
        fb_page_answers(page, list[i].sample, n_columns(page, task));
        fb_text_puts(page->out, "</tbody>\n");
    }
    fb_page_table_close(page, "samples", task);
}

static void choice(const fb_page *page, const char *name)
{
    fb_html(page->out,
            "<label>%s <select data-filter=\"%s\"><option value=\"\">any</option>",
            name, name);
    for (int i = 0; i < page->results->n_rules; i++)
        fb_html(page->out, "<option value=\"%d\">%s</option>", page->order[i],
                page->results->rules[page->order[i]].label);
    fb_text_puts(page->out, "</select></label> ");
}

/* "Show where snapkv is right and knorm is wrong", where there are many to look at. */
static void filter(const fb_page *page)
{
    const int limit = page->options->samples;

    if (limit > 0 && limit <= FB_REPORT_SAMPLES) return;
    fb_text_puts(page->out, "<p class=\"filter js noprint\">Show samples: ");
    choice(page, "right");
    fb_text_puts(page->out, "and ");
    choice(page, "wrong");
    fb_text_puts(page->out, "<small aria-live=\"polite\"></small></p>\n");
}

void fb_page_samples(fb_page *page)
{
    const size_t n = (size_t)page->results->n_samples;
    struct candidate *list;

    if (n == 0 || page->budget < 0) return;
    list = fb_alloc(FB_ACCOUNT_other, n * sizeof *list);
    if (list == NULL) {
        page->out->failed = true;
        return;
    }
    fb_page_open(page, "samples", "Samples");
    fb_text_puts(
        page->out,
        "<p>The samples on which the rules differ most; \xE2\x9C\x93 marks those "
        "where every token of the expected answer came out.");
    fb_text_puts(page->out,
                 " Open a line for the answers side by side; underlined: "
                 "where an answer leaves the expected text. <span class=\"js\">"
                 "Keys <kbd>j</kbd> and <kbd>k</kbd> move.</span></p>\n");
    filter(page);
    for (int t = 0; t < page->results->n_tasks; t++)
        samples_of(page, t, list);
    fb_page_close(page);
    fb_free(list);
}
