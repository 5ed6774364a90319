/* elements.c - the operators of rules: elements, rows, products, choosing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/torch.h"

/* --- moving --- */

/* A tensor over memory of somebody else, as it lies there. */
static fb_torch_handle lent(fb_torch *torch, const fb_outside *part)
{
    const fb_torch_device *device = &torch->devices[torch->at];
    fb_torch_handle made = NULL;

    if (torch->status != FB_OK) return NULL;
    if (torch->lib->aoti_torch_create_tensor_from_blob(
            part->data, 3, part->shape, part->stride, 0,
            fb_torch_dtype(torch, (fb_dtype)part->dtype), device->type, device->index,
            &made) != 0)
        return fb_torch_failed(torch, "a borrowed tensor");
    return fb_torch_keep(torch, made);
}

static fb_torch_handle borrow(fb_torch *torch, const fb_call *call)
{
    const int32_t f32 = fb_torch_dtype(torch, FB_F32);
    int64_t at = 0;
    fb_torch_handle all;

    if (call->n_outside == 1)
        return fb_torch_cast(torch, lent(torch, &call->outside[0]), f32);
    all = fb_torch_new(torch, f32, 3, call->out.shape);
    for (int i = 0; i < call->n_outside; at += call->outside[i++].shape[1])
        fb_torch_copy(torch, NARROW_(all, 1, at, call->outside[i].shape[1]),
                      lent(torch, &call->outside[i]));
    return all;
}

fb_status fb_torch_from_host(void *self, const fb_call *call)
{
    fb_torch *torch = self;

    if (call->outside != NULL) {
        const int device = call->outside[0].device;

        if (device < 0 || device >= torch->n_devices)
            return fb_fail(FB_USAGE, "a tensor on device %d of %d", device + 1,
                           torch->n_devices);
        fb_torch_begin(torch, device);
        return fb_torch_return(torch, call, borrow(torch, call));
    }
    fb_torch_begin(torch, torch->part_device);
    return fb_torch_return(
        torch, call,
        fb_torch_upload(torch, fb_torch_dtype(torch, call->out.dtype), call->out.n_dims,
                        call->out.shape, call->host));
}

fb_status fb_torch_to_host(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_array *in = &call->in[0];

    fb_torch_check_range(torch);
    fb_torch_download(torch, fb_torch_of(torch, in), fb_torch_dtype(torch, in->dtype),
                      call->host_out,
                      (size_t)fb_array_elements(in) * fb_dtype_bytes(in->dtype));
    return fb_torch_done(torch);
}

fb_status fb_torch_full(void *self, const fb_call *call)
{
    fb_torch *torch = self;

    fb_torch_begin(torch, torch->part_device);
    if (call->out.persists) (void)fb_torch_begin_at(torch, &call->out);
    return fb_torch_return(
        torch, call,
        fb_torch_filled(torch, fb_torch_dtype(torch, call->out.dtype), call->out.n_dims,
                        call->out.shape, call->out.dtype == FB_F32 ? call->alpha : 0));
}

fb_status fb_torch_narrow(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    fb_torch_handle from = fb_torch_of(torch, &call->in[0]);

    if (call->in[0].n_dims > 0)
        from = NARROW_(from, call->dim, call->start, call->out.shape[call->dim]);
    return fb_torch_return(torch, call,
                           OP_("clone", "", T_(from), fb_torch_some(torch, I_(0))));
}

fb_status fb_torch_cat(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const fb_torch_handle b = fb_torch_of(torch, &call->in[1]);

    return fb_torch_return(torch, call, fb_torch_join(torch, a, b, call->dim));
}

/* (contiguous would not copy what lies in order as it is, as with dimensions of 1.) */
fb_status fb_torch_transpose(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const fb_torch_handle turned =
        OP_("transpose", "int", T_(a), I_(call->dim), I_(call->dim1));

    return fb_torch_return(torch, call,
                           OP_("clone", "", T_(turned), fb_torch_some(torch, I_(0))));
}

