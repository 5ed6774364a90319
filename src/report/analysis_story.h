/* analysis_story.h - what the headline and the paragraph are about, and their pieces.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_ANALYSIS_STORY_H
#define FB_REPORT_ANALYSIS_STORY_H

#include "report/analysis_parts.h"

enum { FB_MOST_TASKS = 64 };

typedef struct fb_story {
    const fb_analysis *analysis;
    const fb_results *results;
    fb_text *text;                         /* what is said is added here */
    const fb_table *tables[FB_MOST_TASKS]; /* [n_tables], one per task that has one */
    int n_tables, budget;
    const char *baseline; /* its label */
    bool is_short; /* lists of more than three rules name two and count the rest */
} fb_story;

/* The tables of a budget that have the baseline. */
void fb_story_choose(fb_story *story, int budget);

const char *fb_story_label(const fb_story *story, int rule);
const char *fb_story_task(const fb_story *story, const fb_table *table);
/* "at 20 % of the cache", "At 256 tokens per head" */
void fb_story_budget(const fb_story *story, const char *at);
/* "keydiff, snapkv and h2o", in short "keydiff, snapkv and 3 more"; by rules or by the
 * rows of a table, in their order: that of the means */
void fb_story_rules(const fb_story *story, const int *rules, int n);
void fb_story_rows(const fb_story *story, const fb_table *table, const int *rows,
                   int n);
/* "KL â1.68 nat" */
void fb_story_difference(const fb_story *story, const fb_table *table,
                         const fb_row *row);
/* "16 documents could show a difference of 0.50 nat on needle, ...", or why not */
void fb_story_smallest(const fb_story *story);
/* "keydiff leads on needle", "no rule beats random on continuation" */
void fb_story_leaders(const fb_story *story, const fb_table *table, const char *adverb);

void fb_story_headline(const fb_story *story);
void fb_story_paragraph(const fb_story *story);

#endif
