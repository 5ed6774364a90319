/* torch.h - what the kernels of the torch backend share.
 *
 * A kernel is a formula over handles. Every handle that a helper below returns is kept
 * until the kernel ends with fb_torch_return or fb_torch_done, which let go of all of
 * them. After a failure helpers return NULL and do nothing, so a kernel asks once, at
 * its end. No kernel looks at the memory of a tensor: that of a device is not ours to
 * read. Only memory.c does, for tensors it has brought to the host.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_TORCH_H
#define FB_OPS_TORCH_H

#include "ops/backend.h"
#include "ops/torch/lib.h"

#include <string.h>

enum { FB_TORCH_DEVICES = FB_MAX_PARTS, FB_TORCH_ARGUMENTS = 16 };

typedef struct fb_torch_device {
    char name[32];
    int32_t type, index;
} fb_torch_device;

/* What an fb_storage of this backend is: a contiguous tensor. */
typedef struct fb_torch_storage {
    fb_torch_handle tensor; /* NULL: a temporary that no kernel has made yet */
    int device;             /* number in fb_torch.devices */
    fb_account account;
    size_t bytes; /* charged to it; 0 for temporaries */
} fb_torch_storage;

struct fb_torch_plans;

typedef struct fb_torch {
    const fb_torch_lib *lib;
    fb_threads *threads; /* of the host, for unpacking weights */
    fb_torch_device devices[FB_TORCH_DEVICES];
    int n_devices;
    int part_device; /* where that is made which is made of nothing */
    fb_dtype precision;
    int32_t weight_dtype; /* torch's number of it */
    bool any_shape;       /* see fb_ops_options */
    size_t bytes[FB_ACCOUNT_COUNT];
    char version[64]; /* for fb_ops_isa: "torch 2.13.0 cpu" */

    fb_torch_storage **stack; /* of temporaries; each used again and again */
    size_t n_stack, top;

    /* the call at work */
    enum fb_op op;
    int at; /* the device it works on */
    fb_status status;
    fb_torch_handle *kept;
    size_t n_kept, room_kept;
    /* Arguments that no operator has consumed: after a failure none will. */
    struct fb_torch_given {
        fb_torch_handle tensor;
        fb_torch_value in; /* the list or optional it went into; 0: none */
    } * given;
    size_t n_given, room_given;

    struct fb_torch_plans *plans; /* gather.c */
    fb_torch_handle largest;      /* the largest |k|, |v| rounded since the last look */
    double too_large; /* halfway to what would be the next number of the type */
} fb_torch;

/* --- call.c: the call at work --- */

/* Starts a kernel on a device. */
void fb_torch_begin(fb_torch *torch, int device);
/* On the device of an array; `self` as what it is. */
fb_torch *fb_torch_begin_at(void *self, const fb_array *where);
/* Keeps a handle until the end of the kernel; returns it. */
fb_torch_handle fb_torch_keep(fb_torch *torch, fb_torch_handle handle);
/* Records a failure of the library ("while doing `what`"); returns NULL. */
fb_torch_handle fb_torch_failed(fb_torch *torch, const char *what);
/* The same of a new tensor: where PyTorch does not say why, it is for want of memory, for
 * the device was there before. */
fb_torch_handle fb_torch_failed_new(fb_torch *torch, const char *what);
/* Ends a kernel that made no tensor. */
fb_status fb_torch_done(fb_torch *torch);
/* Ends a kernel: `result`, made contiguous, becomes the storage of call->out. */
fb_status fb_torch_return(fb_torch *torch, const fb_call *call, fb_torch_handle result);

/* Arguments of operators. The operator consumes what it is given. */
fb_torch_value fb_torch_give(fb_torch *torch, fb_torch_handle handle);
fb_torch_value fb_torch_some(fb_torch *torch,
                             fb_torch_value value); /* T? with a value */
fb_torch_value fb_torch_list_from(fb_torch *torch, int n, const fb_torch_value *items);
fb_torch_value fb_torch_sizes(fb_torch *torch, int n, const int64_t *sizes);

static inline fb_torch_value fb_torch_double(double x)
{
    fb_torch_value value;

    memcpy(&value, &x, sizeof value);
    return value;
}

/* All arguments of the schema, defaults too; returns the first result. */
fb_torch_handle fb_torch_call(fb_torch *torch, const char *name, const char *overload,
                              int n, const fb_torch_value *arguments);
/* For operators with two results: the first; the other is put into `second`. */
fb_torch_handle fb_torch_call_two(fb_torch *torch, const char *name,
                                  const char *overload, int n,
                                  const fb_torch_value *arguments,
                                  fb_torch_handle *second);

