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

    for (int i = 0; i < rule->n_inner; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%c%s", i == 0 ? '(' : ',',
                      inner[i]);
    if (rule->n_inner > 0) (void)snprintf(text + n, sizeof text - (size_t)n, ")");
    assert_ok(fb_rule_parse(&out, text));
    return out;
}

static inline void every_rule_open(every_rule *all)
{
    all->n = fb_rule_count();
    for (int i = 0; i < all->n; i++) {
        all->rule[i] = bind_plain(fb_rule_at(i));
        all->seeded[i] = (fb_seeded_rule){all->rule[i], 1};
    }
}

static inline void every_rule_close(every_rule *all)
{
    for (int i = 0; i < all->n; i++)
        fb_bound_rule_free(all->rule[i]);
}

#endif
