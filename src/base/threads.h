/* threads.h - a small pool of threads that share loops.
 *
 * A loop over n items is cut into contiguous ranges, and a thread that has nothing to
 * do takes the next one. Which thread gets which range depends on who is faster, so a
 * body must give the same result whatever the ranges are. A waiting thread spins
 * briefly, then sleeps.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_THREADS_H
#define FB_BASE_THREADS_H

#include <flexbudget/error.h>
#include <stdint.h>

typedef struct fb_threads fb_threads;

/* A pool of `n` threads, the caller included; 0: as many CPUs as affinity and cgroup
 * allow.
 */
FB_MUST_USE fb_status fb_threads_new(fb_threads **out, int n);
void fb_threads_free(fb_threads *threads); /* takes NULL */
int fb_threads_count(const fb_threads *threads);
/* How many fb_threads_new(n) would make. */
int fb_threads_of(int n);
int fb_threads_available(void); /* what affinity and cgroup allow, at least 1 */

typedef void fb_loop(void *context, int64_t begin, int64_t end, int thread);

/* Runs `body` over [0, n) in ranges, several for each thread; returns when all are
 * done. Ranges are begun in ascending order. Called from one thread at a time, not
 * from inside a body. */
void fb_parallel(fb_threads *threads, int64_t n, fb_loop *body, void *context);

#endif
