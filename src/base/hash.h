/* hash.h - SHA-256 (FIPS 180-4), in lower-case hex where people see it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_HASH_H
#define FB_BASE_HASH_H

#include <flexbudget/error.h>
#include <stddef.h>
#include <stdint.h>

enum { FB_HASH_HEX = 65 }; /* 64 digits and the final zero */

typedef struct fb_hash {
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64];
} fb_hash;

void fb_hash_init(fb_hash *hash);
void fb_hash_add(fb_hash *hash, const void *bytes, size_t n);
void fb_hash_hex(const fb_hash *hash, char out[FB_HASH_HEX]); /* `hash` may go on */
void fb_hash_bytes(const void *bytes, size_t n, char out[FB_HASH_HEX]);
/* A fast 64-bit checksum of `n` bytes: tells accidents apart, not attackers. Four lanes of
 * h = (h ^ word) * odd, so that memory is the limit; for large arrays that go into a hash. */
uint64_t fb_checksum(const void *bytes, size_t n);
FB_MUST_USE fb_status fb_hash_file(const char *path, char out[FB_HASH_HEX]);

#endif
