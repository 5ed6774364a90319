/* conformance.h - every operator of the table against a slow reference in double.
 *
 * One row per entry of src/ops/list.h: random shapes, ties, signed zeros, infinities,
 * NaN, empty and single elements. An entry without a row does not compile. Attention has
 * programs of its own; its rows here are small. Of two tolerances the second is for a
 * backend that is not exact.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_OPS_CONFORMANCE_H
#define TESTS_OPS_CONFORMANCE_H

#include "ops/backend.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

#define EXACT   0.0
#define CLOSE   3e-7 /* a few units in the last place */
#define PRODUCT 2e-5 /* of up to 300 terms below 1 */

static fb_ops *ops;
static numbers rng;

static double within(double exact, double other)
{
    return fb_ops_is_exact(ops) ? exact : other;
}

/* A tensor and what it holds. */
struct host {
    fb_tensor tensor;
    float *x;
    int64_t shape[4], n;
    int n_dims;
};

static struct host host_of(int n_dims, const int64_t *shape, float *x)
{
    struct host a = {.x = x, .n_dims = n_dims, .n = 1};

    for (int i = 0; i < n_dims; i++) {
        a.shape[i] = shape[i];
        a.n *= shape[i];
    }
    a.tensor = fb_from_host(ops, FB_F32, n_dims, shape, x);
    return a;
}

static int64_t product_of(int n_dims, const int64_t *shape)
{
    int64_t n = 1;

    for (int i = 0; i < n_dims; i++)
        n *= shape[i];
    return n;
}

static struct host new_host(int n_dims, const int64_t *shape, float size)
{
    return host_of(n_dims, shape, number_array(&rng, product_of(n_dims, shape), size));
}

static struct host tied_host(int n_dims, const int64_t *shape)
{
    return host_of(n_dims, shape, number_ties(&rng, product_of(n_dims, shape)));
}

/* Small sizes, now and then 0 or 1, now and then large. */
static int64_t any_size(void)
{
    const int64_t kind = number_int(&rng, 0, 9);

    if (kind == 0) return 0;
    if (kind == 1) return 1;
    return number_int(&rng, 2, kind == 2 ? 300 : 40);
}

/* The tensor has this shape and holds what `want` says; frees `want`. */
static void expect(const char *name, fb_tensor got, int n_dims, const int64_t *shape,
                   double *want, double tolerance)
{
    const int64_t n = product_of(n_dims, shape);
    float *x = malloc((size_t)(n + 1) * sizeof *x);

    assert_int_equal(fb_n_dims(ops, got), n_dims);
    for (int i = 0; i < n_dims; i++)
        assert_int_equal(fb_size(ops, got, i), shape[i]);
    assert_ok(fb_to_host(ops, got, x, (size_t)n * sizeof *x));
    assert_true(all_close(name, x, want, n, tolerance));
    free(x);
    free(want);
}

static double *room(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}

/* Where element i of a tensor of this shape is. */
static void find_place(int64_t i, int n_dims, const int64_t *shape, int64_t *at)
{
    for (int d = n_dims - 1; d >= 0; d--) {
        at[d] = i % shape[d];
        i /= shape[d];
    }
}

/* The element there of a tensor that is repeated to n_dims dimensions. */
static double element(const struct host *a, const int64_t *at, int n_dims)
{
    int64_t place = 0;

    for (int i = 0; i < a->n_dims; i++) {
        const int64_t here = at[n_dims - a->n_dims + i];

        place = place * a->shape[i] + (a->shape[i] == 1 ? 0 : here);
    }
    return (double)a->x[place];
}

/* --- moving */

static void check_from_host(void)
{
    const int64_t shape[] = {any_size(), 3};
    struct host a = new_host(2, shape, 5);
    double *want = room(a.n);

    for (int64_t i = 0; i < a.n; i++)
        want[i] = (double)a.x[i];
    expect("from_host", a.tensor, 2, shape, want, EXACT);
    free(a.x);
}

static void check_to_host(void)
{
    const int64_t whole[] = {1, -7, INT64_MAX}, n = 3;
    int64_t back[3];
    double reals[] = {1.5, -2.25, 1e300}, reals_back[3];

    assert_ok(fb_to_host(ops, fb_from_host(ops, FB_I64, 1, &n, whole), back, 24));
    assert_memory_equal(whole, back, sizeof whole);
    assert_ok(fb_to_host(ops, fb_from_host(ops, FB_F64, 1, &n, reals), reals_back, 24));
    assert_memory_equal(reals, reals_back, sizeof reals);
}

static void check_full(void)
{
    const int64_t shape[] = {2, any_size()};
    double *want = room(2 * shape[1]);

    for (int64_t i = 0; i < 2 * shape[1]; i++)
        want[i] = -0.75;
    expect("full", fb_full(ops, 2, shape, -0.75), 2, shape, want, EXACT);
    want = room(1);
    want[0] = 3;
    expect("full", fb_full(ops, 0, NULL, 3), 0, NULL, want, EXACT);
}

static void check_narrow(void)
{
    const int64_t shape[] = {number_int(&rng, 1, 5), number_int(&rng, 1, 5),
                             number_int(&rng, 1, 5)};
    struct host a = new_host(3, shape, 1);

    for (int dim = 0; dim < 3; dim++) {
        const int64_t start = number_int(&rng, 0, shape[dim]);
        const int64_t length = number_int(&rng, 0, shape[dim] - start);
        int64_t small[] = {shape[0], shape[1], shape[2]}, n = 0;
        double *want = room(a.n);

        small[dim] = length;
        for (int64_t i = 0; i < a.n; i++) {
            const int64_t at[] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1],
                                  i % shape[2]};

            if (at[dim] >= start && at[dim] < start + length)
                want[n++] = (double)a.x[i];
        }
        expect("narrow", fb_narrow(ops, a.tensor, dim - 3, start, length), 3, small,
               want, EXACT);
    }
    free(a.x);
}

