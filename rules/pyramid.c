/* pyramid.c - low layers keep more entries than high ones, on a straight line.
 *
 *     k[l]  =  most - l * (most - least) / (layers - 1)
 *     least =  k / beta,   most = 2 * k - least;   if most > m:  most = m,  least = 2 * k - m
 *
 * with k entries a head under an equal split, m in the cache; protected ones are inside of
 * k[l]. A layer below its protected entries and one more is lifted there and the others
 * give in proportion; remainders by size, so that the total is exact.
 *
 * form=kvpress: the line starts at m less the protected entries (there the window) at
 * most, each layer is rounded half to even, and where the line does not lie between the
 * protected entries and m all layers keep k.
 *
 * Source   Cai et al. 2024, "PyramidKV: Dynamic KV Cache Compression based on Pyramidal
 *          Information Funneling", arXiv:2406.02069; with the window inside of the budget
 *          and a real step, as kvpress 0.5.5 (in KVCache-Factory the window is on top, and
 *          a truncated step spends more than the budget).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { EXACT, KVPRESS };

struct pyramid {
    int64_t beta, form;
};

static const fb_param pyramid_params[] = {
    FB_INT(struct pyramid, beta, 20, 1, 10000, "paper, kvpress 0.5.5",
           "an equal split over the highest layer's share: how steep"),
    FB_WORD(struct pyramid, form, EXACT, "exact|kvpress", "FlexBudget",
            "every budget on the line, or equal shares where it is too small"),
    FB_PARAM_END,
};

/* Entries a head of layer l: most - l * step. */
struct line {
    double most, least, step;
};

static struct line draw(const struct pyramid *pyramid, const fb_spread_input *in)
{
    const double k = (double)in->k;
    const int64_t room = pyramid->form == EXACT ? in->m : in->m - in->n_protected;
    struct line line = {.least = k / (double)pyramid->beta};

    line.most = 2 * k - line.least;
    if (line.most >= (double)room) {
        line.most = (double)room;
        line.least = 2 * k - line.most;
    }
    if (in->n_layers > 1)
        line.step = (line.most - line.least) / (double)(in->n_layers - 1);
    return line;
}

static int64_t half_to_even(double x)
{
    const int64_t whole = (int64_t)x;
    const double rest = x - (double)whole;

    return rest > 0.5 || (rest == 0.5 && whole % 2 != 0) ? whole + 1 : whole;
}

/* Whether the rounded line has the right total; then that is the answer. */
static bool round_line(const fb_spread_input *in, int64_t *k_out)
{
    int64_t total = 0;

    for (int64_t l = 0; l < in->n_layers; l++) {
        total += half_to_even(in->room[l]);
        for (int64_t g = 0; g < in->kv_heads; g++)
            k_out[l * in->kv_heads + g] = half_to_even(in->room[l]);
    }
    return total == in->n_layers * in->k;
}

static fb_status spread(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out)
{
    const struct pyramid *pyramid = params;
    const struct line line = draw(pyramid, in);

    (void)ops;
    for (int64_t l = 0; l < in->n_layers; l++)
        in->room[l] = line.most - (double)l * line.step;
    if (pyramid->form == KVPRESS) {
        if (line.most < line.least || line.least < (double)in->n_protected)
            return FB_OK; /* equal shares, as they came */
        if (round_line(in, k_out)) return FB_OK;
    }
    return fb_spread_by_weight(in, in->room, k_out);
}

const fb_rule fb_rule_pyramid = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "pyramid",
    .summary = "more entries for lower layers, on a straight line",
    .family = "position",
    .source = "Cai et al. 2024, arXiv:2406.02069",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = pyramid_params,
    .params_bytes = sizeof(struct pyramid),
    .spread = spread,
};
