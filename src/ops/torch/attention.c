/* attention.c - the one attention kernel, composed of core operators.
 *
 * S = q k^T * scale, masked; A = softmax(S); O = A v. Signals are reductions of A. A
 * context pass reads keys and values as they lie, up to its own tokens; a batch of
 * answers reads them picked and padded, in one product for each padded length.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/gather.h"

#include "base/number.h"

#include <math.h>

/* What a call is made of. */
struct attention {
    fb_torch *torch;
    const fb_call *call;
    const fb_attend *attend;
    int64_t sequences, t, heads, kv_heads, group, d;
};

/* Segments that are computed in one product. */
struct members {
    const fb_segment **segments; /* [n] */
    int64_t *which;              /* [n] sequence * kv_heads + kv head */
    int64_t n;
};

static struct attention open_attention(fb_torch *torch, const fb_call *call)
{
    const fb_attend *a = call->attend;

    return (struct attention){.torch = torch,
                              .call = call,
                              .attend = a,
                              .sequences = a->n_sequences,
                              .t = call->in[0].shape[0] / a->n_sequences,
                              .heads = a->heads,
                              .kv_heads = a->kv_heads,
                              .group = a->heads / a->kv_heads,
                              .d = a->head_dim};
}

/* --- queries and results --- */

/* Scaled: [sequences * kv_heads, group * t, d]. */
static fb_torch_handle queries(const struct attention *a)
{
    fb_torch *torch = a->torch;
    const int64_t width = a->call->in[0].shape[1];
    fb_torch_handle q = fb_torch_of(torch, &a->call->in[0]);

    q = fb_torch_view(
        torch, q, 5, (const int64_t[]){a->sequences, a->kv_heads, a->group, a->t, a->d},
        (const int64_t[]){a->t * width, a->group * a->d, a->d, width, 1}, 0);
    q = OP_("mul", "Tensor", T_(q), T_(fb_torch_number(torch, a->attend->scale)));
    return OP_("reshape", "", T_(q),
               INTS_(a->sequences * a->kv_heads, a->group * a->t, a->d));
}

/* [sequences * kv_heads, group * t, d] to [sequences * t, heads * d]. */
static fb_torch_handle side_by_side(const struct attention *a, fb_torch_handle o)
{
    fb_torch *torch = a->torch;

    o = OP_("reshape", "", T_(o), INTS_(a->sequences, a->heads, a->t, a->d));
    o = OP_("transpose", "int", T_(o), I_(1), I_(2));
    return OP_("reshape", "", T_(o), INTS_(a->sequences * a->t, a->heads * a->d));
}

/* --- scores and their mask --- */

/* q k^T: [n, group, t, length]. */
static fb_torch_handle scores(const struct attention *a, fb_torch_handle q,
                              fb_torch_handle keys, int64_t n, int64_t length)
{
    fb_torch *torch = a->torch;
    fb_torch_handle s = OP_("transpose", "int", T_(keys), I_(1), I_(2));

    s = OP_("bmm", "", T_(q), T_(s));
    return fb_torch_view(
        torch, s, 4, (const int64_t[]){n, a->group, a->t, length},
        (const int64_t[]){a->group * a->t * length, a->t * length, length, 1}, 0);
}

static void hide(const struct attention *a, fb_torch_handle s, fb_torch_handle unseen)
{
    fb_torch *torch = a->torch;

    if (unseen == NULL) return;
    (void)OP_("masked_fill_", "Tensor", T_(s), T_(unseen),
              T_(fb_torch_number(torch, -(double)INFINITY)));
}

static fb_torch_handle softmax(const struct attention *a, fb_torch_handle s)
{
    fb_torch *torch = a->torch;

    return OP_("softmax", "int", T_(s), I_(-1), NONE_);
}

/* Columns [first, first + length) of A times values: [n, group * t, d]. */
static fb_torch_handle weighted(const struct attention *a, fb_torch_handle p,
                                int64_t first, int64_t length, fb_torch_handle values,
                                int64_t n)
{
    fb_torch *torch = a->torch;
    fb_torch_handle part = NARROW_(p, 3, first, length);

    part = OP_("reshape", "", T_(part), INTS_(n, a->group * a->t, length));
    return OP_("bmm", "", T_(part), T_(values));
}

/* --- signals --- */

/* Rows [from, from + group) of a signal [H, ..., n]: those of one kv head. */
static fb_torch_handle of_head(const struct attention *a, const fb_array *signal,
                               int64_t kv_head)
{
    fb_torch *torch = a->torch;

    return NARROW_(fb_torch_in_place(torch, signal), 0, kv_head * a->group, a->group);
}

static void add_sum(const struct attention *a, fb_torch_handle p, int64_t kv_head,
                    int64_t n)
{
    fb_torch *torch = a->torch;
    fb_torch_handle to = NARROW_(of_head(a, &a->call->in[1], kv_head), 1, 0, n);

    p = OP_("sum", "dim_IntList", T_(p), fb_torch_some(torch, INTS_(1)), B_(false),
            NONE_);
    fb_torch_copy(torch, to, fb_torch_plus(torch, to, p, 1));
}

