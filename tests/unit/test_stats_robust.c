/* test_stats_robust.c - medians, their intervals, and what stands out.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "stats/stats.h"
#include "tests/support/test.h"

#include <math.h>

static void assert_near(double a, double b, double within)
{
    if (!(fabs(a - b) <= within)) fail_msg("%.17g is not %.17g", a, b);
}

static void a_median_is_the_middle_or_the_mean_of_two(void **state)
{
    const double x[4] = {9, 1, 5, 2};
    double median;

    (void)state;
    assert_ok(fb_median_of(&median, x, 3));
    assert_near(median, 5, 0);
    assert_ok(fb_median_of(&median, x, 4));
    assert_near(median, 3.5, 0);
    assert_near(x[0], 9, 0); /* as it was */
    assert_ok(fb_median_of(&median, x, 1));
    assert_near(median, 9, 0);
}

/* 0.6745 * (8.1 - 3.3) / 0.2: on paper. */
static void a_value_far_out_has_a_large_z(void **state)
{
    const double x[9] = {3.2, 3.3, 8.1, 3.2, 2.9, 3.7, 3.1, 3.5, 3.3};
    double z[9];

    (void)state;
    assert_ok(fb_modified_z(z, x, 9));
    assert_near(z[2], 16.188, 1e-9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(fabs(z[i]) > 3.5, i == 2);
    assert_near(z[1], 0, 0);
}

/* Where the median distance is 0 the mean one is taken: (9 - 1) / (1.253314 * 8/6). */
static void equal_values_leave_the_mean_distance(void **state)
{
    const double x[6] = {1, 1, 1, 9, 1, 1};
    double z[6];

    (void)state;
    assert_ok(fb_modified_z(z, x, 6));
    assert_near(z[3], 8 / (1.253314 * 8 / 6), 1e-12);
    assert_near(z[0], 0, 0);
    assert_ok(fb_modified_z(z, x, 3));
    assert_near(z[2], 0, 0);
}

/* The median of nine drawn values is at most the j-th of the nine with the chance of five or
 * more successes in nine draws of chance j/9: 0.0014, 0.0304, 0.145 for j = 1, 2, 3. So 5 %
 * below ends at the third, 1 % below at the second. */
static void an_interval_of_the_median_has_the_right_ends(void **state)
{
    const double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    fb_interval interval, again;

    (void)state;
    assert_ok(fb_bootstrap_median(&interval, x, 9, 0.90, 20000, 3));
    assert_near(interval.low, 3, 0);
    assert_near(interval.high, 7, 0);
    assert_ok(fb_bootstrap_median(&again, x, 9, 0.90, 20000, 3));
    assert_near(again.low, interval.low, 0);
    assert_ok(fb_bootstrap_median(&again, x, 9, 0.98, 20000, 3));
    assert_near(again.low, 2, 0);
}

static void no_values_are_refused(void **state)
{
    fb_interval interval;
    double x = 0;

    (void)state;
    assert_fails(fb_median_of(&x, &x, 0), FB_USAGE, "no values");
    assert_fails(fb_bootstrap_median(&interval, &x, 0, 0.95, 9, 1), FB_USAGE,
                 "no values");
}

static void no_memory_is_said_and_nothing_leaks(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    const double x[3] = {1, 2, 3};
    fb_interval interval;
    double z[3];

    (void)state;
    fb_memory_fail_at(1);
    assert_int_equal(fb_bootstrap_median(&interval, x, 3, 0.95, 9, 1), FB_NO_MEMORY);
    for (int64_t n = 1; n <= 2; n++) {
        fb_memory_fail_at(n);
        assert_int_equal(fb_modified_z(z, x, 3), FB_NO_MEMORY);
    }
    fb_memory_fail_at(0);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_median_is_the_middle_or_the_mean_of_two),
        cmocka_unit_test(a_value_far_out_has_a_large_z),
        cmocka_unit_test(equal_values_leave_the_mean_distance),
        cmocka_unit_test(an_interval_of_the_median_has_the_right_ends),
        cmocka_unit_test(no_values_are_refused),
        cmocka_unit_test(no_memory_is_said_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
