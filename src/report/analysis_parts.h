/* analysis_parts.h - what the files of the analysis share.
 *
 * fill (values, means, costs)  ->  compare (intervals, p, letters, verdicts)
 *   ->  find (what the tables allow to say)  ->  say (the words)
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_ANALYSIS_PARTS_H
#define FB_REPORT_ANALYSIS_PARTS_H

#include "base/text.h"
#include "report/analysis.h"

typedef struct fb_analyser {
    const fb_results *results;
    fb_store *store;             /* NULL: no ledgers */
    fb_analysis_options options; /* nothing left to default */
    int baseline;                /* rule, -1: none */
} fb_analyser;

/* --- fill: table->task and ->budget are set --- */

FB_MUST_USE fb_status fb_analysis_fill(fb_table *table, const fb_analyser *analyser);
void fb_analysis_clear(fb_table *table);
/* Averages of the side measures, sizes and costs of a row. */
FB_MUST_USE fb_status fb_analysis_cost(fb_row *row, const fb_table *table,
                                       const fb_analyser *analyser);
/* A draw among all entries is what a rule is measured against; one that draws by what it has
 * seen is a rule like others. */
bool fb_is_draw(const fb_result_rule *rule);
/* The largest share of the plain pass that a rule may cost; infinite where extra work is
 * only shown, or the file does not say. */
double fb_quota_of(const fb_results *results);
/* Whether the row belongs behind the others: `baseline` is a rule. */
bool fb_stands_apart(const fb_row *row, int baseline);
/* Of a row with its cost. Never of references, draws, nor of what looks ahead. */
bool fb_is_over_quota(const fb_results *results, const fb_row *row);
/* fb_row.memory of all its cells, with tails of so many bytes (analysis_memory.c). */
FB_MUST_USE fb_status fb_analysis_memory(fb_row *row, const fb_table *table,
                                         const fb_analyser *analyser, double tail);
const char *fb_memory_phase_name(int phase);
/* Whether some row of the table came through the phase, whether anything is known. */
bool fb_table_has_phase(const fb_table *table, int phase);
bool fb_table_has_memory(const fb_table *table);
/* The most of an account in any phase, NAN if unknown. */
double fb_row_peak(const fb_row *row, fb_account account);
/* Equal bytes in every phase, to less than one: of an account; of all a cell holds. */
bool fb_rows_agree(const fb_row *a, const fb_row *b, fb_account account);
bool fb_rows_hold_alike(const fb_row *a, const fb_row *b);
double fb_table_peak(const fb_table *table, fb_account account);
/* What is kept (NAN of what is simulated), and keys, values and rule state at their most before the answer, as shares of
 * the full cache. */
double fb_row_resident(const fb_row *row);
double fb_row_peak_share(const fb_row *row);
/* "simulated: its answers are those of 40.2 KiB, but it was held in 257 KiB", if it is. */
bool fb_say_simulated(fb_text *text, const fb_row *row);
/* "resident 25 %, peak 125 %: ..." of the rows of a budget; nothing if it bounds both. */
bool fb_say_unbounded(fb_text *text, const fb_analysis *a, const fb_table *table);
/* The cells of a sample under a rule at a budget, else under the full cache. */
const fb_result_cell *fb_analysis_cells(const fb_results *results, int sample, int rule,
                                        int budget, int *n_out);

/* --- missing: cells that no table can show --- */

/* Sets n_done and the failures. */
FB_MUST_USE fb_status fb_analysis_count_missing(fb_analysis *analysis);
bool fb_failure_is_of(const fb_failure *failure, const fb_table *table);
bool fb_failure_has_table(const fb_failure *failure, const fb_analysis *analysis);
/* Planned cells have neither finished nor failed. */
bool fb_analysis_is_unfinished(const fb_analysis *analysis);
/* "mine: 3 of 3 cells failed (first: score: not a number)" */
void fb_say_failure(fb_text *text, const fb_analysis *analysis, const fb_failure *f);
/* "553 of 2,800 planned cells; the others are missing"; nothing if none is missing. */
void fb_say_unfinished(fb_text *text, const fb_analysis *analysis);

