/* test_choice.c - the choice on planted results whose answer is known.
 *
 * Sixteen documents, the full cache scores 80 points in the mean. A rule keeps a share of
 * each document's score, less something that comes and goes with the documents.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
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

static double points_of_full(int document)
{
    return 80 + 4 * (document % 4) - 6;
}

static double planted_value(const struct results_trial *trial, int task, int rule,
                            int budget, int document)
{
    const struct planted *p = (const struct planted *)trial->self + rule;
    const double full = points_of_full(document);

    return p->share[task][results_is_whole(p->label) ? 0 : budget] * full +
           (document % 2 == 0 ? p->wobble : -p->wobble);
}

static void planted_shape(const struct results_trial *trial, int rule, int budget,
                          fb_store_cell *cell)
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
static void put(struct fixture *f, struct results_trial trial)
{
    const char *names[N_POINTS];

    for (int r = 0; r < trial.n_rules; r++)
        names[r] = ((const struct planted *)trial.self)[r].label;
    trial.rules = names;
    results_put_trial(f->store, &trial);
}

static void plant(struct fixture *f, int n_tasks)
{
    struct results_trial trial = points;

    trial.n_tasks = n_tasks;
    put(f, trial);
    analyse(f);
}

static const fb_candidate *find(const fb_choice *choice, const char *label, int budget)
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
static void assert_is(const fb_choice *choice, int at, const char *label, int budget)
{
    assert_true(at >= 0 && at < choice->n);
    assert_string_equal(choice->analysis->results->rules[choice->all[at].rule].label,
                        label);
    assert_int_equal(choice->all[at].budget, budget);
}

static void assert_chooses(const struct fixture *f, const fb_limits *limits,
                           const char *label, int budget)
{
    fb_choice *choice;

    assert_ok(fb_choose(&choice, f->analysis, limits));
    assert_is(choice, choice->chosen, label, budget);
    fb_choice_free(choice);
}

static fb_limits resident(double bytes)
{
    fb_limits limits = unlimited;

    limits.kv_bytes = bytes;
    limits.is_resident = true;
    return limits;
}

static fb_limits least(double share, bool by_mean)
{
    fb_limits limits = unlimited;

    limits.keep = share;
    limits.by_mean = by_mean;
    return limits;
}

/* --- one limit after the other --- */

static void what_stays_is_limited(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);

    plant(f, 1);
    assert_chooses(f, &limits, "strong", 1);
    limits = resident(AT_50 - 1);
    assert_chooses(f, &limits, "strong", 0);
    limits = resident(FULL_BYTES);
    assert_chooses(f, &limits, "full", -1);
}

/* Where a text is read at once the full cache has the least peak. */
static void the_peak_is_limited_unless_said_otherwise(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = unlimited;
    fb_choice *choice;

    plant(f, 1);
    limits.kv_bytes = FULL_BYTES + AT_20 - 1;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "full", -1);
    assert_int_equal(choice->n_fit, 1);
    assert_near(find(choice, "even", 0)->peak_bytes, FULL_BYTES + AT_20, 0);
    assert_near(find(choice, "even", 0)->held_bytes, AT_20, 0);
    assert_int_equal(find(choice, "even", 0)->over, 1u << FB_LIMIT_memory);
    fb_choice_free(choice);
}

/* "cheap" is within the margin of a point of "even", and takes less. */
static void work_is_limited_and_what_is_as_good_costs_less(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;

    plant(f, 1);
    limits.extra = 0.05;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->best, "even", 1);
    assert_is(choice, choice->chosen, "cheap", 1);
    assert_int_equal(find(choice, "even", 1)->tie, FB_TIE_same);
    assert_int_equal(find(choice, "strong", 1)->over, 1u << FB_LIMIT_compute);
    assert_near(find(choice, "strong", 1)->extra, 0.30, 1e-12);
    fb_choice_free(choice);
    limits.extra = 0.30; /* a limit may be reached */
    assert_chooses(f, &limits, "strong", 1);
}

static double slow(const void *device, double flops, double bytes)
{
    const double *rate = device;

    return fmax(flops, bytes) / *rate;
}

