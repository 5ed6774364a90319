/* cache.h - the budget, and the only owner of KV memory.
 *
 * A cache has one slot per (layer, kv head), slot = layer * kv_heads + g, each with its
 * own number of entries. Its bytes are computed first, taken once, and cannot grow: a
 * request for more than the budget is FB_BUDGET and nothing changes. Which token an
 * entry holds is remembered as its position; positions ascend within a slot.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CACHE_CACHE_H
#define FB_CACHE_CACHE_H

#include "ops/ops.h"

typedef struct fb_cache_shape {
    int64_t layers, kv_heads, head_dim;
    fb_dtype type; /* of a number: f32, f16 or bf16 */
} fb_cache_shape;

/* Which entries stay: per slot ascending positions. */
typedef struct fb_kept {
    int64_t n_slots;
    int64_t *count;     /* [n_slots] */
    int32_t **position; /* [n_slots][count] */
} fb_kept;

typedef struct fb_cache fb_cache;

/* A cache for every one of `tokens` tokens in every slot, empty. */
FB_MUST_USE fb_status fb_cache_new(fb_cache **out, fb_ops *ops,
                                   const fb_cache_shape *shape, int64_t tokens);
/* A cache that holds exactly the entries `kept` of `full`, moved into memory of exactly
 * their bytes. FB_BUDGET if they are more than `budget_entries` together, or a slot has
 * none. */
FB_MUST_USE fb_status fb_cache_evict(fb_cache **out, fb_ops *ops, const fb_cache *full,
                                     const fb_kept *kept, int64_t budget_entries);
/* The same as a mask on `full` [slots][tokens], not 0 for what is not kept; with the same
 * checks, and charged as if the entries moved. fb_free it. */
FB_MUST_USE fb_status fb_cache_hide(uint8_t **out, fb_ops *ops, const fb_cache *full,
                                    const fb_kept *kept, int64_t budget_entries);
/* A cache of as many tokens with the same entries, beside the budget (account `other`): for
 * work whose outcome does not count. `from` has not been evicted from by fb_cache_evict. */
FB_MUST_USE fb_status fb_cache_copy(fb_cache **out, fb_ops *ops, const fb_cache *from);
void fb_cache_free(fb_cache *cache); /* takes NULL */

/* All entries, all bytes. */
int64_t fb_cache_total(const fb_cache *cache);
size_t fb_cache_bytes(const fb_cache *cache);

/* Writes t tokens' keys and values of x [t, (H + 2G)*d] behind the entries of `layer`.
 * All kv heads grow alike; FB_BUDGET when they do not fit. */
FB_MUST_USE fb_status fb_cache_append(fb_cache *cache, fb_ops *ops, int64_t layer,
                                      fb_tensor x, int64_t heads);

/* Of each slot only the entries `kept` stay, by their place in it, and move to its front;
 * the memory stays. */
FB_MUST_USE fb_status fb_cache_shrink(fb_cache *cache, fb_ops *ops,
                                      const fb_kept *kept);
/* The same of the last n entries of each slot. */
FB_MUST_USE fb_status fb_cache_keep_last(fb_cache *cache, fb_ops *ops, int64_t n);
/* All entries are forgotten; the memory stays. */
void fb_cache_empty(fb_cache *cache);
/* The last entries of `from`, which has one layer, as many as a slot of `layer` holds,
 * become the entries of `layer`. */
FB_MUST_USE fb_status fb_cache_take_last(fb_cache *cache, fb_ops *ops, int64_t layer,
                                         const fb_cache *from);

/* Keys and values of a slot [1, entries, d]; and what they become. */
void fb_cache_read_slot(const fb_cache *cache, fb_ops *ops, int64_t slot,
                        fb_tensor *keys_out, fb_tensor *values_out);
void fb_cache_write_slot(fb_cache *cache, fb_ops *ops, int64_t slot, fb_tensor keys,
                         fb_tensor values);

/* Rotates the keys of a slot further: entry j by row j of cosine, sine [entries, r/2]. */
void fb_cache_turn(fb_cache *cache, fb_ops *ops, int64_t slot, fb_tensor cosine,
                   fb_tensor sine);

