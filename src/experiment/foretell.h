/* foretell.h - what a cell will be charged and what memory it will take, without computing
 * it: the same engine on operators without numbers (fb_ops_open_hollow).
 *
 * The ledger is that of the cell run alone, to the last count, as far as shapes decide. Where
 * scores decide (how many entries an allocation gives each head, which whole pieces a rule
 * keeps, when a free answer ends) it is that of one possible outcome: all entries that the
 * budget has, an answer of full length.
 *
 * A call takes milliseconds for a small model, some seconds for a large one with a long
 * context. It resets the peaks of base/memory.h: not beside a run, one at a time.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_FORETELL_H
#define FB_EXPERIMENT_FORETELL_H

#include "engine/engine.h"

/* A cell: a rule on a context. Only what has no other note must be set. */
typedef struct fb_foretell {
    const fb_model *model;     /* lent; its weights need not be loaded */
    const fb_bound_rule *rule; /* lent; NULL: nothing but the context is read */
    int64_t n_tokens;          /* of the context */
    /* Entries a head that stay, as a budget gives them. 0: all stay, and what eviction would
     * cost is not counted, only what the rule does while the context is read. */
    int64_t k;
    fb_engine_options engine; /* cache type, chunk, compact; zeroed: the defaults */
    fb_protect protect;       /* zeroed: FB_PROTECT_EXPERIMENT of no entries */
    int64_t protect_last;     /* tokens of a question in the context */
    bool streams;             /* the context is read under the budget */
    /* Of a stream. Its k is the one above, less what the rule's state takes where it is
     * paid. */
    fb_pace pace;
    /* Tokens of the question, of its reference and of a free answer. No question: nothing
     * is answered. No reference or no free answer: only the other. */
    int64_t n_prompt, n_answer, max_tokens;
    int threads; /* of the native backend, for the memory they take; 0: as many as there */
    /* Others that are scored in the same reading, as a run reads a context once for all its
     * rules; lent. They change peaks, no ledger. */
    const fb_bound_rule *const *company;
    int n_company;
} fb_foretell;

typedef struct fb_foretold {
    fb_ledger ledger; /* of the whole cell */
    /* FLOPs of the plain pass over the context with a full cache: phase context, scopes
     * model and attention. The same for all rules and protocols. */
    double plain_flops;
    size_t kept_bytes; /* fb_variant_bytes */
    size_t tail_bytes; /* of question and answer */
    /* Highest bytes by phase, as of the ledger, beyond what was in use before the call, with
     * weights and what earlier phases left. Once entries are in a cache of the cell's own,
     * the full cache, which a run keeps for its other cells, is no part of it; a stream
     * never has one. */
    size_t peak[FB_PHASE_COUNT][FB_ACCOUNT_COUNT];
    bool has[FB_PHASE_COUNT]; /* the cell comes through this phase */
} fb_foretold;

/* Fails as the run of the cell would: FB_BUDGET, FB_UNSUPPORTED, FB_USAGE. */
FB_MUST_USE fb_status fb_foretell_cell(fb_foretold *out, const fb_foretell *cell);

/* The sum of a phase's accounts. */
double fb_foretold_peak(const fb_foretold *foretold, fb_phase phase);

#endif
