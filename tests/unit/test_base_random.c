/* test_base_random.c - both generators against other implementations.
 *
 * Philox: numpy 2.4, numpy.random.Philox(counter=c - 1, key=k).random_raw(4) (numpy adds
 * one before it draws); all but the second are also in the known-answer file of
 * Random123. xoshiro256**: the seed 42 in a Python program of twenty lines written from
 * Blackman and Vigna 2021.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/random.h"
#include "tests/support/test.h"

#include <flexbudget/task.h>
#include <math.h>

static void philox_gives_the_numbers_of_numpy(void **state)
{
    static const struct {
        uint64_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b,
          0x7e68b68aec7ba23b}},
        {{1, 2, 3, 4},
         {5, 6},
         {0xa39b5519339fe354, 0xaceb1228efc25196, 0xa0a2e3c25aa5f4fc,
          0x08d0cfa9332720df}},
        {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
         {UINT64_MAX, UINT64_MAX},
         {0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6,
          0xa09caebf594f0ba0}},
        {{0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0,
          0x082efa98ec4e6c89},
         {0x452821e638d01377, 0xbe5466cf34e90c6c},
         {0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5,
          0x57bd43b5e52b7fe6}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t out[4];

        fb_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void every_coordinate_changes_the_number(void **state)
{
    const float base = fb_philox_f32(1, 2, 3, 4, 5, 6);

    (void)state;
    assert_true(base == fb_philox_f32(1, 2, 3, 4, 5, 6));
    assert_true(base != fb_philox_f32(2, 2, 3, 4, 5, 6));
    assert_true(base != fb_philox_f32(1, 3, 3, 4, 5, 6));
    assert_true(base != fb_philox_f32(1, 2, 4, 4, 5, 6));
    assert_true(base != fb_philox_f32(1, 2, 3, 5, 5, 6));
    assert_true(base != fb_philox_f32(1, 2, 3, 4, 6, 6));
    assert_true(base != fb_philox_f32(1, 2, 3, 4, 5, 7));
}

/* Mean 1/2 and variance 1/12 within five standard errors; never 0 or 1. */
static void numbers_of_philox_fill_the_open_interval(void **state)
{
    const int64_t n = long_or_short(10000000, 100000);
    double sum = 0, squares = 0;

    (void)state;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)fb_philox_f32(7, 0, 0, 0, (uint64_t)i, 0);

        assert_true(x > 0 && x < 1);
        sum += x;
        squares += (x - 0.5) * (x - 0.5);
    }
    assert_true(fabs(sum / (double)n - 0.5) < 5 * sqrt(1.0 / 12 / (double)n));
    assert_true(fabs(squares / (double)n - 1.0 / 12) < 5 * sqrt(1.0 / 180 / (double)n));
}

static void seed_42_gives_the_numbers_of_the_reference(void **state)
{
    static const uint64_t below_20[] = {1,  7, 13, 18, 19, 15, 14, 17, 15, 11,
                                        13, 5, 16, 6,  14, 17, 12, 17, 14, 14};
    static const double real[] = {0.08386297105988216, 0.3789802506626686,
                                  0.6800434110281394, 0.9246929453253876};
    fb_random random;

    (void)state;
    fb_random_seed(&random, 42, 0);
    for (size_t i = 0; i < sizeof below_20 / sizeof below_20[0]; i++)
        assert_int_equal(fb_random_below(&random, 20), below_20[i]);
    fb_random_seed(&random, 42, 0);
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++)
        assert_true(fb_random_real(&random) == real[i]);
}

static void streams_of_one_seed_differ(void **state)
{
    (void)state;
    for (uint64_t stream = 1; stream < 100; stream++) {
        fb_random plain, other;
        int equal = 0;

        fb_random_seed(&plain, 42, 0);
        fb_random_seed(&other, 42, stream);
        for (int i = 0; i < 100; i++)
            equal += fb_random_real(&plain) == fb_random_real(&other);
        assert_int_equal(equal, 0);
    }
}

static void below_stays_below(void **state)
{
    const uint64_t bounds[] = {1, 2, 3, 1000, UINT64_MAX};
    fb_random random;

    (void)state;
    fb_random_seed(&random, 1, 2);
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++)
        for (int i = 0; i < 1000; i++)
            assert_true(fb_random_below(&random, bounds[b]) < bounds[b]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_numbers_of_numpy),
        cmocka_unit_test(every_coordinate_changes_the_number),
        cmocka_unit_test(numbers_of_philox_fill_the_open_interval),
        cmocka_unit_test(seed_42_gives_the_numbers_of_the_reference),
        cmocka_unit_test(streams_of_one_seed_differ),
        cmocka_unit_test(below_stays_below),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
