/* memory.c - tensors of the torch backend: views, copies to and from the host.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/torch.h"

int32_t fb_torch_dtype(const fb_torch *torch, fb_dtype dtype)
{
    switch (dtype) {
    case FB_F64:
        return torch->lib->aoti_torch_dtype_float64();
    case FB_I64:
        return torch->lib->aoti_torch_dtype_int64();
    case FB_F16:
        return torch->lib->aoti_torch_dtype_float16();
    case FB_BF16:
        return torch->lib->aoti_torch_dtype_bfloat16();
    case FB_F32:
        break;
    }
    return torch->lib->aoti_torch_dtype_float32();
}

static void strides_of(int n, const int64_t *sizes, int64_t *strides)
{
    int64_t step = 1;

    for (int i = n - 1; i >= 0; i--) {
        strides[i] = step;
        step *= sizes[i] > 0 ? sizes[i] : 1;
    }
}

fb_torch_handle fb_torch_view(fb_torch *torch, fb_torch_handle base, int n,
                              const int64_t *sizes, const int64_t *strides,
                              int64_t offset)
{
    fb_torch_handle view = NULL;

    if (torch->status != FB_OK || base == NULL) return NULL;
    if (torch->lib->aoti_torch__reinterpret_tensor(base, n, sizes, strides, offset,
                                                   &view) != 0)
        return fb_torch_failed(torch, "a view");
    return fb_torch_keep(torch, view);
}

fb_torch_handle fb_torch_here(fb_torch *torch, fb_torch_handle handle, int32_t dtype)
{
    const fb_torch_device *to = &torch->devices[torch->at];
    const fb_torch_value place =
        (fb_torch_value)(uint32_t)to->type << 32 | (uint32_t)to->index;

    return OP_("to", "device", T_(handle), place, E_(dtype), B_(false), B_(false),
               NONE_);
}

/* The elements of an array under a shape, on their own device. */
static fb_torch_handle there(fb_torch *torch, const fb_array *array, int n,
                             const int64_t *sizes)
{
    const fb_torch_storage *storage = (const void *)array->storage;
    int64_t strides[FB_MAX_DIMS + 2];

    strides_of(n, sizes, strides);
    return fb_torch_view(torch, storage->tensor, n, sizes, strides, array->offset);
}

fb_torch_handle fb_torch_shaped(fb_torch *torch, const fb_array *array, int n,
                                const int64_t *sizes)
{
    const fb_torch_storage *storage = (const void *)array->storage;
    const fb_torch_handle view = there(torch, array, n, sizes);

    if (storage->device == torch->at) return view;
    return fb_torch_here(torch, view, fb_torch_dtype(torch, array->dtype));
}

fb_torch_handle fb_torch_of(fb_torch *torch, const fb_array *array)
{
    return fb_torch_shaped(torch, array, array->n_dims, array->shape);
}

fb_torch_handle fb_torch_there(fb_torch *torch, const fb_array *array)
{
    return there(torch, array, array->n_dims, array->shape);
}

fb_torch_handle fb_torch_in_place(fb_torch *torch, const fb_array *array)
{
    const fb_torch_storage *storage = (const void *)array->storage;

    if (torch->status == FB_OK && storage->device != torch->at)
        torch->status = fb_fail(FB_DEFECT, "a tensor on %s is changed by a call on %s",
                                torch->devices[storage->device].name,
                                torch->devices[torch->at].name);
    return fb_torch_there(torch, array);
}

fb_torch_handle fb_torch_new_own(fb_torch *torch, const char *what, int32_t dtype,
                                 int n, const int64_t *sizes)
{
    const fb_torch_device *to = &torch->devices[torch->at];
    int64_t strides[FB_MAX_DIMS + 2];
    fb_torch_handle made = NULL;

    if (torch->status != FB_OK) return NULL;
    strides_of(n, sizes, strides);
    if (torch->lib->aoti_torch_empty_strided(n, sizes, strides, dtype, to->type,
                                             to->index, &made) != 0)
        return fb_torch_failed_new(torch, what);
    return made;
}

fb_torch_handle fb_torch_new(fb_torch *torch, int32_t dtype, int n,
                             const int64_t *sizes)
{
    return fb_torch_keep(
        torch, fb_torch_new_own(torch, "a temporary tensor", dtype, n, sizes));
}

