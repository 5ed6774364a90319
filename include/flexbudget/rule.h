/* rule.h - what an eviction rule is: for those who write one.
 *
 * A rule states its choices (which signals it reads, how its score is smoothed, what it
 * protects, how the budget is shared) and gives one formula, `score`, written in the
 * operators of op.h. Everything else - pooling, the mean over a group of query heads,
 * protection, top-k, moving entries, counting - is the engine's and the same for all
 * rules.
 *
 * A score never sees the cache, the budget, the text, the task, memory, files or clocks.
 *
 * Words: *entry* - K and V of one token in one kv head of one layer. m - entries at the
 * event; n - tokens read; w - rows of the observation window; heads - query heads.
 *
 * rules/template.c is a rule that works, to be copied. One file in rules/, one line in
 * rules/list.h; or a shared object of its own (at the end).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FLEXBUDGET_RULE_H
#define FLEXBUDGET_RULE_H

#include <flexbudget/op.h>

/* Grows with every change of a struct or of the meaning of a function here or in op.h: a
 * file made for another number is refused. */
enum { FB_RULE_ABI = 1 };

#pragma GCC visibility push(default) /* as in error.h */

/* --- signals --- */

/* What the kernel can show; a rule names the ones it reads in `fb_choices.reads`. */
typedef enum fb_signal {
    FB_READS_KEYS = 1 << 0,
    FB_READS_VALUES = 1 << 1,
    FB_READS_WINDOW_ATTENTION =
        1 << 2, /* and sets `window`; of a stream: in `score` alone */
    FB_READS_ATTENTION_SUM = 1 << 3, /* of a rule that streams: in `update` alone */
    FB_READS_POSITION = 1 << 4,
    FB_READS_RANDOM = 1 << 5,
    FB_READS_FUTURE = 1 << 6,  /* attention not yet paid: not deployable */
    FB_READS_QUERIES = 1 << 7, /* and sets `queries`, or has `learn` */
    FB_READS_OUTPUT_WEIGHT = 1 << 8,
    FB_READS_ROTATION = 1 << 9,         /* and may call fb_rotation */
    FB_READS_ATTENTION_BLOCK = 1 << 10, /* in `update` alone */
    FB_READS_RESIDUAL = 1 << 11,        /* of a context that is read at once */
    FB_READS_REPLAY = 1 << 12,          /* the same; and sets `replay` */
    FB_READS_DOCUMENT_FUTURE = 1 << 13, /* of all questions: not deployable either */
} fb_signal;

/* One layer at an eviction event. Tensors that were not asked for are FB_NONE. */
typedef struct fb_signals {
    int64_t layer, n_layers;
    int64_t heads, kv_heads, head_dim;
    int64_t n;        /* tokens read so far */
    int64_t m;        /* entries in the cache */
    int64_t next;     /* position of the next token, for rotations: n, or m where
                                   entries are renumbered */
    fb_tensor keys;   /* [kv_heads, m, head_dim], after rotary embedding */
    fb_tensor values; /* [kv_heads, m, head_dim] */
    fb_tensor window_attention; /* [heads, w, m] rows of the last w queries */
    fb_tensor attention_sum;    /* [heads, m] over every query that saw the entry; in
                                   `update` over those of the block */
    fb_tensor state;            /* [kv_heads, state_rows, m] what the entries carry */
    fb_tensor layer_state; /* [heads, rows, head_dim] what the rule has learnt, rows of
                                   fb_choices.layer_rows and .layer_squares; in `learn`
                                   FB_NONE before the first block */
    fb_tensor position;    /* [kv_heads, m] absolute position, f32 */
    fb_tensor random;      /* [kv_heads, m] uniform in (0, 1), by seed and place */
    fb_tensor future_attention; /* [heads, m] mean over question's and answer's rows */
    fb_tensor document_future;  /* [heads, m] mean over the rows of all questions of the
                                   document and their answers */
    fb_tensor queries; /* [heads, t, head_dim] of the last t = min(queries, n) tokens,
                                after rotary embedding, each at its own position */
    /* In `update`: rows of the block's t queries, query i the token of entry m - t + i, 0 at
     * what it does not see; and, for one that reads FB_READS_RANDOM as well, as many
     * uniform numbers in (0, 1). [heads, t, m] */
    fb_tensor block_attention, block_random;
    fb_tensor
        output_weight;  /* [heads, width, head_dim]: what the output projection makes
                                of the values of a query head */
    fb_tensor residual; /* [m] per token the cosine of the residual stream before and
                           after the attention of the layer is added */
    fb_tensor replay_attention; /* [heads, m] the most that an entry got when its piece
                                   of the context was read again, or the mean of a draft:
                                   see fb_replay */
    double scale;               /* of the logits of attention */
    const struct fb_rotary *rotary; /* for fb_rotation */
} fb_signals;

