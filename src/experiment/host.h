/* host.h - the machine and the software that results were made with.
 *
 * The description has only what stays the same between two runs: it is found again by
 * its hash. What changes from minute to minute (free memory, load) is asked for apart.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_HOST_H
#define FB_EXPERIMENT_HOST_H

#include "base/text.h"
#include "ops/ops.h"

typedef struct fb_host {
    char cpu[128];    /* "AMD EPYC 9B14"; "unknown" */
    char kernel[128]; /* "Linux 6.1.0 x86_64" */
    char compiler[64];
    int cpus, cpus_available; /* of the machine; for this process */
    int64_t memory_bytes;     /* of the machine, or the container's limit */
    int64_t available_bytes;  /* now; 0: unknown */
    double load;              /* of the last minute; negative: unknown */
} fb_host;

void fb_host_read(fb_host *host);
/* How a model is computed with on it. */
typedef struct fb_host_use {
    const char *device;    /* "cpu", "torch:cuda:0" */
    const char *precision; /* of weights: "f32" */
    const char *weights;   /* their form in memory */
} fb_host_use;

/* {"program": ..., "cpu": ..., "backend": ..., "isa": ..., "threads": ..., "libraries":
 * {...}}, with the version of PyTorch and the names of its graphics processors where they
 * compute. `use` NULL: no model is open. */
void fb_host_describe(const fb_host *host, const fb_ops *ops, const fb_host_use *use,
                      fb_text *out);
/* "2.13.0" of the PyTorch that computes; "" if the program itself does. */
void fb_host_torch(const fb_ops *ops, char *out, size_t n);
/* {"sqlite": "3.40.1", ...}: the libraries that are linked. */
void fb_host_libraries(fb_text *out);

#endif
