/* torch.c - the second backend: core ATen operators of an installed PyTorch.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/torch.h"

#include "base/cpus.h"

#include <stdio.h>

/* --- devices --- */

/* A device is there exactly when memory can be had on it. */
static bool can_allocate(const fb_torch_lib *lib, const fb_torch_device *device)
{
    const int64_t one = 1;
    fb_torch_handle made = NULL;

    if (lib->aoti_torch_empty_strided(1, &one, &one, lib->aoti_torch_dtype_float32(),
                                      device->type, device->index, &made) != 0)
        return false;
    (void)lib->aoti_torch_delete_tensor_object(made);
    return true;
}

fb_status fb_torch_find_device(const fb_torch_lib *lib, const char *name,
                               fb_torch_device *out)
{
    uint32_t type = 0;

    if (snprintf(out->name, sizeof out->name, "%s", name) >= (int)sizeof out->name ||
        lib->torch_parse_device_string(name, &type, &out->index) != 0)
        return fb_fail(FB_USAGE,
                       "'%s' is no device of PyTorch; 'cpu', 'cuda:0', 'mps' and "
                       "'xpu:0' are",
                       name);
    out->type = (int32_t)type;
    if (out->index < 0) out->index = 0;
    if (can_allocate(lib, out)) return FB_OK;
    if (!lib->has_devices && strcmp(name, "mps") != 0)
        return fb_fail(FB_USAGE,
                       "PyTorch %s in '%s' was built without '%s'; take --device "
                       "torch:cpu, or name another PyTorch with --torch DIR",
                       lib->version, lib->directory, name);
    return fb_fail(FB_USAGE, "PyTorch %s in '%s' has no device '%s': %s", lib->version,
                   lib->directory, name, fb_torch_why(lib));
}

/* "torch:cuda:0,cuda:1". */
static fb_status find_devices(fb_torch *torch, const char *names)
{
    char name[32];
    size_t n;

    for (names += strlen("torch:");; names += n + 1) {
        n = strcspn(names, ",");
        if (n == 0 || n >= sizeof name)
            return fb_fail(FB_USAGE,
                           "a device is named 'torch:cpu', 'torch:cuda:0' or, "
                           "for several, 'torch:cuda:0,cuda:1'");
        if (torch->n_devices == FB_TORCH_DEVICES)
            return fb_fail(FB_USAGE, "more than %d devices", FB_TORCH_DEVICES);
        memcpy(name, names, n);
        name[n] = '\0';
        FB_TRY(
            fb_torch_find_device(torch->lib, name, &torch->devices[torch->n_devices]));
        torch->n_devices++;
        if (names[n] == '\0') return FB_OK;
    }
}

/* --- opening and closing --- */

static void close_torch(void *self)
{
    fb_torch *torch = self;

    if (torch == NULL) return;
    fb_torch_plans_free(torch);
    if (torch->largest != NULL)
        (void)torch->lib->aoti_torch_delete_tensor_object(torch->largest);
    for (size_t i = 0; i < torch->n_stack; i++) {
        if (torch->stack[i]->tensor != NULL)
            (void)torch->lib->aoti_torch_delete_tensor_object(torch->stack[i]->tensor);
        fb_free(torch->stack[i]);
    }
    fb_free(torch->stack);
    fb_free(torch->kept);
    fb_free(torch->given);
    fb_threads_free(torch->threads);
    fb_free(torch);
}

static fb_status open_parts(fb_torch *torch, const fb_ops_options *options)
{
    FB_TRY(fb_threads_new(&torch->threads, options->threads));
    FB_TRY(
        fb_torch_open(&torch->lib, options->torch, fb_threads_count(torch->threads)));
    FB_TRY(find_devices(torch, options->device));
    torch->precision = options->precision;
    torch->weight_dtype = fb_torch_dtype(torch, options->precision);
    torch->any_shape = options->any_shape;
    (void)snprintf(torch->version, sizeof torch->version, "%s on %s",
                   torch->lib->version, options->device + strlen("torch:"));
    return FB_OK;
}

