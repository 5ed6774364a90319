/* signals.c - the signals that are made of numbers alone, for whoever shows a rule a layer.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"

#include "base/random.h"

static fb_tensor no_memory(fb_ops *ops, const char *what)
{
    fb_ops_refuse(ops, fb_fail(FB_NO_MEMORY, "no memory for %s", what));
    return FB_NONE;
}

static int64_t position_of(int32_t *const *position, int64_t kv_head, int64_t j)
{
    return position == NULL ? j : position[kv_head][j];
}

fb_tensor fb_signal_position(fb_ops *ops, int64_t kv_heads, int64_t m,
                             int32_t *const *position)
{
    float *p = fb_alloc(FB_ACCOUNT_scratch, (size_t)(kv_heads * m) * sizeof *p);
    fb_tensor out;

    if (p == NULL) return no_memory(ops, "positions");
    for (int64_t i = 0; i < kv_heads * m; i++)
        p[i] = (float)position_of(position, i / m, i % m);
    out = fb_from_host(ops, FB_F32, 2, (int64_t[]){kv_heads, m}, p);
    fb_free(p);
    return out;
}

fb_tensor fb_signal_random(fb_ops *ops, fb_chance chance, int64_t layer,
                           int64_t kv_heads, int64_t m, int32_t *const *position)
{
    float *u = fb_alloc(FB_ACCOUNT_scratch, (size_t)(kv_heads * m) * sizeof *u);
    fb_tensor out;

    if (u == NULL) return no_memory(ops, "random numbers");
    for (int64_t i = 0; i < kv_heads * m; i++)
        u[i] = fb_philox_f32(
            chance.seed, chance.stream, (uint64_t)layer, (uint64_t)(i / m),
            (uint64_t)position_of(position, i / m, i % m), (uint64_t)chance.drawer);
    out = fb_from_host(ops, FB_F32, 2, (int64_t[]){kv_heads, m}, u);
    fb_free(u);
    return out;
}
