/* attention.c - the one attention: whole rows of P exist for a moment.
 *
 * A block is a few tokens times the query heads that share a kv head; its rows lie
 * token by token, so what they see grows downwards. For a block, in memory of the
 * thread's own that fits its second-level cache:
 *
 *   S = Q K^T scale     rows x entries, panels of keys outside, so a panel is read once
 *   P = exp(S - max)    row by row; entries a row does not see: exactly 0
 *   O = P V, l = row sums of P    blocks of entries outside, chains that go on
 *   O / l, and the signals
 *
 * A row is the context's entries followed by the tail's, so sums simply go on over the
 * seam. With a window what is computed begins at the panel in which the block's first
 * token begins to see; what is left of a row's own window is 0 in P. Nothing depends on
 * how tokens are cut into blocks: each element is a chain of its own, and a 0 in P
 * changes no sum.
 *
 * Sequences that go on from one context are members of one block, so that the context is
 * read once for all of them; their tails follow one by one.
 *
 * A sum over queries is a chain too: blocks are then begun in the order of their
 * tokens, and each waits for its turn to add its rows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum {
    ENTRIES_AT_ONCE = 512, /* of V, 64 KiB a panel */
    ROW_STEP = 12,         /* the tallest tile */
    MOST_ROWS = 48,
    P_BYTES = 1 << 18, /* of P: a quarter of a second-level cache */
};

struct job {
    const fb_native *native;
    const fb_call *call;
    int64_t t, group;
    int64_t heads_at_once; /* query heads of a block: the group, or 1 */
    int64_t tokens;        /* of a block */
    int64_t sequences; /* of an item: all of them members, or one block after another */
    int64_t stride, o_stride;
    int64_t n_items;       /* (tokens, sequences, heads at once) */
    _Atomic int64_t next;  /* item */
    _Atomic int64_t added; /* items whose rows are in the sum over queries */
};

/* A block of queries in a thread's memory. */
struct block {
    struct job *job;
    const fb_segment *segment; /* of the first member; the next kv_heads further on */
    fb_slot context;
    bool has_tail;
    int64_t v, h, i;            /* first sequence, head, token */
    int64_t members, n_tokens;  /* more than one member only where there are tails */
    int64_t rows, rows_of_each; /* (member, token, head) */
    int64_t begin;              /* first entry that is computed */
    float *q;                   /* [rows][d] */
    float *p;                   /* [rows][stride]: S, then P */
    float *o;                   /* [rows][o_stride] */
    float *l, *inverse;         /* [rows] */
    float *panel;               /* [d][32] or [ENTRIES_AT_ONCE][32], filled up */
};

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- what is seen */

static const fb_segment *segment_of(const struct block *b, int64_t member)
{
    return b->segment + member * b->job->call->kv_heads;
}

/* Entries of the part that holds a member's own tokens which its token i sees. */
static int64_t own_seen(const struct block *b, int64_t member, int64_t i)
{
    const fb_segment *segment = segment_of(b, member);
    const int64_t n = b->has_tail ? segment->tail.n : segment->context.n;

    return n - b->job->t + i + 1;
}

/* Members see the same of their context. */
static int64_t context_seen(const struct block *b, int64_t i)
{
    return b->has_tail ? b->segment->context.n : own_seen(b, 0, i);
}

static int64_t seen(const struct block *b, int64_t member, int64_t i)
{
    return own_seen(b, member, i) + (b->has_tail ? b->segment->context.n : 0);
}

/* The first entry that token i sees. */
static int64_t unseen(const struct block *b, int64_t member, int64_t i)
{
    const int64_t window = b->job->call->attend->window;
    const int64_t before = seen(b, member, i) - window;

    return window > 0 && before > 0 ? before : 0;
}

static int64_t last_token(const struct block *b)
{
    return b->i + b->n_tokens - 1;
}

/* --- S */

