/* elements.c - moving elements, and arithmetic element by element.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/elementary.h"
#include "ops/native/native.h"

#include <string.h>

static char *bytes_at(const fb_array *array)
{
    return (char *)array->storage +
           (size_t)array->offset * fb_dtype_bytes(array->dtype);
}

static size_t size_of(const fb_array *array)
{
    return (size_t)fb_array_elements(array) * fb_dtype_bytes(array->dtype);
}

/* --- moving */

/* Row by row, whatever the strides: columns are one behind the other in the result. */
static void take_outside(const fb_isa *isa, const fb_outside *part, float *out,
                         int64_t skip)
{
    const size_t size = fb_dtype_bytes((fb_dtype)part->dtype);
    const int64_t c = part->shape[2], n = part->stride[2] == 1 ? c : 1;

    for (int64_t a = 0; a < part->shape[0]; a++, out += skip)
        for (int64_t b = 0; b < part->shape[1]; b++)
            for (int64_t i = 0; i < c; i += n, out += n)
                fb_floats_of(isa, (fb_dtype)part->dtype,
                             (const char *)part->data +
                                 (size_t)(a * part->stride[0] + b * part->stride[1] +
                                          i * part->stride[2]) *
                                     size,
                             out, n);
}

static fb_status borrow(const fb_native *native, const fb_call *call)
{
    const int64_t row = call->out.shape[1] * call->out.shape[2];
    float *out = fb_floats(&call->out);

    for (int i = 0; i < call->n_outside; i++) {
        const fb_outside *part = &call->outside[i];
        const int64_t own = part->shape[1] * part->shape[2];

        if (part->device != 0)
            return fb_fail(FB_USAGE, "a tensor on device %d of 1", part->device + 1);
        if (row > 0) take_outside(native->isa, part, out, row - own);
        out += own;
    }
    return FB_OK;
}

fb_status fb_native_from_host(void *self, const fb_call *call)
{
    if (call->outside != NULL) return borrow(self, call);
    if (size_of(&call->out) > 0)
        memcpy(bytes_at(&call->out), call->host, size_of(&call->out));
    return FB_OK;
}

fb_status fb_native_to_host(void *self, const fb_call *call)
{
    (void)self;
    if (size_of(&call->in[0]) > 0)
        memcpy(call->host_out, bytes_at(&call->in[0]), size_of(&call->in[0]));
    return FB_OK;
}

/* Of other types than f32 only zero is asked for (fb_new). */
fb_status fb_native_full(void *self, const fb_call *call)
{
    const int64_t n = fb_array_elements(&call->out);
    float *out = fb_floats(&call->out);

    (void)self;
    if (call->out.dtype != FB_F32) {
        memset(bytes_at(&call->out), 0, size_of(&call->out));
        return FB_OK;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)call->alpha;
    return FB_OK;
}

/* Elements of the dimensions [first, end). */
static int64_t elements_of(const fb_array *array, int first, int end)
{
    int64_t n = 1;

    for (int i = first; i < end; i++)
        n *= array->shape[i];
    return n;
}

/* Bytes of one step in dimension `dim`. */
static size_t step_of(const fb_array *array, int dim)
{
    return (size_t)elements_of(array, dim + 1, array->n_dims) *
           fb_dtype_bytes(array->dtype);
}

fb_status fb_native_narrow(void *self, const fb_call *call)
{
    const fb_array *from = &call->in[0];
    char *out = bytes_at(&call->out);
    const char *in = bytes_at(from);
    size_t inner, length, distance;
    int64_t outer;

    (void)self;
    if (size_of(&call->out) == 0) return FB_OK;
    if (from->n_dims == 0) {
        memcpy(out, in, size_of(from));
        return FB_OK;
    }
    outer = elements_of(from, 0, call->dim);
    inner = step_of(from, call->dim);
    length = inner * (size_t)call->out.shape[call->dim];
    distance = inner * (size_t)from->shape[call->dim];
    for (int64_t i = 0; i < outer; i++)
        memcpy(out + (size_t)i * length,
               in + (size_t)i * distance + (size_t)call->start * inner, length);
    return FB_OK;
}

fb_status fb_native_cat(void *self, const fb_call *call)
{
    const int64_t outer = elements_of(&call->out, 0, call->dim);
    const size_t inner = step_of(&call->out, call->dim);
    const size_t row = (size_t)call->out.shape[call->dim] * inner;
    char *out = bytes_at(&call->out);

    (void)self;
    for (int part = 0; part < 2; part++) {
        const char *in = bytes_at(&call->in[part]);
        const size_t length = (size_t)call->in[part].shape[call->dim] * inner;

        if (size_of(&call->in[part]) == 0) continue;
        for (int64_t i = 0; i < outer; i++)
            memcpy(out + (size_t)i * row, in + (size_t)i * length, length);
        out += length;
    }
    return FB_OK;
}

/* [outer, n0, middle, n1, inner] becomes [outer, n1, middle, n0, inner]. */
struct exchange {
    const char *in;
    char *out;
    int64_t outer, n0, middle, n1;
    size_t inner; /* bytes */
};

