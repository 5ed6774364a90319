/* watched_torch.h - the torch backend with an eye on every call of the library.
 *
 * The pointers into PyTorch are replaced by functions that count, and note for each
 * operator of the table which operators of PyTorch its kernel calls: "aten::sum.dim_IntList"
 * by the dispatcher, "aoti_torch_aten_full" past it. Views and handles have no names.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TESTS_WATCHED_TORCH_H
#define FB_TESTS_WATCHED_TORCH_H

#include "ops/torch/torch.h"
#include "tests/support/test.h"

enum { WATCHED_NAMES = 32, WATCHED_NAME = 64 };

/* What kernels did since watched_clear. */
static struct {
    int64_t kernels[FB_OP_COUNT + 1]; /* runs of each; the last place: none at work */
    int64_t calls[FB_OP_COUNT + 1];   /* of the library by them, of any kind */
    int64_t dispatched;               /* by the dispatcher */
    int64_t hosts; /* tensors over memory of the host: what comes from there or goes */
    int64_t fail_at; /* > 0: that handle from now on cannot be made */
    char names[FB_OP_COUNT + 1][WATCHED_NAMES][WATCHED_NAME];
} watched;

static fb_torch_lib watched_lib;     /* the real functions */
static int watched_op = FB_OP_COUNT; /* the kernel at work */

static inline void watched_clear(void)
{
    memset(&watched, 0, sizeof watched);
}

static inline void watched_name(const char *name, const char *overload)
{
    char full[WATCHED_NAME];

    (void)snprintf(full, sizeof full, "%s%s%s", name, overload[0] == '\0' ? "" : ".",
                   overload);
    for (int i = 0; i < WATCHED_NAMES; i++) {
        char *to = watched.names[watched_op][i];

        if (to[0] == '\0') memcpy(to, full, sizeof full);
        if (strcmp(to, full) == 0) return;
    }
    fail_msg("operator %d calls more than %d of PyTorch", watched_op, WATCHED_NAMES);
}

static inline fb_torch_code watched_dispatch(const char *name, const char *overload,
                                             fb_torch_value *stack, uint64_t schemas_of)
{
    watched.calls[watched_op]++;
    watched.dispatched++;
    watched_name(name, overload);
    return watched_lib.torch_call_dispatcher(name, overload, stack, schemas_of);
}

static inline fb_torch_code watched_subtract(fb_torch_handle a, fb_torch_handle b,
                                             double alpha, fb_torch_handle *out)
{
    watched.calls[watched_op]++;
    watched_name("aoti_torch_aten_subtract_Tensor", "");
    return watched_lib.aoti_torch_aten_subtract_Tensor(a, b, alpha, out);
}

static inline fb_torch_code watched_fill(const int64_t *sizes, int64_t n, double value,
                                         int32_t *dtype, int32_t *layout, int32_t *type,
                                         int32_t index, int32_t *pinned,
                                         fb_torch_handle *out)
{
    watched.calls[watched_op]++;
    watched_name("aoti_torch_aten_full", "");
    return watched_lib.aoti_torch_aten_full(sizes, n, value, dtype, layout, type, index,
                                            pinned, out);
}

static inline fb_torch_code watched_copy(fb_torch_handle to, fb_torch_handle from,
                                         int32_t non_blocking)
{
    watched.calls[watched_op]++;
    watched_name("aoti_torch_copy_", "");
    return watched_lib.aoti_torch_copy_(to, from, non_blocking);
}

static inline fb_torch_code watched_blob(const void *data, int64_t n_dims,
                                         const int64_t *sizes, const int64_t *strides,
                                         int64_t offset, int32_t dtype,
                                         int32_t device_type, int32_t device_index,
                                         fb_torch_handle *out)
{
    watched.hosts++;
    return watched_lib.aoti_torch_create_tensor_from_blob(
        data, n_dims, sizes, strides, offset, dtype, device_type, device_index, out);
}

static inline fb_torch_code watched_handle(fb_torch_handle of, fb_torch_handle *out)
{
    if (watched.fail_at > 0 && --watched.fail_at == 0) return 1;
    return watched_lib.aoti_torch_new_tensor_handle(of, out);
}

#define FB_OP(name, aten, flops, from_c)                                               \
    static inline fb_status watch_op_##name(void *self, const fb_call *call)           \
    {                                                                                  \
        fb_status status;                                                              \
                                                                                       \
        watched.kernels[FB_OP_##name]++;                                               \
        watched_op = FB_OP_##name;                                                     \
        status = fb_backend_torch.kernels[FB_OP_##name](self, call);                   \
        watched_op = FB_OP_COUNT;                                                      \
        return status;                                                                 \
    }
#include "ops/list.h"
#undef FB_OP

static fb_kernel *const watched_kernels[FB_OP_COUNT] = {
#define FB_OP(name, aten, flops, from_c) [FB_OP_##name] = watch_op_##name,
#include "ops/list.h"
#undef FB_OP
};

/* The library's own table of functions, to be changed. */
static inline fb_torch_lib *watched_open_library(void)
{
    const fb_torch_lib *lib;

    assert_ok(fb_torch_open(&lib, NULL, 2));
    return (fb_torch_lib *)(uintptr_t)lib;
}

/* Replaces the functions, once, and gives the backend that is watched. */
static inline fb_backend watched_backend(void)
{
    fb_torch_lib *lib = watched_open_library();
    fb_backend backend = fb_backend_torch;

    if (watched_lib.torch_call_dispatcher == NULL) {
        watched_lib = *lib;
        lib->torch_call_dispatcher = watched_dispatch;
        lib->aoti_torch_aten_subtract_Tensor = watched_subtract;
        lib->aoti_torch_aten_full = watched_fill;
        lib->aoti_torch_copy_ = watched_copy;
        lib->aoti_torch_create_tensor_from_blob = watched_blob;
        lib->aoti_torch_new_tensor_handle = watched_handle;
    }
    backend.kernels = watched_kernels;
    watched_clear();
    return backend;
}

#endif
