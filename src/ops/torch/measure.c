/* measure.c - what is measured of logits. Only the results come to the host.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/torch.h"

#include "base/number.h"

/* Rows that are compared in double at a time. */
enum { ROWS_AT_ONCE = 16 };

static void refuse_nan(fb_torch *torch, const double *x, int64_t n, enum fb_op op)
{
    for (int64_t i = 0; torch->status == FB_OK && i < n; i++)
        if (x[i] != x[i])
            torch->status = fb_fail(FB_DEFECT, "fb_%s: a logit is not a number (NaN)",
                                    fb_op_name(op));
}

/* Both in one tensor, so that the host waits once: largest, and where (exact in f64). */
static void look(fb_torch *torch, fb_torch_handle x, int64_t rows, double *both)
{
    const int32_t f64 = torch->lib->aoti_torch_dtype_float64();
    fb_torch_handle most = OP_("amax", "", T_(x), INTS_(1), B_(false));
    fb_torch_handle at =
        OP_("argmax", "", T_(x), fb_torch_some(torch, I_(1)), B_(false));

    most = fb_torch_cast(torch, most, f64);
    at = fb_torch_cast(torch, at, f64);
    fb_torch_download(torch, fb_torch_join(torch, most, at, 0), f64, both,
                      (size_t)(2 * rows) * sizeof *both);
}

fb_status fb_torch_argmax(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const int64_t rows = call->in[0].shape[0];
    double *both = fb_alloc(FB_ACCOUNT_scratch, (size_t)(2 * rows + 1) * sizeof *both);
    int32_t *out = call->host_out;

    if (both == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an arg max");
    fb_torch_check_range(torch);
    if (rows > 0) look(torch, fb_torch_of(torch, &call->in[0]), rows, both);
    refuse_nan(torch, both, torch->status == FB_OK ? rows : 0, FB_OP_argmax);
    for (int64_t r = 0; torch->status == FB_OK && r < rows; r++)
        out[r] = (int32_t)both[rows + r];
    fb_free(both);
    return fb_torch_done(torch);
}

/* Log softmax in double. */
static fb_torch_handle logs(fb_torch *torch, fb_torch_handle x)
{
    const fb_torch_handle exact =
        fb_torch_cast(torch, x, torch->lib->aoti_torch_dtype_float64());

    return OP_("log_softmax", "int", T_(exact), I_(1), NONE_);
}

static void nll_rows(fb_torch *torch, const fb_call *call, int64_t first, int64_t n)
{
    const int32_t i64 = torch->lib->aoti_torch_dtype_int64();
    double *out = (double *)call->host_out + first;
    int64_t target[ROWS_AT_ONCE];
    fb_torch_handle x = fb_torch_of(torch, &call->in[0]), at;

    for (int64_t i = 0; i < n; i++)
        target[i] = call->ids[first + i];
    at = fb_torch_upload(torch, i64, 2, (const int64_t[]){n, 1}, target);
    x = logs(torch, NARROW_(x, 0, first, n));
    x = OP_("gather", "", T_(x), I_(1), T_(at), B_(false));
    fb_torch_download(torch, OP_("neg", "", T_(x)),
                      torch->lib->aoti_torch_dtype_float64(), out,
                      (size_t)n * sizeof *out);
    if (torch->status == FB_OK) refuse_nan(torch, out, n, FB_OP_nll);
}

typedef void rows_of(fb_torch *torch, const fb_call *call, int64_t first, int64_t n);

static fb_status by_rows(void *self, const fb_call *call, const fb_array *of,
                         rows_of *measure)
{
    const int64_t rows = of->shape[0];
    fb_status status = FB_OK;

    for (int64_t r = 0; status == FB_OK && r < rows; r += ROWS_AT_ONCE) {
        fb_torch *torch = fb_torch_begin_at(self, of);

        if (r == 0) fb_torch_check_range(torch);
        measure(torch, call, r, fb_smaller(ROWS_AT_ONCE, rows - r));
        status = fb_torch_done(torch);
    }
    return status;
}

fb_status fb_torch_nll(void *self, const fb_call *call)
{
    return by_rows(self, call, &call->in[0], nll_rows);
}

/* The sums of rows x [n, N], one by one: of several at once PyTorch adds otherwise, so
 * that the last bit of a row would depend on how many there are. */
static fb_torch_handle sums(fb_torch *torch, fb_torch_handle x, int64_t n)
{
    fb_torch_value sum[ROWS_AT_ONCE];

    for (int64_t i = 0; i < n; i++)
        sum[i] = T_(OP_("sum", "dim_IntList", T_(NARROW_(x, 0, i, 1)),
                        fb_torch_some(torch, INTS_(1)), B_(false), NONE_));
    return OP_("cat", "", fb_torch_list_from(torch, (int)n, sum), I_(0));
}

/* sum p (log p - log q) of rows p, q; 0 where p is, whatever q is there. (Not exp(log p):
 * elements are computed by other functions at the end of a tensor, rows are not.) */
static fb_torch_handle divergence(fb_torch *torch, fb_torch_handle p, fb_torch_handle q,
                                  int64_t n)
{
    const int32_t f64 = torch->lib->aoti_torch_dtype_float64();
    const fb_torch_handle apart =
        fb_torch_plus(torch, logs(torch, p), logs(torch, q), -1);
    fb_torch_handle term;

    p = OP_("softmax", "int", T_(fb_torch_cast(torch, p, f64)), I_(1), NONE_);
    term = OP_("mul", "Tensor", T_(p), T_(apart));
    (void)OP_("masked_fill_", "Tensor", T_(term), T_(OP_("logical_not", "", T_(p))),
              T_(fb_torch_number(torch, 0)));
    return sums(torch, term, n);
}

/* Row r of q with row r % P of p. */
static void kl_rows(fb_torch *torch, const fb_call *call, int64_t first, int64_t n)
{
    const int64_t n_p = call->in[0].shape[0];
    double *out = (double *)call->host_out + first;
    fb_torch_handle p = fb_torch_of(torch, &call->in[0]);
    fb_torch_handle q = fb_torch_of(torch, &call->in[1]);
    int64_t row[ROWS_AT_ONCE];

    for (int64_t i = 0; i < n; i++)
        row[i] = (first + i) % n_p;
    p = OP_(
        "index_select", "", T_(p), I_(0),
        T_(fb_torch_upload(torch, torch->lib->aoti_torch_dtype_int64(), 1, &n, row)));
    fb_torch_download(torch, divergence(torch, p, NARROW_(q, 0, first, n), n),
                      torch->lib->aoti_torch_dtype_float64(), out,
                      (size_t)n * sizeof *out);
    if (torch->status != FB_OK) return;
    refuse_nan(torch, out, n, FB_OP_kl);
    for (int64_t i = 0; i < n; i++)
        out[i] = out[i] > 0 ? out[i] : 0; /* never negative; rounding can be */
}

fb_status fb_torch_kl(void *self, const fb_call *call)
{
    return by_rows(self, call, &call->in[1], kl_rows);
}