/* n pieces of `size` bytes that lie `step` apart. */
static void collect(const char *from, size_t step, size_t size, int64_t n, char *to)
{
    if (size == sizeof(float))
        for (int64_t i = 0; i < n; i++)
            memcpy(to + (size_t)i * sizeof(float), from + (size_t)i * step,
                   sizeof(float));
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + (size_t)i * size, from + (size_t)i * step, size);
}

static void exchange_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct exchange *e = context;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const int64_t middle = r % e->middle, i1 = r / e->middle % e->n1;
        const int64_t outer = r / (e->middle * e->n1);
        const int64_t from = (outer * e->n0 * e->middle + middle) * e->n1 + i1;

        collect(e->in + (size_t)from * e->inner,
                (size_t)(e->middle * e->n1) * e->inner, e->inner, e->n0,
                e->out + (size_t)(r * e->n0) * e->inner);
    }
}

fb_status fb_native_transpose(void *self, const fb_call *call)
{
    const fb_array *from = &call->in[0];
    const int dim = call->dim, dim1 = call->dim1;
    struct exchange e = {
        .in = bytes_at(from),
        .out = bytes_at(&call->out),
        .outer = elements_of(from, 0, dim),
        .n0 = from->shape[dim],
        .middle = elements_of(from, dim + 1, dim1),
        .n1 = dim1 > dim ? from->shape[dim1] : 1,
        .inner = step_of(from, dim1),
    };

    if (size_of(from) == 0) return FB_OK;
    fb_native_loop(self, e.outer * e.n1 * e.middle, (double)fb_array_elements(from),
                   exchange_rows, &e);
    return FB_OK;
}

/* --- two operands */

typedef void row_loop(const float *a, int64_t a_step, const float *b, int64_t b_step,
                      float alpha, float *out, int64_t n);

static void add_row(const float *a, int64_t a_step, const float *b, int64_t b_step,
                    float alpha, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i * a_step] + alpha * b[i * b_step];
}

static void mul_row(const float *a, int64_t a_step, const float *b, int64_t b_step,
                    float alpha, float *out, int64_t n)
{
    (void)alpha;
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i * a_step] * b[i * b_step];
}

static void div_row(const float *a, int64_t a_step, const float *b, int64_t b_step,
                    float alpha, float *out, int64_t n)
{
    (void)alpha;
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i * a_step] / b[i * b_step];
}

static void maximum_row(const float *a, int64_t a_step, const float *b, int64_t b_step,
                        float alpha, float *out, int64_t n)
{
    (void)alpha;
    for (int64_t i = 0; i < n; i++) {
        const float x = a[i * a_step], y = b[i * b_step];

        out[i] = x > y || x != x ? x : y; /* y if it is NaN */
    }
}

static void less_row(const float *a, int64_t a_step, const float *b, int64_t b_step,
                     float alpha, float *out, int64_t n)
{
    (void)alpha;
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i * a_step] < b[i * b_step] ? 1 : 0;
}

struct binary {
    const fb_call *call;
    row_loop *loop;
    int64_t a_steps[FB_MAX_DIMS], b_steps[FB_MAX_DIMS]; /* 0: repeated */
};

/* Steps through an operand for each dimension of the result. */
static void find_steps(const fb_array *from, const fb_array *out, int64_t *steps)
{
    int64_t step = 1;

    for (int i = 1; i <= out->n_dims; i++) {
        const int64_t size = i <= from->n_dims ? from->shape[from->n_dims - i] : 1;

        steps[out->n_dims - i] = size == 1 ? 0 : step;
        step *= size;
    }
}

static int64_t place(const fb_array *out, const int64_t *steps, int64_t row)
{
    int64_t at = 0;

    for (int i = out->n_dims - 2; i >= 0; i--) {
        at += row % out->shape[i] * steps[i];
        row /= out->shape[i];
    }
    return at;
}

static void binary_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct binary *b = context;
    const fb_array *out = &b->call->out;
    const int64_t n = fb_columns_of(out), last = out->n_dims - 1;
    const int64_t x_step = last < 0 ? 0 : b->a_steps[last];
    const int64_t y_step = last < 0 ? 0 : b->b_steps[last];

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        b->loop(fb_floats(&b->call->in[0]) + place(out, b->a_steps, r), x_step,
                fb_floats(&b->call->in[1]) + place(out, b->b_steps, r), y_step,
                (float)b->call->alpha, fb_floats(out) + r * n, n);
}

static fb_status binary(void *self, const fb_call *call, row_loop *loop)
{
    struct binary b = {.call = call, .loop = loop};

    find_steps(&call->in[0], &call->out, b.a_steps);
    find_steps(&call->in[1], &call->out, b.b_steps);
    fb_native_loop(self, fb_rows_of(&call->out), (double)fb_array_elements(&call->out),
                   binary_rows, &b);
    return FB_OK;
}

fb_status fb_native_add(void *self, const fb_call *call)
{
    return binary(self, call, add_row);
}

fb_status fb_native_mul(void *self, const fb_call *call)
{
    return binary(self, call, mul_row);
}

