/* check.h - inside of src/rule: what is checked of a rule, whoever wrote it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_RULE_CHECK_H
#define FB_RULE_CHECK_H

#include "rule/rule.h"

/* FB_UNSUPPORTED for a struct of another ABI. */
FB_MUST_USE fb_status fb_rule_check_abi(const fb_rule *rule);
/* Everything that the struct of a loaded rule says, from the ABI on: FB_DEFECT for what
 * makes no sense. What binding it checks as well, of all rules, is not here. */
FB_MUST_USE fb_status fb_rule_check(const fb_rule *rule);
/* The numbers that `choose` has chosen. */
FB_MUST_USE fb_status fb_rule_check_choices(const fb_rule *rule,
                                            const fb_choices *choices);
/* What a function returned, if a rule may say so; FB_DEFECT for anything else. */
FB_MUST_USE fb_status fb_rule_check_status(const char *function, fb_status status);

#endif