/* x [heads, m] to its mean over the query heads of each kv head [kv_heads, m]. */
fb_tensor fb_group_mean(fb_ops *ops, const fb_signals *see, fb_tensor x);

/* One number [1], that goes with any shape. */
fb_tensor fb_number(fb_ops *ops, double value);
/* The identity [n, n]. */
fb_tensor fb_identity_matrix(fb_ops *ops, int64_t n);
/* x [kv_heads, rows, d] with every row at length 1; rows below 1e-12 stay short: a vector of
 * zeros has no direction. */
fb_tensor fb_unit_rows(fb_ops *ops, fb_tensor x);
/* x [n], one number for each kv head say, as a column [n, 1]. */
fb_tensor fb_column(fb_ops *ops, const double *x, int64_t n);
/* Of the oldest m entries the mean over the query heads h of each kv head of
 * || W_O[h] v ||_1 [kv_heads, m]: how much the value moves the output. Reads FB_READS_VALUES
 * and FB_READS_OUTPUT_WEIGHT. */
fb_tensor fb_output_norm(fb_ops *ops, const fb_signals *see, int64_t m);

/* block_attention to its mean over the query heads of each kv head [kv_heads, t, m]. */
fb_tensor fb_block_mean(fb_ops *ops, const fb_signals *see);
/* 1 where a query of the block sees the entry, else 0: [t, m]. */
fb_tensor fb_block_seen(fb_ops *ops, const fb_signals *see);

/* Elements of x [rows, n], less their mean, over their deviation (divisor N - 1, at least
 * `least`), both of all of them. */
fb_tensor fb_standardise(fb_ops *ops, fb_tensor x, double least);
/* Squares of the distances of the rows of a [B, n, d] and b [B, m, d], at least 0:
 * [B, n, m]. */
fb_tensor fb_square_distances(fb_ops *ops, fb_tensor a, fb_tensor b);
/* x [rows, n] between `first` and `last` columns of its largest element. */
fb_tensor fb_with_best_around(fb_ops *ops, fb_tensor x, int64_t first, int64_t last);

/* How much of each entry others say as well [kv_heads, m], of keys and positions: softmax
 * over j of the mean over i of the cosine of keys i and j, 0 with itself. `spare_last`: of
 * each row i the last j with a cosine above `alike` counts as 0 too (Cai et al. 2025,
 * arXiv:2505.24133). */
fb_tensor fb_redundancy(fb_ops *ops, const fb_signals *see, double alike,
                        bool spare_last);

/* cosine, sine [n, r/2] of the model's rotation at positions first, first + step, ...
 * (without the factor on their size that some scalings add: keys and queries have it). */
void fb_rotation(fb_ops *ops, const fb_signals *see, int64_t first, int64_t step,
                 int64_t n, fb_tensor *cosine, fb_tensor *sine);
