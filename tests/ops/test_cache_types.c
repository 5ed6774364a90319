/* test_cache_types.c - keys and values in f16 and bf16: rounded when written, and from
 * then on what was rounded, whoever reads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

static const fb_dtype types[] = {FB_F16, FB_BF16};

/* --- rounding, against a list of all numbers that a type has */

enum { MOST_NUMBERS = 0x8000, MOST_ROW = 1 << 16 };

struct type {
    fb_dtype dtype;
    int exponent_bits, fraction_bits;
    int n;                       /* finite ones that are not negative */
    double number[MOST_NUMBERS]; /* ascending: the number with the bits i */
};

/* From the definition of the formats, with no shift of a float's bits. */
static void list_numbers(struct type *t, fb_dtype dtype)
{
    const int bias = dtype == FB_F16 ? 15 : 127;

    t->dtype = dtype;
    t->exponent_bits = dtype == FB_F16 ? 5 : 8;
    t->fraction_bits = 15 - t->exponent_bits;
    t->n = ((1 << t->exponent_bits) - 1) << t->fraction_bits;
    for (int i = 0; i < t->n; i++) {
        const int exponent = i >> t->fraction_bits;
        const int fraction = i & ((1 << t->fraction_bits) - 1);
        const double one = exponent == 0 ? 0 : 1;

        t->number[i] = ldexp(one + ldexp(fraction, -t->fraction_bits),
                             (exponent == 0 ? 1 : exponent) - bias);
    }
}

/* The nearest, of two that are equally near the one with even bits. */
static double nearest(const struct type *t, float x)
{
    const double size = fabs((double)x);
    int low = 0, high = t->n - 1;
    double below, above;

    while (high - low > 1) {
        const int middle = (low + high) / 2;

        *(t->number[middle] <= size ? &low : &high) = middle;
    }
    below = size - t->number[low];
    above = t->number[high] - size;
    if (above < below || (!(below < above) && low % 2 == 1)) low = high;
    return copysign(t->number[low], (double)x);
}

/* One slot of one entry; x [2 n] is its key, then its value. */
static fb_status write_numbers(fb_ops *ops, fb_dtype dtype, const float *x, int64_t n,
                               float *key, float *value)
{
    const int64_t one = 1, zero = 0, shape[] = {1, 2 * n};
    const size_t bytes = (size_t)n * sizeof *key;
    fb_status status;
    fb_kv *kv;

    assert_ok(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, dtype, n, 1, &one));
    fb_scope_open(ops);
    fb_kv_write(ops, kv, fb_from_host(ops, FB_F32, 2, shape, x), 1, 0, 1, &zero, &zero);
    status = fb_ops_status(ops);
    if (status == FB_OK) {
        assert_ok(fb_to_host(ops, fb_kv_read(ops, kv, false, 0, 1, 1), key, bytes));
        assert_ok(fb_to_host(ops, fb_kv_read(ops, kv, true, 0, 1, 1), value, bytes));
    }
    fb_scope_close(ops);
    fb_kv_free(kv);
    return status;
}

static void check_rounding(fb_ops *ops, const struct type *t, const float *x, int64_t n)
{
    static float key[MOST_ROW], value[MOST_ROW];

    assert_ok(write_numbers(ops, t->dtype, x, n, key, value));
    for (int64_t i = 0; i < 2 * n; i++) {
        const double want = nearest(t, x[i]);
        const double got = (double)(i < n ? key[i] : value[i - n]);

        if (memcmp(&want, &got, sizeof want) != 0)
            fail_msg("%a becomes %a, not %a", (double)x[i], got, want);
    }
}

/* A number of the type, what is near it, the middle to the next and what is near that;
 * with either sign. */
static int64_t put_near(const struct type *t, int i, float *x)
{
    const float number = (float)t->number[i];
    const float middle = (float)((t->number[i] + t->number[i + 1]) / 2);
    const float near[] = {number, nextafterf(number, 1e30f), middle,
                          nextafterf(middle, 1e30f), nextafterf(middle, -1)};

    for (int j = 0; j < 10; j++)
        x[j] = j % 2 == 0 ? near[j / 2] : -near[j / 2];
    return 10;
}