/* --- element by element --- */

static fb_status binary(void *self, const fb_call *call, const char *name,
                        const char *overload)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const fb_torch_handle b = fb_torch_of(torch, &call->in[1]);

    return fb_torch_return(
        torch, call,
        fb_torch_call(torch, name, overload, 2, (fb_torch_value[]){T_(a), T_(b)}));
}

static fb_status unary(void *self, const fb_call *call, const char *name)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);

    return fb_torch_return(
        torch, call, fb_torch_call(torch, name, "", 1, (fb_torch_value[]){T_(a)}));
}

fb_status fb_torch_add(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);

    return fb_torch_return(torch, call,
                           fb_torch_plus(torch, fb_torch_of(torch, &call->in[0]),
                                         fb_torch_of(torch, &call->in[1]),
                                         call->alpha));
}

fb_status fb_torch_mul(void *self, const fb_call *call)
{
    return binary(self, call, "aten::mul", "Tensor");
}

fb_status fb_torch_div(void *self, const fb_call *call)
{
    return binary(self, call, "aten::div", "Tensor");
}

fb_status fb_torch_maximum(void *self, const fb_call *call)
{
    return binary(self, call, "aten::maximum", "");
}

fb_status fb_torch_less(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const fb_torch_handle b = fb_torch_of(torch, &call->in[1]);

    return fb_torch_return(torch, call,
                           fb_torch_cast(torch, OP_("lt", "Tensor", T_(a), T_(b)),
                                         torch->lib->aoti_torch_dtype_float32()));
}

fb_status fb_torch_where(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle mask =
        fb_torch_cast(torch, fb_torch_of(torch, &call->in[0]),
                      torch->lib->aoti_torch_dtype_bool());
    const fb_torch_handle a = fb_torch_of(torch, &call->in[1]);
    const fb_torch_handle b = fb_torch_of(torch, &call->in[2]);

    return fb_torch_return(torch, call,
                           OP_("where", "self", T_(mask), T_(a), T_(b)));
}

fb_status fb_torch_scale(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);

    return fb_torch_return(
        torch, call,
        OP_("mul", "Tensor", T_(a), T_(fb_torch_number(torch, call->alpha))));
}

fb_status fb_torch_sqrt(void *self, const fb_call *call)
{
    return unary(self, call, "aten::sqrt");
}

fb_status fb_torch_exp(void *self, const fb_call *call)
{
    return unary(self, call, "aten::exp");
}

fb_status fb_torch_log(void *self, const fb_call *call)
{
    return unary(self, call, "aten::log");
}

fb_status fb_torch_abs(void *self, const fb_call *call)
{
    return unary(self, call, "aten::abs");
}

/* --- reductions --- */

static fb_torch_handle reduced(fb_torch *torch, const char *name, fb_torch_handle a,
                               int dim, bool keep)
{
    return fb_torch_call(
        torch, name, strcmp(name, "aten::sum") == 0 ? "dim_IntList" : "dim", 4,
        (fb_torch_value[]){T_(a), fb_torch_some(torch, INTS_(dim)), B_(keep), NONE_});
}

fb_status fb_torch_sum(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);

    return fb_torch_return(torch, call,
                           reduced(torch, "aten::sum", fb_torch_of(torch, &call->in[0]),
                                   call->dim, false));
}

fb_status fb_torch_mean(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);

    return fb_torch_return(torch, call,
                           reduced(torch, "aten::mean",
                                   fb_torch_of(torch, &call->in[0]), call->dim, false));
}

