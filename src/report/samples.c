/* samples.c - the samples on which the rules differ most, with their answers.
 *
 * Two rows per sample: its scores, and a row that opens in place. Every budget is in
 * the page; the script shows the chosen one, without it the first one shows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CONTEXT = 6000, /* bytes of a context that are shown: its two ends */
    MOST_ANSWER = 1500,
    MOST_SUMMARY = 160,
};

/* --- cells */

/* The first cell (lowest seed) of a place, or NULL. */
static const fb_result_cell *cell_of(const fb_page *page, int sample, int rule,
                                     int budget)
{
    const fb_results *results = page->results;
    int low = 0, high = results->n_cells;

    if (fb_page_is_full(page, rule)) budget = -1;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const fb_result_cell *c = &results->cells[middle];
        const bool before = c->sample != sample ? c->sample < sample
                            : c->rule != rule   ? c->rule < rule
                                                : c->budget < budget;

        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == results->n_cells) return NULL;
    if (results->cells[low].sample != sample || results->cells[low].rule != rule ||
        results->cells[low].budget != budget)
        return NULL;
    return &results->cells[low];
}

static bool is_done(const fb_result_cell *cell)
{
    return cell->status == NULL || strcmp(cell->status, "done") == 0;
}

/* The task's measure of a place, averaged over its seeds; NAN if there is none. */
static double score_of(const fb_page *page, int sample, int rule, int budget)
{
    const fb_results *results = page->results;
    const char *metric = results->tasks[results->samples[sample].task].metric;
    const fb_result_cell *first = cell_of(page, sample, rule, budget);
    const fb_result_cell *end = results->cells + results->n_cells;
    double sum = 0, value;
    int n = 0;

    for (const fb_result_cell *c = first; c != NULL && c < end; c++) {
        if (c->sample != sample || c->rule != rule || c->budget != first->budget) break;
        if (!is_done(c) || !fb_result_score(c, metric, &value)) continue;
        sum += value;
        n++;
    }
    return n == 0 ? (double)NAN : sum / n;
}

/* Every token of the expected answer came out; in all seeds, if there are several. */
static bool is_right(const fb_page *page, int sample, int rule, int budget)
{
    const fb_result_cell *cell = cell_of(page, sample, rule, budget);
    double value;

    if (cell == NULL || !is_done(cell)) return false;
    return (fb_result_score(cell, "em", &value) ||
            fb_result_score(cell, "em_tf", &value)) &&
           value >= 1;
}

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
                                 ? score_of(page, sample, r, page->budget)
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
    return !fb_page_is_full(page, rule) || metric == NULL || strcmp(metric, "kl") != 0;
}

static int n_columns(const fb_page *page, int task)
{
    int n = 3;

    for (int r = 0; r < page->results->n_rules; r++)
        n += has_column(page, task, r);
    return n;
}

static void head(const fb_page *page, int task)
{
    fb_text_puts(page->out,
                 "<thead><tr><th scope=\"col\">sample</th>"
                 "<th scope=\"col\">depth</th><th scope=\"col\">tokens</th>");
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
    fb_text_puts(page->out, "<td>");
    for (int b = 0; b < page->results->n_budgets; b++) {
        const bool right = is_right(page, sample, rule, b);
        const double score = score_of(page, sample, rule, b);

        fb_text_printf(page->out, "<span data-budget=\"%d\"%s%s", b,
                       right ? " class=\"ok\"" : "",
                       b == page->budget ? "" : " hidden");
        if (isfinite(score)) {
            fb_text_puts(page->out, " data-v=\"");
            fb_text_add_real(page->out, score);
            fb_text_puts(page->out, "\"");
        }
        fb_text_puts(page->out, right ? ">\xE2\x9C\x93\xC2\xA0" : ">");
        fb_html_number(page->out, score, fb_page_digits(page, task), 0);
        fb_text_puts(page->out, "</span>");
    }
    fb_text_puts(page->out, "</td>");
}

