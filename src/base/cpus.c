/* cpus.c - the CPU quota of a container or a batch job.
 *
 * Linux kernel, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and
 * scheduler/sched-bwc.rst (cpu.cfs_quota_us). Inside a container the path in
 * /proc/self/cgroup may be the host's and not be visible; walking up ends at the root
 * of the mount, which then is the container's own group.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/cpus.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct quota {
    long long use, period; /* microseconds of CPU time in so many of the clock */
};

/* Reads the number or the two numbers of folder/name; what is not there stays. "max" is
 * no number. */
static void read_numbers(const char *folder, const char *name, long long *first,
                         long long *second)
{
    char path[PATH_MAX + 32], line[64] = "", *end;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "re");
    if (file == NULL) return;
    if (fgets(line, sizeof line, file) != NULL) {
        *first = strtoll(line, &end, 10);
        if (*end == ' ') *second = strtoll(end, NULL, 10);
    }
    fclose(file);
}

/* CPUs of one group's folder; 0: no limit. */
static int limit_of(const char *folder, bool is_v2)
{
    struct quota quota = {0, 0};
    long long unused = 0;

    if (is_v2) {
        read_numbers(folder, "cpu.max", &quota.use, &quota.period);
    } else {
        read_numbers(folder, "cpu.cfs_quota_us", &quota.use, &unused);
        read_numbers(folder, "cpu.cfs_period_us", &quota.period, &unused);
    }
    if (quota.use <= 0 || quota.period <= 0) return 0;
    if (quota.use / quota.period >= INT_MAX) return 0;
    return (int)(quota.use / quota.period + (quota.use % quota.period != 0));
}

/* The least limit from mount + group up to mount. `mount_length` bytes of `folder`
 * stay. */
static int walk_up(char *folder, size_t mount_length, bool is_v2)
{
    int least = 0;

    for (;;) {
        const int cpus = limit_of(folder, is_v2);
        char *slash = strrchr(folder + mount_length, '/');

        if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
        if (slash == NULL) return least;
        *slash = 0;
    }
}

/* One line "4:cpu,cpuacct:/group" (version 1) or "0::/group" (version 2). */
static int limit_of_line(char *line, const char *mount)
{
    char folder[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    bool is_v2;
    int mount_length, length;

    if (group == NULL) return 0;
    *group++ = 0;
    *controllers++ = 0;
    is_v2 = *controllers == 0;
    if (!is_v2 && strcmp(controllers, "cpu") != 0 &&
        strcmp(controllers, "cpu,cpuacct") != 0 &&
        strcmp(controllers, "cpuacct,cpu") != 0)
        return 0;
    if (strcmp(group, "/") == 0) group++;
    mount_length =
        snprintf(folder, sizeof folder, "%s%s%s", mount, is_v2 ? "" : "/", controllers);
    length = snprintf(folder, sizeof folder, "%s%s%s%s", mount, is_v2 ? "" : "/",
                      controllers, group);
    if (length < 0 || (size_t)length >= sizeof folder) return 0;
    return walk_up(folder, (size_t)mount_length, is_v2);
}

int fb_cpus_of_cgroup(const char *membership, const char *mount)
{
    char line[PATH_MAX];
    int least = 0;
    FILE *file = fopen(membership, "re");

    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        int cpus;

        line[strcspn(line, "\n")] = 0;
        cpus = limit_of_line(line, mount);
        if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
    }
    fclose(file);
    return least;
}