/* In two passes. (var.correction has an argument that the C ABI cannot carry.) */
fb_status fb_torch_var(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const int64_t n = call->in[0].shape[call->dim];
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const fb_torch_handle mean = reduced(torch, "aten::mean", a, call->dim, true);
    const fb_torch_handle apart = fb_torch_plus(torch, a, mean, -1);
    const fb_torch_handle square = OP_("mul", "Tensor", T_(apart), T_(apart));
    const fb_torch_handle sum = reduced(torch, "aten::sum", square, call->dim, false);
    const fb_torch_handle divisor = fb_torch_number(torch, n > 1 ? (double)(n - 1) : 1);

    return fb_torch_return(torch, call, OP_("div", "Tensor", T_(sum), T_(divisor)));
}

fb_status fb_torch_amax(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);

    return fb_torch_return(torch, call,
                           OP_("amax", "", T_(a), INTS_(call->dim), B_(false)));
}

/* --- over the last dimension --- */

fb_status fb_torch_softmax(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);

    return fb_torch_return(torch, call, OP_("softmax", "int", T_(a), I_(-1), NONE_));
}

fb_status fb_torch_cumsum(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);

    return fb_torch_return(torch, call, OP_("cumsum", "", T_(a), I_(-1), NONE_));
}

static int64_t columns(const fb_array *array)
{
    return array->n_dims == 0 ? 1 : array->shape[array->n_dims - 1];
}

static int64_t rows(const fb_array *array)
{
    int64_t n = 1;

    for (int i = 0; i < array->n_dims - 1; i++)
        n *= array->shape[i];
    return n;
}

/* As [rows, columns], which pooling takes for channels; back to the shape it had. */
static fb_torch_handle matrix(fb_torch *torch, const fb_array *array)
{
    return SHAPED_(array, rows(array), columns(array));
}

static fb_status give_back(fb_torch *torch, const fb_call *call, fb_torch_handle result)
{
    return fb_torch_return(
        torch, call,
        OP_("reshape", "", T_(result),
            fb_torch_sizes(torch, call->out.n_dims, call->out.shape)));
}

static bool is_empty(const fb_call *call)
{
    return fb_array_elements(&call->out) == 0;
}

static fb_status nothing(fb_torch *torch, const fb_call *call)
{
    return fb_torch_return(torch, call,
                           fb_torch_new(torch, fb_torch_dtype(torch, call->out.dtype),
                                        call->out.n_dims, call->out.shape));
}

fb_status fb_torch_avg_pool1d(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    fb_torch_handle a;

    if (is_empty(call)) return nothing(torch, call);
    a = matrix(torch, &call->in[0]);
    return give_back(torch, call,
                     OP_("avg_pool1d", "", T_(a), INTS_(call->kernel), INTS_(1),
                         INTS_(call->kernel / 2), B_(false), B_(true)));
}

fb_status fb_torch_max_pool1d(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    fb_torch_handle a;

    if (is_empty(call)) return nothing(torch, call);
    a = matrix(torch, &call->in[0]);
    return give_back(torch, call,
                     OP_("max_pool1d", "", T_(a), INTS_(call->kernel), INTS_(1),
                         INTS_(call->kernel / 2), INTS_(1), B_(false)));
}

/* --- products --- */

static fb_torch_handle factor(fb_torch *torch, const fb_array *array, bool transposed)
{
    fb_torch_handle a = fb_torch_of(torch, array);

    return transposed ? OP_("transpose", "int", T_(a), I_(1), I_(2)) : a;
}

fb_status fb_torch_bmm(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = factor(torch, &call->in[0], call->transpose_a);
    const fb_torch_handle b = factor(torch, &call->in[1], call->transpose_b);

    return fb_torch_return(torch, call, OP_("bmm", "", T_(a), T_(b)));
}

/* Fails with this sentence where an element is not 0. */
static void refuse_any(fb_torch *torch, enum fb_op op, fb_torch_handle is,
                       const char *sentence)
{
    const int32_t f32 = torch->lib->aoti_torch_dtype_float32();
    const fb_torch_handle any = OP_("any", "", T_(is));
    float found = 0;

    fb_torch_download(torch, fb_torch_cast(torch, any, f32), f32, &found, sizeof found);
    if (torch->status == FB_OK && found != 0)
        torch->status = fb_fail(FB_DEFECT, "fb_%s: %s", fb_op_name(op), sentence);
}

