/* planted_choice.h - planted results whose best choice is known, for tests of the choice.
 *
 * Sixteen documents, the full cache scores 80 points in the mean. A rule keeps a share of
 * each document's score, less something that comes and goes with the documents.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_PLANTED_CHOICE_H
#define TESTS_SUPPORT_PLANTED_CHOICE_H

#include "report/choice.h"
#include "tests/support/analysed.h"

#define NONE ((double)NAN)

enum { DOCUMENTS = 16, FULL_BYTES = 256000, AT_20 = 51200, AT_50 = 128000 };

/* What is planted of a rule, by budget (20 %, 50 %). */
struct planted {
    const char *label;
    double share[2][2]; /* by task */
    double wobble;      /* points up and down, by document */
    double fused;       /* share of the context pass, which has 2000 FLOPs */
};

static const struct planted rules_of_points[] = {
    {"full", {{1, 1}, {1, 1}}, 0, 0},
    {"oracle", {{1, 1}, {1, 1}}, 0, 0},
    {"random", {{0.3, 0.5}, {0.3, 0.5}}, 1, 0},
    {"strong", {{0.90, 0.97}, {0.60, 0.70}}, 1, 0.30},
    {"even", {{0.85, 0.95}, {0.85, 0.95}}, 1, 0.02},
    {"cheap", {{0.849, 0.949}, {0.849, 0.949}}, 1, 0.01},
    {"unsteady", {{0.80, 0.93}, {0.80, 0.93}}, 40, 0.01},
};
enum { N_POINTS = sizeof rules_of_points / sizeof *rules_of_points };

static inline double points_of_full(int document)
{
    return 80 + 4 * (document % 4) - 6;
}

static inline double planted_value(const struct results_trial *trial, int task,
                                   int rule, int budget, int document)
{
    const struct planted *p = (const struct planted *)trial->self + rule;
    const double full = points_of_full(document);

    return p->share[task][results_is_whole(p->label) ? 0 : budget] * full +
           (document % 2 == 0 ? p->wobble : -p->wobble);
}

static inline void planted_shape(const struct results_trial *trial, int rule,
                                 int budget, fb_store_cell *cell)
{
    const struct planted *p = (const struct planted *)trial->self + rule;

    (void)budget;
    cell->fused_flops = 2000 * p->fused;
    cell->step_flops = 1000;
    cell->step_bytes = (double)cell->kept_bytes;
    if (cell->evicted > 0) cell->peak_bytes = FULL_BYTES + cell->kept_bytes;
}

static const struct results_trial points = {.tasks = tasks,
                                            .rules = NULL,
                                            .budgets = budgets,
                                            .n_tasks = 1,
                                            .n_rules = N_POINTS,
                                            .n_budgets = 2,
                                            .n_documents = DOCUMENTS,
                                            .metric = "f1",
                                            .baseline = "random",
                                            .higher_is_better = true,
                                            .value = planted_value,
                                            .self = rules_of_points,
                                            .shape = planted_shape};

static const fb_limits unlimited = {.kv_bytes = (double)NAN,
                                    .extra = (double)NAN,
                                    .seconds = (double)NAN,
                                    .keep = (double)NAN,
                                    .lose = (double)NAN};

/* The trial with its labels, written; `trial` may be changed before. */
static inline void put(struct fixture *f, struct results_trial trial)
{
    const char *names[N_POINTS];

    for (int r = 0; r < trial.n_rules; r++)
        names[r] = ((const struct planted *)trial.self)[r].label;
    trial.rules = names;
    results_put_trial(f->store, &trial);
}

static inline void plant(struct fixture *f, int n_tasks)
{
    struct results_trial trial = points;

    trial.n_tasks = n_tasks;
    put(f, trial);
    analyse(f);
}

static inline const fb_candidate *find(const fb_choice *choice, const char *label,
                                       int budget)
{
    for (int i = 0; i < choice->n; i++)
        if (strcmp(choice->analysis->results->rules[choice->all[i].rule].label,
                   label) == 0 &&
            choice->all[i].budget == budget)
            return &choice->all[i];
    fail_msg("no candidate '%s'", label);
    return NULL;
}

/* "even at 1", by the index of the budget. */
static inline void assert_is(const fb_choice *choice, int at, const char *label,
                             int budget)
{
    assert_true(at >= 0 && at < choice->n);
    assert_string_equal(choice->analysis->results->rules[choice->all[at].rule].label,
                        label);
    assert_int_equal(choice->all[at].budget, budget);
}

static inline void assert_chooses(const struct fixture *f, const fb_limits *limits,
                                  const char *label, int budget)
{
    fb_choice *choice;

    assert_ok(fb_choose(&choice, f->analysis, limits));
    assert_is(choice, choice->chosen, label, budget);
    fb_choice_free(choice);
}

static inline fb_limits resident(double bytes)
{
    fb_limits limits = unlimited;

    limits.kv_bytes = bytes;
    limits.is_resident = true;
    return limits;
}

static inline fb_limits least(double share, bool by_mean)
{
    fb_limits limits = unlimited;

    limits.keep = share;
    limits.by_mean = by_mean;
    return limits;
}

#endif
