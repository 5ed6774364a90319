/* chunk.c - neighbours stay or go together.
 *
 * The text is cut at multiples of `size`; the score of a chunk is the mean of its entries'.
 * The best chunks stay whole while the budget has room, then
 *
 *     fill=token   the best entries of the next one,        fill=none   nothing.
 *
 * The best chunk stays in any case, as much of it as there is room for. Under heads=shared
 * scores are summed over kv heads, which then keep the same chunks. Protected entries come
 * first, one by one; a chunk that has some is judged by its other entries, or, under
 * cut=first, stays before the others (in kvpress the window has the highest score of all, so
 * that the chunk it begins in wins). cut=page also keeps the last chunk while it is not full:
 * with fill=none the chunks are pages of a paged cache, of which whole ones leave, but never
 * the one that is being written. (Streams would need pages that stay where they were written:
 * a chunk is cut by places in the cache, and a protected entry alone may break one.)
 *
 * Source   Liu et al. 2025, "ChunkKV: Semantic-Preserving KV Cache Compression for Efficient
 *          Long-Context LLM Inference", arXiv:2502.00299 (size 10); as ChunkKVPress of kvpress
 *          0.5.5, which counts chunks: floor(n_chunks * share), so it may keep more or less
 *          than the budget. It is chunk(rule, fill=none, cut=first) here.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { TOKEN, NONE };        /* fill */
enum { SHARED, OWN };        /* heads */
enum { SCORE, FIRST, PAGE }; /* cut */
enum { CHUNKS = 1, PLACES = 2 };

struct chunk {
    int64_t size, fill, heads, cut;
};

static const fb_param chunk_params[] = {
    FB_INT(struct chunk, size, 20, 1, 65536, "kvpress 0.5.5 (paper: 10)",
           "tokens of a chunk"),
    FB_WORD(struct chunk, fill, TOKEN, "token|none",
            "FlexBudget (paper, kvpress: none)",
            "what is done with room for less than a chunk"),
    FB_WORD(struct chunk, heads, SHARED, "shared|own", "paper, kvpress 0.5.5",
            "the same chunks in all heads of a layer, or each head its own"),
    FB_WORD(struct chunk, cut, SCORE, "score|first|page", "FlexBudget (kvpress: first)",
            "what becomes of chunks of which a part is protected"),
    FB_PARAM_END,
};

/* How many places of the first and of the last chunk are no columns. */
struct ends {
    int64_t first, last;
    bool is_first_cut, is_last_cut; /* by protection */
};

static struct ends ends_of(const fb_select_input *in, int64_t size, int64_t n)
{
    const int64_t behind = in->first + n;
    struct ends e = {.first = in->first % size,
                     .last = (size - behind % size) % size,
                     .is_first_cut = in->first % size > 0,
                     .is_last_cut = behind % size > 0 && behind < in->m};

    return e;
}

/* [rows, chunks] with `x` for chunk `at` of all rows. */
static fb_tensor put(fb_ops *ops, fb_tensor row, int64_t at, double x)
{
    const int64_t rows = fb_size(ops, row, 0), n = fb_size(ops, row, 1);
    const fb_tensor one = fb_full(ops, 2, (int64_t[]){rows, 1}, x);
    fb_tensor out = one;

    if (at > 0) out = fb_cat(ops, fb_narrow(ops, row, 1, 0, at), out, 1);
    if (at < n - 1)
        out = fb_cat(ops, out, fb_narrow(ops, row, 1, at + 1, n - at - 1), 1);
    return out;
}