/* (cholesky_ex says of each matrix whether it is positive definite, cholesky fails as for
 * any other reason.) */
fb_status fb_torch_cholesky_solve(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle m = fb_torch_of(torch, &call->in[0]);
    const fb_torch_handle x = fb_torch_of(torch, &call->in[1]);
    fb_torch_handle info, lower;

    lower = fb_torch_call_two(torch, "aten::linalg_cholesky_ex", "", 3,
                              (fb_torch_value[]){T_(m), B_(false), B_(false)}, &info);
    refuse_any(torch, FB_OP_cholesky_solve, info,
               "a matrix is not positive definite");
    if (is_empty(call)) return nothing(torch, call);
    return fb_torch_return(
        torch, call, OP_("cholesky_solve", "", T_(x), T_(lower), B_(false)));
}

/* --- choosing --- */

static void refuse_nan(fb_torch *torch, enum fb_op op, fb_torch_handle a)
{
    refuse_any(torch, op, OP_("isnan", "", T_(a)), "a score is not a number (NaN)");
}

/* The positions of a row sorted by what stands there; equal: lower position first. */
static fb_torch_handle sorted(fb_torch *torch, fb_torch_handle a, int dim,
                              bool descending)
{
    fb_torch_handle order;

    (void)fb_torch_call_two(torch, "aten::sort", "stable", 4,
                            (fb_torch_value[]){T_(a), fb_torch_some(torch, B_(true)),
                                               I_(dim), B_(descending)},
                            &order);
    return order;
}

fb_status fb_torch_topk(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const int last = call->in[0].n_dims - 1;
    fb_torch_handle order;

    refuse_nan(torch, FB_OP_topk, a);
    if (is_empty(call)) return nothing(torch, call);
    order = sorted(torch, a, last, true);
    order = NARROW_(order, last, 0, call->out.shape[last]);
    return fb_torch_return(torch, call, order);
}

fb_status fb_torch_rank(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const int last = call->in[0].n_dims - 1;
    fb_torch_handle place;

    refuse_nan(torch, FB_OP_rank, a);
    if (is_empty(call)) return nothing(torch, call);
    place = sorted(torch, sorted(torch, a, last, true), last, false);
    return fb_torch_return(
        torch, call,
        fb_torch_cast(torch, place, torch->lib->aoti_torch_dtype_float32()));
}

/* Asked before, for a device would fail for good. */
static void refuse_outside(fb_torch *torch, fb_torch_handle index, int64_t n)
{
    const fb_torch_handle flat = OP_("reshape", "", T_(index), INTS_(-1));
    const int32_t i64 = torch->lib->aoti_torch_dtype_int64();
    int64_t least = 0, most = 0;

    fb_torch_download(torch, OP_("amin", "", T_(flat), INTS_(0), B_(false)), i64,
                      &least, sizeof least);
    fb_torch_download(torch, OP_("amax", "", T_(flat), INTS_(0), B_(false)), i64, &most,
                      sizeof most);
    if (torch->status == FB_OK && (least < 0 || most >= n))
        torch->status = fb_fail(FB_DEFECT, "fb_gather: position %lld of %lld",
                                (long long)(least < 0 ? least : most), (long long)n);
}

fb_status fb_torch_gather(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle a = fb_torch_of(torch, &call->in[0]);
    const fb_torch_handle index = fb_torch_of(torch, &call->in[1]);

    if (is_empty(call)) return nothing(torch, call);
    refuse_outside(torch, index, columns(&call->in[0]));
    return fb_torch_return(
        torch, call,
        OP_("gather", "", T_(a), I_(call->in[0].n_dims - 1), T_(index), B_(false)));
}
