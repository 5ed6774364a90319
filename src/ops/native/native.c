/* native.c - the built-in backend: plain C with threads, the same bits on every CPU.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"
#include "ops/native/poison.h"

#include <string.h>

/* Elements below which waking the other threads costs more than it saves. */
#define WORTH_SHARING 16384.0

/* --- opening and closing */

static void close_native(void *self)
{
    fb_native *native = self;

    if (native == NULL) return;
    for (int i = 0; native->scratch != NULL && i < native->n_threads; i++)
        fb_free(native->scratch[i].bytes);
    fb_free(native->scratch);
    fb_stack_clear(&native->stack);
    fb_threads_free(native->threads);
    fb_free(native);
}

static fb_status open_parts(fb_native *native, const fb_ops_options *options)
{
    FB_TRY(fb_native_isa(&native->isa, options->isa));
    FB_TRY(fb_threads_new(&native->threads, options->threads));
    native->n_threads = fb_threads_count(native->threads);
    native->scratch = fb_zalloc(FB_ACCOUNT_other,
                                (size_t)native->n_threads * sizeof *native->scratch);
    if (native->scratch == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for %d threads", native->n_threads);
    return FB_OK;
}

static fb_status open_native(void **self, const fb_ops_options *options)
{
    fb_native *native = fb_zalloc(FB_ACCOUNT_other, sizeof *native);
    fb_status status;

    *self = NULL;
    if (native == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the backend");
    status = open_parts(native, options);
    if (status != FB_OK) {
        close_native(native);
        return status;
    }
    *self = native;
    return FB_OK;
}

static const char *isa_of(const void *self)
{
    return ((const fb_native *)self)->isa->name;
}

static fb_threads *threads_of(const void *self)
{
    return ((const fb_native *)self)->threads;
}

/* --- memory */

static size_t bytes_of(const fb_array *array)
{
    return (size_t)fb_array_elements(array) * fb_dtype_bytes(array->dtype);
}

static fb_status no_memory(size_t bytes)
{
    return fb_fail(FB_NO_MEMORY, "no memory for a tensor of %zu bytes", bytes);
}

static fb_status alloc(void *self, fb_account account, fb_array *array)
{
    const size_t bytes = bytes_of(array);

    (void)self;
    array->storage = fb_alloc(account, bytes);
    array->offset = 0;
    if (array->storage == NULL) return no_memory(bytes);
    fb_native_poison(array->storage, bytes);
    return FB_OK;
}

static void free_array(void *self, const fb_array *array)
{
    (void)self;
    if (array->weight != 0) {
        fb_native_weight_free((fb_native_weight *)(void *)array->storage);
        return;
    }
    fb_native_poison(array->storage, bytes_of(array));
    fb_free(array->storage);
}

static fb_status take(void *self, fb_array *array)
{
    fb_native *native = self;

    array->storage = fb_stack_take(&native->stack, bytes_of(array));
    array->offset = 0;
    return array->storage == NULL ? no_memory(bytes_of(array)) : FB_OK;
}

static size_t mark(const void *self)
{
    return fb_stack_mark(&((const fb_native *)self)->stack);
}

static void cut(void *self, size_t to)
{
    fb_stack_cut(&((fb_native *)self)->stack, to);
}

/* What was dropped is still there, and the new place is not above the old one. */
static fb_status lift(void *self, size_t to, fb_array *array)
{
    const fb_array old = *array;
    const size_t size = fb_dtype_bytes(array->dtype);

    cut(self, to);
    FB_TRY(take(self, array));
    memmove(array->storage, (const char *)old.storage + (size_t)old.offset * size,
            bytes_of(array));
    return FB_OK;
}

fb_status fb_native_reserve(fb_native *native, size_t bytes)
{
    for (int i = 0; i < native->n_threads; i++) {
        struct fb_native_scratch *scratch = &native->scratch[i];

        if (scratch->size >= bytes) continue;
        fb_free(scratch->bytes);
        scratch->size = 0;
        scratch->bytes = fb_alloc(FB_ACCOUNT_scratch, bytes);
        if (scratch->bytes == NULL) return no_memory(bytes);
        scratch->size = bytes;
    }
    return FB_OK;
}

void fb_native_loop(fb_native *native, int64_t n, double work, fb_loop *body,
                    void *context)
{
    if (n <= 0) return;
    if (work < WORTH_SHARING)
        body(context, 0, n, 0);
    else
        fb_parallel(native->threads, n, body, context);
}

int64_t fb_columns_of(const fb_array *array)
{
    return array->n_dims == 0 ? 1 : array->shape[array->n_dims - 1];
}

int64_t fb_rows_of(const fb_array *array)
{
    int64_t rows = 1;

    for (int i = 0; i < array->n_dims - 1; i++)
        rows *= array->shape[i];
    return rows;
}

/* --- the backend */

static fb_kernel *const kernels[FB_OP_COUNT] = {
    [FB_OP_from_host] = fb_native_from_host,
    [FB_OP_to_host] = fb_native_to_host,
    [FB_OP_full] = fb_native_full,
    [FB_OP_narrow] = fb_native_narrow,
    [FB_OP_cat] = fb_native_cat,
    [FB_OP_transpose] = fb_native_transpose,
    [FB_OP_add] = fb_native_add,
    [FB_OP_mul] = fb_native_mul,
    [FB_OP_div] = fb_native_div,
    [FB_OP_maximum] = fb_native_maximum,
    [FB_OP_less] = fb_native_less,
    [FB_OP_where] = fb_native_where,
    [FB_OP_scale] = fb_native_scale,
    [FB_OP_sqrt] = fb_native_sqrt,
    [FB_OP_exp] = fb_native_exp,
    [FB_OP_log] = fb_native_log,
    [FB_OP_abs] = fb_native_abs,
    [FB_OP_sum] = fb_native_sum,
    [FB_OP_mean] = fb_native_mean,
    [FB_OP_var] = fb_native_var,
    [FB_OP_amax] = fb_native_amax,
    [FB_OP_softmax] = fb_native_softmax,
    [FB_OP_cumsum] = fb_native_cumsum,
    [FB_OP_avg_pool1d] = fb_native_avg_pool1d,
    [FB_OP_max_pool1d] = fb_native_max_pool1d,
    [FB_OP_bmm] = fb_native_bmm,
    [FB_OP_cholesky_solve] = fb_native_cholesky_solve,
    [FB_OP_topk] = fb_native_topk,
    [FB_OP_rank] = fb_native_rank,
    [FB_OP_gather] = fb_native_gather,
    [FB_OP_embedding] = fb_native_embedding,
    [FB_OP_linear] = fb_native_linear,
    [FB_OP_rms_norm] = fb_native_rms_norm,
    [FB_OP_rotary] = fb_native_rotary,
    [FB_OP_head_norm_] = fb_native_head_norm_,
    [FB_OP_swiglu] = fb_native_swiglu,
    [FB_OP_geglu] = fb_native_geglu,
    [FB_OP_add_] = fb_native_add_,
    [FB_OP_kv_write] = fb_native_kv_write,
    [FB_OP_kv_copy] = fb_native_kv_copy,
    [FB_OP_kv_turn] = fb_native_kv_turn,
    [FB_OP_kv_read] = fb_native_kv_read,
    [FB_OP_attention] = fb_native_attention,
    [FB_OP_attention_sum] = fb_native_attention,
    [FB_OP_attention_rows] = fb_native_attention,
    [FB_OP_argmax] = fb_native_argmax,
    [FB_OP_nll] = fb_native_nll,
    [FB_OP_kl] = fb_native_kl,
};

const fb_backend fb_backend_native = {
    .name = "native",
    .is_exact = true,
    .open = open_native,
    .close = close_native,
    .isa = isa_of,
    .threads = threads_of,
    .alloc = alloc,
    .free = free_array,
    .take = take,
    .mark = mark,
    .cut = cut,
    .lift = lift,
    .weight = fb_native_weight_new,
    .kernels = kernels,
};
