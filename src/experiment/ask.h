/* ask.h - one question on one text, answered under several rules side by side.
 *
 * The plan is that of fb_plan_ask. Its text is read once for all rules; every variant is
 * evicted as a run would do it, and all are answered as one batch, so that they grow
 * token by token beside each other. Nothing is measured, for there is no reference, and
 * nothing is stored.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_ASK_H
#define FB_EXPERIMENT_ASK_H

#include "engine/engine.h"
#include "experiment/plan.h"

#include <signal.h>

/* What one variant has said so far. */
typedef struct fb_asked {
    const fb_cell *cell; /* rule, budget, seed */
    size_t kept_bytes;
    int64_t kept_entries, free_choices;
    bool fallback, shrunk; /* as in select.h */
    int32_t *ids;          /* [n_ids], the end token not included */
    int64_t n_ids;
    fb_text text; /* of the ids; once it is over, without its stop string */
    bool is_over;
    fb_stop stop; /* why, once it is over */
    int64_t ns;   /* from the beginning of all answers to the last step of this one */
} fb_asked;

typedef struct fb_ask {
    const fb_plan *plan; /* lent */
    fb_cell *cells;      /* [n] */
    fb_asked *answers;   /* [n] */
    int n;
    int full;                 /* the first answer of a full cache; -1: there is none */
    int64_t read, read_total; /* steps of reading the text: done, all */
    size_t full_bytes;        /* of the full cache; 0: not read yet */
    size_t window_bytes;      /* of layers with windows, which no rule evicts from */
    int64_t read_ns, answer_ns;
} fb_ask;

typedef struct fb_ask_options {
    int64_t memory; /* bytes the process may use; 0: 80 % of what is free */
    const volatile sig_atomic_t
        *stop; /* set: end at once with what is there; or NULL */
    /* Told whenever there is more of `ask` to be seen; NULL: nobody looks. */
    void (*watch)(void *self, const fb_ask *ask);
    void *self;
} fb_ask_options;

/* The answers that there will be, empty. Cleared with fb_ask_clear in any case. */
FB_MUST_USE fb_status fb_ask_init(fb_ask *ask, const fb_plan *plan);
void fb_ask_clear(fb_ask *ask);
/* Reads and answers. FB_STOPPED: what is there so far is in `ask`. FB_BUDGET, before
 * anything is computed: the answers do not fit into the memory together. */
FB_MUST_USE fb_status fb_ask_run(fb_ask *ask, fb_ops *ops,
                                 const fb_ask_options *options);

/* The first token, from 1, at which an answer differs from that of the full cache; 0:
 * none does, as far as both have got. */
int64_t fb_ask_differs(const fb_ask *ask, int answer);

#endif
