/* front.c - the front doors of op.h: shapes in, shapes out, work.
 *
 * A unit of work: an element of the result for operators that go element by element, an
 * element read for reductions, pooling and sorting, a multiply-add for products.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/context.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RANKED = 1 << 24 }; /* whole numbers that f32 tells apart */

static double elements(const fb_array *array)
{
    return (double)fb_array_elements(array);
}

/* "[2, 3]", for sentences. */
static const char *shape_text(const fb_array *array, char *out, size_t n)
{
    size_t used = (size_t)snprintf(out, n, "[");

    for (int i = 0; i < array->n_dims; i++)
        used += (size_t)snprintf(out + used, n - used, i == 0 ? "%lld" : ", %lld",
                                 (long long)array->shape[i]);
    (void)snprintf(out + used, n - used, "]");
    return out;
}

static void refuse_shapes(fb_ops *ops, enum fb_op op, const fb_array *a,
                          const fb_array *b)
{
    char a_text[128], b_text[128];

    fb_ops_broken(ops, op, "shapes %s and %s do not fit",
                  shape_text(a, a_text, sizeof a_text),
                  shape_text(b, b_text, sizeof b_text));
}

static bool last_dim(fb_ops *ops, enum fb_op op, const fb_array *a)
{
    if (a->n_dims > 0) return true;
    fb_ops_broken(ops, op, "takes tensors of at least one dimension");
    return false;
}

static bool fix_dim(fb_ops *ops, enum fb_op op, const fb_array *a, int *dim)
{
    const int asked = *dim;

    if (*dim < 0) *dim += a->n_dims;
    if (*dim >= 0 && *dim < a->n_dims) return true;
    fb_ops_broken(ops, op, "no dimension %d in a tensor of %d", asked, a->n_dims);
    return false;
}

/* --- host and shape */

fb_tensor fb_from_host(fb_ops *ops, fb_dtype dtype, int n_dims, const int64_t *shape,
                       const void *data)
{
    fb_call call = {.host = data};

    if (!fb_ops_shape(ops, FB_OP_from_host, &call.out, dtype, n_dims, shape))
        return FB_NONE;
    return fb_ops_compute(ops, FB_OP_from_host, &call, 0);
}

/* Nothing outside is trusted: sizes and strides that no memory could have are refused. */
static bool is_outside(const fb_outside *part, const fb_outside *first)
{
    const int64_t most = INT64_C(1) << 48;
    int64_t last = 0, step;

    if (part->dtype != FB_F32 && part->dtype != FB_F16 && part->dtype != FB_BF16)
        return false;
    for (int i = 0; i < 3; i++) {
        if (part->shape[i] < 0 || part->shape[i] > INT32_MAX || part->stride[i] < 0)
            return false;
        if (part->shape[i] == 0) continue;
        if (__builtin_mul_overflow(part->shape[i] - 1, part->stride[i], &step) ||
            step > most || (last += step) > most)
            return false;
    }
    return part->data != NULL && part->shape[0] == first->shape[0] &&
           part->shape[2] == first->shape[2] && part->device == first->device;
}

fb_tensor fb_borrow(fb_ops *ops, const fb_outside *parts, int n)
{
    fb_call call = {.outside = parts, .n_outside = n};
    int64_t b = 0;

    for (int i = 0; i < n; i++) {
        if (!is_outside(&parts[i], &parts[0])) {
            fb_ops_broken(ops, FB_OP_from_host, "tensor %d of %d is not possible",
                          i + 1, n);
            return FB_NONE;
        }
        b += parts[i].shape[1];
    }
    if (!fb_ops_shape(ops, FB_OP_from_host, &call.out, FB_F32, 3,
                      (const int64_t[]){parts[0].shape[0], b, parts[0].shape[2]}))
        return FB_NONE;
    return fb_ops_compute(ops, FB_OP_from_host, &call, 0);
}

fb_status fb_to_host(fb_ops *ops, fb_tensor a, void *out, size_t bytes)
{
    const fb_array *array = fb_ops_look(ops, FB_OP_to_host, a);
    fb_call call = {.host_out = out};

    if (array == NULL) return fb_ops_status(ops);
    call.in[0] = *array;
    if (array->weight != 0 || (double)bytes != fb_array_bytes(array)) {
        fb_ops_broken(ops, FB_OP_to_host, "%zu bytes of room for %.0f", bytes,
                      fb_array_bytes(array));
        return fb_ops_status(ops);
    }
    return fb_ops_run(ops, FB_OP_to_host, &call, 0);
}

