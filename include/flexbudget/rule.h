/* rule.h - what an eviction rule is: for those who write one.
 *
 * A rule states its choices (which signals it reads, how its score is smoothed, what it
 * protects, how the budget is shared) and gives one formula, `score`, written in the
 * operators of op.h. Everything else - pooling, the mean over a group of query heads,
 * protection, top-k, moving entries, counting - is the engine's and the same for all
 * rules.
 *
 * A rule never sees the cache, the budget, the text, the task, memory, files or clocks.
 *
 * Words: *entry* - K and V of one token in one kv head of one layer. m - entries at the
 * event; n - tokens read; w - rows of the observation window; heads - query heads.
 *
 * rules/template.c is a rule that works, to be copied. One file in rules/, one line in
 * rules/list.h.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FLEXBUDGET_RULE_H
#define FLEXBUDGET_RULE_H

#include <flexbudget/op.h>

enum { FB_RULE_ABI = 1 };

/* --- signals --- */

/* What the kernel can show; a rule names the ones it reads in `fb_choices.reads`. */
typedef enum fb_signal {
    FB_READS_KEYS = 1 << 0,
    FB_READS_VALUES = 1 << 1,
    FB_READS_WINDOW_ATTENTION = 1 << 2, /* and sets `window` */
    FB_READS_ATTENTION_SUM = 1 << 3,
    FB_READS_POSITION = 1 << 4,
    FB_READS_RANDOM = 1 << 5,
    FB_READS_FUTURE = 1 << 6, /* attention not yet paid: not deployable */
} fb_signal;

/* One layer at an eviction event. Tensors that were not asked for are FB_NONE. */
typedef struct fb_signals {
    int64_t layer, n_layers;
    int64_t heads, kv_heads, head_dim;
    int64_t n;                  /* tokens read so far */
    int64_t m;                  /* entries in the cache */
    fb_tensor keys;             /* [kv_heads, m, head_dim], after rotary embedding */
    fb_tensor values;           /* [kv_heads, m, head_dim] */
    fb_tensor window_attention; /* [heads, w, m] rows of the last w queries */
    fb_tensor attention_sum;    /* [heads, m] over every query that saw the entry */
    fb_tensor position;         /* [m] absolute position, f32 */
    fb_tensor random;           /* [kv_heads, m] uniform in (0, 1), by seed and place */
    fb_tensor future_attention; /* [heads, m] mean over question's and answer's rows */
} fb_signals;

/* --- choices --- */

typedef enum fb_group {
    FB_GROUP_MEAN, /* mean over the query heads of a kv head */
    FB_GROUP_MAX,
    FB_GROUP_LAYER, /* mean over all query heads, one score for all kv heads */
} fb_group;

/* A rule's place in the product of choices. Zero is the plain choice everywhere. */
typedef struct fb_choices {
    uint32_t reads;       /* fb_signal bits */
    int64_t window;       /* w: rows of `window_attention` */
    fb_group group;       /* query heads to kv heads; after pooling */
    int64_t pool_average; /* odd kernel over the scored entries; 0: none */
    int64_t pool_max;
    int64_t unscored_last; /* newest entries for which the score is not defined: kept */
    int64_t sink, recent;  /* published protection; counts under `published` only */
    double recent_quota;   /* share of the budget that is the newest entries' */
    int64_t min_tokens; /* with fewer tokens the rule falls back to sinks + recents */
    bool keeps_all;     /* evicts nothing, whatever the budget */
} fb_choices;

/* --- parameters --- */

typedef enum fb_param_type {
    FB_PARAM_INT,  /* int64_t */
    FB_PARAM_REAL, /* double */
    FB_PARAM_WORD, /* int64_t: index into `words` */
    FB_PARAM_PAIR, /* double[2], written x/y; not both 0 */
} fb_param_type;

/* A row of a parameter table; use the macros. */
typedef struct fb_param {
    const char *name;
    fb_param_type type;
    size_t offset;
    double initial, low, high; /* of a word: the index of the default */
    double second;             /* of a pair: the second default */
    const char *words;         /* "avg|max" */
    const char *origin;        /* where the default comes from */
    const char *help;
} fb_param;

