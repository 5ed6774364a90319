/* shape.c - the backend without numbers: what a run would be charged, and what it would hold.
 *
 * Front doors check, charge and trace as always, so the ledger is that of a real run.
 * Memory is booked as the native backend would take it, with that backend's own formulas:
 * weights in its forms, the stack of temporaries, and what each of its threads reserves
 * for a call. An array lies nowhere: its storage says only to which account it belongs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

#include <string.h>

typedef struct fb_shape {
    fb_threads *threads; /* one, that of the caller */
    int n_threads;       /* that the native backend would have */
    size_t room;         /* reserved by each of them */
    fb_stack stack;
} fb_shape;

static char places[FB_ACCOUNT_COUNT]; /* addresses alone: one for each account */

/* --- opening and closing --- */

static void close_shape(void *self)
{
    fb_shape *shape = self;

    if (shape == NULL) return;
    fb_memory_drop(FB_ACCOUNT_scratch, (size_t)shape->n_threads * shape->room);
    fb_stack_clear(&shape->stack);
    fb_threads_free(shape->threads);
    fb_free(shape);
}

static fb_status open_shape(void **self, const fb_ops_options *options)
{
    fb_shape *shape = fb_zalloc(FB_ACCOUNT_other, sizeof *shape);
    fb_status status;

    *self = NULL;
    if (shape == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the backend");
    shape->stack.is_hollow = true;
    shape->n_threads = fb_threads_of(options->threads);
    status = fb_threads_new(&shape->threads, 1);
    if (status != FB_OK) {
        close_shape(shape);
        return status;
    }
    *self = shape;
    return FB_OK;
}

static const char *isa_of(const void *self)
{
    (void)self;
    return "none";
}

static fb_threads *threads_of(const void *self)
{
    return ((const fb_shape *)self)->threads;
}

/* --- memory --- */

static size_t bytes_of(const fb_array *array)
{
    return (size_t)fb_array_elements(array) * fb_dtype_bytes(array->dtype);
}

static fb_status alloc(void *self, fb_account account, fb_array *array)
{
    (void)self;
    array->storage = (fb_storage *)(void *)&places[account];
    array->offset = 0;
    fb_memory_add(account, bytes_of(array));
    return FB_OK;
}

static void free_weight(fb_native_weight *weight)
{
    fb_memory_drop(FB_ACCOUNT_weights, fb_weight_size(&weight->source));
    fb_native_weight_free(weight);
}

static void free_array(void *self, const fb_array *array)
{
    const char *place = (const char *)array->storage;

    (void)self;
    if (array->weight != 0)
        free_weight((fb_native_weight *)(void *)array->storage);
    else
        fb_memory_drop((fb_account)(place - places), bytes_of(array));
}

static fb_status take(void *self, fb_array *array)
{
    array->storage = fb_stack_take(&((fb_shape *)self)->stack, bytes_of(array));
    array->offset = 0;
    if (array->storage != NULL) return FB_OK;
    return fb_fail(FB_NO_MEMORY, "no memory for a tensor of %zu bytes",
                   bytes_of(array));
}

static size_t mark(const void *self)
{
    return fb_stack_mark(&((const fb_shape *)self)->stack);
}

static void cut(void *self, size_t to)
{
    fb_stack_cut(&((fb_shape *)self)->stack, to);
}

static fb_status lift(void *self, size_t to, fb_array *array)
{
    cut(self, to);
    return take(self, array);
}

/* As fb_native_reserve. */
static void reserve(fb_shape *shape, size_t room)
{
    const size_t n = (size_t)shape->n_threads;

    if (room <= shape->room) return;
    fb_memory_drop(FB_ACCOUNT_scratch, n * shape->room);
    fb_memory_add(FB_ACCOUNT_scratch, n * room);
    shape->room = room;
}

static fb_status new_weight(void *self, fb_array *array, const fb_weight_source *source)
{
    fb_native_weight *weight = fb_zalloc(FB_ACCOUNT_other, sizeof *weight);

    if (weight == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a weight");
    *weight = fb_native_weight_like(source);
    fb_memory_add(FB_ACCOUNT_weights, fb_weight_size(source));
    reserve(self, fb_weight_room(weight));
    array->storage = (fb_storage *)(void *)weight;
    return FB_OK;
}

/* --- kernels --- */

static fb_status nothing(void *self, const fb_call *call)
{
    (void)self;
    (void)call;
    return FB_OK;
}

static fb_status with_room(fb_shape *shape, const fb_call *call, fb_native_room *room)
{
    reserve(shape, room(call, shape->n_threads));
    return FB_OK;
}

static fb_status linear(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_linear_room);
}

static fb_status bmm(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_bmm_room);
}

