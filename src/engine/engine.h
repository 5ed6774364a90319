/* engine.h - reads a context once, scores it for every rule, answers for many variants
 * at once.
 *
 *   fb_read          once per document: context -> full cache, scores of all rules;
 *                    for some it is read again
 *   fb_foresee       once per probe: question + reference on the full cache -> oracle
 *   fb_evict         rule + budget -> the entries that stay, in an arena of their bytes
 *   fb_answer_group  question + reference, then a free answer, for many variants in one
 *                    batch; without a reference the free answer alone
 *
 * The same operator calls are made for every rule; the trace hash of each part proves
 * it. Positions are the original ones (an entry keeps its rotation, new tokens go on at
 * n) unless the engine was opened with `compact`.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_ENGINE_H
#define FB_ENGINE_ENGINE_H

#include "cache/cache.h"
#include "model/model.h"
#include "rule/rule.h"
#include "select/select.h"

typedef struct fb_engine fb_engine;

/* Sees intermediate tensors of a pass as they are made, for comparison with a reference
 * or to see how far it is: `what` is "attention_in", "qkv", "qkv_rotated",
 * "attention_out", "layer_out" or "final_norm"; rows first_row and on of the sequence.
 * fb_ops_refuse ends the pass. */
typedef void fb_watch(void *self, fb_ops *ops, const char *what, int64_t layer,
                      int64_t first_row, fb_tensor a);

enum { FB_CONTEXT_BLOCK = 256 }; /* rows of a context that are handled at a time */

typedef struct fb_engine_options {
    /* rows handled at a time while reading; changes no bit but of states that follow blocks.
     * 0: FB_CONTEXT_BLOCK */
    int64_t chunk;
    fb_dtype cache; /* of keys and values: FB_F32 (0), FB_F16, FB_BF16 */
    /* of attention; 0: the model's own. For negative tests of the trace */
    double scale;
    /* Entries that stay are numbered anew: the newest of a head stands before the first
     * token of the question, which comes at the budget's number of entries per head
     * (Xiao et al. 2024, arXiv:2309.17453). Otherwise each keeps its own position. */
    bool compact;
    /* What ends a user's turn and begins the model's, for rules that read the context
     * again; NULL: as the template of the model's file has it. */
    const char *turn_end;
    fb_watch *watch;
    void *watch_self;
} fb_engine_options;

/* `ops` and `model` are lent for the life of the engine. */
FB_MUST_USE fb_status fb_engine_open(fb_engine **out, fb_ops *ops,
                                     const fb_model *model,
                                     const fb_engine_options *options);
void fb_engine_close(fb_engine *engine); /* takes NULL */

/* --- reading --- */

/* A rule with the seed of its random numbers. */
typedef struct fb_seeded_rule {
    const fb_bound_rule *rule;
    uint64_t seed;
} fb_seeded_rule;

typedef struct fb_reading fb_reading;

/* Reads `ids` with a full cache and scores every layer for every rule (the ones that
 * read the future are scored by fb_foresee). `stream` names the document to the random
 * numbers.
 */
FB_MUST_USE fb_status fb_read(fb_reading **out, fb_engine *engine, const int32_t *ids,
                              int64_t n, const fb_seeded_rule *rules, int n_rules,
                              uint64_t stream);
void fb_reading_free(fb_reading *reading); /* takes NULL */
/* FB_UNSUPPORTED if a text of so many tokens, answer included, leaves the window of a
 * model that has nothing but windows: there eviction could not be told from the window. */
FB_MUST_USE fb_status fb_reading_fits(const fb_model_facts *facts, int64_t tokens);
/* Bytes of the windows of sliding layers for a context of so many tokens: beside the budget,
 * the same for all rules. 0: there are none. */
size_t fb_window_bytes(const fb_model_facts *facts, fb_dtype cache, int64_t tokens);

/* NULL once it was let go. */
const fb_cache *fb_reading_cache(const fb_reading *reading);
int64_t fb_reading_tokens(const fb_reading *reading);
/* What this rule's cells pay for the context: the plain pass, its signals, its
 * scores. */
