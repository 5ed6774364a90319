/* choose.c - the largest elements of rows, places in a row, and picking by position.
 *
 * top-k and rank sort keys that ascend where values descend. The sort is by digits and stable,
 * so equal values (-0 equals +0) stay in the order of their positions.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

#include <stdatomic.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 3, RADIX = 1 << DIGIT_BITS };

struct choice {
    uint32_t key, position;
};

struct choosing {
    const fb_native *native;
    const fb_call *call;
    atomic_bool has_nan;
};

/* Ascends where x descends. */
static uint32_t descending_key(float x)
{
    uint32_t bits;

    x += 0.0f; /* -0 becomes +0 */
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000 ? bits : ~bits & 0x7fffffff;
}

static void sort_by_digit(const struct choice *from, struct choice *to, int64_t n,
                          int shift)
{
    int64_t start[RADIX] = {0}, sum = 0;

    for (int64_t i = 0; i < n; i++)
        start[from[i].key >> shift & (RADIX - 1)]++;
    for (int d = 0; d < RADIX; d++) {
        const int64_t count = start[d];

        start[d] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[start[from[i].key >> shift & (RADIX - 1)]++] = from[i];
}

/* Row r from the best on, in the thread's own memory. */
static const struct choice *sorted_row(struct choosing *c, int64_t r, int thread)
{
    const int64_t n = fb_columns_of(&c->call->in[0]);
    const float *x = fb_floats(&c->call->in[0]) + r * n;
    struct choice *a = c->native->scratch[thread].bytes, *b = a + n;

    for (int64_t i = 0; i < n; i++) {
        if (x[i] != x[i]) atomic_store(&c->has_nan, true);
        a[i] = (struct choice){descending_key(x[i]), (uint32_t)i};
    }
    sort_by_digit(a, b, n, 0);
    sort_by_digit(b, a, n, DIGIT_BITS);
    sort_by_digit(a, b, n, 2 * DIGIT_BITS);
    return b;
}

static void topk_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct choosing *c = context;
    const int64_t k = fb_columns_of(&c->call->out);
    int64_t *out = (int64_t *)(void *)c->call->out.storage + c->call->out.offset;

    for (int64_t r = begin; r < end; r++) {
        const struct choice *best = sorted_row(c, r, thread);

        for (int64_t i = 0; i < k; i++)
            out[r * k + i] = best[i].position;
    }
}

static void rank_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct choosing *c = context;
    const int64_t n = fb_columns_of(&c->call->out);

    for (int64_t r = begin; r < end; r++) {
        const struct choice *best = sorted_row(c, r, thread);
        float *out = fb_floats(&c->call->out) + r * n;

        for (int64_t i = 0; i < n; i++)
            out[best[i].position] = (float)i;
    }
}

size_t fb_native_sort_room(const fb_call *call, int n_threads)
{
    (void)n_threads;
    return 2 * (size_t)fb_columns_of(&call->in[0]) * sizeof(struct choice) + 1;
}

static fb_status sort_rows(void *self, const fb_call *call, enum fb_op op,
                           fb_loop *rows)
{
    struct choosing c = {.native = self, .call = call};

    FB_TRY(fb_native_reserve(self, fb_native_sort_room(call, 0)));
    fb_native_loop(self, fb_rows_of(&call->in[0]),
                   8 * (double)fb_array_elements(&call->in[0]), rows, &c);
    return c.has_nan ? fb_fail(FB_DEFECT, "fb_%s: a score is not a number (NaN)",
                               fb_op_name(op))
                     : FB_OK;
}

fb_status fb_native_topk(void *self, const fb_call *call)
{
    return sort_rows(self, call, FB_OP_topk, topk_rows);
}

fb_status fb_native_rank(void *self, const fb_call *call)
{
    return sort_rows(self, call, FB_OP_rank, rank_rows);
}

fb_status fb_native_gather(void *self, const fb_call *call)
{
    const fb_array *from = &call->in[0], *out = &call->out;
    const int64_t n = fb_columns_of(from), k = fb_columns_of(out);
    const size_t size = fb_dtype_bytes(from->dtype);
    const int64_t *at =
        (const int64_t *)(void *)call->in[1].storage + call->in[1].offset;
    const char *x = (const char *)from->storage + (size_t)from->offset * size;
    char *to = (char *)out->storage + (size_t)out->offset * size;

    (void)self;
    for (int64_t i = 0; i < fb_array_elements(out); i++) {
        if (at[i] < 0 || at[i] >= n)
            return fb_fail(FB_DEFECT, "fb_gather: position %lld of %lld",
                           (long long)at[i], (long long)n);
        memcpy(to + (size_t)i * size, x + (size_t)(i / k * n + at[i]) * size, size);
    }
    return FB_OK;
}

static void argmax_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct choosing *c = context;
    const int64_t n = c->call->in[0].shape[1];
    int32_t *out = c->call->host_out;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *x = fb_floats(&c->call->in[0]) + r * n;
        int64_t best = 0;

        for (int64_t i = 0; i < n; i++) {
            if (x[i] != x[i]) atomic_store(&c->has_nan, true);
            if (x[i] > x[best]) best = i;
        }
        out[r] = (int32_t)best;
    }
}

fb_status fb_native_argmax(void *self, const fb_call *call)
{
    struct choosing c = {.native = self, .call = call};

    fb_native_loop(self, call->in[0].shape[0], (double)fb_array_elements(&call->in[0]),
                   argmax_rows, &c);
    return c.has_nan ? fb_fail(FB_DEFECT, "fb_argmax: a logit is not a number (NaN)")
                     : FB_OK;
}
