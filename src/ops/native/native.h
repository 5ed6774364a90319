/* native.h - what the files of the native backend share.
 *
 * Storage is a plain pointer to the first element. Loops whose speed depends on the
 * CPU's vectors live in isa_*.c, which are compiled once per target; everything else is
 * compiled once. Both give the same bits on every CPU.
 *
 * A product reads a weight [N, K] in panels of 32 rows, [N/32][K][32], the last one
 * filled up with zeros. A slot of `cap` entries has its keys in panels of 32 entries,
 * [cap/32][d][32] and a ragged tail [d][cap % 32], then its values in panels of 32
 * columns, [d/32][cap][32] and a last one [cap][d % 32].
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_NATIVE_H
#define FB_OPS_NATIVE_H

#include "ops/backend.h"
#include "ops/native/isa.h"
#include "ops/stack.h"

#include <stdatomic.h>

enum { FB_PANEL = FB_TILE_PANEL };

struct fb_native_scratch {
    void *bytes;
    size_t size;
};

typedef struct fb_native {
    const fb_isa *isa;
    fb_threads *threads;
    int n_threads;
    fb_stack stack;
    struct fb_native_scratch *scratch; /* [n_threads] */
} fb_native;

/* Memory of each thread's own for one call, at least `bytes`. */
FB_MUST_USE fb_status fb_native_reserve(fb_native *native, size_t bytes);

/* How much a kernel reserves for a call on so many threads; in the file of the kernel. */
typedef size_t fb_native_room(const fb_call *call, int n_threads);
fb_native_room fb_native_linear_room, fb_native_bmm_room, fb_native_solve_room;
fb_native_room fb_native_sort_room, fb_native_attention_room;
fb_native_room fb_native_kv_write_room, fb_native_kv_turn_room, fb_native_kv_read_room;
/* Of the stack, while fb_kl runs. */
fb_native_room fb_native_kl_room;

/* fb_parallel, or the caller alone if all the work is less than waking others costs.
 * `work` counts elements touched, about a nanosecond each. */
void fb_native_loop(fb_native *native, int64_t n, double work, fb_loop *body,
                    void *context);

/* The first failure of a loop's threads, and what it said. */
struct fb_native_failure {
    atomic_bool has_failed;
    fb_status status;
    char sentence[512];
};
void fb_native_note(struct fb_native_failure *failure, fb_status status);
fb_status fb_native_failure_status(const struct fb_native_failure *failure);

/* isa by name, or the best this CPU has for NULL. */
FB_MUST_USE fb_status fb_native_isa(const fb_isa **out, const char *name);

static inline float *fb_floats(const fb_array *array)
{
    return (float *)(void *)array->storage + array->offset;
}

static inline int64_t fb_round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Rows and columns of an array seen as a matrix: the last dimension, and the rest. */
int64_t fb_rows_of(const fb_array *array);
int64_t fb_columns_of(const fb_array *array);

/* A weight in memory (weight.c); the storage of an array that is one. */
typedef struct fb_native_weight {
    enum fb_native_form { FB_IN_FLOATS, FB_IN_EIGHTS, FB_AT_SOURCE } form;
    void *bytes; /* float [N/32][K][32], fb_eight [N/32][K/32], or NULL */
    fb_weight_source source;
} fb_native_weight;

/* In which form it is kept, without its bytes. */
fb_native_weight fb_native_weight_like(const fb_weight_source *source);

static inline const fb_native_weight *fb_native_weight_of(const fb_array *array)
{
    return (const fb_native_weight *)(const void *)array->storage;
}

void fb_native_weight_free(fb_native_weight *weight);
/* Panel p as floats, where it lies or unpacked into `room` of fb_weight_room bytes. */
FB_MUST_USE fb_status fb_weight_panel(const fb_native_weight *weight, const fb_isa *isa,
                                      int64_t p, float *room, const float **out);
size_t fb_weight_room(const fb_native_weight *weight);
/* Panel p as whole numbers; NULL: it is not made of them. */
const fb_eight *fb_weight_eights(const fb_native_weight *weight, int64_t p);

/* The places of a slot's keys and values. */
typedef struct fb_slot {
    char *keys, *values;
    fb_dtype dtype; /* f32, f16 or bf16 */
    size_t size;    /* bytes of a number */
    int64_t capacity, head_dim;
} fb_slot;

fb_slot fb_slot_of(const fb_kv *kv, int64_t slot);
/* Panel p of the keys and the distance of its rows: 32, or less for the ragged one. */
void *fb_key_panel(const fb_slot *slot, int64_t p, int64_t *stride);
void *fb_value_panel(const fb_slot *slot, int64_t p, int64_t *stride);

/* n numbers of a slot's type as floats. */
void fb_floats_of(const fb_isa *isa, fb_dtype dtype, const void *from, float *out,
                  int64_t n);

/* --- kernels, by file */

fb_kernel fb_native_from_host, fb_native_to_host, fb_native_full, fb_native_narrow;
fb_kernel fb_native_cat, fb_native_transpose;
fb_kernel fb_native_add, fb_native_mul, fb_native_div, fb_native_maximum;
fb_kernel fb_native_less, fb_native_where;
fb_kernel fb_native_scale, fb_native_sqrt, fb_native_exp, fb_native_log, fb_native_abs;
fb_kernel fb_native_sum, fb_native_mean, fb_native_var, fb_native_amax;
fb_kernel fb_native_softmax, fb_native_cumsum;
fb_kernel fb_native_avg_pool1d, fb_native_max_pool1d;
fb_kernel fb_native_bmm, fb_native_linear, fb_native_embedding;
fb_kernel fb_native_cholesky_solve;
fb_kernel fb_native_topk, fb_native_rank, fb_native_gather, fb_native_argmax;
fb_kernel fb_native_rms_norm, fb_native_head_norm_, fb_native_rotary, fb_native_swiglu;
fb_kernel fb_native_geglu, fb_native_add_;
fb_kernel fb_native_kv_write, fb_native_kv_copy, fb_native_kv_turn, fb_native_kv_read;
fb_kernel fb_native_attention, fb_native_nll, fb_native_kl;

fb_status fb_native_weight_new(void *self, fb_array *weight,
                               const fb_weight_source *source);

#endif
