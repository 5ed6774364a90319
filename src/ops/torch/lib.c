/* lib.c - opens PyTorch, and says in one sentence why not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/lib.h"

#include "base/file.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fb_torch_lib the_lib;
static bool is_open;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* --- opening it --- */

/* The text of dlerror without its path and in one line. */
static const char *why_not(char *out, size_t n)
{
    const char *text = dlerror();

    (void)snprintf(out, n, "%s", text == NULL ? "no reason was given" : text);
    out[strcspn(out, "\n")] = '\0';
    return out;
}

static bool is_cut(const char *directory, const char *name)
{
    char path[4200];

    return fb_torch_has(directory, name) &&
           snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path &&
           fb_file_is_cut_library(path);
}

static fb_status refuse_cut(const char *directory)
{
    static const char *const names[] = {
        "libc10.so",        "libtorch_cpu.so", "libtorch.so",     "libc10_cuda.so",
        "libtorch_cuda.so", "libc10_hip.so",   "libtorch_hip.so", "libtorch_xpu.so"};
    char name[64];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(name, sizeof name, "lib/%s", names[i]);
        if (is_cut(directory, name))
            return fb_fail(
                FB_UNSUPPORTED,
                "PyTorch in '%s' cannot be loaded: %s is cut short; install it "
                "again",
                directory, name);
    }
    return FB_OK;
}

static void *open_file(const char *directory, const char *name)
{
    char path[4200];

    if (!fb_torch_has(directory, name)) return NULL;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* In a process that has this PyTorch already, such as a Python interpreter, it is taken as
 * it is: neither its threads nor whom its symbols can be seen by are ours to change. */
static void *loaded(const char *directory)
{
    char path[4200];

    if (!fb_torch_has(directory, "lib/libtorch.so")) return NULL;
    (void)snprintf(path, sizeof path, "%.4100s/lib/libtorch.so", directory);
    return dlopen(path, RTLD_NOW | RTLD_NOLOAD);
}

/* libtorch.so pulls in the libraries of devices; alone, libtorch_cpu.so does without. */
static fb_status open_library(const char *directory, int threads, void **out)
{
    char reason[512] = "", text[16];

    *out = loaded(directory);
    if (*out != NULL) return FB_OK;
    FB_TRY(refuse_cut(directory));
    (void)snprintf(text, sizeof text, "%d", threads);
    /* Idle threads of its OpenMP wait for milliseconds: beside other work that made a step
     * eight times as long. What the user has set stays; a policy counts less than a number. */
    if (getenv("OMP_WAIT_POLICY") == NULL) (void)setenv("GOMP_SPINCOUNT", "10000", 0);
    if (setenv("OMP_NUM_THREADS", text, 1) != 0) /* read when its library is loaded */
        return fb_fail(FB_NO_MEMORY, "no memory for the environment");
    (void)open_file(directory, "lib/libtorch_global_deps.so");
    *out = open_file(directory, "lib/libtorch.so");
    if (*out == NULL) *out = open_file(directory, "lib/libtorch_cpu.so");
    if (*out != NULL) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "PyTorch in '%s' cannot be loaded: %s", directory,
                   why_not(reason, sizeof reason));
}

static const char *resolve(fb_torch_lib *lib, void *library)
{
    const char *missing = NULL;

#define RESOLVE(needed, result, name, arguments)                                       \
    *(void **)(void *)&lib->name = dlsym(library, #name);                              \
    if ((needed) && lib->name == NULL && missing == NULL) missing = #name;
    FB_TORCH_SYMBOLS(RESOLVE)
#undef RESOLVE
    *(void **)(void *)&lib->operator_new = dlsym(library, "_Znwm");
    if (lib->torch_new_stable_ivalue == NULL && lib->operator_new == NULL &&
        missing == NULL)
        missing = "operator new";
    return missing;
}

static fb_status check_version(fb_torch_lib *lib, const char *missing)
{
    const uint64_t abi =
        lib->aoti_torch_abi_version == NULL ? 0 : lib->aoti_torch_abi_version();
    const int major = (int)(abi >> 56), minor = (int)(abi >> 48 & 0xff);

    (void)snprintf(lib->version, sizeof lib->version, "%d.%d.%d", major, minor,
                   (int)(abi >> 40 & 0xff));
    if (abi == 0)
        return fb_fail(FB_UNSUPPORTED,
                       "PyTorch in '%s' has no stable C ABI; torch >= %d.%d is needed",
                       lib->directory, FB_TORCH_MAJOR, FB_TORCH_MINOR);
    if (major < FB_TORCH_MAJOR || (major == FB_TORCH_MAJOR && minor < FB_TORCH_MINOR))
        return fb_fail(FB_UNSUPPORTED,
                       "PyTorch %s in '%s' is too old; torch >= %d.%d is needed",
                       lib->version, lib->directory, FB_TORCH_MAJOR, FB_TORCH_MINOR);
    if (missing != NULL)
        return fb_fail(FB_UNSUPPORTED, "PyTorch %s in '%s' lacks the function %s",
                       lib->version, lib->directory, missing);
    return FB_OK;
}

/* Before 2.13 a failed call writes pages to stderr and there is no other way to ask. */
static void silence(void *library, const fb_torch_lib *lib)
{
    int *level = dlsym(library, "FLAGS_caffe2_log_level");

    if (level != NULL && lib->torch_exception_get_what_without_backtrace == NULL)
        *level = 4;
}

static fb_status open_once(const char *where, int threads)
{
    fb_torch_lib lib = {.version = ""};
    void *library;

    FB_TRY(fb_torch_find(where, lib.directory, sizeof lib.directory));
    FB_TRY(open_library(lib.directory, threads, &library));
    FB_TRY(check_version(&lib, resolve(&lib, library)));
    silence(library, &lib);
    lib.has_devices = fb_torch_has(lib.directory, "lib/libtorch_cuda.so") ||
                      fb_torch_has(lib.directory, "lib/libtorch_hip.so") ||
                      fb_torch_has(lib.directory, "lib/libtorch_xpu.so");
    the_lib = lib;
    is_open = true;
    return FB_OK;
}

fb_status fb_torch_open(const fb_torch_lib **out, const char *where, int threads)
{
    fb_status status = FB_OK;

    *out = NULL;
    (void)pthread_mutex_lock(&opening);
    if (!is_open) status = open_once(where, threads);
    (void)pthread_mutex_unlock(&opening);
    if (status != FB_OK) return status;
    the_lib.aoti_torch_grad_mode_set_enabled(false); /* holds for a thread */
    *out = &the_lib;
    return FB_OK;
}

const char *fb_torch_why(const fb_torch_lib *lib)
{
    static _Thread_local char line[400];
    const char *text = lib->torch_exception_get_what_without_backtrace == NULL
                           ? NULL
                           : lib->torch_exception_get_what_without_backtrace();
    char *end;

    if (text == NULL) return "PyTorch before 2.13 does not say why";
    /* behind the place in the source, which comes first and would be all that is left */
    if (strstr(text, "t allocate memory") != NULL) return "cannot allocate memory";
    (void)snprintf(line, sizeof line, "%s", text);
    line[strcspn(line, "\n")] = '\0';
    end = strstr(line, ". "); /* what follows is for people who build PyTorch */
    if (end != NULL) *end = '\0';
    return line;
}