static fb_status open_torch(void **self, const fb_ops_options *options)
{
    fb_torch *torch = fb_zalloc(FB_ACCOUNT_other, sizeof *torch);
    fb_status status;

    *self = NULL;
    if (torch == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the backend");
    status = open_parts(torch, options);
    if (status != FB_OK) {
        close_torch(torch);
        return status;
    }
    *self = torch;
    return FB_OK;
}

static const char *version_of(const void *self)
{
    return ((const fb_torch *)self)->version;
}

static fb_threads *threads_of(const void *self)
{
    return ((const fb_torch *)self)->threads;
}

static int parts_of(const void *self)
{
    return ((const fb_torch *)self)->n_devices;
}

static void use_part(void *self, int part)
{
    ((fb_torch *)self)->part_device = part;
}

/* --- persistent tensors --- */

/* Bytes that PyTorch says it holds for a tensor of our own. */
static size_t bytes_held(fb_torch *torch, fb_torch_handle tensor)
{
    int64_t bytes = 0;

    if (torch->lib->aoti_torch_get_storage_size(tensor, &bytes) != 0)
        (void)fb_torch_failed(torch, "get_storage_size");
    return (size_t)bytes;
}

static fb_status own(fb_torch *torch, fb_account account, fb_array *array, int device)
{
    fb_torch_storage *storage = fb_zalloc(FB_ACCOUNT_other, sizeof *storage);
    char what[64];

    if (storage == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a tensor");
    fb_torch_begin(torch, device);
    (void)snprintf(what, sizeof what, "%s of %.0f bytes", fb_account_name(account),
                   (double)fb_array_elements(array) *
                       (double)fb_dtype_bytes(array->dtype));
    storage->tensor = fb_torch_new_own(torch, what, fb_torch_dtype(torch, array->dtype),
                                       array->n_dims, array->shape);
    if (torch->status == FB_OK) storage->bytes = bytes_held(torch, storage->tensor);
    if (torch->status != FB_OK) {
        if (storage->tensor != NULL)
            (void)torch->lib->aoti_torch_delete_tensor_object(storage->tensor);
        fb_free(storage);
        return torch->status;
    }
    storage->device = device;
    storage->account = account;
    torch->bytes[account] += storage->bytes;
    fb_memory_add(account, storage->bytes);
    array->storage = (fb_storage *)(void *)storage;
    array->offset = 0;
    return FB_OK;
}

static fb_status alloc(void *self, fb_account account, fb_array *array)
{
    fb_torch *torch = self;

    return own(torch, account, array, torch->part_device);
}

static void free_array(void *self, const fb_array *array)
{
    fb_torch *torch = self;
    fb_torch_storage *storage = (fb_torch_storage *)(void *)array->storage;

    if (storage->account == FB_ACCOUNT_kv) fb_torch_plans_free(torch);
    torch->bytes[storage->account] -= storage->bytes;
    fb_memory_drop(storage->account, storage->bytes);
    (void)torch->lib->aoti_torch_delete_tensor_object(storage->tensor);
    fb_free(storage);
}

/* --- the stack of temporaries --- */

static fb_status grow(fb_torch *torch)
{
    const size_t more = torch->n_stack == 0 ? 64 : 2 * torch->n_stack;
    void *stack =
        fb_realloc(FB_ACCOUNT_other, torch->stack, more * sizeof(fb_torch_storage *));

    if (stack == NULL) return fb_fail(FB_NO_MEMORY, "no memory for one more tensor");
    torch->stack = stack;
    while (torch->n_stack < more) {
        torch->stack[torch->n_stack] =
            fb_zalloc(FB_ACCOUNT_other, sizeof **torch->stack);
        if (torch->stack[torch->n_stack] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for one more tensor");
        torch->n_stack++;
    }
    return FB_OK;
}

static fb_status take(void *self, fb_array *array)
{
    fb_torch *torch = self;

    if (torch->top == torch->n_stack) FB_TRY(grow(torch));
    array->storage = (fb_storage *)(void *)torch->stack[torch->top++];
    array->offset = 0;
    return FB_OK;
}

static size_t mark(const void *self)
{
    return ((const fb_torch *)self)->top;
}

static void cut(void *self, size_t to)
{
    fb_torch *torch = self;

    while (torch->top > to) {
        fb_torch_storage *storage = torch->stack[--torch->top];

        if (storage->tensor == NULL) continue;
        (void)torch->lib->aoti_torch_delete_tensor_object(storage->tensor);
        storage->tensor = NULL;
    }
}

/* The tensor moves down, no element does. */
static fb_status lift(void *self, size_t to, fb_array *array)
{
    fb_torch *torch = self;
    fb_torch_storage *storage = (fb_torch_storage *)(void *)array->storage;
    const fb_torch_storage saved = *storage;
    const int64_t offset = array->offset;

    storage->tensor = NULL;
    cut(self, to);
    FB_TRY(take(self, array));
    *torch->stack[torch->top - 1] = saved;
    array->offset = offset;
    return FB_OK;
}

/* --- the backend --- */

static fb_kernel *const kernels[FB_OP_COUNT] = {
#define FB_OP(name, aten, flops, from_c) [FB_OP_##name] = fb_torch_##name,
#include "ops/list.h"
#undef FB_OP
};

const fb_backend fb_backend_torch = {
    .name = "torch",
    .open = open_torch,
    .close = close_torch,
    .isa = version_of,
    .check = fb_torch_check,
    .threads = threads_of,
    .parts = parts_of,
    .use_part = use_part,
    .alloc = alloc,
    .free = free_array,
    .take = take,
    .mark = mark,
    .cut = cut,
    .lift = lift,
    .weight = fb_torch_weight_new,
    .kernels = kernels,
};
