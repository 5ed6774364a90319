/* stack.h - memory for temporaries: taken on top, dropped together.
 *
 * A list of blocks that is never given back before the end, so after the first few
 * tokens nothing is allocated any more. Blocks double up to 64 MiB; what is larger has one
 * of its own size. A mark is a number of bytes below it. A hollow stack books the same
 * blocks to the same account, without memory.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_STACK_H
#define FB_OPS_STACK_H

#include <stdbool.h>
#include <stddef.h>

enum { FB_STACK_BLOCKS = 256 };

typedef struct fb_stack {
    struct {
        char *bytes;
        size_t size, below; /* `below`: bytes of all blocks under this one */
    } blocks[FB_STACK_BLOCKS];
    int n_blocks, top; /* the block in use */
    size_t used;       /* bytes of the top block */
    bool is_hollow;    /* counts what it would take, and takes nothing */
} fb_stack;

/* 64-byte aligned, undefined contents; NULL when there is no memory. Of a hollow stack an
 * address that is nobody's. */
void *fb_stack_take(fb_stack *stack, size_t size);
size_t fb_stack_mark(const fb_stack *stack);
void fb_stack_cut(fb_stack *stack, size_t mark);
void fb_stack_clear(fb_stack *stack);

#endif