static void numbers_are_rounded_to_the_nearest_and_ties_to_even(void **state)
{
    static struct type t;
    static float x[2 * MOST_ROW];
    numbers rng = {3};
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    for (int d = 0; d < 2; d++) {
        int64_t n = 0;

        list_numbers(&t, types[d]);
        for (int i = 0; i + 1 < t.n; i++) {
            n += put_near(&t, i, x + n);
            if (n + 10 <= 2 * MOST_ROW && i + 2 < t.n) continue;
            check_rounding(ops, &t, x, n / 2);
            n = 0;
        }
        for (int64_t i = 0; i < 2 * MOST_ROW; i++)
            x[i] = ldexpf(number_unit(&rng), (int)number_int(&rng, -40, 15));
        check_rounding(ops, &t, x, MOST_ROW);
    }
    fb_ops_close(ops);
}

static void what_does_not_fit_is_refused(void **state)
{
    static const struct {
        fb_dtype dtype;
        float x;
        bool fits;
    } cases[] = {
        {FB_F16, 65519.996f, true},
        {FB_F16, 65520, false},
        {FB_F16, -65520, false},
        {FB_F16, -131072, false},
        {FB_F16, 1e30f, false},
        {FB_F16, INFINITY, false},
        {FB_F16, NAN, false},
        {FB_BF16, 3.38e38f, true},
        {FB_BF16, 3.4e38f, false},
        {FB_BF16, -INFINITY, false},
        {FB_BF16, NAN, false},
        {FB_F32, INFINITY, true},
        {FB_BF16, 0x1.fefffep127f, true},
        {FB_BF16, -0x1.ffp127f, false},
    };
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int place = 0; place < 6; place++) {
            float x[6] = {1, 2, 3, 4, 5, 6}, key[3], value[3];
            fb_status status;

            x[place] = cases[i].x;
            status = write_numbers(ops, cases[i].dtype, x, 3, key, value);
            assert_int_equal(status, cases[i].fits ? FB_OK : FB_UNSUPPORTED);
            if (!cases[i].fits)
                assert_fails(fb_ops_status(ops), FB_UNSUPPORTED,
                             "a key or value is no number that ");
            fb_ops_reset(ops);
        }
    fb_ops_close(ops);
}

/* --- attention */

enum { H = 6, G = 2, D = 40, WIDTH = (H + 2 * G) * D, N = 75, T = 9, ROWS = N + T };

static fb_kv *new_kv(fb_ops *ops, fb_dtype dtype, int64_t capacity)
{
    fb_kv *kv;

    assert_ok(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, dtype, D, G,
                        (int64_t[]){capacity, capacity}));
    return kv;
}

/* Attention of tokens read in chunks: the first N to a context, the others to a tail. */
static void attend(fb_ops *ops, fb_dtype dtype, const float *x, int64_t chunk,
                   float *out)
{
    fb_kv *kv[] = {new_kv(ops, dtype, N), new_kv(ops, dtype, T)};

    for (int64_t at = 0, t; at < ROWS; at += t) {
        const bool is_tail = at >= N;
        const int64_t first = is_tail ? at - N : at, end = is_tail ? T : N;
        fb_segment segments[G];
        fb_tensor rows;

        t = end - first < chunk ? end - first : chunk;
        fb_scope_open(ops);
        rows = fb_from_host(ops, FB_F32, 2, (int64_t[]){t, WIDTH}, x + at * WIDTH);
        fb_kv_write(ops, kv[is_tail], rows, 1, H, G, (int64_t[]){0, 1}, &first);
        for (int64_t g = 0; g < G; g++)
            segments[g] = (fb_segment){
                .context = {kv[0], g, is_tail ? N : first + t, NULL, 0},
                .tail = {is_tail ? kv[1] : NULL, g, is_tail ? first + t : 0, NULL, 0}};
        assert_ok(fb_to_host(ops,
                             fb_attention(ops, &(fb_attend){.x = rows,
                                                            .segments = segments,
                                                            .n_sequences = 1,
                                                            .heads = H,
                                                            .kv_heads = G,
                                                            .head_dim = D,
                                                            .scale = 0.3}),
                             out + at * H * D, (size_t)(t * H * D) * sizeof *out));
        fb_scope_close(ops);
    }
    fb_kv_free(kv[0]);
    fb_kv_free(kv[1]);
}

/* x with keys and values as the type has them. */
static void round_text(fb_ops *ops, fb_dtype dtype, float *x)
{
    float key[G * D], value[G * D];

    for (int64_t i = 0; i < ROWS; i++) {
        float *own = x + i * WIDTH + H * D;

        assert_ok(write_numbers(ops, dtype, own, G * D, key, value));
        memcpy(own, key, sizeof key);
        memcpy(own + G * D, value, sizeof value);
    }
}

