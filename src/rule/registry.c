/* registry.c - the table of built-in rules; the only reader of rules/list.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"

#include <string.h>

#define FB_RULE(name) extern const fb_rule fb_rule_##name;
#include "rules/list.h"
#undef FB_RULE

static const fb_rule *const rules[] = {
#define FB_RULE(name) &fb_rule_##name,
#include "rules/list.h"
#undef FB_RULE
};

int fb_rule_count(void)
{
    return (int)(sizeof rules / sizeof rules[0]);
}

const fb_rule *fb_rule_at(int index)
{
    return rules[index];
}

const fb_rule *fb_rule_find(const char *name)
{
    for (int r = 0; r < fb_rule_count(); r++)
        if (strcmp(rules[r]->name, name) == 0) return rules[r];
    return NULL;
}
