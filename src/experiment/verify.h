/* verify.h - whether a file still says what was certified, and whether its cells can be
 * made again.
 *
 * The file: everything in the certificate follows from the other tables, so it is made
 * again and compared. Whoever changes one byte is found. Whoever changes cells, digests and
 * certificate together is not: that is what running cells again is for, and which these are
 * follows from the certificate's hash, so nobody can choose them.
 *
 * A cell is equal if its digest is, and every other number that does not depend on the
 * machine: scores, ledger, kept positions, bytes. A backend that promises no bits is given
 * a tolerance: the same kept set and answer, scores within FB_VERIFY_TOLERANCE.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_VERIFY_H
#define FB_EXPERIMENT_VERIFY_H

#include "experiment/run.h"
#include "store/store.h"

/* Of a score, or of its size where that is above one. */
#define FB_VERIFY_TOLERANCE 1e-3

/* Adds a line for everything that is not as certified; none: all is. FB_NOT_FOUND without
 * a certificate (of the closed class: a line), FB_UNSUPPORTED if it is of an older
 * program. */
FB_MUST_USE fb_status fb_verify_file(fb_store *store, const fb_results *results,
                                     const char *path, fb_text *problems);
/* The same of results that fb_cells_check has passed, whose digests are not made again;
 * adds the first line alone, "changed after its certificate: table ledger, ...". */
FB_MUST_USE fb_status fb_verify_change(fb_store *store, const fb_results *results,
                                       const char *path, fb_text *out);

typedef struct fb_verify_options {
    const fb_plan *plan; /* of the stored specification */
    fb_ops *ops;
    int64_t cells; /* to be run again; -1: all that are done */
    int64_t memory;
    const volatile sig_atomic_t *stop;
    fb_run_watch *watch;
    void *self;
} fb_verify_options;

typedef struct fb_verified_cell {
    int cell; /* index into the results */
    bool is_equal;
    bool is_near;  /* not equal, but within what the backend promises */
    char *differs; /* "score.value, cell.digest"; NULL: nothing */
} fb_verified_cell;

typedef struct fb_verified {
    fb_verified_cell *cells; /* [n] */
    int n, n_equal, n_near;
    char *host;   /* JSON: the machine that ran them again; NULL: none were */
    char *kernel; /* with which */
} fb_verified;

/* Runs cells again, each by itself (all: as one run), in a file of their own that is
 * removed. FB_STOPPED on request. Clear `out` in any case. */
FB_MUST_USE fb_status fb_verify_cells(fb_verified *out, fb_store *store,
                                      const fb_results *results,
                                      const fb_verify_options *options);
void fb_verified_clear(fb_verified *verified);

#endif
