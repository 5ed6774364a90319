/* profile_measure.c - this machine's profile, from the operators that it is used for.
 *
 * Peak: products of as many rows as a context is read in. Bandwidth: products of one row
 * with weights that no cache holds. A call: a norm of one short row. Each is the median of
 * a few stretches, and the whole is short, so that it can stand between what it explains.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"
#include "experiment/host.h"
#include "experiment/profile.h"
#include "stats/stats.h"

#include <stdio.h>

enum {
    ROWS = 256, /* of a block of a context */
    INNER = 1024,
    COLUMNS = 4096,
    FAR_COLUMNS = 32768, /* 128 MiB of f32 */
    SHORT = 64,
    CALLS = 64, /* short ones between two looks at the clock */
    STRETCHES = 3,
};
static const int64_t stretch_ns = 40000000;

/* One thing that is measured over and over. */
typedef struct trial {
    fb_ops *ops;
    fb_tensor x, weight;
    int64_t rows; /* of x; of a product */
    int calls;
} trial;

static fb_status fill(void *context, int64_t begin, int64_t end, float *out)
{
    (void)context;
    for (int64_t i = 0; i < (end - begin) * INNER; i++)
        out[i] = 0.01f;
    return FB_OK;
}

static fb_tensor weight_of(fb_ops *ops, int64_t columns)
{
    return fb_weight(
        ops, &(fb_weight_source){
                 .rows = columns, .columns = INNER, .unpack = fill, .context = NULL});
}

/* A device computes later than it is told to: the last row is waited for. */
static fb_status wait_for(fb_ops *ops, fb_tensor a, int64_t row, int64_t width)
{
    float last[SHORT];
    const int64_t n = width < SHORT ? width : SHORT;

    a = fb_narrow(ops, fb_narrow(ops, a, 0, row, 1), 1, 0, n);
    return fb_to_host(ops, a, last, (size_t)n * sizeof *last);
}

static fb_status multiply(const trial *t)
{
    fb_tensor out = FB_NONE;
    fb_status status;

    fb_scope_open(t->ops);
    for (int i = 0; i < t->calls; i++)
        out = fb_linear(t->ops, t->x, t->weight);
    status = wait_for(t->ops, out, t->rows - 1, fb_size(t->ops, out, 1));
    fb_scope_close(t->ops);
    return status;
}

static fb_status normalise(const trial *t)
{
    fb_tensor out = t->x;
    fb_status status;

    fb_scope_open(t->ops);
    for (int i = 0; i < t->calls; i++)
        out = fb_rms_norm(t->ops, out, t->weight, 1e-6);
    status = wait_for(t->ops, out, 0, SHORT);
    fb_scope_close(t->ops);
    return status;
}

/* Seconds of a call. */
static fb_status measure(double *out, const trial *t, fb_status (*work)(const trial *))
{
    double seconds[STRETCHES];

    FB_TRY(work(t)); /* first touch of all memory */
    for (int s = 0; s < STRETCHES; s++) {
        const int64_t begin = fb_time_ns();
        int64_t calls = 0, ns = 0;

        for (; ns < stretch_ns; ns = fb_time_ns() - begin, calls += t->calls)
            FB_TRY(work(t));
        seconds[s] = (double)ns * 1e-9 / (double)calls;
    }
    return fb_median_of(out, seconds, STRETCHES);
}

/* --- the three --- */

static fb_status measure_peak(fb_profile *out, fb_ops *ops)
{
    trial t = {.ops = ops, .rows = ROWS, .calls = 1};
    fb_status status;
    double seconds;

    fb_scope_open(ops);
    t.weight = weight_of(ops, COLUMNS);
    t.x = fb_full(ops, 2, (int64_t[]){ROWS, INNER}, 0.5);
    status = measure(&seconds, &t, multiply);
    if (status == FB_OK) out->flops_per_s = 2.0 * ROWS * INNER * COLUMNS / seconds;
    fb_scope_close(ops);
    fb_release(ops, t.weight);
    return status;
}

static fb_status measure_bandwidth(fb_profile *out, fb_ops *ops)
{
    trial t = {.ops = ops, .rows = 1, .calls = 1};
    fb_status status;
    double seconds;

    fb_scope_open(ops);
    t.weight = weight_of(ops, FAR_COLUMNS);
    t.x = fb_full(ops, 2, (int64_t[]){1, INNER}, 0.5);
    status = measure(&seconds, &t, multiply);
    if (status == FB_OK)
        out->bytes_per_s = sizeof(float) * (double)INNER * FAR_COLUMNS / seconds;
    fb_scope_close(ops);
    fb_release(ops, t.weight);
    return status;
}

static fb_status measure_call(fb_profile *out, fb_ops *ops)
{
    trial t = {.ops = ops, .rows = 1, .calls = CALLS};
    fb_status status;

    fb_scope_open(ops);
    t.weight = fb_full(ops, 1, (int64_t[]){SHORT}, 1);
    t.x = fb_full(ops, 2, (int64_t[]){1, SHORT}, 0.5);
    status = measure(&out->seconds_per_call, &t, normalise);
    fb_scope_close(ops);
    return status;
}

static void describe(fb_profile *out, const fb_ops *ops)
{
    fb_host host;

    fb_host_read(&host);
    (void)snprintf(out->name, sizeof out->name, "%s", host.cpu);
    (void)snprintf(out->cpu, sizeof out->cpu, "%s", host.cpu);
    (void)snprintf(out->backend, sizeof out->backend, "%.16s %.40s",
                   fb_ops_backend(ops), fb_ops_isa(ops));
    out->threads = fb_threads_count(fb_ops_threads(ops));
    fb_time_utc(out->date);
}

fb_status fb_profile_measure(fb_profile *out, fb_ops *ops)
{
    *out = (fb_profile){0};
    describe(out, ops);
    FB_TRY(measure_peak(out, ops));
    FB_TRY(measure_bandwidth(out, ops));
    return measure_call(out, ops);
}
