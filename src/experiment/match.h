/* match.h - `compute: matched`: each rule's effort is lowered until it keeps to the quota.
 *
 * What a rule costs is foretold on the documents of the plan (foretell.h), so the same plan
 * gives the same efforts on every machine. The effort found is one that keeps to the quota
 * with every document and budget, while the next one does not: where more effort is more
 * work, the largest that does. A rule that keeps to it as it is written stays so.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_MATCH_H
#define FB_EXPERIMENT_MATCH_H

#include "experiment/plan.h"

/* Nothing unless `compute` is matched. `spec` is that of the plan: rules in it are replaced,
 * labels stay. What was done, and which rules cannot keep to the quota and stand apart, is
 * in the plan's `matched`. FB_BUDGET, with what each takes at least, if no rule can. */
FB_MUST_USE fb_status fb_match(fb_plan *plan, fb_spec *spec);

/* The largest share of the plain pass that the rule takes over the documents and budgets of
 * the plan: a rule of the spec, or one in its place. For tests. */
FB_MUST_USE fb_status fb_match_share(const fb_plan *plan, int rule,
                                     const fb_bound_rule *in_its_place, double *out);

#endif
