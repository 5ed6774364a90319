/* random.h - numbers that can be made in any order: Philox4x64-10.
 *
 * Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", SC11. The number
 * for (seed, stream, layer, head, position, event) is a function of them alone, so it
 * does not depend on threads, order, or what else runs. xoshiro256** for tasks and
 * statistics is declared in <flexbudget/task.h>.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_RANDOM_H
#define FB_BASE_RANDOM_H

#include <stdint.h>

void fb_philox(const uint64_t counter[4], const uint64_t key[2], uint64_t out[4]);
/* Uniform in (0, 1) from 23 bits, exact in f32: (bits + 0.5) / 2^23. */
float fb_philox_f32(uint64_t seed, uint64_t stream, uint64_t layer, uint64_t head,
                    uint64_t position, uint64_t event);

#endif
