/* backend.h - what a device must be able to do: a const struct of function pointers.
 *
 * The front doors (front_*.c) check a call completely, make room for its result, charge
 * and trace it; only then a kernel sees it. So a kernel trusts what it gets and
 * computes, and a second backend is one more struct like this one in a file of its own.
 *
 * Storage is opaque: only the backend that made it knows what an fb_storage points to.
 * Weights and keys and values are storage too, in whatever layout the backend likes; it
 * must only hold to the bytes that ops.h promises for an fb_kv.
 *
 * Temporaries are a stack: `take` makes room on top, `cut` drops everything above a
 * mark, `lift` does the same but saves one array.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_BACKEND_H
#define FB_OPS_BACKEND_H

#include "ops/ops.h"

typedef struct fb_storage fb_storage;

/* A tensor as a backend sees it. `storage` NULL: an argument that was not given. */
typedef struct fb_array {
    fb_storage *storage;
    int64_t offset; /* of the first element, in elements */
    fb_dtype dtype;
    bool persists; /* lives until fb_release: no part of a batch */
    /* Of a weight, [rows, columns] in the backend's own layout: 1 and as many as there were
     * before it, so two models of one context are released newest first. 0: it is none. */
    int32_t weight;
    int n_dims;
    int64_t shape[FB_MAX_DIMS];
} fb_array;

/* Slots of entries, one behind the other: slot s has the elements
 * [first[s] * 2 * head_dim, first[s + 1] * 2 * head_dim) of the storage. */
struct fb_kv {
    fb_ops *ops;
    fb_array array; /* [entries * 2 * head_dim] */
    int64_t head_dim, n_slots;
    int64_t *first; /* [n_slots + 1] entries before each slot */
};

/* A checked call. Which fields an operator uses follows from its front door. */
typedef struct fb_call {
    fb_array out, in[3];
    int dim, dim1;         /* dim1 >= dim: what transpose exchanges it with */
    int64_t start, kernel; /* kernel: of a pool; the window of attention */
    double alpha;          /* factor, value, epsilon, scale */
    bool transpose_a, transpose_b;
    bool is_batch;    /* linear, gates: of answers, whose number differs by run */
    const void *host; /* read from host memory */
    const fb_outside *outside; /* from_host: read from there instead */
    int n_outside;
    void *host_out;     /* written to host memory */
    const int32_t *ids; /* rows, targets, entries */
    int64_t n_sequences, heads, kv_heads, head_dim;
    fb_kv *to;
    const fb_kv *from;
    int64_t to_slot, from_slot;
    const int64_t *slot, *at; /* kv_write */
    bool values;              /* kv_read */
    const fb_attend *attend;  /* attention: in[0] x, in[1] sum, in[2] rows */
} fb_call;

/* Fails only for what the front door cannot see: memory, a device, NaN in the data. */
typedef fb_status fb_kernel(void *self, const fb_call *call);

typedef struct fb_backend {
    const char *name;
    bool is_exact;  /* fb_ops_is_exact */
    bool is_hollow; /* fb_ops_has_numbers: not */
    fb_status (*open)(void **self, const fb_ops_options *options);
    void (*close)(void *self); /* takes NULL */
    const char *(*isa)(const void *self);
    /* Runs every operator once on a few numbers; NULL: there is nothing to find out. */
    fb_status (*check)(fb_ops *ops);
    fb_threads *(*threads)(const void *self);
    /* NULL: there is one part. */
    int (*parts)(const void *self);
    void (*use_part)(void *self, int part);

    /* Memory of an array's own, contents undefined; sets `array->storage`. */
    fb_status (*alloc)(void *self, fb_account account, fb_array *array);
    void (*free)(void *self, const fb_array *array);
    /* The stack of temporaries. */
    fb_status (*take)(void *self, fb_array *array);
    size_t (*mark)(const void *self);
    void (*cut)(void *self, size_t mark);
    fb_status (*lift)(void *self, size_t mark, fb_array *array);
    /* Makes the storage of a weight (alloc has not) in whatever form the backend likes,
     * and sets `weight->storage`. Every number is asked for at least once. */
    fb_status (*weight)(void *self, fb_array *weight, const fb_weight_source *source);
    /* One per enum fb_op, none missing. FB_OP_attention also makes the signals that its
     * call asks for; the entries attention_sum and attention_rows are the same kernel.
     */
    fb_kernel *const *kernels;
} fb_backend;

extern const fb_backend fb_backend_native, fb_backend_torch, fb_backend_shape;

/* fb_ops_open with a backend of the caller's choice (tests). */
FB_MUST_USE fb_status fb_ops_open_backend(fb_ops **out, const fb_backend *backend,
                                          const fb_ops_options *options);

int64_t fb_array_elements(const fb_array *array);
size_t fb_dtype_bytes(fb_dtype dtype);

#endif
