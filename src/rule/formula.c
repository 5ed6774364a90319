/* formula.c - pieces of formulas that several rules share.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

fb_tensor fb_standardise(fb_ops *ops, fb_tensor x, double least)
{
    const int64_t n = fb_size(ops, x, 0) * fb_size(ops, x, 1);
    const fb_tensor row = fb_reshape(ops, x, 2, (int64_t[]){1, n});
    const fb_tensor smallest = fb_full(ops, 1, (int64_t[]){1}, least);
    const fb_tensor deviation =
        fb_maximum(ops, fb_sqrt(ops, fb_var(ops, row, 1)), smallest);

    return fb_div(ops, fb_add(ops, x, fb_mean(ops, row, 1), -1), deviation);
}

fb_tensor fb_with_best_around(fb_ops *ops, fb_tensor x, int64_t first, int64_t last)
{
    const int64_t rows = fb_size(ops, x, 0), n = fb_size(ops, x, 1);
    const fb_tensor row = fb_reshape(ops, x, 2, (int64_t[]){1, rows * n});
    fb_tensor best;

    if (first == 0 && last == 0) return x;
    best = fb_amax(ops, row, 1);
    if (first > 0)
        x = fb_cat(ops,
                   fb_add(ops, fb_full(ops, 2, (int64_t[]){rows, first}, 0), best, 1),
                   x, 1);
    if (last > 0)
        x = fb_cat(ops, x,
                   fb_add(ops, fb_full(ops, 2, (int64_t[]){rows, last}, 0), best, 1),
                   1);
    return x;
}

enum { OTHERS = 2, CHANNELS = 2 };
static const double SHORTEST = 1e-12; /* length of a key */

/* 1 for the last 1 of each row of x [.., m, m] of zeros and ones. */
static fb_tensor last_of(fb_ops *ops, const fb_signals *see, fb_tensor x)
{
    const int64_t shape[] = {see->kv_heads, see->m, 1};
    const fb_tensor all = fb_reshape(ops, fb_sum(ops, x, OTHERS), 3, shape);
    const fb_tensor before = fb_less(ops, fb_cumsum(ops, x), all);

    return fb_add(ops, x, fb_mul(ops, x, before), -1);
}

/* Keys of length 1. */
static fb_tensor directions(fb_ops *ops, const fb_signals *see)
{
    const fb_tensor square = fb_sum(ops, fb_mul(ops, see->keys, see->keys), CHANNELS);
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SHORTEST);
    const fb_tensor length = fb_maximum(ops, fb_sqrt(ops, square), least);

    return fb_div(ops, see->keys,
                  fb_reshape(ops, length, 3, (int64_t[]){see->kv_heads, see->m, 1}));
}

fb_tensor fb_redundancy(fb_ops *ops, const fb_signals *see, double alike,
                        bool spare_last)
{
    const int64_t g = see->kv_heads, m = see->m;
    const fb_tensor here = fb_reshape(ops, see->position, 3, (int64_t[]){g, m, 1});
    const fb_tensor there = fb_reshape(ops, see->position, 3, (int64_t[]){g, 1, m});
    const fb_tensor other =
        fb_add(ops, fb_less(ops, here, there), fb_less(ops, there, here), 1);
    const fb_tensor unit = directions(ops, see);
    fb_tensor s = fb_mul(ops, fb_bmm(ops, unit, false, unit, true), other), spared;

    if (spare_last) {
        spared = fb_less(ops, fb_full(ops, 1, (int64_t[]){1}, alike), s);
        spared = last_of(ops, see, spared);
        s = fb_add(ops, s, fb_mul(ops, s, spared), -1);
    }
    return fb_softmax(ops, fb_mean(ops, s, 1));
}