static void gather_queries(struct block *b)
{
    const fb_call *call = b->job->call;
    const int64_t d = call->head_dim, width = call->in[0].shape[1];
    const float *x = fb_floats(&call->in[0]) + b->h * d;
    const int64_t floats = b->job->heads_at_once * d;

    for (int64_t row = 0; row < b->members * b->n_tokens; row++) {
        const int64_t v = b->v + row / b->n_tokens, i = b->i + row % b->n_tokens;

        memcpy(b->q + row * floats, x + (v * b->job->t + i) * width,
               (size_t)floats * sizeof *x);
    }
}

/* n rows of a panel with rows of 32 floats: as they are, or in the thread's memory. */
static const float *whole_panel(const struct block *b, const fb_slot *slot,
                                const char *panel, int64_t stride, int64_t n)
{
    const fb_isa *isa = b->job->native->isa;

    if (stride == FB_PANEL && slot->dtype == FB_F32)
        return (const float *)(const void *)panel;
    if (stride == FB_PANEL) {
        fb_floats_of(isa, slot->dtype, panel, b->panel, n * FB_PANEL);
        return b->panel;
    }
    memset(b->panel, 0, (size_t)(n * FB_PANEL) * sizeof *b->panel);
    for (int64_t i = 0; i < n; i++)
        fb_floats_of(isa, slot->dtype, panel + (size_t)(i * stride) * slot->size,
                     b->panel + i * FB_PANEL, stride);
    return b->panel;
}

/* What is computed of one part: for rows [row, end) its entries from column `at` on. */
struct piece {
    const fb_slot *slot;
    int64_t at, row, end;
};

/* Rows from `row` on times `n` panels of keys from panel p on: one, or several that lie
 * in memory as they are needed. */
static void score_panels(const struct block *b, const struct piece *piece, int64_t row,
                         int64_t p, int64_t n)
{
    const int64_t d = piece->slot->head_dim;
    int64_t stride;
    const char *panel = fb_key_panel(piece->slot, p, &stride);

    b->job->native->isa->tiles->product(&(fb_product){
        .rows = piece->end - row,
        .k = d,
        .columns = n * FB_PANEL,
        .x = b->q + row * d,
        .panels = whole_panel(b, piece->slot, panel, stride, d),
        .out = b->p + row * b->job->stride + piece->at + p * FB_PANEL,
        .x_stride = d,
        .panel_stride = d,
        .out_stride = b->job->stride,
        .scale = (float)b->job->call->alpha,
    });
}

/* Whole panels that all rows see. */
static void score_whole(const struct block *b, const struct piece *piece, int64_t p,
                        int64_t n)
{
    const int64_t step = piece->slot->dtype == FB_F32 ? n : 1;

    for (int64_t i = 0; i < n; i += step)
        score_panels(b, piece, piece->row, p + i, step);
}

/* S of one part. Token i sees `first` + i - b->i entries, or `first` if the part is not
 * its own. */
static void score_piece(const struct block *b, const struct piece *piece, int64_t first,
                        int64_t last)
{
    const int64_t whole = min(first, piece->slot->capacity) / FB_PANEL;
    const int64_t begin = b->begin > piece->at ? (b->begin - piece->at) / FB_PANEL : 0;

    score_whole(b, piece, begin, whole - begin);
    for (int64_t p = begin > whole ? begin : whole; p * FB_PANEL < last; p++) {
        const int64_t later = p * FB_PANEL + 1 - first;
        const int64_t tokens = later > 0 ? later : 0; /* that do not see the panel */
        const int64_t row = piece->row + tokens * b->job->heads_at_once;

        if (row < piece->end) score_panels(b, piece, row, p, 1);
    }
}

/* The tail of a member. */
static struct piece tail_of(const struct block *b, int64_t member, fb_slot *slot)
{
    const fb_segment *segment = segment_of(b, member);
    const int64_t row = member * b->rows_of_each;

    *slot = fb_slot_of(segment->tail.kv, segment->tail.slot);
    return (struct piece){slot, segment->context.n, row, row + b->rows_of_each};
}

static void score(const struct block *b)
{
    const struct piece context = {&b->context, 0, 0, b->rows};
    fb_slot slot;

    score_piece(b, &context, context_seen(b, b->i), context_seen(b, last_token(b)));
    for (int64_t m = 0; b->has_tail && m < b->members; m++) {
        const struct piece tail = tail_of(b, m, &slot);

        score_piece(b, &tail, own_seen(b, m, b->i), own_seen(b, m, last_token(b)));
    }
}

