/* paged.c - pages of large values with small keys stay.
 *
 *     score[g, j]  =  || v[g, j] ||_2  /  || k[g, j] ||_2
 *
 * Keys that attract attention tend to be short (`knorm`); a value adds as much as it is
 * long. What the paper does with the score: of a prompt single tokens leave, each head its
 * own, but for the first page and the last (under `protect: published`); that is this rule.
 * While answering whole pages leave; `paged_whole` does it to a prompt.
 *
 * Reads    keys, values.
 * Source   Chitty-Venkata et al. 2025, "PagedEviction: Structured Block-wise KV Cache Pruning
 *          for Efficient Large Language Model Inference", arXiv:2509.04377; what is kept of a
 *          prompt, and the 1e-8, as in its pruner for vLLM, which also keeps the n mod 16
 *          tokens behind the last page.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { CHANNELS = 2 };
static const double LEAST = 1e-8; /* added to the length of a key */

struct paged {
    int64_t page;
};

static const fb_param paged_params[] = {
    FB_INT(struct paged, page, 16, 0, 4096, "vLLM's pages, as in the authors' code",
           "first and last tokens kept under `protect: published`"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct paged *paged = params;

    choices->reads = FB_READS_KEYS | FB_READS_VALUES;
    choices->sink = paged->page;
    choices->recent = paged->page;
}

static fb_tensor length(fb_ops *ops, fb_tensor x)
{
    return fb_sqrt(ops, fb_sum(ops, fb_mul(ops, x, x), CHANNELS));
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, LEAST);
    const fb_tensor keys = fb_add(ops, length(ops, see->keys), least, 1);

    (void)params;
    return fb_div(ops, length(ops, see->values), keys);
}

const fb_rule fb_rule_paged = {
    FB_RULE_HEAD,
    .name = "paged",
    .summary = "large values behind small keys",
    .family = "mixed",
    .source = "Chitty-Venkata et al. 2025, arXiv:2509.04377",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = paged_params,
    .params_bytes = sizeof(struct paged),
    .choose = choose,
    .score = score,
};
