/* test_stats_resample.c - the bootstrap and the sign-flip test against SciPy's numbers.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "stats/stats.h"
#include "tests/support/golden.h"

#include <flexbudget/task.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 32 };
static const double exact = 1e-12;

struct pairs {
    double d[MOST];
    int n;
};

static struct pairs load_pairs(json_t *root)
{
    double a[MOST], b[MOST];
    struct pairs pairs = {.n = golden_list(root, "a", a, MOST)};

    assert_int_equal(golden_list(root, "b", b, MOST), pairs.n);
    for (int i = 0; i < pairs.n; i++)
        pairs.d[i] = a[i] - b[i];
    return pairs;
}

/* Documents of several values each, as a list of lists. */
struct grouped {
    double x[MOST];
    int group[MOST], n, n_groups;
};

static struct grouped load_grouped(json_t *documents)
{
    struct grouped grouped = {.n_groups = (int)json_array_size(documents)};

    for (int g = 0; g < grouped.n_groups; g++) {
        json_t *document = json_array_get(documents, (size_t)g);

        for (size_t i = 0; i < json_array_size(document); i++) {
            grouped.x[grouped.n] = json_number_value(json_array_get(document, i));
            grouped.group[grouped.n++] = g;
        }
    }
    return grouped;
}

static void the_generator_is_that_of_the_reference(void **state)
{
    json_t *root = golden_load("tests/golden/stats/rng.json");
    const uint64_t seed = (uint64_t)golden_number(root, "seed");
    double index[MOST], real[MOST];
    const int n = golden_list(root, "below_20", index, MOST);
    const int n_real = golden_list(root, "u01", real, MOST);
    fb_random random;

    (void)state;
    fb_random_seed(&random, seed, 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(fb_random_below(&random, 20), index[i]);
    fb_random_seed(&random, seed, 0);
    for (int i = 0; i < n_real; i++)
        assert_near(fb_random_real(&random), real[i], 0);
    json_decref(root);
}

static void a_seeded_bootstrap_gives_the_reference_interval(void **state)
{
    json_t *root = golden_load("tests/golden/stats/bootstrap.json");
    const struct pairs pairs = load_pairs(root);
    const uint64_t seed = (uint64_t)golden_number(root, "seeded/seed");
    const int replicates = (int)golden_number(root, "seeded/replicates");
    double want[2];
    fb_interval got;

    (void)state;
    assert_near(fb_mean_of(pairs.d, pairs.n), golden_number(root, "diff_mean"), exact);
    assert_near(fb_sd_of(pairs.d, pairs.n), golden_number(root, "diff_sd"), exact);
    golden_list(root, "seeded/percentile", want, 2);
    assert_int_equal(fb_bootstrap_mean(&got, pairs.d, NULL, pairs.n, pairs.n, 0.95,
                                       replicates, seed),
                     FB_OK);
    assert_near(got.low, want[0], exact);
    assert_near(got.high, want[1], exact);
    json_decref(root);
}

/* The reference walks all resamples of four documents; many random ones come near. */
static void documents_are_resampled_whole(void **state)
{
    json_t *root = golden_load("tests/golden/stats/bootstrap.json");
    const struct grouped all = load_grouped(golden_at(root, "cluster/documents"));
    double want[2];
    fb_interval got, alone;

    (void)state;
    golden_list(root, "cluster/pooled/percentile_95", want, 2);
    assert_int_equal(
        fb_bootstrap_mean(&got, all.x, all.group, all.n, all.n_groups, 0.95, 100000, 1),
        FB_OK);
    assert_near(got.low, want[0], 1e-9);
    assert_near(got.high, want[1], 1e-9);
    assert_int_equal(
        fb_bootstrap_mean(&alone, all.x, NULL, all.n, all.n, 0.95, 100000, 1), FB_OK);
    assert_true(alone.high - alone.low < got.high - got.low);
    json_decref(root);
}

static void equal_values_give_an_interval_of_no_width(void **state)
{
    const double x[4] = {0.25, 0.25, 0.25, 0.25};
    fb_interval got;

    (void)state;
    assert_int_equal(fb_bootstrap_mean(&got, x, NULL, 4, 4, 0.95, 100, 1), FB_OK);
    assert_near(got.low, 0.25, 0);
    assert_near(got.high, 0.25, 0);
}

static void a_share_of_a_constant_is_a_mean(void **state)
{
    const double x[5] = {1, 0.5, 0.25, 3, 0}, y[5] = {2, 2, 2, 2, 2};
    fb_interval share, mean;

    (void)state;
    assert_int_equal(fb_bootstrap_ratio(&share, x, y, NULL, 5, 5, 0.9, 500, 7), FB_OK);
    assert_int_equal(fb_bootstrap_mean(&mean, x, NULL, 5, 5, 0.9, 500, 7), FB_OK);
    assert_near(share.low, mean.low / 2, 1e-15);
    assert_near(share.high, mean.high / 2, 1e-15);
}

/* Of two documents there are three shares: 1/2, 4/6 and 3/4. Drawn apart, 1/4 and 3/2. */
static void both_sides_of_a_share_are_drawn_together(void **state)
{
    const double x[2] = {1, 3}, y[2] = {2, 4};
    fb_interval got;

    (void)state;
    assert_int_equal(fb_bootstrap_ratio(&got, x, y, NULL, 2, 2, 0.95, 1000, 1), FB_OK);
    assert_near(got.low, 0.5, 0);
    assert_near(got.high, 0.75, 0);
}

static void a_share_of_nothing_is_not_known(void **state)
{
    const double x[2] = {1, 3}, y[2] = {0, 0}, once[2] = {0, 6};
    fb_interval got;

    (void)state;
    assert_int_equal(fb_bootstrap_ratio(&got, x, y, NULL, 2, 2, 0.95, 100, 1), FB_OK);
    assert_true(isnan(got.low) && isnan(got.high));
    assert_int_equal(fb_bootstrap_ratio(&got, x, once, NULL, 2, 2, 0.95, 1000, 1),
                     FB_OK);
    assert_near(got.low, 0.5, 0); /* what drew the first alone does not count */
    assert_near(got.high, 4.0 / 6, 0);
}

static void exact_sign_flips_walk_all_patterns(void **state)
{
    json_t *root = golden_load("tests/golden/stats/permutation.json");
    const struct pairs pairs = load_pairs(golden_at(root, "sign_flip_exact"));
    double p;

    (void)state;
    assert_int_equal(fb_sign_flip(&p, pairs.d, NULL, pairs.n, pairs.n, 9999, 1), FB_OK);
    assert_near(p, golden_number(root, "sign_flip_exact/p_two_sided"), 0);
    json_decref(root);
}

static void documents_are_flipped_whole(void **state)
{
    json_t *root = golden_load("tests/golden/stats/permutation.json");
    const struct grouped all =
        load_grouped(golden_at(root, "sign_flip_by_document/documents"));
    double p;

    (void)state;
    assert_int_equal(fb_sign_flip(&p, all.x, all.group, all.n, all.n_groups, 9999, 1),
                     FB_OK);
    assert_near(p, golden_number(root, "sign_flip_by_document/p_two_sided"), 0);
    json_decref(root);
}

/* p by the words of the definition, with the draws of the reference's description. */
static double slow_random_p(const double *d, int n, int draws, uint64_t seed)
{
    fb_random random;
    double observed = 0;
    int hits = 0;

    for (int i = 0; i < n; i++)
        observed += d[i];
    fb_random_seed(&random, seed, 0);
    for (int r = 0; r < draws; r++) {
        double sum = 0;

        for (int i = 0; i < n; i++)
            sum += fb_random_real(&random) >= 0.5 ? d[i] : -d[i];
        hits += fabs(sum / n) >= fabs(observed / n) - 1e-12;
    }
    return (hits + 1.0) / (draws + 1.0);
}

static void more_than_twenty_documents_are_flipped_at_random(void **state)
{
    json_t *root = golden_load("tests/golden/stats/permutation.json");
    const struct pairs pairs = load_pairs(golden_at(root, "sign_flip_exact"));
    const int draws = (int)golden_number(root, "sign_flip_seeded/replicates");
    const uint64_t seed = (uint64_t)golden_number(root, "sign_flip_seeded/seed");
    double d[24], p;

    (void)state;
    /* the helper is the reference's own count ... */
    assert_near(slow_random_p(pairs.d, pairs.n, draws, seed),
                golden_number(root, "sign_flip_seeded/p_two_sided"), 0);
    /* ... and what the program does above twenty documents */
    for (int i = 0; i < 24; i++)
        d[i] = pairs.d[i % pairs.n] - 0.05 * (i % 3);
    assert_int_equal(fb_sign_flip(&p, d, NULL, 24, 24, draws, seed), FB_OK);
    assert_near(p, slow_random_p(d, 24, draws, seed), 0);
    json_decref(root);
}

static void equal_rules_give_p_of_one(void **state)
{
    const double zero[12] = {0};
    double p;

    (void)state;
    assert_int_equal(fb_sign_flip(&p, zero, NULL, 12, 12, 9999, 1), FB_OK);
    assert_near(p, 1, 0);
    assert_int_equal(fb_sign_flip(&p, (double[30]){0}, NULL, 30, 30, 999, 1), FB_OK);
    assert_near(p, 1, 0);
}

static void one_document_can_show_nothing(void **state)
{
    const double d = 3;
    double p;

    (void)state;
    assert_int_equal(fb_sign_flip(&p, &d, NULL, 1, 1, 9999, 1), FB_OK);
    assert_near(p, 1, 0);
}

static void no_values_are_refused(void **state)
{
    fb_interval interval;
    double p, x = 0;

    (void)state;
    assert_int_equal(fb_sign_flip(&p, &x, NULL, 0, 0, 99, 1), FB_USAGE);
    assert_string_equal(fb_error_message(), "there are no values to test");
    assert_int_equal(fb_bootstrap_mean(&interval, &x, NULL, 0, 0, 0.95, 99, 1),
                     FB_USAGE);
    assert_int_equal(fb_bootstrap_ratio(&interval, &x, &x, NULL, 0, 0, 0.95, 99, 1),
                     FB_USAGE);
}

static void no_memory_is_said_and_nothing_leaks(void **state)
{
    const double x[3] = {1, 2, 3};
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_interval interval;
    double p;

    (void)state;
    for (int64_t n = 1; n <= 2; n++) {
        fb_memory_fail_at(n);
        assert_int_equal(fb_bootstrap_mean(&interval, x, NULL, 3, 3, 0.95, 9, 1),
                         FB_NO_MEMORY);
    }
    for (int64_t n = 1; n <= 3; n++) {
        fb_memory_fail_at(n);
        assert_int_equal(fb_bootstrap_ratio(&interval, x, x, NULL, 3, 3, 0.95, 9, 1),
                         FB_NO_MEMORY);
    }
    fb_memory_fail_at(1);
    assert_int_equal(fb_sign_flip(&p, x, NULL, 3, 3, 9, 1), FB_NO_MEMORY);
    fb_memory_fail_at(0);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_is_that_of_the_reference),
        cmocka_unit_test(a_seeded_bootstrap_gives_the_reference_interval),
        cmocka_unit_test(documents_are_resampled_whole),
        cmocka_unit_test(equal_values_give_an_interval_of_no_width),
        cmocka_unit_test(a_share_of_a_constant_is_a_mean),
        cmocka_unit_test(both_sides_of_a_share_are_drawn_together),
        cmocka_unit_test(a_share_of_nothing_is_not_known),
        cmocka_unit_test(exact_sign_flips_walk_all_patterns),
        cmocka_unit_test(documents_are_flipped_whole),
        cmocka_unit_test(more_than_twenty_documents_are_flipped_at_random),
        cmocka_unit_test(equal_rules_give_p_of_one),
        cmocka_unit_test(one_document_can_show_nothing),
        cmocka_unit_test(no_values_are_refused),
        cmocka_unit_test(no_memory_is_said_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
