/* hidden_backend.h - a backend with pointers that nobody else can follow.
 *
 * Storage is handed out with its highest bit turned: whoever above src/ops reads memory
 * through it is stopped by the processor. So a test that passes with this backend
 * proves that nothing outside a backend needs to see data, as on a device.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TESTS_HIDDEN_BACKEND_H
#define FB_TESTS_HIDDEN_BACKEND_H

#include "ops/backend.h"

#include <stdlib.h>
#include <string.h>

static const fb_backend *hidden_base; /* the one that is hidden */

/* Hides what is plain and shows what is hidden. */
static inline void hidden_turn(fb_array *array)
{
    if (array->storage != NULL)
        array->storage = (fb_storage *)((uintptr_t)array->storage ^ (uintptr_t)1 << 63);
}

static inline fb_status hidden_alloc(void *self, fb_account account, fb_array *array)
{
    const fb_status status = hidden_base->alloc(self, account, array);

    hidden_turn(array);
    return status;
}

static inline void hidden_free(void *self, const fb_array *array)
{
    fb_array plain = *array;

    hidden_turn(&plain);
    hidden_base->free(self, &plain);
}

static inline fb_status hidden_take(void *self, fb_array *array)
{
    const fb_status status = hidden_base->take(self, array);

    hidden_turn(array);
    return status;
}

static inline fb_status hidden_lift(void *self, size_t mark, fb_array *array)
{
    fb_status status;

    hidden_turn(array);
    status = hidden_base->lift(self, mark, array);
    hidden_turn(array);
    return status;
}

static inline fb_status hidden_weight(void *self, fb_array *weight,
                                      const fb_weight_source *source)
{
    const fb_status status = hidden_base->weight(self, weight, source);

    hidden_turn(weight);
    return status;
}

/* A copy of `kv` with plain storage in `room`; NULL stays NULL. */
static inline const fb_kv *hidden_kv(const fb_kv *kv, fb_kv *room)
{
    if (kv == NULL) return NULL;
    *room = *kv;
    hidden_turn(&room->array);
    return room;
}

/* Of attention: plain copies of what all segments point to. Free with free. */
static inline fb_segment *hidden_segments(const fb_attend *attend)
{
    const size_t n = (size_t)(attend->n_sequences * attend->kv_heads);
    fb_segment *segments = malloc(n * (sizeof *segments + 2 * sizeof(fb_kv)));
    fb_kv *room = (fb_kv *)(void *)(segments + n);

    for (size_t i = 0; i < n; i++) {
        segments[i] = attend->segments[i];
        segments[i].context.kv = hidden_kv(segments[i].context.kv, &room[2 * i]);
        segments[i].tail.kv = hidden_kv(segments[i].tail.kv, &room[2 * i + 1]);
    }
    return segments;
}

static inline fb_status hidden_run(enum fb_op op, void *self, const fb_call *call)
{
    fb_call plain = *call;
    fb_kv to, from;
    fb_attend attend;
    fb_segment *segments = NULL;
    fb_status status;

    hidden_turn(&plain.out);
    for (int i = 0; i < 3; i++)
        hidden_turn(&plain.in[i]);
    if (call->to != NULL) {
        (void)hidden_kv(call->to, &to);
        plain.to = &to;
    }
    plain.from = hidden_kv(call->from, &from);
    if (call->attend != NULL) {
        attend = *call->attend;
        attend.segments = segments = hidden_segments(call->attend);
        plain.attend = &attend;
    }
    status = hidden_base->kernels[op](self, &plain);
    free(segments);
    return status;
}

#define FB_OP(name, aten, flops, from_c)                                               \
    static inline fb_status hidden_##name(void *self, const fb_call *call)             \
    {                                                                                  \
        return hidden_run(FB_OP_##name, self, call);                                   \
    }
#include "ops/list.h"
#undef FB_OP

static fb_kernel *const hidden_kernels[FB_OP_COUNT] = {
#define FB_OP(name, aten, flops, from_c) [FB_OP_##name] = hidden_##name,
#include "ops/list.h"
#undef FB_OP
};

/* Closed like any other; valid as long as the caller's `backend`. */
static inline fb_status hidden_open(fb_ops **out, fb_backend *backend,
                                    const fb_ops_options *options)
{
    const char *device = options == NULL ? NULL : options->device;

    hidden_base = device != NULL && strncmp(device, "torch:", strlen("torch:")) == 0
                      ? &fb_backend_torch
                      : &fb_backend_native;
    *backend = *hidden_base;
    backend->name = "hidden";
    backend->alloc = hidden_alloc;
    backend->free = hidden_free;
    backend->take = hidden_take;
    backend->lift = hidden_lift;
    backend->weight = hidden_weight;
    backend->kernels = hidden_kernels;
    return fb_ops_open_backend(out, backend, options);
}

#endif
