/* ops.h - the operator table as the engine sees it: what op.h has, and what a model
 * needs.
 *
 * Promises: every call is checked (shapes), charged (ledger), traced (hash) and then
 * handed to one kernel of the backend; nothing above this folder sees the memory of a
 * tensor. Native results are the same bits for any batch, thread count and CPU:
 *   - every element of a matrix product is one chain of fused multiply-adds in
 *     ascending k that starts at +0, and `acc + 0.0f` is stored;
 *   - reductions have 16 fixed lanes and a fixed tree, unless a chain is stated;
 *   - elementary functions are our own.
 * Must never: know models, rules, caches, budgets; print; use libm, BLAS, OpenMP.
 *
 * Temporaries live in scopes on one reusable stack: no malloc per token after warm-up.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_OPS_H
#define FB_OPS_OPS_H

#include "base/memory.h"
#include "base/threads.h"
#include "ops/ledger.h"

#include <flexbudget/embed.h>
#include <flexbudget/op.h>

/* --- context --- */

typedef struct fb_ops_options {
    /* NULL or "cpu": the native backend. "torch:cpu", "torch:cuda:0": an installed
     * PyTorch; "torch:cuda:0,cuda:1": the layers of a model split over devices */
    const char *device;
    const char
        *isa;    /* NULL: the best this CPU has; "plain", "avx2", "avx512", "neon" */
    int threads; /* 0: what affinity and cgroup allow */
    /* torch only: the package's directory or a Python interpreter; NULL: see
     * torch/lib.h */
    const char *torch;
    fb_dtype precision; /* torch only: of weights; FB_F32 (0), FB_F16, FB_BF16 */
    /* torch only: products of a batch are computed in one piece. Faster for a few rows,
     * but the last bits of a row then depend on what else is in the batch. */
    bool any_shape;
} fb_ops_options;

FB_MUST_USE fb_status fb_ops_open(fb_ops **out, const fb_ops_options *options);
/* Operators without numbers: every call is checked, charged and traced, and books the
 * memory that the native backend would take on so many threads (0: as there). Nothing is
 * computed or held. What is read back is 0, and of whole numbers 0, 1, 2, .. along the
 * last dimension. */
