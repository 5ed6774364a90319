/* rule.h - rules by name, expressions of them, and their parameters.
 *
 * An expression is `name`, `name:key=value,...` or `wrapper(rule, ..., key=value)`; a
 * preset is a name that stands for one (`preset:key=value,...` if it is a plain rule), and
 * so is `project:name(argument=value, ...)`, what another project calls it (peer.h).
 * Parsed, it is a tree of bound rules; printed again, it is canonical: parameters in
 * declared order, defaults written out. The canonical text is what is stored and
 * hashed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_RULE_RULE_H
#define FB_RULE_RULE_H

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "ops/ops.h"

#include <flexbudget/rule.h>

int fb_rule_count(void);
const fb_rule *fb_rule_at(int index);
const fb_rule *fb_rule_find(const char *name); /* NULL if there is none */

/* A row of rules/presets.h. */
typedef struct fb_preset {
    const char *name, *expression, *summary;
} fb_preset;

int fb_preset_count(void);
const fb_preset *fb_preset_at(int index);
const fb_preset *fb_preset_find(const char *name); /* NULL if there is none */

/* A row of rules/refused.h: a rule that is known and not offered. */
typedef struct fb_refused {
    const char *name, *source, *why;
    const char *nearest; /* an expression; "": nothing here is near */
} fb_refused;

int fb_refused_count(void);
const fb_refused *fb_refused_at(int index);
const fb_refused *fb_refused_find(const char *name); /* NULL if there is none */
/* FB_UNSUPPORTED with the reason and what is nearest; `name` as it was written. */
fb_status fb_refused_fail(const fb_refused *row, const char *name);
/* --- rules in files of their own --- */

/* A shared object with rules. */
typedef struct fb_rule_file {
    char *path; /* as it was named */
    fb_file_state state;
    char sha256[FB_HASH_HEX];
    fb_rule *rules; /* [n] copies of its structs, checked; the rest lies in the file */
    int n;
    void *handle; /* of the loader */
} fb_rule_file;

/* Files whose rules have names beside the built-in ones. Zeroed: none. */
typedef struct fb_rule_files {
    fb_rule_file **file; /* [n] */
    int n;
} fb_rule_files;

/* Loads one, which runs what the file runs when it is loaded; one that is there already is
 * left. A path without a slash is one in this folder. `sha256`: NULL, or the hash that it
 * must have, else it is not loaded. `out`, lent, may be NULL. FB_NOT_FOUND, FB_FORMAT for what is no shared object or
 * exports no rules, FB_UNSUPPORTED for another ABI, FB_USAGE for a name that is taken,
 * FB_DEFECT for a struct that makes no sense. */
FB_MUST_USE fb_status fb_rule_files_add(fb_rule_files *files, const char *path,
                                        const char *sha256, const fb_rule_file **out);
/* Whether a text names such a file, and no rule. */
bool fb_rule_is_file(const char *text);
/* No rule of them may be bound any more. */
void fb_rule_files_clear(fb_rule_files *files);
/* NULL if there is none; `files` may be NULL. */
const fb_rule *fb_rule_files_find(const fb_rule_files *files, const char *name,
                                  const fb_rule_file **file_out);

/* A rule with its parameters and its inner rules. */
typedef struct fb_bound_rule fb_bound_rule;

/* FB_USAGE: unknown name or key (with the nearest), value out of range (with the
 * range), wrong number of inner rules, a wrapper around an allocation; FB_UNSUPPORTED: a
 * rule that is not offered. The sentence goes on with the text, a caret at the place in
 * it, and lines of help.
 */
FB_MUST_USE fb_status fb_rule_parse(fb_bound_rule **out, const char *expression);
/* The same where `files`, which may be NULL and must outlive it, have rules too. */
FB_MUST_USE fb_status fb_rule_parse_with(fb_bound_rule **out, const char *expression,
                                         const fb_rule_files *files);
/* For tests and loaded rules: binds a rule that is in no list, with default
 * parameters. */
FB_MUST_USE fb_status fb_rule_bind(fb_bound_rule **out, const fb_rule *rule);
/* The same for a wrapper or allocation with one inner rule, given as an expression. */
FB_MUST_USE fb_status fb_rule_bind_around(fb_bound_rule **out, const fb_rule *rule,
                                          const char *inner);
