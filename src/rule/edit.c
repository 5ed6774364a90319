/* edit.c - rules that change the values of what is kept.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/bound.h"

/* The edit of a rule, which a control may go around; NULL: it has none. */
static const fb_bound_rule *find_editor(const fb_bound_rule *rule)
{
    if (rule->rule->kind == FB_KIND_CONTROL) rule = rule->inner[0];
    return rule->rule->kind == FB_KIND_EDIT ? rule : NULL;
}

bool fb_bound_rule_edits(const fb_bound_rule *rule)
{
    return find_editor(rule) != NULL;
}

static bool is_same_shape(const fb_ops *ops, fb_tensor a, fb_tensor b)
{
    if (fb_n_dims(ops, a) != fb_n_dims(ops, b)) return false;
    for (int d = 0; d < fb_n_dims(ops, a); d++)
        if (fb_size(ops, a, d) != fb_size(ops, b, d)) return false;
    return true;
}

fb_tensor fb_bound_rule_edit(const fb_bound_rule *rule, fb_ops *ops,
                             const fb_edit_input *in)
{
    const fb_bound_rule *editor = find_editor(rule);
    const fb_tensor values = editor->rule->edit(ops, in, editor->params);

    fb_ops_context(ops, "rule '%s'", editor->rule->name);
    if (fb_ops_status(ops) != FB_OK) return fb_bound_rule_end(rule, ops, FB_NONE);
    if (fb_is_f32(ops, values) && is_same_shape(ops, values, in->kept_values))
        return values;
    fb_ops_refuse(ops, fb_fail(FB_DEFECT,
                               "rule '%s' returned values of another shape than those "
                               "that are kept",
                               editor->rule->name));
    return fb_bound_rule_end(rule, ops, FB_NONE);
}