fb_status fb_native_div(void *self, const fb_call *call)
{
    return binary(self, call, div_row);
}

fb_status fb_native_maximum(void *self, const fb_call *call)
{
    return binary(self, call, maximum_row);
}

fb_status fb_native_less(void *self, const fb_call *call)
{
    return binary(self, call, less_row);
}

/* --- one of two */

struct either {
    const fb_call *call;
    int64_t steps[3][FB_MAX_DIMS]; /* of the mask and of both; 0: repeated */
};

static void either_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct either *e = context;
    const fb_array *out = &e->call->out;
    const int64_t n = fb_columns_of(out), last = out->n_dims - 1;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *x[3];
        int64_t step[3];

        for (int i = 0; i < 3; i++) {
            x[i] = fb_floats(&e->call->in[i]) + place(out, e->steps[i], r);
            step[i] = last < 0 ? 0 : e->steps[i][last];
        }
        for (int64_t c = 0; c < n; c++) {
            const int taken = x[0][c * step[0]] != 0 ? 1 : 2;

            fb_floats(out)[r * n + c] = x[taken][c * step[taken]];
        }
    }
}

fb_status fb_native_where(void *self, const fb_call *call)
{
    struct either e = {.call = call};

    for (int i = 0; i < 3; i++)
        find_steps(&call->in[i], &call->out, e.steps[i]);
    fb_native_loop(self, fb_rows_of(&call->out), (double)fb_array_elements(&call->out),
                   either_rows, &e);
    return FB_OK;
}

/* --- one operand */

typedef void element_loop(const fb_native *native, const float *x, float factor,
                          float *out, int64_t n);

static void scale_all(const fb_native *native, const float *x, float factor, float *out,
                      int64_t n)
{
    (void)native;
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * factor;
}

static void sqrt_all(const fb_native *native, const float *x, float factor, float *out,
                     int64_t n)
{
    (void)native;
    (void)factor;
    for (int64_t i = 0; i < n; i++)
        out[i] = __builtin_sqrtf(x[i]);
}

static void exp_all(const fb_native *native, const float *x, float factor, float *out,
                    int64_t n)
{
    (void)factor;
    native->isa->rows->exp(x, out, n);
}

static void log_all(const fb_native *native, const float *x, float factor, float *out,
                    int64_t n)
{
    (void)native;
    (void)factor;
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)fb_log_d((double)x[i]);
}

static void abs_all(const fb_native *native, const float *x, float factor, float *out,
                    int64_t n)
{
    (void)native;
    (void)factor;
    for (int64_t i = 0; i < n; i++)
        out[i] = __builtin_fabsf(x[i]);
}

static void add_all(const fb_native *native, const float *x, float factor, float *out,
                    int64_t n)
{
    (void)native;
    (void)factor;
    for (int64_t i = 0; i < n; i++)
        out[i] += x[i];
}

struct unary {
    const fb_native *native;
    const fb_call *call;
    const float *x;
    element_loop *loop;
};

enum { BLOCK = 1024 }; /* elements that a thread takes at a time */

static void unary_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    const struct unary *u = context;
    const int64_t n = fb_array_elements(&u->call->out), first = begin * BLOCK;
    const int64_t last = end * BLOCK < n ? end * BLOCK : n;

    (void)thread;
    u->loop(u->native, u->x + first, (float)u->call->alpha,
            fb_floats(&u->call->out) + first, last - first);
}

static fb_status unary(void *self, const fb_call *call, const fb_array *x,
                       element_loop *loop)
{
    struct unary u = {self, call, fb_floats(x), loop};
    const int64_t n = fb_array_elements(&call->out);

    fb_native_loop(self, (n + BLOCK - 1) / BLOCK, (double)n, unary_blocks, &u);
    return FB_OK;
}

fb_status fb_native_scale(void *self, const fb_call *call)
{
    return unary(self, call, &call->in[0], scale_all);
}

fb_status fb_native_sqrt(void *self, const fb_call *call)
{
    return unary(self, call, &call->in[0], sqrt_all);
}

fb_status fb_native_exp(void *self, const fb_call *call)
{
    return unary(self, call, &call->in[0], exp_all);
}

fb_status fb_native_log(void *self, const fb_call *call)
{
    return unary(self, call, &call->in[0], log_all);
}

fb_status fb_native_abs(void *self, const fb_call *call)
{
    return unary(self, call, &call->in[0], abs_all);
}

/* One row to every row. */
static void add_to_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const struct unary *u = context;
    const int64_t n = fb_array_elements(&u->call->in[1]);

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        add_all(u->native, u->x, 1, fb_floats(&u->call->out) + r * n, n);
}

fb_status fb_native_add_(void *self, const fb_call *call)
{
    const int64_t n = fb_array_elements(&call->out);
    const int64_t row = fb_array_elements(&call->in[1]);
    struct unary u = {.native = self, .call = call, .x = fb_floats(&call->in[1])};

    if (row == n) return unary(self, call, &call->in[1], add_all);
    fb_native_loop(self, row == 0 ? 0 : n / row, (double)n, add_to_rows, &u);
    return FB_OK;
}