static void put_rows(const struct attention *a, fb_torch_handle p, int64_t kv_head,
                     int64_t n)
{
    fb_torch *torch = a->torch;
    const int64_t row = a->attend->first_row, from = row < 0 ? -row : 0;
    const int64_t columns = a->call->in[2].shape[2];
    fb_torch_handle to;

    if (from >= a->t) return;
    to = NARROW_(of_head(a, &a->call->in[2], kv_head), 1, row + from, a->t - from);
    fb_torch_copy(torch, NARROW_(to, 2, 0, n), NARROW_(p, 1, from, a->t - from));
    if (n < columns) (void)OP_("zero_", "", T_(NARROW_(to, 2, n, columns - n)));
}

/* A [n, group, t, >= n_context] of kv head i in place i; columns of the context. */
static void make_signals(const struct attention *a, fb_torch_handle p,
                         const struct members *members)
{
    fb_torch *torch = a->torch;
    const bool wants_sum = a->attend->sum.id != 0, wants_rows = a->attend->rows.id != 0;

    for (int64_t i = 0; (wants_sum || wants_rows) && i < members->n; i++) {
        const int64_t n = members->segments[i]->context.n;
        fb_torch_handle own = OP_("select", "int", T_(p), I_(0), I_(i));

        own = NARROW_(own, 2, 0, n);
        if (wants_sum) add_sum(a, own, members->which[i], n);
        if (wants_rows) put_rows(a, own, members->which[i], n);
    }
}

/* --- a context pass --- */

/* Only the last t columns have unseen entries, or under a window all that are left. */
static void hide_later(const struct attention *a, fb_torch_handle s, int64_t length)
{
    fb_torch *torch = a->torch;
    const int64_t window = a->attend->window, n = window > 0 ? length : a->t;
    const fb_segment own = {.context = {.n = n}};
    const fb_segment *one = &own;

    if (n < length) s = NARROW_(s, 3, length - n, n);
    hide(a, s, fb_torch_unseen(torch, &one, 1, a->t, window, false, n));
}

static fb_torch_handle pass(const struct attention *a, fb_torch_padded all,
                            const struct members *members)
{
    fb_torch *torch = a->torch;
    const int64_t window = a->attend->window;
    const int64_t first = window > 0 ? fb_larger(0, all.length - a->t + 1 - window) : 0;
    const int64_t length = all.length - first;
    fb_torch_handle s, p;

    if (first > 0) {
        all.keys = NARROW_(all.keys, 1, first, length);
        all.values = NARROW_(all.values, 1, first, length);
    }
    s = scores(a, queries(a), all.keys, a->kv_heads, length);
    hide_later(a, s, length);
    p = softmax(a, s);
    make_signals(a, p, members);
    return weighted(a, p, 0, length, all.values, a->kv_heads);
}

/* --- a batch --- */

/* Entries of the members' contexts, or of their tails, picked to `length`; masked scores of
 * them. NULL where there are none. */
static fb_torch_handle side(const struct attention *a, fb_torch_handle q,
                            const struct members *members, const fb_part **parts,
                            bool of_tail, int64_t length, fb_torch_padded *out)
{
    fb_torch *torch = a->torch;
    const int64_t n = members->n;
    fb_torch_handle s;

    if (length == 0) return NULL;
    for (int64_t i = 0; i < n; i++)
        parts[i] =
            of_tail ? &members->segments[i]->tail : &members->segments[i]->context;
    *out = fb_torch_pick(torch, parts, n, length);
    s = scores(a, q, out->keys, n, length);
    hide(a, s,
         fb_torch_unseen(torch, members->segments, n, a->t, a->attend->window, of_tail,
                         length));
    return s;
}

static fb_torch_handle both(const struct attention *a, fb_torch_handle q,
                            const struct members *members, int64_t length,
                            int64_t tail_length)
{
    fb_torch *torch = a->torch;
    const int64_t n = members->n;
    const fb_part **parts = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *parts);
    fb_torch_padded context = {.length = 0}, tail = {.length = 0};
    fb_torch_handle s, s_tail, p, o;

    if (parts == NULL) {
        torch->status = fb_fail(FB_NO_MEMORY, "no memory for a batch");
        return NULL;
    }
    s = side(a, q, members, parts, false, length, &context);
    s_tail = side(a, q, members, parts, true, tail_length, &tail);
    fb_free(parts);
    if (length == 0)
        s = s_tail;
    else if (tail_length > 0)
        s = fb_torch_join(torch, s, s_tail, 3);
    p = softmax(a, s);
    if (a->sequences == 1) make_signals(a, p, members);
    if (tail_length == 0) return weighted(a, p, 0, length, context.values, n);
    o = weighted(a, p, length, tail_length, tail.values, n);
    if (length == 0) return o;
    return fb_torch_plus(torch, weighted(a, p, 0, length, context.values, n), o, 1);
}

