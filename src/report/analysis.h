/* analysis.h - what `compare` prints and the page shows, computed once from the store.
 *
 * One table per (task, budget): rules as rows, scores with intervals, paired
 * differences from the baseline, sign-flip p with Holm over the rules that are not
 * references, letters over all pairs. Only samples that every row of a table has are
 * used; what is left out is counted. A rule with several seeds is averaged over them
 * within a sample first.
 *
 * All rules of a table are resampled and flipped by the same draws, from one seed: a
 * number repeats to the last digit, whatever other rules and experiments are in the file.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_ANALYSIS_H
#define FB_REPORT_ANALYSIS_H

#include "base/memory.h"
#include "stats/stats.h"
#include "store/store.h"

typedef struct fb_analysis_options {
    /* label; NULL: the experiment's, else `random`, else the first that evicts and could
     * be deployed */
    const char *baseline;
    double confidence; /* 0: 0.95 */
    int replicates;    /* 0: 10000 */
    int draws;         /* 0: 9999 */
    double margin;     /* negative: the task's own */
    uint64_t seed;     /* of all draws; 0: 1000 */
} fb_analysis_options;

/* The same with nothing left to default; NULL: the usual. */
fb_analysis_options fb_analysis_usual(const fb_analysis_options *options);

typedef enum fb_verdict {
    FB_VERDICT_reference, /* full, oracle, random, the baseline itself, or a rule that
                             nowhere had a choice or stands apart: not tested */
    FB_VERDICT_better,
    FB_VERDICT_worse,
    FB_VERDICT_open, /* not distinguishable from the baseline */
} fb_verdict;

typedef struct fb_row {
    int rule;    /* index into results.rules */
    int n;       /* documents */
    int n_seeds; /* most cells of one sample; their values are averaged */
    double mean;
    fb_interval mean_interval;
    double difference; /* this minus baseline, paired by sample */
    fb_interval difference_interval;
    double p, p_holm; /* NAN where not tested */
    double sd;        /* of the paired differences */
    /* How much worse than the full cache, in the metric's unit and paired by sample (for
     * KL the value itself); NAN without a row of it. */
    double lost;
    fb_interval lost_interval;
    /* Its mean as a share of the full cache's; NAN where lower is better, and where the
     * full cache itself scores nothing. */
    double share;
    fb_interval share_interval;
    fb_verdict verdict;
    char letters[32]; /* "" for references */
    double filled;    /* kept entries / budget entries, mean */
    double kept_bytes, budget_bytes, full_bytes; /* mean per cell */
    /* The most of its cells: what stays after eviction, what reading and evicting take at
     * once, what question and answer take beside it. */
    double held_bytes, peak_bytes, tail_bytes;
    /* What the rule caused (signals, scores, selection) as shares of the plain pass over
     * the context: the mean and the largest of its cells, and the mean by the prices of a
     * kernel that keeps no attention. NAN: unknown. */
    double extra_flops, extra_most, fused_flops;
    double step_flops,
        step_bytes;     /* of the first token of an answer, means; NAN: unknown */
    bool is_over_quota; /* in some cell */
    /* The most bytes of each phase and account, mean per cell; NAN: no such phase, or
     * nothing is known of it. Keys, values and rule state are the cell's own, all else is
     * what was there for all cells of a sweep together. */
    double memory[FB_MEMORY_PHASES][FB_ACCOUNT_COUNT];
    bool is_simulated; /* its caches held more than the bytes that it is said to keep */
    int n_fallback, n_shrunk, n_without_choice, n_first_lost; /* cells marked */
    int n_beyond; /* whose full cache stood beyond what the model was trained for */
    int n_over; /* where question and answer took more beside the budget than it has */
    bool is_without_choice;   /* all of them: not ranked */
    double em, nll, kl, top1; /* means of the side measures; NAN where absent */
} fb_row;

/* One task at one budget. Rows are sorted best first; `full` first of all, and behind all
 * others those that stand apart. */
