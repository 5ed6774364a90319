/* store.h - results in SQLite: written cell by cell, read as plain arrays.
 *
 * One file may hold several experiments. A finished cell is one transaction with all
 * its children, committed at once, so a killed run loses open cells only. Tables are
 * those of schema.sql (user_version FB_STORE_SCHEMA); the view `tidy` is the documented
 * surface for SQL.
 *
 * Must never: compute a statistic, know the engine. Depends on base alone: the digest
 * of a cell is computed by the caller (src/engine/digest.h) and handed in.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STORE_STORE_H
#define FB_STORE_STORE_H

#include "base/hash.h"
#include "base/text.h"

#include <stdbool.h>

enum { FB_STORE_SCHEMA = 6 };

typedef struct fb_store fb_store;

/* Opens for writing, creating the file and schema where missing; FB_FORMAT if the file
 * is something else, FB_UNSUPPORTED for a newer or older schema. */
FB_MUST_USE fb_status fb_store_open(fb_store **out, const char *path);
/* Whether a regular file is a database, by its first bytes. */
bool fb_store_is_at(const char *path);
/* Opens read-only, older schemas too; FB_NOT_FOUND if it is not there. */
FB_MUST_USE fb_status fb_store_open_read(fb_store **out, const char *path);
void fb_store_close(fb_store *store); /* takes NULL */

/* --- writing. Each put_* returns the id of the row, found by its identity or inserted.
 * ------- */

typedef struct fb_store_experiment {
    const char *name, *question, *spec, *spec_sha256, *class_name, *class_reasons,
        *program;
    const char *baseline; /* label of a rule */
    /* Parts of the signature; NULL where unknown: "native.f32.kv32" (of PyTorch
     * "torch-2.13.0.cuda:0.bf16.kv32": version, device, precision),
     * "prefill.agnostic.original", "4+16", "cap5". */
    const char *kernel, *protocol, *protection, *compute;
    int64_t planned; /* cells, once all are done; 0: unknown */
} fb_store_experiment;

typedef struct fb_store_model {
    const char *sha256, *name, *architecture;
    int64_t layers, heads, kv_heads, head_dim;
    const char *template_sha256, *tokenizer_sha256, *facts; /* facts: JSON */
} fb_store_model;

typedef struct fb_store_task {
    const char *name;
    int64_t version;
    const char *params, *metric, *unit,
        *data_sha256; /* params: JSON; data: NULL if none */
    bool lower_is_better;
    double margin; /* smallest difference that matters, in the unit */
} fb_store_task;

typedef struct fb_store_sample {
    int64_t task;            /* id */
    const char *key, *group; /* group NULL: a document of its own */
    int64_t context_tokens, question_tokens, cut_tokens;
    const char *tokens_sha256;
    const char *context, *question, *expected; /* NULL under --no-prompts */
    double depth;                              /* -1: does not apply */
    int64_t length;                            /* 0: does not apply */
    const char *needle;     /* JSON [[first token, one past], ...] or NULL */
    const char *token_text; /* JSON list of the context's token texts, or NULL */
} fb_store_sample;

typedef struct fb_store_rule {
    const char *label, *expression, *family, *origin, *source_sha256, *about;
    int64_t abi, state_bytes;
    bool deployable, accounted, is_random, is_reference;
} fb_store_rule;

typedef struct fb_store_budget {
    const char *asked, *kind, *value; /* "20%", "ratio", "0.2"; full: kind "full" */
} fb_store_budget;

/* The rows that are put in between are stored together, when `status` is FB_OK, or not
 * at all. Other processes wait meanwhile. Cells and reading bring transactions of their
 * own and do not go in between. */
FB_MUST_USE fb_status fb_store_begin(fb_store *store);
FB_MUST_USE fb_status fb_store_end(fb_store *store, fb_status status);

FB_MUST_USE fb_status fb_store_put_experiment(fb_store *store,
                                              const fb_store_experiment *row,
                                              int64_t *id_out);
FB_MUST_USE fb_status fb_store_put_host(fb_store *store, const char *sha256,
                                        const char *description, int64_t *id_out);
FB_MUST_USE fb_status fb_store_put_model(fb_store *store, const fb_store_model *row,
                                         int64_t *id_out);
FB_MUST_USE fb_status fb_store_put_task(fb_store *store, const fb_store_task *row,
                                        int64_t *id_out);
FB_MUST_USE fb_status fb_store_put_sample(fb_store *store, const fb_store_sample *row,
                                          int64_t *id_out);
