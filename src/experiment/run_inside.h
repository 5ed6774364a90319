/* run_inside.h - what the files of the run share among themselves.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_RUN_INSIDE_H
#define FB_EXPERIMENT_RUN_INSIDE_H

#include "base/memory.h"
#include "engine/engine.h"
#include "experiment/run.h"
#include "store/store.h"

/* What the pass over the reference says of every cell, in this order; a task adds one. */
enum { FB_PASS_METRICS = 6, FB_MOST_SCORES = 9 };
extern const char *const fb_pass_metrics[FB_PASS_METRICS];

/* Why an experiment is of the open class until all of its cells are there. */
extern const char fb_class_unfinished[];

/* Ids of the rows of the store. */
typedef struct fb_rows {
    int64_t experiment, host, model, full_budget;
    int64_t *task, *rule, *budget, *sample; /* by index of spec and plan */
    char spec_sha256[FB_HASH_HEX];
    char *model_name; /* under which the experiment was begun; NULL: it begins now */
} fb_rows;

/* A rule with a seed: what a reading scores. */
typedef struct fb_entrant {
    int rule;
    uint64_t seed;
    char *failure; /* NULL: fine; else why its cells fail for this document */
    int index;     /* in the reading */
} fb_entrant;

typedef struct fb_todo { /* cells of a document that are not there yet */
    fb_cell *cells;
    int n;
} fb_todo;

/* What the allocator has counted from a moment on: then, and at the most. */
typedef struct fb_gauge {
    size_t at[FB_ACCOUNT_COUNT]; /* bytes in use at that moment */
} fb_gauge;

typedef struct fb_peaks {
    size_t bytes[FB_PHASE_COUNT][FB_ACCOUNT_COUNT];
    bool has[FB_PHASE_COUNT]; /* of a cell: whether it came through this phase */
} fb_peaks;

typedef struct fb_runner {
    const fb_plan *plan;
    const fb_run_options *options;
    fb_run_result *result;
    fb_ops *ops;
    fb_engine *engine;
    fb_store *store;
    fb_rows rows;
    fb_todo *todo;    /* [n_documents] */
    bool *has_failed; /* [n_rules] a reading for the rule, of an earlier document */
    int64_t limit;    /* bytes */
    int64_t begin_ns;
    double work, work_done; /* tokens: what the estimate of time counts */
    fb_run_progress progress;

    /* The document at work. */
    int document;
    fb_reading *reading;
    fb_entrant *entrants;
    int n_entrants;
    int64_t read_ns;
    fb_gauge before_read;
    fb_peaks read;                   /* while it was read, and its rules scored */
    size_t full_bytes, window_bytes; /* its full cache; windows of sliding layers */
} fb_runner;

/* --- rows (run_rows.c) --- */

/* Opens the file, refuses another experiment in it, puts all rows but cells. */
FB_MUST_USE fb_status fb_run_open_rows(fb_runner *run);
void fb_run_close_rows(fb_runner *run);
/* What opening it would refuse of a file that is there; nothing is written. */
FB_MUST_USE fb_status fb_run_check_file(const fb_plan *plan,
                                        const fb_run_options *options);
/* The ids of a cell; the rest is zero. */
fb_store_cell fb_run_identity(const fb_runner *run, const fb_cell *cell);

/* --- memory (run_memory.c) --- */

/* Bytes that the process may use. */
int64_t fb_run_limit(const fb_plan *plan, const fb_run_options *options);
/* Bytes in use now, in all accounts. */
double fb_run_bytes_now(void);
/* Bytes of a cell's own cache: none where the context's is used whole, two where the answer
 * goes on in a copy. */
double fb_run_cell_bytes(const fb_plan *plan, const fb_cell *cell);
/* FB_BUDGET, before anything is computed, if a cell of the plan cannot fit into them:
 * weights, the full cache of its context, its own cache, its answer. Weights that are
 * not loaded count as if they were. */
FB_MUST_USE fb_status fb_run_check_memory(const fb_plan *plan,
                                          const fb_run_options *options);
/* FB_BUDGET for "a single cell needs" more than the limit; both in bytes. `help`: what
 * else to do than to give more. */
FB_MUST_USE fb_status fb_run_refuse_memory(double limit, double needed,
                                           const char *what, const char *help);

/* --- one document (run_document.c) --- */

FB_MUST_USE fb_status fb_run_document(fb_runner *run);
/* The entrant of a cell; NULL if there is none. */
fb_entrant *fb_run_entrant(const fb_runner *run, const fb_cell *cell);
bool fb_run_reads(const fb_runner *run, int rule, fb_signal signal);
/* Looking ahead has failed: gives the failure to the rule at fault, which is left out from
 * then on; returns it if it is no rule's. */
