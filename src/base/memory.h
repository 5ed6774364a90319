/* memory.h - every byte the program allocates, by account.
 *
 * The only caller of malloc and its kin. Each allocation names an account, so the
 * memory table of a report is measured and not computed. Blocks are aligned to 64
 * bytes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_MEMORY_H
#define FB_BASE_MEMORY_H

#include <flexbudget/error.h>
#include <stddef.h>
#include <stdint.h>

#define FB_ACCOUNT_LIST(X)                                                             \
    X(weights, "model weights")                                                        \
    X(kv, "keys and values")                                                           \
    X(rule_state, "state that a rule keeps per entry")                                 \
    X(signals, "attention signals and scores")                                         \
    X(scratch, "temporary tensors")                                                    \
    X(other, "everything else")

typedef enum fb_account {
#define FB_ACCOUNT_ENUM(name, meaning) FB_ACCOUNT_##name,
    FB_ACCOUNT_LIST(FB_ACCOUNT_ENUM)
#undef FB_ACCOUNT_ENUM
        FB_ACCOUNT_COUNT
} fb_account;

/* NULL when there is no memory (or the test below says so). `size` 0 gives a block. */
void *fb_alloc(fb_account account, size_t size);
void *fb_zalloc(fb_account account, size_t size);
/* Contents up to the smaller size are kept; on failure the old block stays. NULL `old`
 * is fb_alloc. The account is that of the old block. */
void *fb_realloc(fb_account account, void *old, size_t size);
void fb_free(void *block); /* takes NULL */
char *fb_strdup(const char *text);

/* Memory that others gave, say of a device, enters and leaves an account. */
void fb_memory_add(fb_account account, size_t bytes);
void fb_memory_drop(fb_account account, size_t bytes);

/* Bytes in use now, and the most since the last reset. Thread-safe. */
size_t fb_memory_now(fb_account account);
size_t fb_memory_peak(fb_account account);
void fb_memory_reset_peaks(void);

/* Peaks are also kept apart by phase, of which whoever enters one gives the number; the
 * first is 0. In one that was not entered since the last reset there is a peak of 0. */
enum { FB_MEMORY_PHASES = 4 };
void fb_memory_enter(int phase);
size_t fb_memory_peak_in(int phase, fb_account account);
const char *fb_account_name(fb_account account);

/* Tests: the n-th allocation from now fails, once (n = 1: the next); 0 turns it off. */
void fb_memory_fail_at(int64_t n);

/* a * b, or SIZE_MAX if that does not fit: such a request then fails. */
size_t fb_size_mul(size_t a, size_t b);

#endif
