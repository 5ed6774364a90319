/* learn.c - statistics of all queries so far, block by block, for rules that learn.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "rule/rule.h"

enum { TOKENS = 1 };

/* Tokens from the `skip`th on of a text of n. */
static int64_t beyond(int64_t n, int64_t skip)
{
    return fb_larger(n - skip, 0);
}

fb_tensor fb_block_queries(fb_ops *ops, const fb_signals *see, int64_t skip)
{
    const int64_t t = fb_size(ops, see->queries, TOKENS);
    const int64_t left = fb_smaller(t, beyond(see->n, skip));
    fb_tensor cosine, sine, queries;

    if (left == 0) return FB_NONE;
    fb_rotation(ops, see, see->next - t, 1, t, &cosine, &sine);
    queries = fb_rotate(ops, see->queries, cosine, sine, true);
    return fb_narrow(ops, queries, TOKENS, t - left, left);
}

double fb_block_share(const fb_signals *see, int64_t skip, int64_t n)
{
    return (double)n / (double)beyond(see->n, skip);
}

fb_tensor fb_mean_so_far(fb_ops *ops, const fb_signals *see, int64_t skip,
                         fb_tensor before, fb_tensor block, int64_t n)
{
    const double share = fb_block_share(see, skip, n);

    if (before.id == 0 || share == 1) return block;
    return fb_add(ops, before, fb_add(ops, block, before, -1), share);
}
