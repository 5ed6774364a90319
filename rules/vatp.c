/* vatp.c - a rule's score times the size of the value that would be read.
 *
 *     score[g, j]  =  inner score[g, j] * || v[g, j] ||_1
 *
 * Attention to an entry with a small value changes little. Meant for scores that are
 * amounts of attention (the paper: h2o, scissorhands); a score below 0 would turn around.
 *
 * Reads    values.
 * Source   Guo et al. 2024, "Attention Score is not All You Need for Token Importance
 *          Indicator in KV Cache Reduction: Value Also Matters", arXiv:2406.12335; the
 *          first 20 tokens, which the authors' code sets to the largest score, are a
 *          published protection here.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1, CHANNELS = 2 };

struct vatp {
    int64_t sink;
};

static const fb_param vatp_params[] = {
    FB_INT(struct vatp, sink, 20, 0, 4096, "authors' code",
           "first tokens kept under `protect: published`"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct vatp *vatp = params;

    choices->reads |= FB_READS_VALUES;
    if (vatp->sink > choices->sink) choices->sink = vatp->sink;
}

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const int64_t columns = fb_size(ops, inner[0], ENTRIES);
    const fb_tensor norm = fb_sum(ops, fb_abs(ops, see->values), CHANNELS);

    (void)params;
    return fb_mul(ops, inner[0], fb_narrow(ops, norm, ENTRIES, 0, columns));
}

const fb_rule fb_rule_vatp = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "vatp",
    .summary = "a rule's scores times the size of the values",
    .family = "mixed",
    .source = "Guo et al. 2024, arXiv:2406.12335",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .n_inner = 1,
    .params = vatp_params,
    .params_bytes = sizeof(struct vatp),
    .choose = choose,
    .wrap = wrap,
};