/* The shorthand of kernels; `torch` is in scope. */
#define T_(h) fb_torch_give(torch, (h))
#define I_(i) ((fb_torch_value)(int64_t)(i))
#define B_(b) ((fb_torch_value)((b) ? 1 : 0))
#define E_(e) ((fb_torch_value)(uint32_t)(e)) /* ScalarType */
#define NONE_ ((fb_torch_value)0)
#define COUNT_(...)                                                                    \
    (int)(sizeof((fb_torch_value[]){__VA_ARGS__}) / sizeof(fb_torch_value))
#define OP_(name, overload, ...)                                                       \
    fb_torch_call(torch, "aten::" name, overload, COUNT_(__VA_ARGS__),                 \
                  (fb_torch_value[]){__VA_ARGS__})
#define INTS_(...)                                                                     \
    fb_torch_sizes(torch, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),   \
                   (int64_t[]){__VA_ARGS__})

/* --- memory.c: tensors --- */

int32_t fb_torch_dtype(const fb_torch *torch, fb_dtype dtype);
/* A view of `base` from its element `offset` on, with sizes and strides. */
fb_torch_handle fb_torch_view(fb_torch *torch, fb_torch_handle base, int n,
                              const int64_t *sizes, const int64_t *strides,
                              int64_t offset);
/* The tensor of an array, on the device of the call (copied there if it is elsewhere). */
fb_torch_handle fb_torch_of(fb_torch *torch, const fb_array *array);
/* The tensor of an array where it lies, on whichever device: to be written. */
fb_torch_handle fb_torch_there(fb_torch *torch, const fb_array *array);
/* The same elements as [n0, n1, ...]. */
fb_torch_handle fb_torch_shaped(fb_torch *torch, const fb_array *array, int n,
                                const int64_t *sizes);
#define SHAPED_(array, ...)                                                            \
    fb_torch_shaped(torch, array,                                                      \
                    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),         \
                    (int64_t[]){__VA_ARGS__})
/* A copy of host memory on the device of the call. */
fb_torch_handle fb_torch_upload(fb_torch *torch, int32_t dtype, int n,
                                const int64_t *sizes, const void *data);
/* All elements to host memory of `bytes`; `dtype` is theirs. Waits for the device. */
void fb_torch_download(fb_torch *torch, fb_torch_handle handle, int32_t dtype,
                       void *out, size_t bytes);
/* A number that stands beside tensors of any device. */
fb_torch_handle fb_torch_number(fb_torch *torch, double x);
fb_torch_handle fb_torch_cast(fb_torch *torch, fb_torch_handle handle, int32_t dtype);
/* a + alpha * b. (add.Tensor has an argument that the C ABI cannot carry.) */
fb_torch_handle fb_torch_plus(fb_torch *torch, fb_torch_handle a, fb_torch_handle b,
                              double alpha);
/* The tensor of an array that is changed in place: fails if it is on another device. */
fb_torch_handle fb_torch_in_place(fb_torch *torch, const fb_array *array);
/* A copy on the device of the call, or the tensor itself if it is there. */
fb_torch_handle fb_torch_here(fb_torch *torch, fb_torch_handle handle, int32_t dtype);
/* b behind a in dimension `dim`. */
fb_torch_handle fb_torch_join(fb_torch *torch, fb_torch_handle a, fb_torch_handle b,
                              int dim);
/* Copies into a view, converting. */
void fb_torch_copy(fb_torch *torch, fb_torch_handle to, fb_torch_handle from);
fb_torch_handle fb_torch_new(fb_torch *torch, int32_t dtype, int n,
                             const int64_t *sizes);
fb_torch_handle fb_torch_filled(fb_torch *torch, int32_t dtype, int n,
                                const int64_t *sizes, double value);
/* As fb_torch_new, owned by the caller; `what` names it where there is no memory. */
fb_torch_handle fb_torch_new_own(fb_torch *torch, const char *what, int32_t dtype,
                                 int n, const int64_t *sizes);
/* Pairs (x, y) become (x c - y s, y c + x s), in place, rounded at every step. */
void fb_torch_turn(fb_torch *torch, fb_torch_handle x, fb_torch_handle y,
                   fb_torch_handle c, fb_torch_handle s);
/* Fails if a number was written that the type of a cache does not have. Waits. */
void fb_torch_check_range(fb_torch *torch);

#define NARROW_(h, dim, start, length)                                                 \
    OP_("narrow", "", T_(h), I_(dim), I_(start), I_(length))

/* --- kernels --- */

#define FB_OP(name, aten, flops, from_c) fb_kernel fb_torch_##name;
#include "ops/list.h"
#undef FB_OP

/* check.c - every operator that a kernel calls, once, on small numbers. */
fb_status fb_torch_check(fb_ops *ops);
/* FB_USAGE if PyTorch has no such device ("cuda:0"). */
fb_status fb_torch_find_device(const fb_torch_lib *lib, const char *name,
                               fb_torch_device *out);
fb_status fb_torch_weight_new(void *self, fb_array *weight,
                              const fb_weight_source *source);
void fb_torch_plans_free(fb_torch *torch);

extern const fb_backend fb_backend_torch;

#endif