/* Whole numbers too large for f32, to be moved. */
static fb_tensor whole_numbers(void)
{
    return fb_from_host(ops, FB_I64, 2, (int64_t[]){2, 2},
                        (int64_t[]){1, -7, INT64_MAX, 4});
}

static void expect_whole(fb_tensor got, int64_t n, const int64_t *want)
{
    int64_t x[8];

    assert_ok(fb_to_host(ops, got, x, (size_t)n * sizeof *x));
    assert_memory_equal(x, want, (size_t)n * sizeof *x);
}

static void check_cat(void)
{
    const int dim = (int)number_int(&rng, 0, 2);
    int64_t shape[] = {number_int(&rng, 0, 5), number_int(&rng, 1, 5),
                       number_int(&rng, 1, 5)};
    struct host a = new_host(3, shape, 1), b;
    double *want;

    shape[dim] = any_size();
    b = new_host(3, shape, 1);
    shape[dim] += a.shape[dim];
    want = room(product_of(3, shape));
    for (int64_t i = 0; i < product_of(3, shape); i++) {
        int64_t at[3];

        find_place(i, 3, shape, at);
        if (at[dim] >= a.shape[dim]) {
            at[dim] -= a.shape[dim];
            want[i] = element(&b, at, 3);
        } else {
            want[i] = element(&a, at, 3);
        }
    }
    expect("cat", fb_cat(ops, a.tensor, b.tensor, dim - 3), 3, shape, want, EXACT);
    expect_whole(fb_cat(ops, whole_numbers(), whole_numbers(), 1), 8,
                 (int64_t[]){1, -7, 1, -7, INT64_MAX, 4, INT64_MAX, 4});
    free(a.x);
    free(b.x);
}

static void swap(int64_t *sizes, int i, int j)
{
    const int64_t saved = sizes[i];

    sizes[i] = sizes[j];
    sizes[j] = saved;
}

static void check_transpose(void)
{
    const int n_dims = (int)number_int(&rng, 1, 4);
    const int dim0 = (int)number_int(&rng, 0, n_dims - 1);
    const int dim1 = (int)number_int(&rng, 0, n_dims - 1);
    int64_t shape[4] = {0};
    struct host a;
    double *want;
    fb_tensor got, first;

    for (int i = 0; i < n_dims; i++)
        shape[i] = number_int(&rng, number_int(&rng, 0, 9) == 0 ? 0 : 1, 9);
    a = new_host(n_dims, shape, 1);
    swap(shape, dim0, dim1);
    want = room(a.n);
    for (int64_t i = 0; i < a.n; i++) {
        int64_t at[4];

        find_place(i, n_dims, shape, at);
        swap(at, dim0, dim1);
        want[i] = element(&a, at, n_dims);
    }
    got = fb_transpose(ops, a.tensor, dim0, dim1 - n_dims);
    first = fb_narrow(ops, a.tensor, 0, 0, a.shape[0] > 0);
    fb_add_(ops, first, first); /* a copy does not change with it */
    expect("transpose", got, n_dims, shape, want, EXACT);
    expect_whole(fb_transpose(ops, whole_numbers(), 0, 1), 4,
                 (int64_t[]){1, INT64_MAX, -7, 4});
    free(a.x);
}

/* --- two operands, broadcast */

static const float specials[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, 3e38f};

static void spoil_with(struct host *a, int64_t last)
{
    for (int64_t i = 0; i < a->n; i++)
        if (number_int(&rng, 0, 9) == 0) a->x[i] = specials[number_int(&rng, 0, last)];
    a->tensor = fb_from_host(ops, FB_F32, a->n_dims, a->shape, a->x);
}

static void spoil(struct host *a)
{
    spoil_with(a, 6);
}

/* Of what is summed; where sums are f32, two of the largest are infinite on the way. */
static void spoil_terms(struct host *a)
{
    spoil_with(a, fb_ops_is_exact(ops) ? 6 : 5);
}

static void check_binary(const char *name, fb_tensor (*run)(fb_tensor, fb_tensor),
                         float (*of)(float, float), double tolerance)
{
    int64_t shape[4] = {0}, x_shape[4] = {0}, y_shape[4] = {0}, n;
    const int n_dims = (int)number_int(&rng, 0, 4);
    const int x_dims = n_dims, y_dims = (int)number_int(&rng, 0, n_dims);
    struct host x, y;
    double *want;

    for (int i = 0; i < n_dims; i++) {
        shape[i] = number_int(&rng, 1, i == n_dims - 1 ? 40 : 4);
        x_shape[i] = number_int(&rng, 0, 3) == 0 ? 1 : shape[i];
        y_shape[i] = x_shape[i] != shape[i] || number_int(&rng, 0, 3) ? shape[i] : 1;
    }
    for (int i = 0; i < n_dims - y_dims; i++)
        shape[i] = x_shape[i];
    x = new_host(x_dims, x_shape, 4);
    y = new_host(y_dims, y_shape + n_dims - y_dims, 4);
    spoil(&x);
    spoil(&y);
    n = product_of(n_dims, shape);
    want = room(n);
    for (int64_t i = 0; i < n; i++) {
        int64_t at[4];

        find_place(i, n_dims, shape, at);
        want[i] =
            (double)of((float)element(&x, at, n_dims), (float)element(&y, at, n_dims));
    }
    expect(name, run(x.tensor, y.tensor), n_dims, shape, want, tolerance);
    free(x.x);
    free(y.x);
}

static fb_tensor run_add(fb_tensor a, fb_tensor b)
{
    return fb_add(ops, a, b, -0.5);
}

static float of_add(float a, float b)
{
    return a + -0.5f * b;
}

static void check_add(void)
{
    check_binary("add", run_add, of_add, within(EXACT, CLOSE)); /* may be fused */
}

static fb_tensor run_mul(fb_tensor a, fb_tensor b)
{
    return fb_mul(ops, a, b);
}

static float of_mul(float a, float b)
{
    return a * b;
}

