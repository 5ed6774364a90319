/* context.h - what is inside an fb_ops, for the front doors in this folder.
 *
 * A handle names a place in one of two tables, temporaries (positive) or persistent
 * tensors (negative), and the number of times that place was used: a handle kept longer
 * than its tensor is noticed, not read.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_CONTEXT_H
#define FB_OPS_CONTEXT_H

#include "base/hash.h"
#include "ops/backend.h"

enum { FB_MAX_SCOPES = 64, FB_SENTENCE_BYTES = 512 };

struct fb_place_of_tensor {
    fb_array array;
    int32_t id;    /* the handle that may use this place now; 0: none */
    int32_t uses;  /* so many handles had this place */
    int32_t owner; /* temporaries: place that owns the storage; 0: a persistent one */
};

struct fb_tensor_table {
    struct fb_place_of_tensor *places; /* place 0 is never used */
    int32_t n, capacity;
};

struct fb_ops {
    const fb_backend *backend;
    void *self;

    fb_status status; /* the first failure, and its sentence */
    char sentence[FB_SENTENCE_BYTES];

    struct fb_tensor_table temporary, persistent;
    int32_t n_weights; /* that are there */
    struct {
        size_t mark;      /* of the backend's stack */
        int32_t n_before; /* temporaries when it was opened */
    } scopes[FB_MAX_SCOPES];
    int n_scopes;

    fb_place place;
    fb_ledger *const *ledgers;
    int n_ledgers;

    bool is_tracing;
    int64_t trace_group;
    fb_hash trace;
};

/* --- ops.c: failures and handles */

/* Keeps the first failure of the context; returns its status. */
fb_status fb_ops_keep(fb_ops *ops, fb_status status);
/* A call that breaks the rules of its front door: "fb_add: <sentence>". */
void fb_ops_broken(fb_ops *ops, enum fb_op op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The array of a handle, or NULL after recording why not. NULL after any failure. */
const fb_array *fb_ops_look(fb_ops *ops, enum fb_op op, fb_tensor a);
/* As above, and it must be f32 and no weight. */
const fb_array *fb_ops_floats(fb_ops *ops, enum fb_op op, fb_tensor a);
/* A handle for an array whose storage belongs to the temporary or persistent `a`. */
fb_tensor fb_ops_view(fb_ops *ops, fb_tensor a, const fb_array *array);
/* Fills dtype, shape of `array`; false after recording a bad shape. */
bool fb_ops_shape(fb_ops *ops, enum fb_op op, fb_array *array, fb_dtype dtype,
                  int n_dims, const int64_t *shape);

/* Makes room for call->out (shape and dtype are set), then fb_ops_run: the result. */
fb_tensor fb_ops_compute(fb_ops *ops, enum fb_op op, fb_call *call, double units);
/* Charges, traces and runs the kernel; for calls that make no tensor. */
fb_status fb_ops_run(fb_ops *ops, enum fb_op op, const fb_call *call, double units);

/* --- ledger.c */

/* Work of a call: units of list.h, bytes of operands and result. Those of the batch are
 * shared evenly, those `common` to its sequences are paid by each. */
void fb_ops_count(fb_ops *ops, enum fb_op op, double units, double bytes,
                  double common);
/* The part of sequence `v` of `n` in a call that fb_ops_count_call counts as one. */
void fb_ops_count_part(fb_ops *ops, enum fb_op op, int64_t v, int64_t n, fb_scope scope,
                       double units, double bytes);
/* FLOPs of attention that a fused kernel would compute again, for its sums or its rows. */
void fb_ops_count_again(fb_ops *ops, bool sums, double flops);
double fb_array_bytes(const fb_array *array);

/* --- trace.c */

void fb_ops_trace(fb_ops *ops, enum fb_op op, const fb_call *call);

#endif
