/* formula.c - pieces of formulas that several rules share.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"

fb_tensor fb_number(fb_ops *ops, double value)
{
    return fb_full(ops, 1, (int64_t[]){1}, value);
}

fb_tensor fb_identity_matrix(fb_ops *ops, int64_t n)
{
    const fb_tensor place = fb_rank(ops, fb_full(ops, 2, (int64_t[]){1, n}, 0));
    const fb_tensor column = fb_reshape(ops, place, 2, (int64_t[]){n, 1});
    const fb_tensor distance = fb_abs(ops, fb_add(ops, place, column, -1));

    return fb_less(ops, distance, fb_number(ops, 0.5));
}

fb_tensor fb_unit_rows(fb_ops *ops, fb_tensor x)
{
    const int64_t shape[] = {fb_size(ops, x, 0), fb_size(ops, x, 1), 1};
    const fb_tensor norm = fb_sqrt(ops, fb_sum(ops, fb_mul(ops, x, x), 2));
    const fb_tensor length = fb_maximum(ops, norm, fb_number(ops, 1e-12));

    return fb_div(ops, x, fb_reshape(ops, length, 3, shape));
}

fb_tensor fb_column(fb_ops *ops, const double *x, int64_t n)
{
    const int64_t shape[] = {n, 1};
    float *column = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *column);
    fb_tensor out;

    if (column == NULL) {
        fb_ops_refuse(ops, fb_fail(FB_NO_MEMORY, "no memory for a column"));
        return FB_NONE;
    }
    for (int64_t i = 0; i < n; i++)
        column[i] = (float)x[i];
    out = fb_from_host(ops, FB_F32, 2, shape, column);
    fb_free(column);
    return out;
}

/* The i-th query head of every kv head after the other: each alone is as wide as the model
 * for every entry. */
fb_tensor fb_output_norm(fb_ops *ops, const fb_signals *see, int64_t m)
{
    const int64_t d = see->head_dim, g = see->kv_heads, r = see->heads / g;
    const int64_t width = fb_size(ops, see->output_weight, 1);
    const fb_tensor values = fb_narrow(ops, see->values, 1, 0, m);
    const fb_tensor weight =
        fb_reshape(ops, see->output_weight, 3, (int64_t[]){g, r * width, d});
    fb_tensor sum = FB_NONE;

    for (int64_t i = 0; i < r; i++) {
        fb_tensor norm;

        fb_scope_open(ops);
        norm = fb_bmm(ops, values, false, fb_narrow(ops, weight, 1, i * width, width),
                      true);
        norm = fb_sum(ops, fb_abs(ops, norm), 2);
        if (i > 0) norm = fb_add(ops, sum, norm, 1);
        sum = fb_scope_return(ops, norm);
    }
    return fb_scale(ops, sum, 1 / (double)r);
}

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
