/* entropy_chunk.c - chunks stay whole, but of those that one entry carries a few entries.
 *
 * The text is cut at multiples of `size`. Of a chunk with token scores s (summed over kv
 * heads, lifted to 0 where negative):
 *
 *     mean s,      H = - sum p ln(p + 1e-8) / ln(entries),   p = s / (sum s + 1e-8)
 *
 * Chunks with mean >= the median of means and H < the median of entropies keep their best
 * `spiky` entries, the others all. The best chunks by mean stay first; room that is left
 * goes to the best entries of those cut. Medians are the lower of two middle ones.
 *
 * Protected entries count with the highest score of the layer + 1, as in kvpress.
 *
 * Source   EntropyGatedChunkKVPress of kvpress 0.5.5 (no paper).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { CHUNKS = 1, PLACES = 2 };
static const double SMALL = 1e-8;

struct entropy_chunk {
    int64_t size, spiky;
};

static const fb_param entropy_chunk_params[] = {
    FB_INT(struct entropy_chunk, size, 10, 2, 65536, "kvpress 0.5.5",
           "tokens of a chunk"),
    FB_INT(struct entropy_chunk, spiky, 4, 1, 65536, "kvpress 0.5.5",
           "entries of a chunk with one high score; fewer than size"),
    FB_PARAM_END,
};

static fb_status check(const void *params)
{
    const struct entropy_chunk *chunk = params;

    if (chunk->spiky < chunk->size) return FB_OK;
    return fb_fail(FB_USAGE, "spiky=%lld cuts nothing from a chunk of size=%lld",
                   (long long)chunk->spiky, (long long)chunk->size);
}

static fb_tensor number(fb_ops *ops, double x)
{
    return fb_full(ops, 2, (int64_t[]){1, 1}, x);
}

/* [1, m]: scores summed over heads, with protected entries above all others. */
static fb_tensor complete(fb_ops *ops, const fb_select_input *in)
{
    const int64_t n = fb_size(ops, in->scores, 1), behind = in->m - in->first - n;
    const double heads = (double)in->kv_heads;
    const fb_tensor all =
        fb_reshape(ops, in->scores, 2, (int64_t[]){1, in->kv_heads * n});
    const fb_tensor most = fb_reshape(ops, fb_amax(ops, all, 1), 2, (int64_t[]){1, 1});
    const fb_tensor top = fb_scale(ops, fb_add(ops, most, number(ops, 1), 1), heads);
    fb_tensor row = fb_reshape(ops, fb_sum(ops, in->scores, 0), 2, (int64_t[]){1, n});

    if (in->first > 0)
        row = fb_cat(ops,
                     fb_add(ops, fb_full(ops, 2, (int64_t[]){1, in->first}, 0), top, 1),
                     row, 1);
    if (behind > 0)
        row =
            fb_cat(ops, row,
                   fb_add(ops, fb_full(ops, 2, (int64_t[]){1, behind}, 0), top, 1), 1);
    return row;
}

/* [1, chunks] from 0 to 1; x, there [1, chunks, size]: scores, 1 where there is an entry;
 * count [1, chunks]. A single entry has none. */
static fb_tensor entropy(fb_ops *ops, fb_tensor x, fb_tensor there, fb_tensor count)
{
    const int64_t column[] = {1, fb_size(ops, x, CHUNKS), 1};
    const fb_tensor deepest = fb_amax(ops, fb_scale(ops, x, -1), PLACES);
    const fb_tensor lift = fb_maximum(ops, deepest, number(ops, 0));
    const fb_tensor s =
        fb_mul(ops, fb_add(ops, x, fb_reshape(ops, lift, 3, column), 1), there);
    const fb_tensor sum = fb_add(ops, fb_sum(ops, s, PLACES), number(ops, SMALL), 1);
    const fb_tensor p = fb_div(ops, s, fb_reshape(ops, sum, 3, column));
    const fb_tensor small = fb_full(ops, 1, (int64_t[]){1}, SMALL);
    const fb_tensor ln = fb_log(ops, fb_add(ops, p, small, 1));
    const fb_tensor h = fb_scale(ops, fb_sum(ops, fb_mul(ops, p, ln), PLACES), -1);
    const fb_tensor is_one = fb_less(ops, count, number(ops, 1.5));
    const fb_tensor most = fb_add(ops, fb_log(ops, count), is_one, 1);
    const fb_tensor share = fb_maximum(ops, fb_div(ops, h, most), number(ops, 0));
    const fb_tensor capped =
        fb_where(ops, fb_less(ops, number(ops, 1), share), number(ops, 1), share);

    return fb_where(ops, is_one, number(ops, 0), capped);
}

