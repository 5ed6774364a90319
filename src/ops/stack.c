/* stack.c - see stack.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/stack.h"

#include "base/memory.h"

static char nowhere; /* what a hollow stack gives */

enum { ALIGNMENT = 64, FIRST_BLOCK = 1 << 20, LARGEST_BLOCK = 64 << 20 };

static void drop_last(fb_stack *stack)
{
    const int last = --stack->n_blocks;

    if (stack->is_hollow)
        fb_memory_drop(FB_ACCOUNT_scratch, stack->blocks[last].size);
    else
        fb_free(stack->blocks[last].bytes);
}

/* Blocks above the one in use were too small: the new one is in their place. */
static int add_block(fb_stack *stack, size_t size)
{
    const int kept = stack->used > 0 ? stack->top + 1 : stack->top;
    size_t bytes = FIRST_BLOCK;
    int n;

    while (stack->n_blocks > kept) {
        if (2 * stack->blocks[stack->n_blocks - 1].size > bytes)
            bytes = 2 * stack->blocks[stack->n_blocks - 1].size;
        drop_last(stack);
    }
    n = stack->n_blocks;
    if (n > 0 && 2 * stack->blocks[n - 1].size > bytes)
        bytes = 2 * stack->blocks[n - 1].size;
    if (n == FB_STACK_BLOCKS) return 0;
    if (bytes > LARGEST_BLOCK) bytes = LARGEST_BLOCK;
    if (bytes < size) bytes = size;
    if (stack->is_hollow) {
        fb_memory_add(FB_ACCOUNT_scratch, bytes);
    } else {
        stack->blocks[n].bytes = fb_alloc(FB_ACCOUNT_scratch, bytes);
        if (stack->blocks[n].bytes == NULL) return 0;
    }
    stack->blocks[n].size = bytes;
    stack->blocks[n].below =
        n == 0 ? 0 : stack->blocks[n - 1].below + stack->blocks[n - 1].size;
    stack->n_blocks++;
    return 1;
}

static int fits(const fb_stack *stack, int block, size_t used, size_t size)
{
    return block < stack->n_blocks && stack->blocks[block].size - used >= size;
}

void *fb_stack_take(fb_stack *stack, size_t size)
{
    void *taken;

    if (size > SIZE_MAX / 4) return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!fits(stack, stack->top, stack->used, size)) {
        int next = stack->n_blocks == 0 ? 0 : stack->top + 1;

        while (next < stack->n_blocks && !fits(stack, next, 0, size))
            next++;
        if (next >= stack->n_blocks) {
            if (!add_block(stack, size)) return NULL;
            next = stack->n_blocks - 1;
        }
        stack->top = next;
        stack->used = 0;
    }
    taken = stack->is_hollow ? &nowhere : stack->blocks[stack->top].bytes + stack->used;
    stack->used += size;
    return taken;
}

size_t fb_stack_mark(const fb_stack *stack)
{
    return stack->n_blocks == 0 ? 0 : stack->blocks[stack->top].below + stack->used;
}

void fb_stack_cut(fb_stack *stack, size_t mark)
{
    if (stack->n_blocks == 0) return;
    while (stack->top > 0 && stack->blocks[stack->top].below > mark)
        stack->top--;
    stack->used = mark - stack->blocks[stack->top].below;
}

void fb_stack_clear(fb_stack *stack)
{
    while (stack->n_blocks > 0)
        drop_last(stack);
    *stack = (fb_stack){.is_hollow = stack->is_hollow};
}