const fb_ledger *fb_reading_ledger(const fb_reading *reading, int rule);
/* The peak of all keys and values that the allocator counted, since it was reset, when the
 * pass was over: blocks of layers that slide hold more than their windows. */
size_t fb_reading_pass_bytes(const fb_reading *reading);
/* Bytes of keys and values beside the context's, at most, while it is read again for this
 * rule; 0: it is not. */
size_t fb_reading_again_bytes(const fb_reading *reading, int rule);
/* The time of fb_read in ns, without the checksums that nobody pays for; and what of it
 * scoring the layers for this rule took. */
int64_t fb_reading_ns(const fb_reading *reading);
int64_t fb_reading_score_ns(const fb_reading *reading, int rule);
/* Of the one pass that all rules shared; its signals (scope signal) are those of them all. */
const fb_ledger *fb_reading_pass(const fb_reading *reading);
const char *fb_reading_trace(const fb_reading *reading); /* hex; lent */
/* SHA-256 of checksums of all K and V; hex; lent. */
const char *fb_reading_cache_sha256(const fb_reading *reading);
/* Scores of a rule and layer (of those that do not slide) [kv_heads, n - unscored];
 * FB_NONE if it has none. For tests. */
fb_tensor fb_reading_score(const fb_reading *reading, int rule, int64_t layer);

/* A question and its reference answer, as ids. prompt: question, template, prefix. A
 * continuation has its first token as the prompt. */
typedef struct fb_question {
    const int32_t *prompt, *answer;
    int64_t n_prompt; /* at least 1 */
    int64_t n_answer; /* 0: there is no reference, and nothing is measured */
} fb_question;

/* What answers to `question` are compared with, if there is a reference: the full cache's
 * own. It is made when it is needed, or here. */
FB_MUST_USE fb_status fb_meet(fb_reading *reading, const fb_question *question);
/* Gives the full cache back, once one token behind it has been counted (fb_step_work). From
 * then on nothing is evicted from it or foreseen, and only variants that are alone answer, and
 * only the question that was met. Where it fails the cache stays. */
FB_MUST_USE fb_status fb_reading_let_go(fb_reading *reading);

/* The teacher-forced pass of the question on the full cache: sets the scores of the
 * rules that read the future, for this question (replacing those of the last). */
FB_MUST_USE fb_status fb_foresee(fb_reading *reading, const fb_question *question);
/* The same for all questions of the document together: sets the scores of the rules that
 * read their future, once, before fb_foresee. */
FB_MUST_USE fb_status fb_foresee_document(fb_reading *reading,
                                          const fb_question *questions, int n);
/* True for the rule whose score was at fault when one of them failed. It is left out when
 * that is called again. */
bool fb_has_failed_to_foresee(const fb_reading *reading, int rule);

/* --- evicting --- */

/* A rule at a budget: what it kept, and the cache that holds just that. */
typedef struct fb_variant fb_variant;

FB_MUST_USE fb_status fb_evict(fb_variant **out, fb_reading *reading, int rule,
                               const fb_protect *protect, int64_t protect_last,
                               int64_t k);
/* The same selection read through a mask on the full cache: gives the same bits, and is
 * charged the same. */
FB_MUST_USE fb_status fb_evict_masked(fb_variant **out, fb_reading *reading, int rule,
                                      const fb_protect *protect, int64_t protect_last,
                                      int64_t k);
/* How a text comes in: no head ever holds more than k entries. */
typedef struct fb_pace {
    int64_t k;
    int64_t chunk; /* tokens of context and question that are read at a time */
    int64_t
        interval; /* 0: question and answer stand beside the budget. Otherwise they go
                         on under it, and the rule evicts before every so many tokens of the
                         answer, be it a reference or a free one */
    bool
        pays_state; /* fb_variant_bytes counts what the rule keeps beside the entries */
    bool
        keeps_scores; /* what survived an eviction competes at later ones with the score
                         that it had, which it carries */
} fb_pace;

