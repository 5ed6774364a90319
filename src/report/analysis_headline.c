/* analysis_headline.c - one sentence that can be repeated, by kind of finding.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_story.h"

static void say_tasks(const fb_story *story)
{
    const char *names[FB_MOST_TASKS];

    for (int t = 0; t < story->n_tables; t++)
        names[t] = fb_story_task(story, story->tables[t]);
    fb_say_list(story->text, names, story->n_tables);
}

/* ", on needle not distinguishable from y": other leaders of a task. */
static void say_company(const fb_story *story, int rule)
{
    for (int t = 0; t < story->n_tables; t++) {
        const fb_table *table = story->tables[t];
        int rows[FB_MOST_LEADERS], n_others = 0;
        const int n = fb_analysis_leaders(table, rows);

        for (int i = 0; i < n; i++)
            if (table->rows[rows[i]].rule != rule) rows[n_others++] = rows[i];
        if (n_others == 0) continue;
        fb_text_printf(story->text, ", on %s not distinguishable from ",
                       fb_story_task(story, table));
        fb_story_rows(story, table, rows, n_others);
    }
}

static bool leads_alone(const fb_story *story)
{
    int rows[FB_MOST_LEADERS];

    for (int t = 0; t < story->n_tables; t++)
        if (fb_analysis_leaders(story->tables[t], rows) > 1) return false;
    return true;
}

static void say_winner(const fb_story *story, const fb_finding *finding)
{
    const fb_table *table = story->tables[0];
    const fb_row *row = fb_analysis_row(table, finding->rules[0]);

    fb_text_printf(story->text, "%s %s", fb_story_label(story, finding->rules[0]),
                   leads_alone(story) ? "keeps most" : "leads");
    if (story->n_tables > 1) {
        fb_text_puts(story->text, " on ");
        say_tasks(story);
        fb_text_puts(story->text, " ");
    } else {
        fb_text_puts(story->text, ": ");
        fb_story_difference(story, table, row);
        fb_text_printf(story->text, " against %s (", story->baseline);
        fb_say_interval(story->text, row->difference_interval, table->digits, false);
        fb_text_puts(story->text, ") ");
    }
    fb_story_budget(story, "at");
    say_company(story, finding->rules[0]);
}

static void say_tie(const fb_story *story, const fb_finding *finding)
{
    fb_story_rules(story, finding->rules, finding->n_rules);
    fb_text_printf(story->text, " are not distinguishable; %s beat %s ",
                   finding->n_rules == 2 ? "both" : "all", story->baseline);
    fb_story_budget(story, "at");
}

static void say_unsure(const fb_story *story, const fb_finding *finding)
{
    fb_story_rules(story, finding->rules, finding->n_rules);
    fb_text_printf(story->text, " %s %s ", finding->n_rules == 1 ? "beats" : "beat",
                   story->baseline);
    fb_story_budget(story, "at");
    for (int t = 0; t < story->n_tables; t++) {
        int rows[FB_MOST_LEADERS];
        const int n = fb_analysis_neighbours(story->tables[t], rows);

        if (n == 0) continue;
        fb_text_printf(story->text, ", but %s not distinguishable from ",
                       finding->n_rules == 1 ? "is" : "are");
        fb_story_rows(story, story->tables[t], rows, n);
        if (story->n_tables > 1)
            fb_text_printf(story->text, " on %s",
                           fb_story_task(story, story->tables[t]));
        break;
    }
}

/* " at 20 % of the cache", where other budgets may tell something else. */
static void say_where(const fb_story *story)
{
    if (story->results->n_budgets < 2) return;
    fb_text_puts(story->text, " ");
    fb_story_budget(story, "at");
}

/* "No rule wins both at 20 % of the cache: " */
static void say_no_winner(const fb_story *story)
{
    fb_text_printf(story->text, "No rule wins %s",
                   story->n_tables == 2 ? "both" : "everywhere");
    say_where(story);
    fb_text_puts(story->text, ": ");
}

static void say_reversal(const fb_story *story, const fb_finding *finding)
{
    say_no_winner(story);
    fb_text_printf(story->text, "the best one for %s (%s) is worse than %s for %s",
                   fb_story_task(story, story->tables[finding->best_for]),
                   fb_story_label(story, finding->rules[0]), story->baseline,
                   fb_story_task(story, story->tables[finding->worse_for]));
}

static void say_split(const fb_story *story)
{
    say_no_winner(story);
    for (int t = 0; t < story->n_tables; t++) {
        if (t > 0) fb_text_puts(story->text, "; ");
        fb_story_leaders(story, story->tables[t], "");
    }
}

static void say_none(const fb_story *story)
{
    fb_text_printf(story->text, "No rule beats %s", story->baseline);
    if (story->results->n_budgets < 2)
        fb_text_puts(story->text, " here");
    else
        say_where(story);
    fb_text_puts(story->text, " (");
    fb_story_smallest(story);
    fb_text_puts(story->text, ")");
}

static void say_same(const fb_story *story)
{
    const fb_table *table = story->tables[0];
    int rows[FB_MOST_LEADERS], n = 1;

    rows[0] = table->baseline;
    for (int r = 0; r < table->n_rows && n < FB_MOST_LEADERS; r++)
        if (table->rows[r].verdict != FB_VERDICT_reference) rows[n++] = r;
    fb_text_puts(story->text, "No difference was seen between ");
    fb_story_rows(story, table, rows, n);
    fb_text_puts(story->text, ", one rule under several names (");
    fb_story_smallest(story);
    fb_text_puts(story->text, ")");
}

/* Where nothing is left to compare, that is why. */
static void say_apart(const fb_story *story)
{
    fb_text words = {0};

    fb_say_apart(&words, story->analysis, story->tables, story->n_tables);
    if (words.n > 0) fb_text_printf(story->text, "; %s", fb_text_string(&words));
    story->text->failed |= words.failed;
    fb_text_clear(&words);
}

static void say_empty(const fb_story *story)
{
    fb_text_puts(story->text, "Nothing was compared: ");
    if (story->n_tables > 0)
        fb_text_printf(story->text, "no rule was tested against %s", story->baseline);
    else if (story->analysis->baseline >= 0)
        fb_text_printf(story->text, "no sample is finished under %s and another rule",
                       story->baseline);
    else
        fb_text_puts(story->text, "no rule has a finished cell");
    say_apart(story);
    for (int i = 0; i < story->analysis->n_failures; i++) {
        const fb_failure *failure = &story->analysis->failures[i];

        if (failure->n_failed < failure->n_cells) continue;
        fb_text_puts(story->text, "; ");
        fb_say_failure(story->text, story->analysis, failure);
        break; /* the others are listed below */
    }
}

void fb_story_headline(const fb_story *story)
{
    fb_finding finding;

    fb_analysis_find(&finding, story->tables, story->n_tables, story->results);
    if (fb_analysis_is_unfinished(story->analysis))
        fb_text_puts(story->text, "So far: ");
    switch (finding.kind) {
    case FB_FINDING_empty:
        say_empty(story);
        break;
    case FB_FINDING_same:
        say_same(story);
        break;
    case FB_FINDING_none:
        say_none(story);
        break;
    case FB_FINDING_winner:
        say_winner(story, &finding);
        break;
    case FB_FINDING_tie:
        say_tie(story, &finding);
        break;
    case FB_FINDING_unsure:
        say_unsure(story, &finding);
        break;
    case FB_FINDING_reversal:
        say_reversal(story, &finding);
        break;
    case FB_FINDING_split:
        say_split(story);
        break;
    }
    fb_text_puts(story->text, ".");
}
