/* score.c - from a rule's formula to one score per kv head and entry.
 *
 * Always in this order: the formula, its scored entries, smoothing, the group of query
 * heads, then wrappers from the inside out. (With a mean over the group, smoothing and
 * grouping commute only for the average pool; published code pools first.)
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/bound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 0, COLUMNS = 1, QUERIES = 1, STATE = 1 };

/* The last `most` queries of a signal [heads, queries, ..]. */
static fb_tensor last_queries(fb_ops *ops, fb_tensor signal, int64_t most)
{
    const int64_t all = fb_size(ops, signal, QUERIES);

    return all > most ? fb_narrow(ops, signal, QUERIES, all - most, most) : signal;
}

fb_signals fb_bound_rule_own_signals(const fb_bound_rule *bound, fb_ops *ops,
                                     const fb_signals *see)
{
    const fb_choices *c = &bound->choices;
    fb_signals own = *see;

    if ((c->reads & FB_READS_WINDOW_ATTENTION) != 0)
        own.window_attention = last_queries(ops, see->window_attention, c->window);
    if (c->queries == 0) /* they are shown to `learn` alone */
        own.queries = FB_NONE;
    else if ((c->reads & FB_READS_QUERIES) != 0 && see->queries.id != 0)
        own.queries = last_queries(ops, see->queries, c->queries);
    return own;
}

fb_signals fb_bound_rule_inner_signals(const fb_bound_rule *bound, int i, fb_ops *ops,
                                       const fb_signals *see)
{
    const fb_choices *c = &bound->inner[i]->choices;
    const fb_choices before = {.layer_rows = bound->own_layer_rows,
                               .layer_squares = bound->own_layer_squares};
    int64_t state = bound->own_state,
            learnt = fb_layer_state_rows(&before, see->head_dim);
    fb_signals inner = *see;

    for (int j = 0; j < i; j++) {
        state += bound->inner[j]->choices.state_rows;
        learnt += fb_layer_state_rows(&bound->inner[j]->choices, see->head_dim);
    }
    if (c->state_rows > 0 && see->state.id != 0)
        inner.state = fb_narrow(ops, see->state, STATE, state, c->state_rows);
    if (fb_bound_rule_learns(bound->inner[i]) && see->layer_state.id != 0)
        inner.layer_state = fb_narrow(ops, see->layer_state, STATE, learnt,
                                      fb_layer_state_rows(c, see->head_dim));
    return inner;
}

fb_tensor fb_bound_rule_made(const fb_bound_rule *bound, fb_ops *ops, fb_tensor out)
{
    fb_ops_context(ops, "rule '%s'", bound->rule->name);
    return out;
}

/* "9, 512" */
static void print_shape(char *out, size_t n, const fb_ops *ops, fb_tensor x)
{
    size_t used = 0;

    for (int d = 0; d < fb_n_dims(ops, x) && used < n; d++)
        used += (size_t)snprintf(out + used, n - used, "%s%lld", d == 0 ? "" : ", ",
                                 (long long)fb_size(ops, x, d));
}

static fb_status check_shape(const fb_bound_rule *bound, const fb_ops *ops,
                             fb_tensor score, const fb_signals *see, int64_t columns)
{
    char came[FB_MAX_DIMS * 24] = "";
    int64_t rows;

    FB_TRY(fb_ops_status(ops));
    if (fb_n_dims(ops, score) > 0 && !fb_is_f32(ops, score))
        return fb_fail(FB_DEFECT, "rule '%s' returned a score that is not of f32",
                       bound->rule->name);
    print_shape(came, sizeof came, ops, score);
    rows = fb_n_dims(ops, score) == 2 ? fb_size(ops, score, ROWS) : 0;
    if ((rows == see->heads || rows == see->kv_heads || rows == 1) &&
        fb_size(ops, score, COLUMNS) == columns)
        return FB_OK;
    return fb_fail(
        FB_DEFECT,
        "rule '%s' returned a score of the wrong shape: [%s] came, [R, %lld] was "
        "expected, with R = %lld (query heads), %lld (kv heads) or 1",
        bound->rule->name, came, (long long)columns, (long long)see->heads,
        (long long)see->kv_heads);
}

