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
/* {"program": ..., "cpu": ..., "isa": ..., "threads": ..., "libraries": {...}}; `weights`:
 * their form in memory, NULL: there are none. */
void fb_host_describe(const fb_host *host, const fb_ops *ops, const char *weights,
                      fb_text *out);
/* {"sqlite": "3.40.1", ...}: the libraries that are linked. */
void fb_host_libraries(fb_text *out);

#endif
