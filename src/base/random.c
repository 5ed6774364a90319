/* random.c - Philox4x64-10 and xoshiro256**.
 *
 * Philox: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1,
 * 2, 3", SC11, section 3.3 and its constants. xoshiro256** and splitmix64: Blackman and
 * Vigna 2021, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4).
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/random.h"

#include <flexbudget/task.h>

__extension__ typedef unsigned __int128 wide; /* ISO C has no product of 128 bits */

/* --- Philox --- */

static uint64_t high_of(uint64_t a, uint64_t b)
{
    return (uint64_t)(((wide)a * b) >> 64);
}

void fb_philox(const uint64_t counter[4], const uint64_t key[2], uint64_t out[4])
{
    const uint64_t m0 = 0xD2E7470EE14C6C93u, m1 = 0xCA5A826395121157u;
    const uint64_t weyl0 = 0x9E3779B97F4A7C15u, weyl1 = 0xBB67AE8584CAA73Bu;
    uint64_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint64_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        const uint64_t high0 = high_of(m0, c0), low0 = m0 * c0;
        const uint64_t high1 = high_of(m1, c2), low1 = m1 * c2;

        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += weyl0;
        k1 += weyl1;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

float fb_philox_f32(uint64_t seed, uint64_t stream, uint64_t layer, uint64_t head,
                    uint64_t position, uint64_t event)
{
    const uint64_t counter[4] = {position, head, layer, event}, key[2] = {seed, stream};
    uint64_t out[4];

    fb_philox(counter, key, out);
    return ((float)(out[0] >> 41) + 0.5f) * 0x1p-23f;
}

/* --- xoshiro256** --- */

static uint64_t mix(uint64_t z) /* the finaliser of splitmix64; mix(0) is 0 */
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static uint64_t next(fb_random *random)
{
    uint64_t *s = random->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Stream 0 is plain splitmix64 of the seed; others start it somewhere else. */
void fb_random_seed(fb_random *random, uint64_t seed, uint64_t stream)
{
    uint64_t x = seed ^ mix(stream);

    for (int i = 0; i < 4; i++) {
        x += 0x9E3779B97F4A7C15u;
        random->state[i] = mix(x);
    }
}

/* The high half of a product: one number per draw, biased by less than n / 2^64. */
uint64_t fb_random_below(fb_random *random, uint64_t n)
{
    return high_of(next(random), n);
}

double fb_random_real(fb_random *random)
{
    return (double)(next(random) >> 11) * 0x1p-53;
}
