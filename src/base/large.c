/* large.c - see pool.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/large.h"

#include <pthread.h>
#include <stdlib.h>

/* Sanitizers watch freed memory: there nothing is kept. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FB_LARGE_KEPT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FB_LARGE_KEPT 0
#endif
#endif
#ifndef FB_LARGE_KEPT
#define FB_LARGE_KEPT 96
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept {
    void *block;
    size_t capacity;
} kept[FB_LARGE_KEPT + 1];
static int n_kept;

static void forget(int i)
{
    kept[i] = kept[--n_kept];
}

static int best_fit(size_t size)
{
    int best = -1;

    for (int i = 0; i < n_kept; i++)
        if (kept[i].capacity >= size && kept[i].capacity - size <= size / 4 &&
            (best < 0 || kept[i].capacity < kept[best].capacity))
            best = i;
    return best;
}

static void give_back(size_t size)
{
    for (size_t given = 0; n_kept > 0 && given < size; forget(n_kept - 1)) {
        given += kept[n_kept - 1].capacity;
        free(kept[n_kept - 1].block);
    }
}

void *fb_large_take(size_t size, size_t *capacity)
{
    void *block = NULL;
    int i;

    (void)pthread_mutex_lock(&lock);
    i = best_fit(size);
    if (i >= 0) {
        block = kept[i].block;
        *capacity = kept[i].capacity;
        forget(i);
    } else {
        give_back(size);
    }
    (void)pthread_mutex_unlock(&lock);
    return block;
}

bool fb_large_keep(void *block, size_t capacity)
{
    bool is_kept;

    (void)pthread_mutex_lock(&lock);
    is_kept = n_kept < FB_LARGE_KEPT;
    if (is_kept) kept[n_kept++] = (struct kept){block, capacity};
    (void)pthread_mutex_unlock(&lock);
    return is_kept;
}