void fb_bound_rule_free(fb_bound_rule *rule); /* takes NULL */

/* --- effort (effort.c) ---
 * What a rule and those within it can be told to spend less of: parameters that their rules
 * name. Effort s of the largest of them, S, gives each floor(written * s / S), at least its
 * least value: several keep their proportion. */

/* S; -1: nothing in it has any. */
int64_t fb_bound_rule_most_effort(const fb_bound_rule *rule);
/* A rule of its own, written as `rule` but for its efforts at `s` of S, 0 to S. */
FB_MUST_USE fb_status fb_bound_rule_with_effort(fb_bound_rule **out,
                                                const fb_bound_rule *rule, int64_t s);
/* Whether `less` is `rule` but for efforts that are no larger. */
bool fb_bound_rule_is_lowered(const fb_bound_rule *less, const fb_bound_rule *rule);
/* "window 64 -> 22", and of several rules "noncausal chunk 256 -> 40, leverage sketch 48 ->
 * 7": what `other`, made of `rule`, has less of. */
void fb_bound_rule_less_effort(const fb_bound_rule *rule, const fb_bound_rule *other,
                               fb_text *out);

const fb_rule *fb_bound_rule_get(const fb_bound_rule *rule); /* the outermost */
const char *fb_bound_rule_text(const fb_bound_rule *rule);   /* canonical; lent */
/* That of the innermost rule, or "mixed". */
const char *fb_bound_rule_family(const fb_bound_rule *rule);
/* Whether code from files computes it, and then the hash of the file; of several files that
 * of their hashes, in the order of the expression. */
bool fb_bound_rule_is_loaded(const fb_bound_rule *rule, char sha256_out[FB_HASH_HEX]);
/* A failure of the rule, with the file that it comes from in front, if there is one. */
fb_status fb_bound_rule_context(const fb_bound_rule *rule, fb_status status);
/* Of each of its rules, the outermost first, a line "what it keeps\twhere that is from". */
void fb_bound_rule_about(const fb_bound_rule *rule, fb_text *out);
/* The rule's choices, joined with those of its inner rules. */
const fb_choices *fb_bound_rule_choices(const fb_bound_rule *rule);
/* Its kept set depends on a seed: it reads FB_READS_RANDOM or is a control. */
bool fb_bound_rule_is_random(const fb_bound_rule *rule);
bool fb_bound_rule_is_control(const fb_bound_rule *rule);
/* It changes values that are kept. */
bool fb_bound_rule_edits(const fb_bound_rule *rule);
/* The new values of a head [1, k, head_dim]. */
fb_tensor fb_bound_rule_edit(const fb_bound_rule *rule, fb_ops *ops,
                             const fb_edit_input *in);
/* It has a score of entries, and chooses by it. */
bool fb_bound_rule_scores(const fb_bound_rule *rule);
/* It reads no future, and need not be told where the answer stands. */
bool fb_bound_rule_is_deployable(const fb_bound_rule *rule);
/* It and its inner rules know what to do while text comes in. */
bool fb_bound_rule_streams(const fb_bound_rule *rule);
/* What it asks of the kernel: the last rows of attention in a context of n tokens, 0 for
 * none; sums over all queries. */
int64_t fb_bound_rule_window(const fb_bound_rule *rule, int64_t n);
bool fb_bound_rule_reads_sum(const fb_bound_rule *rule);
/* Whether its state is updated block by block of a context that is read at once. */
bool fb_bound_rule_reads_block(const fb_bound_rule *rule);
bool fb_bound_rule_reads_residual(const fb_bound_rule *rule);
/* How it wants the context to be read again; NULL: not. */
const fb_replay *fb_bound_rule_replay(const fb_bound_rule *rule);
bool fb_replay_is_same(const fb_replay *a, const fb_replay *b);
/* The last tokens whose queries it reads in a context of n, 0 for none; all if it learns. */
int64_t fb_bound_rule_queries(const fb_bound_rule *rule, int64_t n);

/* Who draws random numbers: draws of different ones say nothing of each other. */
typedef enum fb_drawer {
    FB_DRAWER_RULE,
    FB_DRAWER_CONTROL,
    FB_DRAWER_QUERY, /* and all numbers behind it: of the query at position 0, 1, ... */
} fb_drawer;