/* --- P */

/* A row has room behind its last entry; what the exponential makes of it is cleared. */
static void exponentials_of(const struct block *b, int64_t member, int64_t i, float *s)
{
    const fb_isa_rows *loops = b->job->native->isa->rows;
    const fb_segment *segment = segment_of(b, member);
    const int64_t width = seen(b, member, last_token(b));
    const int64_t from = unseen(b, member, i), n = seen(b, member, i);
    const fb_part *context = &segment->context, *tail = &segment->tail;

    if (context->hidden != NULL) loops->hide(s, context->hidden, context->n);
    if (tail->hidden != NULL) loops->hide(s + context->n, tail->hidden, tail->n);
    memset(s + b->begin, 0, (size_t)(from - b->begin) * sizeof *s);
    loops->exp_minus(s + from, fb_round_up(n - from, 16),
                     loops->max(s + from, n - from));
    memset(s + n, 0, (size_t)(width - n) * sizeof *s);
}

static void exponentials(const struct block *b)
{
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t in_member = r % b->rows_of_each;

        exponentials_of(b, r / b->rows_of_each,
                        b->i + in_member / b->job->heads_at_once,
                        b->p + r * b->job->stride);
    }
}

/* --- O */

/* n entries from entry j on of a panel of values, with rows of 32. */
static const float *whole_value_panel(const struct block *b, const fb_slot *slot,
                                      int64_t p, int64_t j, int64_t n)
{
    int64_t stride;
    const char *panel = fb_value_panel(slot, p, &stride);

    return whole_panel(b, slot, panel + (size_t)(j * stride) * slot->size, stride, n);
}

/* Adds P V over the first n entries of a part. */
static void add_values(const struct block *b, const struct piece *piece, int64_t n)
{
    const int64_t at = piece->at, row = piece->row;

    for (int64_t j = b->begin > at ? b->begin - at : 0; j < n; j += ENTRIES_AT_ONCE)
        for (int64_t p = 0; p * FB_PANEL < piece->slot->head_dim; p++) {
            const int64_t here = min(ENTRIES_AT_ONCE, n - j);

            b->job->native->isa->tiles->product(&(fb_product){
                .rows = piece->end - row,
                .k = here,
                .columns = FB_PANEL,
                .x = b->p + row * b->job->stride + at + j,
                .panels = whole_value_panel(b, piece->slot, p, j, here),
                .out = b->o + row * b->job->o_stride + p * FB_PANEL,
                .x_stride = b->job->stride,
                .panel_stride = here,
                .out_stride = b->job->o_stride,
                .sums = p == 0 ? b->l + row : NULL,
                .scale = 1,
                .goes_on = at + j > b->begin,
            });
        }
}

static void outputs(const struct block *b)
{
    const fb_call *call = b->job->call;
    const int64_t d = call->head_dim, at_once = b->job->heads_at_once;
    const struct piece context = {&b->context, 0, 0, b->rows};
    float *out = fb_floats(&call->out);
    fb_slot slot;

    add_values(b, &context, context_seen(b, last_token(b)));
    for (int64_t m = 0; b->has_tail && m < b->members; m++) {
        const struct piece tail = tail_of(b, m, &slot);

        add_values(b, &tail, own_seen(b, m, last_token(b)));
    }
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t v = b->v + r / b->rows_of_each;
        const int64_t i = b->i + r % b->rows_of_each / at_once;

        b->job->native->isa->rows->divide(
            b->o + r * b->job->o_stride, b->l[r],
            out + (v * b->job->t + i) * call->heads * d + (b->h + r % at_once) * d, d);
    }
}

/* --- signals */

