/* test_base_memory.c - every byte is counted, and an allocation can be made to fail.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "tests/support/test.h"

static void bytes_are_counted_by_account(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    void *a = fb_alloc(FB_ACCOUNT_kv, 1000), *b = fb_zalloc(FB_ACCOUNT_kv, 24);

    (void)state;
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before + 1024);
    fb_free(a);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before + 24);
    assert_true(fb_memory_peak(FB_ACCOUNT_kv) >= before + 1024);
    fb_memory_reset_peaks();
    assert_int_equal(fb_memory_peak(FB_ACCOUNT_kv), before + 24);
    fb_free(b);
    fb_free(NULL);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
    assert_string_equal(fb_account_name(FB_ACCOUNT_kv), "kv");
}

static void peaks_are_kept_apart_by_phase(void **state)
{
    size_t before;
    void *a, *b;

    (void)state;
    fb_memory_enter(0);
    fb_memory_reset_peaks();
    before = fb_memory_now(FB_ACCOUNT_kv);
    a = fb_alloc(FB_ACCOUNT_kv, 500);
    fb_memory_enter(2);
    b = fb_alloc(FB_ACCOUNT_kv, 70);
    fb_free(b);
    fb_free(a);
    fb_memory_enter(0);
    a = fb_alloc(FB_ACCOUNT_kv, 30);
    assert_int_equal(fb_memory_peak_in(0, FB_ACCOUNT_kv), before + 500);
    assert_int_equal(fb_memory_peak_in(2, FB_ACCOUNT_kv), before + 570);
    assert_int_equal(fb_memory_peak_in(1, FB_ACCOUNT_kv), 0); /* was not entered */
    assert_int_equal(fb_memory_peak(FB_ACCOUNT_kv), before + 570);
    fb_memory_enter(3);
    assert_int_equal(fb_memory_peak_in(3, FB_ACCOUNT_kv), before + 30);
    fb_memory_reset_peaks();
    assert_int_equal(fb_memory_peak_in(0, FB_ACCOUNT_kv), 0);
    assert_int_equal(fb_memory_peak_in(3, FB_ACCOUNT_kv), before + 30);
    fb_free(a);
    fb_memory_enter(0);
}

static void blocks_are_aligned_and_zeroed_where_promised(void **state)
{
    (void)state;
    for (size_t size = 0; size < 300; size += 7) {
        unsigned char *block = fb_zalloc(FB_ACCOUNT_other, size);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(block[i], 0);
        fb_free(block);
    }
}

/* Near 2 MiB, where blocks begin to be in huge pages; sanitizers watch. */
static void large_blocks_may_have_any_size(void **state)
{
    const size_t large = (size_t)1 << 21, before = fb_memory_now(FB_ACCOUNT_other);

    (void)state;
    for (size_t size = large - 1; size < large + 200; size += 67) {
        unsigned char *block = fb_zalloc(FB_ACCOUNT_other, size);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before + size);
        assert_int_equal(block[size - 1], 0);
        fb_free(block);
    }
}

static void a_block_that_grows_or_shrinks_keeps_its_contents(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_scratch);
    char *block = fb_realloc(FB_ACCOUNT_scratch, NULL, 4), *larger, *smaller;

    (void)state;
    memcpy(block, "abcd", 4);
    larger = fb_realloc(FB_ACCOUNT_other, block, 1000); /* the account stays */
    assert_memory_equal(larger, "abcd", 4);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_scratch), before + 1000);
    smaller = fb_realloc(FB_ACCOUNT_scratch, larger, 2);
    assert_memory_equal(smaller, "ab", 2);
    fb_memory_fail_at(1);
    assert_null(fb_realloc(FB_ACCOUNT_scratch, smaller, 1000));
    assert_memory_equal(smaller, "ab", 2);
    fb_free(smaller);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_scratch), before);
}

static void the_nth_allocation_fails_once(void **state)
{
    (void)state;
    fb_memory_fail_at(3);
    for (int i = 1; i <= 5; i++) {
        void *block = fb_alloc(FB_ACCOUNT_other, 8);

        assert_int_equal(block == NULL, i == 3);
        fb_free(block);
    }
    fb_memory_fail_at(1);
    assert_null(fb_strdup("text"));
}

static void impossible_sizes_give_null(void **state)
{
    (void)state;
    assert_null(fb_alloc(FB_ACCOUNT_other, SIZE_MAX));
    assert_null(fb_alloc(FB_ACCOUNT_other, SIZE_MAX - 100));
    assert_int_equal(fb_size_mul(1 << 20, 1 << 20), (size_t)1 << 40);
    assert_int_equal(fb_size_mul(SIZE_MAX / 2, 3), SIZE_MAX);
    assert_int_equal(fb_size_mul(0, SIZE_MAX), 0);
}

/* Pages that were in use once are not asked for again. */
static void a_large_block_is_used_again(void **state)
{
    enum { LARGE = 5 << 20 };
    char *block = fb_alloc(FB_ACCOUNT_kv, LARGE), *again, *other;

    (void)state;
    assert_non_null(block);
    memset(block, 7, LARGE);
    fb_free(block);
    again =
        fb_zalloc(FB_ACCOUNT_kv, LARGE - (LARGE >> 3)); /* cleared, whatever it held */
    assert_non_null(again);
    for (int i = 0; i < LARGE - (LARGE >> 3); i++)
        assert_int_equal(again[i], 0);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), LARGE - (LARGE >> 3));
    other = fb_alloc(FB_ACCOUNT_kv, LARGE / 2); /* too small for what is left, if any */
    assert_non_null(other);
    memset(other, 1, LARGE / 2);
    assert_int_equal(again[0], 0);
    fb_free(again);
    fb_free(other);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_block_is_used_again),
        cmocka_unit_test(bytes_are_counted_by_account),
        cmocka_unit_test(peaks_are_kept_apart_by_phase),
        cmocka_unit_test(blocks_are_aligned_and_zeroed_where_promised),
        cmocka_unit_test(large_blocks_may_have_any_size),
        cmocka_unit_test(a_block_that_grows_or_shrinks_keeps_its_contents),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(impossible_sizes_give_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
