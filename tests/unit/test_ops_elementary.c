/* test_ops_elementary.c - our own elementary functions and fused multiply-add against
 * those of the C library, which only tests may use.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/elementary.h"

#include "ops/native/soft_fma.h"
#include "ops/ops.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t to_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* --- fused multiply-add */

static void expect_fma(float a, float b, float c)
{
    const float got = fb_soft_fmaf(a, b, c), want = fmaf(a, b, c);

    if (isnan(want) && isnan(got)) return;
    if (to_bits(got) != to_bits(want))
        fail_msg("fma(%a, %a, %a) is %a, not %a", (double)a, (double)b, (double)c,
                 (double)got, (double)want);
}

/* c near -a*b or half an ulp beside a multiple: where rounding twice would show. */
static float hard_addend(numbers *r, float a, float b)
{
    const float near = -a * b;

    switch (number_int(r, 0, 3)) {
    case 0:
        return from_bits(to_bits(near) + (uint32_t)number_int(r, 0, 4) - 2);
    case 1:
        return near * 0x1p-24f;
    case 2:
        return near * 0x1p+25f;
    default:
        return near * (float)number_int(r, -64, 64) * 0x1p-12f;
    }
}

static void soft_fma_rounds_once(void **state)
{
    const int64_t n = long_or_short(10000000, 1000000);
    numbers r = {1};

    (void)state;
    for (int64_t i = 0; i < n; i += 4) {
        const uint64_t u = number_bits(&r), v = number_bits(&r);
        const float a = from_bits((uint32_t)u), b = from_bits((uint32_t)(u >> 32));
        const float c = from_bits((uint32_t)v);
        const float few = (float)number_int(&r, 1, 4095) * 0x1p-12f; /* short factors */
        const float tiny = from_bits((uint32_t)v & 0x807fffff);      /* subnormal */

        expect_fma(a, b, c);
        expect_fma(a, b, hard_addend(&r, a, b));
        expect_fma(few, number_unit(&r), hard_addend(&r, few, 1));
        expect_fma(number_unit(&r) * 0x1p-70f, number_unit(&r) * 0x1p-70f, tiny);
    }
}

static void soft_fma_knows_the_special_cases(void **state)
{
    static const float xs[] = {0.0f,       -0.0f,           1.0f,
                               -1.0f,      INFINITY,        -INFINITY,
                               NAN,        0x1.fffffep127f, 0x1p-149f,
                               -0x1p-149f, 0x1p-126f,       0x1.000002p0f,
                               0x1p64f,    0x1p-75f,        0x1.fffffep-127f};
    const int n = sizeof xs / sizeof xs[0];

    (void)state;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            for (int c = 0; c < n; c++)
                expect_fma(xs[a], xs[b], xs[c]);
}

/* --- in double */

static double relative(double got, double want)
{
    return fabs(got - want) / fabs(want);
}

static void exp_log_and_pow_are_right_to_the_16th_digit(void **state)
{
    numbers r = {2};

    (void)state;
    for (int i = 0; i < 200000; i++) {
        const double x = (double)number_unit(&r) * 700, y = exp(x);
        const double near = 1 + (double)number_unit(&r) * 0x1p-10;
        const double theta = 1e4 * (1 + 100 * fabs((double)number_unit(&r)));

        assert_true(relative(fb_exp_d(x), y) < 5e-16);
        assert_true(relative(fb_log_d(y), log(y)) < 5e-16);
        if (near > 1 || near < 1)
            assert_true(relative(fb_log_d(near), log(near)) < 5e-16);
        assert_true(relative(fb_pow_d(theta, x / 700), pow(theta, x / 700)) < 5e-16);
    }
}

static void exp_and_log_know_the_special_cases(void **state)
{
    (void)state;
    assert_true(isinf(fb_exp_d(1000)) && isinf(fb_exp_d(HUGE_VAL)));
    assert_true(fb_exp_d(-1000) >= 0 && fb_exp_d(-HUGE_VAL) <= 0);
    assert_true(isnan(fb_exp_d((double)NAN)) && isnan(fb_log_d((double)NAN)));
    assert_true(isnan(fb_log_d(-1)) && isinf(fb_log_d(0)) && fb_log_d(0) < 0);
    assert_true(isinf(fb_log_d(HUGE_VAL)));
    assert_true(fabs(fb_exp_d(0) - 1) <= 0 && fabs(fb_log_d(1)) <= 0);
    assert_true(relative(fb_exp_d(-740), exp(-740)) < 1e-2); /* a subnormal number */
    assert_true(relative(fb_log_d(0x1p-1070), log(0x1p-1070)) < 5e-16);
    assert_true(fabs(fb_pow_d(7, 0) - 1) <= 0);
    assert_true(fabs(fb_pow_d(10000, 0.5) - 100) <= 0);
}

