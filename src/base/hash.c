/* hash.c - SHA-256 (FIPS 180-4) in plain C.
 *
 * The eight working variables do not move: instead of shifting them down by one after
 * every round, a round is inlined eight times with the names rotated, and the schedule
 * of words is a ring of sixteen. A model of 90 MB takes half a second.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/hash.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint32_t constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int k)
{
    return (x >> k) | (x << (32 - k));
}

static uint32_t load_big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Makes word t of the schedule from the sixteen before it; `w` is a ring of those. */
static inline void extend(uint32_t w[16], unsigned t)
{
    const uint32_t far = w[(t + 1) & 15], near = w[(t + 14) & 15];
    const uint32_t s0 = rotate_right(far, 7) ^ rotate_right(far, 18) ^ (far >> 3);
    const uint32_t s1 = rotate_right(near, 17) ^ rotate_right(near, 19) ^ (near >> 10);

    w[t & 15] += s0 + w[(t + 9) & 15] + s1;
}

/* Round t, t modulo 8 known where this is inlined: variable a of round t is s[-t & 7],
 * b the one after it, and so on around. */
static inline void step(uint32_t s[8], unsigned t, uint32_t k)
{
    const uint32_t a = s[-t & 7], b = s[(1 - t) & 7], c = s[(2 - t) & 7];
    const uint32_t e = s[(4 - t) & 7], f = s[(5 - t) & 7], g = s[(6 - t) & 7];
    const uint32_t choice = g ^ (e & (f ^ g)), majority = (a & b) | (c & (a | b));
    const uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    const uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    const uint32_t sum = s[(7 - t) & 7] + s1 + choice + k;

    s[(3 - t) & 7] += sum;
    s[(7 - t) & 7] = sum + s0 + majority;
}

/* Eight rounds. With t known, the eight variables live in registers. */
static inline void eight(uint32_t s[8], const uint32_t w[8], const uint32_t k[8])
{
    step(s, 0, k[0] + w[0]);
    step(s, 1, k[1] + w[1]);
    step(s, 2, k[2] + w[2]);
    step(s, 3, k[3] + w[3]);
    step(s, 4, k[4] + w[4]);
    step(s, 5, k[5] + w[5]);
    step(s, 6, k[6] + w[6]);
    step(s, 7, k[7] + w[7]);
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[16], s[8];

    memcpy(s, state, sizeof s);
    for (unsigned t = 0; t < 16; t++)
        w[t] = load_big_endian(block + (size_t)4 * t);
    for (int round = 0;; round += 16) {
        eight(s, w, constant + round);
        eight(s, w + 8, constant + round + 8);
        if (round == 48) break;
        for (unsigned t = 0; t < 16; t++)
            extend(w, t);
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void fb_hash_init(fb_hash *hash)
{
    *hash = (fb_hash){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void fb_hash_add(fb_hash *hash, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    const size_t held = hash->n_bytes % 64;

    hash->n_bytes += n;
    if (held > 0) {
        const size_t take = n < 64 - held ? n : 64 - held;

        memcpy(hash->block + held, at, take);
        if (held + take < 64) return;
        compress(hash->state, hash->block);
        at += take;
        n -= take;
    }
    for (; n >= 64; at += 64, n -= 64)
        compress(hash->state, at);
    if (n > 0) memcpy(hash->block, at, n);
}

void fb_hash_hex(const fb_hash *hash, char out[FB_HASH_HEX])
{
    static const char digits[] = "0123456789abcdef";
    static const uint8_t padding[64] = {0x80};
    const uint64_t n_bits = hash->n_bytes * 8;
    fb_hash end = *hash;
    uint8_t length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(n_bits >> (56 - 8 * i));
    fb_hash_add(&end, padding, 1 + (119 - hash->n_bytes % 64) % 64);
    fb_hash_add(&end, length, sizeof length);
    for (int i = 0; i < 64; i++)
        out[i] = digits[end.state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out[64] = 0;
}

void fb_hash_bytes(const void *bytes, size_t n, char out[FB_HASH_HEX])
{
    fb_hash hash;

    fb_hash_init(&hash);
    fb_hash_add(&hash, bytes, n);
    fb_hash_hex(&hash, out);
}

static uint64_t mix(uint64_t h, const unsigned char *word)
{
    uint64_t w;

    memcpy(&w, word, sizeof w);
    h = (h ^ w) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio, odd */
    return h ^ (h >> 29);
}

uint64_t fb_checksum(const void *bytes, size_t n)
{
    enum { WORD = sizeof(uint64_t), LANES = 4, STEP = WORD * LANES };
    const unsigned char *at = bytes;
    uint64_t h[LANES] = {n, n + 1, n + 2, n + 3};
    unsigned char rest[STEP] = {0};

    for (; n >= STEP; n -= STEP, at += STEP)
        for (int lane = 0; lane < LANES; lane++)
            h[lane] = mix(h[lane], at + WORD * lane);
    if (n > 0) memcpy(rest, at, n);
    for (int lane = 0; lane < LANES; lane++)
        h[lane] = mix(h[lane], rest + WORD * lane);
    for (int lane = 1; lane < LANES; lane++) {
        unsigned char word[WORD];

        memcpy(word, &h[lane], WORD);
        h[0] = mix(h[0], word);
    }
    return h[0];
}

/* Read, not mapped: a file may shrink under a mapping, and that would be a signal. */
fb_status fb_hash_file(const char *path, char out[FB_HASH_HEX])
{
    fb_status status = FB_OK;
    uint8_t buffer[1 << 15];
    fb_hash hash;
    FILE *file;

    FB_TRY(fb_file_open(&file, path));
    fb_hash_init(&hash);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;)
        fb_hash_add(&hash, buffer, n);
    if (ferror(file)) status = fb_fail(FB_IO, "cannot read: %s", strerror(errno));
    fclose(file);
    fb_hash_hex(&hash, out);
    return status;
}
