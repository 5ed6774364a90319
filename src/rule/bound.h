/* bound.h - inside of src/rule: a rule with its parameters and inner rules.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_RULE_BOUND_H
#define FB_RULE_BOUND_H

#include "rule/rule.h"

enum { FB_MAX_INNER = 4, FB_MOST_SHOWN = 200 /* bytes of a path in a sentence */ };

struct fb_bound_rule {
    const fb_rule *rule;
    const fb_rule_file *file; /* that it comes from; NULL: built in */
    void *params;             /* rule->params_bytes; NULL if none */
    uint64_t given;     /* bit i: the expression sets the i-th row of rule->params */
    fb_choices choices; /* needs joined with the inner rules'; smoothing its own */
    int64_t own_state;  /* rows of its own state: the first of choices.state_rows, which
                           has those of the inner rules behind them */
    int64_t own_layer_rows, own_layer_squares; /* the same of what it learns */
    char *text;                                /* canonical */
    const struct fb_peer *peer;                /* by which it was named; or NULL */
    int n_inner;
    fb_bound_rule *inner[FB_MAX_INNER];
};

/* The row of its effort; NULL: it has none, or names no whole number of its own. */
const fb_param *fb_rule_effort_row(const fb_rule *rule);

/* Its score is that of its one inner rule. */
static inline bool fb_passes_scores(const fb_rule *rule)
{
    return rule->kind == FB_KIND_ALLOCATION || rule->kind == FB_KIND_CONTROL ||
           rule->kind == FB_KIND_EDIT;
}

/* The same of wrappers that have no formula of their own. */
static inline bool fb_score_is_inner(const fb_rule *rule)
{
    return fb_passes_scores(rule) ||
           (rule->kind == FB_KIND_WRAPPER && rule->wrap == NULL);
}

/* The rule whose choice it is: that within a control and an edit, or the rule itself. */
static inline const fb_bound_rule *fb_choosing(const fb_bound_rule *rule)
{
    while (rule->rule->kind == FB_KIND_CONTROL || rule->rule->kind == FB_KIND_EDIT)
        rule = rule->inner[0];
    return rule;
}

/* A rule without inner rules yet, parameters at their defaults; checks the rule's
 * struct. */
FB_MUST_USE fb_status fb_bound_rule_new(fb_bound_rule **out, const fb_rule *rule);
/* After parameters and inner rules are set: choices and canonical text. */
FB_MUST_USE fb_status fb_bound_rule_finish(fb_bound_rule *bound);
/* around.c - whether a rule may stand around another; whether what a finished rule and its
 * inner ones ask for goes together. FB_USAGE: what was written does not; FB_DEFECT: a rule is
 * wrong. */
FB_MUST_USE fb_status fb_rule_check_around(const fb_rule *outer,
                                           const fb_bound_rule *inner);
FB_MUST_USE fb_status fb_bound_rule_check(const fb_bound_rule *bound);
/* A rule is scored once: all that it and its inner rules read is there at one moment. */
FB_MUST_USE fb_status fb_bound_rule_check_moment(const fb_bound_rule *bound);
/* The file that its loaded rules come from; NULL: there are none, or they are of several. */
const fb_rule_file *fb_bound_rule_file(const fb_bound_rule *rule);
/* What it sees itself: its own last queries, not those of the longest window; and what inner
 * rule i sees: its part of the states (score.c). */
fb_signals fb_bound_rule_own_signals(const fb_bound_rule *bound, fb_ops *ops,
                                     const fb_signals *see);
fb_signals fb_bound_rule_inner_signals(const fb_bound_rule *bound, int i, fb_ops *ops,
                                       const fb_signals *see);
/* What a function of the rule made; if it failed, that says whose it was. */
fb_tensor fb_bound_rule_made(const fb_bound_rule *bound, fb_ops *ops, fb_tensor out);
/* All that a rule can be asked for ends here: if it failed, that names the file. */
fb_tensor fb_bound_rule_end(const fb_bound_rule *rule, fb_ops *ops, fb_tensor out);

#endif
