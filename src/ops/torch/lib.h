/* lib.h - an installed PyTorch, opened at run time through its stable C ABI.
 *
 * Declares by hand the few functions of libtorch that are called, all of them part of the
 * stable ABI since PyTorch 2.10 or earlier ("LibTorch Stable ABI" in PyTorch's notes).
 * Nothing of PyTorch is needed to build or link this program.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_TORCH_LIB_H
#define FB_OPS_TORCH_LIB_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An owning handle of an at::Tensor; a list that is handed to an operator. */
typedef struct fb_torch_tensor *fb_torch_handle;
typedef struct fb_torch_list_of *fb_torch_list;
/* One argument or result of an operator: a StableIValue. */
typedef uint64_t fb_torch_value;
typedef int32_t fb_torch_code; /* 0: done; a C++ exception never comes through */

/* The oldest release that is taken: lists, strings and devices as arguments came with it. */
enum { FB_TORCH_MAJOR = 2, FB_TORCH_MINOR = 10 };

/* X(needed, result, name, arguments); those that are not needed may be NULL. */
#define FB_TORCH_SYMBOLS(X)                                                            \
    X(true, uint64_t, aoti_torch_abi_version, (void))                                  \
    X(true, int32_t, aoti_torch_device_type_cpu, (void))                               \
    X(true, int32_t, aoti_torch_dtype_float32, (void))                                 \
    X(true, int32_t, aoti_torch_dtype_float64, (void))                                 \
    X(true, int32_t, aoti_torch_dtype_float16, (void))                                 \
    X(true, int32_t, aoti_torch_dtype_bfloat16, (void))                                \
    X(true, int32_t, aoti_torch_dtype_int64, (void))                                   \
    X(true, int32_t, aoti_torch_dtype_bool, (void))                                    \
    X(true, fb_torch_code, aoti_torch_create_tensor_from_blob,                         \
      (const void *data, int64_t n_dims, const int64_t *sizes, const int64_t *strides, \
       int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index,       \
       fb_torch_handle *))                                                             \
    X(true, fb_torch_code, aoti_torch_empty_strided,                                   \
      (int64_t n_dims, const int64_t *sizes, const int64_t *strides, int32_t dtype,    \
       int32_t device_type, int32_t device_index, fb_torch_handle *))                  \
    X(true, fb_torch_code, aoti_torch__reinterpret_tensor,                             \
      (fb_torch_handle, int64_t n_dims, const int64_t *sizes, const int64_t *strides,  \
       int64_t offset, fb_torch_handle *))                                             \
    X(true, fb_torch_code, aoti_torch_new_tensor_handle,                               \
      (fb_torch_handle, fb_torch_handle *))                                            \
    X(true, fb_torch_code, aoti_torch_delete_tensor_object, (fb_torch_handle))         \
    X(true, fb_torch_code, aoti_torch_get_numel, (fb_torch_handle, int64_t *))         \
    X(true, fb_torch_code, aoti_torch_get_dtype, (fb_torch_handle, int32_t *))         \
    X(true, fb_torch_code, aoti_torch_is_contiguous, (fb_torch_handle, bool *))        \
    X(true, fb_torch_code, aoti_torch_get_storage_size, (fb_torch_handle, int64_t *))  \
    X(true, fb_torch_code, aoti_torch_copy_,                                           \
      (fb_torch_handle to, fb_torch_handle from, int32_t non_blocking))                \
    X(true, fb_torch_code, aoti_torch_scalar_to_tensor_float32,                        \
      (float, fb_torch_handle *))                                                      \
    X(true, void, aoti_torch_grad_mode_set_enabled, (bool))                            \
    X(true, fb_torch_code, torch_call_dispatcher,                                      \
      (const char *name, const char *overload, fb_torch_value *stack,                  \
       uint64_t schemas_of))                                                           \
    X(true, fb_torch_code, torch_new_list_reserve_size, (size_t, fb_torch_list *))     \
    X(true, fb_torch_code, torch_list_push_back, (fb_torch_list, fb_torch_value))      \
    X(true, fb_torch_code, torch_parse_device_string,                                  \
      (const char *, uint32_t *type, int32_t *index))                                  \
    X(true, fb_torch_code, torch_get_num_threads, (uint32_t *))                        \
    X(true, fb_torch_code, aoti_torch_aten_subtract_Tensor,                            \
      (fb_torch_handle, fb_torch_handle, double alpha, fb_torch_handle *))             \
    X(true, fb_torch_code, aoti_torch_aten_full,                                       \
      (const int64_t *sizes, int64_t n_dims, double value, int32_t *dtype,             \
       int32_t *layout, int32_t *device_type, int32_t device_index, int32_t *pinned,   \
       fb_torch_handle *))                                                             \
    /* since 2.13 */                                                                   \
    X(false, fb_torch_code, torch_new_stable_ivalue, (fb_torch_value **))              \
    X(false, const char *, torch_exception_get_what_without_backtrace, (void))

typedef struct fb_torch_lib {
#define FB_TORCH_MEMBER(needed, result, name, arguments) result(*name) arguments;
    FB_TORCH_SYMBOLS(FB_TORCH_MEMBER)
#undef FB_TORCH_MEMBER
    void *(*operator_new)(size_t); /* C++: before 2.13 torch deletes what this made */
    char directory[4096];          /* of the package */
    char version[32];              /* "2.13.0" */
    bool has_devices; /* a library for CUDA, ROCm or Intel lies beside it */
} fb_torch_lib;

/* Opens PyTorch once per process (it cannot be closed) and lends it; later calls give the
 * same one and ignore their arguments. `where`: the package's directory or a Python
 * interpreter that has it; NULL: what FLEXBUDGET_TORCH names, else that of the active
 * virtual environment or of python3 on PATH. `threads`: of its operators on a CPU. Fails with
 * one sentence: FB_USAGE where nothing usable is there, FB_UNSUPPORTED where it is too old
 * or cannot be loaded. */
FB_MUST_USE fb_status fb_torch_open(const fb_torch_lib **out, const char *where,
                                    int threads);
/* Where the package lies: `where` as above. It has a libtorch_cpu.so, which may be any file. */
FB_MUST_USE fb_status fb_torch_find(const char *where, char *out, size_t n);
/* Whether there is a file of this name in the package that can be read. */
bool fb_torch_has(const char *directory, const char *name);
/* Why the last call on this thread failed: one line; lent until the next failure. */
const char *fb_torch_why(const fb_torch_lib *lib);

#endif
