/* cake_layers.c - layers with spread and restless attention keep more entries.
 *
 *     H = - sum_{h,i,j} A ln(A + 1e-10),      V = sum_{h,j} var_i A[h, i, j]
 *     k[l]  =  protected  +  share of the rest,   in proportion to  H^(1/tau1) * V^(1/tau2)
 *
 * over the rows i of the last `window` queries and the entries j before them.
 *
 * Reads    attention A of the last `window` queries.
 * Source   Qin et al. 2025, "CAKE: Cascading and Adaptive KV Cache Eviction with Layer
 *          Preferences", arXiv:2503.12491. tau = 1: the paper searches them for each model
 *          and budget. The code cuts shares to whole entries and spreads what is left or
 *          too much for a layer evenly; here remainders go by size and a surplus in
 *          proportion. In the code layers are cut again as each new one is read, which ends
 *          at the same shares. The score of the paper is the rule `cake`.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 1, ENTRIES = 2 };

struct cake_layers {
    int64_t window;
    double tau1, tau2;
};

static const fb_param cake_layers_params[] = {
    FB_INT(struct cake_layers, window, 32, 2, 4096, "authors' code",
           "how many of the last queries are looked at"),
    FB_REAL(struct cake_layers, tau1, 1, 0.01, 100, "authors' code",
            "the larger, the less the entropy counts"),
    FB_REAL(struct cake_layers, tau2, 1, 0.01, 100, "authors' code",
            "the larger, the less the variance counts"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct cake_layers *cake = params;

    choices->reads |= FB_READS_WINDOW_ATTENTION;
    if (choices->window < cake->window) choices->window = cake->window;
    if (choices->min_tokens < cake->window + 1) choices->min_tokens = cake->window + 1;
}

/* [1] of all elements. */
static fb_tensor total(fb_ops *ops, fb_tensor x)
{
    int64_t n = 1;

    for (int d = 0; d < fb_n_dims(ops, x); d++)
        n *= fb_size(ops, x, d);
    return fb_sum(ops, fb_reshape(ops, x, 2, (int64_t[]){1, n}), 1);
}

static fb_tensor measure(fb_ops *ops, const fb_signals *see, fb_tensor score,
                         const void *params)
{
    const struct cake_layers *cake = params;
    const int64_t rows = fb_size(ops, see->window_attention, QUERIES), w = cake->window;
    const fb_tensor small = fb_full(ops, 1, (int64_t[]){1}, 1e-10);
    const fb_tensor own = fb_narrow(ops, see->window_attention, QUERIES, rows - w, w);
    const fb_tensor a = fb_narrow(ops, own, ENTRIES, 0, see->m - w);
    const fb_tensor ln = fb_log(ops, fb_add(ops, a, small, 1));
    const fb_tensor entropy = fb_scale(ops, total(ops, fb_mul(ops, a, ln)), -1);
    const fb_tensor variance = total(ops, fb_var(ops, a, QUERIES));

    (void)score;
    return fb_exp(ops, fb_add(ops, fb_scale(ops, fb_log(ops, entropy), 1 / cake->tau1),
                              fb_log(ops, variance), 1 / cake->tau2));
}

const fb_rule fb_rule_cake_layers = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "cake_layers",
    .summary = "more entries for layers whose attention is spread and restless",
    .family = "attention",
    .source = "Qin et al. 2025, arXiv:2503.12491",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = cake_layers_params,
    .params_bytes = sizeof(struct cake_layers),
    .effort = "window",
    .choose = choose,
    .spread = fb_spread_rest_by_measure,
    .measure = measure,
};
