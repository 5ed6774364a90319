/* reduce.c - sums, means, variances, maxima, pooling, softmax, sums up to a place.
 *
 * A sum has 16 lanes in double: lane l takes the elements l, l + 16, ... in this order,
 * and the lanes are added in pairs 8, 4, 2, 1 apart. A tensor is seen as
 * [outer, n, inner] with n the dimension that disappears; up to 16 neighbours of `inner`
 * are reduced side by side.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

#include <string.h>

enum { TREE = 16, SIDE_BY_SIDE = 16 };

struct reduction {
    const fb_native *native;
    const fb_call *call;
    int64_t outer, n, inner, blocks; /* blocks of `inner` */
    void (*reduce)(const struct reduction *r, const float *x, int64_t width,
                   float *out);
};

typedef struct lanes {
    double of[TREE][SIDE_BY_SIDE];
} lanes;

static void add_lanes(lanes *l)
{
    for (int apart = TREE / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            for (int c = 0; c < SIDE_BY_SIDE; c++)
                l->of[i][c] += l->of[i + apart][c];
}

static void sum_of(const struct reduction *r, const float *x, int64_t width, lanes *l)
{
    if (r->inner == 1) { /* a row: its lanes are vectors */
        memset(l->of[0], 0, sizeof l->of[0]);
        l->of[0][0] = r->native->isa->doubles->sum(x, r->n);
        return;
    }
    *l = (lanes){0};
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t c = 0; c < width; c++)
            l->of[i % TREE][c] += (double)x[i * r->inner + c];
    add_lanes(l);
}

static void sum_block(const struct reduction *r, const float *x, int64_t width,
                      float *out)
{
    lanes l;

    sum_of(r, x, width, &l);
    for (int64_t c = 0; c < width; c++)
        out[c] = (float)l.of[0][c];
}

static void mean_block(const struct reduction *r, const float *x, int64_t width,
                       float *out)
{
    lanes l;

    sum_of(r, x, width, &l);
    for (int64_t c = 0; c < width; c++)
        out[c] = (float)(l.of[0][c] / (double)r->n);
}

static void var_block(const struct reduction *r, const float *x, int64_t width,
                      float *out)
{
    lanes l;
    double mean[SIDE_BY_SIDE];

    sum_of(r, x, width, &l);
    for (int64_t c = 0; c < width; c++)
        mean[c] = l.of[0][c] / (double)r->n;
    l = (lanes){0};
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t c = 0; c < width; c++) {
            const double off = (double)x[i * r->inner + c] - mean[c];

            l.of[i % TREE][c] += off * off;
        }
    add_lanes(&l);
    for (int64_t c = 0; c < width; c++)
        out[c] = (float)(l.of[0][c] / (double)(r->n == 1 ? 1 : r->n - 1));
}

static void amax_block(const struct reduction *r, const float *x, int64_t width,
                       float *out)
{
    for (int64_t c = 0; c < width; c++) {
        float most = x[c];

        for (int64_t i = 1; i < r->n; i++) {
            const float y = x[i * r->inner + c];

            most = most > y || most != most ? most : y; /* NaN stays */
        }
        out[c] = most;
    }
}

static void reduce_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    const struct reduction *r = context;

    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const int64_t o = b / r->blocks, c = b % r->blocks * SIDE_BY_SIDE;
        const int64_t left = r->inner - c;

        r->reduce(r, fb_floats(&r->call->in[0]) + o * r->n * r->inner + c,
                  left < SIDE_BY_SIDE ? left : SIDE_BY_SIDE,
                  fb_floats(&r->call->out) + o * r->inner + c);
    }
}

