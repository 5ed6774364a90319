/* disturb.c - see disturb.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/disturb.h"

#include "base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIELDS = 8, IDLE = 3, IOWAIT = 4 }; /* user nice system idle iowait irq ... */

/* Ticks in which some CPU of the machine worked, since it was started; -1: unknown. */
static int64_t busy_ticks(void)
{
    FILE *file = fopen("/proc/stat", "re");
    char line[512];
    int64_t busy = 0;
    char *at = line + 3; /* behind "cpu" */

    if (file == NULL) return -1;
    if (fgets(line, sizeof line, file) == NULL) busy = -1;
    (void)fclose(file);
    for (int i = 0; busy >= 0 && i < FIELDS; i++) {
        const int64_t ticks = strtoll(at, &at, 10);

        if (i != IDLE && i != IOWAIT) busy += ticks;
    }
    return busy;
}

void fb_disturbance_begin(fb_disturbance *d)
{
    double load[1];

    *d = (fb_disturbance){.load = -1, .other_cpus = -1};
    if (getloadavg(load, 1) == 1) d->load = load[0];
    d->cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    d->busy_ticks = busy_ticks();
    d->own_ns = fb_time_cpu_ns();
    d->begin_ns = fb_time_ns();
}

void fb_disturbance_end(fb_disturbance *d)
{
    const double seconds = (double)(fb_time_ns() - d->begin_ns) * 1e-9;
    const double own = (double)(fb_time_cpu_ns() - d->own_ns) * 1e-9;
    const double second = (double)sysconf(_SC_CLK_TCK);
    const int64_t now = busy_ticks();

    /* Ticks are coarse: in less than a second they say nothing. */
    if (now < 0 || d->busy_ticks < 0 || seconds < 1) return;
    d->other_cpus = ((double)(now - d->busy_ticks) / second - own) / seconds;
    if (d->other_cpus < 0) d->other_cpus = 0;
}

bool fb_disturbance_matters(const fb_disturbance *d, int threads)
{
    return d->other_cpus > 0.1 && d->other_cpus + threads > d->cpus + 0.1;
}
