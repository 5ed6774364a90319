/* state.c - what rules know between their scores: numbers of each entry (`update`) and of
 * each layer (`learn`), of a rule and the rules inside it, one behind the other.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/bound.h"

enum { STATE = 1 };

/* --- what entries carry --- */

static fb_status check_state(const fb_bound_rule *bound, fb_ops *ops, fb_tensor state,
                             const fb_signals *see)
{
    FB_TRY(fb_ops_status(ops));
    if (fb_is_f32(ops, state) && fb_n_dims(ops, state) == 3 &&
        fb_size(ops, state, 0) == see->kv_heads &&
        fb_size(ops, state, STATE) == bound->own_state &&
        fb_size(ops, state, 2) == see->m)
        return FB_OK;
    return fb_fail(FB_BUDGET,
                   "rule '%s' has declared %lld numbers of state an entry and returned "
                   "another shape; [%lld, %lld, %lld] was expected",
                   bound->rule->name, (long long)bound->own_state,
                   (long long)see->kv_heads, (long long)bound->own_state,
                   (long long)see->m);
}

static bool changes_at(const fb_bound_rule *bound, fb_moment moment)
{
    return bound->choices.updates_at_events == (moment == FB_AT_EVENT);
}

static fb_tensor update_own(const fb_bound_rule *bound, fb_ops *ops,
                            const fb_signals *see)
{
    const fb_signals own = fb_bound_rule_own_signals(bound, ops, see);
    const fb_tensor state =
        fb_bound_rule_made(bound, ops, bound->rule->update(ops, &own, bound->params));
    const fb_status status = check_state(bound, ops, state, see);

    if (status == FB_OK) return state;
    fb_ops_refuse(ops, status);
    return FB_NONE;
}

/* `out` grows by the rows of the rule and its inner ones. */
static fb_tensor update_all(const fb_bound_rule *bound, fb_ops *ops,
                            const fb_signals *see, fb_moment moment, fb_tensor out)
{
    if (bound->own_state > 0) {
        const fb_tensor state =
            changes_at(bound, moment) ? update_own(bound, ops, see) : see->state;

        out = out.id == 0 ? state : fb_cat(ops, out, state, STATE);
    }
    for (int i = 0; i < bound->n_inner; i++) {
        const fb_signals its = fb_bound_rule_inner_signals(bound, i, ops, see);

        out = update_all(bound->inner[i], ops, &its, moment, out);
    }
    return out;
}

fb_tensor fb_bound_rule_update(const fb_bound_rule *rule, fb_ops *ops,
                               const fb_signals *see, fb_moment moment)
{
    if (rule->choices.state_rows == 0) return FB_NONE;
    fb_scope_open(ops);
    return fb_bound_rule_end(
        rule, ops, fb_scope_return(ops, update_all(rule, ops, see, moment, FB_NONE)));
}

bool fb_bound_rule_updates_at_events(const fb_bound_rule *rule)
{
    bool updates = rule->own_state > 0 && rule->choices.updates_at_events;

    for (int i = 0; i < rule->n_inner; i++)
        updates = updates || fb_bound_rule_updates_at_events(rule->inner[i]);
    return updates;
}

/* --- what a layer's queries have taught --- */

static fb_status check_learnt(const fb_bound_rule *bound, fb_ops *ops, fb_tensor learnt,
                              const fb_signals *see, int64_t rows)
{
    FB_TRY(fb_ops_status(ops));
    if (fb_is_f32(ops, learnt) && fb_n_dims(ops, learnt) == 3 &&
        fb_size(ops, learnt, 0) == see->heads && fb_size(ops, learnt, STATE) == rows &&
        fb_size(ops, learnt, 2) == see->head_dim)
        return FB_OK;
    return fb_fail(
        FB_BUDGET,
        "rule '%s' has declared %lld rows of state a query head and returned "
        "another shape; [%lld, %lld, %lld] was expected",
        bound->rule->name, (long long)rows, (long long)see->heads, (long long)rows,
        (long long)see->head_dim);
}

static fb_tensor learn_own(const fb_bound_rule *bound, fb_ops *ops,
                           const fb_signals *see)
{
    const fb_choices own = {.layer_rows = bound->own_layer_rows,
                            .layer_squares = bound->own_layer_squares};
    const int64_t rows = fb_layer_state_rows(&own, see->head_dim);
    fb_signals first = *see;
    fb_tensor learnt;
    fb_status status;

    if (see->layer_state.id != 0)
        first.layer_state = fb_narrow(ops, see->layer_state, STATE, 0, rows);
    learnt =
        fb_bound_rule_made(bound, ops, bound->rule->learn(ops, &first, bound->params));
    status = check_learnt(bound, ops, learnt, see, rows);
    if (status == FB_OK) return learnt;
    fb_ops_refuse(ops, status);
    return FB_NONE;
}

/* `out` grows by the rows of the rule and its inner ones. */
static fb_tensor learn_all(const fb_bound_rule *bound, fb_ops *ops,
                           const fb_signals *see, fb_tensor out)
{
    if (bound->rule->learn != NULL) {
        const fb_tensor learnt = learn_own(bound, ops, see);

        out = out.id == 0 ? learnt : fb_cat(ops, out, learnt, STATE);
    }
    for (int i = 0; i < bound->n_inner; i++) {
        const fb_signals its = fb_bound_rule_inner_signals(bound, i, ops, see);

        out = learn_all(bound->inner[i], ops, &its, out);
    }
    return out;
}

fb_tensor fb_bound_rule_learn(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_signals *see)
{
    if (!fb_bound_rule_learns(rule)) return FB_NONE;
    fb_scope_open(ops);
    return fb_bound_rule_end(rule, ops,
                             fb_scope_return(ops, learn_all(rule, ops, see, FB_NONE)));
}

/* --- a context that was read at once --- */

fb_tensor fb_bound_rule_score_once(const fb_bound_rule *rule, fb_ops *ops,
                                   const fb_signals *see)
{
    const int64_t shape[] = {see->kv_heads, rule->choices.state_rows, see->m};
    fb_signals own = *see;

    if (rule->choices.state_rows > 0 && !fb_bound_rule_reads_block(rule)) {
        own.state = fb_full(ops, 3, shape, 0);
        own.state = fb_bound_rule_update(rule, ops, &own, FB_AFTER_BLOCK);
        if (fb_ops_status(ops) != FB_OK) return FB_NONE;
    }
    if (fb_bound_rule_updates_at_events(rule))
        own.state = fb_bound_rule_update(rule, ops, &own, FB_AT_EVENT);
    if (fb_bound_rule_learns(rule))
        own.layer_state = fb_bound_rule_learn(rule, ops, &own);
    if (fb_ops_status(ops) != FB_OK) return FB_NONE;
    return fb_bound_rule_score(rule, ops, &own);
}
