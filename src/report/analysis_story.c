/* analysis_story.c - the pieces that sentences are made of.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_story.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_IN_SHORT = 3, NAMED_IN_SHORT = 2 };

void fb_story_choose(fb_story *story, int budget)
{
    story->budget = budget;
    story->n_tables = 0;
    for (int t = 0; t < story->results->n_tasks && story->n_tables < FB_MOST_TASKS;
         t++) {
        const fb_table *table = fb_analysis_table(story->analysis, t, budget);

        if (table != NULL && table->baseline >= 0)
            story->tables[story->n_tables++] = table;
    }
}

const char *fb_story_label(const fb_story *story, int rule)
{
    return story->results->rules[rule].label;
}

const char *fb_story_task(const fb_story *story, const fb_table *table)
{
    return story->results->tasks[table->task].name;
}

void fb_story_budget(const fb_story *story, const char *at)
{
    const fb_store_budget *budget = &story->results->budgets[story->budget];

    fb_text_printf(story->text, "%s ", at);
    fb_say_budget(story->text, budget);
    if (strchr(budget->asked, '%') != NULL) fb_text_puts(story->text, " of the cache");
}

void fb_story_rules(const fb_story *story, const int *rules, int n)
{
    const char *names[FB_MOST_LEADERS];
    const int n_named = story->is_short && n > MOST_IN_SHORT ? NAMED_IN_SHORT : n;
    char others[32];

    for (int i = 0; i < n_named; i++)
        names[i] = fb_story_label(story, rules[i]);
    if (n_named < n) {
        (void)snprintf(others, sizeof others, "%d more", n - n_named);
        names[n_named] = others;
    }
    fb_say_list(story->text, names, n_named + (n_named < n));
}

void fb_story_rows(const fb_story *story, const fb_table *table, const int *rows, int n)
{
    int rules[FB_MOST_LEADERS];

    for (int i = 0; i < n; i++)
        rules[i] = table->rows[rows[i]].rule;
    fb_story_rules(story, rules, n);
}

void fb_story_difference(const fb_story *story, const fb_table *table,
                         const fb_row *row)
{
    fb_text_printf(story->text, "%s ",
                   fb_say_metric(story->results->tasks[table->task].metric));
    fb_say_signed(story->text, row->difference, table->digits);
    fb_say_unit(story->text, &story->results->tasks[table->task]);
}

/* Tables of one number of documents that could all show something: said in one go. */
static bool are_alike(const fb_story *story)
{
    for (int t = 0; t < story->n_tables; t++) {
        const fb_table *table = story->tables[t];

        if (table->n_documents != story->tables[0]->n_documents ||
            !isfinite(table->smallest_effect) || !(table->smallest_effect > 0))
            return false;
    }
    return story->n_tables > 1;
}

/* True if so few documents could show nothing with any task. */
static bool are_blind(const fb_story *story)
{
    for (int t = 0; t < story->n_tables; t++) {
        const fb_table *table = story->tables[t];

        if (table->n_documents != story->tables[0]->n_documents ||
            !isinf(table->smallest_effect))
            return false;
    }
    return story->n_tables > 1;
}

void fb_story_smallest(const fb_story *story)
{
    const bool is_short = are_alike(story);

    if (are_blind(story)) {
        fb_say_smallest(story->text, story->analysis, story->tables[0]);
        return;
    }
    for (int t = 0; t < story->n_tables; t++) {
        const fb_table *table = story->tables[t];

        if (t > 0) fb_text_puts(story->text, ", ");
        if (t > 0 && is_short) {
            fb_say_number(story->text, table->smallest_effect, table->digits);
            fb_say_unit(story->text, &story->results->tasks[table->task]);
        } else {
            fb_say_smallest(story->text, story->analysis, table);
        }
        if (story->n_tables > 1)
            fb_text_printf(story->text, " on %s", fb_story_task(story, table));
    }
}

void fb_story_leaders(const fb_story *story, const fb_table *table, const char *adverb)
{
    int leaders[FB_MOST_LEADERS];
    const int n = fb_analysis_leaders(table, leaders);

    if (n > 0) {
        fb_story_rows(story, table, leaders, n);
        fb_text_printf(story->text, " %s%s", adverb, n == 1 ? "leads" : "lead");
    } else {
        fb_text_printf(story->text, "no rule beats %s", story->baseline);
    }
    fb_text_printf(story->text, " on %s", fb_story_task(story, table));
}