/* The context is read anew under the budget: in chunks, and before one that would not fit
 * the rule evicts. The reading, of the same `ids`, is what the answers are compared with; it
 * needs no rules. With an interval the rule is lent for the life of the variant. */
FB_MUST_USE fb_status fb_stream_in(fb_variant **out, fb_reading *reading,
                                   const fb_seeded_rule *rule, const int32_t *ids,
                                   const fb_protect *protect, const fb_pace *pace);
/* The last k tokens of `ids`, those of the reading, are read alone, as a text that begins
 * there: what a prompt cut to the budget gives. */
FB_MUST_USE fb_status fb_reread(fb_variant **out, fb_reading *reading,
                                const int32_t *ids, int64_t k);
/* Entries a head that fit, beside the rule's state, the queries that it holds and scores that
 * are kept, into the bytes of k entries a head. */
int64_t fb_stream_entries(const fb_model_facts *facts, fb_dtype cache,
                          const fb_bound_rule *rule, int64_t k, bool keeps_scores);
/* A set chosen elsewhere (copied), under the same budget check: that of a row of an
 * experiment; in tests what another program kept, or a set for which the answer is known. */
FB_MUST_USE fb_status fb_evict_given(fb_variant **out, fb_reading *reading,
                                     const fb_kept *kept, int64_t budget_entries);
/* All entries stay: the row `full`. Uses the reading's own cache. */
FB_MUST_USE fb_status fb_keep_all(fb_variant **out, fb_reading *reading);
/* All entries stay, in `bits` (2 to 8) a number: keys and values are rounded once the
 * context has been read. 32 channels of an entry have a step and a least number of 16 bits
 * in common, which are counted. */
FB_MUST_USE fb_status fb_keep_quantised(fb_variant **out, fb_reading *reading,
                                        int bits);
void fb_variant_free(fb_variant *variant); /* takes NULL */
/* After the context. NULL for a variant that keeps all. */
const fb_selection *fb_variant_selection(const fb_variant *variant);
/* Of its arena, or of the arena that a mask stands for; where it pays for it, with what its
 * rule keeps beside the entries; where it is quantised, of the packed numbers. */
size_t fb_variant_bytes(const fb_variant *variant);
/* Of what the rule may keep beside the entries as text comes in, at the most: what entries
 * carry, statistics, the last queries; also where nobody pays for it, or all text fits. 0: the
 * context was read before. */
size_t fb_variant_state_bytes(const fb_variant *variant);
/* Entries that a head held while text came in under the budget, at most; else 0. */
int64_t fb_variant_highest(const fb_variant *variant);
/* It is answered from a cache of its own, and not from that of its reading. */
bool fb_variant_is_alone(const fb_variant *variant);
/* Whether a budget of k of n entries per head is answered sooner through a mask, in a
 * group with others of the kind: the shared cache is read once for all of them, but all of
 * it is computed with. Never where entries are renumbered, nor by a backend for which
 * a masked entry and an absent one are not the same bits (fb_ops_is_exact). */
bool fb_mask_pays(const fb_engine *engine, int64_t n, int64_t k);
/* The work of selecting and moving, and of reading where it read the context itself. */
const fb_ledger *fb_variant_ledger(const fb_variant *variant);
/* Whether it read the context itself, under the budget: by fb_stream_in or fb_reread. */
bool fb_variant_streamed(const fb_variant *variant);
/* Of the pass that read its context; hex; lent. "": of a text of its own, with which no
 * other is to be compared. */
const char *fb_variant_trace(const fb_variant *variant);

/* --- answering --- */

typedef enum fb_stop {
    FB_STOP_end,    /* an end token */
    FB_STOP_length, /* max_tokens */
    FB_STOP_string  /* is_done */
} fb_stop;