/* The mean of these, a row each: how the mean of one vector at all the positions stands. */
void fb_mean_rotation(fb_ops *ops, const fb_signals *see, int64_t first, int64_t step,
                      int64_t n, fb_tensor *cosine, fb_tensor *sine);
/* x [B, n, d] with the first 2c columns of row i rotated by row i of cosine, sine [n, c],
 * pair (j, j + c) by column j; `back`: the other way. One row of them is for all. */
fb_tensor fb_rotate(fb_ops *ops, fb_tensor x, fb_tensor cosine, fb_tensor sine,
                    bool back);
/* For `learn` (reads queries and rotation), queries [heads, t, d] of a block before rotation, without those among the
 * first `skip` tokens of the text; FB_NONE: they are all such. */
fb_tensor fb_block_queries(fb_ops *ops, const fb_signals *see, int64_t skip);
/* The share that n tokens have in all those from the `skip`th on to the end of the block. */
double fb_block_share(const fb_signals *see, int64_t skip, int64_t n);
/* The mean over them [heads, rows, d] by that of the n of the block and that before. */
fb_tensor fb_mean_so_far(fb_ops *ops, const fb_signals *see, int64_t skip,
                         fb_tensor before, fb_tensor block, int64_t n);
/* [kv_heads, rows, columns] numbers of the standard normal distribution, for random
 * projections: by `seed`, layer, kv head and place alone. */
fb_tensor fb_normal(fb_ops *ops, const fb_signals *see, uint64_t seed, int64_t rows,
                    int64_t columns);

/* --- choices --- */

typedef enum fb_group {
    FB_GROUP_MEAN, /* mean over the query heads of a kv head */
    FB_GROUP_MAX,
    FB_GROUP_LAYER, /* mean over all query heads, one score for all kv heads */
} fb_group;

/* Of which rows the scores can be set against each other, for an allocation that does: a norm
 * of a key means little beside that of another head's, a share of attention as much. */
typedef enum fb_compares {
    FB_COMPARES_NOTHING,
    FB_COMPARES_HEADS,  /* of a layer */
    FB_COMPARES_LAYERS, /* and of all layers */
} fb_compares;

/* What follows the context is read, and looks at it. With `draft` that is so many tokens of a
 * greedy answer behind the end of the user's turn, and their mean attention counts. Otherwise
 * the context is read a second time behind itself, piece by piece, each as if the others
 * had not been: a piece follows a text, and what ends a user's turn in the model's
 * template. A model without a tokenizer for the text reads the piece alone.
 *
 * The network sees the whole context. What counts is a softmax of its own: of every query
 * over `sinks`, the entries of the piece and the tokens read again up to its own, or with
 * `sees_all` over the whole context and these. */
typedef struct fb_replay {
    int64_t piece; /* tokens of the context; INT64_MAX: all at once; 0: no replay */
    const char *first, *later; /* text before the first and other pieces; NULL: none */
    int64_t
        overlap; /* last tokens of the piece before that end the text of a later one */
    int64_t sinks; /* first tokens of the context */
    bool sees_all;
    int64_t draft;  /* tokens; 0: the context is read again. Nothing else is set then */
    bool by_hidden; /* that of each query is divided by the norm of what attention read
                       of its token */
} fb_replay;

/* Rows that tables are read against and that choose nothing: the experiment knows what stays,
 * or what is read instead. Built-in ones alone. */
typedef enum fb_reference {
    FB_REFERENCE_NONE,        /* a rule like any other */
    FB_REFERENCE_NO_EVIDENCE, /* all but the tokens that hold the answer */
    FB_REFERENCE_EVIDENCE,    /* these alone, and what the experiment protects */
    FB_REFERENCE_QUANTISED,   /* everything, in `bits` a number */
    FB_REFERENCE_REREAD, /* as many of the last tokens, read anew without the others */
} fb_reference;

