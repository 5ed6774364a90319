/* bench.h - speed and memory of real decoding under a budget, on this machine.
 *
 * The engine, its arena and its kernel are those of an experiment; but every rule reads the
 * context by itself, and every variant answers alone, from an arena of its own bytes: what
 * a deployment of just that rule would do. No mask, no batch, no shared signal.
 *
 * One *arm* is a rule at a budget. In a repetition each rule reads the context once, in an
 * order drawn anew, and its budgets follow in an order drawn anew: evict, answer, free. A
 * look at the device's speed stands before each repetition. Answers go on past end tokens,
 * so that all are equally long.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_BENCH_H
#define FB_EXPERIMENT_BENCH_H

#include "experiment/disturb.h"
#include "experiment/profile.h"
#include "model/model.h"
#include "spec/spec.h"
#include "stats/stats.h"

#include <signal.h>

enum { FB_BENCH_MOST_REPETITIONS = 10000, FB_BENCH_DEVICE = 6 };

/* What is timed, each by itself, once per repetition. */
typedef enum fb_bench_what {
    FB_BENCH_READ,  /* the context, without scoring */
    FB_BENCH_EVICT, /* scoring, selecting, moving */
    FB_BENCH_FIRST, /* from a cache that is there to the first token */
    FB_BENCH_TOKEN, /* each further token, in the mean of the answer */
    FB_BENCH_WHATS
} fb_bench_what;
extern const char *const fb_bench_names[FB_BENCH_WHATS]; /* "read", "evict", ... */

/* Phases by which memory is looked at. */
enum { FB_BENCH_PHASES = 3 };
extern const char *const fb_bench_phases[FB_BENCH_PHASES]; /* read, evict, answer */

typedef struct fb_bench_arm {
    int rule;       /* of the spec */
    int budget;     /* of the spec; -1: everything stays */
    int64_t k;      /* entries per head */
    int versus;     /* the arm it is compared with; -1: itself or none */
    bool holds_all; /* a budget that is no less than the context */

    double *seconds[FB_BENCH_WHATS]; /* [repetitions] each */
    double *steps;                   /* [repetitions][answer - 1] seconds of a token */

    /* Of the last repetition; the same in all of them. */
    fb_ledger ledger;  /* reading, evicting, answering, as if alone */
    size_t kept_bytes; /* of its arena; of `full`, of the context's cache */
    size_t tail_bytes; /* for prompt and answer, beside the budget */
    size_t held_bytes; /* of keys and values at most while it answered, measured,
                            without the context's cache that it was moved from */
    size_t peak[FB_BENCH_PHASES][FB_ACCOUNT_COUNT]; /* measured, of all there is */
} fb_bench_arm;

typedef struct fb_bench_options {
    int64_t context, answer; /* tokens; answer at least 2 */
    int repetitions, warmup;
    int64_t limit_ns; /* of repetitions, looks at the device aside; 0: none */
    const char *text; /* of the context; NULL: a book of the program's */
    size_t n_text;
    int64_t memory;       /* bytes the process may use; 0: 80 % of what is free */
    const char *baseline; /* label of a rule; NULL: `full`, else the first */
    bool measures_device; /* the profile is made between the repetitions */
    const volatile sig_atomic_t *stop; /* set: end with what is there; or NULL */
    /* Told before each repetition (from 0, warm-up first); NULL: nobody looks. */
    void (*watch)(void *self, int repetition, int of);
    void *self;
} fb_bench_options;

typedef struct fb_bench {
    const fb_spec *spec;   /* lent */
    const fb_model *model; /* lent */
    fb_bench_options options;
    fb_cache_shape shape;
    fb_ids ids; /* the context, and the one token that the answer goes on from */
    fb_bench_arm *arms;
    int n_arms;
    int n;       /* repetitions that are whole */
    int warmups; /* that were done */
    bool is_cut; /* there was no time for all that was asked */
    int *order;  /* [repetitions asked][n_arms] arms in the order they ran */
    /* [repetitions asked] of each number of a profile */
    double *device[FB_BENCH_DEVICE];
    fb_profile profile;  /* medians of these; unless it is given by the caller */
    double weight_share; /* as in profile.h */
    fb_disturbance disturbance;
    int64_t ns; /* all of it */
    int64_t
        repetitions_ns; /* of whole ones and warm-ups, without looks at the device */
} fb_bench;

/* Arms and ids; refuses what cannot be measured. The spec has passed
 * fb_spec_check_question. Cleared with fb_bench_clear in any case. */
FB_MUST_USE fb_status fb_bench_init(fb_bench *bench, const fb_spec *spec,
                                    const fb_model *model,
                                    const fb_bench_options *options);
void fb_bench_clear(fb_bench *bench);
/* FB_STOPPED: what is whole so far is in `bench`. */
FB_MUST_USE fb_status fb_bench_run(fb_bench *bench, fb_ops *ops);

/* --- what the samples say (bench_figures.c) --- */

typedef struct fb_bench_figure {
    double median;
    fb_interval interval; /* percentile bootstrap of the median */
} fb_bench_figure;

FB_MUST_USE fb_status fb_bench_figure_of(fb_bench_figure *out, const fb_bench *bench,
                                         int arm, fb_bench_what what);
/* Seconds of the arm it is compared with, by its own: paired by repetition. */
FB_MUST_USE fb_status fb_bench_ratio_of(fb_bench_figure *out, const fb_bench *bench,
                                        int arm, fb_bench_what what);
double fb_bench_modelled(const fb_bench *bench, const fb_profile *profile, int arm,
                         fb_bench_what what);
/* Of one further token, in the mean of the answer. */
double fb_bench_token_bytes(const fb_bench *bench, int arm);
double fb_bench_token_flops(const fb_bench *bench, int arm);
/* Values beyond 3.5 modified z-scores, first runs that are slower, other work on the
 * machine, repetitions for which there was no time: one call of `report` each. */
FB_MUST_USE fb_status fb_bench_warn(const fb_bench *bench, int threads,
                                    fb_report *report, void *self);
/* "snapkv at 10%", "full". */
void fb_bench_name(const fb_bench *bench, int arm, char *out, size_t n);

#endif
