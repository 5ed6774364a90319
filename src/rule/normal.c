/* normal.c - normally distributed numbers, for rules that make a random projection.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"

#include "base/random.h"
#include "ops/elementary.h"

enum { MOST = 1 << 20 }; /* rows, columns */

static const double TURN = 6.283185307179586477;
static const uint64_t STREAM =
    UINT64_MAX; /* of no document: those of `random` differ */

/* Of number i of a kv head, the two uniform ones that make it (Box and Muller 1958):
 * sqrt(-2 ln u) cos(2 pi w). */
static void draw(float *length, float *cosine, uint64_t seed, int64_t layer,
                 int64_t head, int64_t i)
{
    const double u = (double)fb_philox_f32(seed, STREAM, (uint64_t)layer,
                                           (uint64_t)head, (uint64_t)i, 0);
    const double w = (double)fb_philox_f32(seed, STREAM, (uint64_t)layer,
                                           (uint64_t)head, (uint64_t)i, 1);

    *length = (float)(-2 * fb_log_d(u));
    *cosine = (float)fb_cos_d(TURN * w);
}

fb_tensor fb_normal(fb_ops *ops, const fb_signals *see, uint64_t seed, int64_t rows,
                    int64_t columns)
{
    const int64_t shape[] = {see->kv_heads, rows, columns};
    fb_tensor length, cosine;
    int64_t n, all;
    float *host;

    if (rows < 0 || columns < 0 || rows > MOST || columns > MOST) {
        fb_ops_refuse(ops, fb_fail(FB_DEFECT, "fb_normal: %lld x %lld numbers",
                                   (long long)rows, (long long)columns));
        return FB_NONE;
    }
    n = rows * columns;
    all = see->kv_heads * n;
    host = fb_alloc(FB_ACCOUNT_scratch, (size_t)all * 2 * sizeof *host);
    if (host == NULL) {
        fb_ops_refuse(ops, fb_fail(FB_NO_MEMORY, "no memory for random numbers"));
        return FB_NONE;
    }
    for (int64_t i = 0; i < all; i++)
        draw(&host[i], &host[all + i], seed, see->layer, i / n, i % n);
    length = fb_from_host(ops, FB_F32, 3, shape, host);
    cosine = fb_from_host(ops, FB_F32, 3, shape, host + all);
    fb_free(host);
    return fb_mul(ops, fb_sqrt(ops, length), cosine);
}
