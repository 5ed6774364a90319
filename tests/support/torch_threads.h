/* torch_threads.h - how many threads PyTorch's operators have, once it is loaded.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TESTS_TORCH_THREADS_H
#define FB_TESTS_TORCH_THREADS_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* PyTorch asks OpenMP how many there are, at every call. */
static inline void torch_set_threads(int threads)
{
    void *found = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    void (*set)(int);

    if (found == NULL) return;
    memcpy(&set, &found, sizeof set);
    set(threads);
}

#endif