/* [1, m] for all kv heads. */
static fb_tensor repeat(fb_ops *ops, fb_tensor row, int64_t kv_heads)
{
    const int64_t shape[] = {kv_heads, fb_size(ops, row, COLUMNS)};

    return fb_add(ops, fb_full(ops, 2, shape, 0), row, 1);
}

fb_tensor fb_group_mean(fb_ops *ops, const fb_signals *see, fb_tensor x)
{
    const int64_t m = fb_size(ops, x, COLUMNS);
    const int64_t shape[] = {see->kv_heads, see->heads / see->kv_heads, m};

    return fb_mean(ops, fb_reshape(ops, x, 3, shape), 1);
}

/* [heads, m] to [kv_heads, m]. */
static fb_tensor group(const fb_bound_rule *bound, fb_ops *ops, fb_tensor score,
                       const fb_signals *see)
{
    const int64_t rows = fb_size(ops, score, ROWS), m = fb_size(ops, score, COLUMNS);
    const int64_t grouped[] = {see->kv_heads, rows / see->kv_heads, m};
    fb_tensor mean;

    if (bound->choices.group == FB_GROUP_LAYER && rows > 1) {
        mean = fb_mean(ops, score, ROWS);
        score = fb_reshape(ops, mean, 2, (int64_t[]){1, m});
    }
    if (fb_size(ops, score, ROWS) == 1) return repeat(ops, score, see->kv_heads);
    if (rows == see->kv_heads) return score;
    score = fb_reshape(ops, score, 3, grouped);
    return bound->choices.group == FB_GROUP_MAX ? fb_amax(ops, score, 1)
                                                : fb_mean(ops, score, 1);
}

/* Of several planes, which are of kv heads already. */
static fb_tensor check_planes(const fb_bound_rule *bound, fb_ops *ops, fb_tensor score,
                              const fb_signals *see, int64_t columns)
{
    const int64_t rows = bound->choices.planes * see->kv_heads;
    fb_status status = fb_ops_status(ops);

    if (status == FB_OK &&
        (!fb_is_f32(ops, score) || fb_n_dims(ops, score) != 2 ||
         fb_size(ops, score, ROWS) != rows || fb_size(ops, score, COLUMNS) != columns))
        status = fb_fail(FB_DEFECT,
                         "rule '%s' returned a score of the wrong shape; [%lld, %lld] "
                         "was expected: %lld planes",
                         bound->rule->name, (long long)rows, (long long)columns,
                         (long long)bound->choices.planes);
    if (status == FB_OK) return score;
    fb_ops_refuse(ops, status);
    return FB_NONE;
}

static fb_tensor plain_score(const fb_bound_rule *bound, fb_ops *ops,
                             const fb_signals *see)
{
    const int64_t scored = see->m - bound->choices.unscored_last;
    const fb_signals own = fb_bound_rule_own_signals(bound, ops, see);
    fb_tensor score;
    fb_status status;

    if (fb_ops_status(ops) != FB_OK) return FB_NONE;
    score =
        fb_bound_rule_made(bound, ops, bound->rule->score(ops, &own, bound->params));
    if (bound->choices.planes > 1) {
        score = check_planes(bound, ops, score, see, see->m);
        return fb_narrow(ops, score, COLUMNS, 0, scored);
    }
    status = check_shape(bound, ops, score, see, see->m);
    if (status != FB_OK) {
        fb_ops_refuse(ops, status);
        return FB_NONE;
    }
    score = fb_narrow(ops, score, COLUMNS, 0, scored);
    if (bound->choices.pool_average > 1)
        score = fb_avg_pool1d(ops, score, bound->choices.pool_average);
    if (bound->choices.pool_max > 1)
        score = fb_max_pool1d(ops, score, bound->choices.pool_max);
    return group(bound, ops, score, see);
}