/* [1, 1], the lower one of two. */
static fb_tensor median(fb_ops *ops, fb_tensor row)
{
    const int64_t at = fb_size(ops, row, 1) / 2;

    return fb_narrow(ops, fb_gather(ops, row, fb_topk(ops, row, at + 1)), 1, at, 1);
}

/* [1, chunks]: entries of a chunk that come before those cut. */
static fb_tensor quotas(fb_ops *ops, fb_tensor mean, fb_tensor x, fb_tensor there,
                        fb_tensor count, const struct entropy_chunk *chunk)
{
    const fb_tensor h = entropy(ops, x, there, count);
    const fb_tensor is_low = fb_less(ops, mean, median(ops, mean));
    const fb_tensor is_spiky = fb_less(ops, h, median(ops, h));

    return fb_where(ops, is_low, number(ops, (double)chunk->size),
                    fb_where(ops, is_spiky, number(ops, (double)chunk->spiky),
                             number(ops, (double)chunk->size)));
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const struct entropy_chunk *chunk = params;
    const int64_t size = chunk->size, n = fb_size(ops, in->scores, 1);
    const fb_tensor row = complete(ops, in);
    const fb_tensor ones = fb_full(ops, 2, (int64_t[]){1, in->m}, 1);
    const fb_tensor x = fb_pieces(ops, row, 0, size, 0);
    const fb_tensor there = fb_pieces(ops, ones, 0, size, 0);
    const fb_tensor count = fb_sum(ops, there, PLACES);
    const fb_tensor mean = fb_div(ops, fb_sum(ops, x, PLACES), count);
    const fb_tensor quota = quotas(ops, mean, x, there, count, chunk);
    const int64_t chunks = fb_size(ops, x, CHUNKS), column[] = {1, chunks, 1};
    const fb_tensor place = fb_reshape(ops, fb_rank(ops, mean), 3, column);
    const fb_tensor inside = fb_rank(ops, fb_pieces(ops, row, 0, size, FB_LOWEST));
    const fb_tensor early = fb_add(ops, inside, place, (double)size);
    const fb_tensor late =
        fb_add(ops, fb_pieces(ops, fb_rank(ops, row), 0, size, 0),
               fb_full(ops, 3, (int64_t[]){1, 1, 1}, (double)(chunks * size)), 1);
    const fb_tensor stays = fb_less(ops, inside, fb_reshape(ops, quota, 3, column));
    const fb_tensor order = fb_scale(ops, fb_where(ops, stays, early, late), -1);
    const fb_tensor own =
        fb_narrow(ops, fb_from_pieces(ops, order, 0, in->m), 1, in->first, n);

    return fb_add(ops, fb_full(ops, 2, (int64_t[]){in->kv_heads, 1}, 0), own, 1);
}

const fb_rule fb_rule_entropy_chunk = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "entropy_chunk",
    .summary = "chunks stay whole, a few entries of those with one high score",
    .family = "mixed",
    .source = "kvpress 0.5.5 EntropyGatedChunkKVPress",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = entropy_chunk_params,
    .params_bytes = sizeof(struct entropy_chunk),
    .check = check,
    .select = select,
};
