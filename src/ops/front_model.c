/* front_model.c - the front doors of what a model and the measures of answers need.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/context.h"

/* A tensor of two dimensions, plain f32; columns < 0: any number. */
static const fb_array *matrix(fb_ops *ops, enum fb_op op, fb_tensor a, int64_t columns)
{
    const fb_array *x = fb_ops_floats(ops, op, a);

    if (x == NULL) return NULL;
    if (x->n_dims == 2 && (columns < 0 || x->shape[1] == columns)) return x;
    if (columns < 0)
        fb_ops_broken(ops, op, "takes a matrix, not a tensor of %d dimensions",
                      x->n_dims);
    else
        fb_ops_broken(ops, op, "takes a matrix of %lld columns, not %lld",
                      (long long)columns, (long long)fb_size(ops, a, -1));
    return NULL;
}

static const fb_array *weight(fb_ops *ops, enum fb_op op, fb_tensor a)
{
    const fb_array *x = fb_ops_look(ops, op, a);

    if (x == NULL || x->weight != 0) return x;
    fb_ops_broken(ops, op, "takes a weight made by fb_weight");
    return NULL;
}

static double elements(const fb_array *array)
{
    return (double)fb_array_elements(array);
}

static bool all_below(fb_ops *ops, enum fb_op op, const int32_t *ids, int64_t n,
                      int64_t limit)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= limit) {
            fb_ops_broken(ops, op, "number %d at place %lld; 0 to %lld are there",
                          (int)ids[i], (long long)i, (long long)limit - 1);
            return false;
        }
    return true;
}

fb_tensor fb_embedding(fb_ops *ops, fb_tensor table, const int32_t *ids, int64_t n)
{
    const fb_array *w = weight(ops, FB_OP_embedding, table);
    fb_call call = {.ids = ids};

    if (w == NULL || !all_below(ops, FB_OP_embedding, ids, n, w->shape[0]))
        return FB_NONE;
    if (!fb_ops_shape(ops, FB_OP_embedding, &call.out, FB_F32, 2,
                      (const int64_t[]){n, w->shape[1]}))
        return FB_NONE;
    call.in[0] = *w;
    return fb_ops_compute(ops, FB_OP_embedding, &call, 0);
}

/* Of answers, whose number differs from run to run. */
static bool is_batch(const fb_ops *ops)
{
    return ops->place.phase == FB_PHASE_answer || ops->place.phase == FB_PHASE_decode;
}

fb_tensor fb_linear(fb_ops *ops, fb_tensor x, fb_tensor w)
{
    const fb_array *rows = weight(ops, FB_OP_linear, w), *input;
    fb_call call = {.is_batch = is_batch(ops)};

    if (rows == NULL) return FB_NONE;
    input = matrix(ops, FB_OP_linear, x, rows->shape[1]);
    if (input == NULL) return FB_NONE;
    call.in[0] = *input;
    call.in[1] = *rows;
    call.out = (fb_array){.dtype = FB_F32, .n_dims = 2};
    call.out.shape[0] = input->shape[0];
    call.out.shape[1] = rows->shape[0];
    return fb_ops_compute(ops, FB_OP_linear, &call,
                          elements(input) * (double)rows->shape[0]);
}

fb_tensor fb_rms_norm(fb_ops *ops, fb_tensor x, fb_tensor w, double eps)
{
    const fb_array *input = matrix(ops, FB_OP_rms_norm, x, -1);
    const fb_array *factor = fb_ops_floats(ops, FB_OP_rms_norm, w);
    fb_call call = {.alpha = eps};

    if (input == NULL || factor == NULL) return FB_NONE;
    if (factor->n_dims != 1 || factor->shape[0] != input->shape[1]) {
        fb_ops_broken(ops, FB_OP_rms_norm, "%lld columns, but %.0f weights",
                      (long long)input->shape[1], elements(factor));
        return FB_NONE;
    }
    call.in[0] = call.out = *input;
    call.in[1] = *factor;
    call.out.persists = false;
    return fb_ops_compute(ops, FB_OP_rms_norm, &call, elements(input));
}

void fb_head_norm_(fb_ops *ops, fb_tensor x, int64_t first, int64_t n_heads,
                   fb_tensor w, double eps)
{
    const fb_array *input = matrix(ops, FB_OP_head_norm_, x, -1);
    const fb_array *factor = fb_ops_floats(ops, FB_OP_head_norm_, w);
    fb_call call = {.alpha = eps, .start = first, .heads = n_heads};

    if (input == NULL || factor == NULL) return;
    call.head_dim = factor->shape[0];
    if (factor->n_dims != 1 || first < 0 || n_heads < 0 || call.head_dim < 1 ||
        first > input->shape[1] / call.head_dim ||
        n_heads > input->shape[1] / call.head_dim - first) {
        fb_ops_broken(ops, FB_OP_head_norm_,
                      "heads %lld to %lld of %.0f in %lld columns", (long long)first,
                      (long long)first + (long long)n_heads, elements(factor),
                      (long long)input->shape[1]);
        return;
    }
    call.in[0] = call.out = *input;
    call.in[1] = *factor;
    (void)fb_ops_run(ops, FB_OP_head_norm_, &call,
                     (double)input->shape[0] * (double)(n_heads * call.head_dim));
}

