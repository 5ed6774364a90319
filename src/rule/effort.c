/* effort.c - the same rule with less effort.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/bound.h"

#include "base/number.h"

#include <string.h>

const fb_param *fb_rule_effort_row(const fb_rule *rule)
{
    for (const fb_param *row = rule->params; row != NULL && row->name != NULL; row++)
        if (rule->effort != NULL && row->type == FB_PARAM_INT &&
            strcmp(row->name, rule->effort) == 0)
            return row;
    return NULL;
}

static int64_t value_of(const fb_bound_rule *bound, const fb_param *row)
{
    int64_t value;

    memcpy(&value, (const char *)bound->params + row->offset, sizeof value);
    return value;
}

int64_t fb_bound_rule_most_effort(const fb_bound_rule *rule)
{
    const fb_param *row = fb_rule_effort_row(rule->rule);
    int64_t most = row == NULL ? -1 : value_of(rule, row);

    for (int i = 0; i < rule->n_inner; i++)
        most = fb_larger(most, fb_bound_rule_most_effort(rule->inner[i]));
    return most;
}

static void set_effort(fb_bound_rule *bound, int64_t s, int64_t most)
{
    const fb_param *row = fb_rule_effort_row(bound->rule);
    int64_t value;

    if (row == NULL || most < 1) return;
    value = (int64_t)((double)value_of(bound, row) * (double)s / (double)most);
    value = fb_larger(value, (int64_t)row->low);
    memcpy((char *)bound->params + row->offset, &value, sizeof value);
}

/* `out` is the caller's to free, also half made. */
static fb_status copy(fb_bound_rule **out, const fb_bound_rule *rule, int64_t s,
                      int64_t most)
{
    fb_bound_rule *bound;

    FB_TRY(fb_bound_rule_new(out, rule->rule));
    bound = *out;
    bound->file = rule->file;
    bound->given = rule->given;
    bound->peer = rule->peer;
    if (rule->params != NULL)
        memcpy(bound->params, rule->params, rule->rule->params_bytes);
    set_effort(bound, s, most);
    for (int i = 0; i < rule->n_inner; i++) {
        const fb_status status = copy(&bound->inner[i], rule->inner[i], s, most);

        bound->n_inner += bound->inner[i] != NULL;
        FB_TRY(status);
    }
    return fb_bound_rule_finish(bound);
}

fb_status fb_bound_rule_with_effort(fb_bound_rule **out, const fb_bound_rule *rule,
                                    int64_t s)
{
    const fb_status status = copy(out, rule, s, fb_bound_rule_most_effort(rule));

    if (status == FB_OK) return FB_OK;
    fb_bound_rule_free(*out);
    *out = NULL;
    return status;
}

/* All numbers but the effort are the same bits. */
static bool has_same_params(const fb_bound_rule *less, const fb_bound_rule *rule)
{
    const fb_param *effort = fb_rule_effort_row(rule->rule);

    for (const fb_param *row = rule->rule->params; row != NULL && row->name != NULL;
         row++) {
        const size_t n = sizeof(double) * (row->type == FB_PARAM_PAIR ? 2 : 1);

        if (row == effort ? value_of(less, row) > value_of(rule, row)
                          : memcmp((const char *)less->params + row->offset,
                                   (const char *)rule->params + row->offset, n) != 0)
            return false;
    }
    return true;
}

bool fb_bound_rule_is_lowered(const fb_bound_rule *less, const fb_bound_rule *rule)
{
    bool is_same = less->rule == rule->rule && less->n_inner == rule->n_inner &&
                   has_same_params(less, rule);

    for (int i = 0; is_same && i < rule->n_inner; i++)
        is_same = fb_bound_rule_is_lowered(less->inner[i], rule->inner[i]);
    return is_same;
}

static int count_efforts(const fb_bound_rule *rule)
{
    int n = fb_rule_effort_row(rule->rule) != NULL;

    for (int i = 0; i < rule->n_inner; i++)
        n += count_efforts(rule->inner[i]);
    return n;
}

static void add_less(const fb_bound_rule *rule, const fb_bound_rule *other,
                     bool with_names, fb_text *out)
{
    const fb_param *row = fb_rule_effort_row(rule->rule);

    if (row != NULL)
        fb_text_printf(out, "%s%s%s%s %lld -> %lld", out->n > 0 ? ", " : "",
                       with_names ? rule->rule->name : "", with_names ? " " : "",
                       row->name, (long long)value_of(rule, row),
                       (long long)value_of(other, row));
    for (int i = 0; i < rule->n_inner; i++)
        add_less(rule->inner[i], other->inner[i], with_names, out);
}

void fb_bound_rule_less_effort(const fb_bound_rule *rule, const fb_bound_rule *other,
                               fb_text *out)
{
    add_less(rule, other, count_efforts(rule) > 1, out);
}
