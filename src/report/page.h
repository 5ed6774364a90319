/* page.h - what the parts of the page share.
 *
 * One file per part, one function per file that writes it. All of them write markup
 * into `out`; a failure (no memory) is kept there and asked for once, at the end.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_PAGE_H
#define FB_REPORT_PAGE_H

#include "report/analysis_parts.h"
#include "report/html.h"
#include "report/report.h"

/* One experiment on its way into the page. */
typedef struct fb_page {
    fb_text *out;
    const fb_analysis *analysis;
    const fb_results *results;
    const fb_report_options *options;
    int number;  /* of the experiment on the page, from 1: "e1-" starts its ids */
    int budget;  /* the one shown first: the smallest share of the cache; -1: none */
    int section; /* number of the last section */
    int *order;  /* [n_rules] as the first task ranks them at that budget */
} fb_page;

/* --- the parts, in order */
void fb_page_answer(fb_page *page);        /* the sentence, badges, order */
void fb_page_figures(const fb_page *page); /* the numbers inside the answer */
void fb_page_quality(fb_page *page);       /* quality against budget */
void fb_page_differences(fb_page *page);   /* which differences are real */
void fb_page_apart(fb_page *page);         /* what is above the quota, if anything is */
void fb_page_tasks(fb_page *page);         /* distance to the full cache, by task */
void fb_page_samples(fb_page *page);
/* The table row below that of a sample; it opens in place. */
void fb_page_answers(const fb_page *page, int sample, int n_columns);
void fb_page_memory(fb_page *page); /* where it was, and what the budget bounds */
void fb_page_trust(fb_page *page);  /* the class, its conditions, what was verified */
void fb_page_everything(fb_page *page); /* rules, bytes, settings, machine, signature */
void fb_page_data(const fb_page *page); /* JSON for the charts */
/* Below all experiments: two of them across their backends. */
void fb_page_across(fb_text *out, const fb_across *across);

/* --- markup that repeats */
/* <section> with a numbered heading; `name` becomes its id. */
void fb_page_open(fb_page *page, const char *name, const char *heading);
void fb_page_close(fb_page *page);
/* <table> in a box that scrolls, and the buttons that copy it. */
void fb_page_table_open(const fb_page *page, const char *name, int number);
void fb_page_table_close(const fb_page *page, const char *name, int number);
/* Both ends apart, for what belongs to the table and stands between. */
void fb_page_table_end(const fb_page *page);
void fb_page_table_copy(const fb_page *page, const char *name, int number);
/* The caveat below the tables of a task, if one of them has few documents. */
void fb_page_few(const fb_page *page, int task);
/* The rules of which cells of a task failed. */
void fb_page_failed(const fb_page *page, int task);
/* <details> with the numbers of the charts above it; the script closes it. */
void fb_page_numbers_open(const fb_page *page);
/* The place of a chart; the script fills it. */
void fb_page_chart(const fb_page *page, const char *chart, int task);
/* What a row keeps: the budget, but of the full cache all. */
void fb_page_kept_cell(const fb_page *page, const fb_table *table, const fb_row *row);
/* "20 %" in words that follow the chosen budget. */
void fb_page_budget(const fb_page *page);

/* --- questions about the analysis */
const char *fb_page_baseline(const fb_page *page); /* its label; "the baseline": none */
const fb_row *fb_table_baseline(const fb_table *table); /* or NULL */
/* The first row, best first, of a rule that can be deployed and is not a reference. */
const fb_row *fb_page_best(const fb_page *page, const fb_table *table);
bool fb_page_is_full(const fb_page *page, int rule);
bool fb_page_is_compared(const fb_page *page, int rule); /* neither full nor oracle */
/* Mean share of the full cache that the budget of a table is, in percent, NAN if
 * unknown. */
double fb_table_share(const fb_page *page, const fb_table *table);
bool fb_page_order_differs(const fb_page *page); /* of the compared rules, by task */

/* The task's measure of a sample, averaged over seeds; NAN if there is none. */
double fb_sample_score(const fb_page *page, int sample, int rule, int budget);
/* Every token of the expected answer came out, under every seed. */
bool fb_sample_is_right(const fb_page *page, int sample, int rule, int budget);
int fb_page_digits(const fb_page *page, int task, int budget); /* after the point */

/* --- looks */
typedef struct fb_look {
    const char *color; /* CSS variable of the signal family: "attn" */
    const char *shape; /* circle, square, triangle-up, diamond */
    const char *dash;  /* stroke-dasharray: "6 3"; "1 0": solid */
} fb_look;

fb_look fb_rule_look(const fb_results *results, int rule);
void fb_html_rule(const fb_page *page, int rule);      /* its label in its colour */
void fb_html_rule_word(const fb_page *page, int rule); /* the same, inside a sentence */
void fb_html_swatch(const fb_page *page, int rule);    /* its mark, as in the charts */
void fb_html_budget(fb_text *out, const fb_store_budget *budget); /* "20 %" */
void fb_html_confidence(const fb_page *page);                     /* "95 %" */
/* "KL to the full cache" for "kl"; a name that is not known as it is. */
const char *fb_metric_words(const char *metric);
/* "KL to the full cache, nat" */
void fb_html_measure(fb_text *out, const fb_result_task *task);
const char *fb_verdict_words(fb_verdict verdict);

#endif
