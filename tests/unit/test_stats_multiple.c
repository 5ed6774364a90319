/* test_stats_multiple.c - Holm against statsmodels; letters against what they promise.
 *
 * SPDX-License-Identifier: MIT
 */
#include "stats/stats.h"
#include "tests/support/golden.h"

#include <flexbudget/task.h>
#include <string.h>

enum { MOST = 64 };

static void holm_matches_in_the_order_given(void **state)
{
    json_t *root = golden_load("tests/golden/stats/multiplicity.json"), *set;
    size_t i;

    (void)state;
    json_array_foreach(golden_at(root, "sets"), i, set)
    {
        double p[MOST], want[MOST], got[MOST];
        const int n = golden_list(set, "p", p, MOST);

        golden_list(set, "holm/adjusted", want, MOST);
        fb_holm(p, n, got);
        for (int j = 0; j < n; j++)
            assert_near(got[j], want[j], 1e-15);
    }
    json_decref(root);
}

static void mark(bool *differs, int n, int a, int b)
{
    differs[a * n + b] = differs[b * n + a] = true;
}

static void rules_that_differ_from_all_get_a_letter_each(void **state)
{
    const int order[3] = {2, 0, 1};
    bool differs[9] = {0};
    char letters[3][32];

    (void)state;
    mark(differs, 3, 0, 1);
    mark(differs, 3, 0, 2);
    mark(differs, 3, 1, 2);
    assert_int_equal(fb_letters(differs, order, 3, letters), FB_OK);
    assert_string_equal(letters[2], "a");
    assert_string_equal(letters[0], "b");
    assert_string_equal(letters[1], "c");
}

static void a_rule_between_two_others_has_both_letters(void **state)
{
    const int order[3] = {0, 1, 2};
    bool differs[9] = {0};
    char letters[3][32];

    (void)state;
    mark(differs, 3, 0, 2);
    assert_int_equal(fb_letters(differs, order, 3, letters), FB_OK);
    assert_string_equal(letters[0], "a");
    assert_string_equal(letters[1], "ab");
    assert_string_equal(letters[2], "b");
}

static void rules_that_nobody_tells_apart_share_one_letter(void **state)
{
    const int order[4] = {3, 1, 0, 2};
    const bool differs[16] = {0};
    char letters[4][32];

    (void)state;
    assert_int_equal(fb_letters(differs, order, 4, letters), FB_OK);
    for (int i = 0; i < 4; i++)
        assert_string_equal(letters[i], "a");
}

/* Seeded random graphs of up to ten rules: the promise holds for every pair. */
static void two_rules_share_a_letter_if_and_only_if_they_do_not_differ(void **state)
{
    fb_random random;

    (void)state;
    fb_random_seed(&random, 5, 0);
    for (int round = 0; round < 400; round++) {
        const int n = 1 + (int)fb_random_below(&random, 10);
        const double share = fb_random_real(&random);
        bool differs[100] = {0};
        char letters[10][32];
        int order[10];

        for (int a = 0; a < n; a++) {
            order[a] = n - 1 - a;
            for (int b = a + 1; b < n; b++)
                if (fb_random_real(&random) < share) mark(differs, n, a, b);
        }
        assert_int_equal(fb_letters(differs, order, n, letters), FB_OK);
        assert_true(letters[n - 1][0] == 'a'); /* the best rule has the first letter */
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++)
                assert_int_equal(strpbrk(letters[a], letters[b]) == NULL,
                                 differs[a * n + b]);
    }
}

/* Pairs that differ, nothing else: 2^(n/2) sets are needed, more than letters. */
static void too_many_groups_are_refused(void **state)
{
    static bool differs[70 * 70];
    static char letters[70][32];
    int order[70];

    (void)state;
    for (int i = 0; i < 70; i++)
        order[i] = i;
    assert_int_equal(fb_letters(differs, order, 70, letters), FB_UNSUPPORTED);
    for (int i = 0; i < 40; i += 2)
        mark(differs, 40, i, i + 1);
    assert_int_equal(fb_letters(differs, order, 40, letters), FB_UNSUPPORTED);
    memset(differs, 0, sizeof differs);
    for (int i = 0; i < 12; i += 2)
        mark(differs, 12, i, i + 1);
    assert_int_equal(fb_letters(differs, order, 12, letters), FB_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holm_matches_in_the_order_given),
        cmocka_unit_test(rules_that_differ_from_all_get_a_letter_each),
        cmocka_unit_test(a_rule_between_two_others_has_both_letters),
        cmocka_unit_test(rules_that_nobody_tells_apart_share_one_letter),
        cmocka_unit_test(two_rules_share_a_letter_if_and_only_if_they_do_not_differ),
        cmocka_unit_test(too_many_groups_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