/* Items are in the order of their tokens, and one item is one head. */
static void add_to_sum(struct block *b, int64_t item)
{
    const fb_array *sum = &b->job->call->in[1];

    for (int64_t r = 0; r < b->rows; r++)
        b->inverse[r] = 1.0f / b->l[r];
    while (atomic_load_explicit(&b->job->added, memory_order_acquire) != item)
        (void)sched_yield();
    b->job->native->isa->rows->add_rows(fb_floats(sum) + b->h * sum->shape[1], b->p,
                                        b->job->stride, b->rows,
                                        context_seen(b, last_token(b)), b->inverse);
    atomic_store_explicit(&b->job->added, item + 1, memory_order_release);
}

static void put_rows(const struct block *b)
{
    const fb_array *rows = &b->job->call->in[2];
    const int64_t w = rows->shape[1], n = rows->shape[2];

    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t i = b->i + r / b->job->heads_at_once;
        const int64_t h = b->h + r % b->job->heads_at_once;
        const int64_t row = b->job->call->attend->first_row + i;
        const int64_t columns = context_seen(b, i);
        float *to;

        if (row < 0) continue;
        to = fb_floats(rows) + (h * w + row) * n;
        b->job->native->isa->rows->divide(b->p + r * b->job->stride, b->l[r], to,
                                          columns);
        memset(to + columns, 0, (size_t)(n - columns) * sizeof *to);
    }
}

/* --- blocks and threads */

/* Entry `from` of a row, down to the start of the panel that holds it. */
static int64_t whole_panels(const struct block *b, int64_t from)
{
    const int64_t n = b->has_tail ? b->segment->context.n : 0;

    return from < n || !b->has_tail ? from / FB_PANEL * FB_PANEL
                                    : n + (from - n) / FB_PANEL * FB_PANEL;
}

static bool share_context(const fb_segment *a, const fb_segment *b)
{
    return a->tail.kv != NULL && b->tail.kv != NULL && a->context.kv == b->context.kv &&
           a->context.slot == b->context.slot && a->context.n == b->context.n;
}

/* Those of the sequences up to `end` that go on from the first one's context. */
static void find_members(struct block *b, int64_t end)
{
    b->segment = &b->job->call->attend
                      ->segments[b->v * b->job->call->kv_heads + b->h / b->job->group];
    b->members = 1;
    while (b->v + b->members < end &&
           share_context(b->segment, segment_of(b, b->members)))
        b->members++;
    b->rows_of_each = b->n_tokens * b->job->heads_at_once;
    b->rows = b->members * b->rows_of_each;
    b->has_tail = b->segment->tail.kv != NULL;
    if (b->segment->context.kv != NULL)
        b->context = fb_slot_of(b->segment->context.kv, b->segment->context.slot);
    b->begin = INT64_MAX;
    for (int64_t m = 0; m < b->members; m++)
        b->begin = min(b->begin, whole_panels(b, unseen(b, m, b->i)));
}

static void run_block(struct block *b, int64_t item)
{
    gather_queries(b);
    score(b);
    exponentials(b);
    outputs(b);
    if (b->job->call->in[2].storage != NULL) put_rows(b);
    if (b->job->call->in[1].storage != NULL) add_to_sum(b, item);
}

static void run_item(struct block *b, int64_t item)
{
    const struct job *job = b->job;
    const int64_t n = job->call->n_sequences,
                  units = job->call->heads / job->heads_at_once;
    const int64_t parts = (n + job->sequences - 1) / job->sequences;
    const int64_t first = item / units % parts * job->sequences;
    const int64_t end = min(first + job->sequences, n);

    b->i = item / units / parts * job->tokens;
    b->n_tokens = min(job->tokens, job->t - b->i);
    b->h = item % units * job->heads_at_once;
    for (b->v = first; b->v < end; b->v += b->members) {
        find_members(b, end);
        run_block(b, item);
    }
}

/* A thread's memory, cut into the arrays of a block; the floats they take together. */
static size_t lay_out(const struct job *job, float *memory, struct block *b)
{
    const int64_t rows =
        fb_round_up(job->sequences * job->tokens * job->heads_at_once, 16);
    const int64_t d = job->call->head_dim;
    const int64_t sizes[] = {rows * job->stride,
                             rows * job->o_stride,
                             (d > ENTRIES_AT_ONCE ? d : ENTRIES_AT_ONCE) * FB_PANEL,
                             rows * d,
                             rows,
                             rows};
    float **const arrays[] = {&b->p, &b->o, &b->panel, &b->q, &b->l, &b->inverse};
    size_t n = 0;

    for (int i = 0; i < 6; i++) {
        if (memory != NULL) *arrays[i] = memory + n;
        n += (size_t)fb_round_up(sizes[i], 16);
    }
    return n;
}

