/* select.h - scores and a budget become the set of entries that stay.
 *
 * protect, allocate, choose: always in this order, the same for every rule. Higher
 * scores first, equal scores by lower position. The total never exceeds the budget. For
 * a control the rule within chooses, and then as many entries are drawn instead.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_SELECT_SELECT_H
#define FB_SELECT_SELECT_H

#include "cache/cache.h"
#include "rule/rule.h"

typedef enum fb_protect_kind {
    FB_PROTECT_EXPERIMENT, /* sink + recent of the experiment, for all rules alike */
    FB_PROTECT_PUBLISHED,  /* what each rule's paper or code protects */
    FB_PROTECT_NONE,
} fb_protect_kind;

typedef struct fb_protect {
    fb_protect_kind kind;
    int64_t sink, recent;
} fb_protect;

/* One selection for all layers of a document. */
typedef struct fb_selection {
    fb_kept kept;
    int64_t k;              /* entries per head under an equal split */
    int64_t budget_entries; /* layers * kv_heads * k: never exceeded */
    int64_t n_protected;    /* per head, before it had to shrink */
    int64_t free_choices;   /* entries that the rule itself could choose, all slots */
    bool fallback; /* fewer tokens than the rule needs: sinks + recents instead */
    bool shrunk;   /* some head may keep fewer entries than are protected */
} fb_selection;

typedef struct fb_selector {
    const fb_bound_rule *rule;
    fb_protect protect;
    int64_t layers, kv_heads;
    int64_t n; /* tokens = entries per slot before eviction */
    /* tokens of a question that stay whatever the rule (`aware`) */
    int64_t protect_last;
    /* For a control: what its draw is made of, and [layers * kv_heads] of [n] the positions
     * of the entries; NULL: entry j is token j. */
    uint64_t seed, stream;
    int32_t *const *position;
    /* [layers] of [planes * kv_heads, n - unscored_last]; NULL: keeps all */
    const fb_tensor *scores;
    const fb_tensor *measured; /* [layers] for an allocation over layers; or NULL */
} fb_selector;

FB_MUST_USE fb_status fb_select(fb_selection *out, fb_ops *ops, const fb_selector *in,
                                int64_t k);
void fb_selection_clear(fb_selection *selection);

/* True for a rule that cannot score so few tokens (rules.md 1.9): it needs no
 * scores. */
bool fb_select_falls_back(const fb_bound_rule *rule, int64_t n);

#endif
