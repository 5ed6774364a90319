/* guard.h - the files of a model stay as they are while it is read.
 *
 * A model is read in several goes: facts, hash, tokenizer, weights. Others may write to its
 * files meanwhile; the parts would then belong to different models, and the hash to none.
 * So the state of every file is noted before the first go and compared after the last.
 * A change within one tick of the file system's clock can pass: times do not show it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_GUARD_H
#define FB_MODEL_GUARD_H

#include <flexbudget/error.h>
#include <stddef.h>

/* Start it zeroed. */
typedef struct fb_guard {
    struct fb_guarded *files;
    size_t n, capacity;
} fb_guard;

/* Notes a file that is about to be read, or that is not there and is to stay away. */
FB_MUST_USE fb_status fb_guard_add(fb_guard *guard, const char *path);
/* FB_IO naming the first file that changed, came or went since it was noted. */
FB_MUST_USE fb_status fb_guard_check(const fb_guard *guard);
void fb_guard_clear(fb_guard *guard);

#endif