/* Angles as rotary embedding makes them: f32, up to a million. */
static void sin_and_cos_round_to_the_right_float(void **state)
{
    const int64_t n = long_or_short(5000000, 300000);
    numbers r = {3};

    (void)state;
    for (int64_t i = 0; i < n; i++) {
        const float size = i % 3 == 0 ? 1e6f : i % 3 == 1 ? 100.0f : 0.01f;
        const float x = number_unit(&r) * size;
        const float sine = (float)fb_sin_d((double)x);
        const float cosine = (float)fb_cos_d((double)x);

        if (to_bits(sine) != to_bits((float)sin((double)x)) ||
            to_bits(cosine) != to_bits((float)cos((double)x)))
            fail_msg("sin or cos of %a", (double)x);
    }
    assert_true(fabs(fb_sin_d(0)) <= 0 && fabs(fb_cos_d(0) - 1) <= 0);
}

static void sin_and_cos_are_near_up_to_the_largest_angle(void **state)
{
    const int64_t n = long_or_short(5000000, 300000);
    numbers r = {7};

    (void)state;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)number_unit(&r) * FB_LARGEST_ANGLE;

        assert_true(fabs(fb_sin_d(x) - sin(x)) < 1e-9);
        assert_true(fabs(fb_cos_d(x) - cos(x)) < 1e-9);
    }
}

/* --- exp of the operator table */

/* exp of n floats by the operator, through one target. */
static void table_exp(const char *isa, const float *x, float *out, int64_t n)
{
    fb_ops *ops;

    assert_ok(fb_ops_open(&ops, &(fb_ops_options){.isa = isa, .threads = 1}));
    assert_ok(fb_to_host(ops, fb_exp(ops, fb_from_host(ops, FB_F32, 1, &n, x)), out,
                         (size_t)n * sizeof *out));
    fb_ops_close(ops);
}

static void exp_is_within_a_unit_in_the_last_place(void **state)
{
    enum { MANY = 400000 };
    float *x = number_array(&(numbers){4}, MANY, 88.7f);
    float *y = malloc(MANY * sizeof *y);

    (void)state;
    for (int i = 0; i < MANY / 2; i++)
        x[i] /= 100;
    table_exp(NULL, x, y, MANY);
    for (int i = 0; i < MANY; i++) {
        const double want = exp((double)x[i]);
        const float above = nextafterf((float)want, INFINITY);
        const double unit = (double)above - (double)(float)want;

        if (want < 0x1p-126 ? y[i] > 0 : fabs((double)y[i] - want) > 0.95 * unit)
            fail_msg("exp(%a) is %a", (double)x[i], (double)y[i]);
    }
    free(x);
    free(y);
}

static void exp_knows_the_special_cases(void **state)
{
    const float x[] = {0.0f,    -0.0f,  -INFINITY, INFINITY, NAN,   89.0f,
                       -104.0f, -87.3f, 88.72283f, -1e30f,   1e30f, -0x1p-149f};
    float y[12];

    (void)state;
    table_exp(NULL, x, y, 12);
    assert_true(to_bits(y[0]) == to_bits(1.0f) && to_bits(y[1]) == to_bits(1.0f));
    assert_true(to_bits(y[2]) == 0 && isinf(y[3]) && isnan(y[4]) && isinf(y[5]));
    assert_true(to_bits(y[6]) == 0 && y[7] > 0 && isfinite(y[8]) && to_bits(y[9]) == 0);
    assert_true(isinf(y[10]) && to_bits(y[11]) == to_bits(1.0f));
    y[0] = from_bits(0x7f800001); /* a NaN with another payload */
    y[1] = from_bits(0xffffffff);
    table_exp(NULL, y, y, 2);
    assert_true(isnan(y[0]) && isnan(y[1]));
}

/* Scores that are nearly equal must not swap their order. */
static void exp_rises_near_zero(void **state)
{
    enum { MANY = 300000 };
    float *x = malloc(MANY * sizeof *x), *y = malloc(MANY * sizeof *y);

    (void)state;
    for (int i = 0; i < MANY; i++)
        x[i] = -(float)(MANY - 1 - i) * 0x1p-24f;
    table_exp(NULL, x, y, MANY);
    for (int i = 1; i < MANY; i++)
        assert_true(y[i] >= y[i - 1]);
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soft_fma_rounds_once),
        cmocka_unit_test(soft_fma_knows_the_special_cases),
        cmocka_unit_test(exp_log_and_pow_are_right_to_the_16th_digit),
        cmocka_unit_test(exp_and_log_know_the_special_cases),
        cmocka_unit_test(sin_and_cos_round_to_the_right_float),
        cmocka_unit_test(sin_and_cos_are_near_up_to_the_largest_angle),
        cmocka_unit_test(exp_is_within_a_unit_in_the_last_place),
        cmocka_unit_test(exp_knows_the_special_cases),
        cmocka_unit_test(exp_rises_near_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