static void time_is_that_of_the_device(void **state)
{
    static const double rate = AT_20; /* so that 20 % take a second */
    struct fixture *f = *state;
    fb_limits limits = unlimited;
    fb_choice *choice;

    plant(f, 1);
    limits.seconds = 1.5;
    limits.time = slow;
    limits.device = &rate;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "strong", 0);
    assert_near(find(choice, "strong", 1)->seconds, 2.5, 1e-12);
    assert_int_equal(find(choice, "full", -1)->over, 1u << FB_LIMIT_time);
    fb_choice_free(choice);
}

static void price_of_even_unknown(const struct results_trial *trial, int rule,
                                  int budget, fb_store_cell *cell)
{
    planted_shape(trial, rule, budget, cell);
    if (rule == 4) cell->fused_flops = NONE;
}

static void what_is_not_known_is_over_the_limit(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;

    trial.shape = price_of_even_unknown;
    put(f, trial);
    analyse(f);
    limits.extra = 0.05;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->best, "cheap", 1);
    assert_int_equal(find(choice, "even", 1)->over, 1u << FB_LIMIT_compute);
    fb_choice_free(choice);
}

/* --- least quality --- */

static void the_fewest_bytes_that_keep_the_quality_are_chosen(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = least(0.88, true);

    plant(f, 1);
    assert_chooses(f, &limits, "strong", 0);
    limits = least(0.84, true); /* the best of those bytes, though it works more */
    assert_chooses(f, &limits, "strong", 0);
    limits.extra = 0.05;
    assert_chooses(f, &limits, "cheap", 0);
    limits = least(0.96, true);
    assert_chooses(f, &limits, "strong", 1);
    limits = least(0.98, true);
    assert_chooses(f, &limits, "full", -1);
    limits = least(1, true);
    assert_chooses(f, &limits, "full", -1);
}

/* A mean of just 0.9 has a lower end below it. */
static void the_lower_end_is_stricter_than_the_mean(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = least(0.899, true);
    fb_choice *choice;

    plant(f, 1);
    assert_chooses(f, &limits, "strong", 0);
    limits.by_mean = false;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "strong", 1);
    assert_int_equal(find(choice, "strong", 0)->over, 1u << FB_LIMIT_quality);
    fb_choice_free(choice);
}

/* --- ties --- */

/* 93 % less or more of 40 points may be 95 %, and is not shown to be. */
static void what_cannot_be_told_apart_is_no_better_choice(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;

    plant(f, 1);
    limits.extra = 0.05;
    limits.by_mean = true;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "cheap", 1);
    assert_int_equal(find(choice, "unsteady", 1)->tie, FB_TIE_open);
    assert_int_equal(find(choice, "random", 1)->tie, FB_TIE_apart);
    assert_int_equal(find(choice, "even", 0)->tie, FB_TIE_apart); /* another budget */
    assert_int_equal(find(choice, "unsteady", 0)->tie, FB_TIE_open);
    fb_choice_free(choice);
}

static const struct planted shaky[] = {
    {"full", {{1, 1}, {1, 1}}, 0, 0}, {"x", {{0, 0.9}, {0, 0}}, 0, 0.01},
    {"p", {{0.9, 0}, {0, 0}}, 0, 0},  {"q", {{0.9, 0}, {0, 0}}, 0, 0},
    {"r", {{0.9, 0}, {0, 0}}, 0, 0},
};

/* Only x at the larger budget; the others, at the smaller one, lose 3 points in 13 of 16
 * documents and win 3 in the others: p = 0.021. */
static double shaky_value(const struct results_trial *trial, int task, int rule,
                          int budget, int document)
{
    const double full = points_of_full(document);

    (void)trial, (void)task;
    if (rule == 0) return full;
    if ((rule == 1) != (budget == 1)) return NONE;
    return 0.9 * full - (rule == 1 ? 0 : document < 13 ? 3 : -3);
}