/* clang-format off */
#define FB_INT(type, field, initial, low, high, origin, help)                          \
    {#field, FB_PARAM_INT, offsetof(type, field), initial, low, high, 0, NULL, origin, \
     help}
#define FB_REAL(type, field, initial, low, high, origin, help)                         \
    {#field, FB_PARAM_REAL, offsetof(type, field), initial, low, high, 0, NULL,        \
     origin, help}
#define FB_PAIR(type, field, first, second, low, high, origin, help)                   \
    {#field, FB_PARAM_PAIR, offsetof(type, field), first, low, high, second, NULL,     \
     origin, help}
#define FB_WORD(type, field, initial, words, origin, help)                             \
    {#field, FB_PARAM_WORD, offsetof(type, field), initial, 0, 0, 0, words, origin,    \
     help}
#define FB_PARAM_END {NULL, FB_PARAM_INT, 0, 0, 0, 0, 0, NULL, NULL, NULL}
/* clang-format on */

/* --- the rule --- */

typedef enum fb_rule_kind {
    FB_KIND_RULE,       /* scores entries */
    FB_KIND_WRAPPER,    /* turns the scores of its inner rules into another score */
    FB_KIND_ALLOCATION, /* shares the budget between heads, on its inner rule's scores */
} fb_rule_kind;

enum { FB_RUNS_ONE_SHOT = 1, FB_RUNS_STREAMING = 2 };

/* What an allocation sees of one layer: the scores of the entries that can be
 * chosen. */
typedef struct fb_share_input {
    fb_tensor scores; /* [kv_heads, m - n_protected] */
    int64_t layer, n_layers, kv_heads;
    int64_t m;           /* entries of a head */
    int64_t n_protected; /* of them stay in any case, and count */
    int64_t k; /* entries per head under an equal split; the layer has kv_heads * k */
} fb_share_input;

/* For allocations: every head is sure of its best `sure` entries (protected ones
 * first), the rest of the layer's kv_heads * k goes to the highest of all heads' other
 * scores, equal ones to the lower head first. Fills `k_out` [kv_heads]. */
fb_status fb_share_by_rank(fb_ops *ops, const fb_share_input *in, int64_t sure,
                           int64_t *k_out);

typedef struct fb_rule {
    int abi;     /* FB_RULE_ABI */
    size_t size; /* sizeof(fb_rule) */
    fb_rule_kind kind;
    const char *name;
    const char *summary; /* one line */
    const char *family;  /* attention, key, value, position, mixed, random, reference */
    const char *source;  /* paper or code the formula comes from */
    unsigned runs;       /* FB_RUNS_... */
    int n_inner;         /* rules between the brackets of a wrapper or allocation */
    const fb_param *params;
    size_t params_bytes;

    /* Once, before the run: the choices that follow from the parameters. `choices`
     * comes zeroed; of a wrapper or allocation it holds what the inner rules chose,
     * joined. */
    void (*choose)(const void *params, fb_choices *choices);
    /* One layer's score: [heads, m] or [kv_heads, m] or, for one row for all, [1, m];
     * columns of the newest `unscored_last` entries are ignored. Higher stays longer.
     */
    fb_tensor (*score)(fb_ops *ops, const fb_signals *see, const void *params);
    /* Wrappers: `inner` [kv_heads, m - unscored] each, in the order written. */
    fb_tensor (*wrap)(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params);
    /* Allocations: entries per head, `k_out` [kv_heads], together kv_heads * k. */
    fb_status (*share)(fb_ops *ops, const fb_share_input *in, const void *params,
                       int64_t *k_out);

    /* Later steps of the plan; refused while the engine does not call them. */
    void (*update)(void);
    void (*select)(void);
    void (*edit)(void);
    void (*replay)(void);
} fb_rule;

#define FB_RULE_HEAD .abi = FB_RULE_ABI, .size = sizeof(fb_rule)

#endif
