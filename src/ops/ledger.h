/* ledger.h - every operator call, counted: calls, FLOPs, bytes, by phase and scope.
 *
 * A ledger belongs to one piece of work (a context pass, a rule's score, a cell). A
 * cell's ledger is the sum of what it would have cost alone, to the last bit: how many
 * rules read the same context and how many cells share a batch does not enter.
 *
 * Nobody pays for what no rule can change: the full cache's own answer with its logits,
 * which all are compared with, what it looked at (`oracle` is told, it does not
 * compute), checksums of the cache, and memory that is cleared or cut to hand a rule
 * the signals it asked for.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_LEDGER_H
#define FB_OPS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum fb_op {
#define FB_OP(name, aten, flops, from_c) FB_OP_##name,
#include "ops/list.h"
#undef FB_OP
    FB_OP_COUNT
};

/* Who asked for the work. */
typedef enum fb_scope {
    FB_SCOPE_model,     /* everything of the network but attention */
    FB_SCOPE_attention, /* the one kernel, and moving keys and values */
    FB_SCOPE_signal,    /* reductions of P for rules */
    FB_SCOPE_score,     /* formulas of rules */
    FB_SCOPE_select,    /* allocation and top-k */
    FB_SCOPE_measure,   /* NLL, KL, arg max */
    FB_SCOPE_COUNT
} fb_scope;

typedef enum fb_phase {
    FB_PHASE_context, /* reading the context */
    FB_PHASE_evict,   /* scoring, selecting, moving */
    FB_PHASE_answer,  /* question and teacher-forced answer */
    FB_PHASE_decode,  /* free answer */
    FB_PHASE_COUNT
} fb_phase;

typedef struct fb_count {
    int64_t calls;
    double flops, bytes; /* whole numbers, as doubles: they are large */
} fb_count;

typedef struct fb_ledger {
    fb_count count[FB_PHASE_COUNT][FB_SCOPE_COUNT][FB_OP_COUNT];
    /* What a kernel that keeps no attention would have to compute again, since there is
     * nothing to reduce, in FLOPs: for sums over queries, and for rows. A price, no work
     * that was done, so it is in no count. */
    double again_sums, again_rows;
} fb_ledger;

const char *fb_op_name(enum fb_op op);
const char *fb_op_aten(enum fb_op op);
double fb_op_flops(enum fb_op op); /* per unit of work */
const char *fb_scope_name(fb_scope scope);
const char *fb_phase_name(fb_phase phase);

void fb_ledger_add(fb_ledger *to, const fb_ledger *from);
/* All of `from` as work of one phase and scope. */
void fb_ledger_add_as(fb_ledger *to, fb_phase phase, fb_scope scope,
                      const fb_ledger *from);
bool fb_ledger_equal(const fb_ledger *a, const fb_ledger *b);
fb_count fb_ledger_total(const fb_ledger *ledger, fb_phase phase, fb_scope scope);
/* FLOPs that a rule asked for, signals, scores and selection, in all phases: the `open`
 * price. */
double fb_ledger_open(const fb_ledger *ledger);
/* The same with what a fused kernel would compute again. Rows of a text are among those
 * that its sums are over, so only the larger of the two is. */
double fb_ledger_fused(const fb_ledger *ledger);
/* FLOPs of the pass over the context without what rules asked for. */
double fb_ledger_plain(const fb_ledger *ledger);

#endif
