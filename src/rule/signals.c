/* signals.c - the signals that are made of numbers alone, for whoever shows a rule a layer.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"

#include "base/number.h"
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
    for (int64_t i = 0; fb_ops_has_numbers(ops) && i < kv_heads * m; i++)
        u[i] = fb_philox_f32(
            chance.seed, chance.stream, (uint64_t)layer, (uint64_t)(i / m),
            (uint64_t)position_of(position, i / m, i % m), (uint64_t)chance.drawer);
    out = fb_from_host(ops, FB_F32, 2, (int64_t[]){kv_heads, m}, u);
    fb_free(u);
    return out;
}

fb_tensor fb_signal_block_random(fb_ops *ops, fb_chance chance, int64_t layer,
                                 int64_t heads, int64_t kv_heads, int64_t t, int64_t m,
                                 int32_t *const *position)
{
    const int64_t group = heads / kv_heads;
    float *u = fb_alloc(FB_ACCOUNT_scratch, (size_t)(heads * t * m) * sizeof *u);
    fb_tensor out;

    if (u == NULL) return no_memory(ops, "random numbers");
    for (int64_t i = 0; fb_ops_has_numbers(ops) && i < heads * t * m; i++) {
        const int64_t head = i / (t * m), query = m - t + i / m % t, j = i % m;
        const int64_t asks = position_of(position, head / group, query);

        /* what is not seen is drawn for nobody */
        u[i] = j > query
                   ? 0.5F
                   : fb_philox_f32(chance.seed, chance.stream, (uint64_t)layer,
                                   (uint64_t)head,
                                   (uint64_t)position_of(position, head / group, j),
                                   (uint64_t)(chance.drawer + asks));
    }
    out = fb_from_host(ops, FB_F32, 3, (int64_t[]){heads, t, m}, u);
    fb_free(u);
    return out;
}

fb_tensor fb_signal_window(fb_ops *ops, fb_tensor window, fb_tensor rows, int64_t n,
                           int64_t most)
{
    const int64_t heads = fb_size(ops, rows, 0), t = fb_size(ops, rows, 1);
    const int64_t m = fb_size(ops, rows, 2), unseen = n - m;
    const int64_t first = fb_larger(0, n - most - (m - t));
    fb_tensor all;

    if (first >= t) return window;
    fb_scope_open(ops);
    all = fb_narrow(ops, rows, 1, first, t - first);
    if (unseen > 0)
        all = fb_cat(ops, all,
                     fb_full(ops, 3, (int64_t[]){heads, t - first, unseen}, 0), 2);
    if (window.id != 0) all = fb_cat(ops, window, all, 1);
    all = fb_persist(ops, FB_ACCOUNT_signals, all);
    fb_release(ops, window);
    fb_scope_close(ops);
    return all;
}