/* --- compare --- */

FB_MUST_USE fb_status fb_analysis_compare(fb_table *table, const fb_analyser *analyser);

/* What each row lost against the full cache, once the means have their intervals. */
FB_MUST_USE fb_status fb_analysis_lost(fb_table *table, const fb_analyser *analyser);

/* Two rows of tables of one task, of one budget or of two, on the samples that both
 * tables have. */
typedef struct fb_pair {
    int n_samples, n_documents; /* 0: there are none, and the rest is NAN */
    double difference;          /* the first minus the second */
    fb_interval interval;
    double p;
} fb_pair;

FB_MUST_USE fb_status fb_analysis_pair(fb_pair *out, const fb_analysis *analysis,
                                       const fb_table *first, const fb_row *row,
                                       const fb_table *second, const fb_row *other);

/* --- find: a pure function of tables, one per task, at one budget --- */

typedef enum fb_finding_kind {
    FB_FINDING_empty,    /* nothing was tested */
    FB_FINDING_same,     /* every tested rule is the baseline under another name */
    FB_FINDING_none,     /* no rule beats the baseline anywhere */
    FB_FINDING_winner,   /* the same rules lead everywhere: one ... */
    FB_FINDING_tie,      /* ... or several that are not distinguishable */
    FB_FINDING_unsure,   /* likewise, but a rule that does not beat the baseline cannot
                            be told from the best one */
    FB_FINDING_reversal, /* the best rule of one task loses to the baseline in another */
    FB_FINDING_split,    /* other rules lead in other tasks, or none in some */
} fb_finding_kind;

enum { FB_MOST_LEADERS = 64 };

typedef struct fb_finding {
    fb_finding_kind kind;
    int rules[FB_MOST_LEADERS]; /* [n_rules]: winners, best first in the first table */
    int n_rules;
    int best_for, worse_for; /* reversal: indices into the tables */
} fb_finding;

void fb_analysis_find(fb_finding *out, const fb_table *const *tables, int n,
                      const fb_results *results);
/* The rows that lead a table: the best one that beats the baseline, and those that
 * beat it and share the best one's first letter. Row indices, best first. */
int fb_analysis_leaders(const fb_table *table, int out[FB_MOST_LEADERS]);
/* The table of a task at a budget, NULL if there is none or it has no rows. */
const fb_table *fb_analysis_table(const fb_analysis *analysis, int task, int budget);
/* The budget of the fewest bytes, -1 if there is none. */
int fb_analysis_smallest_budget(const fb_analysis *analysis);
/* What the budget of a table grants, mean per cell: some rows, like `full`, take none. */
double fb_table_budget_bytes(const fb_table *table);
const fb_row *fb_analysis_row(const fb_table *table, int rule); /* NULL: not there */
/* Open rows that share the best leader's first letter; row indices, best first. */
int fb_analysis_neighbours(const fb_table *table, int out[FB_MOST_LEADERS]);

/* --- say --- */

void fb_say_unit(fb_text *text, const fb_result_task *task); /* " nat", or nothing */
/* "16 documents could show a difference of 0.50 nat", or why they could not. */
void fb_say_smallest(fb_text *text, const fb_analysis *analysis, const fb_table *table);
/* With fewer documents a table has a caveat below it. A percentile interval lacks the
 * factor sqrt(n / (n - 1)) and takes the normal's quantiles for those of t: of ten
 * documents, one of 95 % covers about 90 %, and less of fewer (Hesterberg 2015, "What
 * teachers should know about the bootstrap", The American Statistician 69(4)). */