/* A rule's place in the product of choices. Zero is the plain choice everywhere. */
typedef struct fb_choices {
    uint32_t reads;  /* fb_signal bits */
    int64_t window;  /* w: rows of `window_attention` */
    int64_t queries; /* last tokens whose queries are read; INT64_MAX: of all */
    int64_t planes; /* of the score, for its own `select`, each [kv_heads, m]; 0: one */
    int64_t state_rows; /* numbers that each entry carries, kept by `update` */
    int64_t
        layer_rows; /* vectors of head_dim that each query head of a layer carries, */
    int64_t
        layer_squares; /* and matrices [head_dim, head_dim] behind them; by `learn` */
    fb_group group;    /* query heads to kv heads; after pooling */
    int64_t pool_average; /* odd kernel over the scored entries; 0: none */
    int64_t pool_max;
    int64_t unscored_last; /* newest entries for which the score is not defined: kept */
    int64_t sink, recent;  /* published protection; counts under `published` only */
    double recent_quota;   /* share of the budget that is the newest entries' */
    int64_t block; /* entries are chosen as if the text came in blocks of so many tokens
                      behind the first of the budget; 0: at once */
    int64_t min_tokens;   /* with fewer tokens the rule falls back to sinks + recents */
    fb_compares compares; /* what its scores can be compared with */
    bool
        updates_at_events; /* the state: `update` is called before `score`, not after each
                               block */
    fb_replay replay;
    bool
        keeps_all; /* chooses nothing, whatever the budget: all stays, or `reference` */
    fb_reference reference;
    int64_t bits; /* of a number that is quantised */
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
    FB_KIND_CONTROL,    /* draws as many entries as its inner rule chooses; no hooks */
    FB_KIND_EDIT,       /* changes the values that its inner rule keeps */
} fb_rule_kind;

enum { FB_RUNS_ONE_SHOT = 1, FB_RUNS_STREAMING = 2 };

/* What an allocation sees of one layer: the scores of the entries that can be
 * chosen. */
typedef struct fb_share_input {
    fb_tensor scores; /* [kv_heads, m - n_protected] */
    int64_t layer, n_layers, kv_heads;
    int64_t m;           /* entries of a head */
    int64_t n_protected; /* of them stay in any case, and count */
    int64_t total;       /* entries of the layer, all heads together */
    int64_t k;           /* floor(total / kv_heads): of a head under an equal split */
    double *room;        /* [kv_heads] for numbers of the allocation's own */
} fb_share_input;

/* Whole numbers for `part` [n], not negative, together exactly `total`, each at most
 * `high`: the largest remainders are rounded up, equal ones from the first on. */
void fb_whole_parts(const double *part, int64_t n, int64_t total, int64_t high,
                    int64_t *out);

/* For allocations: every head is sure of its best `sure` entries (protected ones
 * first), the rest of the layer's total goes to the highest of all heads' other
 * scores, equal ones to the lower head first. Fills `k_out` [kv_heads]. */
fb_status fb_share_by_rank(fb_ops *ops, const fb_share_input *in, int64_t sure,
                           int64_t *k_out);

/* What an allocation sees of all layers at once. */
typedef struct fb_spread_input {
    const fb_tensor *scores;   /* [n_layers] of [kv_heads, m - n_protected] */
    const fb_tensor *measured; /* [n_layers] of what `measure` returned; or NULL */
    int64_t n_layers, kv_heads;
    int64_t m, n_protected; /* of every head */
    int64_t k;              /* entries per head under an equal split */
    double *room;           /* [n_layers] for numbers of the allocation's own */
} fb_spread_input;

/* The elements of a tensor of f32 with `n` of them, for `share` and `spread`. */
fb_status fb_numbers(fb_ops *ops, fb_tensor a, double *out, int64_t n);

/* For allocations: entries of each head, `k_out` [n_layers * kv_heads], together exactly
 * n_layers * kv_heads * k, in proportion to weight [n_layers] (not negative) by largest
 * remainders: a layer has at least n_protected + 1 a head and at most m, what it cannot
 * take goes to the others in the same proportion; within a layer evenly, the lower head
 * first. */