/* What attention reads: a part of all entries of a slot, none of them hidden. */
fb_part fb_cache_part(const fb_cache *cache, int64_t layer, int64_t kv_head);
fb_tensor fb_cache_keys(const fb_cache *cache, fb_ops *ops,
                        int64_t layer); /* [G, m, d] */
fb_tensor fb_cache_values(const fb_cache *cache, fb_ops *ops,
                          int64_t layer); /* [G, m, d] */

/* --- parts ---
 * A cache has one allocation for each part of the operators (one, natively), with the same
 * share of its layers as that part has of the model's. */

typedef struct fb_split {
    int n;
    int64_t first[FB_MAX_PARTS + 1]; /* layers [first[i], first[i + 1]) are part i */
} fb_split;

fb_split fb_split_of(const fb_ops *ops, int64_t layers);
/* The part of a layer. */
int fb_split_find(const fb_split *split, int64_t layer);

/* --- the tail ----------------------------------------------------------------------------
 * Question and answer of a batch of sequences: the same fixed number of tokens for every
 * rule, listed beside the budget. */

typedef struct fb_tail fb_tail;

FB_MUST_USE fb_status fb_tail_new(fb_tail **out, fb_ops *ops,
                                  const fb_cache_shape *shape, int64_t n_sequences,
                                  int64_t tokens);
void fb_tail_free(fb_tail *tail);                                  /* takes NULL */
size_t fb_tail_bytes(const fb_cache_shape *shape, int64_t tokens); /* of one sequence */
/* Writes the keys and values of x [V*t, (H + 2G)*d] of `layer`: token i of batch row v is
 * token at[v] + i of sequence sequence[v]. */
void fb_tail_write(fb_tail *tail, fb_ops *ops, int64_t layer, fb_tensor x,
                   int64_t heads, int64_t n, const int64_t *sequence,
                   const int64_t *at);
/* The first n tokens of a sequence. */
fb_part fb_tail_part(const fb_tail *tail, int64_t sequence, int64_t layer,
                     int64_t kv_head, int64_t n);

/* --- kept sets --- */

FB_MUST_USE fb_status fb_kept_new(fb_kept *out, int64_t n_slots);
/* The set of a slot: every j < n with a non-zero stays[j]. */
FB_MUST_USE fb_status fb_kept_set(fb_kept *kept, int64_t slot, const uint8_t *stays,
                                  int64_t n);
void fb_kept_clear(fb_kept *kept);
int64_t fb_kept_total(const fb_kept *kept);

/* --- the budget --- */

typedef enum fb_budget_kind {
    FB_BUDGET_RATIO,
    FB_BUDGET_TOKENS,
    FB_BUDGET_BYTES
} fb_budget_kind;

/* A budget as asked. A ratio is an exact fraction (10% = 10/100, 12.5% = 125/1000). */
typedef struct fb_budget {
    fb_budget_kind kind;
    int64_t numerator, denominator; /* ratio */
    int64_t value;                  /* tokens per head, or bytes */
} fb_budget;

typedef enum fb_rounding { FB_ROUND_EXACT, FB_ROUND_KVPRESS } fb_rounding;

/* Entries per head that `budget` allows for a context of `tokens`: max(1, floor(n *
 * keep)) for a ratio (exact), min(n, tokens), floor(bytes / (L * G * bytes of an
 * entry)); at most n. With FB_ROUND_KVPRESS a ratio gives max(1, int(n * (1 - (1 -
 * keep)))) in doubles. */
int64_t fb_budget_entries(const fb_budget *budget, const fb_cache_shape *shape,
                          int64_t tokens, fb_rounding rounding);
/* "10%", "12.5 %", "256t", "256 tokens", "64MiB", "64MB": FB_USAGE with the forms. */
FB_MUST_USE fb_status fb_budget_parse(fb_budget *out, const char *text);
/* The form that is stored and hashed: "10%", "256t", "67108864B". */
void fb_budget_print(const fb_budget *budget, char *out, size_t n);
/* 2 * head_dim numbers of the shape's type */
size_t fb_entry_bytes(const fb_cache_shape *shape);
/* "f32", "f16", "bf16". */
const char *fb_cache_type_name(fb_dtype type);

#endif