enum { FB_FEW_DOCUMENTS = 10 };
/* "3 documents: intervals of so few are too narrow; ..." */
void fb_say_few(fb_text *text, int n_documents);
/* Whether the full cache itself has the least score that there is: a rule can lose
 * nothing there, and the table teaches nothing. */
bool fb_is_at_floor(const fb_analysis *analysis, const fb_table *table);
/* "the full cache itself scores 0.00: this model cannot do this task" */
void fb_say_floor(fb_text *text, const fb_table *table);
/* "12 of 12 cells run again are equal", "no cell was run again yet"; nothing of what has no
 * certificate. False: nothing was added. */
bool fb_say_verified(fb_text *text, const fb_results *results);
/* Names come from files: their control characters after `from` become '?', so that a
 * terminal is not told to do anything. */
void fb_say_clean(fb_text *text, size_t from);
/* Adds the line of all that must agree before two numbers may be compared. */
void fb_say_signature(fb_text *text, const fb_analysis *analysis);

/* Numbers for people: a true minus sign, a given number of digits. */
void fb_say_number(fb_text *text, double value, int digits);
void fb_say_signed(fb_text *text, double value, int digits); /* +1.2, −1.2, 0.0 */
void fb_say_interval(fb_text *text, fb_interval interval, int digits, bool is_signed);
void fb_say_p(fb_text *text, double p); /* 0.31, 0.031, <0.001 */
void fb_say_percent(fb_text *text, double share);
void fb_say_extra(fb_text *text, double share); /* +1.2 %, <+0.01 %, 0 */
void fb_say_bytes(fb_text *text, double bytes);
void fb_say_budget(fb_text *text, const fb_store_budget *budget); /* 20 %, 256 tokens */
/* Tokens that the model was trained for; 0: unknown. */
int64_t fb_trained_length(const fb_store_model *model);
/* What layers with a window keep beside the budget, whatever the rule; false, and nothing
 * said, if there are none. */
bool fb_say_windows(fb_text *text, const fb_store_model *model);
/* How many, with the word in the singular for one: "1 document", "16 documents". */
void fb_say_count(fb_text *text, int n, const char *word);
/* "a", "a and b", "a, b and c" from `n` names. */
void fb_say_list(fb_text *text, const char *const *names, int n);
const char *fb_say_metric(const char *metric); /* "KL" for "kl" */
/* "prefill, question not seen" for "prefill.agnostic.original"; "stream, chunks of 64,
 * answers too, every 16 tokens" for "stream.chunk64.answer16.original" */
void fb_say_protocol(fb_text *text, const char *protocol);

/* "5 % of the operations that read the context" */
void fb_say_quota(fb_text *text, double quota);
/* "a and b stand apart: ...", a sentence; nothing if none of the tables has such a row. */
void fb_say_apart(fb_text *text, const fb_analysis *analysis,
                  const fb_table *const *tables, int n);

/* --- print --- */

/* A line: class, protocol, model, compute. */
void fb_say_setting(fb_text *text, const fb_analysis *analysis);
int fb_say_width(const char *text); /* characters: bytes that do not continue one */
void fb_say_spaces(fb_text *text, int n);
/* Breaks at spaces, but for those before "%", so that no line has more than 100
 * characters, if it can. */
void fb_say_wrapped(fb_text *text, const char *words);
/* "name":"value", and null for NULL; a comma behind it. */
void fb_export_string(fb_text *text, const char *key, const char *value);
/* A text of CSV: quoted where it has to be, and no formula. */
void fb_export_field(fb_text *text, const char *field);

/* The table of memory below one of scores; nothing where nothing is known. */
void fb_analysis_print_memory(fb_text *text, const fb_analysis *a,
                              const fb_table *table);
void fb_analysis_print_text(fb_text *text, const fb_analysis *a);
void fb_analysis_print_json(fb_text *text, const fb_analysis *a);
void fb_analysis_print_csv(fb_text *text, const fb_analysis *a);

#endif