static void check_mul(void)
{
    check_binary("mul", run_mul, of_mul, EXACT);
}

static fb_tensor run_div(fb_tensor a, fb_tensor b)
{
    return fb_div(ops, a, b);
}

static float of_div(float a, float b)
{
    return a / b;
}

static void check_div(void)
{
    check_binary("div", run_div, of_div, EXACT);
}

static fb_tensor run_maximum(fb_tensor a, fb_tensor b)
{
    return fb_maximum(ops, a, b);
}

static float of_maximum(float a, float b)
{
    if (isnan(a) || isnan(b)) return NAN;
    return a > b ? a : b;
}

static void check_maximum(void)
{
    check_binary("maximum", run_maximum, of_maximum, EXACT);
}

static fb_tensor run_less(fb_tensor a, fb_tensor b)
{
    return fb_less(ops, a, b);
}

static float of_less(float a, float b)
{
    return a < b ? 1 : 0;
}

static void check_less(void)
{
    check_binary("less", run_less, of_less, EXACT);
}

/* Of three operands one has all dimensions. */
static void check_where(void)
{
    const int n_dims = (int)number_int(&rng, 0, 4);
    const int64_t longest = number_int(&rng, 0, 2);
    int64_t size[4], shape[] = {1, 1, 1, 1};
    struct host in[3];
    double *want;

    for (int i = 0; i < n_dims; i++)
        size[i] = number_int(&rng, 1, i == n_dims - 1 ? 40 : 4);
    for (int p = 0; p < 3; p++) {
        const int first = p == longest ? 0 : (int)number_int(&rng, 0, n_dims);
        int64_t own[4];

        for (int i = first; i < n_dims; i++) {
            own[i] = number_int(&rng, 0, 3) == 0 ? 1 : size[i];
            if (own[i] > shape[i]) shape[i] = own[i];
        }
        in[p] = p == 0 ? tied_host(n_dims - first, own + first)
                       : new_host(n_dims - first, own + first, 4);
        spoil(&in[p]);
    }
    want = room(product_of(n_dims, shape));
    for (int64_t i = 0; i < product_of(n_dims, shape); i++) {
        int64_t at[4];

        find_place(i, n_dims, shape, at);
        want[i] = element(&in[0], at, n_dims) != 0 ? element(&in[1], at, n_dims)
                                                   : element(&in[2], at, n_dims);
    }
    expect("where", fb_where(ops, in[0].tensor, in[1].tensor, in[2].tensor), n_dims,
           shape, want, EXACT);
    for (int p = 0; p < 3; p++)
        free(in[p].x);
}

/* --- one operand */

static void check_unary(const char *name, fb_tensor (*run)(fb_tensor),
                        double (*of)(double), float size, double tolerance)
{
    const int64_t shape[] = {any_size(), any_size()};
    struct host a = new_host(2, shape, size);
    double *want = room(a.n);

    spoil(&a);
    for (int64_t i = 0; i < a.n; i++)
        want[i] = of((double)a.x[i]);
    expect(name, run(a.tensor), 2, shape, want, tolerance);
    free(a.x);
}

static fb_tensor run_scale(fb_tensor a)
{
    return fb_scale(ops, a, 1.75);
}

static double of_scale(double x)
{
    return (double)((float)x * 1.75f);
}

static void check_scale(void)
{
    check_unary("scale", run_scale, of_scale, 9, EXACT);
}

static fb_tensor run_sqrt(fb_tensor a)
{
    return fb_sqrt(ops, a);
}

static double of_sqrt(double x)
{
    return (double)sqrtf((float)x);
}

static void check_sqrt(void)
{
    check_unary("sqrt", run_sqrt, of_sqrt, 9, within(EXACT, CLOSE));
}

static fb_tensor run_exp(fb_tensor a)
{
    return fb_exp(ops, a);
}

/* Below the smallest normal number: 0. */
static double of_exp(double x)
{
    const double y = exp(x);

    return y < 0x1p-126 ? 0 : y > 0x1.fffffep127 ? HUGE_VAL : y;
}

static void check_exp(void)
{
    check_unary("exp", run_exp, of_exp, 90, CLOSE);
}

static fb_tensor run_log(fb_tensor a)
{
    return fb_log(ops, a);
}

static double of_log(double x)
{
    return (double)(float)log(x);
}

static void check_log(void)
{
    check_unary("log", run_log, of_log, 1e6f, within(EXACT, CLOSE));
}

static fb_tensor run_abs(fb_tensor a)
{
    return fb_abs(ops, a);
}

static void check_abs(void)
{
    check_unary("abs", run_abs, fabs, 9, EXACT);
}

/* --- reductions */

static void check_reduction(const char *name, fb_tensor (*run)(fb_tensor, int),
                            double (*of)(const double *, int64_t), bool may_be_empty)
{
    int64_t shape[] = {number_int(&rng, 1, 4), any_size(), number_int(&rng, 1, 20)};
    const int dim = (int)number_int(&rng, 0, 2);
    int64_t small[2], outer = 1, inner = 1;
    struct host a;
    double *want, *line;

    if (!may_be_empty && shape[1] == 0) shape[1] = 33;
    a = new_host(3, shape, 3);
    if (number_int(&rng, 0, 1)) spoil_terms(&a);
    for (int i = 0; i < 3; i++) {
        if (i != dim) small[i < dim ? i : i - 1] = shape[i];
        if (i < dim) outer *= shape[i];
        if (i > dim) inner *= shape[i];
    }
    want = room(outer * inner);
    line = room(shape[dim]);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t c = 0; c < inner; c++) {
            for (int64_t i = 0; i < shape[dim]; i++)
                line[i] = (double)a.x[(o * shape[dim] + i) * inner + c];
            want[o * inner + c] = of(line, shape[dim]);
        }
    expect(name, run(a.tensor, dim - 3), 2, small, want, within(1e-6, 1e-5));
    free(line);
    free(a.x);
}

