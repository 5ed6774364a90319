/* span.c - every span of the text keeps the same share of its entries.
 *
 *     score of entry j  =  -(r + 1/2) / c
 *
 * with r its place among the c entries of its span, best first, protected ones before all
 * others, per head. So each span keeps c * share to the nearest entry, larger remainders
 * first, equal ones from the left. Spans are cut at multiples of `size`; the last may be
 * shorter.
 *
 * Source   kvpress 0.5.5 ChunkPress (at least one entry of every span, c * share rounded
 *          down), after Corallo and Papotti 2024, "FINCH: Prompt-guided Key-Value Cache
 *          Compression", arXiv:2408.00167. kvpress scores every span alone; here the inner
 *          rule scores the whole text, which is the same for a rule whose scores do not
 *          depend on other entries, such as knorm.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct span {
    int64_t size;
};

static const fb_param span_params[] = {
    FB_INT(struct span, size, 1024, 1, 1048576, "kvpress 0.5.5", "tokens of a span"),
    FB_PARAM_END,
};

/* [1, n, 1]: a number of each piece, all `x` but for the first and the last. */
static fb_tensor each(fb_ops *ops, int64_t n, double first, double x, double last)
{
    const int64_t middle[] = {1, n - 2, 1}, one[] = {1, 1, 1};
    fb_tensor out = fb_full(ops, 3, one, first);

    if (n > 2) out = fb_cat(ops, out, fb_full(ops, 3, middle, x), 1);
    return n > 1 ? fb_cat(ops, out, fb_full(ops, 3, one, last), 1) : out;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const int64_t size = ((const struct span *)params)->size;
    const int64_t n = fb_size(ops, in->scores, 1), behind = in->first + n;
    const fb_tensor pieces = fb_pieces(ops, in->scores, in->first, size, FB_LOWEST);
    const int64_t count = fb_size(ops, pieces, 1);
    const int64_t last = in->first / size * size + (count - 1) * size; /* its start */
    const double length = (double)smaller(size, in->m - last), c = (double)size;
    const double before =
        (double)(in->first % size) + 0.5; /* protected ones come first */
    const double after = (double)(smaller(last + size, in->m) - behind) + 0.5;
    const fb_tensor taken = count == 1 ? each(ops, 1, before + after - 0.5, 0, 0)
                                       : each(ops, count, before, 0.5, after);
    const fb_tensor lengths =
        count == 1 ? each(ops, 1, length, 0, 0) : each(ops, count, c, c, length);
    const fb_tensor place = fb_add(ops, fb_rank(ops, pieces), taken, 1);

    return fb_scale(ops, fb_from_pieces(ops, fb_div(ops, place, lengths), in->first, n),
                    -1);
}

const fb_rule fb_rule_span = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "span",
    .summary = "the same share of every span of the text",
    .family = "mixed",
    .source = "kvpress 0.5.5 ChunkPress",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = span_params,
    .params_bytes = sizeof(struct span),
    .select = select,
};
