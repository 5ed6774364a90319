/* recall.h - sequences for the built-in model, and what it says about them.
 *
 * A context is `^`, then blocks `key value ...` and single fillers in random order. The
 * question is `? key`. Keys, values and fillers never mix, so a key is followed by its
 * own values only.
 *
 * When the answer is right can be read off a kept set, for any rule (the design's exact
 * form): the value token's entry stays in layer 2, kv head 0, and `^` stays in layer 2,
 * kv head 1.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_RECALL_H
#define TESTS_SUPPORT_RECALL_H

#include "tests/support/rig.h"

#include <flexbudget/task.h>
#include <string.h>

enum { BOS = 0, JUNK = 1, ASK = 2, DOT = 3 }; /* tokens with a role */
enum {
    FIRST_FILLER = 4,
    N_FILLERS = 12,
    FIRST_KEY = 16,
    FIRST_VALUE = 40,
    N_KEYS = 24
};
enum { RECALL_MOST = 2100, RECALL_MOST_BLOCKS = 32, RECALL_MOST_VALUES = 4 };

/* One thread: the model is too small for two. */
static inline void recall_open(rig *r, const char *model)
{
    const fb_ops_options one_thread = {.threads = 1};

    rig_open(r, model, &one_thread, NULL);
}

typedef struct recall_shape {
    int64_t n;     /* tokens of the context */
    int pairs;     /* distinct keys */
    int hot;       /* the first so many of them stand three times */
    int values;    /* tokens of a value; 0: 1 */
    bool is_inert; /* filler `.` instead of `a..l` */
} recall_shape;

typedef struct recall {
    recall_shape shape;
    int32_t ids[RECALL_MOST]; /* [shape.n] */
    int32_t key[N_KEYS];
    int32_t value[N_KEYS][RECALL_MOST_VALUES];
    int n_blocks;
    int pair[RECALL_MOST_BLOCKS];   /* of a block */
    int64_t at[RECALL_MOST_BLOCKS]; /* place of a block's key */
    int asked;                      /* a pair */
    int32_t prompt[2];              /* `? key` */
} recall;

static inline void recall_shuffle(fb_random *random, int *x, int n)
{
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)fb_random_below(random, (uint64_t)i + 1), swap = x[i];

        x[i] = x[j];
        x[j] = swap;
    }
}

/* Distinct tokens first .. first + N_KEYS in random order. */
static inline void recall_tokens(fb_random *random, int first, int out[N_KEYS])
{
    for (int i = 0; i < N_KEYS; i++)
        out[i] = first + i;
    recall_shuffle(random, out, N_KEYS);
}

static inline void recall_pairs(recall *r, fb_random *random)
{
    int key[N_KEYS], value[N_KEYS];

    recall_tokens(random, FIRST_KEY, key);
    recall_tokens(random, FIRST_VALUE, value);
    r->n_blocks = 0;
    for (int p = 0; p < r->shape.pairs; p++) {
        r->key[p] = key[p];
        for (int v = 0; v < r->shape.values; v++)
            r->value[p][v] = value[p * r->shape.values + v];
        for (int copy = 0; copy < (p < r->shape.hot ? 3 : 1); copy++)
            r->pair[r->n_blocks++] = p;
    }
    recall_shuffle(random, r->pair, r->n_blocks);
}

/* Blocks and fillers as items, shuffled; an item below n_blocks is that block. */
static inline void recall_lay_out(recall *r, fb_random *random)
{
    const int length = 1 + r->shape.values;
    const int n_items = (int)r->shape.n - 1 - r->n_blocks * (length - 1);
    int item[RECALL_MOST];
    int64_t at = 0;

    for (int i = 0; i < n_items; i++)
        item[i] = i;
    recall_shuffle(random, item, n_items);
    r->ids[at++] = BOS;
    for (int i = 0; i < n_items; i++) {
        const int block = item[i];

        if (block >= r->n_blocks) {
            const int filler = (int)fb_random_below(random, N_FILLERS);

            r->ids[at++] = r->shape.is_inert ? DOT : FIRST_FILLER + filler;
            continue;
        }
        r->at[block] = at;
        r->ids[at++] = r->key[r->pair[block]];
        for (int v = 0; v < r->shape.values; v++)
            r->ids[at++] = r->value[r->pair[block]][v];
    }
    assert_int_equal(at, r->shape.n);
}

static inline void recall_ask(recall *r, int pair)
{
    r->asked = pair;
    r->prompt[0] = ASK;
    r->prompt[1] = r->key[pair];
}

/* Sequence number `index` of a shape: the same for every test that makes it. */
static inline void recall_make(recall *r, const recall_shape *shape, uint64_t index)
{
    fb_random random;

    fb_random_seed(&random, 1, index);
    r->shape = *shape;
    if (r->shape.values == 0) r->shape.values = 1;
    assert_true(r->shape.n <= RECALL_MOST);
    assert_true(r->shape.pairs * r->shape.values <= N_KEYS);
    recall_pairs(r, &random);
    recall_lay_out(r, &random);
    recall_ask(r, (int)fb_random_below(&random, (uint64_t)r->shape.pairs));
}

static inline fb_question recall_question(const recall *r)
{
    return (fb_question){.prompt = r->prompt,
                         .n_prompt = 2,
                         .answer = r->value[r->asked],
                         .n_answer = r->shape.values};
}

/* --- kept sets -------------------------------------------------------------------- */

/* Slots of the built-in model's heads that matter. */
enum { SLOT_PREVIOUS = 0, SLOT_INDUCTION = 2, SLOT_SINK = 3, N_SLOTS = 4 };

static inline bool kept_has(const fb_kept *kept, int slot, int64_t position)
{
    for (int64_t i = 0; i < kept->count[slot]; i++)
        if (kept->position[slot][i] == position) return true;
    return false;
}

/* The first block of the asked pair. */
static inline int recall_block(const recall *r)
{
    int b = 0;

    while (r->pair[b] != r->asked)
        b++;
    return b;
}

/* True if some copy of the asked pair has its first `t` values in the induction head. */
static inline bool recall_is_kept(const recall *r, const fb_kept *kept, int t)
{
    for (int b = 0; b < r->n_blocks; b++) {
        bool all = r->pair[b] == r->asked;

        for (int v = 0; all && v < t; v++)
            all = kept_has(kept, SLOT_INDUCTION, r->at[b] + 1 + v);
        if (all) return true;
    }
    return false;
}

/* Tokens of the reference that the answer reproduces from the start. */
static inline int recall_n_right(const recall *r, const fb_answer *answer)
{
    int t = 0;

    while (t < r->shape.values && answer->top1[t] == r->value[r->asked][t])
        t++;
    return t;
}

#endif