static fb_tensor run_sum(fb_tensor a, int dim)
{
    return fb_sum(ops, a, dim);
}

static double of_sum(const double *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return fabs(sum) > 3.5e38 ? copysign(HUGE_VAL, sum) : sum;
}

static void check_sum(void)
{
    check_reduction("sum", run_sum, of_sum, true);
}

static fb_tensor run_mean(fb_tensor a, int dim)
{
    return fb_mean(ops, a, dim);
}

static double of_mean(const double *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static void check_mean(void)
{
    check_reduction("mean", run_mean, of_mean, true);
}

static fb_tensor run_var(fb_tensor a, int dim)
{
    return fb_var(ops, a, dim);
}

static double of_var(const double *x, int64_t n)
{
    const double mean = of_mean(x, n);
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    sum /= (double)(n == 1 ? 1 : n - 1);
    return sum > 3.5e38 ? HUGE_VAL : sum;
}

static void check_var(void)
{
    check_reduction("var", run_var, of_var, true);
}

static fb_tensor run_amax(fb_tensor a, int dim)
{
    return fb_amax(ops, a, dim);
}

static double of_amax(const double *x, int64_t n)
{
    double most = x[0];

    for (int64_t i = 1; i < n; i++)
        if (isnan(x[i]) || x[i] > most) most = x[i];
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i])) most = x[i];
    return most;
}

static void check_amax(void)
{
    check_reduction("amax", run_amax, of_amax, false);
}

/* --- the last dimension */

static void softmax_in_double(const float *x, int64_t n, double *out)
{
    double max = -HUGE_VAL, sum = 0;

    for (int64_t i = 0; i < n; i++)
        if ((double)x[i] > max) max = (double)x[i];
    for (int64_t i = 0; i < n; i++) {
        out[i] = exp((double)x[i] - max);
        sum += out[i];
    }
    for (int64_t i = 0; i < n; i++)
        out[i] /= sum;
}

static void check_softmax(void)
{
    const int64_t shape[] = {any_size(), any_size()};
    struct host a = new_host(2, shape, 20);
    double *want = room(a.n);

    for (int64_t i = 0; i < a.n; i++)
        if (i % shape[1] > 0 && number_int(&rng, 0, 4) == 0) a.x[i] = -INFINITY;
    a.tensor = fb_from_host(ops, FB_F32, 2, shape, a.x);
    for (int64_t r = 0; r < shape[0]; r++)
        softmax_in_double(a.x + r * shape[1], shape[1], want + r * shape[1]);
    expect("softmax", fb_softmax(ops, a.tensor), 2, shape, want, CLOSE);
    free(a.x);
}

/* Natively a chain in f32. */
static void check_cumsum(void)
{
    const int64_t shape[] = {3, any_size()};
    struct host a = new_host(2, shape, 1);
    double *want = room(a.n);
    float sum = 0;

    if (number_int(&rng, 0, 1)) spoil_terms(&a);
    for (int64_t i = 0; i < a.n; i++) {
        sum = (i % shape[1] == 0 ? 0 : sum) + a.x[i];
        want[i] = (double)sum;
    }
    expect("cumsum", fb_cumsum(ops, a.tensor), 2, shape, want, within(EXACT, PRODUCT));
    free(a.x);
}

static void check_pool(const char *name, bool is_max)
{
    const int64_t shape[] = {3, any_size()}, kernel = 2 * number_int(&rng, 0, 20) + 1;
    struct host a = new_host(2, shape, 2);
    double *want = room(a.n);

    spoil_terms(&a);
    for (int64_t i = 0; i < a.n; i++) {
        const int64_t at = i % shape[1];
        double sum = 0, most = -HUGE_VAL;

        for (int64_t j = at - kernel / 2; j <= at + kernel / 2; j++) {
            double x;

            if (j < 0 || j >= shape[1]) continue;
            x = (double)a.x[i - at + j];
            sum += x;
            if (isnan(x) || x > most) most = isnan(most) ? most : x;
        }
        sum /= (double)kernel;
        want[i] = is_max ? most : sum;
    }
    expect(name,
           is_max ? fb_max_pool1d(ops, a.tensor, kernel)
                  : fb_avg_pool1d(ops, a.tensor, kernel),
           2, shape, want, within(1e-6, 1e-5));
    free(a.x);
}

static void check_avg_pool1d(void)
{
    check_pool("avg_pool1d", false);
}

static void check_max_pool1d(void)
{
    check_pool("max_pool1d", true);
}

/* --- products */

static void check_bmm(void)
{
    const int64_t b = number_int(&rng, 1, 3), m = any_size(), k = any_size();
    const int64_t n = any_size();

    for (int turns = 0; turns < 4; turns++) {
        const bool ta = turns & 1, tb = turns & 2;
        struct host x = new_host(3, (int64_t[]){b, ta ? k : m, ta ? m : k}, 1);
        struct host y = new_host(3, (int64_t[]){b, tb ? n : k, tb ? k : n}, 1);
        double *want = room(b * m * n);

        for (int64_t i = 0; i < b * m * n; i++) {
            const int64_t batch = i / (m * n), r = i / n % m, c = i % n;

            for (int64_t j = 0; j < k; j++)
                want[i] += (double)x.x[batch * m * k + (ta ? j * m + r : r * k + j)] *
                           (double)y.x[batch * k * n + (tb ? c * k + j : j * n + c)];
        }
        expect("bmm", fb_bmm(ops, x.tensor, ta, y.tensor, tb), 3, (int64_t[]){b, m, n},
               want, PRODUCT);
        free(x.x);
        free(y.x);
    }
}

/* m = g g^T / d + 1, symmetric and far from singular, [d, d]. */
static void fill_definite(float *m, int64_t d)
{
    float *g = number_array(&rng, d * d, 1);

    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            double sum = 0;

            for (int64_t k = 0; k < d; k++)
                sum += (double)g[i * d + k] * (double)g[j * d + k];
            m[i * d + j] = (float)(sum / (double)d + (i == j));
        }
    free(g);
}