fb_status fb_spread_by_weight(const fb_spread_input *in, const double *weight,
                              int64_t *k_out);
/* The same of what is left beside the protected entries, which every head has first. */
fb_status fb_spread_rest_by_weight(const fb_spread_input *in, const double *weight,
                                   int64_t *k_out);
/* The same by the one number that `measure` gave of each layer: a `spread` as it is. */
fb_status fb_spread_rest_by_measure(fb_ops *ops, const fb_spread_input *in,
                                    const void *params, int64_t *k_out);

/* Numbers [rows, columns] of a layer, rows = kv_heads, or 1 for all heads alike. */
typedef fb_tensor fb_layer_rows(fb_ops *ops, const fb_spread_input *in, int64_t layer,
                                const void *params);
/* For allocations: what fb_share_by_rank does in a layer, over all layers: every row is
 * sure of its best `sure`, protected entries counted, the rest of the budget goes to the
 * highest of all other numbers, equal ones to the lower layer, then the lower row. */
fb_status fb_spread_by_rank(fb_ops *ops, const fb_spread_input *in, fb_layer_rows *rows,
                            const void *params, int64_t sure, int64_t *k_out);

/* --- choosing --- */

/* One layer when entries are chosen under one budget. */
typedef struct fb_select_input {
    fb_tensor
        scores; /* [planes * kv_heads, m - n_protected] as `score` or `wrap` gave */
    int64_t layer, n_layers, kv_heads;
    int64_t first;    /* place of the first column among the entries of the head */
    int64_t m;        /* entries of a head */
    const int64_t *k; /* [kv_heads] how many of the columns stay */
} fb_select_input;

/* One kv head of a layer once it is known which k of its m entries stay; in the order of
 * the text. Their number, their keys and their places are not to be changed. */
typedef struct fb_edit_input {
    int64_t layer, n_layers, kv_head, kv_heads;
    fb_tensor kept_keys, kept_values;       /* [1, k, head_dim] */
    fb_tensor dropped_keys, dropped_values; /* [1, m - k, head_dim], m - k > 0 */
} fb_edit_input;

/* Below every number; in an order: leaves even where the budget has room. */
#define FB_LOWEST (-__builtin_inf())

/* For rules that choose by pieces of the text: x [rows, n], whose column 0 is entry
 * `first`, as [rows, pieces, size], cut where the place of an entry is a multiple of
 * `size`, `fill` where there is no column; and back. */
fb_tensor fb_pieces(fb_ops *ops, fb_tensor x, int64_t first, int64_t size, double fill);
fb_tensor fb_from_pieces(fb_ops *ops, fb_tensor x, int64_t first, int64_t n);

