/* analysis_paragraph.c - the numbers behind the headline.
 *
 * Each task at the smallest budget with difference, interval and p; then where this
 * does not hold at the other budgets; then how it was measured, and what could not have
 * been seen.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_story.h"

#include <string.h>

enum { MOST_NAMED = 4 };

static int rows_of(const fb_table *table, fb_verdict verdict, int out[FB_MOST_LEADERS])
{
    int n = 0;

    for (int r = 0; r < table->n_rows && n < FB_MOST_LEADERS; r++)
        if (table->rows[r].verdict == verdict) out[n++] = r;
    return n;
}

/* "keydiff (KL −1.68 nat, −1.96 to −1.37, p <0.001) and 3 more" */
static void say_rows_with_numbers(const fb_story *story, const fb_table *table,
                                  const int *rows, int n)
{
    const int n_named = n > MOST_NAMED + 1 ? MOST_NAMED : n;

    for (int i = 0; i < n_named; i++) {
        const fb_row *row = &table->rows[rows[i]];

        if (i > 0) fb_text_puts(story->text, i == n - 1 ? " and " : ", ");
        fb_text_printf(story->text, "%s (", fb_story_label(story, row->rule));
        fb_story_difference(story, table, row);
        fb_text_puts(story->text, ", ");
        fb_say_interval(story->text, row->difference_interval, table->digits, false);
        fb_text_puts(story->text, row->p_holm < 0.001 ? ", p < 0.001" : ", p = ");
        if (row->p_holm >= 0.001) fb_say_p(story->text, row->p_holm);
        fb_text_puts(story->text, ")");
    }
    if (n_named < n) fb_text_printf(story->text, " and %d more", n - n_named);
}

/* "On needle keydiff (...) beats random; knorm (...) loses to it; h2o is not
 * distinguishable from it." The first table says at which budget that is. */
static void say_table(const fb_story *story, const fb_table *table)
{
    int better[FB_MOST_LEADERS], worse[FB_MOST_LEADERS], open[FB_MOST_LEADERS];
    const int n_better = rows_of(table, FB_VERDICT_better, better);
    const int n_worse = rows_of(table, FB_VERDICT_worse, worse);
    const int n_open = rows_of(table, FB_VERDICT_open, open);

    fb_text_printf(story->text, "On %s", fb_story_task(story, table));
    if (table == story->tables[0]) fb_story_budget(story, " at");
    fb_text_puts(story->text, ", ");
    if (n_better > 0) {
        say_rows_with_numbers(story, table, better, n_better);
        fb_text_printf(story->text, " %s %s", n_better == 1 ? "beats" : "beat",
                       story->baseline);
    } else {
        fb_text_printf(story->text,
                       n_worse + n_open > 0 ? "no rule beats %s"
                                            : "no rule was tested against %s",
                       story->baseline);
    }
    if (n_worse > 0) {
        fb_text_puts(story->text, "; ");
        say_rows_with_numbers(story, table, worse, n_worse);
        fb_text_puts(story->text, n_worse == 1 ? " loses to it" : " lose to it");
    }
    if (n_open > 0) {
        fb_text_puts(story->text, "; ");
        fb_story_rows(story, table, open, n_open);
        fb_text_printf(story->text, " %s not distinguishable from it",
                       n_open == 1 ? "is" : "are");
    }
    fb_text_puts(story->text, ". ");
}

static bool have_equal_leaders(const fb_table *a, const fb_table *b)
{
    int x[FB_MOST_LEADERS], y[FB_MOST_LEADERS];
    const int n = fb_analysis_leaders(a, x);

    if (fb_analysis_leaders(b, y) != n) return false;
    for (int i = 0; i < n; i++) {
        bool is_there = false;

        for (int j = 0; j < n; j++)
            is_there = is_there || a->rows[x[i]].rule == b->rows[y[j]].rule;
        if (!is_there) return false;
    }
    return true;
}

/* Tested rules that did something else at the small budget and now do as `verdict`
 * says. */