/* a [d, d] and x [d, n] by Gauss and Jordan: x becomes a^-1 x. */
static void eliminate(double *a, int64_t d, double *x, int64_t n)
{
    for (int64_t k = 0; k < d; k++)
        for (int64_t i = 0; i < d; i++) {
            const double factor = i == k ? 0 : a[i * d + k] / a[k * d + k];

            for (int64_t j = 0; j < d; j++)
                a[i * d + j] -= factor * a[k * d + j];
            for (int64_t c = 0; c < n; c++)
                x[i * n + c] -= factor * x[k * n + c];
        }
    for (int64_t i = 0; i < d; i++)
        for (int64_t c = 0; c < n; c++)
            x[i * n + c] /= a[i * d + i];
}

static void check_cholesky_solve(void)
{
    const int64_t b = number_int(&rng, 0, 3), d = number_int(&rng, 0, 24);
    const int64_t n = any_size();
    struct host m = new_host(3, (int64_t[]){b, d, d}, 1);
    struct host x = new_host(3, (int64_t[]){b, d, n}, 1);
    double *want = room(x.n), *a = room(m.n);

    for (int64_t i = 0; i < b; i++)
        fill_definite(m.x + i * d * d, d);
    for (int64_t i = 0; i < m.n; i++)
        a[i] = (double)m.x[i];
    for (int64_t i = 0; i < x.n; i++)
        want[i] = (double)x.x[i];
    for (int64_t i = 0; i < b; i++)
        eliminate(a + i * d * d, d, want + i * d * n, n);
    for (int64_t i = 0; i < m.n; i++) /* above the diagonal nobody looks */
        if (i % d > i / d % d) m.x[i] = 99;
    m.tensor = fb_from_host(ops, FB_F32, 3, m.shape, m.x);
    expect("cholesky_solve", fb_cholesky_solve(ops, m.tensor, x.tensor), 3, x.shape,
           want, within(CLOSE, PRODUCT));
    if (m.n > 0) {
        m.x[m.n - 1] = (float)-number_int(&rng, 0, 1);
        m.tensor = fb_from_host(ops, FB_F32, 3, m.shape, m.x);
        (void)fb_cholesky_solve(ops, m.tensor, x.tensor);
        assert_fails(fb_ops_status(ops), FB_DEFECT, "not positive definite");
        fb_ops_reset(ops);
    }
    free(a);
    free(m.x);
    free(x.x);
}

static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    const struct host *w = context;

    memcpy(out, w->x + begin * w->shape[1],
           (size_t)((end - begin) * w->shape[1]) * sizeof *out);
    return FB_OK;
}

static struct host new_weight(int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    struct host w = new_host(2, shape, 1);

    w.tensor = fb_weight(
        ops, &(fb_weight_source){
                 .rows = rows, .columns = columns, .unpack = unpack, .context = &w});
    assert_ok(fb_ops_status(ops));
    return w;
}

static void free_weight(struct host *w)
{
    fb_release(ops, w->tensor);
    free(w->x);
}

static void check_linear(void)
{
    const fb_place before = fb_ops_place(ops);
    const int64_t r = any_size(), k = any_size(), n = number_int(&rng, 1, 100);
    struct host w = new_weight(n, k), x = new_host(2, (int64_t[]){r, k}, 1);
    double *want = room(r * n);

    for (int64_t i = 0; i < r * n; i++)
        for (int64_t j = 0; j < k; j++)
            want[i] += (double)x.x[i / n * k + j] * (double)w.x[i % n * k + j];
    if (number_int(&rng, 0, 1)) /* as one of a batch of answers */
        fb_ops_move(ops, (fb_place){FB_PHASE_decode, before.scope});
    expect("linear", fb_linear(ops, x.tensor, w.tensor), 2, (int64_t[]){r, n}, want,
           PRODUCT);
    fb_ops_move(ops, before);
    free_weight(&w);
    free(x.x);
}

static void check_embedding(void)
{
    enum { N = 70, K = 5, R = 9 };
    struct host w = new_weight(N, K);
    double *want = room(R * K);
    int32_t ids[R];

    for (int i = 0; i < R; i++)
        ids[i] = (int32_t)number_int(&rng, 0, N - 1);
    for (int i = 0; i < R * K; i++)
        want[i] = (double)w.x[ids[i / K] * K + i % K];
    expect("embedding", fb_embedding(ops, w.tensor, ids, R), 2, (int64_t[]){R, K}, want,
           EXACT);
    free_weight(&w);
}

/* --- choosing */

struct ranked {
    float x;
    int64_t at;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->x > y->x) return -1;
    if (x->x < y->x) return 1;
    return x->at < y->at ? -1 : 1;
}

/* Three rows with ties, both zeros and infinities. */
static struct host new_scores(void)
{
    const int64_t shape[] = {3, any_size()};
    struct host a =
        number_int(&rng, 0, 1) ? tied_host(2, shape) : new_host(2, shape, 1);

    for (int64_t i = 0; i < a.n; i++) {
        if (number_int(&rng, 0, 6) == 0) a.x[i] = specials[number_int(&rng, 0, 3)];
    }
    a.tensor = fb_from_host(ops, FB_F32, 2, shape, a.x);
    return a;
}

static void rank_row(const struct host *a, int64_t r, struct ranked *ranked)
{
    const int64_t n = a->shape[1];

    for (int64_t i = 0; i < n; i++)
        ranked[i] = (struct ranked){a->x[r * n + i], i};
    qsort(ranked, (size_t)n, sizeof *ranked, by_rank);
}

