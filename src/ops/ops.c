/* ops.c - the context of the operator table: first failure, handles, scopes.
 *
 * Every operator goes through fb_ops_compute or fb_ops_run: the only two places that
 * call a kernel, so nothing is computed unchecked, unpaid or untraced.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "ops/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A handle is its place and how often the place was used, so that an old one shows. */
enum { PLACE_BITS = 20, MOST_PLACES = 1 << PLACE_BITS, USES_MASK = 0x7ff };

/* --- opening and closing */

static const fb_backend *backend_of(const char *device)
{
    if (device == NULL || strcmp(device, "cpu") == 0) return &fb_backend_native;
    if (strncmp(device, "torch:", strlen("torch:")) == 0) return &fb_backend_torch;
    return NULL;
}

fb_status fb_ops_open_backend(fb_ops **out, const fb_backend *backend,
                              const fb_ops_options *options)
{
    static const fb_ops_options plain;
    fb_status status;
    fb_ops *ops = fb_zalloc(FB_ACCOUNT_other, sizeof *ops);

    *out = NULL;
    if (ops == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the operators");
    ops->backend = backend;
    ops->temporary.n = ops->persistent.n = 1;
    status = backend->open(&ops->self, options == NULL ? &plain : options);
    if (status != FB_OK) {
        fb_free(ops);
        return status;
    }
    if (backend->check != NULL) status = backend->check(ops);
    if (status != FB_OK) {
        fb_ops_close(ops);
        return status;
    }
    *out = ops;
    return FB_OK;
}

fb_status fb_ops_open(fb_ops **out, const fb_ops_options *options)
{
    const char *device = options == NULL ? NULL : options->device;
    const fb_backend *backend = backend_of(device);

    *out = NULL;
    if (backend == NULL)
        return fb_fail(FB_UNSUPPORTED,
                       "no device '%s'; 'cpu' is there, and 'torch:cpu', "
                       "'torch:cuda:0' and the like where PyTorch is",
                       device);
    return fb_ops_open_backend(out, backend, options);
}

fb_status fb_ops_open_hollow(fb_ops **out, int threads)
{
    return fb_ops_open_backend(out, &fb_backend_shape,
                               &(fb_ops_options){.threads = threads});
}

void fb_ops_close(fb_ops *ops)
{
    if (ops == NULL) return;
    for (int32_t i = 1; i < ops->persistent.n; i++)
        if (ops->persistent.places[i].id != 0)
            ops->backend->free(ops->self, &ops->persistent.places[i].array);
    ops->backend->close(ops->self);
    fb_free(ops->temporary.places);
    fb_free(ops->persistent.places);
    fb_free(ops);
}

const char *fb_ops_backend(const fb_ops *ops)
{
    return ops->backend->name;
}

const char *fb_ops_isa(const fb_ops *ops)
{
    return ops->backend->isa(ops->self);
}

int fb_ops_parts(const fb_ops *ops)
{
    return ops->backend->parts == NULL ? 1 : ops->backend->parts(ops->self);
}

void fb_ops_use_part(fb_ops *ops, int part)
{
    if (ops->backend->use_part != NULL) ops->backend->use_part(ops->self, part);
}

bool fb_ops_is_exact(const fb_ops *ops)
{
    return ops->backend->is_exact;
}

bool fb_ops_has_numbers(const fb_ops *ops)
{
    return !ops->backend->is_hollow;
}

fb_threads *fb_ops_threads(const fb_ops *ops)
{
    return ops->backend->threads(ops->self);
}

/* --- the first failure */

fb_status fb_ops_keep(fb_ops *ops, fb_status status)
{
    if (status != FB_OK && ops->status == FB_OK) {
        ops->status = status;
        (void)snprintf(ops->sentence, sizeof ops->sentence, "%s", fb_error_message());
    }
    return ops->status;
}

void fb_ops_refuse(fb_ops *ops, fb_status status)
{
    (void)fb_ops_keep(ops, status);
}

/* Says the sentence again: others may have failed on this thread since. */
fb_status fb_ops_status(const fb_ops *ops)
{
    if (ops->status == FB_OK) return FB_OK;
    return fb_fail(ops->status, "%s", ops->sentence);
}

void fb_ops_context(fb_ops *ops, const char *format, ...)
{
    char whose[FB_SENTENCE_BYTES], old[FB_SENTENCE_BYTES];
    va_list args;

    if (ops->status == FB_OK) return;
    memcpy(old, ops->sentence, sizeof old);
    va_start(args, format);
    (void)vsnprintf(whose, sizeof whose, format, args);
    va_end(args);
    (void)fb_fail(ops->status, "%s: %s", whose, old);
    (void)snprintf(ops->sentence, sizeof ops->sentence, "%s", fb_error_message());
}

void fb_ops_broken(fb_ops *ops, enum fb_op op, const char *format, ...)
{
    char what[FB_SENTENCE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)fb_ops_keep(ops, fb_fail(FB_DEFECT, "fb_%s: %s", fb_op_name(op), what));
}

/* --- handles */

static struct fb_place_of_tensor *place_of(const fb_ops *ops, fb_tensor a)
{
    const struct fb_tensor_table *table = a.id > 0 ? &ops->temporary : &ops->persistent;
    const int32_t i = (a.id > 0 ? a.id : -a.id) & (MOST_PLACES - 1);

    if (i == 0 || i >= table->n || table->places[i].id != a.id) return NULL;
    return &table->places[i];
}

const fb_array *fb_ops_look(fb_ops *ops, enum fb_op op, fb_tensor a)
{
    const struct fb_place_of_tensor *place;

    if (ops->status != FB_OK) return NULL;
    place = place_of(ops, a);
    if (place != NULL) return &place->array;
    fb_ops_broken(ops, op,
                  a.id == 0 ? "a tensor is missing (FB_NONE)"
                            : "a tensor is used after its scope was closed");
    return NULL;
}

const fb_array *fb_ops_floats(fb_ops *ops, enum fb_op op, fb_tensor a)
{
    const fb_array *array = fb_ops_look(ops, op, a);

    if (array == NULL) return NULL;
    if (array->dtype == FB_F32 && array->weight == 0) return array;
    fb_ops_broken(ops, op,
                  array->weight != 0 ? "a weight is for fb_linear only"
                                     : "takes f32 tensors only");
    return NULL;
}

int fb_n_dims(const fb_ops *ops, fb_tensor a)
{
    const struct fb_place_of_tensor *place = place_of(ops, a);

    return place == NULL ? 0 : place->array.n_dims;
}

int64_t fb_size(const fb_ops *ops, fb_tensor a, int dim)
{
    const struct fb_place_of_tensor *place = place_of(ops, a);

    if (place == NULL) return 0;
    if (dim < 0) dim += place->array.n_dims;
    return dim < 0 || dim >= place->array.n_dims ? 0 : place->array.shape[dim];
}

bool fb_is_f32(const fb_ops *ops, fb_tensor a)
{
    const struct fb_place_of_tensor *place = place_of(ops, a);

    return place != NULL && place->array.dtype == FB_F32 && place->array.weight == 0;
}

int64_t fb_array_elements(const fb_array *array)
{
    int64_t n = 1;

    for (int i = 0; i < array->n_dims; i++)
        n *= array->shape[i];
    return n;
}

size_t fb_dtype_bytes(fb_dtype dtype)
{
    static const size_t bytes[] = {
        [FB_F32] = 4, [FB_F64] = 8, [FB_I64] = 8, [FB_F16] = 2, [FB_BF16] = 2};

    return bytes[dtype];
}

bool fb_ops_shape(fb_ops *ops, enum fb_op op, fb_array *array, fb_dtype dtype,
                  int n_dims, const int64_t *shape)
{
    int64_t n = 1;

    if (ops->status != FB_OK) return false;
    if (dtype != FB_F32 && dtype != FB_F64 && dtype != FB_I64) {
        fb_ops_broken(ops, op, "a tensor is of f32, f64 or i64");
        return false;
    }
    if (n_dims < 0 || n_dims > FB_MAX_DIMS) {
        fb_ops_broken(ops, op, "%d dimensions; 0 to %d are possible", n_dims,
                      FB_MAX_DIMS);
        return false;
    }
    *array = (fb_array){.dtype = dtype, .n_dims = n_dims};
    for (int i = 0; i < n_dims; i++) {
        const int64_t limit = INT64_C(1) << 48;

        array->shape[i] = shape[i];
        if (shape[i] < 0 || shape[i] > limit ||
            __builtin_mul_overflow(n, shape[i], &n) || n > limit) {
            fb_ops_broken(ops, op, "size %lld of dimension %d is not possible",
                          (long long)shape[i], i);
            return false;
        }
    }
    return true;
}

static bool has_room(struct fb_tensor_table *table)
{
    const int32_t more = table->capacity < 64 ? 64 : 2 * table->capacity;
    void *places;

    if (table->n < table->capacity) return true;
    if (table->capacity >= MOST_PLACES) return false;
    places = fb_realloc(FB_ACCOUNT_other, table->places,
                        (size_t)more * sizeof *table->places);
    if (places == NULL) return false;
    table->places = places;
    memset(&table->places[table->capacity], 0,
           (size_t)(more - table->capacity) * sizeof *table->places);
    table->capacity = more;
    return true;
}

/* A free place: the next one, or among persistent tensors a released one. 0: none. */
static int32_t free_place(fb_ops *ops, struct fb_tensor_table *table)
{
    if (table == &ops->persistent)
        for (int32_t i = 1; i < table->n; i++)
            if (table->places[i].id == 0) return i;
    if (!has_room(table)) {
        (void)fb_ops_keep(ops, fb_fail(FB_NO_MEMORY, "no memory for one more tensor"));
        return 0;
    }
    return table->n++;
}

static fb_tensor enter(fb_ops *ops, struct fb_tensor_table *table,
                       const fb_array *array, int32_t owner)
{
    const int32_t i = free_place(ops, table);
    struct fb_place_of_tensor *place;

    if (i == 0) return FB_NONE;
    place = &table->places[i];
    place->array = *array;
    place->owner = owner < 0 ? i : owner;
    place->uses = (place->uses + 1) & USES_MASK;
    place->id = place->uses << PLACE_BITS | i;
    if (table == &ops->persistent) place->id = -place->id;
    return (fb_tensor){place->id};
}

/* A temporary whose storage was taken from the stack. */
static fb_tensor enter_temporary(fb_ops *ops, fb_array *array)
{
    if (fb_ops_keep(ops, ops->backend->take(ops->self, array)) != FB_OK) return FB_NONE;
    return enter(ops, &ops->temporary, array, -1);
}

fb_tensor fb_ops_view(fb_ops *ops, fb_tensor a, const fb_array *array)
{
    const struct fb_place_of_tensor *place = place_of(ops, a);

    return enter(ops, &ops->temporary, array, a.id > 0 ? place->owner : 0);
}

/* --- lifetimes */

static void drop_temporaries(fb_ops *ops, int32_t n)
{
    for (int32_t i = n; i < ops->temporary.n; i++)
        ops->temporary.places[i].id = 0;
    ops->temporary.n = n;
}

void fb_scope_open(fb_ops *ops)
{
    FB_ASSERT(ops->n_scopes < FB_MAX_SCOPES);
    ops->scopes[ops->n_scopes].mark = ops->backend->mark(ops->self);
    ops->scopes[ops->n_scopes].n_before = ops->temporary.n;
    ops->n_scopes++;
}

void fb_scope_close(fb_ops *ops)
{
    FB_ASSERT(ops->n_scopes > 0);
    ops->n_scopes--;
    ops->backend->cut(ops->self, ops->scopes[ops->n_scopes].mark);
    drop_temporaries(ops, ops->scopes[ops->n_scopes].n_before);
}

fb_tensor fb_scope_return(fb_ops *ops, fb_tensor a)
{
    const fb_array *array = fb_ops_look(ops, FB_OP_narrow, a);
    struct fb_place_of_tensor place = {0};
    fb_status status;
    int32_t n_before;

    FB_ASSERT(ops->n_scopes > 0);
    n_before = ops->scopes[ops->n_scopes - 1].n_before;
    if (array != NULL) place = *place_of(ops, a);
    if (array == NULL || a.id < 0 || (a.id & (MOST_PLACES - 1)) < n_before) {
        fb_scope_close(ops);
        return array == NULL ? FB_NONE : a;
    }
    if (place.owner < n_before) { /* a view of something outside */
        fb_scope_close(ops);
        return enter(ops, &ops->temporary, &place.array, place.owner);
    }
    ops->n_scopes--;
    drop_temporaries(ops, n_before);
    status =
        ops->backend->lift(ops->self, ops->scopes[ops->n_scopes].mark, &place.array);
    if (fb_ops_keep(ops, status) != FB_OK) return FB_NONE;
    return enter(ops, &ops->temporary, &place.array, -1);
}

void fb_ops_reset(fb_ops *ops)
{
    ops->status = FB_OK;
    ops->n_scopes = 0;
    ops->backend->cut(ops->self, 0);
    drop_temporaries(ops, 1);
}

static fb_tensor enter_persistent(fb_ops *ops, fb_account account, fb_array *array)
{
    fb_tensor out;

    array->persists = true;
    if (fb_ops_keep(ops, ops->backend->alloc(ops->self, account, array)) != FB_OK)
        return FB_NONE;
    out = enter(ops, &ops->persistent, array, 0);
    if (out.id == 0) ops->backend->free(ops->self, array);
    return out;
}

fb_tensor fb_persist(fb_ops *ops, fb_account account, fb_tensor a)
{
    const fb_array *array = fb_ops_look(ops, FB_OP_narrow, a);
    fb_call call = {0};
    fb_tensor out;

    if (array == NULL) return FB_NONE;
    if (array->weight != 0) {
        fb_ops_broken(ops, FB_OP_narrow, "a weight cannot be copied");
        return FB_NONE;
    }
    call.out = call.in[0] = *array;
    out = enter_persistent(ops, account, &call.out);
    if (out.id == 0) return FB_NONE;
    if (fb_ops_run(ops, FB_OP_narrow, &call, 0) == FB_OK) return out;
    fb_release(ops, out);
    return FB_NONE;
}

fb_tensor fb_persist_over(fb_ops *ops, fb_account account, fb_tensor old, fb_tensor a)
{
    const fb_array *array = fb_ops_look(ops, FB_OP_narrow, a);
    const bool goes_first = array != NULL && !array->persists;
    fb_tensor out;

    if (goes_first) fb_release(ops, old);
    out = fb_persist(ops, account, a);
    if (!goes_first) fb_release(ops, old);
    return out;
}

fb_tensor fb_new(fb_ops *ops, fb_account account, fb_dtype dtype, int n_dims,
                 const int64_t *shape)
{
    fb_call call = {0};
    fb_tensor out;

    if (!fb_ops_shape(ops, FB_OP_full, &call.out, dtype, n_dims, shape)) return FB_NONE;
    out = enter_persistent(ops, account, &call.out);
    if (out.id == 0 || fb_ops_run(ops, FB_OP_full, &call, 0) == FB_OK) return out;
    fb_release(ops, out);
    return FB_NONE;
}

fb_tensor fb_weight(fb_ops *ops, const fb_weight_source *source)
{
    fb_array array;
    fb_tensor out;

    if (!fb_ops_shape(ops, FB_OP_linear, &array, FB_F32, 2,
                      (const int64_t[]){source->rows, source->columns}))
        return FB_NONE;
    array.persists = true;
    array.weight = ops->n_weights + 1;
    if (fb_ops_keep(ops, ops->backend->weight(ops->self, &array, source)) != FB_OK)
        return FB_NONE;
    out = enter(ops, &ops->persistent, &array, 0);
    if (out.id == 0)
        ops->backend->free(ops->self, &array);
    else
        ops->n_weights++;
    return out;
}

void fb_release(fb_ops *ops, fb_tensor a)
{
    struct fb_place_of_tensor *place;

    if (a.id == 0) return;
    place = place_of(ops, a);
    FB_ASSERT(a.id < 0 && place != NULL);
    ops->n_weights -= place->array.weight != 0;
    ops->backend->free(ops->self, &place->array);
    place->id = 0;
}

/* --- the only callers of kernels */

/* What lives longer than a batch is no part of it: each sequence reads it whole. */
static void count(fb_ops *ops, enum fb_op op, const fb_call *call, double units)
{
    double bytes = fb_array_bytes(&call->out), common = 0;

    /* A lookup reads as many rows as it gives. */
    if (op == FB_OP_embedding) bytes += fb_array_bytes(&call->out);
    for (int i = 0; i < 3 && op != FB_OP_embedding; i++)
        *(call->in[i].persists ? &common : &bytes) += fb_array_bytes(&call->in[i]);
    fb_ops_count(ops, op, units, bytes, common);
}

fb_status fb_ops_run(fb_ops *ops, enum fb_op op, const fb_call *call, double units)
{
    if (ops->status != FB_OK) return fb_ops_status(ops);
    if (op != FB_OP_attention) count(ops, op, call, units);
    fb_ops_trace(ops, op, call);
    if (fb_ops_keep(ops, ops->backend->kernels[op](ops->self, call)) == FB_OK)
        return FB_OK;
    return fb_ops_status(ops);
}

fb_tensor fb_ops_compute(fb_ops *ops, enum fb_op op, fb_call *call, double units)
{
    fb_tensor out;

    if (ops->status != FB_OK) return FB_NONE;
    out = enter_temporary(ops, &call->out);
    if (out.id == 0 || fb_ops_run(ops, op, call, units) != FB_OK) return FB_NONE;
    return out;
}
