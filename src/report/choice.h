/* choice.h - which rule at which budget, under limits of memory, compute, time and quality.
 *
 * The decision alone, without words: a pure function of the rows of an analysis. Every
 * number is one of a row (or of a pair of rows, compared as tables compare theirs), so
 * that `compare` shows where it comes from.
 *
 * 1. A candidate is a deployable rule at a budget, or one that keeps its whole cache. It
 *    needs a row in every task; a rule without any choice is none.
 * 2. It is over a limit, or below the least quality, if it is so in any task.
 * 3. Quality is what is left of the full cache's, by the end of the interval that is
 *    against the rule (or by the mean). Where tasks have one unit the worst one counts;
 *    where they do not, the worst place among all candidates: nothing is averaged.
 * 4. With a least quality the fewest bytes that keep it are wanted; without one, the most
 *    quality. Among candidates that are as good as the best one (the interval of the
 *    paired difference says that no more than the margin is lost, in every task) the one
 *    with the fewest bytes, then the least extra work, then the first name is chosen.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_CHOICE_H
#define FB_REPORT_CHOICE_H

#include "report/analysis.h"

typedef enum fb_limit {
    FB_LIMIT_memory,
    FB_LIMIT_compute,
    FB_LIMIT_time,
    FB_LIMIT_quality,
    FB_LIMIT_COUNT,
} fb_limit;

/* NAN: no limit. */
typedef struct fb_limits {
    double kv_bytes;  /* of keys and values: at the peak, or what stays */
    bool is_resident; /* what stays */
    double extra;    /* FLOPs in a fused kernel, as a share of the plain context pass */
    double seconds;  /* for each token of an answer, of `time` */
    double keep;     /* least share of the full cache's quality; tasks of scores */
    double lose;     /* most that may be lost, in the unit; tasks of losses */
    bool by_mean;    /* quality by its mean, not by the end of the interval */
    int64_t context; /* bytes are those of so many tokens; 0: as measured */
    /* Seconds of a device for FLOPs and bytes that it moves; NULL: not asked for. */
    double (*time)(const void *device, double flops, double bytes);
    const void *device;
    /* Whether "rule", "task" or "budget" of this name is looked at; NULL: all are. */
    bool (*passes)(const void *filter, const char *key, const char *value);
    const void *filter;
} fb_limits;

/* Why a rule is no candidate. */
typedef enum fb_left_out {
    FB_LEFT_not,
    FB_LEFT_ahead,     /* has seen what comes after the text */
    FB_LEFT_simulated, /* held more bytes than it is said to keep */
    FB_LEFT_no_choice, /* had no entry to choose */
    FB_LEFT_missing,   /* has no finished cell in some task */
} fb_left_out;

/* Against the one that is chosen. */
typedef enum fb_tie {
    FB_TIE_apart,
    FB_TIE_open, /* not told apart in any task */
    FB_TIE_same, /* as good: within the margin in every task */
} fb_tie;

typedef struct fb_candidate {
    int rule, budget; /* budget -1: its whole cache */
    fb_left_out left;
    unsigned over;  /* bits 1 << fb_limit */
    double granted; /* bytes of its budget; of a whole cache those that stay */
    /* The most in any task, of all of them: */
    double held_bytes, peak_bytes, tail_bytes, extra, seconds;
    double badness; /* of the task that decides; what it counts is fb_choice.scale */
    int decides;    /* index into fb_choice.tasks */
    double excess;  /* of the limit that it misses most, as a share; 0: fits */
    fb_limit misses;
    fb_tie tie;
} fb_candidate;

/* What quality of several tasks is compared by. */
typedef enum fb_choice_scale {
    FB_SCALE_share, /* of the full cache's quality */
    FB_SCALE_lost,  /* against the full cache, in one unit */
    FB_SCALE_value, /* one task, and nothing known of the full cache */
    FB_SCALE_place, /* among the candidates: 1 is the best */
} fb_choice_scale;

enum { FB_CHOICE_TASKS = 64 };

typedef struct fb_choice {
    const fb_analysis *analysis; /* lent */
    fb_limits limits;
    int tasks[FB_CHOICE_TASKS]; /* [n_tasks], indices into results.tasks */
    int n_tasks;
    int floors[FB_CHOICE_TASKS]; /* [n_floors], tasks in which the full cache scores
                                    nothing: not looked at */
    int n_floors;
    fb_choice_scale scale;
    fb_candidate *all; /* the best first, those that are left out last */
    int n, n_fit;      /* n_fit: those within all limits; they come first */
    int best;          /* index into `all`; -1: nothing fits */
    int chosen;        /* likewise: `best`, or what is as good and costs less */
    int nearest; /* if nothing fits: misses its limits by least; -1: no candidate */
} fb_choice;

/* FB_USAGE where a limit has no meaning here, or what it limits is not known of any
 * candidate; FB_NOT_FOUND if there is no candidate at all. */
FB_MUST_USE fb_status fb_choose(fb_choice **out, const fb_analysis *analysis,
                                const fb_limits *limits);
void fb_choice_free(fb_choice *choice); /* takes NULL */

/* The row of a candidate in a task of the choice and the table that it stands in (of a
 * whole cache, the one with most samples); NULL if it has none. */
const fb_row *fb_choice_row(const fb_choice *choice, const fb_candidate *candidate,
                            int task, const fb_table **table_out);
/* What the limit of memory counts. */
double fb_choice_bytes(const fb_choice *choice, const fb_candidate *candidate);

/* What only the caller knows; NULL: not said. */
typedef struct fb_choice_words {
    const char *peer;        /* the settings of kvpress, or why there are none */
    const char *peer_notes;  /* in what these are run otherwise there: a line each */
    const char *next;        /* a command to go on with */
    const char *device;      /* that times are modelled for */
    bool is_measured;        /* how fast it is; else a person wrote that down */
    int n_rules, n_untested; /* of the rules that the program knows, those not here */
} fb_choice_words;

/* As text or JSON, to a fresh string. */
FB_MUST_USE fb_status fb_choice_print(const fb_choice *choice,
                                      const fb_choice_words *words, bool is_json,
                                      char **out);

#endif
