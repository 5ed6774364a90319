/* cursor.h - reads along bytes that nobody vouches for.
 *
 * Sticky: after the first read past the end, every later read gives 0 and moves
 * nothing; the owner asks `failed` once. Numbers are little-endian.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_CURSOR_H
#define FB_MODEL_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fb_cursor {
    const uint8_t *at;
    size_t left;
    bool failed;
} fb_cursor;

/* The next `n` bytes, skipped; NULL and failed if there are fewer. */
static inline const uint8_t *fb_cursor_skip(fb_cursor *c, uint64_t n)
{
    const uint8_t *at = c->at;

    if (c->failed || n > c->left) {
        c->failed = true;
        return NULL;
    }
    c->at += n;
    c->left -= n;
    return at;
}

/* A number of `n` bytes, n <= 8. */
static inline uint64_t fb_cursor_uint(fb_cursor *c, int n)
{
    const uint8_t *at = fb_cursor_skip(c, (uint64_t)n);
    uint64_t value = 0;

    for (int i = 0; at != NULL && i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

#endif