/* fb_loop over threads: each takes items, in order, until there are none. */
static void run_items(void *context, int64_t begin, int64_t end, int thread)
{
    struct job *job = context;
    struct block b = {.job = job};
    int64_t item;

    (void)begin, (void)end;
    (void)lay_out(job, job->native->scratch[thread].bytes, &b);
    while ((item = atomic_fetch_add(&job->next, 1)) < job->n_items)
        run_item(&b, item);
}

/* Distance of rows of at least n: room for a panel more, and an odd number of cache
 * lines, so that neighbouring rows do not meet in one set of a cache. */
static int64_t row_distance(int64_t n)
{
    const int64_t lines = (n + FB_PANEL + 15) / 16;

    return (lines | 1) * 16;
}

static int64_t longest_row(const fb_attend *attend)
{
    int64_t longest = 0;

    for (int64_t i = 0; i < attend->n_sequences * attend->kv_heads; i++) {
        const int64_t n = attend->segments[i].context.n + attend->segments[i].tail.n;

        if (n > longest) longest = n;
    }
    return longest;
}

/* Sequences whose rows, one token each of them all, make a block; not so many that threads
 * would have nothing to do. */
static int64_t sequences_at_once(const struct job *job, int64_t rows, int n_threads)
{
    const fb_attend *attend = job->call->attend;
    const int64_t n = attend->n_sequences, units = attend->heads / job->heads_at_once;
    const int64_t fit = rows / (job->tokens * job->heads_at_once);
    const int64_t fair = n * units / (2 * n_threads);
    bool do_share = false;

    for (int64_t i = attend->kv_heads; i < n * attend->kv_heads; i++)
        do_share = do_share || share_context(&attend->segments[i - attend->kv_heads],
                                             &attend->segments[i]);
    if (!do_share || job->tokens < job->t || fit < 2 || fair < 2) return 1;
    return min(fit, fair);
}

static struct job plan(const fb_call *call, int n_threads)
{
    const fb_attend *attend = call->attend;
    struct job planned = {.call = call,
                          .t = call->in[0].shape[0] / call->n_sequences,
                          .group = call->heads / call->kv_heads},
               *job = &planned;
    int64_t rows;

    job->stride = row_distance(longest_row(attend));
    job->o_stride = fb_round_up(attend->head_dim, FB_PANEL);
    job->heads_at_once = job->call->in[1].storage != NULL ? 1 : job->group;
    rows = P_BYTES / (job->stride * (int64_t)sizeof(float)) / ROW_STEP * ROW_STEP;
    rows = rows < ROW_STEP ? ROW_STEP : min(rows, MOST_ROWS);
    job->tokens = rows / job->heads_at_once;
    if (job->tokens < 1) job->tokens = 1;
    job->tokens = min(job->tokens, job->t);
    job->sequences = sequences_at_once(job, rows, n_threads);
    job->n_items = (job->t + job->tokens - 1) / job->tokens *
                   ((attend->n_sequences + job->sequences - 1) / job->sequences) *
                   (attend->heads / job->heads_at_once);
    return planned;
}

size_t fb_native_attention_room(const fb_call *call, int n_threads)
{
    const struct job job = plan(call, n_threads);
    struct block nothing;

    return lay_out(&job, NULL, &nothing) * sizeof(float);
}

fb_status fb_native_attention(void *self, const fb_call *call)
{
    fb_native *native = self;
    struct job job = plan(call, native->n_threads);

    job.native = native;
    FB_TRY(
        fb_native_reserve(native, fb_native_attention_room(call, native->n_threads)));
    fb_native_loop(native, native->n_threads,
                   (double)call->in[0].shape[0] * (double)(call->heads * job.stride) *
                       (double)call->head_dim / 16,
                   run_items, &job);
    return FB_OK;
}
