/* cpus.h - how many CPUs a cgroup allows; apart from threads.c to be tested.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_CPUS_H
#define FB_BASE_CPUS_H

/* CPUs that the quotas allow, rounded up; 0: no limit, or nothing found.
 * `membership` is a file like /proc/self/cgroup, `mount` a folder like /sys/fs/cgroup.
 * A limit of any group from the process's own up to the root counts, version 1 or 2. */
int fb_cpus_of_cgroup(const char *membership, const char *mount);

#endif