typedef struct fb_table {
    int task, budget;
    int n_rows, n_samples, n_documents, n_left_out;
    int n_apart; /* of the rows: above the quota, and not the baseline. They have neither p
                    nor letter, and no other row's depend on them */
    fb_row *rows;
    int baseline;           /* row index, -1 if absent */
    double smallest_effect; /* median over tested rows: what this n could have shown;
                               infinite where no p could be small enough */
    double margin;          /* smallest difference that matters */
    int digits;             /* after the point, for every value of this table */
    int *samples;           /* [n_samples], indices into results.samples */
    int *documents;         /* [n_samples], 0 to n_documents - 1 */
    double *values;         /* [n_rows, n_samples] of the task's metric */
} fb_table;

/* Cells of a rule of which some failed: where all did, the table has no row of it. */
typedef struct fb_failure {
    int task, budget,
        rule; /* budget -1: the full cache, in the tables of all budgets */
    int n_cells, n_failed;
    const char *reason; /* of the first; lent by the results */
} fb_failure;

typedef struct fb_analysis {
    const fb_results *results; /* lent */
    fb_table *tables;
    fb_failure *failures; /* by task, budget, rule */
    int n_tables, n_failures;
    int64_t n_done;              /* cells that are finished, of results.planned */
    int baseline;                /* rule, -1 if there is none */
    fb_analysis_options options; /* nothing left to default */
    double confidence;           /* of intervals and verdicts */
    double
        quota; /* of compute, share of the plain pass; infinite: work is only shown */
    /* one sentence that can be repeated; "So far: ..." while cells are missing */
    char *headline;
    /* the numbers behind it: difference, interval, p, where it fails */
    char *paragraph;
    char *signature; /* fb1|m:...|k:...: all that must agree before numbers are compared
                      */
} fb_analysis;

/* `store` NULL: without ledgers, so without `extra_flops`. FB_NOT_FOUND if the options
 * name a baseline that is not there. */
FB_MUST_USE fb_status fb_analyse(fb_analysis **out, fb_store *store,
                                 const fb_results *results,
                                 const fb_analysis_options *options);
void fb_analysis_free(fb_analysis *analysis); /* takes NULL */

/* Sentences that tables, page and help share. */
#define FB_CLASS_WORDS                                                                 \
    "Class: closed means that what is stored shows that all rules ran under the same " \
    "conditions: one kernel, one cache before eviction, one protection, all state in " \
    "the budget, every operation counted, extra work within a quota (cap5: at most "   \
    "5 % of the operations that read the context), full and random beside them, no "   \
    "cell missing. Else it is open, and what does not hold is named; "                 \
    "docs/RULEBOOK.md "                                                                \
    "has the conditions. Whether cells were run again (flexbudget verify) is "         \
    "stated "                                                                          \
    "beside."
#define FB_SIGNATURE_WORDS                                                             \
    "The signature is all that must agree before two numbers may be compared: m "      \
    "model, h chat template, k kernel, p protocol, g protection, b budgets, c "        \
    "compute quota, t tasks with versions and data, n samples, s seeds, v version of " \
    "the program."
#define FB_MEMORY_WORDS                                                                \
    "Memory: keys and values at their most in each phase, as the allocator counted "   \
    "them, each cell's own. Resident is what is kept, peak the most before the "       \
    "answer, rule state included, both as shares of the full cache."
#define FB_LETTER_WORDS                                                                \
    "A rule may beat the baseline and still share a letter with it: letters are "      \
    "corrected for all pairs of rules (Holm), p only for the rules against the "       \
    "baseline, which is less strict."
#define FB_QUOTA_WORDS                                                                 \
    "Compute: a rule's signals, scores and selection are counted as a share of the "   \
    "operations that read the context. Under cap5 a rule that takes more than 5 % of " \
    "them with any document stands apart in a section of its own, with what it "       \
    "costs: it gets no p and no letter and wins nothing, and the numbers of the "      \
    "others do not depend on it. What is kept is the same as without. Under matched "  \
    "the rules were set so that they keep to the quota; under report all stand "       \
    "together. fused is what they would cost where a kernel keeps no attention and "   \
    "it has to be computed again."

/* The tables as text with aligned columns, as JSON, or as CSV, to a fresh string. */
typedef enum fb_format { FB_FORMAT_TEXT, FB_FORMAT_JSON, FB_FORMAT_CSV } fb_format;
FB_MUST_USE fb_status fb_analysis_print(const fb_analysis *analysis, fb_format format,
                                        char **out);

#endif
