/* test_engine_quantise.c - the cache in fewer bits is as near to what it was as they allow.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdlib.h>

enum { CONTEXT = 70, GROUP = 32, MOST = 1 << 16, PROMPT = 2, ANSWER = 3 };

static int32_t context[CONTEXT];
static const int32_t prompt[PROMPT] = {2, 20}, answer[ANSWER] = {44, 5, 41};
static const fb_question question = {prompt, answer, PROMPT, ANSWER};

static rig the;
static fb_reading *reading;
static float before[MOST], after[MOST];

static void open_on(const char *model)
{
    rig_text(context, CONTEXT, 21);
    rig_open(&the, model, NULL, NULL);
    assert_ok(fb_read(&reading, the.engine, context, CONTEXT, NULL, 0, 1));
}

static void close_all(void)
{
    fb_reading_free(reading);
    rig_close(&the);
}

/* Keys or values of a layer of a cache; how many numbers. */
static int64_t numbers_of(const fb_cache *cache, bool values, int64_t layer, float *out)
{
    const fb_tensor x = values ? fb_cache_values(cache, the.ops, layer)
                               : fb_cache_keys(cache, the.ops, layer);
    const int64_t n =
        fb_size(the.ops, x, 0) * fb_size(the.ops, x, 1) * fb_size(the.ops, x, 2);

    assert_true(n <= MOST);
    assert_ok(fb_to_host(the.ops, x, out, (size_t)n * sizeof *out));
    return n;
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static int n_different(const float *x, int64_t n)
{
    float sorted[256];
    int different = 1;

    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    for (int64_t i = 1; i < n; i++)
        different += sorted[i] > sorted[i - 1];
    return different;
}

/* Half a step, and what 16 bits of the step and of the least number lose: 2^-12 each, of
 * the range and of the number. */
static void check_group(const float *x, const float *y, int64_t n, int bits)
{
    float low = x[0], high = x[0], most;

    for (int64_t i = 1; i < n; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    most = (high - low) / (float)((1 << bits) - 1) * 0.5f +
           (high - low + fabsf(low)) * 0x1p-11f;
    for (int64_t i = 0; i < n; i++)
        assert_true(fabsf(x[i] - y[i]) <= most);
    assert_true(n_different(y, n) <= 1 << bits);
}

static void check_cache(const char *model, int64_t group, int bits)
{
    fb_variant *variant;

    open_on(model);
    assert_ok(fb_keep_quantised(&variant, reading, bits));
    for (int64_t i = 0; i < 2 * variant->reading->engine->shape.layers; i++) {
        const int64_t n =
            numbers_of(fb_reading_cache(reading), i % 2 == 1, i / 2, before);

        assert_int_equal(numbers_of(variant->arena, i % 2 == 1, i / 2, after), n);
        assert_true(memcmp(before, after, (size_t)n * sizeof *before) != 0);
        for (int64_t j = 0; j < n; j += group)
            check_group(before + j, after + j, group, bits);
    }
    fb_variant_free(variant);
    close_all();
}

static void numbers_are_as_near_as_their_bits_allow(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 8; bits += 2)
        check_cache("builtin", GROUP, bits);
}

static void a_head_that_no_groups_fit_has_one(void **state)
{
    int64_t d;

    (void)state;
    open_on("tests/golden/families/qwen2");
    d = reading->engine->shape.head_dim;
    assert_true(d % GROUP != 0);
    close_all();
    check_cache("tests/golden/families/qwen2", d, 4);
}

static void its_bytes_are_those_of_the_packed_numbers(void **state)
{
    (void)state;
    open_on("builtin"); /* 4 slots; a key or value has 32 numbers */
    for (int bits = 4; bits <= 8; bits += 4) {
        fb_variant *variant;

        assert_ok(fb_keep_quantised(&variant, reading, bits));
        assert_int_equal(fb_variant_bytes(variant),
                         CONTEXT * 4 * 2 * (32 * bits / 8 + 4));
        assert_null(fb_variant_selection(variant)); /* all entries stay */
        fb_variant_free(variant);
    }
    close_all();
}

static void more_bits_lose_less(void **state)
{
    static const int bits[] = {2, 4, 8};
    double kl[3] = {0};

    (void)state;
    open_on("tests/golden/families/qwen2");
    for (int b = 0; b < 3; b++) {
        fb_variant *variant;
        fb_answer out;

        assert_ok(fb_keep_quantised(&variant, reading, bits[b]));
        assert_ok(fb_answer_group(reading, &variant, 1, &question,
                                  &(fb_answer_options){0}, &out));
        for (int i = 0; i < ANSWER; i++)
            kl[b] += out.kl[i];
        fb_answer_clear(&out);
        fb_variant_free(variant);
    }
    assert_true(kl[0] > 4 * kl[1] && kl[1] > 4 * kl[2] && kl[2] > 0);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_as_near_as_their_bits_allow),
        cmocka_unit_test(a_head_that_no_groups_fit_has_one),
        cmocka_unit_test(its_bytes_are_those_of_the_packed_numbers),
        cmocka_unit_test(more_bits_lose_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
