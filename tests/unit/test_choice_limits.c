/* test_choice_limits.c - what each limit of a choice lets through, and which have no meaning.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/planted_choice.h"

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
        test(bytes_of_a_share_grow_with_the_context),
        test(a_budget_in_tokens_does_not_grow),
        test(limits_that_have_no_meaning_are_refused),
        test(without_the_full_cache_no_share_is_known),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