/* A tensor over memory of the host. */
static fb_torch_handle host(fb_torch *torch, int32_t dtype, int n, const int64_t *sizes,
                            const void *data)
{
    static const int64_t nothing =
        0; /* an empty tensor needs an address all the same */
    int64_t strides[FB_MAX_DIMS + 2];
    const void *bytes = data == NULL ? &nothing : data;
    fb_torch_handle made = NULL;

    if (torch->status != FB_OK) return NULL;
    strides_of(n, sizes, strides);
    if (torch->lib->aoti_torch_create_tensor_from_blob(
            bytes, n, sizes, strides, 0, dtype,
            torch->lib->aoti_torch_device_type_cpu(), 0, &made) != 0)
        return fb_torch_failed(torch, "a tensor on the host");
    return fb_torch_keep(torch, made);
}

fb_torch_handle fb_torch_upload(fb_torch *torch, int32_t dtype, int n,
                                const int64_t *sizes, const void *data)
{
    fb_torch_handle to = fb_torch_new(torch, dtype, n, sizes);

    fb_torch_copy(torch, to, host(torch, dtype, n, sizes, data));
    return to;
}

void fb_torch_download(fb_torch *torch, fb_torch_handle handle, int32_t dtype,
                       void *out, size_t bytes)
{
    int64_t n = 0;
    fb_torch_handle to;

    if (torch->status != FB_OK) return;
    if (torch->lib->aoti_torch_get_numel(handle, &n) != 0)
        (void)fb_torch_failed(torch, "get_numel");
    if (n == 0 || bytes == 0) return;
    to = host(torch, dtype, 1, &n, out);
    fb_torch_copy(torch, to,
                  OP_("reshape", "", T_(handle), fb_torch_sizes(torch, 1, &n)));
}

void fb_torch_copy(fb_torch *torch, fb_torch_handle to, fb_torch_handle from)
{
    if (torch->status != FB_OK || to == NULL || from == NULL) return;
    if (torch->lib->aoti_torch_copy_(to, from, 0) != 0)
        (void)fb_torch_failed(torch, "a copy");
}

fb_torch_handle fb_torch_number(fb_torch *torch, double x)
{
    fb_torch_handle made = NULL;

    if (torch->status != FB_OK) return NULL;
    if (torch->lib->aoti_torch_scalar_to_tensor_float32((float)x, &made) != 0)
        return fb_torch_failed(torch, "a number");
    return fb_torch_keep(torch, made);
}

fb_torch_handle fb_torch_cast(fb_torch *torch, fb_torch_handle handle, int32_t dtype)
{
    int32_t now = 0;

    if (torch->status != FB_OK) return NULL;
    if (torch->lib->aoti_torch_get_dtype(handle, &now) != 0)
        return fb_torch_failed(torch, "get_dtype");
    if (now == dtype) return handle;
    return OP_("to", "dtype", T_(handle), E_(dtype), B_(false), B_(false), NONE_);
}

fb_torch_handle fb_torch_plus(fb_torch *torch, fb_torch_handle a, fb_torch_handle b,
                              double alpha)
{
    fb_torch_handle sum = NULL;

    if (torch->status != FB_OK || a == NULL || b == NULL) return NULL;
    if (torch->lib->aoti_torch_aten_subtract_Tensor(a, b, -alpha, &sum) != 0)
        return fb_torch_failed(torch, "aten::subtract");
    return fb_torch_keep(torch, sum);
}

fb_torch_handle fb_torch_join(fb_torch *torch, fb_torch_handle a, fb_torch_handle b,
                              int dim)
{
    const fb_torch_value pair[] = {T_(a), T_(b)};

    return OP_("cat", "", fb_torch_list_from(torch, 2, pair), I_(dim));
}

fb_torch_handle fb_torch_filled(fb_torch *torch, int32_t dtype, int n,
                                const int64_t *sizes, double value)
{
    fb_torch_device *to = &torch->devices[torch->at];
    fb_torch_handle made = NULL;

    if (torch->status != FB_OK) return NULL;
    if (torch->lib->aoti_torch_aten_full(sizes, n, value, &dtype, NULL, &to->type,
                                         to->index, NULL, &made) != 0)
        return fb_torch_failed(torch, "aten::full");
    return fb_torch_keep(torch, made);
}
