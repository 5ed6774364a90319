/* run.h - the cells of a plan are computed, each committed at once.
 *
 * Per document one reading for all rules; per sample groups of variants that fit the
 * memory, answered as one batch; per cell one transaction. The same call continues: a
 * cell that is done is never computed again, one that failed is tried again. Nothing
 * that differs between an interrupted and an undisturbed run enters a digest.
 *
 * A rule that breaks a promise loses its own cells, and a cell whose answer cannot be
 * measured or scored is lost alone: stored as failed with the reason; the others go on.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_RUN_H
#define FB_EXPERIMENT_RUN_H

#include "experiment/plan.h"

#include <signal.h>

/* What the one who watches is told. */
typedef struct fb_run_progress {
    const char *event;              /* "begin", "read", "cell", "warning", "end" */
    const char *text;               /* of a warning; else NULL */
    int64_t documents, n_documents; /* read, or found finished */
    int64_t cells, n_cells;         /* done, earlier runs included; of the plan */
    int64_t cells_before;           /* found finished */
    int64_t ns, left_ns;            /* since the beginning; estimate, -1: not yet */
} fb_run_progress;

typedef void fb_run_watch(void *self, const fb_run_progress *now);

typedef struct fb_run_options {
    const char *path;      /* results */
    const fb_filter *only; /* NULL: all cells */
    bool add;              /* beside another experiment in the same file */
    bool fail_fast;
    int64_t max_seconds; /* 0: no limit */
    int64_t memory;      /* bytes the process may use; 0: 80 % of what is free */
    const volatile sig_atomic_t *stop; /* set: finish the open group and stop */
    fb_run_watch *watch;
    void *self;
} fb_run_options;

typedef struct fb_run_result {
    int64_t n_cells, done, before, failed; /* of the plan; now, earlier; failed now */
    int64_t fallback, shrunk, no_choice;   /* marked, of this run */
    int64_t ns;
    size_t peak_bytes;
    char digest[FB_HASH_HEX];
    char reason[256]; /* of the first failed cell */
    char failed_rule[64], failed_sample[128];
} fb_run_result;

/* What fb_run would refuse before it computes: a file with another experiment or of
 * another program, memory that no cell fits into. Nothing is written, and the model
 * needs no weights. */
FB_MUST_USE fb_status fb_run_check(const fb_plan *plan, const fb_run_options *options);

/* FB_STOPPED after a request to stop; everything done is stored. FB_DEFECT if cells
 * failed. `result` is filled in any case. */
FB_MUST_USE fb_status fb_run(const fb_plan *plan, fb_ops *ops,
                             const fb_run_options *options, fb_run_result *result);

#endif
