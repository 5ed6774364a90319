/* moment.c - when what a rule reads is there: while the context passes, after it was read
 * again, or when the future is known.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/bound.h"

#include <string.h>

/* Signals of the pass over the context, gone when it is over. */
static const uint32_t of_pass = FB_READS_WINDOW_ATTENTION | FB_READS_ATTENTION_SUM |
                                FB_READS_ATTENTION_BLOCK | FB_READS_QUERIES |
                                FB_READS_RESIDUAL;
/* Signals of what comes behind it. */
static const uint32_t of_future = FB_READS_FUTURE | FB_READS_DOCUMENT_FUTURE;
static const uint32_t of_later =
    FB_READS_FUTURE | FB_READS_DOCUMENT_FUTURE | FB_READS_REPLAY;

static bool is_same_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL) return a == b;
    return strcmp(a, b) == 0;
}

bool fb_replay_is_same(const fb_replay *a, const fb_replay *b)
{
    return is_same_text(a->first, b->first) && is_same_text(a->later, b->later) &&
           a->piece == b->piece && a->draft == b->draft && a->overlap == b->overlap &&
           a->sinks == b->sinks && a->sees_all == b->sees_all &&
           a->by_hidden == b->by_hidden;
}

const fb_replay *fb_bound_rule_replay(const fb_bound_rule *rule)
{
    const fb_choices *c = &rule->choices;

    return (c->reads & FB_READS_REPLAY) == 0 ? NULL : &c->replay;
}

bool fb_bound_rule_reads_residual(const fb_bound_rule *rule)
{
    return (rule->choices.reads & FB_READS_RESIDUAL) != 0;
}

/* Whatever is joined reads the context again in one way. */
static fb_status check_replay(const fb_bound_rule *bound)
{
    const fb_replay *replay = fb_bound_rule_replay(bound);

    if (replay == NULL) return FB_OK;
    if (replay->draft < 0 || (replay->piece < 1 && replay->draft == 0) ||
        replay->overlap < 0 || replay->sinks < 0)
        return fb_fail(FB_DEFECT,
                       "rule '%s' reads the context again but does not say how",
                       bound->rule->name);
    for (int i = 0; i < bound->n_inner; i++) {
        const fb_replay *inner = fb_bound_rule_replay(bound->inner[i]);

        if (inner != NULL && !fb_replay_is_same(inner, replay))
            return fb_fail(FB_USAGE,
                           "'%s' joins rules that read the context again in two ways",
                           bound->rule->name);
    }
    return FB_OK;
}

fb_status fb_bound_rule_check_moment(const fb_bound_rule *bound)
{
    const uint32_t reads = bound->choices.reads;
    const char *what = (reads & of_future) != 0 ? "the future" : "the context again";

    if ((reads & of_later) != 0 && (reads & of_pass) != 0)
        return fb_fail(FB_USAGE,
                       "'%s' joins a rule that reads %s with one that reads the "
                       "attention of the context, which is gone by then",
                       bound->rule->name, what);
    if ((reads & of_future) != 0 && (reads & FB_READS_REPLAY) != 0)
        return fb_fail(FB_USAGE,
                       "'%s' joins a rule that reads the future with one that reads "
                       "the context again",
                       bound->rule->name);
    return check_replay(bound);
}
