/* threads.c - a pool that hands one loop at a time to all its threads.
 *
 * The caller writes the job and raises `round`; every worker sees the new round, takes
 * ranges until none is left, and takes itself off `pending`; the caller does the same
 * and waits for `pending` to be 0. Nobody touches the job of the next round before
 * that.
 *
 * A range is a part of what is left, so ranges get smaller towards the end: a thread
 * whose CPU is lent to another program for a while holds up the others by little.
 *
 * Both sides wait in the same way: look a few thousand times, then sleep on a condition
 * variable. Who is about to sleep says so first (`sleepers`, `caller_sleeps`), then
 * looks once more under the lock; who wakes changes what is waited for first, then
 * looks whether somebody sleeps. These accesses are sequentially consistent, so one of
 * the two sees the other, and the lock is taken only when somebody does sleep.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/threads.h"

#include "base/check.h"
#include "base/cpus.h"
#include "base/memory.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum {
    MOST_THREADS = 1024,
    SPINS = 2000, /* some 20 to 50 us: the time between two operators, not more */
};

struct worker {
    fb_threads *pool;
    pthread_t thread;
    int index; /* from 1; 0 is the caller */
};

struct fb_threads {
    int n; /* threads that exist, the caller included */
    int spins;
    bool quits;

    fb_loop *body; /* the job of this round */
    void *context;
    int64_t n_items;
    alignas(64) _Atomic int64_t next; /* the first item that nobody has taken */

    alignas(64) pthread_mutex_t lock;
    pthread_cond_t new_round, all_done;
    alignas(64) atomic_uint round;
    atomic_int sleepers;
    alignas(64) atomic_int pending;
    atomic_bool caller_sleeps;
    struct worker workers[]; /* n - 1 of them */
};

/* --- waiting --- */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void wait_for_round(fb_threads *pool, unsigned seen)
{
    for (int i = 0; i < pool->spins; i++) {
        if (atomic_load_explicit(&pool->round, memory_order_acquire) != seen) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->round) == seen)
        pthread_cond_wait(&pool->new_round, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void start_round(fb_threads *pool)
{
    atomic_store(&pool->pending, pool->n - 1);
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->new_round);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_all(fb_threads *pool)
{
    for (int i = 0; i < pool->spins; i++) {
        if (atomic_load_explicit(&pool->pending, memory_order_acquire) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->pending) != 0)
        pthread_cond_wait(&pool->all_done, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

static void finish_part(fb_threads *pool)
{
    if (atomic_fetch_sub(&pool->pending, 1) != 1) return;
    if (!atomic_load(&pool->caller_sleeps)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->all_done);
    pthread_mutex_unlock(&pool->lock);
}

/* --- working --- */

/* The next range, or false: a half of a fair share of what is left. */
static bool take_range(fb_threads *pool, int64_t *begin, int64_t *end)
{
    *begin = atomic_load_explicit(&pool->next, memory_order_relaxed);
    do {
        const int64_t share = (pool->n_items - *begin) / (2 * pool->n);

        if (*begin >= pool->n_items) return false;
        *end = *begin + (share > 1 ? share : 1);
    } while (!atomic_compare_exchange_weak_explicit(
        &pool->next, begin, *end, memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void run_ranges(fb_threads *pool, int t)
{
    int64_t begin, end;

    while (take_range(pool, &begin, &end))
        pool->body(pool->context, begin, end, t);
}

static void *work(void *argument)
{
    const struct worker *worker = argument;
    fb_threads *pool = worker->pool;

    for (unsigned round = 0;; round++) {
        wait_for_round(pool, round);
        if (pool->quits) return NULL;
        run_ranges(pool, worker->index);
        finish_part(pool);
    }
}

void fb_parallel(fb_threads *threads, int64_t n, fb_loop *body, void *context)
{
    FB_ASSERT(n >= 0);
    if (n == 0) return;
    if (n == 1 || threads->n == 1) {
        body(context, 0, n, 0);
        return;
    }
    threads->body = body;
    threads->context = context;
    threads->n_items = n;
    atomic_store_explicit(&threads->next, 0, memory_order_relaxed);
    start_round(threads);
    run_ranges(threads, 0);
    wait_for_all(threads);
}

/* --- making and ending --- */

/* Starts as many of the workers as the system lets us. Signals stay with the caller. */
static void start_workers(fb_threads *pool, int n)
{
    sigset_t all, old;

    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* of a mapped file: comes to whoever reads it */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (pool->n = 1; pool->n < n; pool->n++) {
        struct worker *worker = &pool->workers[pool->n - 1];

        *worker = (struct worker){.pool = pool, .index = pool->n};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

int fb_threads_of(int n)
{
    const int available = n == 0 ? fb_threads_available() : n;

    return n == 0 && available > MOST_THREADS ? MOST_THREADS : available;
}

fb_status fb_threads_new(fb_threads **out, int n)
{
    const int available = fb_threads_available();
    fb_threads *pool;

    *out = NULL;
    n = fb_threads_of(n);
    if (n < 1 || n > MOST_THREADS)
        return fb_fail(FB_USAGE, "%d threads; 1 to %d are possible", n, MOST_THREADS);
    pool =
        fb_zalloc(FB_ACCOUNT_other, sizeof *pool + (size_t)n * sizeof pool->workers[0]);
    if (pool == NULL) return fb_fail(FB_NO_MEMORY, "no memory for %d threads", n);
    /* Spinning on a CPU that another thread of the pool needs is worse than sleeping. */
    pool->spins = n <= available ? SPINS : 0;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->new_round, NULL);
    pthread_cond_init(&pool->all_done, NULL);
    start_workers(pool, n);
    *out = pool;
    return FB_OK;
}

void fb_threads_free(fb_threads *threads)
{
    if (threads == NULL) return;
    threads->quits = true;
    start_round(threads);
    for (int i = 0; i < threads->n - 1; i++)
        pthread_join(threads->workers[i].thread, NULL);
    pthread_cond_destroy(&threads->all_done);
    pthread_cond_destroy(&threads->new_round);
    pthread_mutex_destroy(&threads->lock);
    fb_free(threads);
}

int fb_threads_count(const fb_threads *threads)
{
    return threads->n;
}

int fb_threads_available(void)
{
    const int quota = fb_cpus_of_cgroup("/proc/self/cgroup", "/sys/fs/cgroup");
    cpu_set_t set;
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than the set has bits */

    if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
    if (quota > 0 && quota < n) n = quota;
    return n < 1 ? 1 : n;
}