static void score_row(const fb_page *page, int task, int sample)
{
    const fb_result_sample *s = &page->results->samples[sample];

    fb_html(page->out, "<tr class=\"s\"><th scope=\"row\">%s</th><td>", s->key);
    if (s->depth >= 0) {
        fb_html_number(page->out, 100 * s->depth, 0, 0);
        fb_text_puts(page->out, "\xC2\xA0%");
    }
    fb_text_puts(page->out, "</td>");
    fb_html_cell(page->out, (double)s->context_tokens, 0, 0);
    for (int i = 0; i < page->results->n_rules; i++)
        if (has_column(page, task, page->order[i]))
            score_cell(page, task, sample, page->order[i]);
    fb_text_puts(page->out, "</tr>\n");
}

/* --- the row that opens */

static void cut_text(fb_text *out, const char *text, size_t most)
{
    const size_t n = strlen(text);
    const size_t shown = fb_utf8_cut(text, n, most);

    fb_html_bytes(out, text, shown);
    if (shown < n) fb_text_puts(out, "\xE2\x80\xA6");
}

/* The part that leaves the expected text is underlined. */
static void answer_text(fb_text *out, const char *answer, const char *expected)
{
    size_t same = 0;

    if (expected == NULL || strncmp(answer, expected, strlen(expected)) == 0) {
        cut_text(out, answer, MOST_ANSWER);
        return;
    }
    while (answer[same] != '\0' && answer[same] == expected[same])
        same++;
    same = fb_utf8_cut(answer, strlen(answer), same);
    if (same > MOST_ANSWER) same = 0;
    fb_html_bytes(out, answer, same);
    fb_text_puts(out, "<mark>");
    cut_text(out, answer + same, MOST_ANSWER - same);
    fb_text_puts(out, "</mark>");
}

static void answer_row(const fb_page *page, int sample, int rule, int budget)
{
    const fb_result_sample *s = &page->results->samples[sample];
    const fb_result_cell *cell = cell_of(page, sample, rule, budget);

    if (cell == NULL) return;
    fb_text_puts(page->out, "<tr><th scope=\"row\">");
    fb_html_rule(page, rule);
    fb_text_puts(page->out, "</th><td class=\"l w\">");
    if (!is_done(cell))
        fb_html(page->out, "%s: %s", cell->status, cell->reason);
    else if (cell->answer != NULL) {
        fb_text_puts(page->out, "<code>");
        answer_text(page->out, cell->answer, s->expected);
        fb_text_puts(page->out, "</code>");
    }
    fb_text_puts(page->out, "</td>");
    fb_html_cell(page->out, score_of(page, sample, rule, budget),
                 fb_page_digits(page, s->task), 0);
    fb_text_puts(page->out, "<td>");
    if (cell->full_entries > 0) {
        fb_html_number(page->out,
                       100.0 * (double)cell->kept_entries / (double)cell->full_entries,
                       1, 0);
        fb_text_puts(page->out, "\xC2\xA0%");
    }
    fb_text_puts(page->out, "</td></tr>\n");
}

static void answers(const fb_page *page, int sample, int budget)
{
    const fb_results *results = page->results;

    fb_html(page->out,
            "<div class=\"answers\" data-budget=\"%d\"><table><thead><tr>"
            "<th scope=\"col\">at ",
            budget);
    fb_html_budget(page->out, &results->budgets[budget]);
    fb_html(page->out,
            "</th><th scope=\"col\" class=\"l\">answer</th><th scope=\"col\">%s</th>"
            "<th scope=\"col\">entries kept</th></tr></thead><tbody>\n",
            results->tasks[results->samples[sample].task].metric);
    for (int i = 0; i < results->n_rules; i++)
        answer_row(page, sample, page->order[i], budget);
    fb_text_puts(page->out, "</tbody></table></div>\n");
}

