/* around.c - which rules may stand around which, and what their choices may say together.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/bound.h"

/* --- one around another --- */

/* What goes around an allocation is its control, an edit, or one over layers around one
 * within a layer. */
static fb_status check_allocation(const fb_rule *outer, const fb_rule *inner)
{
    if (outer->kind == FB_KIND_CONTROL || outer->kind == FB_KIND_EDIT) return FB_OK;
    if (outer->share == NULL && outer->spread != NULL && inner->spread == NULL)
        return FB_OK;
    if (outer->kind == FB_KIND_ALLOCATION)
        return fb_fail(FB_USAGE,
                       "'%s' around '%s': only one of them can share the budget",
                       outer->name, inner->name);
    return fb_fail(FB_USAGE,
                   "'%s' shares the budget and must be outermost; write '%s(%s(...))'",
                   inner->name, inner->name, outer->name);
}

static fb_status check_control(const fb_rule *outer, const fb_rule *inner)
{
    if (inner->kind != FB_KIND_CONTROL) return FB_OK;
    return fb_fail(FB_USAGE,
                   "'%s' cannot go around '%s', which draws by chance what stays",
                   outer->name, inner->name);
}

/* Values are edited once all is chosen. */
static fb_status check_edit(const fb_rule *outer, const fb_rule *inner)
{
    if (inner->kind != FB_KIND_EDIT || outer->kind == FB_KIND_CONTROL) return FB_OK;
    if (outer->kind == FB_KIND_EDIT)
        return fb_fail(FB_USAGE,
                       "'%s' around '%s': only one of them can change what is kept",
                       outer->name, inner->name);
    return fb_fail(
        FB_USAGE,
        "'%s' changes what is kept and must be outermost; write '%s(%s(...))'",
        inner->name, inner->name, outer->name);
}

/* A choice that depends on the budget is the last word about an entry. */
static fb_status check_chooser(const fb_rule *outer, const fb_bound_rule *inner)
{
    if (fb_passes_scores(outer) || inner->rule->select == NULL) return FB_OK;
    return fb_fail(FB_USAGE,
                   "'%s' chooses entries by the budget, so nothing but a share of the "
                   "budget goes around it; '%s' does",
                   inner->rule->name, outer->name);
}

fb_status fb_rule_check_around(const fb_rule *outer, const fb_bound_rule *inner)
{
    if (inner->rule->kind == FB_KIND_ALLOCATION)
        FB_TRY(check_allocation(outer, inner->rule));
    FB_TRY(check_control(outer, inner->rule));
    FB_TRY(check_edit(outer, inner->rule));
    return check_chooser(outer, inner);
}

/* --- their choices together --- */

static fb_status check_choices(const fb_bound_rule *bound)
{
    const fb_choices *c = &bound->choices;
    const int64_t own_layer = bound->own_layer_rows + bound->own_layer_squares;

    if (!fb_bound_rule_scores(bound) && bound->n_inner > 0)
        return fb_fail(FB_USAGE, "'%s' cannot go around a rule that %s nothing",
                       bound->rule->name,
                       c->reference == FB_REFERENCE_NONE ? "evicts" : "chooses");
    FB_TRY(fb_bound_rule_check_moment(bound));
    if (fb_bound_rule_scores(bound) && bound->rule->kind == FB_KIND_RULE &&
        bound->rule->score == NULL)
        return fb_fail(FB_DEFECT, "rule '%s' has no score", bound->rule->name);
    if ((c->pool_average != 0 && c->pool_average % 2 == 0) ||
        (c->pool_max != 0 && c->pool_max % 2 == 0))
        return fb_fail(FB_USAGE,
                       "rule '%s': an even kernel has no middle; use an odd one",
                       bound->rule->name);
    if ((c->reads & FB_READS_WINDOW_ATTENTION) != 0 && c->window < 1)
        return fb_fail(FB_DEFECT, "rule '%s' reads window attention but sets no window",
                       bound->rule->name);
    if ((bound->own_state > 0) != (bound->rule->update != NULL) ||
        (bound->own_state > 0 && bound->rule->kind != FB_KIND_RULE))
        return fb_fail(FB_DEFECT,
                       "rule '%s' has a state without `update`, or the other "
                       "way round",
                       bound->rule->name);
    if ((own_layer > 0) != (bound->rule->learn != NULL) ||
        (own_layer > 0 &&
         (bound->rule->kind != FB_KIND_RULE || (c->reads & FB_READS_QUERIES) == 0)))
        return fb_fail(
            FB_DEFECT,
            "rule '%s' has a state of layers without `learn` and queries, or "
            "the other way round",
            bound->rule->name);
    if ((c->reads & FB_READS_ATTENTION_BLOCK) != 0 && c->state_rows < 1)
        return fb_fail(FB_DEFECT,
                       "rule '%s' reads the attention of blocks but carries no state",
                       bound->rule->name);
    if ((c->reads & FB_READS_QUERIES) != 0 && c->queries < 1 &&
        !fb_bound_rule_learns(bound))
        return fb_fail(FB_DEFECT, "rule '%s' reads queries but does not say how many",
                       bound->rule->name);
    return FB_OK;
}

