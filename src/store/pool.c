/* pool.c - blocks in a chain, the newest first.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/pool.h"

#include "base/memory.h"

#include <string.h>

enum { BLOCK_BYTES = 32 << 10, ALIGNMENT = 16 };

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(ALIGNMENT) char bytes[];
};

static struct block *add_block(fb_pool *pool, size_t least)
{
    const size_t size = least > BLOCK_BYTES ? least : BLOCK_BYTES;
    struct block *block = fb_alloc(FB_ACCOUNT_other, sizeof *block + size);

    if (block == NULL) return NULL;
    *block = (struct block){.next = pool->blocks, .size = size};
    pool->blocks = block;
    return block;
}

void *fb_pool_take(fb_pool *pool, size_t n, size_t size)
{
    const size_t bytes = fb_size_mul(n, size);
    struct block *block = pool->blocks;
    size_t rounded;
    void *piece;

    if (pool->failed || bytes > SIZE_MAX / 2) return pool->failed = true, NULL;
    rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (block == NULL || block->size - block->used < rounded)
        block = add_block(pool, rounded);
    if (block == NULL) return pool->failed = true, NULL;
    piece = block->bytes + block->used;
    block->used += rounded;
    return memset(piece, 0, bytes);
}

const char *fb_pool_text(fb_pool *pool, const char *text)
{
    const size_t size = text == NULL ? 0 : strlen(text) + 1;
    char *copy;

    if (text == NULL) return NULL;
    copy = fb_pool_take(pool, size, 1);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

fb_status fb_pool_status(const fb_pool *pool)
{
    if (pool->failed) return fb_fail(FB_NO_MEMORY, "no memory to read the results");
    return FB_OK;
}

void fb_pool_clear(fb_pool *pool)
{
    struct block *block = pool->blocks;

    while (block != NULL) {
        struct block *next = block->next;

        fb_free(block);
        block = next;
    }
    *pool = (fb_pool){0};
}