static void check_topk(void)
{
    struct host a = new_scores();
    const int64_t *shape = a.shape, n = shape[1], k = number_int(&rng, 0, n);
    struct ranked *ranked = calloc((size_t)n + 1, sizeof *ranked);
    int64_t *got = calloc((size_t)(3 * k + 1), sizeof *got);

    assert_ok(fb_to_host(ops, fb_topk(ops, a.tensor, k), got, (size_t)(3 * k) * 8));
    for (int64_t r = 0; r < 3; r++) {
        rank_row(&a, r, ranked);
        for (int64_t i = 0; i < k; i++)
            assert_int_equal(got[r * k + i], ranked[i].at);
    }
    if (n > 0) {
        a.x[n - 1] = NAN;
        a.tensor = fb_from_host(ops, FB_F32, 2, shape, a.x);
        (void)fb_topk(ops, a.tensor, k);
        assert_fails(fb_ops_status(ops), FB_DEFECT, "NaN");
        fb_ops_reset(ops);
    }
    free(ranked);
    free(got);
    free(a.x);
}

static void check_rank(void)
{
    struct host a = new_scores();
    const int64_t *shape = a.shape, n = shape[1];
    struct ranked *ranked = calloc((size_t)n + 1, sizeof *ranked);
    double *want = room(a.n);

    for (int64_t r = 0; r < 3; r++) {
        rank_row(&a, r, ranked);
        for (int64_t i = 0; i < n; i++)
            want[r * n + ranked[i].at] = (double)i;
    }
    expect("rank", fb_rank(ops, a.tensor), 2, shape, want, EXACT);
    if (n > 0) {
        a.x[n - 1] = NAN;
        a.tensor = fb_from_host(ops, FB_F32, 2, shape, a.x);
        (void)fb_rank(ops, a.tensor);
        assert_fails(fb_ops_status(ops), FB_DEFECT, "fb_rank: a score is not a number");
        fb_ops_reset(ops);
    }
    free(ranked);
    free(a.x);
}

static void check_gather(void)
{
    const int64_t n = number_int(&rng, 1, 30), k = any_size();
    struct host a = new_host(2, (int64_t[]){2, n}, 1);
    int64_t *at = calloc((size_t)(2 * k + 1), sizeof *at);
    double *want = room(2 * k);
    fb_tensor index;

    for (int64_t i = 0; i < 2 * k; i++) {
        at[i] = number_int(&rng, 0, n - 1);
        want[i] = (double)a.x[i / k * n + at[i]];
    }
    index = fb_from_host(ops, FB_I64, 2, (int64_t[]){2, k}, at);
    expect("gather", fb_gather(ops, a.tensor, index), 2, (int64_t[]){2, k}, want,
           EXACT);
    if (k > 0) {
        at[k - 1] = n;
        index = fb_from_host(ops, FB_I64, 2, (int64_t[]){2, k}, at);
        (void)fb_gather(ops, a.tensor, index);
        assert_fails(fb_ops_status(ops), FB_DEFECT, "position");
        fb_ops_reset(ops);
    }
    free(at);
    free(a.x);
}

/* --- the model */

static void check_rms_norm(void)
{
    const int64_t shape[] = {any_size(), number_int(&rng, 1, 70)};
    struct host a = new_host(2, shape, 3), w = new_host(1, shape + 1, 2);
    double *want = room(a.n);

    for (int64_t i = 0; i < a.n; i++) {
        const float *row = a.x + i / shape[1] * shape[1];
        double sum = 0;

        for (int64_t j = 0; j < shape[1]; j++)
            sum += (double)row[j] * (double)row[j];
        want[i] = (double)a.x[i] / sqrt(sum / (double)shape[1] + 1e-5) *
                  (double)w.x[i % shape[1]];
    }
    expect("rms_norm", fb_rms_norm(ops, a.tensor, w.tensor, 1e-5), 2, shape, want,
           CLOSE);
    free(a.x);
    free(w.x);
}

static void check_head_norm_(void)
{
    const int64_t r = any_size(), d = number_int(&rng, 1, 40), width = 4 * d + 3;
    const int64_t first = number_int(&rng, 0, 2), heads = number_int(&rng, 0, 2);
    struct host x = new_host(2, (int64_t[]){r, width}, 3), w = new_host(1, &d, 2);
    double *want = room(x.n);

    for (int64_t i = 0; i < x.n; i++) {
        const int64_t head = i % width / d;
        const float *begin = x.x + i / width * width + head * d;
        double sum = 0;

        want[i] = (double)x.x[i];
        if (head < first || head >= first + heads) continue;
        for (int64_t j = 0; j < d; j++)
            sum += (double)begin[j] * (double)begin[j];
        want[i] *= (double)w.x[i % width % d] / sqrt(sum / (double)d + 1e-5);
    }
    fb_head_norm_(ops, x.tensor, first, heads, w.tensor, 1e-5);
    expect("head_norm_", x.tensor, 2, (int64_t[]){r, width}, want, CLOSE);
    free(x.x);
    free(w.x);
}

static void check_rotary(void)
{
    const int64_t r = any_size(), heads = number_int(&rng, 0, 3);
    const int64_t half = number_int(&rng, 1, 20);
    const int64_t d = 2 * half + number_int(&rng, 0, 6), width = 3 * d + 5;
    struct host x = new_host(2, (int64_t[]){r, width}, 1);
    struct host c = new_host(2, (int64_t[]){r, half}, 1);
    struct host s = new_host(2, (int64_t[]){r, half}, 1);
    double *want = room(x.n);

    for (int64_t i = 0; i < x.n; i++) {
        const int64_t row = i / width, at = i % width % d;
        const int64_t pair = at % half, other = at < half ? i + half : i - half;
        const double cosine = (double)c.x[row * half + pair];
        const double sine = (double)s.x[row * half + pair];

        want[i] = (double)x.x[i];
        if (i % width < heads * d && at < 2 * half)
            want[i] =
                want[i] * cosine + (at < half ? -1 : 1) * (double)x.x[other] * sine;
    }
    fb_rotary(ops, x.tensor, heads, d, c.tensor, s.tensor);
    expect("rotary", x.tensor, 2, (int64_t[]){r, width}, want, CLOSE);
    free(x.x);
    free(c.x);
    free(s.x);
}