/* What random numbers are made of. */
typedef struct fb_chance {
    uint64_t seed, stream;
    fb_drawer drawer;
} fb_chance;

/* Signals that are numbers alone, of m entries in each kv head, [kv_heads, m]: positions;
 * uniform numbers of (chance, layer, kv head, position). `position` [kv_heads] of [m];
 * NULL: 0, 1, ... */
fb_tensor fb_signal_position(fb_ops *ops, int64_t kv_heads, int64_t m,
                             int32_t *const *position);
fb_tensor fb_signal_random(fb_ops *ops, fb_chance chance, int64_t layer,
                           int64_t kv_heads, int64_t m, int32_t *const *position);

/* [heads, t, m] for the rows of t queries, those of the newest tokens. */
fb_tensor fb_signal_block_random(fb_ops *ops, fb_chance chance, int64_t layer,
                                 int64_t heads, int64_t kv_heads, int64_t t, int64_t m,
                                 int32_t *const *position);

/* Of the rows [heads, t, m] of a block of a context of n tokens those of the last `most`
 * queries, behind `window`, those of the blocks before (persistent, released here; FB_NONE):
 * [heads, .., n] persistent; FB_NONE while there are none. */
fb_tensor fb_signal_window(fb_ops *ops, fb_tensor window, fb_tensor rows, int64_t n,
                           int64_t most);

/* When the state of a rule changes (fb_choices.updates_at_events). */
typedef enum fb_moment { FB_AFTER_BLOCK, FB_AT_EVENT } fb_moment;

/* The state of all its rules [kv_heads, state_rows, m] after a block of tokens, or at an
 * eviction before they score; `see` has the old one, 0 for new entries. What changes at the
 * other moment stays. */
fb_tensor fb_bound_rule_update(const fb_bound_rule *rule, fb_ops *ops,
                               const fb_signals *see, fb_moment moment);
/* What all its rules have learnt of a layer, [heads, fb_layer_state_rows, head_dim], after a
 * block of tokens; `see` has the block's queries, and what they knew before. */
fb_tensor fb_bound_rule_learn(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_signals *see);
bool fb_bound_rule_learns(const fb_bound_rule *rule);
int64_t fb_layer_state_rows(const fb_choices *choices, int64_t head_dim);
/* Whether a state changes at an eviction. */
bool fb_bound_rule_updates_at_events(const fb_bound_rule *rule);

/* The model's rotary tables, for rules that turn keys or queries: cosine, sine [n, r/2] of
 * `position` [n], of size 1. */
struct fb_rotary {
    const void *self;
    fb_status (*tables)(const void *self, fb_ops *ops, const int64_t *position,
                        int64_t n, fb_tensor *cosine, fb_tensor *sine);
};

/* The score of one layer, smoothed, reduced to kv heads and wrapped, f32:
 * [planes * kv_heads, m - unscored_last]. Failures are in the context of `ops`; a NaN is
 * FB_DEFECT that names rule, layer, head and position. FB_NONE for a rule that chooses
 * nothing. */
fb_tensor fb_bound_rule_score(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_signals *see);

/* The same of a context that was read at once, whose state, if the rule does not follow its
 * blocks, is made first. */
fb_tensor fb_bound_rule_score_once(const fb_bound_rule *rule, fb_ops *ops,
                                   const fb_signals *see);

/* What an allocation over layers wants to know of this one; FB_NONE: nothing. */
fb_tensor fb_bound_rule_measure(const fb_bound_rule *rule, fb_ops *ops,
                                const fb_signals *see, fb_tensor score);

/* Entries of every head, `k_out` [n_layers * kv_heads], by the allocations of the rule or
 * evenly. */
FB_MUST_USE fb_status fb_bound_rule_share(const fb_bound_rule *rule, fb_ops *ops,
                                          const fb_spread_input *in, int64_t *k_out);
/* Whether it chooses by an order that is not its score. */
bool fb_bound_rule_chooses(const fb_bound_rule *rule);
/* The order in which entries of a layer are chosen under one budget [kv_heads, columns]. */
fb_tensor fb_bound_rule_order(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_select_input *in);

#endif