static fb_tie tie_of_shaky(struct fixture *f, int n_rules)
{
    struct results_trial trial = points;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;
    fb_tie tie;

    trial.self = shaky;
    trial.n_rules = n_rules;
    trial.value = shaky_value;
    trial.baseline = NULL;
    put(f, trial);
    analyse(f);
    limits.by_mean = true;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "x", 1);
    tie = find(choice, "p", 0)->tie;
    fb_choice_free(choice);
    return tie;
}

static void a_pair_across_budgets_may_be_told_apart(void **state)
{
    assert_int_equal(tie_of_shaky(*state, 3), FB_TIE_apart);
}

static void pairs_across_budgets_are_corrected_for_their_number(void **state)
{
    assert_int_equal(tie_of_shaky(*state, 5), FB_TIE_open);
}

static const struct planted twins[] = {
    {"full", {{1, 1}, {1, 1}}, 0, 0},          {"random", {{0.3, 0.3}, {0, 0}}, 1, 0},
    {"b", {{0.9, 0.9}, {0, 0}}, 1, 0.01},      {"a", {{0.9, 0.9}, {0, 0}}, 1, 0.01},
    {"costly", {{0.9, 0.9}, {0, 0}}, 1, 0.02},
};

/* All alike: fewer bytes, then less work, then the name. */
static void ties_are_broken_by_bytes_work_and_name(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    const fb_limits limits = resident(AT_50);
    fb_choice *choice;

    trial.self = twins;
    trial.n_rules = sizeof twins / sizeof *twins;
    put(f, trial);
    analyse(f);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "a", 0);
    assert_int_equal(find(choice, "b", 0)->tie, FB_TIE_same);
    assert_int_equal(find(choice, "costly", 1)->tie, FB_TIE_same);
    fb_choice_free(choice);
}

static const struct planted wholes[] = {
    {"full", {{1, 1}, {1, 1}}, 0, 0},
    {"quantised", {{1, 1}, {1, 1}}, 0.1, 0.03},
    {"random", {{0.3, 0.3}, {0, 0}}, 1, 0},
};

/* It says that it keeps a quarter, and its memory was that of all. */
static void quantise(const struct results_trial *trial, int rule, int budget,
                     fb_store_cell *cell)
{
    planted_shape(trial, rule, budget, cell);
    if (rule == 1) cell->kept_bytes = FULL_BYTES / 4;
}

static void a_whole_cache_is_one_candidate_unless_its_bytes_are_simulated(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    fb_limits limits = least(0.95, false);
    fb_choice *choice;

    trial.self = wholes;
    trial.n_rules = 3;
    trial.shape = quantise;
    put(f, trial);
    analyse(f);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "full", -1);
    assert_int_equal(choice->n, 4); /* random at two budgets */
    assert_near(find(choice, "full", -1)->held_bytes, FULL_BYTES, 0);
    assert_int_equal(find(choice, "quantised", -1)->left, FB_LEFT_simulated);
    fb_choice_free(choice);
}

/* --- what is no candidate --- */

static void a_rule_that_looks_ahead_is_never_chosen(void **state)
{
    struct fixture *f = *state;
    const fb_limits limits = resident(AT_50);
    fb_choice *choice;

    plant(f, 1);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    for (int b = 0; b < 2; b++)
        assert_int_equal(find(choice, "oracle", b)->left, FB_LEFT_ahead);
    for (int i = 0; i < choice->n_fit; i++)
        assert_int_equal(choice->all[i].left, FB_LEFT_not);
    fb_choice_free(choice);
}

static double half_failed(const struct results_trial *trial, int task, int rule,
                          int budget, int document)
{
    if (task == 1 && rule == 3) return NONE; /* strong */
    return planted_value(trial, task, rule, budget, document);
}

static void tight(const struct results_trial *trial, int rule, int budget,
                  fb_store_cell *cell)
{
    planted_shape(trial, rule, budget, cell);
    if (rule == 4) cell->free_choices = 0; /* even */
}

static void a_rule_needs_a_choice_and_cells_in_every_task(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    const fb_limits limits = resident(AT_50);
    fb_choice *choice;

    trial.n_tasks = 2;
    trial.value = half_failed;
    trial.shape = tight;
    put(f, trial);
    analyse(f);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->chosen, "cheap", 1);
    assert_int_equal(find(choice, "strong", 1)->left, FB_LEFT_missing);
    assert_int_equal(find(choice, "even", 1)->left, FB_LEFT_no_choice);
    fb_choice_free(choice);
}

