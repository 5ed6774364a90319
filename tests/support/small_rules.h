/* small_rules.h - all rules of the table, with windows and pieces that short texts have
 * room for.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_SMALL_RULES_H
#define TESTS_SUPPORT_SMALL_RULES_H

#include "rule/bound.h"
#include "tests/support/cases.h"
#include "tests/support/shown.h"

enum { SMALL_TEXT = 512 };

/* Parameters of these names have these values, whatever the rule. */
static const struct small_value {
    const char *name;
    int value;
} small_values[] = {
    {"window", 4}, {"lag", 8},    {"start", 4},    {"span", 2},    {"size", 5},
    {"spiky", 2},  {"chunk", 16}, {"future", 16},  {"offset", 16}, {"sketch", 4},
    {"block", 8},  {"page", 4},   {"history", 20}, {"piece", 12},  {"draft", 3},
};

static inline const struct small_value *small_find(const char *name)
{
    for (size_t i = 0; i < sizeof small_values / sizeof *small_values; i++)
        if (strcmp(small_values[i].name, name) == 0) return &small_values[i];
    return NULL;
}

/* Inner rules: of shares, sums, norms, of numbers below 0, of lots, with an end or a state of
 * its own; around what passes scores on, of shares of the budget too. */
static inline const char *small_inner(const fb_rule *outer, numbers *r)
{
    static const char *const all[] = {"snapkv:window=4",
                                      "knorm",
                                      "keydiff",
                                      "random",
                                      "expected_attention:future=16",
                                      "observed_attention",
                                      "a2sf",
                                      "gkv:window=4",
                                      "h2o",
                                      "adakv(snapkv:window=4)",
                                      "flat(normalise(keydiff))",
                                      "chunk(paged,size=5)"};
    const bool passes = outer->kind == FB_KIND_CONTROL || outer->kind == FB_KIND_EDIT;

    return all[number_int(r, 0, passes ? 11 : 8)];
}

/* Those of `rule`, first in its brackets: behind an inner rule they might be taken for its
 * own. */
static inline int small_params(const fb_rule *rule, char *text)
{
    char by = rule->n_inner > 0 ? '(' : ':';
    int count = 0;

    for (const fb_param *p = rule->params; p != NULL && p->name != NULL; p++) {
        const struct small_value *value = small_find(p->name);
        const size_t n = strlen(text);

        if (value == NULL || p->type != FB_PARAM_INT) continue;
        (void)snprintf(text + n, SMALL_TEXT - n, "%c%s=%d", by, p->name, value->value);
        by = ',';
        count++;
    }
    return count;
}

/* `rule` around inner rules of r's choice; not all go together. */
static inline fb_bound_rule *small_bind(const fb_rule *rule, numbers *r)
{
    char text[SMALL_TEXT];
    fb_bound_rule *out = NULL;
    fb_status status = FB_USAGE;

    for (int tries = 0; status != FB_OK && tries < 100; tries++) {
        int before;

        (void)snprintf(text, sizeof text, "%s", rule->name);
        before = small_params(rule, text);
        for (int i = 0; i < rule->n_inner; i++) {
            const size_t n = strlen(text);

            (void)snprintf(text + n, sizeof text - n, "%c%s",
                           i + before == 0 ? '(' : ',', small_inner(rule, r));
        }
        if (rule->n_inner > 0) strcat(text, ")");
        status = fb_rule_parse(&out, text);
    }
    assert_ok(status);
    of_rule(fb_bound_rule_text(out));
    return out;
}

static inline fb_bound_rule *small_parse(const char *text)
{
    fb_bound_rule *out;

    assert_ok(fb_rule_parse(&out, text));
    of_rule(text);
    return out;
}

/* Its score of a layer of `text`, all planes; how many numbers. */
static inline int64_t small_score(const shown *text, const char *expression,
                                  int64_t layer, float *out)
{
    fb_bound_rule *rule = small_parse(expression);
    int64_t n;

    fb_scope_open(text->ops);
    n = shown_host(text, shown_score(text, rule, layer), out);
    fb_scope_close(text->ops);
    fb_bound_rule_free(rule);
    return n;
}

/* What it keeps of `text`. */
static inline void small_select(fb_selection *out, const shown *text,
                                const char *expression, fb_protect protect, int64_t k)
{
    fb_bound_rule *rule = small_parse(expression);
    shown_scores scores = {0};

    fb_scope_open(text->ops);
    shown_read(&scores, text, rule);
    shown_select(out, text, rule, &scores, protect, k);
    fb_scope_close(text->ops);
    fb_bound_rule_free(rule);
}

static inline bool small_keep_same(const shown *text, const char *a, const char *b,
                                   fb_protect protect, int64_t k)
{
    fb_selection first, second;
    bool same;

    small_select(&first, text, a, protect, k);
    small_select(&second, text, b, protect, k);
    same = shown_is_same(&first.kept, &second.kept);
    fb_selection_clear(&first);
    fb_selection_clear(&second);
    return same;
}

/* A protection and a budget that leaves something to choose. */
typedef struct small_budget {
    fb_protect protect;
    int64_t k, n_protected;
} small_budget;

static inline small_budget small_draw_budget(const shown *text, numbers *r)
{
    const int64_t sink = number_int(r, 0, text->n / 4);
    const int64_t recent = number_int(r, 0, text->n / 4);

    return (small_budget){{FB_PROTECT_EXPERIMENT, sink, recent},
                          number_int(r, sink + recent + 1, text->n - 1),
                          sink + recent};
}

/* It evicts, unlike `full` and the rows of an experiment. */
static inline bool small_evicts(const fb_bound_rule *rule)
{
    return fb_bound_rule_scores(rule);
}

/* Heads, or layers, may keep different numbers of entries. */
static inline bool small_shares(const fb_bound_rule *rule)
{
    return fb_choosing(rule)->rule->kind == FB_KIND_ALLOCATION;
}

/* It evicts, and a text of shown.h has all that it reads. */
static inline bool small_is_shown(const fb_bound_rule *rule)
{
    return small_evicts(rule) &&
           (fb_bound_rule_choices(rule)->reads & ~(uint32_t)SHOWN_READS) == 0;
}

/* The best entries of its score stay, head by head: no share of the budget, no choice by
 * it, no quota. */
static inline bool small_is_plain(const fb_bound_rule *rule)
{
    return small_is_shown(rule) && !small_shares(rule) &&
           !fb_bound_rule_is_control(rule) && !fb_bound_rule_chooses(rule) &&
           fb_bound_rule_choices(rule)->recent_quota <= 0;
}

/* A protection of a text of n tokens, of any kind. */
static inline fb_protect small_protect(numbers *r, int64_t n)
{
    fb_protect out = {.kind = FB_PROTECT_EXPERIMENT};

    if (number_int(r, 0, 5) == 0) out.kind = FB_PROTECT_NONE;
    if (number_int(r, 0, 5) == 0) out.kind = FB_PROTECT_PUBLISHED;
    out.sink = number_int(r, 0, n / 8);
    out.recent = number_int(r, 0, n / 5);
    return out;
}

#endif
