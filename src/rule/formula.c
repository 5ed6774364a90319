/* formula.c - pieces of formulas that several rules share.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

fb_tensor fb_block_mean(fb_ops *ops, const fb_signals *see)
{
    const int64_t t = fb_size(ops, see->block_attention, 1);
    const int64_t flat[] = {see->heads, t * see->m};
    const int64_t shape[] = {see->kv_heads, t, see->m};
    const fb_tensor mean =
        fb_group_mean(ops, see, fb_reshape(ops, see->block_attention, 2, flat));

    return fb_reshape(ops, mean, 3, shape);
}

fb_tensor fb_block_seen(fb_ops *ops, const fb_signals *see)
{
    const int64_t t = fb_size(ops, see->block_attention, 1);
    const fb_tensor query = fb_cumsum(ops, fb_full(ops, 2, (int64_t[]){1, t}, 1));
    const fb_tensor entry = fb_cumsum(ops, fb_full(ops, 2, (int64_t[]){1, see->m}, 1));
    const fb_tensor most = fb_add(ops, query, fb_full(ops, 1, (int64_t[]){1}, 1),
                                  (double)(see->m - t) + 0.5);

    return fb_less(ops, entry, fb_reshape(ops, most, 2, (int64_t[]){t, 1}));
}

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