static bool only_even(const void *filter, const char *key, const char *value)
{
    (void)filter;
    return strcmp(key, "rule") != 0 || strcmp(value, "even") == 0;
}

static void a_filter_leaves_the_others_out(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(FULL_BYTES);
    fb_choice *choice;

    plant(f, 1);
    limits.passes = only_even;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_int_equal(choice->n, 2);
    assert_is(choice, choice->chosen, "even", 1);
    fb_choice_free(choice);
}

/* --- several tasks --- */

/* "strong" keeps 97 % of one and 70 % of the other; no mean of both is taken. */
static void the_worst_task_decides(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;

    plant(f, 2);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_int_equal(choice->n_tasks, 2);
    assert_int_equal(choice->scale, FB_SCALE_share);
    assert_is(choice, choice->chosen, "cheap", 1);
    assert_string_equal(
        f->results->tasks[choice->tasks[find(choice, "strong", 1)->decides]].name,
        tasks[1]);
    fb_choice_free(choice);
    limits = least(0.80, true);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_int_equal(find(choice, "strong", 1)->over, 1u << FB_LIMIT_quality);
    assert_is(choice, choice->chosen, "cheap", 0);
    fb_choice_free(choice);
}

static double loss_value(const struct results_trial *trial, int task, int rule,
                         int budget, int document)
{
    return 1 - planted_value(trial, task, rule, budget, document) /
                   points_of_full(document);
}

/* One task in points, one in nats: `strong` is the first in one, the last but one in the
 * other. */
static void plant_two_units(struct fixture *f)
{
    struct results_trial trial = points;

    put(f, trial);
    trial.tasks = tasks + 1;
    trial.metric = "kl";
    trial.higher_is_better = false;
    trial.value = loss_value;
    put(f, trial);
    analyse(f);
}

static void of_two_units_the_worst_place_decides(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;

    plant_two_units(f);
    assert_int_equal(f->results->n_tasks, 2);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_int_equal(choice->scale, FB_SCALE_place);
    assert_near(find(choice, "full", -1)->badness, 1, 0);
    assert_near(find(choice, "strong", 1)->badness, 2, 0);
    assert_is(choice, choice->chosen, "strong", 1);
    fb_choice_free(choice);
}

static void each_unit_has_a_least_quality_of_its_own(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = least(0.80, true);

    plant_two_units(f);
    assert_int_equal(fb_choose(&(fb_choice *){NULL}, f->analysis, &limits), FB_USAGE);
    assert_non_null(strstr(fb_error_message(), "in nat, of which there is no share"));
    limits.keep = NONE;
    limits.lose = 0.1;
    assert_int_equal(fb_choose(&(fb_choice *){NULL}, f->analysis, &limits), FB_USAGE);
    assert_non_null(strstr(fb_error_message(), "--lose is for losses alone"));
    limits.keep = 0.80;
    assert_chooses(f, &limits, "strong", 1 - 1);
    limits.lose = 0.05;
    assert_chooses(f, &limits, "strong", 1);
}

/* --- nothing fits --- */

static void the_nearest_misses_its_limits_by_least(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_20 / 2.0);
    fb_choice *choice;

    plant(f, 1);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_int_equal(choice->chosen, -1);
    assert_int_equal(choice->n_fit, 0);
    assert_is(choice, choice->nearest, "strong", 0);
    assert_near(choice->all[choice->nearest].excess, 1, 1e-12);
    assert_int_equal(choice->all[choice->nearest].misses, FB_LIMIT_memory);
    fb_choice_free(choice);
    limits.extra = 0.009; /* strong, and then even, miss that by more */
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_is(choice, choice->nearest, "cheap", 0);
    fb_choice_free(choice);
}

/* --- longer contexts --- */