static fb_status reduce(void *self, const fb_call *call,
                        void (*block)(const struct reduction *, const float *, int64_t,
                                      float *))
{
    const fb_array *in = &call->in[0];
    struct reduction r = {
        .native = self, .call = call, .outer = 1, .inner = 1, .reduce = block};

    for (int i = 0; i < call->dim; i++)
        r.outer *= in->shape[i];
    r.n = in->shape[call->dim];
    for (int i = call->dim + 1; i < in->n_dims; i++)
        r.inner *= in->shape[i];
    r.blocks = (r.inner + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
    fb_native_loop(self, r.outer * r.blocks, (double)fb_array_elements(in),
                   reduce_blocks, &r);
    return FB_OK;
}

fb_status fb_native_sum(void *self, const fb_call *call)
{
    return reduce(self, call, sum_block);
}

fb_status fb_native_mean(void *self, const fb_call *call)
{
    return reduce(self, call, mean_block);
}

fb_status fb_native_var(void *self, const fb_call *call)
{
    return reduce(self, call, var_block);
}

fb_status fb_native_amax(void *self, const fb_call *call)
{
    return reduce(self, call, amax_block);
}

/* --- over the last dimension, row by row */

struct row_job {
    const fb_native *native;
    const fb_call *call;
    void (*row)(const struct row_job *job, const float *x, float *out, int64_t n);
};

/* A window of `kernel` elements around i, cut at both ends of a row of n. */
static void window(const struct row_job *job, int64_t i, int64_t n, int64_t *first,
                   int64_t *last)
{
    const int64_t half = job->call->kernel / 2;

    *first = i < half ? 0 : i - half;
    *last = i >= n - half ? n - 1 : i + half;
}

static void avg_pool_row(const struct row_job *job, const float *x, float *out,
                         int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t first, last;
        double sum = 0;

        window(job, i, n, &first, &last);
        for (int64_t j = first; j <= last; j++)
            sum += (double)x[j];
        out[i] = (float)(sum / (double)job->call->kernel);
    }
}

static void max_pool_row(const struct row_job *job, const float *x, float *out,
                         int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t first, last;
        float most;

        window(job, i, n, &first, &last);
        most = x[first];
        for (int64_t j = first + 1; j <= last; j++)
            most = most > x[j] || most != most ? most : x[j];
        out[i] = most;
    }
}

static void softmax_row(const struct row_job *job, const float *x, float *out,
                        int64_t n)
{
    const fb_isa *isa = job->native->isa;
    const float max = isa->rows->max(x, n);

    for (int64_t i = 0; i < n; i++)
        out[i] = x[i];
    isa->rows->exp_minus(out, n, max);
    isa->rows->divide(out, (float)isa->doubles->sum(out, n), out, n);
}

/* One chain: no lanes. */
static void cumsum_row(const struct row_job *job, const float *x, float *out, int64_t n)
{
    float sum = 0;

    (void)job;
    for (int64_t i = 0; i < n; i++)
        out[i] = sum += x[i];
}

static void rows_of_job(void *context, int64_t begin, int64_t end, int thread)
{
    const struct row_job *job = context;
    const int64_t n = fb_columns_of(&job->call->out);

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        job->row(job, fb_floats(&job->call->in[0]) + r * n,
                 fb_floats(&job->call->out) + r * n, n);
}

static fb_status by_rows(void *self, const fb_call *call, double work_per_element,
                         void (*row)(const struct row_job *, const float *, float *,
                                     int64_t))
{
    struct row_job job = {self, call, row};

    fb_native_loop(self, fb_rows_of(&call->out),
                   (double)fb_array_elements(&call->out) * work_per_element,
                   rows_of_job, &job);
    return FB_OK;
}

fb_status fb_native_softmax(void *self, const fb_call *call)
{
    return by_rows(self, call, 2, softmax_row);
}

fb_status fb_native_cumsum(void *self, const fb_call *call)
{
    return by_rows(self, call, 1, cumsum_row);
}

fb_status fb_native_avg_pool1d(void *self, const fb_call *call)
{
    return by_rows(self, call, (double)call->kernel, avg_pool_row);
}

fb_status fb_native_max_pool1d(void *self, const fb_call *call)
{
    return by_rows(self, call, (double)call->kernel, max_pool_row);
}