static fb_tensor score_of(const fb_bound_rule *bound, fb_ops *ops,
                          const fb_signals *see)
{
    const int64_t scored = see->m - bound->choices.unscored_last;
    fb_tensor inner[FB_MAX_INNER] = {{0}};
    fb_status status;
    fb_tensor score;

    if (bound->rule->kind == FB_KIND_RULE) return plain_score(bound, ops, see);
    for (int i = 0; i < bound->n_inner; i++) {
        const fb_signals its = fb_bound_rule_inner_signals(bound, i, ops, see);

        inner[i] = score_of(bound->inner[i], ops, &its);
        inner[i] = fb_narrow(ops, inner[i], COLUMNS, 0, scored);
    }
    if (fb_score_is_inner(bound->rule)) return inner[0];
    if (fb_ops_status(ops) != FB_OK) return FB_NONE;
    score = fb_bound_rule_made(bound, ops,
                               bound->rule->wrap(ops, see, inner, bound->params));
    if (bound->choices.planes > 1) return check_planes(bound, ops, score, see, scored);
    status = check_shape(bound, ops, score, see, scored);
    if (status == FB_OK) return group(bound, ops, score, see);
    fb_ops_refuse(ops, status);
    return FB_NONE;
}

/* NaN has no place in an order: it would silently mean "keep" or "drop". */
static fb_status check_numbers(const fb_bound_rule *bound, fb_ops *ops, fb_tensor score,
                               const fb_signals *see)
{
    const int64_t m = fb_size(ops, score, COLUMNS), n = fb_size(ops, score, ROWS) * m;
    float *host = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *host);
    fb_status status;

    if (host == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a score");
    status = fb_to_host(ops, score, host, (size_t)n * sizeof *host);
    for (int64_t i = 0; status == FB_OK && i < n; i++)
        if (isnan(host[i]))
            status = fb_fail(FB_DEFECT,
                             "rule '%s': score of layer %lld, kv head %lld, entry %lld "
                             "is NaN",
                             bound->text, (long long)see->layer,
                             (long long)(i / m % see->kv_heads), (long long)(i % m));
    fb_free(host);
    return status;
}

fb_tensor fb_bound_rule_score(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_signals *see)
{
    fb_tensor score;
    fb_status status;

    if (!fb_bound_rule_scores(rule)) return FB_NONE;
    fb_scope_open(ops);
    score = fb_scope_return(ops, score_of(rule, ops, see));
    status = fb_ops_status(ops);
    if (status == FB_OK) status = check_numbers(rule, ops, score, see);
    if (status == FB_OK) return score;
    fb_ops_refuse(ops, status);
    return fb_bound_rule_end(rule, ops, FB_NONE);
}

fb_tensor fb_bound_rule_measure(const fb_bound_rule *rule, fb_ops *ops,
                                const fb_signals *see, fb_tensor score)
{
    rule = fb_choosing(rule);
    if (rule->rule->measure == NULL || fb_ops_status(ops) != FB_OK) return FB_NONE;
    fb_scope_open(ops);
    score = fb_bound_rule_made(rule, ops,
                               rule->rule->measure(ops, see, score, rule->params));
    return fb_bound_rule_end(rule, ops, fb_scope_return(ops, score));
}

/* Inside of allocations. */
static const fb_bound_rule *find_chooser(const fb_bound_rule *rule)
{
    rule = fb_choosing(rule);
    while (rule->rule->kind == FB_KIND_ALLOCATION)
        rule = rule->inner[0];
    return rule;
}

bool fb_bound_rule_chooses(const fb_bound_rule *rule)
{
    return find_chooser(rule)->rule->select != NULL;
}

fb_tensor fb_bound_rule_order(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_select_input *in)
{
    const fb_bound_rule *chooser = find_chooser(rule);
    const int64_t columns = fb_size(ops, in->scores, COLUMNS);
    fb_tensor order;

    if (chooser->rule->select == NULL) return in->scores;
    order = fb_bound_rule_made(chooser, ops,
                               chooser->rule->select(ops, in, chooser->params));
    if (fb_ops_status(ops) != FB_OK) return fb_bound_rule_end(rule, ops, FB_NONE);
    if (fb_n_dims(ops, order) == 2 && fb_size(ops, order, ROWS) == in->kv_heads &&
        fb_size(ops, order, COLUMNS) == columns)
        return order;
    fb_ops_refuse(ops, fb_fail(FB_DEFECT,
                               "rule '%s' returned an order of the wrong shape; [%lld, "
                               "%lld] was expected",
                               chooser->rule->name, (long long)in->kv_heads,
                               (long long)columns));
    return fb_bound_rule_end(rule, ops, FB_NONE);
}