static void bytes_of_a_share_grow_with_the_context(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;

    plant(f, 1);
    limits.context = 1000; /* measured at 500 */
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_near(find(choice, "even", 0)->held_bytes, 2 * AT_20, 0);
    assert_near(find(choice, "even", 0)->peak_bytes, 2 * (FULL_BYTES + AT_20), 0);
    assert_near(find(choice, "full", -1)->peak_bytes, 2 * FULL_BYTES, 0);
    assert_is(choice, choice->chosen, "strong", 0);
    fb_choice_free(choice);
}

/* Twenty tokens stay twenty tokens; the text that they are chosen from grows. */
static void a_budget_in_tokens_does_not_grow(void **state)
{
    static const char *const both[] = {"20t", "50%"};
    struct fixture *f = *state;
    struct results_trial trial = points;
    fb_limits limits = resident(AT_50);
    fb_choice *choice;

    trial.budgets = both;
    put(f, trial);
    analyse(f);
    limits.context = 1000;
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_near(find(choice, "even", 0)->held_bytes, AT_20, 0);
    assert_near(find(choice, "even", 0)->granted, AT_20, 0);
    assert_near(find(choice, "even", 0)->peak_bytes, 2 * FULL_BYTES + AT_20, 0);
    assert_near(find(choice, "even", 1)->held_bytes, 2 * AT_50, 0);
    fb_choice_free(choice);
}

/* --- what has no meaning --- */

static void assert_refused(const struct fixture *f, const fb_limits *limits,
                           fb_status status, const char *words)
{
    fb_choice *choice;

    assert_int_equal(fb_choose(&choice, f->analysis, limits), status);
    assert_null(choice);
    if (strstr(fb_error_message(), words) == NULL)
        fail_msg("no '%s' in: %s", words, fb_error_message());
}

static void price_unknown(const struct results_trial *trial, int rule, int budget,
                          fb_store_cell *cell)
{
    (void)trial, (void)rule, (void)budget;
    cell->fused_flops = cell->step_flops = cell->step_bytes = NONE;
}

static bool none(const void *filter, const char *key, const char *value)
{
    (void)filter, (void)key, (void)value;
    return false;
}

static void limits_that_have_no_meaning_are_refused(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    fb_limits limits = unlimited;

    trial.shape = price_unknown;
    put(f, trial);
    analyse(f);
    assert_refused(f, &limits, FB_USAGE, "nothing limits the choice");
    limits.extra = 0.1;
    assert_refused(f, &limits, FB_USAGE, "--extra-compute cannot be checked");
    limits = unlimited;
    limits.seconds = 0.1;
    limits.time = slow;
    limits.device = &limits.seconds;
    assert_refused(f, &limits, FB_USAGE, "--answer-time cannot be checked");
    limits = resident(AT_50);
    limits.passes = none;
    assert_refused(f, &limits, FB_NOT_FOUND, "no task of these results passes --only");
}

static void without_the_full_cache_no_share_is_known(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    fb_limits limits = least(0.5, true);
    fb_choice *choice;

    trial.self = rules_of_points + 1;
    trial.n_rules--;
    put(f, trial);
    analyse(f);
    assert_refused(f, &limits, FB_USAGE, "'full' has no finished cell on 'needle'");
    limits = resident(AT_50);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_int_equal(choice->scale, FB_SCALE_value);
    assert_is(choice, choice->chosen, "strong", 1);
    fb_choice_free(choice);
}

static double floor_value(const struct results_trial *trial, int task, int rule,
                          int budget, int document)
{
    return task == 1 ? 0 : planted_value(trial, task, rule, budget, document);
}

static void a_task_that_the_model_cannot_do_is_left_out(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    const fb_limits limits = least(0.5, true);
    fb_choice *choice;

    trial.n_tasks = 2;
    trial.value = floor_value;
    put(f, trial);
    analyse(f);
    assert_ok(fb_choose(&choice, f->analysis, &limits));
    assert_int_equal(choice->n_tasks, 1);
    assert_int_equal(choice->n_floors, 1);
    assert_is(choice, choice->chosen, "strong", 0);
    fb_choice_free(choice);
}

/* --- words --- */