fb_tensor fb_full(fb_ops *ops, int n_dims, const int64_t *shape, double value)
{
    fb_call call = {.alpha = value};

    if (!fb_ops_shape(ops, FB_OP_full, &call.out, FB_F32, n_dims, shape))
        return FB_NONE;
    return fb_ops_compute(ops, FB_OP_full, &call, 0);
}

fb_tensor fb_reshape(fb_ops *ops, fb_tensor a, int n_dims, const int64_t *shape)
{
    const fb_array *array = fb_ops_look(ops, FB_OP_narrow, a);
    fb_array view;

    if (array == NULL) return FB_NONE;
    if (!fb_ops_shape(ops, FB_OP_narrow, &view, array->dtype, n_dims, shape))
        return FB_NONE;
    if (array->weight != 0 || fb_array_elements(&view) != fb_array_elements(array)) {
        fb_ops_refuse(ops, fb_fail(FB_DEFECT, "fb_reshape: %lld elements for %lld",
                                   (long long)fb_array_elements(array),
                                   (long long)fb_array_elements(&view)));
        return FB_NONE;
    }
    view.storage = array->storage;
    view.offset = array->offset;
    view.persists = array->persists;
    return fb_ops_view(ops, a, &view);
}

fb_tensor fb_narrow(fb_ops *ops, fb_tensor a, int dim, int64_t start, int64_t length)
{
    const fb_array *array = fb_ops_look(ops, FB_OP_narrow, a);
    fb_call call = {.start = start};

    if (array == NULL || !fix_dim(ops, FB_OP_narrow, array, &dim)) return FB_NONE;
    if (array->weight != 0 || start < 0 || length < 0 ||
        start > array->shape[dim] - length) {
        fb_ops_broken(ops, FB_OP_narrow, "%lld elements from %lld on of %lld",
                      (long long)length, (long long)start,
                      (long long)array->shape[dim]);
        return FB_NONE;
    }
    call.dim = dim;
    call.in[0] = call.out = *array;
    call.out.shape[dim] = length;
    if (dim > 0) {
        call.out.persists = false;
        return fb_ops_compute(ops, FB_OP_narrow, &call, 0);
    }
    if (array->shape[0] > 0)
        call.out.offset += start * (fb_array_elements(array) / array->shape[0]);
    return fb_ops_view(ops, a, &call.out);
}

