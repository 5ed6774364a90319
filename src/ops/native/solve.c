/* solve.c - systems of equations with a symmetric positive definite matrix.
 *
 * m = u^T u with u the upper triangle (Cholesky), then u^T y = x, then u z = y. Read and
 * stored are f32; all between is double: every element is one chain of products and
 * differences in ascending order, with roots and quotients of IEEE and nothing fused. So
 * the bits are the same on every CPU, and for any number of threads, each of which makes
 * the triangle of a matrix for itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

enum { COLUMNS = 32 }; /* of x that are solved for side by side */

struct solving {
    const fb_native *native;
    const fb_call *call;
    int64_t d, n, blocks; /* of columns */
    atomic_bool has_failed;
};

static void subtract(double *to, double factor, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] -= factor * from[i];
}

static void divide(double *x, double divisor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] /= divisor;
}

/* u [d, d] from the lower triangle of m [d, d]; what is below u is left as it was. False
 * where m is not positive definite. */
static bool make_triangle(const float *m, int64_t d, double *u)
{
    for (int64_t r = 0; r < d; r++)
        for (int64_t c = r; c < d; c++)
            u[r * d + c] = (double)m[c * d + r];
    for (int64_t k = 0; k < d; k++) {
        double *row = u + k * d;

        if (!(row[k] > 0)) return false; /* NaN neither */
        row[k] = __builtin_sqrt(row[k]);
        divide(row + k + 1, row[k], d - k - 1);
        for (int64_t r = k + 1; r < d; r++)
            subtract(u + r * d + r, row[r], row + r, d - r);
    }
    return true;
}

/* x [d, COLUMNS] becomes m^-1 x. */
static void solve(const double *u, int64_t d, double *x)
{
    for (int64_t k = 0; k < d; k++) {
        divide(x + k * COLUMNS, u[k * d + k], COLUMNS);
        for (int64_t r = k + 1; r < d; r++)
            subtract(x + r * COLUMNS, u[k * d + r], x + k * COLUMNS, COLUMNS);
    }
    for (int64_t k = d - 1; k >= 0; k--) {
        for (int64_t r = k + 1; r < d; r++)
            subtract(x + k * COLUMNS, u[k * d + r], x + r * COLUMNS, COLUMNS);
        divide(x + k * COLUMNS, u[k * d + k], COLUMNS);
    }
}

/* Columns [first, first + COLUMNS) of x [d, n], those that exist, by way of `room`. */
static void solve_block(const struct solving *s, const double *u, int64_t matrix,
                        int64_t first, double *room)
{
    const int64_t begin = matrix * s->d * s->n + first, left = s->n - first;
    const int64_t width = left < COLUMNS ? left : COLUMNS;
    const float *x = fb_floats(&s->call->in[1]) + begin;
    float *out = fb_floats(&s->call->out) + begin;

    for (int64_t r = 0; r < s->d; r++)
        for (int64_t c = 0; c < COLUMNS; c++)
            room[r * COLUMNS + c] = c < width ? (double)x[r * s->n + c] : 0;
    solve(u, s->d, room);
    for (int64_t r = 0; r < s->d; r++)
        for (int64_t c = 0; c < width; c++)
            out[r * s->n + c] = (float)room[r * COLUMNS + c];
}

/* Items are (matrix, block of columns). */
static void solve_items(void *context, int64_t begin, int64_t end, int thread)
{
    struct solving *s = context;
    double *u = s->native->scratch[thread].bytes, *room = u + s->d * s->d;
    int64_t last = -1; /* the matrix that u is of */

    for (int64_t i = begin; i < end && !atomic_load(&s->has_failed); i++) {
        const int64_t matrix = i / s->blocks;
        const float *m = fb_floats(&s->call->in[0]) + matrix * s->d * s->d;

        if (matrix != last && !make_triangle(m, s->d, u))
            atomic_store(&s->has_failed, true);
        else
            solve_block(s, u, matrix, i % s->blocks * COLUMNS, room);
        last = matrix;
    }
}

size_t fb_native_solve_room(const fb_call *call, int n_threads)
{
    const int64_t d = call->in[0].shape[1];

    (void)n_threads;
    if (fb_array_elements(&call->in[0]) == 0) return 0;
    return (size_t)(d * (d + COLUMNS)) * sizeof(double);
}

/* A matrix is looked at where there are no columns, too. */
fb_status fb_native_cholesky_solve(void *self, const fb_call *call)
{
    const int64_t batch = call->in[0].shape[0];
    struct solving s = {.native = self, .call = call, .d = call->in[0].shape[1]};

    if (fb_array_elements(&call->in[0]) == 0) return FB_OK;
    s.n = call->in[1].shape[2];
    s.blocks = s.n == 0 ? 1 : (s.n + COLUMNS - 1) / COLUMNS;
    FB_TRY(fb_native_reserve(self, fb_native_solve_room(call, 0)));
    fb_native_loop(self, batch * s.blocks,
                   ((double)fb_array_elements(&call->in[0]) / 6 +
                    (double)fb_array_elements(&call->out)) *
                       (double)s.d,
                   solve_items, &s);
    return s.has_failed ? fb_fail(FB_DEFECT, "fb_cholesky_solve: a matrix is not "
                                             "positive definite")
                        : FB_OK;
}
