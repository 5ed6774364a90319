/* merging.c - the values of what leaves are folded into those of what stays.
 *
 * Each entry j that leaves goes to the kept entry t whose key is most like its own:
 *
 *     w_j  =  max(0, cos_j) * |v_j| / (|v_j| + |v_t| + 1e-6)      cos_j = max over t
 *     v_t  <-  (v_t + sum w_j v_j) / (1 + sum w_j)                over the j that go to t
 *
 * where cos_j is at least `threshold` and among the highest share `fraction` of all that
 * leave. Keys stay as they are: keys of other positions are turned otherwise. A value that
 * nothing goes to keeps its bits. Of equal cosines the earlier entry is taken.
 *
 * Source   kvpress MergingPress, after Bolya et al. 2023, "Token Merging" (arXiv:2210.09461)
 *          and D2O, Wan et al. 2024 (arXiv:2406.13035). The share is counted; kvpress takes
 *          the quantile of the cosines, which is the same number where they differ.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static const double SMALLEST = 1e-6;

struct merging {
    double threshold, fraction;
};

static const fb_param merging_params[] = {
    FB_REAL(struct merging, threshold, 0, 0, 1, "kvpress",
            "least cosine of two keys whose values are merged"),
    FB_REAL(struct merging, fraction, 1, 0, 1, "kvpress",
            "share of what leaves that is merged, the most alike first"),
    FB_PARAM_END,
};

/* Lengths of the rows of x [1, n, d]: [1, n, 1]. */
static fb_tensor lengths(fb_ops *ops, fb_tensor x)
{
    const int64_t shape[] = {1, fb_size(ops, x, 1), 1};

    return fb_reshape(ops, fb_sqrt(ops, fb_sum(ops, fb_mul(ops, x, x), 2)), 3, shape);
}

static fb_tensor directions(fb_ops *ops, fb_tensor x)
{
    return fb_div(ops, x, fb_maximum(ops, lengths(ops, x), fb_number(ops, SMALLEST)));
}

/* 1 where a is at least b. */
static fb_tensor at_least(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    return fb_add(ops, fb_number(ops, 1), fb_less(ops, a, b), -1);
}

/* How many of n are at or above their quantile 1 - fraction. */
static int64_t share_of(double fraction, int64_t n)
{
    const double below = (1 - fraction) * (double)(n - 1);
    const int64_t whole = (int64_t)below;

    return n - whole - ((double)whole < below);
}

/* Which of the entries that leave are merged, by their cosines best [1, e, 1]. */
static fb_tensor are_merged(fb_ops *ops, const struct merging *merging, fb_tensor best)
{
    const int64_t shape[] = {1, fb_size(ops, best, 1), 1};
    const int64_t most = share_of(merging->fraction, shape[1]);
    const fb_tensor ok = at_least(ops, best, fb_number(ops, merging->threshold));
    fb_tensor place;

    if (most == shape[1]) return ok;
    place = fb_rank(ops, fb_reshape(ops, best, 2, shape));
    place = fb_reshape(ops, place, 3, shape);
    return fb_mul(ops, ok, fb_less(ops, place, fb_number(ops, (double)most)));
}

/* 1 at the first of the largest of each row of x [1, e, k], which is `best`; else 0. */
static fb_tensor first_best(fb_ops *ops, fb_tensor x, fb_tensor best)
{
    const fb_tensor all = at_least(ops, x, best);

    return fb_mul(ops, all, fb_less(ops, fb_cumsum(ops, all), fb_number(ops, 1.5)));
}

static fb_tensor edit(fb_ops *ops, const fb_edit_input *in, const void *params)
{
    const fb_tensor alike =
        fb_bmm(ops, directions(ops, in->dropped_keys), false,
               directions(ops, in->kept_keys), true); /* [1, e, k] */
    const int64_t column[] = {1, fb_size(ops, alike, 1), 1};
    const int64_t kept[] = {1, fb_size(ops, alike, 2), 1};
    const fb_tensor best = fb_reshape(ops, fb_amax(ops, alike, 2), 3, column);
    const fb_tensor target = first_best(ops, alike, best);
    const fb_tensor own = lengths(ops, in->dropped_values);
    const fb_tensor other =
        fb_bmm(ops, target, false, lengths(ops, in->kept_values), false);
    fb_tensor w, sum, merged;

    w = fb_mul(ops, fb_maximum(ops, best, fb_number(ops, 0)),
               are_merged(ops, params, best));
    w = fb_mul(
        ops, w,
        fb_div(ops, own,
               fb_add(ops, fb_add(ops, own, other, 1), fb_number(ops, SMALLEST), 1)));
    w = fb_mul(ops, target, w); /* [1, e, k] */
    sum = fb_reshape(ops, fb_sum(ops, w, 1), 3, kept);
    merged = fb_add(ops, in->kept_values,
                    fb_bmm(ops, w, true, in->dropped_values, false), 1);
    merged = fb_div(ops, merged, fb_add(ops, sum, fb_number(ops, 1), 1));
    return fb_where(ops, fb_less(ops, fb_number(ops, 0), sum), merged, in->kept_values);
}

const fb_rule fb_rule_merging = {
    FB_RULE_HEAD,
    .kind = FB_KIND_EDIT,
    .name = "merging",
    .summary =
        "values of what leaves are folded into the kept ones with keys like theirs",
    .family = "mixed",
    .source = "kvpress MergingPress, after arXiv:2210.09461 and arXiv:2406.13035",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = merging_params,
    .params_bytes = sizeof(struct merging),
    .edit = edit,
};
