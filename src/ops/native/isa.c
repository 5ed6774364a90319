/* isa.c - which compiled version of the float loops this CPU gets.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

#include <string.h>

#define FB_ISA_TABLES(target)                                                          \
    extern const fb_isa_tiles fb_isa_tiles_##target;                                   \
    extern const fb_isa_rows fb_isa_rows_##target;                                     \
    extern const fb_isa_doubles fb_isa_doubles_##target

#define FB_ISA_ROW(target, has)                                                        \
    {                                                                                  \
        {#target, &fb_isa_tiles_##target, &fb_isa_rows_##target,                       \
         &fb_isa_doubles_##target},                                                    \
            has                                                                        \
    }

static bool always(void)
{
    return true;
}

struct choice {
    fb_isa isa;
    bool (*has)(void);
};

#if defined(__x86_64__)

FB_ISA_TABLES(plain);
FB_ISA_TABLES(avx2);
FB_ISA_TABLES(avx512);

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static const struct choice choices[] = {
    FB_ISA_ROW(avx512, has_avx512),
    FB_ISA_ROW(avx2, has_avx2),
    FB_ISA_ROW(plain, always),
};

#else

FB_ISA_TABLES(neon);

static const struct choice choices[] = {
    FB_ISA_ROW(neon, always),
};

#endif

enum { N_CHOICES = sizeof choices / sizeof choices[0] };

static const fb_isa *best(void)
{
    for (int i = 0; i < N_CHOICES; i++)
        if (choices[i].has()) return &choices[i].isa;
    return NULL; /* the last one is always there */
}

fb_status fb_native_isa(const fb_isa **out, const char *name)
{
    *out = name == NULL ? best() : NULL;
    if (name == NULL) return FB_OK;
    for (int i = 0; i < N_CHOICES; i++) {
        if (strcmp(name, choices[i].isa.name) != 0) continue;
        if (!choices[i].has())
            return fb_fail(FB_UNSUPPORTED, "this CPU has no '%s'; its best is '%s'",
                           name, best()->name);
        *out = &choices[i].isa;
        return FB_OK;
    }
    return fb_fail(FB_UNSUPPORTED, "unknown isa '%s'; the best here is '%s'", name,
                   best()->name);
}