static void check_swiglu(void)
{
    const int64_t r = any_size(), n = any_size();
    struct host x = new_host(2, (int64_t[]){r, 2 * n}, 12);
    double *want = room(r * n);

    for (int64_t i = 0; i < r * n; i++) {
        const double gate = (double)x.x[i / n * 2 * n + i % n];

        want[i] = gate / (1 + exp(-gate)) * (double)x.x[i / n * 2 * n + n + i % n];
    }
    expect("swiglu", fb_swiglu(ops, x.tensor), 2, (int64_t[]){r, n}, want, 5e-7);
    free(x.x);
}

static void check_geglu(void)
{
    const int64_t r = any_size(), n = any_size();
    struct host x = new_host(2, (int64_t[]){r, 2 * n}, 12);
    double *want = room(r * n);

    for (int64_t i = 0; i < r * n; i++) {
        const double gate = (double)x.x[i / n * 2 * n + i % n];
        const double u = sqrt(2 / acos(-1)) * (gate + 0.044715 * gate * gate * gate);

        want[i] = gate / 2 * (1 + tanh(u)) * (double)x.x[i / n * 2 * n + n + i % n];
    }
    expect("geglu", fb_geglu(ops, x.tensor), 2, (int64_t[]){r, n}, want, 2e-6);
    free(x.x);
}

static void check_add_(void)
{
    const int64_t shape[] = {number_int(&rng, 2, 5), any_size()};
    struct host a = new_host(2, shape, 1);
    struct host b = new_host(2, (int64_t[]){1, shape[1]}, 1);
    double *want = room(a.n);

    for (int64_t i = 0; i < a.n; i++)
        want[i] = (double)(a.x[i] + (i / shape[1] == 1 ? b.x[i % shape[1]] : 0));
    fb_add_(ops, fb_narrow(ops, a.tensor, 0, 1, 1), b.tensor);
    expect("add_", a.tensor, 2, shape, want, EXACT);
    want = room(a.n); /* a row to every row */
    for (int64_t i = 0; i < a.n; i++)
        want[i] = (double)(a.x[i] + (i / shape[1] == 1 ? b.x[i % shape[1]] : 0) +
                           b.x[i % shape[1]]);
    fb_add_(ops, a.tensor, fb_reshape(ops, b.tensor, 1, shape + 1));
    expect("add_", a.tensor, 2, shape, want, EXACT);
    free(a.x);
    free(b.x);
}

/* --- keys, values, attention: tests/ops/test_attention.c has the many cases */

enum { D = 6, N = 3, WIDTH = 3 * D };

/* One head, N tokens of q | k | v, written to a cache of N entries. */
static fb_kv *small_kv(struct host *x)
{
    fb_kv *kv;

    *x = new_host(2, (int64_t[]){N, WIDTH}, 1);
    assert_ok(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, D, 1, (int64_t[]){N}));
    fb_kv_write(ops, kv, x->tensor, 1, 1, 1, (int64_t[]){0}, (int64_t[]){0});
    return kv;
}

static void expect_entries(const char *name, const fb_kv *kv, const struct host *x,
                           const int32_t *index, int64_t n)
{
    for (int values = 0; values <= 1; values++) {
        double *want = room(n * D);

        for (int64_t i = 0; i < n * D; i++)
            want[i] = (double)x->x[index[i / D] * WIDTH + D + values * D + i % D];
        expect(name, fb_kv_read(ops, kv, values, 0, 1, n), 3, (int64_t[]){1, n, D},
               want, EXACT);
    }
}

static void check_kv_write(void)
{
    struct host x;
    fb_kv *kv = small_kv(&x);

    expect_entries("kv_write", kv, &x, (int32_t[]){0, 1, 2}, N);
    fb_kv_free(kv);
    free(x.x);
}

static void check_kv_copy(void)
{
    const int32_t index[] = {2, 0};
    struct host x;
    fb_kv *kv = small_kv(&x), *copy;

    assert_ok(fb_kv_new(&copy, ops, FB_ACCOUNT_kv, FB_F32, D, 1, (int64_t[]){2}));
    fb_kv_copy(ops, copy, 0, kv, 0, index, 2);
    expect_entries("kv_copy", copy, &x, index, 2);
    fb_kv_free(copy);
    fb_kv_free(kv);
    free(x.x);
}

static void check_kv_turn(void)
{
    enum { HALF = 2, TURNED = 2 }; /* of D / 2 pairs, of N entries */
    struct host x, c = new_host(2, (int64_t[]){TURNED, HALF}, 1);
    struct host s = new_host(2, (int64_t[]){TURNED, HALF}, 1);
    fb_kv *kv = small_kv(&x);
    double *want = room(N * D);

    for (int64_t i = 0; i < N * D; i++) {
        const int64_t row = i / D, at = i % D, pair = at % HALF;
        const float *key = x.x + row * WIDTH + D;

        want[i] = (double)key[at];
        if (row < TURNED && at < 2 * HALF)
            want[i] = want[i] * (double)c.x[row * HALF + pair] +
                      (at < HALF ? -1 : 1) *
                          (double)key[at < HALF ? at + HALF : at - HALF] *
                          (double)s.x[row * HALF + pair];
    }
    fb_kv_turn(ops, kv, 0, c.tensor, s.tensor);
    expect("kv_turn", fb_kv_read(ops, kv, false, 0, 1, N), 3, (int64_t[]){1, N, D},
           want, CLOSE);
    fb_kv_free(kv);
    free(x.x);
    free(c.x);
    free(s.x);
}

static void check_kv_read(void)
{
    struct host x;
    fb_kv *kv = small_kv(&x);

    expect_entries("kv_read", kv, &x, (int32_t[]){0, 1}, 2);
    fb_kv_free(kv);
    free(x.x);
}