void fb_add_(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    const fb_array *x = fb_ops_floats(ops, FB_OP_add_, a);
    const fb_array *y = fb_ops_floats(ops, FB_OP_add_, b);
    fb_call call = {0};
    bool same, is_row;

    if (x == NULL || y == NULL) return;
    same = x->n_dims == y->n_dims;
    for (int i = 0; same && i < x->n_dims; i++)
        same = x->shape[i] == y->shape[i];
    is_row = x->n_dims > 0 && y->n_dims == 1 && y->shape[0] == x->shape[x->n_dims - 1];
    if (!same && !is_row) {
        fb_ops_broken(ops, FB_OP_add_, "takes two tensors of one shape, or a row");
        return;
    }
    call.in[0] = call.out = *x;
    call.in[1] = *y;
    (void)fb_ops_run(ops, FB_OP_add_, &call, elements(x));
}

/* A gate and what passes it, side by side. */
static fb_tensor gated(fb_ops *ops, enum fb_op op, fb_tensor x)
{
    const fb_array *input = matrix(ops, op, x, -1);
    fb_call call = {.is_batch = is_batch(ops)};

    if (input == NULL) return FB_NONE;
    if (input->shape[1] % 2 != 0) {
        fb_ops_broken(ops, op, "%lld columns; an even number is needed",
                      (long long)input->shape[1]);
        return FB_NONE;
    }
    call.in[0] = call.out = *input;
    call.out.shape[1] /= 2;
    call.out.persists = false;
    return fb_ops_compute(ops, op, &call, elements(&call.out));
}

fb_tensor fb_swiglu(fb_ops *ops, fb_tensor x)
{
    return gated(ops, FB_OP_swiglu, x);
}

fb_tensor fb_geglu(fb_ops *ops, fb_tensor x)
{
    return gated(ops, FB_OP_geglu, x);
}

void fb_rotary(fb_ops *ops, fb_tensor x, int64_t n_heads, int64_t head_dim,
               fb_tensor cosine, fb_tensor sine)
{
    const fb_array *input = matrix(ops, FB_OP_rotary, x, -1);
    const fb_array *c = matrix(ops, FB_OP_rotary, cosine, -1), *s;
    fb_call call = {.heads = n_heads, .head_dim = head_dim};

    if (input == NULL || c == NULL) return;
    s = matrix(ops, FB_OP_rotary, sine, c->shape[1]);
    if (s == NULL) return;
    if (c->shape[1] < 1 || c->shape[1] > head_dim / 2 || n_heads < 0 ||
        n_heads > input->shape[1] / head_dim || c->shape[0] != input->shape[0] ||
        s->shape[0] != input->shape[0]) {
        fb_ops_broken(ops, FB_OP_rotary,
                      "%lld heads of %lld in %lld columns, %lld rows, %lld angles",
                      (long long)n_heads, (long long)head_dim,
                      (long long)input->shape[1], (long long)input->shape[0],
                      (long long)c->shape[0]);
        return;
    }
    call.in[0] = call.out = *input;
    call.in[1] = *c;
    call.in[2] = *s;
    (void)fb_ops_run(ops, FB_OP_rotary, &call,
                     (double)input->shape[0] * (double)(n_heads * 2 * c->shape[1]));
}

/* --- measures */

fb_status fb_argmax(fb_ops *ops, fb_tensor logits, int32_t *out)
{
    const fb_array *x = matrix(ops, FB_OP_argmax, logits, -1);
    fb_call call = {.host_out = out};

    if (x == NULL) return fb_ops_status(ops);
    if (x->shape[1] < 1 || x->shape[1] > INT32_MAX)
        fb_ops_broken(ops, FB_OP_argmax, "rows of %lld", (long long)x->shape[1]);
    call.in[0] = *x;
    return fb_ops_run(ops, FB_OP_argmax, &call, elements(x));
}

fb_status fb_nll(fb_ops *ops, fb_tensor logits, const int32_t *target, double *out)
{
    const fb_array *x = matrix(ops, FB_OP_nll, logits, -1);
    fb_call call = {.host_out = out, .ids = target};

    if (x == NULL || !all_below(ops, FB_OP_nll, target, x->shape[0], x->shape[1]))
        return fb_ops_status(ops);
    call.in[0] = *x;
    return fb_ops_run(ops, FB_OP_nll, &call, elements(x));
}

fb_status fb_kl(fb_ops *ops, fb_tensor p, fb_tensor q, double *out)
{
    const fb_array *y = matrix(ops, FB_OP_kl, q, -1), *x;
    fb_call call = {.host_out = out};

    if (y == NULL) return fb_ops_status(ops);
    x = matrix(ops, FB_OP_kl, p, y->shape[1]);
    if (x == NULL) return fb_ops_status(ops);
    if (x->shape[0] < 1 || y->shape[1] < 1)
        fb_ops_broken(ops, FB_OP_kl, "nothing to compare with");
    call.in[0] = *x;
    call.in[0].persists = true; /* like a weight: all of the batch read it whole */
    call.in[1] = *y;
    return fb_ops_run(ops, FB_OP_kl, &call, elements(y));
}
