/* op.h - tensors and operators: the only maths a model or a rule may use.
 *
 * A tensor is a handle on up to four dimensions of f32, f64 or i64, row-major and
 * contiguous, on one backend. Nobody but the backend sees its memory. An operator takes
 * handles and returns a new handle; the first failure is kept in the context, every
 * later call then returns FB_NONE, and the caller asks once with fb_ops_status(). So a
 * formula reads like a formula.
 *
 * Every operator is named after the core PyTorch (ATen) operator that defines its
 * meaning; src/ops/list.h has them all, with the work that the ledger charges for each.
 *
 * Results live until the scope that was open when they were made is closed. A rule
 * needs no scope of its own: the engine opens one around every call.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FLEXBUDGET_OP_H
#define FLEXBUDGET_OP_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default) /* as in error.h */

enum { FB_MAX_DIMS = 4 };
enum { FB_MAX_KV_HEADS = 512 }; /* of a layer: what arrays on the stack have room for */

/* A backend, its scopes, its ledger and its first failure. */
typedef struct fb_ops fb_ops;

typedef struct fb_tensor {
    int32_t id;
} fb_tensor;

#define FB_NONE ((fb_tensor){0})

/* Types of elements. f16 and bf16 are for keys and values in a cache: a tensor that is
 * read from one is f32. */
typedef enum fb_dtype { FB_F32, FB_F64, FB_I64, FB_F16, FB_BF16 } fb_dtype;

/* FB_OK, or the first failure since the context was opened or last reset. */
fb_status fb_ops_status(const fb_ops *ops);

/* Shape: number of dimensions, size of dimension `dim` (negative counts from the
 * end). */
int fb_n_dims(const fb_ops *ops, fb_tensor a);
int64_t fb_size(const fb_ops *ops, fb_tensor a, int dim);

/* A tensor of `n_dims` sizes `shape` with a copy of host memory in it (row-major). */
fb_tensor fb_from_host(fb_ops *ops, fb_dtype dtype, int n_dims, const int64_t *shape,
                       const void *data);
/* All elements equal to `value`: aten::full. */
fb_tensor fb_full(fb_ops *ops, int n_dims, const int64_t *shape, double value);

/* --- shape --- */
/* The same elements under another shape; no copy. */
fb_tensor fb_reshape(fb_ops *ops, fb_tensor a, int n_dims, const int64_t *shape);
/* Elements [start, start + length) of dimension `dim`; a view for dim 0, else a
 * copy. */
fb_tensor fb_narrow(fb_ops *ops, fb_tensor a, int dim, int64_t start, int64_t length);
/* b behind a in dimension `dim`; all other sizes are the same, and the type. A copy. */
fb_tensor fb_cat(fb_ops *ops, fb_tensor a, fb_tensor b, int dim);
/* A copy with two dimensions exchanged. */
fb_tensor fb_transpose(fb_ops *ops, fb_tensor a, int dim0, int dim1);

/* --- element by element ---
 * Shapes are aligned at the right; a missing or 1-sized dimension of either operand is
 * repeated (PyTorch's broadcasting). */
fb_tensor fb_add(fb_ops *ops, fb_tensor a, fb_tensor b,
                 double alpha); /* a + alpha * b */
fb_tensor fb_mul(fb_ops *ops, fb_tensor a, fb_tensor b);
fb_tensor fb_div(fb_ops *ops, fb_tensor a, fb_tensor b);
fb_tensor fb_maximum(fb_ops *ops, fb_tensor a, fb_tensor b); /* NaN if either is */
fb_tensor fb_less(fb_ops *ops, fb_tensor a, fb_tensor b);    /* 1 where a < b, else 0 */
/* a where mask is not 0 (NaN is not), else b. What is not taken does not matter, be it
 * infinite or NaN. */
fb_tensor fb_where(fb_ops *ops, fb_tensor mask, fb_tensor a, fb_tensor b);
fb_tensor fb_scale(fb_ops *ops, fb_tensor a, double factor); /* aten::mul by a 0-dim */
fb_tensor fb_sqrt(fb_ops *ops, fb_tensor a);
fb_tensor fb_exp(fb_ops *ops, fb_tensor a);
fb_tensor fb_log(fb_ops *ops, fb_tensor a);
fb_tensor fb_abs(fb_ops *ops, fb_tensor a);

/* --- reductions over dimension `dim`, which disappears --- */
fb_tensor fb_sum(fb_ops *ops, fb_tensor a, int dim);
fb_tensor fb_mean(fb_ops *ops, fb_tensor a, int dim);
fb_tensor fb_var(fb_ops *ops, fb_tensor a, int dim); /* divisor N - 1; 0 for N = 1 */
fb_tensor fb_amax(fb_ops *ops, fb_tensor a, int dim);

/* --- over the last dimension --- */
fb_tensor fb_softmax(fb_ops *ops, fb_tensor a);
/* Element i: a[0] + ... + a[i]; natively one after the other, in f32. */
fb_tensor fb_cumsum(fb_ops *ops, fb_tensor a);
/* Stride 1, odd `kernel`, zero padding kernel/2 that counts in the divisor. */
fb_tensor fb_avg_pool1d(fb_ops *ops, fb_tensor a, int64_t kernel);
/* Stride 1, odd `kernel`, padding -inf. */
fb_tensor fb_max_pool1d(fb_ops *ops, fb_tensor a, int64_t kernel);

/* --- products --- */
/* a [B, M, K] (or [B, K, M] if `transpose_a`) times b [B, K, N] (or [B, N, K]): [B, M,
 * N].
 */
fb_tensor fb_bmm(fb_ops *ops, fb_tensor a, bool transpose_a, fb_tensor b,
                 bool transpose_b);

/* m^-1 x for m [B, d, d] symmetric and positive definite, of which the lower triangle is
 * read, and x [B, d, n]: [B, d, n]. A matrix that is not positive definite is a
 * failure. */
fb_tensor fb_cholesky_solve(fb_ops *ops, fb_tensor m, fb_tensor x);

/* --- choosing --- */
/* Positions (i64) of the `k` largest of each row of the last dimension, best first;
 * equal values: lower position first; -0 equals +0. NaN is a failure. */
fb_tensor fb_topk(fb_ops *ops, fb_tensor a, int64_t k);
/* The place (f32, 0 is the first) of each element in its row of the last dimension, in
 * the order of fb_topk; at most 2^24 of a row. */
fb_tensor fb_rank(fb_ops *ops, fb_tensor a);
/* Elements of the last dimension picked by `index` (i64), same leading dimensions. */
fb_tensor fb_gather(fb_ops *ops, fb_tensor a, fb_tensor index);

#pragma GCC visibility pop

#endif
