/* test_cache_budget.c - budgets in all their forms become entries, exactly.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cache/cache.h"
#include "tests/support/test.h"

static const fb_cache_shape smol = {30, 3, 64, FB_F32};

static int64_t entries(const char *text, int64_t tokens, fb_rounding rounding)
{
    fb_budget budget;

    assert_ok(fb_budget_parse(&budget, text));
    return fb_budget_entries(&budget, &smol, tokens, rounding);
}

static void a_ratio_is_an_exact_fraction(void **state)
{
    (void)state;
    assert_int_equal(entries("10%", 1000, FB_ROUND_EXACT), 100);
    assert_int_equal(entries("20%", 535, FB_ROUND_EXACT), 107);
    assert_int_equal(entries("12.5 %", 80, FB_ROUND_EXACT), 10);
    assert_int_equal(entries("100%", 77, FB_ROUND_EXACT), 77);
    assert_int_equal(entries("0.1%", 77, FB_ROUND_EXACT), 1);
    assert_int_equal(entries("0.1 %", 1999, FB_ROUND_EXACT), 1);
    assert_int_equal(entries("0.1 %", 2000, FB_ROUND_EXACT), 2);
    assert_int_equal(entries("33.333%", 3, FB_ROUND_EXACT), 1);
    assert_int_equal(entries("33.333%", 300000, FB_ROUND_EXACT), 99999);
    assert_int_equal(entries("99.999999%", INT32_MAX, FB_ROUND_EXACT), 2147483625);
    assert_int_equal(entries("100%", INT32_MAX, FB_ROUND_EXACT), INT32_MAX);
}

static void kvpress_rounding_is_reproduced_on_request(void **state)
{
    (void)state;
    assert_int_equal(entries("10%", 1000, FB_ROUND_KVPRESS), 99);
    assert_int_equal(entries("20%", 1000, FB_ROUND_KVPRESS), 199);
    assert_int_equal(entries("20%", 535, FB_ROUND_KVPRESS), 106);
    assert_int_equal(entries("10%", 300, FB_ROUND_KVPRESS), 29);
    assert_int_equal(entries("10%", 1500, FB_ROUND_KVPRESS), 149);
}

static void tokens_and_bytes_never_exceed_what_was_asked(void **state)
{
    /* one token in every head of every layer: 30 * 3 * 2 * 64 * 4 bytes */
    const int64_t row = 46080;

    (void)state;
    assert_int_equal(entries("256t", 1000, FB_ROUND_EXACT), 256);
    assert_int_equal(entries("256 tokens", 100, FB_ROUND_EXACT), 100);
    assert_int_equal(fb_entry_bytes(&smol), 512);
    assert_int_equal(entries("8MiB", 1000, FB_ROUND_EXACT), (8 << 20) / row);
    assert_int_equal(entries("46080B", 1000, FB_ROUND_EXACT), 1);
    assert_int_equal(entries("46079B", 1000, FB_ROUND_EXACT), 0);
}

static void an_entry_has_the_bytes_of_its_type(void **state)
{
    static const fb_dtype types[] = {FB_F32, FB_F16, FB_BF16};
    static const char *const names[] = {"f32", "f16", "bf16"};
    fb_budget budget;

    (void)state;
    assert_ok(fb_budget_parse(&budget, "46080B"));
    for (int t = 0; t < 3; t++) {
        const fb_cache_shape shape = {30, 3, 64, types[t]};

        assert_int_equal(fb_entry_bytes(&shape), t == 0 ? 512 : 256);
        assert_int_equal(fb_tail_bytes(&shape, 10), t == 0 ? 460800 : 230400);
        assert_int_equal(fb_budget_entries(&budget, &shape, 1000, FB_ROUND_EXACT),
                         t == 0 ? 1 : 2);
        assert_string_equal(fb_cache_type_name(types[t]), names[t]);
    }
}

static void prints(const char *text, const char *wanted)
{
    fb_budget budget;
    char out[64];

    assert_ok(fb_budget_parse(&budget, text));
    fb_budget_print(&budget, out, sizeof out);
    assert_string_equal(out, wanted);
}

static void a_budget_prints_as_one_canonical_text(void **state)
{
    (void)state;
    prints("20 %", "20%");
    prints("20.0%", "20%");
    prints("12.50%", "12.5%");
    prints("0.05%", "0.05%");
    prints("256 tokens", "256t");
    prints("64MiB", "67108864B");
    prints("1.5kB", "1500B");
    prints("0.1 %", "0.1%");
    prints("33.333%", "33.333%");
    prints("33.333333%", "33.333333%");
    prints(".5%", "0.5%");
    prints("5.%", "5%");
    prints("00020%", "20%");
    prints("100.000000%", "100%");
    prints("64 MiB", "67108864B");
    prints("64MB", "64000000B");
    prints("0.5TiB", "549755813888B");
    prints("2 TB", "2000000000000B");
    prints("2147483647t", "2147483647t");
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = {"0",
                                      "-1",
                                      "101%",
                                      "abc",
                                      "1e30",
                                      "",
                                      "0%",
                                      "10",
                                      "1.5t",
                                      "%",
                                      "5 MiBs",
                                      "10%%",
                                      "99999999999999999999%",
                                      "1.2.3%",
                                      "0t",
                                      "-5%",
                                      "nan%",
                                      "inf",
                                      "0x10t",
                                      "1e3t",
                                      "1e2%",
                                      "100.000001%",
                                      "2147483648t",
                                      "0.5B",
                                      "64mib",
                                      "64 mb",
                                      "+5%",
                                      "20 percent",
                                      "full"};
    fb_budget budget;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(fb_budget_parse(&budget, bad[i]), FB_USAGE,
                     "is not understood; write");
}

static void bytes_beyond_what_is_printed_are_refused(void **state)
{
    static const char *const bad[] = {"9999999999999GiB", "1000000000000001B",
                                      "1000000.1GB", "9223372036GB"};
    fb_budget budget;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(fb_budget_parse(&budget, bad[i]), FB_USAGE,
                     "is too large; write 1000000GB or less");
    prints("1000000GB", "1000000000000000B");
    prints("1000000000000000B", "1000000000000000B");
    prints("1000 TB", "1000000000000000B");
    prints("999999.123456GB", "999999123456000B"); /* more than int64 on the way */
    assert_fails(fb_budget_parse(&budget, "33.3333333%"), FB_USAGE,
                 "has more than 6 decimals");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ratio_is_an_exact_fraction),
        cmocka_unit_test(kvpress_rounding_is_reproduced_on_request),
        cmocka_unit_test(tokens_and_bytes_never_exceed_what_was_asked),
        cmocka_unit_test(an_entry_has_the_bytes_of_its_type),
        cmocka_unit_test(a_budget_prints_as_one_canonical_text),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(bytes_beyond_what_is_printed_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