FB_MUST_USE fb_status fb_store_put_rule(fb_store *store, const fb_store_rule *row,
                                        int64_t *id_out);
FB_MUST_USE fb_status fb_store_put_budget(fb_store *store, const fb_store_budget *row,
                                          int64_t *id_out);
FB_MUST_USE fb_status fb_store_put_note(fb_store *store, int64_t experiment,
                                        int64_t cell, const char *level,
                                        const char *text); /* cell 0: none */
/* Drops the notes of an experiment of this level that are about no single cell. */
FB_MUST_USE fb_status fb_store_drop_notes(fb_store *store, int64_t experiment,
                                          const char *level);

typedef struct fb_store_score {
    const char *metric;
    double value;
} fb_store_score;

typedef struct fb_store_count { /* of the ledger */
    const char *phase, *scope, *op;
    int64_t calls;
    double flops, bytes;
} fb_store_count;

typedef struct fb_store_peak {
    const char *phase, *account;
    int64_t peak_bytes;
} fb_store_peak;

typedef struct fb_store_time {
    const char *phase;
    int64_t ns;
    bool shared; /* by several cells */
} fb_store_time;

typedef struct fb_store_kept {
    int64_t layer, kv_head, n;
    const int32_t *position; /* ascending; stored as varint differences */
} fb_store_kept;

typedef struct fb_store_cell {
    int64_t experiment, model, sample, rule, budget, host; /* ids */
    int64_t seed;                                          /* 0: nothing random */
    const char *status, *reason; /* "done", "failed", "refused"; NULL */
    int64_t full_entries, budget_bytes, budget_entries, kept_entries, kept_bytes;
    int64_t state_bytes, peak_bytes, tail_bytes, evicted, free_choices;
    bool fallback, shrunk;
    const char *answer;        /* text; NULL under --no-prompts */
    const char *answer_tokens; /* JSON list of ids */
    const char *stop;
    const char *cache_sha256, *trace_context, *trace_answer, *trace_decode,
        *kept_sha256;
    const char *digest;
    /* What reading the context with a full cache takes, of which a quota is a share; what the
     * rule caused, by the prices of a kernel that keeps no attention; and what the first
     * token of an answer took; NAN: unknown, which is NULL in the file. */
    double plain_flops, fused_flops, step_flops, step_bytes;
    const fb_store_score *scores;
    const fb_store_count *counts;
    const fb_store_peak *peaks;
    const fb_store_time *times;
    const fb_store_kept *kept;
    int n_scores, n_counts, n_peaks, n_times, n_kept;
} fb_store_cell;

/* Writes a cell with its children in one transaction; a cell of the same identity that
 * failed before is replaced, a done one is left and FB_DEFECT returned. */
FB_MUST_USE fb_status fb_store_put_cell(fb_store *store, const fb_store_cell *cell);
/* True if that cell is there and done. */
FB_MUST_USE fb_status fb_store_has_cell(fb_store *store, const fb_store_cell *identity,
                                        bool *out);
/* Takes a cell of this row id away, its children with it: it is open again. */
FB_MUST_USE fb_status fb_store_drop_cell(fb_store *store, int64_t id);
/* Takes the place of the one before, if there is another. */
FB_MUST_USE fb_status fb_store_put_certificate(fb_store *store, int64_t experiment,
                                               const char *body, const char *sha256);
/* Cells come or go: what was said of all of them holds no longer, and the class is open
 * for this reason until somebody says otherwise. */
FB_MUST_USE fb_status fb_store_reopen(fb_store *store, int64_t experiment,
                                      const char *reason);
FB_MUST_USE fb_status fb_store_put_class(fb_store *store, int64_t experiment,
                                         const char *class_name, const char *reasons);

typedef struct fb_store_verification { /* of the newest certificate */
    int64_t host;                      /* id */
    int64_t cells, equal;              /* run again, with the same result */
    const char *details;               /* JSON or NULL */
} fb_store_verification;

/* FB_NOT_FOUND if the experiment has no certificate. */
FB_MUST_USE fb_status fb_store_put_verification(fb_store *store, int64_t experiment,
                                                const fb_store_verification *row);
/* SHA-256 over the sorted digests of all done cells: the experiment's digest. */
FB_MUST_USE fb_status fb_store_digest(fb_store *store, int64_t experiment,
                                      char out[FB_HASH_HEX]);

/* --- reading ---
 * Everything of one experiment, as arrays owned by the result; indices instead of row
 * ids. */

