/* test_base_index.c - numbers are found again by their hash, however many share one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/index.h"
#include "base/memory.h"
#include "tests/support/test.h"

static void every_number_is_found_under_its_hash_alone(void **state)
{
    fb_index table = {0};

    (void)state;
    assert_false(fb_index_has(&table, 0));
    for (int i = 0; i < 1000; i++) /* neighbours, and many for the same slot */
        assert_ok(fb_index_add(&table, (uint64_t)i << (i % 2 * 40), i));
    for (int i = 0; i < 1000; i++) {
        size_t at = 0;
        int value = -1;

        assert_true(fb_index_next(&table, (uint64_t)i << (i % 2 * 40), &at, &value));
        assert_int_equal(value, i);
        assert_false(fb_index_next(&table, (uint64_t)i << (i % 2 * 40), &at, &value));
    }
    assert_false(fb_index_has(&table, 1001));
    fb_index_clear(&table);
    assert_false(fb_index_has(&table, 2));
}

static void numbers_of_one_hash_come_one_after_the_other(void **state)
{
    fb_index table = {0};
    size_t at = 0;
    int seen = 0, value;

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_ok(fb_index_add(&table, UINT64_MAX, i));
    while (fb_index_next(&table, UINT64_MAX, &at, &value))
        seen += value;
    assert_int_equal(seen, 99 * 100 / 2);
    fb_index_clear(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_found_under_its_hash_alone),
        cmocka_unit_test(numbers_of_one_hash_come_one_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
