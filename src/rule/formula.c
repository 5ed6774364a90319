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

/* Sums of the squares of the rows of x [B, n, d], as `shape`. */
static fb_tensor squares(fb_ops *ops, fb_tensor x, const int64_t *shape)
{
    return fb_reshape(ops, fb_sum(ops, fb_mul(ops, x, x), 2), 3, shape);
}

fb_tensor fb_square_distances(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    const int64_t batch = fb_size(ops, a, 0);
    const int64_t column[] = {batch, fb_size(ops, a, 1), 1};
    const int64_t row[] = {batch, 1, fb_size(ops, b, 1)};
    const fb_tensor sum = fb_add(ops, squares(ops, a, column), squares(ops, b, row), 1);
    const fb_tensor apart = fb_add(ops, sum, fb_bmm(ops, a, false, b, true), -2);

    return fb_maximum(ops, apart, fb_full(ops, 1, (int64_t[]){1}, 0));
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
