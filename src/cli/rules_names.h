/* rules_names.h - what the command `rules` says of names beyond its own: those that are
 * refused, those of other projects.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_RULES_NAMES_H
#define FB_CLI_RULES_NAMES_H

#include "base/text.h"
#include "rule/rule.h"

/* That there are such, at the end of the list. */
void fb_rules_names_list(fb_text *out);
/* ", "refused": [...], "peers": [...]" */
void fb_rules_names_json(fb_text *out);
/* A refused name, or a project with all of its names: true if `name` is one, and it was
 * explained. */
bool fb_rules_names_explain(const char *name, bool is_json, fb_text *out);
/* What an expression in another project's words stands for; nothing for others. */
void fb_rules_names_stand_for(const char *name, const fb_bound_rule *rule,
                              fb_text *out);

#endif
