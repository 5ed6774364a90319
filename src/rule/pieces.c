/* pieces.c - scores by pieces of the text, for rules that choose whole pieces.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"

#include <flexbudget/rule.h>

enum { ROWS = 0, COLUMNS = 1 };

fb_tensor fb_pieces(fb_ops *ops, fb_tensor x, int64_t first, int64_t size, double fill)
{
    const int64_t rows = fb_size(ops, x, ROWS), n = fb_size(ops, x, COLUMNS);
    int64_t before, pieces, after;

    if (size < 1 || first < 0) {
        fb_ops_refuse(ops, fb_fail(FB_DEFECT, "fb_pieces: pieces of %lld from %lld on",
                                   (long long)size, (long long)first));
        return FB_NONE;
    }
    before = first % size;
    pieces = (before + n + size - 1) / size;
    after = pieces * size - before - n;
    if (before > 0)
        x = fb_cat(ops, fb_full(ops, 2, (int64_t[]){rows, before}, fill), x, COLUMNS);
    if (after > 0)
        x = fb_cat(ops, x, fb_full(ops, 2, (int64_t[]){rows, after}, fill), COLUMNS);
    return fb_reshape(ops, x, 3, (int64_t[]){rows, pieces, size});
}

fb_tensor fb_from_pieces(fb_ops *ops, fb_tensor x, int64_t first, int64_t n)
{
    const int64_t size = fb_size(ops, x, 2), all = fb_size(ops, x, 1) * size;
    const fb_tensor rows = fb_reshape(ops, x, 2, (int64_t[]){fb_size(ops, x, 0), all});

    if (fb_ops_status(ops) != FB_OK || size == 0) return rows;
    return fb_narrow(ops, rows, COLUMNS, first % size, n);
}
