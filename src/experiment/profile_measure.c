/* profile_measure.c - this machine's profile, from the operators that it is used for.
 *
 * Peak: products of as many rows as a context is read in. Bandwidth: products of one row
 * with a weight that no cache holds. A call: a norm of one short row. The whole is short,
 * so that it can stand between what it explains.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"
#include "experiment/host.h"
#include "experiment/profile_inside.h"
#include "stats/stats.h"

#include <stdio.h>

enum {
    ROWS = 256, /* of a block of a context */
    INNER = 1024,
    COLUMNS = 4096,
    FAR_COLUMNS = 32768, /* 128 MiB of f32 */
    SHORT = 64,
    CALLS = 64, /* at most, between two looks at the clock */
    STRETCHES = 3,
};
static const int64_t stretch_ns = 40000000;

/* --- trials --- */

/* A device computes later than it is told to, but in order: what is asked for last is
 * waited for. */
static fb_status run(const fb_trial *t)
{
    fb_status status;
    float last;

    for (int i = 0; i < t->calls; i++) {
        fb_scope_open(t->ops);
        t->work(t->ops, t->self);
        fb_scope_close(t->ops);
    }
    fb_scope_open(t->ops);
    status =
        fb_to_host(t->ops, fb_full(t->ops, 1, (int64_t[]){1}, 1), &last, sizeof last);
    fb_scope_close(t->ops);
    return status;
}

/* So many that waiting does not count: what a graphics processor does in microseconds is
 * asked for many times. */
static fb_status find_calls(fb_trial *t)
{
    const int64_t begin = fb_time_ns();
    double fit;

    if (t->calls > 1) return FB_OK;
    FB_TRY(run(t));
    fit = (double)stretch_ns / 4 / (double)(fb_time_ns() - begin + 1);
    t->calls = fit < 1 ? 1 : fit > CALLS ? CALLS : (int)fit;
    return FB_OK;
}

fb_status fb_trial_measure(double *out, fb_trial *t)
{
    double seconds[STRETCHES];

    FB_TRY(run(t)); /* first touch of all memory */
    FB_TRY(find_calls(t));
    for (int s = 0; s < STRETCHES; s++) {
        const int64_t begin = fb_time_ns();
        int64_t calls = 0, ns = 0;

        for (; ns < stretch_ns; ns = fb_time_ns() - begin, calls += t->calls)
            FB_TRY(run(t));
        seconds[s] = (double)ns * 1e-9 / (double)calls;
    }
    return fb_median_of(out, seconds, STRETCHES);
}

/* --- products --- */

typedef struct product {
    fb_tensor x, weight;
} product;

static void multiply(fb_ops *ops, const void *self)
{
    const product *p = self;

    (void)fb_linear(ops, p->x, p->weight);
}

static fb_status fill(void *context, int64_t begin, int64_t end, float *out)
{
    (void)context;
    for (int64_t i = 0; i < (end - begin) * INNER; i++)
        out[i] = 0.01f;
    return FB_OK;
}

/* Of `rows` rows. */
static fb_status measure_product(double *out, fb_ops *ops, int64_t rows,
                                 int64_t columns)
{
    const fb_weight_source source = {.rows = columns, .columns = INNER, .unpack = fill};
    product p = {.weight = fb_weight(ops, &source)};
    fb_trial t = {.ops = ops, .work = multiply, .self = &p, .calls = 1};
    fb_status status;

    fb_scope_open(ops);
    p.x = fb_full(ops, 2, (int64_t[]){rows, INNER}, 0.5);
    status = fb_trial_measure(out, &t);
    fb_scope_close(ops);
    fb_release(ops, p.weight);
    return status;
}

static fb_status measure_rates(fb_profile *out, fb_ops *ops)
{
    double many, one;

    FB_TRY(measure_product(&many, ops, ROWS, COLUMNS));
    FB_TRY(measure_product(&one, ops, 1, FAR_COLUMNS));
    out->flops_per_s = 2.0 * ROWS * INNER * COLUMNS / many;
    out->bytes_per_s = sizeof(float) * (double)INNER * FAR_COLUMNS / one;
    return FB_OK;
}

/* --- a call --- */

static void normalise(fb_ops *ops, const void *self)
{
    const product *p = self;

    (void)fb_rms_norm(ops, p->x, p->weight, 1e-6);
}

static fb_status measure_call(fb_profile *out, fb_ops *ops)
{
    product p;
    fb_trial t = {.ops = ops, .work = normalise, .self = &p, .calls = CALLS};
    fb_status status;

    fb_scope_open(ops);
    p.weight = fb_full(ops, 1, (int64_t[]){SHORT}, 1);
    p.x = fb_full(ops, 2, (int64_t[]){1, SHORT}, 0.5);
    status = fb_trial_measure(&out->seconds_per_call, &t);
    fb_scope_close(ops);
    return status;
}

/* --- all --- */

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

double fb_profile_measure_bytes(const fb_model *model, fb_dtype cache)
{
    const double far = sizeof(float) * (double)INNER * FAR_COLUMNS;
    const double entries = fb_profile_attention_bytes(model, cache);

    return far > entries ? far : entries;
}

fb_status fb_profile_measure(fb_profile *out, fb_ops *ops, const fb_model *model,
                             fb_dtype cache)
{
    *out = (fb_profile){0};
    describe(out, ops);
    FB_TRY(measure_rates(out, ops));
    FB_TRY(measure_call(out, ops));
    if (model == NULL) return FB_OK;
    FB_TRY(fb_profile_measure_row(out, ops, model));
    return fb_profile_measure_attention(out, ops, model, cache);
}
