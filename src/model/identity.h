/* identity.h - which file a model is: its SHA-256, and where such things are kept.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_IDENTITY_H
#define FB_MODEL_IDENTITY_H

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

/* Adds the program's folder `leaf` in the user's cache folder. */
void fb_cache_folder(fb_text *path, const char *leaf);

/* The SHA-256 of a mapped file, or of bytes that are none's (their state is all 0). It is
 * remembered in the cache folder by the file's state; a cache folder that cannot be used
 * only costs the time. */
void fb_identity(const fb_map *map, char out[FB_HASH_HEX]);

#endif
