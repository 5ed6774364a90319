/* pool.h - memory of one result: taken piece by piece, given back at once.
 *
 * Sticky: after the first failure nothing more is given; ask once with
 * fb_pool_status(). Inside the store only.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STORE_POOL_H
#define FB_STORE_POOL_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct fb_pool {
    struct block *blocks;
    bool failed;
} fb_pool;

/* `n` zeroed items of `size` bytes, aligned for anything; NULL once it failed. */
void *fb_pool_take(fb_pool *pool, size_t n, size_t size);
const char *fb_pool_text(fb_pool *pool, const char *text); /* a copy; takes NULL */
FB_MUST_USE fb_status fb_pool_status(const fb_pool *pool);
void fb_pool_clear(fb_pool *pool);

#endif
