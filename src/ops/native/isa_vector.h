/* isa_vector.h - vectors of FB_LANES floats, by the compiler's vector extensions.
 *
 * Loads and stores go through memcpy: any alignment, no aliasing question, and one
 * instruction each.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_ISA_VECTOR_H
#define FB_OPS_ISA_VECTOR_H

#include "ops/native/isa.h"

#include <string.h>

/* The Makefile sets these; an editor or a check that does not sees the plain target. */
#ifndef FB_TARGET
#define FB_TARGET   plain
#define FB_LANES    4
#define FB_SOFT_FMA 1
#endif

#ifdef FB_SOFT_FMA
#include "ops/native/soft_fma.h"
#define FB_FMA fb_soft_fmaf
#else
#define FB_FMA __builtin_fmaf
#endif

#define FB_PASTE_(a, b) a##_##b
#define FB_PASTE(a, b)  FB_PASTE_(a, b)
#define FB_TABLE(name)  FB_PASTE(name, FB_TARGET)
#define FB_INLINE       static inline __attribute__((always_inline))

/* FB_UNROLL before a loop of a constant number of steps: no loop is left of it.
 * FB_BY_FOUR: four steps at a time. */
#ifdef __clang__
#define FB_UNROLL  _Pragma("clang loop unroll(full)")
#define FB_BY_FOUR _Pragma("clang loop unroll_count(4)")
#else
#define FB_UNROLL  _Pragma("GCC unroll 16")
#define FB_BY_FOUR _Pragma("GCC unroll 4")
#endif

enum { LANES = FB_LANES };

typedef float vec __attribute__((vector_size(4 * FB_LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * FB_LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * FB_LANES)));
typedef uint16_t hvec __attribute__((vector_size(2 * FB_LANES)));

FB_INLINE vec load(const float *from)
{
    vec v;

    memcpy(&v, from, sizeof v);
    return v;
}

FB_INLINE uvec load_words(const uint32_t *from)
{
    uvec v;

    memcpy(&v, from, sizeof v);
    return v;
}

/* Byte `i` of each word, from the lowest on, times 2^(8 i), or of the last one as it is:
 * one instruction less than bringing it down. */
FB_INLINE vec floats_of_byte(uvec words, int i)
{
    const uvec byte = i == 3 ? words >> 24 : words & (0xffu << (8 * i));

    return __builtin_convertvector((ivec)byte, vec);
}

/* Numbers of 16 bits, each in 32. */
FB_INLINE uvec load_halves(const uint16_t *from)
{
    hvec v;

    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, uvec);
}

/* The first n < LANES; the others are 0. */
FB_INLINE uvec load_some_halves(const uint16_t *from, int64_t n)
{
    uint16_t lanes[FB_LANES] = {0};

    memcpy(lanes, from, (size_t)n * sizeof *from);
    return load_halves(lanes);
}

FB_INLINE void store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

/* The first n < LANES elements; the others are `rest`. */
FB_INLINE vec load_some(const float *from, int64_t n, float rest)
{
    float lanes[FB_LANES];

    for (int i = 0; i < LANES; i++)
        lanes[i] = rest;
    memcpy(lanes, from, (size_t)n * sizeof *from);
    return load(lanes);
}

FB_INLINE void store_some(float *to, vec v, int64_t n)
{
    memcpy(to, &v, (size_t)n * sizeof *to);
}

/* x in all lanes. x - 0 is x: compilers see one broadcast there, and a dozen
 * instructions in a loop over lanes. */
FB_INLINE vec all(float x)
{
    return x - (vec){0};
}

FB_INLINE vec fma_vec(vec a, vec b, vec c)
{
    vec v;

    for (int i = 0; i < LANES; i++)
        v[i] = FB_FMA(a[i], b[i], c[i]);
    return v;
}

FB_INLINE vec fma_all(float a, vec b, vec c)
{
    vec v;

    for (int i = 0; i < LANES; i++)
        v[i] = FB_FMA(a, b[i], c[i]);
    return v;
}

/* Lane by lane: yes where `mask` is all ones, no where it is 0. */
FB_INLINE vec choose(ivec mask, vec yes, vec no)
{
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

#endif