/* The same sizes in all dimensions but one. */
static bool same_but(const fb_array *a, const fb_array *b, int dim)
{
    if (a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (i != dim && a->shape[i] != b->shape[i]) return false;
    return true;
}

fb_tensor fb_cat(fb_ops *ops, fb_tensor a, fb_tensor b, int dim)
{
    const fb_array *x = fb_ops_look(ops, FB_OP_cat, a);
    const fb_array *y = fb_ops_look(ops, FB_OP_cat, b);
    int64_t shape[FB_MAX_DIMS];
    fb_call call = {0};

    if (x == NULL || y == NULL || !fix_dim(ops, FB_OP_cat, x, &dim)) return FB_NONE;
    if (x->weight != 0 || y->weight != 0 || x->dtype != y->dtype) {
        fb_ops_broken(ops, FB_OP_cat, "takes two plain tensors of one type");
        return FB_NONE;
    }
    if (!same_but(x, y, dim)) {
        refuse_shapes(ops, FB_OP_cat, x, y);
        return FB_NONE;
    }
    for (int i = 0; i < x->n_dims; i++)
        shape[i] = x->shape[i] + (i == dim ? y->shape[i] : 0);
    if (!fb_ops_shape(ops, FB_OP_cat, &call.out, x->dtype, x->n_dims, shape))
        return FB_NONE;
    call.in[0] = *x;
    call.in[1] = *y;
    call.dim = dim;
    return fb_ops_compute(ops, FB_OP_cat, &call, 0);
}

fb_tensor fb_transpose(fb_ops *ops, fb_tensor a, int dim0, int dim1)
{
    const fb_array *x = fb_ops_look(ops, FB_OP_transpose, a);
    fb_call call = {0};

    if (x == NULL || !fix_dim(ops, FB_OP_transpose, x, &dim0) ||
        !fix_dim(ops, FB_OP_transpose, x, &dim1))
        return FB_NONE;
    if (x->weight != 0) {
        fb_ops_broken(ops, FB_OP_transpose, "a weight is for fb_linear only");
        return FB_NONE;
    }
    call.dim = dim0 < dim1 ? dim0 : dim1;
    call.dim1 = dim0 < dim1 ? dim1 : dim0;
    call.in[0] = call.out = *x;
    call.out.persists = false;
    call.out.shape[dim0] = x->shape[dim1];
    call.out.shape[dim1] = x->shape[dim0];
    return fb_ops_compute(ops, FB_OP_transpose, &call, 0);
}

/* --- element by element */

/* The shape that two shapes have in common under PyTorch's broadcasting. */
static bool broadcast(const fb_array *a, const fb_array *b, fb_array *out)
{
    const int n = a->n_dims > b->n_dims ? a->n_dims : b->n_dims;

    *out = (fb_array){.dtype = FB_F32, .n_dims = n};
    for (int i = 1; i <= n; i++) {
        const int64_t x = i <= a->n_dims ? a->shape[a->n_dims - i] : 1;
        const int64_t y = i <= b->n_dims ? b->shape[b->n_dims - i] : 1;

        if (x != y && x != 1 && y != 1) return false;
        out->shape[n - i] = x == 1 ? y : x;
    }
    return true;
}

static fb_tensor binary(fb_ops *ops, enum fb_op op, fb_tensor a, fb_tensor b,
                        double alpha)
{
    const fb_array *x = fb_ops_floats(ops, op, a), *y = fb_ops_floats(ops, op, b);
    fb_call call = {.alpha = alpha};

    if (x == NULL || y == NULL) return FB_NONE;
    call.in[0] = *x;
    call.in[1] = *y;
    if (!broadcast(x, y, &call.out)) {
        refuse_shapes(ops, op, x, y);
        return FB_NONE;
    }
    return fb_ops_compute(ops, op, &call, elements(&call.out));
}

static fb_tensor unary(fb_ops *ops, enum fb_op op, fb_tensor a, double alpha)
{
    const fb_array *x = fb_ops_floats(ops, op, a);
    fb_call call = {.alpha = alpha};

    if (x == NULL) return FB_NONE;
    call.in[0] = call.out = *x;
    call.out.persists = false;
    return fb_ops_compute(ops, op, &call, elements(x));
}

fb_tensor fb_add(fb_ops *ops, fb_tensor a, fb_tensor b, double alpha)
{
    return binary(ops, FB_OP_add, a, b, alpha);
}

fb_tensor fb_mul(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    return binary(ops, FB_OP_mul, a, b, 0);
}

fb_tensor fb_div(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    return binary(ops, FB_OP_div, a, b, 0);
}

fb_tensor fb_maximum(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    return binary(ops, FB_OP_maximum, a, b, 0);
}

fb_tensor fb_less(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    return binary(ops, FB_OP_less, a, b, 0);
}

fb_tensor fb_where(fb_ops *ops, fb_tensor mask, fb_tensor a, fb_tensor b)
{
    const fb_array *m = fb_ops_floats(ops, FB_OP_where, mask);
    const fb_array *x = fb_ops_floats(ops, FB_OP_where, a);
    const fb_array *y = fb_ops_floats(ops, FB_OP_where, b);
    fb_call call = {0};
    fb_array both;

    if (m == NULL || x == NULL || y == NULL) return FB_NONE;
    call.in[0] = *m;
    call.in[1] = *x;
    call.in[2] = *y;
    if (!broadcast(x, y, &both)) {
        refuse_shapes(ops, FB_OP_where, x, y);
        return FB_NONE;
    }
    if (!broadcast(m, &both, &call.out)) {
        refuse_shapes(ops, FB_OP_where, m, &both);
        return FB_NONE;
    }
    return fb_ops_compute(ops, FB_OP_where, &call, elements(&call.out));
}

fb_tensor fb_scale(fb_ops *ops, fb_tensor a, double factor)
{
    return unary(ops, FB_OP_scale, a, factor);
}

fb_tensor fb_sqrt(fb_ops *ops, fb_tensor a)
{
    return unary(ops, FB_OP_sqrt, a, 0);
}

fb_tensor fb_exp(fb_ops *ops, fb_tensor a)
{
    return unary(ops, FB_OP_exp, a, 0);
}

fb_tensor fb_log(fb_ops *ops, fb_tensor a)
{
    return unary(ops, FB_OP_log, a, 0);
}

fb_tensor fb_abs(fb_ops *ops, fb_tensor a)
{
    return unary(ops, FB_OP_abs, a, 0);
}

/* --- reductions */

static fb_tensor reduction(fb_ops *ops, enum fb_op op, fb_tensor a, int dim)
{
    const fb_array *x = fb_ops_floats(ops, op, a);
    fb_call call = {0};

    if (x == NULL || !fix_dim(ops, op, x, &dim)) return FB_NONE;
    if (op == FB_OP_amax && x->shape[dim] == 0) {
        fb_ops_broken(ops, op, "the largest of no elements is not defined");
        return FB_NONE;
    }
    call.in[0] = *x;
    call.dim = dim;
    call.out = (fb_array){.dtype = FB_F32, .n_dims = x->n_dims - 1};
    for (int i = 0; i < call.out.n_dims; i++)
        call.out.shape[i] = x->shape[i < dim ? i : i + 1];
    return fb_ops_compute(ops, op, &call, elements(x));
}

fb_tensor fb_sum(fb_ops *ops, fb_tensor a, int dim)
{
    return reduction(ops, FB_OP_sum, a, dim);
}

fb_tensor fb_mean(fb_ops *ops, fb_tensor a, int dim)
{
    return reduction(ops, FB_OP_mean, a, dim);
}

fb_tensor fb_var(fb_ops *ops, fb_tensor a, int dim)
{
    return reduction(ops, FB_OP_var, a, dim);
}

fb_tensor fb_amax(fb_ops *ops, fb_tensor a, int dim)
{
    return reduction(ops, FB_OP_amax, a, dim);
}

/* --- the last dimension */

fb_tensor fb_softmax(fb_ops *ops, fb_tensor a)
{
    const fb_array *x = fb_ops_floats(ops, FB_OP_softmax, a);

    if (x == NULL || !last_dim(ops, FB_OP_softmax, x)) return FB_NONE;
    return unary(ops, FB_OP_softmax, a, 0);
}

fb_tensor fb_cumsum(fb_ops *ops, fb_tensor a)
{
    const fb_array *x = fb_ops_floats(ops, FB_OP_cumsum, a);

    if (x == NULL || !last_dim(ops, FB_OP_cumsum, x)) return FB_NONE;
    return unary(ops, FB_OP_cumsum, a, 0);
}

static fb_tensor pool(fb_ops *ops, enum fb_op op, fb_tensor a, int64_t kernel)
{
    const fb_array *x = fb_ops_floats(ops, op, a);
    fb_call call = {.kernel = kernel};

    if (x == NULL || !last_dim(ops, op, x)) return FB_NONE;
    if (kernel < 1 || kernel % 2 == 0) {
        fb_ops_broken(ops, op, "kernel %lld; an odd number is needed",
                      (long long)kernel);
        return FB_NONE;
    }
    call.in[0] = call.out = *x;
    call.out.persists = false;
    return fb_ops_compute(ops, op, &call, elements(x) * (double)kernel);
}

fb_tensor fb_avg_pool1d(fb_ops *ops, fb_tensor a, int64_t kernel)
{
    return pool(ops, FB_OP_avg_pool1d, a, kernel);
}

fb_tensor fb_max_pool1d(fb_ops *ops, fb_tensor a, int64_t kernel)
{
    return pool(ops, FB_OP_max_pool1d, a, kernel);
}

/* --- products and choosing */

fb_tensor fb_bmm(fb_ops *ops, fb_tensor a, bool transpose_a, fb_tensor b,
                 bool transpose_b)
{
    const fb_array *x = fb_ops_floats(ops, FB_OP_bmm, a);
    const fb_array *y = fb_ops_floats(ops, FB_OP_bmm, b);
    fb_call call = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    int64_t k;

    if (x == NULL || y == NULL) return FB_NONE;
    if (x->n_dims != 3 || y->n_dims != 3 || x->shape[0] != y->shape[0] ||
        x->shape[transpose_a ? 1 : 2] != y->shape[transpose_b ? 2 : 1]) {
        refuse_shapes(ops, FB_OP_bmm, x, y);
        return FB_NONE;
    }
    k = x->shape[transpose_a ? 1 : 2];
    call.in[0] = *x;
    call.in[1] = *y;
    call.out = (fb_array){.dtype = FB_F32, .n_dims = 3};
    call.out.shape[0] = x->shape[0];
    call.out.shape[1] = x->shape[transpose_a ? 2 : 1];
    call.out.shape[2] = y->shape[transpose_b ? 1 : 2];
    return fb_ops_compute(ops, FB_OP_bmm, &call, elements(&call.out) * (double)k);
}

/* (d^3 - d) / 6 multiply-adds for the triangle of a matrix, d^2 for each column. */
fb_tensor fb_cholesky_solve(fb_ops *ops, fb_tensor m, fb_tensor x)
{
    const fb_array *a = fb_ops_floats(ops, FB_OP_cholesky_solve, m);
    const fb_array *b = fb_ops_floats(ops, FB_OP_cholesky_solve, x);
    fb_call call = {0};
    double batch, d;

    if (a == NULL || b == NULL) return FB_NONE;
    if (a->n_dims != 3 || b->n_dims != 3 || a->shape[0] != b->shape[0] ||
        a->shape[1] != a->shape[2] || a->shape[1] != b->shape[1]) {
        refuse_shapes(ops, FB_OP_cholesky_solve, a, b);
        return FB_NONE;
    }
    batch = (double)a->shape[0];
    d = (double)a->shape[1];
    call.in[0] = *a;
    call.in[1] = call.out = *b;
    call.out.persists = false;
    return fb_ops_compute(ops, FB_OP_cholesky_solve, &call,
                          batch * (d * d * d - d) / 6 + elements(b) * d);
}

fb_tensor fb_topk(fb_ops *ops, fb_tensor a, int64_t k)
{
    const fb_array *x = fb_ops_floats(ops, FB_OP_topk, a);
    fb_call call = {0};

    if (x == NULL || !last_dim(ops, FB_OP_topk, x)) return FB_NONE;
    if (k < 0 || k > x->shape[x->n_dims - 1] || x->shape[x->n_dims - 1] > INT32_MAX) {
        fb_ops_broken(ops, FB_OP_topk, "%lld of %lld elements", (long long)k,
                      (long long)x->shape[x->n_dims - 1]);
        return FB_NONE;
    }
    call.in[0] = call.out = *x;
    call.out.dtype = FB_I64;
    call.out.persists = false;
    call.out.shape[x->n_dims - 1] = k;
    return fb_ops_compute(ops, FB_OP_topk, &call, elements(x));
}

fb_tensor fb_rank(fb_ops *ops, fb_tensor a)
{
    const fb_array *x = fb_ops_floats(ops, FB_OP_rank, a);

    if (x == NULL || !last_dim(ops, FB_OP_rank, x)) return FB_NONE;
    if (x->shape[x->n_dims - 1] > MOST_RANKED) {
        fb_ops_broken(ops, FB_OP_rank, "%lld elements; f32 numbers %d places",
                      (long long)x->shape[x->n_dims - 1], MOST_RANKED);
        return FB_NONE;
    }
    return unary(ops, FB_OP_rank, a, 0);
}

fb_tensor fb_gather(fb_ops *ops, fb_tensor a, fb_tensor index)
{
    const fb_array *x = fb_ops_look(ops, FB_OP_gather, a);
    const fb_array *at = fb_ops_look(ops, FB_OP_gather, index);
    fb_call call = {0};

    if (x == NULL || at == NULL || !last_dim(ops, FB_OP_gather, x)) return FB_NONE;
    if (x->weight != 0 || at->dtype != FB_I64) {
        fb_ops_broken(ops, FB_OP_gather, "picks by i64 positions from plain tensors");
        return FB_NONE;
    }
    if (!same_but(x, at, x->n_dims - 1)) {
        refuse_shapes(ops, FB_OP_gather, x, at);
        return FB_NONE;
    }
    call.in[0] = *x;
    call.in[1] = call.out = *at;
    call.out.dtype = x->dtype;
    call.out.persists = false;
    return fb_ops_compute(ops, FB_OP_gather, &call, elements(at));
}