static bool has_answers(const fb_page *page, int sample)
{
    const fb_results *results = page->results;

    for (int i = 0; i < results->n_cells; i++) {
        const fb_result_cell *c = &results->cells[i];

        if (c->sample == sample && (c->answer != NULL || !is_done(c))) return true;
    }
    return false;
}

static void context(const fb_page *page, const fb_result_sample *s)
{
    const size_t n = s->context == NULL ? 0 : strlen(s->context);
    const size_t half = MOST_CONTEXT / 2;

    if (n == 0) return;
    fb_text_puts(page->out, "<details><summary>Context, ");
    fb_html_number(page->out, (double)s->context_tokens, 0, 0);
    fb_text_puts(page->out, " tokens</summary><pre>");
    if (n <= MOST_CONTEXT) {
        fb_html_text(page->out, s->context);
    } else {
        const size_t begin = fb_utf8_cut(s->context, n, half);
        const size_t end = fb_utf8_cut(s->context, n, n - half);

        fb_html_bytes(page->out, s->context, begin);
        fb_html(page->out, "</pre><p class=\"cap\">%d bytes are left out here</p><pre>",
                (int)(end - begin));
        fb_html_text(page->out, s->context + end);
    }
    fb_text_puts(page->out, "</pre></details>\n");
}

/* What was asked, on one line; of a continuation, the words that come next. */
static void summary(const fb_page *page, const fb_result_sample *s)
{
    const bool asks =
        s->question != NULL && strspn(s->question, " \n\t") < strlen(s->question);

    if (page->options->no_text || (!asks && s->expected == NULL)) {
        fb_text_puts(page->out, "Answers");
        return;
    }
    if (asks) cut_text(page->out, s->question, MOST_SUMMARY);
    if (s->expected != NULL) {
        fb_html(page->out, " <small>%s</small> <code>", asks ? "expected" : "goes on");
        cut_text(page->out, s->expected, MOST_SUMMARY);
        fb_text_puts(page->out, "</code>");
    }
}

static void detail_row(const fb_page *page, int task, int sample)
{
    const fb_result_sample *s = &page->results->samples[sample];

    fb_html(page->out,
            "<tr class=\"d\"><td colspan=\"%d\"><div class=\"drill\"><details>"
            "<summary>",
            n_columns(page, task));
    summary(page, s);
    fb_text_puts(page->out, "</summary>\n");
    if (!page->options->no_text && has_answers(page, sample))
        for (int b = 0; b < page->results->n_budgets; b++)
            answers(page, sample, b);
    else
        fb_text_puts(page->out,
                     "<p class=\"cap\">No free answers are stored: the score "
                     "is that of the expected text.</p>\n");
    if (!page->options->no_text) context(page, s);
    fb_text_puts(page->out, "</details></div></td></tr>\n");
}

/* --- the section */

static void samples_of(const fb_page *page, int task, struct candidate *list)
{
    const int n = rank(page, task, list);
    const int limit = page->options->samples;
    const int shown = limit > 0 && limit < n ? limit : n;

    if (n == 0) return;
    fb_page_table_open(page, "samples", task);
    fb_html(page->out, "<caption><b>%s</b>: %s%s at ", page->results->tasks[task].name,
            fb_metric_words(page->results->tasks[task].metric),
            page->results->tasks[task].lower_is_better ? ", lower is better" : "");
    fb_page_budget(page);
    fb_html(page->out, "; %d of %d samples</caption>\n", shown, n);
    head(page, task);
    for (int i = 0; i < shown; i++) {
        fb_text_puts(page->out, "<tbody>\n");
        score_row(page, task, list[i].sample);
        detail_row(page, task, list[i].sample);
        fb_text_puts(page->out, "</tbody>\n");
    }
    fb_page_table_close(page, "samples", task);
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
    for (int t = 0; t < page->results->n_tasks; t++)
        samples_of(page, t, list);
    fb_page_close(page);
    fb_free(list);
}