static void say_changes(const fb_story *story, const fb_table *small,
                        const fb_table *other, fb_verdict verdict)
{
    int rules[FB_MOST_LEADERS], n = 0;

    for (int r = 0; r < small->n_rows && n < FB_MOST_LEADERS; r++) {
        const fb_row *before = &small->rows[r];
        const fb_row *after = fb_analysis_row(other, before->rule);

        if (before->verdict != FB_VERDICT_reference && before->verdict != verdict &&
            after != NULL && after->verdict == verdict)
            rules[n++] = before->rule;
    }
    if (n == 0) return;
    fb_text_puts(story->text, ", ");
    fb_story_rules(story, rules, n);
    if (verdict == FB_VERDICT_worse)
        fb_text_puts(story->text, n == 1 ? " loses to " : " lose to ");
    else
        fb_text_printf(story->text, " %s not distinguishable from ",
                       n == 1 ? "is" : "are");
    fb_text_puts(story->text, story->baseline);
}

/* Every verdict is the same, and so are the leaders. */
static bool holds_too(const fb_table *small, const fb_table *other)
{
    if (!have_equal_leaders(small, other)) return false;
    for (int r = 0; r < small->n_rows; r++) {
        const fb_row *after = fb_analysis_row(other, small->rows[r].rule);

        if (after == NULL || after->verdict != small->rows[r].verdict) return false;
    }
    return true;
}

/* "At 50 % of the cache keydiff still leads on needle; snapkv leads on continuation,
 * keydiff is not distinguishable from random." */
static void say_other_budget(const fb_story *story, int budget)
{
    fb_story other = *story;
    bool all_hold = true;
    int n = 0;

    fb_story_choose(&other, budget);
    for (int t = 0; t < story->n_tables; t++) {
        const fb_table *table =
            fb_analysis_table(story->analysis, story->tables[t]->task, budget);

        all_hold = all_hold && table != NULL && holds_too(story->tables[t], table);
    }
    if (other.n_tables == 0) return;
    fb_story_budget(&other, "At");
    fb_text_puts(story->text, all_hold ? " the same holds" : " ");
    for (int t = 0; t < story->n_tables && !all_hold; t++) {
        const fb_table *small = story->tables[t];
        const fb_table *table = fb_analysis_table(story->analysis, small->task, budget);

        if (table == NULL || table->baseline < 0) continue;
        if (n++ > 0) fb_text_puts(story->text, "; ");
        fb_story_leaders(story, table,
                         have_equal_leaders(small, table) ? "still " : "");
        say_changes(story, small, table, FB_VERDICT_worse);
        say_changes(story, small, table, FB_VERDICT_open);
    }
    fb_text_puts(story->text, ". ");
}

/* --- how it was measured --- */

/* "prefill.agnostic.original" in words; an unknown protocol as it is. */
static void say_protocol(const fb_story *story)
{
    const char *protocol = story->results->protocol;

    if (protocol == NULL) return;
    fb_text_puts(story->text, ", ");
    fb_say_protocol(story->text, protocol);
}

static double mean_tokens(const fb_story *story, const fb_table *table)
{
    int64_t tokens = 0;

    for (int s = 0; s < table->n_samples; s++)
        tokens += story->results->samples[table->samples[s]].context_tokens;
    return (double)tokens / table->n_samples;
}

static int count_tested(const fb_table *table)
{
    int n = 0;

    for (int r = 0; r < table->n_rows; r++)
        n += table->rows[r].verdict != FB_VERDICT_reference;
    return n;
}

static void say_measured(const fb_story *story)
{
    const fb_table *table = story->tables[0];

    fb_text_printf(story->text, "Measured on %s: ",
                   story->results->model.name[0] != 0 ? story->results->model.name
                                                      : "an unknown model");
    fb_say_count(story->text, table->n_documents, "document");
    fb_text_puts(story->text, " of about ");
    fb_say_number(story->text, mean_tokens(story, table), 0);
    fb_text_puts(story->text, " tokens");
    say_protocol(story);
    fb_text_puts(story->text, "; sign flips of whole documents, Holm over ");
    fb_say_count(story->text, count_tested(table), "rule");
    fb_text_puts(story->text, " of a table; ");
    fb_story_smallest(story);
    fb_text_puts(story->text, ".");
}

static void say_apart(const fb_story *story)
{
    const size_t before = story->text->n;

    fb_say_apart(story->text, story->analysis, story->tables, story->n_tables);
    if (story->text->n > before) fb_text_puts(story->text, ". ");
}

void fb_story_paragraph(const fb_story *story)
{
    if (story->n_tables == 0) return;
    for (int t = 0; t < story->n_tables; t++)
        say_table(story, story->tables[t]);
    for (int b = 0; b < story->results->n_budgets; b++)
        if (b != story->budget) say_other_budget(story, b);
    say_apart(story);
    say_measured(story);
}