FB_MUST_USE fb_status fb_ops_open_hollow(fb_ops **out, int threads);
void fb_ops_close(fb_ops *ops); /* takes NULL */
void fb_ops_reset(fb_ops *ops); /* forgets the first failure; closes all scopes */
/* Records a failure made by the caller with fb_fail, as if an operator had failed. */
void fb_ops_refuse(fb_ops *ops, fb_status status);
/* Puts "whose it is: " in front of the sentence of the first failure, if there is one. */
void fb_ops_context(fb_ops *ops, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *fb_ops_backend(const fb_ops *ops); /* "native", "torch" */
/* Which kernels: "avx2"; of torch its version and devices, "2.13.0 on cpu". */
const char *fb_ops_isa(const fb_ops *ops);
/* Whether results are the same bits on every machine, masked or moved, alone or in a
 * batch: the promise of the native backend. Others keep to a tolerance. */
bool fb_ops_is_exact(const fb_ops *ops);
/* Not of fb_ops_open_hollow: whoever fills host memory to hand it over need not. */
bool fb_ops_has_numbers(const fb_ops *ops);
fb_threads *fb_ops_threads(const fb_ops *ops); /* lent */

/* --- parts ---
 * A backend with several devices holds a model in as many parts: layer by layer, each with
 * its keys and values on one device. Natively there is one. */

enum { FB_MAX_PARTS = 16 };
int fb_ops_parts(const fb_ops *ops);
/* What is made from now on, of no tensor that is there already, is made on this part. */
void fb_ops_use_part(fb_ops *ops, int part);
/* The part of layer `layer` of `layers`. */
static inline int fb_part_of_layer(const fb_ops *ops, int64_t layer, int64_t layers)
{
    return (int)(layer * fb_ops_parts(ops) / layers);
}

/* Of f32, as what a rule makes has to be. */
bool fb_is_f32(const fb_ops *ops, fb_tensor a);

/* --- lifetimes --- */

void fb_scope_open(fb_ops *ops);
void fb_scope_close(fb_ops *ops);
/* Closes the scope but lifts `a`, made in it, to the scope outside. */
fb_tensor fb_scope_return(fb_ops *ops, fb_tensor a);

/* A copy that lives until fb_release, in memory of its own, charged to `account`. */
fb_tensor fb_persist(fb_ops *ops, fb_account account, fb_tensor a);
/* The same in place of `old` (FB_NONE: of nothing), which is released; before the copy is
 * made where `a` is no part of it, so that there is never room taken for both. */
fb_tensor fb_persist_over(fb_ops *ops, fb_account account, fb_tensor old, fb_tensor a);
/* A persistent tensor, zeroed. */
fb_tensor fb_new(fb_ops *ops, fb_account account, fb_dtype dtype, int n_dims,
                 const int64_t *shape);
void fb_release(fb_ops *ops, fb_tensor a); /* persistent tensors only; takes FB_NONE */

/* Somebody else's tensors [a, b_i, c] side by side: f32 [a, sum of b_i, c]. One alone that
 * is f32 and contiguous is not copied but lent, and must stay until the scope closes. */
fb_tensor fb_borrow(fb_ops *ops, const fb_outside *parts, int n);

/* Copies all elements to host memory of exactly `bytes`. Returns the context's
 * status. */
FB_MUST_USE fb_status fb_to_host(fb_ops *ops, fb_tensor a, void *out, size_t bytes);

/* --- ledger and trace --- */

/* Calls from now on are charged to `ledgers[0 .. n)`, the members of a batch: each pays
 * what it would pay alone. That is 1/n of FLOPs and of the bytes of temporaries, all
 * bytes of an operand that persists (a weight), and its own part of attention. n = 0: to
 * nobody. The array is lent until the next call of this function. */
void fb_ops_charge(fb_ops *ops, fb_ledger *const *ledgers, int n);
/* Sets phase and scope of what follows; returns nothing, nests by saving
 * fb_ops_place. */
typedef struct fb_place {
    fb_phase phase;
    fb_scope scope;
} fb_place;
fb_place fb_ops_place(const fb_ops *ops);
void fb_ops_move(fb_ops *ops, fb_place place);

/* The trace of scopes model and attention since `begin`: operator, attributes, which
 * weight, shapes.
 * The first dimension of activations is divided by `group` (sequences in the batch),
 * the entries of a cache are written `m`: so batches, ragged counts and answer lengths
 * do not enter. */
void fb_trace_begin(fb_ops *ops, int64_t group);
void fb_trace_end(fb_ops *ops,
                  char hex[65]); /* SHA-256 of the trace; "" if none began */

/* --- model --- */

/* What a weight [rows, columns] is made of. Its functions are called from several
 * threads at once, before fb_weight returns for every row at least once. */
typedef struct fb_weight_source {
    int64_t rows, columns;
    /* Writes rows [begin, end) as f32, row-major, to `out`. */
    fb_status (*unpack)(void *context, int64_t begin, int64_t end, float *out);
    /* NULL, or gives the same numbers, to the bit, as f32 products of whole numbers and
     * scales: q [rows][columns] and, for each 32 columns, scale [rows][columns / 32],
     * which half precision has. A backend may then keep these. */
    fb_status (*eights)(void *context, int64_t begin, int64_t end, int8_t *q,
                        float *scale);
    void *context;
    /* `unpack` may be called until the weight is released: a backend need not keep
     * numbers of its own. */
    bool stays;
} fb_weight_source;

/* A weight, for fb_linear and fb_embedding only: the results are the same bits in
 * whatever form it is kept. Persistent; account weights. */
fb_tensor fb_weight(fb_ops *ops, const fb_weight_source *source);
/* Bytes that the native backend keeps for it. */
size_t fb_weight_size(const fb_weight_source *source);

/* Rows `ids[0 .. n)` of a weight: [n, columns]. */
fb_tensor fb_embedding(fb_ops *ops, fb_tensor weight, const int32_t *ids, int64_t n);
/* x [R, K] times the transpose of weight [N, K]: [R, N]. */
fb_tensor fb_linear(fb_ops *ops, fb_tensor x, fb_tensor weight);
/* x [R, D] / sqrt(mean(x^2) + eps) * weight [D]. */
fb_tensor fb_rms_norm(fb_ops *ops, fb_tensor x, fb_tensor weight, double eps);
/* The same, in place, for each of the heads [first, first + n_heads) of x [R, W]: head h
 * is columns h*d .. h*d+d, weight [d]. */
void fb_head_norm_(fb_ops *ops, fb_tensor x, int64_t first, int64_t n_heads,
                   fb_tensor weight, double eps);
/* a += b; b has the shape of a, or is one row of it [D]. `a` may be a view of dimension
 * 0. */
void fb_add_(fb_ops *ops, fb_tensor a, fb_tensor b);
/* x [R, 2F]: silu(x[:, :F]) * x[:, F:], [R, F]. */
fb_tensor fb_swiglu(fb_ops *ops, fb_tensor x);
/* The same with gelu in its tanh form: x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
fb_tensor fb_geglu(fb_ops *ops, fb_tensor x);
/* Rotates, in place, the first r columns of each of the first `n_heads` heads of x [R,
 * W]: head h is columns h*d .. h*d+d, pair i is columns (i, i + r/2) of it; cosine, sine
 * [R, r/2], one row per row of x. */
void fb_rotary(fb_ops *ops, fb_tensor x, int64_t n_heads, int64_t head_dim,
               fb_tensor cosine, fb_tensor sine);

/* --- keys and values ---
 * An fb_kv is a number of *slots*, one allocation of exactly
 * sum(capacity) * 2 * head_dim numbers of f32, f16 or bf16. A slot holds the entries of
 * one kv head of one layer (of one sequence). What is written is rounded to nearest, and
 * everybody reads what was rounded; a number that does not fit the type fails the call.
 * Only src/cache makes one. */

typedef struct fb_kv fb_kv;

FB_MUST_USE fb_status fb_kv_new(fb_kv **out, fb_ops *ops, fb_account account,
                                fb_dtype dtype, int64_t head_dim, int64_t n_slots,
                                const int64_t *capacity);
void fb_kv_free(fb_kv *kv); /* takes NULL; checked builds poison the memory */
size_t fb_kv_bytes(const fb_kv *kv);
int64_t fb_kv_capacity(const fb_kv *kv, int64_t slot);

/* Writes the keys and values of x [V*t, (H + 2G)*d] (q | k | v): token i of sequence v,
 * kv head g goes to entry at[v] + i of slot slot[v*G + g] of kv. */
void fb_kv_write(fb_ops *ops, fb_kv *kv, fb_tensor x, int64_t n_sequences,
                 int64_t heads, int64_t kv_heads, const int64_t *slot,
                 const int64_t *at);
/* Entry j of dst slot becomes entry index[j] of src slot, j < n. Both are of one type. A
 * slot may be copied to itself where `index` ascends: what stays moves to the front. */
void fb_kv_copy(fb_ops *ops, fb_kv *dst, int64_t dst_slot, const fb_kv *src,
                int64_t src_slot, const int32_t *index, int64_t n);
/* Marks what fb_kv_copy would leave behind: hidden [capacity of the slot] becomes 0 for
 * the entries index[0 .. n), 1 for the others. Charged as the copy that it stands for. */
void fb_kv_hide(fb_ops *ops, const fb_kv *kv, int64_t slot, const int32_t *index,
                int64_t n, uint8_t *hidden);
/* Rotates the keys of the first n entries of a slot further, entry j by row j of cosine,
 * sine [n, r/2], as fb_rotary does. */
void fb_kv_turn(fb_ops *ops, fb_kv *kv, int64_t slot, fb_tensor cosine, fb_tensor sine);
/* Keys (or values) of the first m entries of slots [slot, slot + n_slots): [n_slots, m,
 * d].
 */
fb_tensor fb_kv_read(fb_ops *ops, const fb_kv *kv, bool values, int64_t slot,
                     int64_t n_slots, int64_t m);

/* --- attention --- */

/* The first n entries of a slot; `hidden` (n bytes, or NULL): non-zero entries are
 * masked, which gives the very bits of a slot without them, if their values are finite. */
typedef struct fb_part {
    const fb_kv *kv;
    int64_t slot, n;
    const uint8_t *hidden;
    int64_t n_open; /* of the n those that are not hidden; read only where some are */
} fb_part;

/* What one kv head of one sequence attends to: context entries, then the tail, whose
 * last t entries are the queries' own tokens (query i sees the tail up to its own).
 * With no tail (n = 0 and kv NULL) the queries' own tokens are the last t of the
 * context. */
typedef struct fb_segment {
    fb_part context, tail;
} fb_segment;

typedef struct fb_attend {
    fb_tensor x;                /* [V*t, (H + 2G)*d]: q | k | v, rotated */
    const fb_segment *segments; /* [V*G] */
    int64_t n_sequences, heads, kv_heads, head_dim;
    double scale;
    int64_t window; /* a query sees only the last so many of its entries; 0: all. Then
                       nothing is hidden and no signals are made */
    /* Signals: reductions of A = P / l in the moment it exists. V = 1, no hidden
     * entries. Only columns of the context part enter. FB_NONE: not wanted. */
    fb_tensor sum;  /* [H, n]: sum[h, j] += sum_i A[h, i, j], a chain over queries in
                       ascending order (f32 fma of P and 1/l), whatever the chunks */
    fb_tensor rows; /* [H, w, n]: A itself; query i of this call goes to row */
    /* first_row + i, if that is >= 0; columns it does not see are 0 */
    int64_t first_row;
} fb_attend;

/* S = q k^T * scale over what each query sees; P = exp(S - max); l = sum of P, a chain
 * over ascending entries; O = (P V) / l, chains over ascending entries. Query head h
 * reads kv head h / (H / G). Result [V*t, H*d]. */
fb_tensor fb_attention(fb_ops *ops, const fb_attend *call);
/* FLOPs that it is charged for each entry that a query sees; and the part of them that makes
 * A, which is what making it a second time takes. */
double fb_attention_flops(int64_t head_dim);
double fb_attention_again_flops(int64_t head_dim);

/* --- measures --- */

/* Index of the largest of each row of logits [R, N], lowest on ties, to `out` [R]. */
FB_MUST_USE fb_status fb_argmax(fb_ops *ops, fb_tensor logits, int32_t *out);
/* -log softmax(logits)[r, target[r]] in nats, in double, to `out` [R]. */
FB_MUST_USE fb_status fb_nll(fb_ops *ops, fb_tensor logits, const int32_t *target,
                             double *out);
/* KL(softmax(p) || softmax(q)) in nats, in double; row r of q [R, N] is compared with
 * row r % P of p [P, N]; to `out` [R]. Exactly 0 for equal rows. */
FB_MUST_USE fb_status fb_kl(fb_ops *ops, fb_tensor p, fb_tensor q, double *out);

#endif
