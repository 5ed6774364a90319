/* measure.c - NLL and KL of rows of logits, in double.
 *
 * log softmax(x)[i] = x[i] - (max + log(sum of exp(x - max))). Both sides of KL use the
 * same expression on the same operations, so equal rows differ by exactly 0.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/elementary.h"
#include "ops/native/native.h"

#include <stdatomic.h>

struct measuring {
    const fb_native *native;
    const fb_call *call;
    double *of_p; /* [P] log sums of the rows that others are compared with */
    atomic_bool is_bad;
};

/* log of the sum of exp(x). */
static double log_sum(const fb_native *native, const float *x, int64_t n)
{
    const double max = (double)native->isa->rows->max(x, n);

    return max + fb_log_d(native->isa->doubles->sum_exp(x, n, max));
}

static void nll_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct measuring *m = context;
    const int64_t n = m->call->in[0].shape[1];
    double *out = m->call->host_out;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *x = fb_floats(&m->call->in[0]) + r * n;

        out[r] = log_sum(m->native, x, n) - (double)x[m->call->ids[r]];
        if (out[r] != out[r]) atomic_store(&m->is_bad, true);
    }
}

static fb_status check(struct measuring *m, enum fb_op op)
{
    if (!m->is_bad) return FB_OK;
    return fb_fail(FB_DEFECT, "fb_%s: a logit is not a number (NaN)", fb_op_name(op));
}

fb_status fb_native_nll(void *self, const fb_call *call)
{
    struct measuring m = {.native = self, .call = call};

    fb_native_loop(self, call->in[0].shape[0],
                   4 * (double)fb_array_elements(&call->in[0]), nll_rows, &m);
    return check(&m, FB_OP_nll);
}

static void p_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct measuring *m = context;
    const int64_t n = m->call->in[0].shape[1];

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        m->of_p[r] = log_sum(m->native, fb_floats(&m->call->in[0]) + r * n, n);
}

static void kl_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct measuring *m = context;
    const int64_t n = m->call->in[0].shape[1], n_p = m->call->in[0].shape[0];
    double *out = m->call->host_out;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *q = fb_floats(&m->call->in[1]) + r * n;
        const double kl = m->native->isa->doubles->kl(
            fb_floats(&m->call->in[0]) + r % n_p * n, m->of_p[r % n_p], q,
            log_sum(m->native, q, n), n);

        out[r] = kl > 0 ? kl : 0; /* never negative; rounding can be */
        if (kl != kl) atomic_store(&m->is_bad, true);
    }
}

size_t fb_native_kl_room(const fb_call *call, int n_threads)
{
    (void)n_threads;
    return (size_t)call->in[0].shape[0] * sizeof(double);
}

fb_status fb_native_kl(void *self, const fb_call *call)
{
    fb_native *native = self;
    struct measuring m = {.native = native, .call = call};
    const fb_array *p = &call->in[0], *q = &call->in[1];
    const size_t mark = fb_stack_mark(&native->stack);

    m.of_p = fb_stack_take(&native->stack, fb_native_kl_room(call, 0));
    if (m.of_p == NULL) return fb_fail(FB_NO_MEMORY, "no memory to compare answers");
    fb_native_loop(self, p->shape[0], 4 * (double)fb_array_elements(p), p_rows, &m);
    fb_native_loop(self, q->shape[0], 8 * (double)fb_array_elements(q), kl_rows, &m);
    fb_stack_cut(&native->stack, mark);
    return check(&m, FB_OP_kl);
}
