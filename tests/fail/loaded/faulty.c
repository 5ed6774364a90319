/* faulty.c - rules whose structs are well and whose functions are not.
 *
 * Each breaks one promise. The allocations and what chooses go around any rule, or are one.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

static void reads_keys(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
}

static fb_tensor ones(fb_ops *ops, const fb_signals *see, double value)
{
    return fb_full(ops, 2, (const int64_t[]){see->kv_heads, see->m}, value);
}

static fb_tensor good(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return ones(ops, see, 1);
}

/* --- score --- */

static fb_tensor nan_in_the_last_layer(fb_ops *ops, const fb_signals *see,
                                       const void *params)
{
    (void)params;
    return fb_log(ops, ones(ops, see, see->layer == see->n_layers - 1 ? -1 : 1));
}

static fb_tensor wrong_shape(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)see, (void)params;
    return fb_full(ops, 2, (const int64_t[]){3, 7}, 1);
}

static fb_tensor nothing(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops, (void)see, (void)params;
    return FB_NONE;
}

static fb_tensor whole_numbers(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_topk(ops, ones(ops, see, 1), see->m);
}

static fb_tensor misused_operator(fb_ops *ops, const fb_signals *see,
                                  const void *params)
{
    (void)params;
    return fb_mul(ops, see->keys, fb_full(ops, 2, (const int64_t[]){3, 7}, 1));
}

static fb_tensor undeclared_signal(fb_ops *ops, const fb_signals *see,
                                   const void *params)
{
    (void)params;
    return fb_sum(ops, fb_mul(ops, see->values, see->values), 2);
}

static fb_tensor made_up_handle(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)see, (void)params;
    return fb_sqrt(ops, (fb_tensor){123456789});
}

static fb_tensor kept_too_long(fb_ops *ops, const fb_signals *see, const void *params)
{
    static fb_tensor kept;
    const fb_tensor old = kept;

    (void)params;
    kept = ones(ops, see, 1);
    return see->layer == 0 ? kept : old;
}

static fb_tensor pieces_of_nothing(fb_ops *ops, const fb_signals *see,
                                   const void *params)
{
    (void)params;
    return fb_amax(ops, fb_pieces(ops, ones(ops, see, 1), 0, 0, 0), 2);
}

/* --- state --- */

static void one_number(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
    choices->state_rows = 1;
}

static fb_tensor more_state(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_full(ops, 3, (const int64_t[]){see->kv_heads, 2, see->m}, 1);
}

/* --- choosing --- */

static fb_tensor nan_order(fb_ops *ops, const fb_select_input *in, const void *params)
{
    (void)params;
    return fb_log(ops, fb_add(ops, fb_scale(ops, in->scores, 0),
                              fb_full(ops, 1, (const int64_t[]){1}, 1), -1));
}

static fb_tensor short_order(fb_ops *ops, const fb_select_input *in, const void *params)
{
    (void)params;
    return fb_narrow(ops, in->scores, 1, 0, 3);
}

/* --- sharing --- */

static fb_status too_few(fb_ops *ops, const fb_share_input *in, const void *params,
                         int64_t *k_out)
{
    (void)ops, (void)params;
    for (int64_t g = 0; g < in->kv_heads; g++)
        k_out[g] = in->k - (g == 0);
    return FB_OK;
}

static fb_status no_status(fb_ops *ops, const fb_share_input *in, const void *params,
                           int64_t *k_out)
{
    (void)ops, (void)in, (void)params, (void)k_out;
    return (fb_status)77;
}

static fb_status ends_the_run(fb_ops *ops, const fb_share_input *in, const void *params,
                              int64_t *k_out)
{
    (void)ops, (void)in, (void)params, (void)k_out;
    return fb_fail(FB_STOPPED, "enough");
}

static fb_status refuses(fb_ops *ops, const fb_share_input *in, const void *params,
                         int64_t *k_out)
{
    (void)ops, (void)in, (void)params, (void)k_out;
    return fb_fail(FB_DEFECT, "what it needs is not there");
}

static fb_status far_too_many(fb_ops *ops, const fb_spread_input *in,
                              const void *params, int64_t *k_out)
{
    (void)ops, (void)params;
    for (int64_t i = 0; i < in->n_layers * in->kv_heads; i++)
        k_out[i] = INT64_MAX;
    return FB_OK;
}

static fb_status even(fb_ops *ops, const fb_spread_input *in, const void *params,
                      int64_t *k_out)
{
    (void)ops, (void)in, (void)params, (void)k_out;
    return FB_OK;
}

static fb_tensor measures_wrongly(fb_ops *ops, const fb_signals *see, fb_tensor score,
                                  const void *params)
{
    (void)see, (void)params;
    return fb_reshape(ops, score, 1, (const int64_t[]){7});
}

/* --- editing --- */

static fb_tensor fewer_values(fb_ops *ops, const fb_edit_input *in, const void *params)
{
    (void)params;
    return fb_narrow(ops, in->kept_values, 1, 0, 1);
}

static fb_tensor misused_edit(fb_ops *ops, const fb_edit_input *in, const void *params)
{
    (void)params;
    return fb_add(ops, in->kept_values, in->dropped_values, 1);
}

#define HEAD(name_)                                                                    \
    FB_RULE_HEAD, .name = #name_, .summary = "a rule for tests", .family = "key",      \
                  .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING
#define SCORES(function)                                                               \
    static const fb_rule function##_ = {HEAD(function), .choose = reads_keys,          \
                                        .score = (function)}
#define ALLOCATES(function, ...)                                                       \
    static const fb_rule function##_ = {HEAD(function), .kind = FB_KIND_ALLOCATION,    \
                                        .n_inner = 1, __VA_ARGS__}

SCORES(nan_in_the_last_layer);
SCORES(wrong_shape);
SCORES(nothing);
SCORES(whole_numbers);
SCORES(misused_operator);
SCORES(undeclared_signal);
SCORES(made_up_handle);
SCORES(kept_too_long);
SCORES(pieces_of_nothing);
static const fb_rule more_state_ = {HEAD(more_state), .choose = one_number,
                                    .score = good, .update = more_state};
static const fb_rule nan_order_ = {HEAD(nan_order), .choose = reads_keys, .score = good,
                                   .select = nan_order};
static const fb_rule short_order_ = {HEAD(short_order), .choose = reads_keys,
                                     .score = good, .select = short_order};
ALLOCATES(too_few, .share = too_few);
ALLOCATES(no_status, .share = no_status);
ALLOCATES(ends_the_run, .share = ends_the_run);
ALLOCATES(refuses, .share = refuses);
ALLOCATES(far_too_many, .spread = far_too_many);
#define EDITS(function)                                                                \
    static const fb_rule function##_ = {HEAD(function), .kind = FB_KIND_EDIT,          \
                                        .n_inner = 1, .edit = (function)}
EDITS(fewer_values);
EDITS(misused_edit);
ALLOCATES(measures_wrongly, .measure = measures_wrongly, .spread = even);

FB_EXPORT_RULES(&nan_in_the_last_layer_, &wrong_shape_, &nothing_, &whole_numbers_,
                &misused_operator_, &undeclared_signal_, &made_up_handle_,
                &kept_too_long_, &pieces_of_nothing_, &more_state_, &nan_order_,
                &short_order_, &too_few_, &no_status_, &ends_the_run_, &refuses_,
                &far_too_many_, &measures_wrongly_, &fewer_values_, &misused_edit_);