static void check_attention(void)
{
    struct host x;
    fb_kv *kv = small_kv(&x);
    const fb_segment segment = {.context = {kv, 0, N, NULL, 0}};
    fb_tensor sum = fb_full(ops, 2, (int64_t[]){1, N}, 0.5);
    fb_tensor rows = fb_full(ops, 3, (int64_t[]){1, N, N + 1}, 9);
    double *out = room(N * D), *sums = room(N), *all = room(N * (N + 1));
    fb_tensor got = fb_attention(ops, &(fb_attend){.x = x.tensor,
                                                   .segments = &segment,
                                                   .n_sequences = 1,
                                                   .heads = 1,
                                                   .kv_heads = 1,
                                                   .head_dim = D,
                                                   .scale = 2,
                                                   .sum = sum,
                                                   .rows = rows});

    for (int i = 0; i < N; i++) {
        float s[N];

        for (int j = 0; j <= i; j++) {
            double score = 0;

            for (int c = 0; c < D; c++)
                score +=
                    2 * (double)x.x[i * WIDTH + c] * (double)x.x[j * WIDTH + D + c];
            s[j] = (float)score;
        }
        softmax_in_double(s, i + 1, all + i * (N + 1));
        for (int j = 0; j < N; j++) {
            sums[j] += all[i * (N + 1) + j] + (i == 0 ? 0.5 : 0);
            for (int c = 0; c < D; c++)
                out[i * D + c] +=
                    all[i * (N + 1) + j] * (double)x.x[j * WIDTH + 2 * D + c];
        }
    }
    expect("attention", got, 2, (int64_t[]){N, D}, out, 2e-6);
    expect("attention_sum", sum, 2, (int64_t[]){1, N}, sums, 2e-6);
    expect("attention_rows", rows, 3, (int64_t[]){1, N, N + 1}, all, 2e-6);
    fb_kv_free(kv);
    free(x.x);
}

static void check_attention_sum(void)
{
    check_attention();
}

static void check_attention_rows(void)
{
    check_attention();
}

/* --- measures */

static void check_argmax(void)
{
    const int64_t shape[] = {5, number_int(&rng, 1, 80)};
    struct host a = tied_host(2, shape);
    int32_t got[5];

    assert_ok(fb_argmax(ops, a.tensor, got));
    for (int r = 0; r < 5; r++) {
        const float *x = a.x + r * shape[1];
        int64_t best = 0;

        for (int64_t i = 1; i < shape[1]; i++)
            if (x[i] > x[best]) best = i;
        assert_int_equal(got[r], best);
    }
    a.x[0] = NAN;
    a.tensor = fb_from_host(ops, FB_F32, 2, shape, a.x);
    assert_fails(fb_argmax(ops, a.tensor, got), FB_DEFECT, "NaN");
    fb_ops_reset(ops);
    free(a.x);
}

static void log_softmax_in_double(const float *x, int64_t n, double *out)
{
    double max = -HUGE_VAL, sum = 0;

    for (int64_t i = 0; i < n; i++)
        max = (double)x[i] > max ? (double)x[i] : max;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - max);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)x[i] - max - log(sum);
}

static void check_nll(void)
{
    const int64_t shape[] = {4, number_int(&rng, 1, 500)};
    struct host a = new_host(2, shape, 20);
    double *logs = room(shape[1]), got[4];
    int32_t target[4];

    for (int r = 0; r < 4; r++)
        target[r] = (int32_t)number_int(&rng, 0, shape[1] - 1);
    assert_ok(fb_nll(ops, a.tensor, target, got));
    for (int r = 0; r < 4; r++) {
        log_softmax_in_double(a.x + r * shape[1], shape[1], logs);
        assert_true(is_close(got[r], -logs[target[r]], 1e-14));
    }
    a.x[3 * shape[1]] = NAN;
    a.tensor = fb_from_host(ops, FB_F32, 2, shape, a.x);
    target[3] = 0;
    assert_fails(fb_nll(ops, a.tensor, target, got), FB_DEFECT, "NaN");
    fb_ops_reset(ops);
    free(logs);
    free(a.x);
}

static void check_kl(void)
{
    const int64_t n = number_int(&rng, 1, 500);
    struct host p = new_host(2, (int64_t[]){2, n}, 20);
    struct host q = new_host(2, (int64_t[]){4, n}, 20);
    double *a = room(n), *b = room(n), got[4];

    p.x[0] = -INFINITY;
    p.x[n - 1] = 4;
    memcpy(q.x + 2 * n, p.x,
           (size_t)n * sizeof *p.x); /* row 2 is compared with row 0 */
    p.tensor = fb_from_host(ops, FB_F32, 2, p.shape, p.x);
    q.tensor = fb_from_host(ops, FB_F32, 2, q.shape, q.x);
    assert_ok(fb_kl(ops, p.tensor, q.tensor, got));
    for (int r = 0; r < 4; r++) {
        double kl = 0;

        log_softmax_in_double(p.x + r % 2 * n, n, a);
        log_softmax_in_double(q.x + r * n, n, b);
        for (int64_t i = 0; i < n; i++)
            kl += exp(a[i]) > 0 ? exp(a[i]) * (a[i] - b[i]) : 0;
        assert_true(is_close(got[r], kl, 1e-12));
    }
    assert_true(got[2] >= 0 && got[2] <= 0);
    free(a);
    free(b);
    free(p.x);
    free(q.x);
}

/* --- the table */

static void (*const checks[FB_OP_COUNT])(void) = {
#define FB_OP(name, aten, flops, from_c) [FB_OP_##name] = check_##name,
#include "ops/list.h"
#undef FB_OP
};

static void check_all(int64_t rounds)
{
    for (int op = 0; op < FB_OP_COUNT; op++)
        for (int64_t round = 0; round < rounds; round++) {
            rng.state = (uint64_t)(op * 1000 + round);
            fb_scope_open(ops);
            checks[op]();
            if (fb_ops_status(ops) != FB_OK)
                fail_msg("%s, round %d: %s", fb_op_name((enum fb_op)op), (int)round,
                         fb_error_message());
            fb_ops_reset(ops); /* checks of failures have closed the scope */
        }
}

#endif
