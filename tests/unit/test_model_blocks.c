/* test_model_blocks.c - every format unpacks to the very bits of the package `gguf`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/blocks.h"
#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 };

static size_t from_hex(const json_t *hex, uint8_t *out)
{
    const char *digits = json_string_value(hex);
    const size_t n = strlen(digits) / 2;

    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        unsigned byte;

        assert_int_equal(sscanf(digits + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return n;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void check_format(const char *name, const json_t *row)
{
    static uint8_t bytes[MOST + 1], wanted[MOST];
    static float got[MOST / 4];
    const fb_blocks *format =
        fb_blocks_find((uint32_t)json_integer_value(json_object_get(row, "type")));
    /* One byte off: nothing may depend on the place of a block in memory. */
    const size_t n_bytes = from_hex(json_object_get(row, "bytes"), bytes + 1);
    const size_t n = from_hex(json_object_get(row, "f32"), wanted) / 4;

    assert_non_null(format);
    assert_string_equal(format->name, name);
    assert_non_null(format->unpack);
    assert_int_equal(n_bytes % format->bytes, 0);
    assert_int_equal(n_bytes / format->bytes * (size_t)format->per_block, n);
    format->unpack(bytes + 1, (int64_t)(n_bytes / format->bytes), got);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, wanted + 4 * i, sizeof bits);
        if (bits_of(got[i]) != bits)
            fail_msg("%s: number %zu is %08x, not %08x", name, i, bits_of(got[i]),
                     bits);
    }
}

static void formats_unpack_to_the_bits_of_the_reference(void **state)
{
    json_t *root = golden_load("tests/golden/blocks/blocks.json");
    const char *name;
    json_t *row;

    (void)state;
    assert_int_equal(json_object_size(root), 13);
    json_object_foreach(root, name, row) check_format(name, row);
    json_decref(root);
}

/* By the definition of the format, in arithmetic of its own. */
static void every_half_has_its_exact_value(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        const int exponent = (int)(half >> 10 & 31);
        const double fraction = (double)(half & 0x3ff) / 1024;
        const float got = fb_half_to_float((uint16_t)half);
        double value;

        if (exponent == 31) { /* infinities and NaN keep their bits */
            assert_int_equal(bits_of(got) & 0x7fffffff, 0x7f800000 | (half & 0x3ff)
                                                                         << 13);
            continue;
        }
        value = exponent == 0 ? fraction * 0x1p-14 : 1 + fraction;
        for (int e = 15; exponent != 0 && e < exponent; e++)
            value *= 2;
        for (int e = exponent; exponent != 0 && e < 15; e++)
            value /= 2;
        assert_true((double)got == (half & 0x8000 ? -value : value));
        assert_int_equal(bits_of(got) >> 31, half >> 15);
    }
}

static void unknown_formats_are_not_found(void **state)
{
    (void)state;
    assert_null(fb_blocks_find(4)); /* was Q4_2 */
    assert_null(fb_blocks_find(1000));
    assert_null(fb_blocks_find(UINT32_MAX));
    assert_null(fb_blocks_find(20)->unpack); /* IQ4_NL: known by size only */
    assert_string_equal(fb_blocks_find(20)->name, "IQ4_NL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_unpack_to_the_bits_of_the_reference),
        cmocka_unit_test(every_half_has_its_exact_value),
        cmocka_unit_test(unknown_formats_are_not_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
