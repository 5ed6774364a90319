/* identity.h - which file a model is: its SHA-256, and where such things are kept.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_IDENTITY_H
#define FB_MODEL_IDENTITY_H

#include "base/hash.h"
#include "base/text.h"

/* Adds the program's folder `leaf` in the user's cache folder. */
void fb_cache_folder(fb_text *path, const char *leaf);

/* The SHA-256 of the file at `path`, whose `n` bytes are at `bytes`. It is remembered
 * in the cache folder by device, inode, size and times; a cache folder that cannot be
 * used only costs the time. */
void fb_identity(const char *path, const void *bytes, size_t n, char out[FB_HASH_HEX]);

#endif