static char *print(const struct fixture *f, const fb_limits *limits,
                   const fb_choice_words *words, bool is_json)
{
    fb_choice *choice;
    char *text;

    assert_ok(fb_choose(&choice, f->analysis, limits));
    assert_ok(fb_choice_print(choice, words, is_json, &text));
    fb_choice_free(choice);
    return text;
}

static void assert_says(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) fail_msg("no '%s' in:\n%s", words, text);
}

static void the_sentence_says_what_to_use_and_what_it_takes(void **state)
{
    static const fb_choice_words words = {.peer = "APress()",
                                          .peer_notes =
                                              "other entries stay\nanother note\n",
                                          .next = "go on",
                                          .n_rules = 70,
                                          .n_untested = 64};
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    char *text;

    plant(f, 1);
    limits.extra = 0.05;
    text = print(f, &limits, &words, false);
    assert_int_equal(
        strncmp(text, "Use cheap at 50 %: 95 % of the full cache's f1 (", 48), 0);
    assert_says(text,
                "; 125 KiB stay, 375 KiB while\nthey are chosen, +1.0 % FLOPs in a "
                "fused kernel. It is as good as even at 50 % and takes less.\n");
    assert_says(text, "\nas good, within the margin: even at 50 % (125 KiB)\n");
    assert_says(text, "\nnot told apart from it: unsteady at 50 % (125 KiB)");
    assert_says(text, "\nover 125 KiB: full (250 KiB)\n");
    assert_says(text, "\nover +5.0 % FLOPs: strong at 50 % (+30.0 %), strong at 20 % "
                      "(+30.0 %)\n");
    assert_says(text, "since they have seen what comes after the text: oracle\n");
    assert_says(text, "\nnot tested here: 64 of the 70 rules that there are\n");
    assert_says(text, "\nin kvpress: APress()\nother entries stay\nanother note\n");
    assert_says(text, "\nnext: go on\n");
    assert_says(text, f->analysis->signature);
    fb_free(text);
}

static double much(int rule, int document)
{
    (void)document;
    return rule == 3 ? 200 : 2; /* strong: a tenth of the pass */
}

static void a_rule_above_the_quota_of_the_experiment_is_called_so(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    fb_limits limits = resident(AT_50);
    char *text;

    trial.signals = much;
    put(f, trial);
    analyse(f);
    text = print(f, &limits, NULL, false);
    assert_says(text, "Use strong at 50 %: ");
    assert_says(text, "quota of 5 % lets it.");
    fb_free(text);
    limits.extra = 0.05;
    text = print(f, &limits, NULL, false);
    assert_says(text, "Use cheap at 50 %: ");
    assert_null(strstr(text, "quota"));
    fb_free(text);
}

static void nothing_fits_is_said_with_what_is_missing(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_20 / 2.0);
    char *text;

    plant(f, 2);
    limits.keep = 0.5;
    text = print(f, &limits, NULL, false);
    assert_says(text, "Nothing fits. Nearest is ");
    assert_says(text, "with 50.0 KiB of at most 25.0 KiB: 25.0 KiB too much.");
    assert_says(text, "\nbelow the least quality, 50 % kept: random at 50 % (");
    assert_says(text, "on needle)");
    fb_free(text);
}

static void which_task_decides_is_said(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    char *text;

    plant(f, 2);
    limits.passes = NULL;
    text = print(f, &limits, NULL, false);
    assert_says(text, " on needle (which decides)");
    assert_says(text, " on continuation");
    fb_free(text);
}

static void an_unfinished_experiment_is_called_so(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    fb_results *results;
    char *text;

    plant(f, 1);
    results = (fb_results *)(uintptr_t)f->results;
    results->planned = results->n_cells + 10;
    text = print(f, &limits, NULL, false);
    assert_says(text, "planned cells; the others are missing\n\nSo far: use strong");
    fb_free(text);
    results->planned = 0;
}

static const fb_json *member(const fb_json *list, const char *rule, const char *budget)
{
    for (size_t i = 0; i < fb_json_count(list); i++) {
        const fb_json *c = fb_json_at(list, i);
        const char *own = fb_json_string(fb_json_get(c, "budget"));

        if (strcmp(fb_json_string(fb_json_get(c, "rule")), rule) == 0 && own != NULL &&
            strcmp(own, budget) == 0)
            return c;
    }
    fail_msg("no %s at %s", rule, budget);
    return NULL;
}

