/* every_rule.h - all rules of the table, each with its default parameters; wrappers around
 * plain ones.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_EVERY_RULE_H
#define TESTS_SUPPORT_EVERY_RULE_H

#include "engine/engine.h"
#include "tests/support/test.h"

enum { EVERY_RULE_MOST = 128 };

typedef struct every_rule {
    fb_bound_rule *rule[EVERY_RULE_MOST];
    fb_seeded_rule seeded[EVERY_RULE_MOST];
    int n;
} every_rule;

static inline fb_bound_rule *bind_plain(const fb_rule *rule)
{
    static const char *const inner[] = {"snapkv", "recency", "keydiff", "random"};
    char text[256];
    fb_bound_rule *out;
    int n = snprintf(text, sizeof text, "%s", rule->name);

    /* block reads no attention */
    const int first = strcmp(rule->name, "block") == 0 ? 1 : 0;

    for (int i = 0; i < rule->n_inner; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%c%s", i == 0 ? '(' : ',',
                      inner[first + i]);
    if (rule->n_inner > 0) (void)snprintf(text + n, sizeof text - (size_t)n, ")");
    assert_ok(fb_rule_parse(&out, text));
    return out;
}

static inline void every_rule_open(every_rule *all)
{
    all->n = 0;
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = bind_plain(fb_rule_at(i));

        if (fb_bound_rule_choices(rule)->reference != FB_REFERENCE_NONE) {
            fb_bound_rule_free(rule); /* the experiment's, nobody evicts by it */
            continue;
        }
        all->rule[all->n] = rule;
        all->seeded[all->n++] = (fb_seeded_rule){rule, 1};
    }
}

static inline void every_rule_close(every_rule *all)
{
    for (int i = 0; i < all->n; i++)
        fb_bound_rule_free(all->rule[i]);
}

#endif
