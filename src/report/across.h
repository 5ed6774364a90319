/* across.h - two runs of one experiment on two backends, cell by cell.
 *
 * A table never holds numbers of two backends. What is asked here is another question:
 * not which rule is better, but whether a backend changes anything. Cells are paired by
 * task, sample, rule, budget and seed. Of each rule at each budget: in how many cells the
 * same entries were kept, and how many entries are others; how many free answers are equal;
 * how far the scores are apart, with the interval of the mean difference over documents.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_ACROSS_H
#define FB_REPORT_ACROSS_H

#include "report/analysis.h"

typedef struct fb_across_row {
    int task, budget, rule; /* indices into the first results; budget -1: full cache */
    int n_cells;            /* finished in both, with the task's score */
    int n_documents;
    int n_sets, n_equal_sets; /* of cells that evicted */
    int n_positions;          /* cells of which both files hold what was kept: ... */
    int64_t n_entries;        /* ... the entries of the larger set of each, ... */
    int64_t n_exchanged;      /* ... those of them that the other set lacks, ... */
    double common;            /* ... and the mean share of equal ones; NAN for none */
    int n_answers, n_equal_answers; /* cells with a free answer in both files */
    double first, second;           /* means of the task's score */
    double difference;              /* second minus first */
    fb_interval interval;
} fb_across_row;

typedef struct fb_across {
    const fb_results *first, *second; /* lent */
    fb_across_row *rows;              /* by task, budget, rule; the full cache first */
    int n_rows, n_pairs;
    int n_only_first, n_only_second; /* finished cells without a counterpart */
    double confidence;
    char *headline; /* one sentence */
} fb_across;

/* One side of it. */
typedef struct fb_across_side {
    fb_store *store;
    const fb_results *results;
} fb_across_side;

/* FB_USAGE if model, program, protocol, protection or compute differ (what the
 * specifications say the caller compares), or if no cell has a counterpart. Of `options`
 * confidence, replicates and seed count; NULL: the usual. */
FB_MUST_USE fb_status fb_compare_across(fb_across **out, const fb_across_side *first,
                                        const fb_across_side *second,
                                        const fb_analysis_options *options);
void fb_across_free(fb_across *across); /* takes NULL */

/* What tables, page and help say of it. */
#define FB_ACROSS_WORDS                                                                \
    "Equal sets and answers are counted over all cells that have them. One exchanged " \
    "entry makes a set another one: where two scores are nearly equal, the rounding "  \
    "of a backend decides which stays. Exchanged entries: of the entries that the "    \
    "larger of the two sets has, those that the other lacks, in the cells of which "   \
    "both files hold positions (--keep-sets all; by default those of the first "       \
    "document of each task). A dash: there are none. Difference: second less first, "  \
    "with its bootstrap interval over documents; it says how far the backends are "    \
    "apart, not which is better."

/* As text, JSON or CSV, to a fresh string. */
FB_MUST_USE fb_status fb_across_print(const fb_across *across, fb_format format,
                                      char **out);

#endif
