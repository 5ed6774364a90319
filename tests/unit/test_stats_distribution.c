/* test_stats_distribution.c - quantiles, tails and power against SciPy's.
 *
 * SPDX-License-Identifier: MIT
 */
#include "stats/stats.h"
#include "tests/support/golden.h"

enum { MOST = 32 };

static void normal_quantiles_match(void **state)
{
    json_t *root = golden_load("tests/golden/stats/special.json"), *row;
    size_t i;

    (void)state;
    json_array_foreach(golden_at(root, "normal_ppf"), i, row) assert_near(
        fb_normal_quantile(golden_number(row, "p")), golden_number(row, "v"), 1e-12);
    json_decref(root);
}

static void t_tails_and_quantiles_match(void **state)
{
    json_t *root = golden_load("tests/golden/stats/special.json"), *row;
    size_t i;

    (void)state;
    json_array_foreach(golden_at(root, "t_sf"), i, row)
    {
        const double t = golden_number(row, "t"), df = golden_number(row, "df");

        assert_near(fb_t_cdf(-t, df), golden_number(row, "v"), 1e-12);
        assert_near(1 - fb_t_cdf(t, df), golden_number(row, "v"), 1e-12);
    }
    json_array_foreach(golden_at(root, "t_ppf"), i, row)
        assert_near(fb_t_quantile(golden_number(row, "p"), golden_number(row, "df")),
                    golden_number(row, "v"), 1e-11);
    assert_near(fb_t_quantile(0.5, 7), 0, 0);
    json_decref(root);
}

static void the_smallest_effect_matches(void **state)
{
    json_t *root = golden_load("tests/golden/stats/power.json"), *row;
    const double tolerance = golden_number(root, "tolerance");
    size_t i;

    (void)state;
    json_array_foreach(golden_at(root, "paired_t"), i, row)
    {
        const int n = (int)golden_number(row, "n");
        const double want = golden_number(row, "mde_dz_80");

        assert_near(fb_smallest_effect(1, n, 0.05, 0.8), want, tolerance);
        assert_near(fb_smallest_effect(0.3, n, 0.05, 0.8), 0.3 * want, tolerance);
    }
    json_decref(root);
}

static void two_documents_could_show_little_and_one_nothing(void **state)
{
    (void)state;
    assert_true(fb_smallest_effect(1, 2, 0.05, 0.8) > 10);
    assert_true(isfinite(fb_smallest_effect(1, 2, 0.05, 0.8)));
    assert_true(isinf(fb_smallest_effect(1, 1, 0.05, 0.8)));
    assert_near(fb_smallest_effect(0, 16, 0.05, 0.8), 0, 0);
}

static void quantiles_lie_between_neighbours(void **state)
{
    const double x[5] = {1, 2, 4, 8, 16};

    (void)state;
    assert_near(fb_quantile(x, 5, 0), 1, 0);
    assert_near(fb_quantile(x, 5, 0.5), 4, 0);
    assert_near(fb_quantile(x, 5, 0.375), 3, 0);
    assert_near(fb_quantile(x, 5, 1), 16, 0);
    assert_near(fb_quantile(x, 1, 0.3), 1, 0);
    assert_near(fb_sd_of(x, 1), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_quantiles_match),
        cmocka_unit_test(t_tails_and_quantiles_match),
        cmocka_unit_test(the_smallest_effect_matches),
        cmocka_unit_test(two_documents_could_show_little_and_one_nothing),
        cmocka_unit_test(quantiles_lie_between_neighbours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