/* A free answer after one more step. */
typedef struct fb_growth {
    int variant;        /* of the group */
    const int32_t *ids; /* [n] so far; lent for the call */
    int64_t n, n_new;   /* the last n_new are new: 1, or 0 at an end token */
    bool is_over;
    fb_stop stop; /* why, once it is over */
} fb_growth;

typedef struct fb_answer_options {
    bool generate;      /* a free answer is wanted; always without a reference */
    int64_t max_tokens; /* of a free answer; at least 1 if one is wanted */
    /* An end token is a token like any other: answers of one length, to be timed. */
    bool goes_past_end;
    /* Ends a free answer early; NULL: only end tokens do. Called with the ids so
     * far, after each. */
    fb_status (*is_done)(void *self, const int32_t *ids, int64_t n, bool *out);
    /* Sees the free answers grow, variant by variant after each step of the batch. A
     * failure ends the group with it. NULL: nobody looks. */
    fb_status (*watch)(void *self, const fb_growth *growth);
    void *self; /* of both */
} fb_answer_options;

/* What one variant said. Free with fb_answer_clear. */
typedef struct fb_answer {
    int64_t n;          /* tokens of the reference */
    double *nll;        /* [n] nats per token of the reference */
    double *kl;         /* [n] KL(full || this), nats */
    int32_t *top1;      /* [n] arg max at each place of the reference; without one, the
                           first of the free answer */
    int32_t *full_top1; /* [n] the same of the full cache */
    /* [n_ids] the free answer, NULL if none is wanted: exactly what greedy decoding from
     * the question gives, end token not included. */
    int32_t *ids;
    int64_t n_ids; /* at most max_tokens */
    fb_stop stop;
    size_t tail_bytes; /* memory for question and answer, the same for all variants; 0
                          where they stand under the budget */
    /* There, when the reference (else the question) has been read: what is left of all
     * tokens [slots], and what the last eviction chose from. Otherwise no slots. */
    fb_selection held;
    int64_t n_read;      /* tokens by then */
    int64_t events;      /* evictions by then */
    int64_t free_events; /* with the free answer instead, to its end */
    int64_t highest;     /* entries that a head held, at most, free answer included */
    fb_ledger ledger;    /* question, answer and decoding, as if alone */
    char trace_answer[65], trace_decode[65]; /* decode: "" if it did not decode */
} fb_answer;

/* Answers `question` for all variants of one reading as one batch; those that go on under
 * their budgets (all of them or none) one after the other. `out` [n_variants]. */
FB_MUST_USE fb_status fb_answer_group(fb_reading *reading, fb_variant *const *variants,
                                      int n_variants, const fb_question *question,
                                      const fb_answer_options *options, fb_answer *out);
void fb_answer_clear(fb_answer *answer);
/* The same measures, the same words and the same charges, bit for bit. */
bool fb_answer_is_same(const fb_answer *a, const fb_answer *b);
/* Bytes that one more variant adds to a group besides its arena: for groups that
 * fit. */
size_t fb_answer_bytes(const fb_model_facts *facts, fb_dtype cache,
                       const fb_question *question, const fb_answer_options *options);

/* What the first token of an answer takes, FLOPs and bytes read and written: weights, what
 * attention reads of the variant (of a quantised one, packed), of a question of `n_prompt`
 * tokens and of itself. Where question and answer go on under the budget: of what is left of
 * that when `answer` has been read, once there is room for the next tokens. The same as the ledger of such a step of decoding, without
 * the choice of a token. Runs one token if the reading has not yet. */
FB_MUST_USE fb_status fb_step_work(fb_reading *reading, const fb_variant *variant,
                                   int64_t n_prompt, const fb_answer *answer,
                                   double *flops_out, double *bytes_out);

/* --- whole sequences: for tests and perplexity --- */

/* Logits [n_rows, vocabulary] (host memory of the caller) after ids[row[i]] of a plain
 * pass. */
FB_MUST_USE fb_status fb_logits(fb_engine *engine, const int32_t *ids, int64_t n,
                                const int64_t *row, int64_t n_rows, float *out);

#endif