/* An allocation that sets scores of different rows against each other, around ones that mean
 * nothing beside each other. */
static fb_status check_comparable(const fb_bound_rule *bound)
{
    const fb_compares needs = bound->rule->needs;

    if (bound->rule->kind != FB_KIND_ALLOCATION || bound->choices.compares >= needs)
        return FB_OK;
    return fb_fail(
        FB_USAGE,
        "'%s' sets the scores of different %s against each other, and those of "
        "'%s' cannot be compared but within a %s; write '%s(normalise(%s))'",
        bound->rule->name, needs == FB_COMPARES_LAYERS ? "layers and heads" : "heads",
        bound->inner[0]->rule->name,
        bound->choices.compares == FB_COMPARES_HEADS ? "layer" : "head",
        bound->rule->name, bound->inner[0]->rule->name);
}

/* A row of an experiment has no hooks, and takes what the engine can do. */
static fb_status check_reference(const fb_bound_rule *bound)
{
    const fb_choices *c = &bound->choices;
    const bool is_quantised = c->reference == FB_REFERENCE_QUANTISED;

    if (c->reference == FB_REFERENCE_NONE) return FB_OK;
    if (bound->rule->kind == FB_KIND_RULE && bound->rule->score == NULL &&
        c->reference <= FB_REFERENCE_REREAD &&
        (!is_quantised || (c->bits >= 2 && c->bits <= 8)))
        return FB_OK;
    return fb_fail(FB_DEFECT, "rule '%s' is no row that an experiment can make",
                   bound->rule->name);
}

/* Signals that are there when entries are chosen, after the context was read. */
enum {
    SEEN_LATER = FB_READS_KEYS | FB_READS_VALUES | FB_READS_POSITION | FB_READS_RANDOM |
                 FB_READS_OUTPUT_WEIGHT
};

/* Block by block, entries are scored anew among those that are left. */
static fb_status check_block(const fb_bound_rule *bound)
{
    const fb_choices *c = &bound->choices;

    for (int i = 0; i < bound->n_inner; i++)
        if (bound->inner[i]->choices.block > 0 &&
            bound->rule->kind != FB_KIND_CONTROL && bound->rule->kind != FB_KIND_EDIT)
            return fb_fail(
                FB_USAGE,
                "'%s' chooses block by block, with the same number in every "
                "head, so nothing goes around it that scores or shares; '%s' "
                "does",
                bound->inner[i]->rule->name, bound->rule->name);
    if (c->block == 0 ||
        ((c->reads & ~(uint32_t)SEEN_LATER) == 0 && c->state_rows == 0))
        return FB_OK;
    return fb_fail(FB_USAGE,
                   "'%s' scores entries anew as it chooses, and '%s' reads attention, "
                   "queries or rotations; those of the whole text are gone by then",
                   bound->rule->name,
                   bound->n_inner > 0 ? bound->inner[0]->rule->name
                                      : bound->rule->name);
}

fb_status fb_bound_rule_check(const fb_bound_rule *bound)
{
    FB_TRY(check_choices(bound));
    FB_TRY(check_comparable(bound));
    FB_TRY(check_reference(bound));
    return check_block(bound);
}