typedef struct fb_result_task {
    /* What it is called: its kind, and where several tasks of an experiment have one
     * kind, the parameters in which they differ: "recall:pairs=10". */
    const char *name;
    const char *kind, *metric, *unit, *params, *data_sha256; /* the last two or NULL */
    int64_t version;
    bool lower_is_better;
    double margin;
} fb_result_task;

typedef struct fb_result_sample {
    int task; /* index */
    const char *key, *group, *context, *question, *expected, *needle, *token_text;
    const char *tokens_sha256;
    int64_t context_tokens, question_tokens, cut_tokens, length;
    double depth;
} fb_result_sample;

typedef struct fb_result_rule {
    const char *label, *expression, *family;
    const char *about; /* a line for each rule of the expression; NULL: not said */
    bool deployable, accounted, is_random, is_reference;
} fb_result_rule;

typedef struct fb_result_cell {
    int sample, rule, budget; /* indices; budget of `full`: -1 */
    int64_t id, seed;
    const char *status, *reason, *answer, *answer_tokens, *stop, *digest;
    const char *cache_sha256, *kept_sha256;
    const char *trace_context, *trace_answer, *trace_decode;
    int64_t full_entries, budget_bytes, budget_entries, kept_entries, kept_bytes;
    int64_t state_bytes, peak_bytes, tail_bytes, evicted, free_choices;
    bool fallback, shrunk;
    double plain_flops, fused_flops, step_flops, step_bytes; /* NAN: unknown */
    const fb_store_score *scores;                            /* [n_scores] */
    int n_scores;
} fb_result_cell;

typedef struct fb_results {
    int64_t experiment; /* row id */
    const char *name, *question, *spec, *spec_sha256, *class_name, *class_reasons;
    const char *program, *created, *baseline, *host;
    const char *kernel, *protocol, *protection, *compute; /* NULL where unknown */
    const char *certificate;                              /* JSON or NULL */
    const char *certificate_sha256;                       /* as stored; NULL: none */
    /* Of the last `verify` of this certificate: cells run again, and equal; verified: when,
     * NULL: never. */
    const char *verified;
    int64_t n_verified, n_verified_equal;
    int64_t planned; /* cells, once all are done; 0: unknown */
    char digest[FB_HASH_HEX];
    fb_store_model model;
    const fb_result_task
        *tasks; /* as the spec lists them; rules and budgets likewise */
    const fb_result_sample *samples; /* of one task behind each other, by key */
    const fb_result_rule *rules;
    const fb_store_budget *budgets; /* without that of `full` */
    const fb_result_cell *cells;    /* sorted by (sample, rule, budget, seed) */
    const char *const *notes;       /* "warning: ...", "note: ..." */
    int n_tasks, n_samples, n_rules, n_budgets, n_cells, n_notes;
    void *owner; /* of all of the above: for fb_results_free alone */
} fb_results;

/* The spec hash of the experiment with this name, or whose hash begins so; of the newest
 * for NULL. `n_out`: how many there are in the file. FB_NOT_FOUND if there is none,
 * FB_USAGE if there are several: both name what there is. */
FB_MUST_USE fb_status fb_store_find(fb_store *store, const char *asked,
                                    char sha256_out[FB_HASH_HEX], int *n_out);
/* The experiment with this spec hash, or the only (else the last) one for NULL. */
FB_MUST_USE fb_status fb_store_read(fb_store *store, const char *spec_sha256,
                                    const fb_results **out);
/* What is stored is not what was certified: as if there were no certificate, and the class
 * is open, for this reason. Of what was read; the file stays as it is. */
FB_MUST_USE fb_status fb_results_disown(const fb_results *results, const char *reason);
void fb_results_free(const fb_results *results); /* takes NULL */
/* Whether it ran to its end; otherwise it failed or was refused. */
bool fb_result_is_done(const fb_result_cell *cell);
/* Value of a metric of a cell; false if the cell has none. */
bool fb_result_score(const fb_result_cell *cell, const char *metric, double *out);

/* The descriptions of the hosts of an experiment's cells, JSON, with commas between. */
FB_MUST_USE fb_status fb_store_add_hosts(fb_store *store, int64_t experiment,
                                         fb_text *out);

/* Children of a cell that only some readers want; free with fb_free. */
FB_MUST_USE fb_status fb_store_read_counts(fb_store *store, int64_t cell,
                                           fb_store_count **out, int *n_out);
/* By phase, then account. */
FB_MUST_USE fb_status fb_store_read_peaks(fb_store *store, int64_t cell,
                                          fb_store_peak **out, int *n_out);
FB_MUST_USE fb_status fb_store_read_kept(fb_store *store, int64_t cell,
                                         fb_store_kept **out, int *n_out);

#endif
