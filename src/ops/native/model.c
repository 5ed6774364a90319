/* model.c - the small operators of a model, row by row.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

struct rows {
    const fb_native *native;
    const fb_call *call;
    void (*gate)(const float *gate, const float *up, float *out, int64_t n);
};

static void norm_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct rows *rows = context;
    const fb_call *call = rows->call;
    const int64_t n = call->out.shape[1];

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        rows->native->isa->rows->rms_norm(fb_floats(&call->in[0]) + r * n,
                                          fb_floats(&call->in[1]), call->alpha,
                                          fb_floats(&call->out) + r * n, n);
}

static void head_norm_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct rows *rows = context;
    const fb_call *call = rows->call;
    const int64_t d = call->head_dim;

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        for (int64_t h = call->start; h < call->start + call->heads; h++) {
            float *x = fb_floats(&call->out) + r * call->out.shape[1] + h * d;

            rows->native->isa->rows->rms_norm(x, fb_floats(&call->in[1]), call->alpha,
                                              x, d);
        }
}

static void gate_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct rows *rows = context;
    const int64_t n = rows->call->out.shape[1];

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *gate = fb_floats(&rows->call->in[0]) + r * 2 * n;

        rows->gate(gate, gate + n, fb_floats(&rows->call->out) + r * n, n);
    }
}

static void rotary_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct rows *rows = context;
    const fb_call *call = rows->call;
    const int64_t half = call->in[1].shape[1];

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        for (int64_t h = 0; h < call->heads; h++) {
            float *x =
                fb_floats(&call->out) + r * call->out.shape[1] + h * call->head_dim;

            rows->native->isa->rows->rotary(x, x + half,
                                            fb_floats(&call->in[1]) + r * half,
                                            fb_floats(&call->in[2]) + r * half, half);
        }
}

static fb_status by_rows(void *self, const fb_call *call, double cost, fb_loop *loop)
{
    struct rows rows = {.native = self, .call = call};

    fb_native_loop(self, call->out.shape[0],
                   (double)fb_array_elements(&call->out) * cost, loop, &rows);
    return FB_OK;
}

fb_status fb_native_rms_norm(void *self, const fb_call *call)
{
    return by_rows(self, call, 0.5, norm_rows);
}

fb_status fb_native_head_norm_(void *self, const fb_call *call)
{
    return by_rows(self, call, 0.5, head_norm_rows);
}

static fb_status gated(fb_native *native, const fb_call *call,
                       void (*gate)(const float *, const float *, float *, int64_t))
{
    struct rows rows = {native, call, gate};

    fb_native_loop(native, call->out.shape[0], (double)fb_array_elements(&call->out),
                   gate_rows, &rows);
    return FB_OK;
}

fb_status fb_native_swiglu(void *self, const fb_call *call)
{
    fb_native *native = self;

    return gated(native, call, native->isa->rows->swiglu);
}

fb_status fb_native_geglu(void *self, const fb_call *call)
{
    fb_native *native = self;

    return gated(native, call, native->isa->rows->geglu);
}

fb_status fb_native_rotary(void *self, const fb_call *call)
{
    return by_rows(self, call, 0.5, rotary_rows);
}