static void check_everywhere(fb_dtype dtype, const float *x, const float *want)
{
    static const char *const isas[] = {"plain", "avx2", "avx512", "neon"};
    static const int64_t chunks[] = {1, 7, 64, ROWS};
    static float got[ROWS * H * D];

    for (int i = 0; i < 4; i++)
        for (int threads = 1; threads <= 3; threads++) {
            const fb_ops_options options = {.isa = isas[i], .threads = threads};
            fb_ops *ops;

            if (fb_ops_open(&ops, &options) != FB_OK) continue;
            for (int c = 0; c < 4; c++) {
                attend(ops, dtype, x, chunks[c], got);
                assert_true(all_equal(isas[i], got, want, ROWS * H * D));
            }
            fb_ops_close(ops);
        }
}

static void attention_reads_what_was_rounded(void **state)
{
    static float want[ROWS * H * D], exact[ROWS * H * D];
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    for (int d = 0; d < 2; d++) {
        float *x = number_array(&(numbers){5}, ROWS * WIDTH, 1.5f);
        float *rounded = number_array(&(numbers){5}, ROWS * WIDTH, 1.5f);

        round_text(ops, types[d], rounded);
        attend(ops, FB_F32, x, ROWS, exact);
        attend(ops, FB_F32, rounded, ROWS, want);
        assert_memory_not_equal(want, exact, sizeof want);
        check_everywhere(types[d], x, want);
        free(x);
        free(rounded);
    }
    fb_ops_close(ops);
}

/* --- memory */

static void a_copy_has_the_same_bits_and_half_the_bytes(void **state)
{
    const int32_t index[] = {7, 0, 33, 34, 2};
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    for (int d = 0; d < 2; d++) {
        const size_t before = fb_memory_now(FB_ACCOUNT_kv);
        float *x = number_array(&(numbers){9}, 35 * WIDTH, 4), a[2 * 35 * D], b[5 * D];
        fb_kv *from = new_kv(ops, types[d], 35), *to = new_kv(ops, types[d], 5);
        fb_kv *other = new_kv(ops, FB_F32, 5);
        const int64_t at = 0;

        assert_int_equal(fb_kv_bytes(from), 35 * G * 2 * D * 2);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_kv) - before,
                         fb_kv_bytes(from) + fb_kv_bytes(to) + fb_kv_bytes(other));
        fb_scope_open(ops);
        fb_kv_write(ops, from, fb_from_host(ops, FB_F32, 2, (int64_t[]){35, WIDTH}, x),
                    1, H, G, (int64_t[]){0, 1}, &at);
        fb_kv_copy(ops, to, 1, from, 1, index, 5);
        for (int values = 0; values < 2; values++) {
            assert_ok(
                fb_to_host(ops, fb_kv_read(ops, from, values, 0, G, 35), a, sizeof a));
            assert_ok(
                fb_to_host(ops, fb_kv_read(ops, to, values, 1, 1, 5), b, sizeof b));
            for (int i = 0; i < 5; i++)
                assert_memory_equal(b + i * D, a + (35 + index[i]) * D, D * sizeof *a);
        }
        fb_kv_copy(ops, other, 0, from, 0, index, 5);
        assert_fails(fb_ops_status(ops), FB_DEFECT, "fb_kv_copy");
        fb_ops_reset(ops);
        fb_kv_free(from);
        fb_kv_free(to);
        fb_kv_free(other);
        free(x);
    }
    fb_ops_close(ops);
}

static void only_caches_have_these_types(void **state)
{
    const int64_t three = 3;
    const uint16_t x[] = {1, 2, 3};
    fb_ops *ops;
    fb_kv *kv;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    assert_int_equal(fb_from_host(ops, FB_F16, 1, &three, x).id, 0);
    assert_fails(fb_ops_status(ops), FB_DEFECT, "a tensor is of f32, f64 or i64");
    fb_ops_reset(ops);
    assert_fails(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_I64, 4, 1, &three), FB_DEFECT,
                 "a cache is of f32, f16 or bf16");
    fb_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_rounded_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(attention_reads_what_was_rounded),
        cmocka_unit_test(a_copy_has_the_same_bits_and_half_the_bytes),
        cmocka_unit_test(only_caches_have_these_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
