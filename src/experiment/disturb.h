/* disturb.h - what else the machine did while something was timed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_DISTURB_H
#define FB_EXPERIMENT_DISTURB_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fb_disturbance {
    double load;       /* of the minute before; negative: unknown */
    double other_cpus; /* that others kept busy, in the mean; negative: unknown */
    int cpus;          /* of the machine */
    int64_t busy_ticks, own_ns, begin_ns;
} fb_disturbance;

void fb_disturbance_begin(fb_disturbance *d);
void fb_disturbance_end(fb_disturbance *d);
/* Whether `threads` threads had to share CPUs with others. */
bool fb_disturbance_matters(const fb_disturbance *d, int threads);

#endif