static fb_status solve(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_solve_room);
}

static fb_status sort(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_sort_room);
}

static fb_status attention(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_attention_room);
}

static fb_status kv_write(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_kv_write_room);
}

static fb_status kv_turn(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_kv_turn_room);
}

static fb_status kv_read(void *self, const fb_call *call)
{
    return with_room(self, call, fb_native_kv_read_room);
}

/* --- kernels that say something --- */

/* What a top-k "chose" is then a set: no two are the same. */
static fb_status to_host(void *self, const fb_call *call)
{
    const int64_t n = fb_array_elements(&call->in[0]);
    const int64_t columns = fb_columns_of(&call->in[0]);
    int64_t *out = call->host_out;

    (void)self;
    if (n == 0) return FB_OK;
    if (call->in[0].dtype != FB_I64)
        memset(call->host_out, 0, bytes_of(&call->in[0]));
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = i % columns;
    return FB_OK;
}

static fb_status argmax(void *self, const fb_call *call)
{
    (void)self;
    memset(call->host_out, 0, (size_t)call->in[0].shape[0] * sizeof(int32_t));
    return FB_OK;
}

static fb_status nll(void *self, const fb_call *call)
{
    (void)self;
    memset(call->host_out, 0, (size_t)call->in[0].shape[0] * sizeof(double));
    return FB_OK;
}

static fb_status kl(void *self, const fb_call *call)
{
    fb_stack *stack = &((fb_shape *)self)->stack;
    const size_t before = fb_stack_mark(stack);

    if (fb_stack_take(stack, fb_native_kl_room(call, 0)) == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to compare answers");
    fb_stack_cut(stack, before);
    memset(call->host_out, 0, (size_t)call->in[1].shape[0] * sizeof(double));
    return FB_OK;
}

/* --- the backend --- */

static fb_kernel *const kernels[FB_OP_COUNT] = {
    [FB_OP_from_host] = nothing,
    [FB_OP_to_host] = to_host,
    [FB_OP_full] = nothing,
    [FB_OP_narrow] = nothing,
    [FB_OP_cat] = nothing,
    [FB_OP_transpose] = nothing,
    [FB_OP_add] = nothing,
    [FB_OP_mul] = nothing,
    [FB_OP_div] = nothing,
    [FB_OP_maximum] = nothing,
    [FB_OP_less] = nothing,
    [FB_OP_where] = nothing,
    [FB_OP_scale] = nothing,
    [FB_OP_sqrt] = nothing,
    [FB_OP_exp] = nothing,
    [FB_OP_log] = nothing,
    [FB_OP_abs] = nothing,
    [FB_OP_sum] = nothing,
    [FB_OP_mean] = nothing,
    [FB_OP_var] = nothing,
    [FB_OP_amax] = nothing,
    [FB_OP_softmax] = nothing,
    [FB_OP_cumsum] = nothing,
    [FB_OP_avg_pool1d] = nothing,
    [FB_OP_max_pool1d] = nothing,
    [FB_OP_bmm] = bmm,
    [FB_OP_cholesky_solve] = solve,
    [FB_OP_topk] = sort,
    [FB_OP_rank] = sort,
    [FB_OP_gather] = nothing,
    [FB_OP_embedding] = nothing,
    [FB_OP_linear] = linear,
    [FB_OP_rms_norm] = nothing,
    [FB_OP_head_norm_] = nothing,
    [FB_OP_rotary] = nothing,
    [FB_OP_swiglu] = nothing,
    [FB_OP_geglu] = nothing,
    [FB_OP_add_] = nothing,
    [FB_OP_kv_write] = kv_write,
    [FB_OP_kv_copy] = nothing,
    [FB_OP_kv_turn] = kv_turn,
    [FB_OP_kv_read] = kv_read,
    [FB_OP_attention] = attention,
    [FB_OP_attention_sum] = attention,
    [FB_OP_attention_rows] = attention,
    [FB_OP_argmax] = argmax,
    [FB_OP_nll] = nll,
    [FB_OP_kl] = kl,
};

const fb_backend fb_backend_shape = {
    .name = "shape",
    .is_exact = true,
    .is_hollow = true,
    .open = open_shape,
    .close = close_shape,
    .isa = isa_of,
    .threads = threads_of,
    .alloc = alloc,
    .free = free_array,
    .take = take,
    .mark = mark,
    .cut = cut,
    .lift = lift,
    .weight = new_weight,
    .kernels = kernels,
};