/* [rows, chunks] mean of each chunk's columns. */
static fb_tensor means(fb_ops *ops, const fb_select_input *in, fb_tensor scores,
                       const struct chunk *chunk)
{
    const int64_t n = fb_size(ops, scores, 1);
    const struct ends e = ends_of(in, chunk->size, n);
    const fb_tensor ones = fb_full(ops, 2, (int64_t[]){1, n}, 1);
    const fb_tensor all = fb_pieces(ops, scores, in->first, chunk->size, 0);
    const fb_tensor there = fb_pieces(ops, ones, in->first, chunk->size, 0);
    fb_tensor mean = fb_div(ops, fb_sum(ops, all, PLACES), fb_sum(ops, there, PLACES));

    if (chunk->cut != SCORE && e.is_first_cut) mean = put(ops, mean, 0, -FB_LOWEST);
    if ((chunk->cut != SCORE && e.is_last_cut) || (chunk->cut == PAGE && e.last > 0))
        mean = put(ops, mean, fb_size(ops, mean, CHUNKS) - 1, -FB_LOWEST);
    return mean;
}

/* 1 for chunks at or before chunk `at` in the order of `place` [rows, chunks]. */
static fb_tensor counts_end(fb_ops *ops, fb_tensor place, int64_t at)
{
    const fb_tensor own = fb_narrow(ops, place, CHUNKS, at, 1);
    const fb_tensor one = fb_full(ops, 1, (int64_t[]){1}, 1);

    return fb_add(ops, one, fb_less(ops, place, own), -1);
}

/* [kv_heads, chunks]: 1 where k has room for the chunk and all better ones, and for the best
 * one. A chunk takes `size` entries, the first and the last as many as they have. */
static fb_tensor whole(fb_ops *ops, const fb_select_input *in, fb_tensor place,
                       const struct chunk *chunk, struct ends e)
{
    const int64_t one[] = {1, 1}, last = fb_size(ops, place, CHUNKS) - 1;
    const fb_tensor next = fb_add(ops, place, fb_full(ops, 2, one, 1), 1);
    fb_tensor k = fb_full(ops, 2, one, (double)in->k[0]);
    fb_tensor need = fb_scale(ops, next, (double)chunk->size);

    need = fb_add(ops, need, counts_end(ops, place, 0), -(double)e.first);
    need = fb_add(ops, need, counts_end(ops, place, last), -(double)e.last);
    for (int64_t g = 1; g < in->kv_heads; g++)
        k = fb_cat(ops, k, fb_full(ops, 2, one, (double)in->k[g]), 0);
    return fb_maximum(ops,
                      fb_add(ops, fb_full(ops, 2, one, 1), fb_less(ops, k, need), -1),
                      fb_less(ops, place, fb_full(ops, 2, one, 1)));
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const struct chunk *chunk = params;
    const int64_t n = fb_size(ops, in->scores, 1), heads = in->kv_heads;
    const fb_tensor scores =
        chunk->heads == OWN
            ? in->scores
            : fb_reshape(ops, fb_sum(ops, in->scores, 0), 2, (int64_t[]){1, n});
    const fb_tensor place = fb_rank(ops, means(ops, in, scores, chunk));
    const fb_tensor inside =
        fb_rank(ops, fb_pieces(ops, scores, in->first, chunk->size, FB_LOWEST));
    const int64_t chunks[] = {fb_size(ops, place, 0), fb_size(ops, place, CHUNKS), 1};
    const int64_t spread[] = {heads, fb_size(ops, place, CHUNKS), 1};
    const fb_tensor before =
        fb_scale(ops, fb_reshape(ops, place, 3, chunks), (double)chunk->size);
    fb_tensor order = fb_scale(ops, fb_add(ops, before, inside, 1), -1);

    order = fb_add(ops, fb_full(ops, 3, (int64_t[]){heads, 1, 1}, 0), order, 1);
    if (chunk->fill == NONE)
        order = fb_where(
            ops,
            fb_reshape(ops, whole(ops, in, place, chunk, ends_of(in, chunk->size, n)),
                       3, spread),
            order, fb_full(ops, 3, (int64_t[]){1, 1, 1}, FB_LOWEST));
    return fb_from_pieces(ops, order, in->first, n);
}

const fb_rule fb_rule_chunk = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "chunk",
    .summary = "neighbours stay or go together",
    .family = "mixed",
    .source = "Liu et al. 2025, arXiv:2502.00299",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = chunk_params,
    .params_bytes = sizeof(struct chunk),
    .select = select,
};
