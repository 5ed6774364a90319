/* front_attention.c - the front doors of keys, values and the one attention.
 *
 * Who pays: a batch with one ledger per sequence charges each with the entries that its
 * own queries see. A hidden entry costs nothing, like one that is not there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/context.h"

#include <string.h>

/* exp and the row sum take some 11 FLOPs per score; a unit is a multiply-add. */
#define SOFTMAX_UNITS 5.5

/* --- keys and values */

static fb_status make_kv(fb_kv *kv, fb_account account, fb_dtype dtype,
                         const int64_t *capacity)
{
    int64_t n = 0;

    kv->first =
        fb_zalloc(FB_ACCOUNT_other, ((size_t)kv->n_slots + 1) * sizeof *kv->first);
    if (kv->first == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a cache");
    for (int64_t s = 0; s < kv->n_slots; s++) {
        if (capacity[s] < 0 || capacity[s] > INT32_MAX)
            return fb_fail(FB_DEFECT, "a slot of %lld entries", (long long)capacity[s]);
        n += capacity[s];
        kv->first[s + 1] = n;
    }
    kv->array = (fb_array){.dtype = dtype, .persists = true, .n_dims = 1};
    if (__builtin_mul_overflow(n, 2 * kv->head_dim, &kv->array.shape[0]) ||
        kv->array.shape[0] > INT64_C(1) << 48)
        return fb_fail(FB_NO_MEMORY, "no memory for %lld entries", (long long)n);
    return kv->ops->backend->alloc(kv->ops->self, account, &kv->array);
}

fb_status fb_kv_new(fb_kv **out, fb_ops *ops, fb_account account, fb_dtype dtype,
                    int64_t head_dim, int64_t n_slots, const int64_t *capacity)
{
    fb_status status;
    fb_kv *kv;

    *out = NULL;
    if (dtype != FB_F32 && dtype != FB_F16 && dtype != FB_BF16)
        return fb_fail(FB_DEFECT, "a cache is of f32, f16 or bf16");
    if (head_dim < 1 || head_dim > 1 << 16 || n_slots < 0 || n_slots > 1 << 24)
        return fb_fail(FB_DEFECT, "a cache of %lld slots of width %lld",
                       (long long)n_slots, (long long)head_dim);
    kv = fb_zalloc(FB_ACCOUNT_other, sizeof *kv);
    if (kv == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a cache");
    kv->ops = ops;
    kv->head_dim = head_dim;
    kv->n_slots = n_slots;
    status = make_kv(kv, account, dtype, capacity);
    if (status != FB_OK) {
        fb_kv_free(kv);
        return status;
    }
    *out = kv;
    return FB_OK;
}

void fb_kv_free(fb_kv *kv)
{
    if (kv == NULL) return;
    if (kv->array.storage != NULL) kv->ops->backend->free(kv->ops->self, &kv->array);
    fb_free(kv->first);
    fb_free(kv);
}

size_t fb_kv_bytes(const fb_kv *kv)
{
    return (size_t)kv->array.shape[0] * fb_dtype_bytes(kv->array.dtype);
}

int64_t fb_kv_capacity(const fb_kv *kv, int64_t slot)
{
    return kv->first[slot + 1] - kv->first[slot];
}

static bool has_slot(const fb_kv *kv, int64_t slot)
{
    return kv != NULL && slot >= 0 && slot < kv->n_slots;
}

/* True if x is [V*t, (H + 2G)*d] with at least one token for each sequence. */
static bool is_qkv(const fb_array *x, int64_t n_sequences, int64_t heads,
                   int64_t kv_heads, int64_t head_dim)
{
    return x->n_dims == 2 && n_sequences > 0 && x->shape[0] >= n_sequences &&
           x->shape[0] % n_sequences == 0 && heads >= 0 && kv_heads > 0 &&
           heads <= x->shape[1] && kv_heads <= x->shape[1] &&
           x->shape[1] == (heads + 2 * kv_heads) * head_dim;
}

void fb_kv_write(fb_ops *ops, fb_kv *kv, fb_tensor x, int64_t n_sequences,
                 int64_t heads, int64_t kv_heads, const int64_t *slot,
                 const int64_t *at)
{
    const fb_array *input = fb_ops_floats(ops, FB_OP_kv_write, x);
    fb_call call = {.n_sequences = n_sequences,
                    .heads = heads,
                    .kv_heads = kv_heads,
                    .to = kv,
                    .slot = slot,
                    .at = at};
    int64_t t;

    if (input == NULL) return;
    if (!is_qkv(input, n_sequences, heads, kv_heads, kv->head_dim)) {
        fb_ops_broken(ops, FB_OP_kv_write, "x does not hold q, k and v of %lld heads",
                      (long long)heads);
        return;
    }
    t = input->shape[0] / n_sequences;
    for (int64_t i = 0; i < n_sequences * kv_heads; i++)
        if (!has_slot(kv, slot[i]) || at[i / kv_heads] < 0 ||
            at[i / kv_heads] > fb_kv_capacity(kv, slot[i]) - t) {
            fb_ops_broken(ops, FB_OP_kv_write, "entries %lld and on of slot %lld",
                          (long long)at[i / kv_heads], (long long)slot[i]);
            return;
        }
    call.in[0] = call.out = *input;
    call.out.storage = kv->array.storage;
    call.out.dtype = kv->array.dtype;
    call.out.shape[1] = 2 * kv_heads * kv->head_dim;
    call.head_dim = kv->head_dim;
    (void)fb_ops_run(ops, FB_OP_kv_write, &call, 0);
}

/* What is copied, for the ledger: read and written once each. */
static fb_array copied(const fb_kv *kv, int64_t n)
{
    fb_array array = {.storage = kv->array.storage,
                      .dtype = kv->array.dtype,
                      .persists = true,
                      .n_dims = 2};

    array.shape[0] = n;
    array.shape[1] = 2 * kv->head_dim;
    return array;
}

static bool has_entries(fb_ops *ops, const fb_kv *kv, int64_t slot,
                        const int32_t *index, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        if (index[j] < 0 || index[j] >= fb_kv_capacity(kv, slot)) {
            fb_ops_broken(ops, FB_OP_kv_copy, "no entry %d in slot %lld", (int)index[j],
                          (long long)slot);
            return false;
        }
    return true;
}

static bool ascends(const int32_t *index, int64_t n)
{
    for (int64_t j = 1; j < n; j++)
        if (index[j] <= index[j - 1]) return false;
    return true;
}

void fb_kv_copy(fb_ops *ops, fb_kv *dst, int64_t dst_slot, const fb_kv *src,
                int64_t src_slot, const int32_t *index, int64_t n)
{
    fb_call call = {.to = dst,
                    .to_slot = dst_slot,
                    .from = src,
                    .from_slot = src_slot,
                    .ids = index};

    if (fb_ops_status(ops) != FB_OK) return;
    if (!has_slot(dst, dst_slot) || !has_slot(src, src_slot) ||
        (dst == src && (dst_slot != src_slot || !ascends(index, n))) ||
        dst->head_dim != src->head_dim || dst->array.dtype != src->array.dtype ||
        n < 0 || n > fb_kv_capacity(dst, dst_slot)) {
        fb_ops_broken(ops, FB_OP_kv_copy, "%lld entries of slot %lld to slot %lld",
                      (long long)n, (long long)src_slot, (long long)dst_slot);
        return;
    }
    if (!has_entries(ops, src, src_slot, index, n)) return;
    call.in[0] = call.out = copied(dst, n);
    (void)fb_ops_run(ops, FB_OP_kv_copy, &call, 0);
}

void fb_kv_hide(fb_ops *ops, const fb_kv *kv, int64_t slot, const int32_t *index,
                int64_t n, uint8_t *hidden)
{
    fb_array entries;

    if (fb_ops_status(ops) != FB_OK) return;
    if (!has_slot(kv, slot)) {
        fb_ops_broken(ops, FB_OP_kv_copy, "no slot %lld", (long long)slot);
        return;
    }
    if (!has_entries(ops, kv, slot, index, n)) return;
    memset(hidden, 1, (size_t)fb_kv_capacity(kv, slot));
    for (int64_t j = 0; j < n; j++)
        hidden[index[j]] = 0;
    entries = copied(kv, n);
    fb_ops_count(ops, FB_OP_kv_copy, 0, fb_array_bytes(&entries),
                 fb_array_bytes(&entries));
}

void fb_kv_turn(fb_ops *ops, fb_kv *kv, int64_t slot, fb_tensor cosine, fb_tensor sine)
{
    const fb_array *c = fb_ops_floats(ops, FB_OP_kv_turn, cosine);
    const fb_array *s = fb_ops_floats(ops, FB_OP_kv_turn, sine);
    fb_call call = {.to = kv, .to_slot = slot};

    if (c == NULL || s == NULL) return;
    if (!has_slot(kv, slot) || c->n_dims != 2 || s->n_dims != 2 ||
        c->shape[0] != s->shape[0] || c->shape[1] != s->shape[1] || c->shape[1] < 1 ||
        c->shape[1] > kv->head_dim / 2 || c->shape[0] > fb_kv_capacity(kv, slot)) {
        fb_ops_broken(ops, FB_OP_kv_turn, "%lld angles of %lld for slot %lld",
                      (long long)c->shape[1], (long long)c->shape[0], (long long)slot);
        return;
    }
    call.in[0] = *c;
    call.in[1] = *s;
    call.out = (fb_array){.storage = kv->array.storage,
                          .dtype = kv->array.dtype,
                          .persists = true,
                          .n_dims = 2};
    call.out.shape[0] = c->shape[0];
    call.out.shape[1] = 2 * c->shape[1];
    call.in[2] = call.out;
    (void)fb_ops_run(ops, FB_OP_kv_turn, &call, (double)fb_array_elements(&call.out));
}

fb_tensor fb_kv_read(fb_ops *ops, const fb_kv *kv, bool values, int64_t slot,
                     int64_t n_slots, int64_t m)
{
    fb_call call = {.from = kv, .from_slot = slot, .values = values};
    bool fits = slot >= 0 && n_slots >= 0 && m >= 0 && slot <= kv->n_slots - n_slots;

    if (fb_ops_status(ops) != FB_OK) return FB_NONE;
    for (int64_t s = slot; fits && s < slot + n_slots; s++)
        fits = m <= fb_kv_capacity(kv, s);
    if (!fits) {
        fb_ops_broken(ops, FB_OP_kv_read, "%lld entries of %lld slots from %lld on",
                      (long long)m, (long long)n_slots, (long long)slot);
        return FB_NONE;
    }
    if (!fb_ops_shape(ops, FB_OP_kv_read, &call.out, FB_F32, 3,
                      (const int64_t[]){n_slots, m, kv->head_dim}))
        return FB_NONE;
    call.in[0] = call.out;
    call.in[0].storage = kv->array.storage;
    call.in[0].dtype = kv->array.dtype;
    return fb_ops_compute(ops, FB_OP_kv_read, &call, 0);
}

/* --- attention: checks */

/* Builds that check count the open entries again. */
static bool is_counted(const fb_part *part)
{
#ifdef FB_CHECKED
    int64_t open = 0;

    for (int64_t j = 0; part->hidden != NULL && j < part->n; j++)
        open += part->hidden[j] == 0;
    return part->hidden == NULL || open == part->n_open;
#else
    return part->hidden == NULL || (part->n_open >= 0 && part->n_open <= part->n);
#endif
}

static bool is_part(const fb_part *part, int64_t head_dim)
{
    if (part->kv == NULL) return part->n == 0;
    return has_slot(part->kv, part->slot) && part->kv->head_dim == head_dim &&
           part->n >= 0 && part->n <= fb_kv_capacity(part->kv, part->slot) &&
           is_counted(part);
}

/* Entries of a part's first n that are not hidden. Only those behind are looked at: a mask
 * is as long as a context, and this is asked at every step. */
static int64_t n_open(const fb_part *part, int64_t n)
{
    int64_t open = part->n_open;

    if (part->hidden == NULL) return n;
    for (int64_t j = n; j < part->n; j++)
        open -= part->hidden[j] == 0;
    return open;
}

/* The part whose last t entries are the queries' own. */
static const fb_part *own_part(const fb_segment *segment)
{
    return segment->tail.kv != NULL ? &segment->tail : &segment->context;
}

/* Entries that the first query of a segment sees. */
static int64_t n_first(const fb_segment *segment, int64_t t)
{
    const fb_part *own = own_part(segment);
    const int64_t seen = n_open(own, own->n - t + 1);

    return own == &segment->tail ? seen + n_open(&segment->context, segment->context.n)
                                 : seen;
}

static fb_dtype type_of(const fb_segment *segment)
{
    return own_part(segment)->kv->array.dtype;
}

static bool is_of_one_type(const fb_segment *segment)
{
    const fb_kv *context = segment->context.kv;

    return context == NULL || context->array.dtype == type_of(segment);
}

static bool check_segments(fb_ops *ops, const fb_attend *call, int64_t t)
{
    const bool has_signals = call->sum.id != 0 || call->rows.id != 0;

    if (call->window < 0 || (call->window > 0 && has_signals)) {
        fb_ops_broken(ops, FB_OP_attention, "signals of a window");
        return false;
    }
    for (int64_t i = 0; i < call->n_sequences * call->kv_heads; i++) {
        const fb_segment *segment = &call->segments[i];

        if (!is_part(&segment->context, call->head_dim) ||
            !is_part(&segment->tail, call->head_dim) || own_part(segment)->n < t ||
            n_first(segment, t) < 1 || !is_of_one_type(segment)) {
            fb_ops_broken(ops, FB_OP_attention,
                          "segment %lld: %lld + %lld entries for %lld queries",
                          (long long)i, (long long)segment->context.n,
                          (long long)segment->tail.n, (long long)t);
            return false;
        }
        if ((has_signals || call->window > 0) &&
            (segment->context.hidden || segment->tail.hidden)) {
            fb_ops_broken(ops, FB_OP_attention, "signals or windows of hidden entries");
            return false;
        }
    }
    return true;
}

/* sum [H, n] or rows [H, w, n] with n at least the longest context. */
static bool check_signal(fb_ops *ops, enum fb_op op, const fb_attend *call,
                         fb_tensor signal, int n_dims, fb_array *out)
{
    const fb_array *array;

    if (signal.id == 0) return fb_ops_status(ops) == FB_OK;
    array = fb_ops_floats(ops, op, signal);
    if (array == NULL) return false;
    *out = *array;
    if (array->n_dims == n_dims && array->shape[0] == call->heads &&
        call->n_sequences == 1) {
        int64_t n = 0;

        for (int64_t g = 0; g < call->kv_heads; g++)
            if (call->segments[g].context.n > n) n = call->segments[g].context.n;
        if (array->shape[n_dims - 1] >= n) return true;
    }
    fb_ops_broken(ops, op, "does not fit %lld heads and the entries of the context",
                  (long long)call->heads);
    return false;
}

/* --- attention: who pays */

/* Sum over t queries of the entries each sees: all of `whole`, and `own` up to
 * itself. */
static double scores_of(const fb_segment *segment, int64_t t, int64_t window)
{
    const fb_part *own = own_part(segment);
    const int64_t before = own->n - t;
    double seen = (double)n_open(own, before), scores = 0;

    if (own == &segment->tail)
        seen += (double)n_open(&segment->context, segment->context.n);
    for (int64_t i = 0; i < t; i++) {
        seen += own->hidden == NULL || own->hidden[before + i] == 0;
        scores += window > 0 && seen > (double)window ? (double)window : seen;
    }
    return scores;
}

/* Scores of the context's columns alone, over queries `first` and on. */
static double column_scores(const fb_segment *segment, int64_t first, int64_t t)
{
    const double n = (double)segment->context.n, rows = (double)(t - first);

    if (rows <= 0) return 0;
    if (segment->tail.kv != NULL) return n * rows;
    return n * rows - rows * (rows - 1) / 2;
}

static void count_sequence(fb_ops *ops, const fb_attend *call, int64_t v, int64_t t)
{
    const int64_t group = call->heads / call->kv_heads;
    const double d = (double)call->head_dim;
    double units = 0, bytes = 2 * (double)t * (double)call->heads * d * 4;

    for (int64_t g = 0; g < call->kv_heads; g++) {
        const fb_segment *s = &call->segments[v * call->kv_heads + g];
        int64_t entries =
            n_open(&s->context, s->context.n) + n_open(&s->tail, s->tail.n);

        if (call->window > 0 && entries > call->window + t - 1)
            entries = call->window + t - 1;
        units +=
            scores_of(s, t, call->window) * (double)group * (2 * d + SOFTMAX_UNITS);
        bytes += (double)entries * 2 * d * (double)fb_dtype_bytes(type_of(s));
    }
    fb_ops_count_part(ops, FB_OP_attention, v, call->n_sequences, ops->place.scope,
                      units, bytes);
}

double fb_attention_flops(int64_t head_dim)
{
    return (2 * (double)head_dim + SOFTMAX_UNITS) * fb_op_flops(FB_OP_attention);
}

double fb_attention_again_flops(int64_t head_dim)
{
    return ((double)head_dim + SOFTMAX_UNITS) * fb_op_flops(FB_OP_attention);
}

/* A signal reads P where it is and writes its own array. A fused kernel would compute it
 * again, unless whoever wants it pays for the attention itself. */
static void count_signal(fb_ops *ops, enum fb_op op, const fb_attend *call,
                         int64_t first, int64_t t)
{
    const int64_t group = call->heads / call->kv_heads;
    double units = 0;

    for (int64_t g = 0; g < call->kv_heads; g++)
        units += (double)group * column_scores(&call->segments[g], first, t);
    fb_ops_count_part(ops, op, 0, 1, FB_SCOPE_signal, units, units * 4);
    if (ops->place.scope != FB_SCOPE_signal)
        fb_ops_count_again(ops, op == FB_OP_attention_sum,
                           units * fb_attention_again_flops(call->head_dim));
}

fb_tensor fb_attention(fb_ops *ops, const fb_attend *attend)
{
    const fb_array *x = fb_ops_floats(ops, FB_OP_attention, attend->x);
    fb_call call = {.alpha = attend->scale,
                    .n_sequences = attend->n_sequences,
                    .heads = attend->heads,
                    .kv_heads = attend->kv_heads,
                    .head_dim = attend->head_dim,
                    .kernel = attend->window,
                    .attend = attend};
    int64_t t;

    if (x == NULL) return FB_NONE;
    if (!is_qkv(x, attend->n_sequences, attend->heads, attend->kv_heads,
                attend->head_dim) ||
        attend->heads < 1 || attend->heads % attend->kv_heads != 0) {
        fb_ops_broken(ops, FB_OP_attention, "x does not hold q, k and v of %lld heads",
                      (long long)attend->heads);
        return FB_NONE;
    }
    t = x->shape[0] / attend->n_sequences;
    call.in[0] = *x;
    if (!check_segments(ops, attend, t) ||
        !check_signal(ops, FB_OP_attention_sum, attend, attend->sum, 2, &call.in[1]) ||
        !check_signal(ops, FB_OP_attention_rows, attend, attend->rows, 3, &call.in[2]))
        return FB_NONE;
    if (attend->rows.id != 0 && (call.in[2].shape[1] < attend->first_row + t)) {
        fb_ops_broken(ops, FB_OP_attention_rows, "rows %lld to %lld of %lld",
                      (long long)attend->first_row, (long long)attend->first_row + t,
                      (long long)call.in[2].shape[1]);
        return FB_NONE;
    }
    for (int64_t v = 0; v < attend->n_sequences; v++)
        count_sequence(ops, attend, v, t);
    if (attend->sum.id != 0) count_signal(ops, FB_OP_attention_sum, attend, 0, t);
    if (attend->rows.id != 0)
        count_signal(ops, FB_OP_attention_rows, attend,
                     attend->first_row < 0 ? -attend->first_row : 0, t);
    call.out = (fb_array){.dtype = FB_F32, .n_dims = 2};
    call.out.shape[0] = x->shape[0];
    call.out.shape[1] = attend->heads * attend->head_dim;
    return fb_ops_compute(ops, FB_OP_attention, &call, 0);
}