typedef struct fb_rule {
    int abi;     /* FB_RULE_ABI */
    size_t size; /* FB_RULE_SIZE */
    fb_rule_kind kind;
    const char *name;
    const char *summary; /* one line */
    const char *family;  /* attention, key, value, position, mixed, random, reference */
    const char *source;  /* paper or code the formula comes from */
    unsigned runs;       /* FB_RUNS_... */
    int n_inner;         /* rules between the brackets of a wrapper or allocation */
    fb_compares needs;   /* allocations: what the scores between the brackets must be */
    const fb_param *params;
    size_t params_bytes;
    /* The whole-number parameter of which more is more work, as the rows that it reads: what
     * `compute: matched` lowers until the rule keeps to the quota, to no less than its least
     * value. Every value between must be a valid one. NULL: it has none. */
    const char *effort;

    /* Once, before `choose`: refuses settings that make no sense together (FB_USAGE). */
    fb_status (*check)(const void *params);
    /* Once, before the run: the choices that follow from the parameters. `choices`
     * comes zeroed; of a wrapper or allocation it holds what the inner rules chose,
     * joined. */
    void (*choose)(const void *params, fb_choices *choices);
    /* One layer's score: [heads, m] or [kv_heads, m] or, for one row for all, [1, m];
     * columns of the newest `unscored_last` entries are ignored. Higher stays longer.
     */
    fb_tensor (*score)(fb_ops *ops, const fb_signals *see, const void *params);
    /* Wrappers: `inner` [kv_heads, m - unscored] each, in the order written. NULL: the
     * score of the one inner rule stands, and `choose` or `select` says what is done
     * otherwise. */
    fb_tensor (*wrap)(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params);
    /* Allocations within a layer: entries per head, `k_out` [kv_heads], together `total`. */
    fb_status (*share)(fb_ops *ops, const fb_share_input *in, const void *params,
                       int64_t *k_out);
    /* Allocations over layers: entries of every head, `k_out` [n_layers * kv_heads],
     * together n_layers * kv_heads * k. One that has only this may stand around one that
     * shares within a layer, which then divides each layer's sum anew. */
    fb_status (*spread)(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out);
    /* For `spread`: numbers [x] of one layer, from its signals and its final score. */
    fb_tensor (*measure)(fb_ops *ops, const fb_signals *see, fb_tensor score,
                         const void *params);
    /* Rules and wrappers whose choice depends on the budget: an order [kv_heads, m -
     * n_protected], whose k[g] highest stay, but for FB_LOWEST. Without it that is the
     * score. */
    fb_tensor (*select)(fb_ops *ops, const fb_select_input *in, const void *params);

    /* Rules with a state: after each block of tokens, the new state [kv_heads, state_rows,
     * m] from the old one, which is 0 for the block's own entries (the newest). Signals of
     * attention are those of the block's queries. A context that is read at once is one
     * block, or, for rules that read FB_READS_ATTENTION_BLOCK, several. With
     * `updates_at_events` instead at each eviction, before `score`, which has the same signals
     * and the new state; entries that came since the last have 0. */
    fb_tensor (*update)(fb_ops *ops, const fb_signals *see, const void *params);

    /* Rules that learn from all queries: after each block of tokens, the layer's new state
     * [heads, layer_rows + layer_squares * head_dim, head_dim] from the old one and the
     * queries of the block, which are read here alone. A context that is read at once is one
     * block. */
    fb_tensor (*learn)(fb_ops *ops, const fb_signals *see, const void *params);

    /* Edits: new values [1, k, head_dim] of the entries that stay in a head; it is called
     * where some do not. */
    fb_tensor (*edit)(fb_ops *ops, const fb_edit_input *in, const void *params);
} fb_rule;

/* Made of the sizes of all structs that rule and program share: one that grows without a
 * new FB_RULE_ABI is noticed. */
/* clang-format off */
#define FB_RULE_SIZE                                                                   \
    (sizeof(fb_rule) + 512 * (sizeof(fb_choices) + 512 * (sizeof(fb_signals) +         \
     512 * (sizeof(fb_share_input) + 512 * (sizeof(fb_spread_input) +                  \
     512 * (sizeof(fb_select_input) + 512 * sizeof(fb_edit_input)))))))
/* clang-format on */
#define FB_RULE_HEAD .abi = FB_RULE_ABI, .size = FB_RULE_SIZE

/* --- rules in a file of their own ---
 * A shared object that is built with these headers alone, and has once, at the end,
 *
 *     FB_EXPORT_RULES(&mine, &other);
 *
 * is loaded as `--rules ./mine.so`: examples/rule/. Every struct is checked before it is
 * used, and so is all that comes out of its functions; the functions themselves are
 * machine code, run with the rights of whoever loads it. */
extern const fb_rule *const fb_rules[]; /* in the shared object; NULL at the end */
#define FB_EXPORT_RULES(...) const fb_rule *const fb_rules[] = {__VA_ARGS__, NULL}

#pragma GCC visibility pop

#endif