/* Padded lengths of a segment: the tail is one size for all of a batch already. */
static void lengths_of(const fb_segment *s, int64_t *length, int64_t *tail_length)
{
    *length = s->context.n > 0 ? fb_torch_length(s->context.n) : 0;
    *tail_length = s->tail.kv == NULL ? 0 : fb_kv_capacity(s->tail.kv, s->tail.slot);
}

/* The segments of the same lengths as segment `first`, which are taken. */
static void take_alike(const struct attention *a, int64_t first, uint8_t *taken,
                       struct members *out)
{
    const fb_segment *segments = a->attend->segments;
    int64_t length, tail_length, other, other_tail;

    lengths_of(&segments[first], &length, &tail_length);
    out->n = 0;
    for (int64_t i = first; i < a->sequences * a->kv_heads; i++) {
        if (taken[i]) continue;
        lengths_of(&segments[i], &other, &other_tail);
        if (other != length || other_tail != tail_length) continue;
        taken[i] = 1;
        out->segments[out->n] = &segments[i];
        out->which[out->n++] = i;
    }
}

static fb_torch_handle rows_at(const struct attention *a, fb_torch_handle x,
                               const int64_t *which, int64_t n)
{
    fb_torch *torch = a->torch;

    return OP_("index_select", "", T_(x), I_(0), T_(fb_torch_numbers(torch, which, n)));
}

/* One product for all segments of a length, their results put back in order. */
static fb_torch_handle batch(const struct attention *a, struct members *members,
                             uint8_t *taken, int64_t *order)
{
    fb_torch *torch = a->torch;
    const int64_t n = a->sequences * a->kv_heads;
    fb_torch_handle q = queries(a), o = NULL;
    int64_t done = 0;

    for (int64_t i = 0; torch->status == FB_OK && i < n; i++) {
        int64_t length, tail_length;
        fb_torch_handle part;

        if (taken[i]) continue;
        lengths_of(&a->attend->segments[i], &length, &tail_length);
        take_alike(a, i, taken, members);
        if (members->n == n) return both(a, q, members, length, tail_length);
        part = both(a, rows_at(a, q, members->which, members->n), members, length,
                    tail_length);
        for (int64_t m = 0; m < members->n; m++)
            order[members->which[m]] = done + m;
        done += members->n;
        o = o == NULL ? part : fb_torch_join(torch, o, part, 0);
    }
    return rows_at(a, o, order, n);
}

/* --- the kernel --- */

/* Where keys and values are read as they lie: what the queries belong to is no batch, of
 * which the bits must not depend on what else is in it. */
static bool reads_in_place(const struct attention *a)
{
    const fb_segment *s = a->attend->segments;

    if (a->sequences > 1) return false;
    for (int64_t g = 0; g < a->kv_heads; g++)
        if (s[g].tail.kv != NULL || s[g].context.hidden != NULL) return false;
    return true;
}

static fb_torch_handle attend(const struct attention *a, struct members *members,
                              uint8_t *taken, int64_t *order)
{
    fb_torch_padded all = {.keys = NULL};

    if (reads_in_place(a)) {
        all = fb_torch_whole(a->torch, a->attend->segments, a->kv_heads);
        members->n = a->kv_heads;
        for (int64_t g = 0; g < a->kv_heads; g++) {
            members->segments[g] = &a->attend->segments[g];
            members->which[g] = g;
        }
    }
    if (all.keys != NULL) return side_by_side(a, pass(a, all, members));
    return side_by_side(a, batch(a, members, taken, order));
}

fb_status fb_torch_attention(void *self, const fb_call *call)
{
    fb_torch *torch = self;
    const fb_attend *about = call->attend;
    const size_t n = (size_t)(about->n_sequences * about->kv_heads);
    const fb_part *own = about->segments[0].tail.kv != NULL
                             ? &about->segments[0].tail
                             : &about->segments[0].context;
    struct members members = {
        .segments = fb_alloc(FB_ACCOUNT_scratch, n * sizeof *members.segments),
        .which = fb_alloc(FB_ACCOUNT_scratch, n * sizeof *members.which)};
    uint8_t *taken = fb_zalloc(FB_ACCOUNT_scratch, n);
    int64_t *order = fb_alloc(FB_ACCOUNT_scratch, n * sizeof *order);
    fb_torch_handle o = NULL;

    fb_torch_begin(torch,
                   ((const fb_torch_storage *)(void *)own->kv->array.storage)->device);
    if (members.segments == NULL || members.which == NULL || taken == NULL ||
        order == NULL) {
        torch->status = fb_fail(FB_NO_MEMORY, "no memory for attention");
    } else {
        const struct attention a = open_attention(torch, call);

        o = attend(&a, &members, taken, order);
    }
    fb_free(members.segments);
    fb_free(members.which);
    fb_free(taken);
    fb_free(order);
    return fb_torch_return(torch, call, o);
}

/* Signals are made with it. */
fb_status fb_torch_attention_sum(void *self, const fb_call *call)
{
    return fb_torch_attention(self, call);
}

fb_status fb_torch_attention_rows(void *self, const fb_call *call)
{
    return fb_torch_attention(self, call);
}