FB_MUST_USE fb_status fb_run_blame(fb_runner *run, fb_status status);
/* FB_STOPPED if it is time to stop. */
FB_MUST_USE fb_status fb_run_check_stop(const fb_runner *run);
/* Notes the peak of all memory, then measures anew. */
void fb_run_reset_peaks(fb_runner *run);

/* --- memory by phase (run_peaks.c) --- */

/* Measures anew from here on. */
void fb_gauge_begin(fb_gauge *gauge, fb_runner *run);
/* Peaks since then; of keys and values and of rule state only what came on top. */
void fb_gauge_read_own(const fb_gauge *gauge, fb_peaks *out);
/* What came on top and is still there. */
size_t fb_gauge_kept(const fb_gauge *gauge, fb_account account);
void fb_run_tell(fb_runner *run, const char *event, const char *text);

/* --- its questions (run_questions.c) --- */

/* Cells of one document, those of a sample behind each other. */
FB_MUST_USE fb_status fb_run_questions(fb_runner *run, const fb_cell *cells, int n);
/* Whether what a rule keeps depends on the question, even if that comes later. */
bool fb_run_knows_question(const fb_plan *plan, int rule);

/* --- one sample, or several with the same variants (run_sample.c) --- */

/* All cells are of one sample. */
FB_MUST_USE fb_status fb_run_sample(fb_runner *run, const fb_cell *cells, int n);
/* `cells` [n_questions][n]: n variants of one document, each of which is made once and
 * asked all the questions. */
FB_MUST_USE fb_status fb_run_shared(fb_runner *run, const fb_cell *cells, int n,
                                    int n_questions);
/* True once the answer so far has a stop string of the sample in it. */
FB_MUST_USE fb_status fb_run_has_stopped(const fb_plan *plan,
                                         const fb_plan_sample *sample,
                                         const int32_t *ids, int64_t n, bool *out);

/* Tokens that the cell reads itself: what the estimate of time counts. */
double fb_run_cell_work(const fb_runner *run, const fb_cell *cell);

/* --- a context under the budget (run_stream.c) --- */

FB_MUST_USE fb_status fb_run_stream(const fb_runner *run, const fb_cell *cell,
                                    fb_variant **out);

/* What its rule keeps beside the entries counts against its budget. */
bool fb_run_pays_state(const fb_plan *plan, const fb_cell *cell);

/* --- rows beside the rules (run_reference.c) --- */

/* fb_choices.reference of its rule says what stays. */
bool fb_run_is_reference(const fb_runner *run, const fb_cell *cell);
FB_MUST_USE fb_status fb_run_reference(const fb_runner *run, const fb_cell *cell,
                                       fb_variant **out);

/* --- one cell (run_cell.c) --- */

typedef struct fb_outcome {
    const fb_cell *cell;
    const fb_variant *variant;
    const fb_answer *answer;
    int64_t evict_ns, answer_ns;
    bool evict_shared;     /* evict_ns is for several questions */
    bool answer_shared;    /* answer_ns is that of a group */
    const fb_peaks *made;  /* its own, while it was made */
    const size_t *keeps;   /* [FB_ACCOUNT_COUNT] what it holds since then */
    const fb_peaks *asked; /* of a group on top of what its members hold */
    int n_asked;           /* these */
} fb_outcome;

/* What the cell alone would have held of keys, values and rule state, phase by phase, and what
 * was there of all else. */
fb_peaks fb_run_peaks(const fb_runner *run, const fb_outcome *outcome);

/* What the cell said, or its failure if no numbers can be made of that. */
FB_MUST_USE fb_status fb_run_store_cell(fb_runner *run, const fb_outcome *outcome);
FB_MUST_USE fb_status fb_run_store_failure(fb_runner *run, const fb_cell *cell,
                                           const char *reason);
/* True unless memory, the disk or a request to stop is to blame: then a rule or a cell
 * has failed, and the others go on. */
bool fb_run_is_own_fault(fb_status status);
/* What a sample asks; without an end of its own for the answer. */
fb_question fb_run_question(const fb_plan_sample *sample);
fb_answer_options fb_run_answer_options(const fb_plan_sample *sample);
/* What reading a context takes beside weights, with the signals and scores of all rules: as
 * foretell.h counts it, so it resets peaks. */
FB_MUST_USE fb_status fb_run_reading_bytes(const fb_plan *plan, int64_t tokens,
                                           double *out);
/* What the protocol asks of the engine. */
fb_engine_options fb_run_engine_options(const fb_plan *plan);
/* Bytes of an answer up to its first stop string. */
size_t fb_run_answer_length(const fb_plan_sample *sample, const char *text, size_t n);

/* --- the end (run_end.c) --- */

/* Warnings, the certificate, the digest. */
FB_MUST_USE fb_status fb_run_finish(fb_runner *run);

#endif
