/* memory.c - blocks with a header that remembers size and account.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"

#include "base/check.h"
#include "base/large.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 1 << 21 };

struct header {
    size_t size;
    size_t capacity; /* of a large block, the header included; 0: a small one */
    fb_account account;
};
_Static_assert(sizeof(struct header) <= ALIGNMENT, "the header fits before a block");

static atomic_size_t now[FB_ACCOUNT_COUNT];
static atomic_size_t peak[FB_MEMORY_PHASES][FB_ACCOUNT_COUNT];
static atomic_int at_work; /* the phase */
static _Atomic int64_t fail_in;

static struct header *header_of(void *block)
{
    return (struct header *)(void *)((char *)block - ALIGNMENT);
}

static void note_peak(int phase, fb_account account, size_t used)
{
    size_t high = atomic_load(&peak[phase][account]);

    while (used > high &&
           !atomic_compare_exchange_weak(&peak[phase][account], &high, used)) {
    }
}

static void charge(fb_account account, size_t size)
{
    note_peak(atomic_load(&at_work), account,
              atomic_fetch_add(&now[account], size) + size);
}

static int is_told_to_fail(void)
{
    return atomic_load(&fail_in) > 0 && atomic_fetch_sub(&fail_in, 1) == 1;
}

/* A kept block, or a fresh one on huge pages: with fewer misses of the TLB one sequence
 * decodes a quarter faster. */
static void *take_large(size_t size, size_t *capacity)
{
    void *base = fb_large_take(size, capacity);

    if (base != NULL) return base;
    *capacity = size;
    /* Not aligned_alloc, which wants a multiple of the alignment: here 2 MiB. */
    if (posix_memalign(&base, HUGE_PAGE, size) != 0) return NULL;
    (void)madvise(base, size, MADV_HUGEPAGE);
    return base;
}

void *fb_alloc(fb_account account, size_t size)
{
    size_t rounded, capacity = 0;
    void *base = NULL;

    FB_ASSERT(account < FB_ACCOUNT_COUNT);
    if (is_told_to_fail() || size > SIZE_MAX / 2) return NULL;
    rounded = (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (size >= HUGE_PAGE)
        base = take_large(rounded, &capacity);
    else if (posix_memalign(&base, ALIGNMENT, rounded) != 0)
        base = NULL;
    if (base == NULL) return NULL;
    *(struct header *)base = (struct header){size, capacity, account};
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
    struct header *header;

    if (block == NULL) return;
    header = header_of(block);
    atomic_fetch_sub(&now[header->account], header->size);
    if (header->capacity == 0 || !fb_large_keep(header, header->capacity)) free(header);
}

char *fb_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = fb_alloc(FB_ACCOUNT_other, size);

    return copy == NULL ? NULL : memcpy(copy, text, size);
}

void fb_memory_add(fb_account account, size_t bytes)
{
    charge(account, bytes);
}

void fb_memory_drop(fb_account account, size_t bytes)
{
    atomic_fetch_sub(&now[account], bytes);
}

size_t fb_memory_now(fb_account account)
{
    return atomic_load(&now[account]);
}

size_t fb_memory_peak(fb_account account)
{
    size_t most = 0;

    for (int p = 0; p < FB_MEMORY_PHASES; p++) {
        const size_t high = fb_memory_peak_in(p, account);

        if (high > most) most = high;
    }
    return most;
}

size_t fb_memory_peak_in(int phase, fb_account account)
{
    return atomic_load(&peak[phase][account]);
}

void fb_memory_enter(int phase)
{
    FB_ASSERT(phase >= 0 && phase < FB_MEMORY_PHASES);
    if (atomic_exchange(&at_work, phase) == phase) return;
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        note_peak(phase, (fb_account)a, atomic_load(&now[a]));
}

void fb_memory_reset_peaks(void)
{
    const int phase = atomic_load(&at_work);

    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
            atomic_store(&peak[p][a], p == phase ? atomic_load(&now[a]) : 0);
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