static void json_has_every_candidate_and_its_fate(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    const fb_json *list;
    fb_json *root;
    double real;
    int64_t at;
    char *text;

    plant(f, 1);
    limits.extra = 0.05;
    text = print(f, &limits, NULL, true);
    assert_ok(fb_json_parse(&root, text, strlen(text)));
    list = fb_json_get(root, "candidates");
    assert_int_equal(fb_json_count(list), 1 + 6 * 2);
    assert_true(fb_json_int(fb_json_get(root, "chosen"), &at));
    assert_ptr_equal(fb_json_at(list, (size_t)at), member(list, "cheap", "50%"));
    assert_string_equal(
        fb_json_string(fb_json_get(member(list, "strong", "50%"), "fate")),
        "over a limit");
    assert_string_equal(fb_json_string(fb_json_at(
                            fb_json_get(member(list, "strong", "50%"), "over"), 0)),
                        "extra_compute");
    assert_string_equal(
        fb_json_string(fb_json_get(member(list, "oracle", "20%"), "fate")),
        "looks ahead");
    assert_true(
        fb_json_real(fb_json_get(member(list, "even", "20%"), "held_bytes"), &real));
    assert_near(real, AT_20, 0);
    assert_true(fb_json_is_null(fb_json_get(root, "nearest")));
    fb_json_free(root);
    fb_free(text);
}

static void every_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    fb_status status = FB_NO_MEMORY;
    const fb_limits limits = resident(AT_50);
    size_t before;
    int64_t n;

    plant(f, 1);
    before = fb_memory_now(FB_ACCOUNT_other);
    for (n = 1; status != FB_OK; n += 1 + n / 20) {
        fb_choice *choice = NULL;
        char *text = NULL;

        fb_memory_fail_at(n);
        status = fb_choose(&choice, f->analysis, &limits);
        if (status == FB_OK) status = fb_choice_print(choice, NULL, n % 2, &text);
        fb_memory_fail_at(0);
        fb_free(text);
        fb_choice_free(choice);
        assert_true(status == FB_OK || status == FB_NO_MEMORY);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        test(what_stays_is_limited),
        test(the_peak_is_limited_unless_said_otherwise),
        test(work_is_limited_and_what_is_as_good_costs_less),
        test(time_is_that_of_the_device),
        test(what_is_not_known_is_over_the_limit),
        test(the_fewest_bytes_that_keep_the_quality_are_chosen),
        test(the_lower_end_is_stricter_than_the_mean),
        test(what_cannot_be_told_apart_is_no_better_choice),
        test(a_pair_across_budgets_may_be_told_apart),
        test(pairs_across_budgets_are_corrected_for_their_number),
        test(ties_are_broken_by_bytes_work_and_name),
        test(a_whole_cache_is_one_candidate_unless_its_bytes_are_simulated),
        test(a_rule_that_looks_ahead_is_never_chosen),
        test(a_rule_needs_a_choice_and_cells_in_every_task),
        test(a_filter_leaves_the_others_out),
        test(the_worst_task_decides),
        test(of_two_units_the_worst_place_decides),
        test(each_unit_has_a_least_quality_of_its_own),
        test(the_nearest_misses_its_limits_by_least),
        test(bytes_of_a_share_grow_with_the_context),
        test(a_budget_in_tokens_does_not_grow),
        test(limits_that_have_no_meaning_are_refused),
        test(without_the_full_cache_no_share_is_known),
        test(a_task_that_the_model_cannot_do_is_left_out),
        test(the_sentence_says_what_to_use_and_what_it_takes),
        test(a_rule_above_the_quota_of_the_experiment_is_called_so),
        test(nothing_fits_is_said_with_what_is_missing),
        test(which_task_decides_is_said),
        test(an_unfinished_experiment_is_called_so),
        test(json_has_every_candidate_and_its_fate),
        test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
