/* event.h - inside of src/embed: a rule that is to evict from one context of the host's.
 *
 * Promises: a rule is scored and its set is selected by src/rule and src/select, as the
 * engine does it, layer by layer and once; nothing of a host's tensor is kept after a call.
 * Must never: write to a host's memory, trust a size that came from there, print.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EMBED_EVENT_H
#define FB_EMBED_EVENT_H

#include "rule/rule.h"
#include "select/select.h"

#include <flexbudget/embed.h>

struct fb_guest {
    fb_ops *ops; /* no scope is open between calls, so events do not meet in it */
    fb_rule_files files;
};

struct fb_event {
    fb_ops *ops; /* the guest's */
    fb_bound_rule *rule;
    fb_rule given; /* stands for the host's own formula */
    char name[64];
    fb_protect protect;
    int64_t layers, heads, kv_heads, head_dim, value_dim, n;
    int64_t k; /* entries per head under an equal split */
    uint64_t seed;
    bool *is_scored;     /* [layers] */
    fb_tensor *scores;   /* [layers] persistent */
    fb_tensor *measured; /* [layers] persistent, or FB_NONE */
    fb_selection selection;
    fb_ledger ledger, *payer;
};

/* attention.c - the attention that the rule reads, into `see`: of its window's rows, or
 * summed over all queries, or what the rule carries from block to block. */
void fb_event_attend(fb_event *event, const fb_outside *queries, const fb_outside *keys,
                     double scale, fb_signals *see);
/* After the score: what was put together from blocks. */
void fb_event_forget(const fb_event *event, fb_signals *see);
/* The attention of so many of the last queries it reads. */
int64_t fb_event_queries(const fb_event *event);

#endif
