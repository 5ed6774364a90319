/* answers.c - one sample: what was asked, the answers side by side, the context.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <math.h>
#include <string.h>

enum {
    MOST_CONTEXT = 6000, /* bytes of a context that are shown: its two ends */
    MOST_ANSWER = 1500,
    MOST_SUMMARY = 160,
};

/* --- cells */

double fb_sample_score(const fb_page *page, int sample, int rule, int budget)
{
    const fb_results *results = page->results;
    const char *metric = results->tasks[results->samples[sample].task].metric;
    double sum = 0, value;
    int n, n_values = 0;
    const fb_result_cell *cells =
        fb_analysis_cells(page->results, sample, rule, budget, &n);

    for (int c = 0; c < n; c++) {
        if (!fb_result_is_done(&cells[c]) ||
            !fb_result_score(&cells[c], metric, &value))
            continue;
        sum += value;
        n_values++;
    }
    return n_values == 0 ? (double)NAN : sum / n_values;
}

bool fb_sample_is_right(const fb_page *page, int sample, int rule, int budget)
{
    int n;
    const fb_result_cell *cells =
        fb_analysis_cells(page->results, sample, rule, budget, &n);

    for (int c = 0; c < n; c++) {
        double value;

        if (!fb_result_is_done(&cells[c])) return false;
        if (!fb_result_score(&cells[c], "em", &value) &&
            !fb_result_score(&cells[c], "em_tf", &value))
            return false;
        if (value < 1) return false;
    }
    return n > 0;
}

int fb_page_digits(const fb_page *page, int task, int budget)
{
    const fb_table *table = fb_analysis_table(page->analysis, task, budget);

    return table == NULL ? 2 : table->digits;
}

/* --- the row */

static const char *trimmed(const char *text)
{
    return text + strspn(text, " \n\t");
}

static void cut_text(fb_text *out, const char *text, size_t most)
{
    const size_t n = strlen(text);
    const size_t shown = fb_utf8_cut(text, n, most);

    fb_html_bytes(out, text, shown);
    if (shown < n) fb_text_puts(out, "\xE2\x80\xA6");
}

/* How many bytes of `answer` are those of `expected`; white space before both may
 * differ. All of them if the answer begins with what was expected. */
static size_t agreement(const char *answer, const char *expected)
{
    const size_t n = strlen(answer);
    size_t same = (size_t)(trimmed(answer) - answer);

    expected = trimmed(expected);
    for (; *expected != '\0' && answer[same] == *expected; expected++)
        same++;
    if (*expected == '\0') return n;
    return fb_utf8_cut(answer, n, same);
}

/* The part that leaves the expected text is underlined. */
static void answer_text(fb_text *out, const char *answer, const char *expected)
{
    const size_t n = strlen(answer);
    const size_t same = expected == NULL ? n : agreement(answer, expected);

    if (same == n || same > MOST_ANSWER) {
        cut_text(out, answer, MOST_ANSWER);
        return;
    }
    fb_html_bytes(out, answer, same);
    fb_text_puts(out, "<mark>");
    cut_text(out, answer + same, MOST_ANSWER - same);
    fb_text_puts(out, "</mark>");
}

static void answer_cell(const fb_page *page, const fb_result_cell *cell,
                        const char *expected)
{
    fb_text_puts(page->out, "<td class=\"l w\">");
    if (!fb_result_is_done(cell)) {
        fb_html(page->out, "%s: %s", cell->status, cell->reason);
    } else if (cell->answer != NULL) {
        fb_text_puts(page->out, "<code>");
        answer_text(page->out, cell->answer, expected);
        fb_text_puts(page->out, "</code>");
    } else {
        fb_text_puts(page->out, "\xE2\x80\x93");
    }
    fb_text_puts(page->out, "</td>");
}

/* One row per rule; of several seeds the first, with the score of them all. */
static void answer_row(const fb_page *page, int sample, int rule, int budget)
{
    const fb_result_sample *s = &page->results->samples[sample];
    int n;
    const fb_result_cell *cell =
        fb_analysis_cells(page->results, sample, rule, budget, &n);

    if (n == 0) return;
    fb_text_puts(page->out, "<tr><th scope=\"row\">");
    fb_html_rule(page, rule);
    fb_text_puts(page->out, "</th>");
    answer_cell(page, cell, s->expected);
    fb_html_cell(page->out, fb_sample_score(page, sample, rule, budget),
                 fb_page_digits(page, s->task, budget));
    fb_text_puts(page->out, "<td>");
    if (cell->full_entries > 0)
        fb_say_percent(page->out,
                       (double)cell->kept_entries / (double)cell->full_entries);
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
            fb_say_metric(results->tasks[results->samples[sample].task].metric));
    for (int i = 0; i < results->n_rules; i++)
        answer_row(page, sample, page->order[i], budget);
    fb_text_puts(page->out, "</tbody></table></div>\n");
}

/* There is something to see: an answer, or the reason why there is none. */
static bool has_answers(const fb_page *page, int sample)
{
    for (int r = 0; r < page->results->n_rules; r++)
        for (int b = 0; b < page->results->n_budgets; b++) {
            int n;
            const fb_result_cell *cell =
                fb_analysis_cells(page->results, sample, r, b, &n);

            if (n > 0 && (cell->answer != NULL || !fb_result_is_done(cell)))
                return true;
        }
    return false;
}

static void context(const fb_page *page, const fb_result_sample *s)
{
    const size_t n = s->context == NULL ? 0 : strlen(s->context);
    const size_t half = MOST_CONTEXT / 2;

    if (n == 0) return;
    fb_text_puts(page->out, "<details><summary>Context, ");
    fb_html_number(page->out, (double)s->context_tokens, 0);
    fb_text_puts(page->out, " tokens</summary><pre>");
    if (n <= MOST_CONTEXT) {
        fb_html_text(page->out, s->context);
    } else {
        const size_t begin = fb_utf8_cut(s->context, n, half);
        const size_t end = fb_utf8_cut(s->context, n, n - half);

        fb_html_bytes(page->out, s->context, begin);
        fb_html(page->out, "</pre><p class=\"cap\">%d %s left out here</p><pre>",
                (int)(end - begin),
                fb_plural((int64_t)(end - begin), "byte is", "bytes are"));
        fb_html_text(page->out, s->context + end);
    }
    fb_text_puts(page->out, "</pre></details>\n");
}

/* What was asked, on one line; of a continuation, the words that come next. */
static void summary(const fb_page *page, int sample)
{
    const fb_result_sample *s = &page->results->samples[sample];
    const bool asks = s->question != NULL && *trimmed(s->question) != '\0';

    if (page->options->no_text || (!asks && s->expected == NULL)) {
        fb_text_puts(page->out, has_answers(page, sample) ? "Answers" : "Context");
        return;
    }
    if (asks) cut_text(page->out, trimmed(s->question), MOST_SUMMARY);
    if (s->expected != NULL) {
        fb_html(page->out, "%s<small>%s</small> <code>", asks ? "\xE2\x80\x82" : "",
                asks ? "expected" : "goes on");
        cut_text(page->out, trimmed(s->expected), MOST_SUMMARY);
        fb_text_puts(page->out, "</code>");
    }
}

void fb_page_answers(const fb_page *page, int sample, int n_columns)
{
    const fb_result_sample *s = &page->results->samples[sample];

    fb_html(page->out,
            "<tr class=\"d\"><td colspan=\"%d\"><div class=\"drill\"><details>"
            "<summary>",
            n_columns);
    summary(page, sample);
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
