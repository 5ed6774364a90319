/* gather.c - see gather.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/gather.h"

#include "base/number.h"

/* Tables that are kept; more than a batch of any model needs at a step. */
enum { MOST_PLANS = 2048 };

/* A table on the device, and all that it depends on. */
struct plan {
    int64_t *key;
    size_t n;
    fb_torch_handle table; /* owned */
    int device;
};

struct fb_torch_plans {
    struct plan plans[MOST_PLANS]; /* open addressing; key NULL: free */
    int used;
};

void fb_torch_plans_free(fb_torch *torch)
{
    struct fb_torch_plans *plans = torch->plans;

    if (plans == NULL) return;
    for (int i = 0; i < MOST_PLANS; i++) {
        if (plans->plans[i].key == NULL) continue;
        fb_free(plans->plans[i].key);
        (void)torch->lib->aoti_torch_delete_tensor_object(plans->plans[i].table);
    }
    fb_free(plans);
    torch->plans = NULL;
}

/* --- keys of tables --- */

enum table { TABLE_PLACES, TABLE_UNSEEN, TABLE_NUMBERS };

/* A key that grows; `key` NULL: no memory, and nothing is remembered. */
struct key {
    int64_t *key;
    size_t n;
};

static void add(struct key *key, int64_t x)
{
    if (key->key != NULL) key->key[key->n++] = x;
}

static struct plan *look_up(fb_torch *torch, const struct key *key)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a over whole numbers */

    if (torch->plans != NULL && torch->plans->used > MOST_PLANS / 2)
        fb_torch_plans_free(torch);
    if (torch->plans == NULL)
        torch->plans = fb_zalloc(FB_ACCOUNT_other, sizeof *torch->plans);
    if (torch->plans == NULL || key->key == NULL) return NULL;
    for (size_t i = 0; i < key->n; i++)
        hash = (hash ^ (uint64_t)key->key[i]) * 1099511628211u;
    for (uint64_t i = hash ^ hash >> 29;; i++) {
        struct plan *plan = &torch->plans->plans[i % MOST_PLANS];

        if (plan->key == NULL ||
            (plan->n == key->n && plan->device == torch->at &&
             memcmp(plan->key, key->key, key->n * sizeof *key->key) == 0))
            return plan;
    }
}

static bool is_there(const struct plan *plan)
{
    return plan != NULL && plan->key != NULL;
}

/* Gives the key up. A table is forgotten when there are too many, so the call at work holds
 * on to it. */
static fb_torch_handle lend(fb_torch *torch, const struct plan *plan, struct key *key)
{
    fb_torch_handle own = NULL;

    fb_free(key->key);
    if (torch->status != FB_OK) return NULL;
    if (torch->lib->aoti_torch_new_tensor_handle(plan->table, &own) != 0)
        return fb_torch_failed(torch, "new_tensor_handle");
    return fb_torch_keep(torch, own);
}

/* Keeps the table under its key, which is taken over; lends it for the call. */
static fb_torch_handle remember(fb_torch *torch, struct plan *plan, struct key *key,
                                fb_torch_handle table)
{
    fb_torch_handle own = NULL;

    if (plan == NULL || torch->status != FB_OK) {
        fb_free(key->key);
        return table;
    }
    if (torch->lib->aoti_torch_new_tensor_handle(table, &own) != 0) {
        fb_free(key->key);
        return fb_torch_failed(torch, "new_tensor_handle");
    }
    *plan = (struct plan){key->key, key->n, own, torch->at};
    torch->plans->used++;
    return table;
}

fb_torch_handle fb_torch_numbers(fb_torch *torch, const int64_t *x, int64_t n)
{
    const int32_t i64 = torch->lib->aoti_torch_dtype_int64();
    struct key key = {fb_alloc(FB_ACCOUNT_scratch, (size_t)(n + 1) * sizeof(int64_t)),
                      0};
    struct plan *plan;

    add(&key, TABLE_NUMBERS);
    for (int64_t i = 0; i < n; i++)
        add(&key, x[i]);
    plan = look_up(torch, &key);
    if (is_there(plan)) return lend(torch, plan, &key);
    return remember(torch, plan, &key, fb_torch_upload(torch, i64, 1, &n, x));
}

/* --- picking --- */

/* 16, 24, 32, 48, 64, 96, ... */
int64_t fb_torch_length(int64_t n)
{
    int64_t size = 16;

    while (size < n && size + size / 2 < n)
        size *= 2;
    return size >= n ? size : size + size / 2;
}

fb_torch_handle fb_torch_rows(fb_torch *torch, const fb_kv *kv, int64_t first,
                              int64_t end)
{
    const fb_torch_storage *storage = (const void *)kv->array.storage;
    const int64_t d = kv->head_dim;

    return fb_torch_view(torch, storage->tensor, 2, (const int64_t[]){end - first, d},
                         (const int64_t[]){d, 1}, first * d);
}

/* The caches that parts lie in, each with the rows that are read of it. */
struct sources {
    const fb_kv **kv;
    int64_t *first, *end, *base; /* rows of a cache; where they begin in all of them */
    int64_t *of;                 /* of each part: the number of its cache */
    int64_t n;
};

static int64_t source_of(const struct sources *sources, const fb_kv *kv)
{
    int64_t i = 0;

    while (i < sources->n && sources->kv[i] != kv)
        i++;
    return i;
}

static void find_sources(struct sources *sources, const fb_part *const *parts,
                         int64_t n)
{
    sources->n = 0;
    for (int64_t p = 0; p < n; p++) {
        const fb_kv *kv = parts[p]->kv;
        const int64_t begin = 2 * kv->first[parts[p]->slot];
        const int64_t end = 2 * kv->first[parts[p]->slot + 1];
        /* parts of a sequence follow each other: most often it is the last one */
        const int64_t i = sources->n > 0 && sources->kv[sources->n - 1] == kv
                              ? sources->n - 1
                              : source_of(sources, kv);

        if (i == sources->n) {
            sources->kv[i] = kv;
            sources->first[i] = begin;
            sources->end[i] = end;
            sources->n++;
        }
        sources->of[p] = i;
        sources->first[i] = fb_smaller(sources->first[i], begin);
        sources->end[i] = fb_larger(sources->end[i], end);
    }
    for (int64_t i = 0, base = 0; i < sources->n; i++) {
        sources->base[i] = base;
        base += sources->end[i] - sources->first[i];
    }
}

static bool open_sources(struct sources *sources, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(int64_t);

    sources->kv = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *sources->kv);
    sources->first = fb_alloc(FB_ACCOUNT_scratch, bytes);
    sources->end = fb_alloc(FB_ACCOUNT_scratch, bytes);
    sources->base = fb_alloc(FB_ACCOUNT_scratch, bytes);
    sources->of = fb_alloc(FB_ACCOUNT_scratch, bytes);
    return sources->kv != NULL && sources->first != NULL && sources->end != NULL &&
           sources->base != NULL && sources->of != NULL;
}

static void close_sources(struct sources *sources)
{
    fb_free(sources->kv);
    fb_free(sources->first);
    fb_free(sources->end);
    fb_free(sources->base);
    fb_free(sources->of);
}

/* Where the keys of part p begin in the rows of all sources. */
static int64_t keys_of(const struct sources *sources, const fb_part *part, int64_t p)
{
    const int64_t i = sources->of[p];

    return sources->base[i] + 2 * part->kv->first[part->slot] - sources->first[i];
}

/* Rows of keys, then of values: [2, n, length]. */
static void fill_places(const struct sources *sources, const fb_part *const *parts,
                        int64_t n, int64_t length, int64_t *out)
{
    for (int64_t p = 0; p < n; p++) {
        const fb_part *part = parts[p];
        const int64_t capacity = fb_kv_capacity(part->kv, part->slot);
        const int64_t keys = keys_of(sources, part, p);

        for (int64_t j = 0; j < length; j++) {
            const int64_t entry = j < part->n ? j : 0;

            out[p * length + j] = keys + entry;
            out[(n + p) * length + j] = keys + capacity + entry;
        }
    }
}

static fb_torch_handle make_places(fb_torch *torch, const struct sources *sources,
                                   const fb_part *const *parts, int64_t n,
                                   int64_t length)
{
    const int64_t size = 2 * n * length;
    int64_t *out = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul((size_t)size, sizeof *out));
    fb_torch_handle table;

    if (out == NULL) {
        if (torch->status == FB_OK)
            torch->status = fb_fail(FB_NO_MEMORY, "no memory to pick entries");
        return NULL;
    }
    fill_places(sources, parts, n, length, out);
    table = fb_torch_upload(torch, torch->lib->aoti_torch_dtype_int64(), 1, &size, out);
    fb_free(out);
    return table;
}

/* They do not depend on which caches these are: slots of the same sizes have the same
 * places in every layer, and all layers of a step share one table. */
static fb_torch_handle places_of(fb_torch *torch, const struct sources *sources,
                                 const fb_part *const *parts, int64_t n, int64_t length)
{
    struct key key = {
        fb_alloc(FB_ACCOUNT_scratch, (size_t)(3 * n + 2) * sizeof(int64_t)), 0};
    struct plan *plan;

    add(&key, TABLE_PLACES);
    add(&key, length);
    for (int64_t p = 0; p < n; p++) {
        add(&key, keys_of(sources, parts[p], p));
        add(&key, fb_kv_capacity(parts[p]->kv, parts[p]->slot));
        add(&key, parts[p]->n);
    }
    plan = look_up(torch, &key);
    if (is_there(plan)) return lend(torch, plan, &key);
    return remember(torch, plan, &key, make_places(torch, sources, parts, n, length));
}

/* The rows of all sources, one behind the other. */
static fb_torch_handle rows_of(fb_torch *torch, const struct sources *sources)
{
    fb_torch_value *items;
    fb_torch_handle all;

    if (sources->n == 1)
        return fb_torch_rows(torch, sources->kv[0], sources->first[0], sources->end[0]);
    items = fb_alloc(FB_ACCOUNT_scratch, (size_t)sources->n * sizeof *items);
    if (items == NULL) {
        torch->status = fb_fail(FB_NO_MEMORY, "no memory to pick entries");
        return NULL;
    }
    for (int64_t i = 0; i < sources->n; i++)
        items[i] = T_(
            fb_torch_rows(torch, sources->kv[i], sources->first[i], sources->end[i]));
    all = OP_("cat", "", fb_torch_list_from(torch, (int)sources->n, items), I_(0));
    fb_free(items);
    return all;
}

fb_torch_padded fb_torch_pick(fb_torch *torch, const fb_part *const *parts, int64_t n,
                              int64_t length)
{
    const int64_t d = parts[0]->kv->head_dim, half = n * length * d;
    const int64_t sizes[] = {n, length, d}, strides[] = {length * d, d, 1};
    fb_torch_padded out = {.length = length};
    struct sources sources;
    fb_torch_handle all;

    if (!open_sources(&sources, n)) {
        close_sources(&sources);
        torch->status = fb_fail(FB_NO_MEMORY, "no memory to pick entries");
        return out;
    }
    find_sources(&sources, parts, n);
    all = OP_("index_select", "", T_(rows_of(torch, &sources)), I_(0),
              T_(places_of(torch, &sources, parts, n, length)));
    close_sources(&sources);
    all = fb_torch_cast(torch, all, torch->lib->aoti_torch_dtype_float32());
    out.keys = fb_torch_view(torch, all, 3, sizes, strides, 0);
    out.values = fb_torch_view(torch, all, 3, sizes, strides, half);
    return out;
}

fb_torch_padded fb_torch_whole(fb_torch *torch, const fb_segment *segments, int64_t n)
{
    const fb_part *first = &segments[0].context;
    const fb_torch_storage *storage = (const void *)first->kv->array.storage;
    const int64_t capacity = fb_kv_capacity(first->kv, first->slot);
    const int64_t d = first->kv->head_dim;
    const int64_t sizes[] = {n, first->n, d}, strides[] = {2 * capacity * d, d, 1};
    const int64_t begin = 2 * first->kv->first[first->slot] * d;
    const int32_t f32 = torch->lib->aoti_torch_dtype_float32();
    fb_torch_padded out = {.length = first->n};

    for (int64_t i = 1; i < n; i++) {
        const fb_part *part = &segments[i].context;

        if (part->kv != first->kv || part->slot != first->slot + i ||
            part->n != first->n || fb_kv_capacity(part->kv, part->slot) != capacity)
            return out;
    }
    out.keys = fb_torch_cast(
        torch, fb_torch_view(torch, storage->tensor, 3, sizes, strides, begin), f32);
    out.values = fb_torch_cast(
        torch,
        fb_torch_view(torch, storage->tensor, 3, sizes, strides, begin + capacity * d),
        f32);
    return out;
}

/* --- masks --- */

/* Entries of a segment that its query i of t sees, counted over context and tail, are
 * those [first, end). */
static void seen_by(const fb_segment *s, int64_t t, int64_t i, int64_t window,
                    int64_t *first, int64_t *end)
{
    *end = s->context.n + s->tail.n - t + i + 1;
    *first = window > 0 ? fb_larger(0, *end - window) : 0;
}

static void fill_unseen(const fb_segment *s, int64_t t, int64_t rows, int64_t window,
                        bool of_tail, int64_t length, uint8_t *out)
{
    const fb_part *part = of_tail ? &s->tail : &s->context;
    const int64_t before = of_tail ? s->context.n : 0;
    int64_t first, end;

    for (int64_t i = 0; i < rows; i++) {
        seen_by(s, t, i, window, &first, &end);
        for (int64_t j = 0; j < length; j++)
            out[i * length + j] = j >= part->n || before + j < first ||
                                  before + j >= end ||
                                  (part->hidden != NULL && part->hidden[j] != 0);
    }
}

static fb_torch_handle make_unseen(fb_torch *torch, const fb_segment *const *segments,
                                   int64_t n, int64_t t, int64_t rows, int64_t window,
                                   bool of_tail, int64_t length)
{
    uint8_t *out = fb_alloc(FB_ACCOUNT_scratch, (size_t)(n * rows * length));
    fb_torch_handle mask;

    if (out == NULL) {
        torch->status = fb_fail(FB_NO_MEMORY, "no memory for a mask");
        return NULL;
    }
    for (int64_t p = 0; p < n; p++)
        fill_unseen(segments[p], t, rows, window, of_tail, length,
                    out + p * rows * length);
    mask = fb_torch_upload(torch, torch->lib->aoti_torch_dtype_bool(), 4,
                           (const int64_t[]){n, 1, rows, length}, out);
    fb_free(out);
    return mask;
}

/* Whether every query sees all of `length` places. */
static bool sees_all(const fb_segment *s, int64_t t, int64_t window, bool of_tail,
                     int64_t length)
{
    const fb_part *part = of_tail ? &s->tail : &s->context;
    const int64_t before = of_tail ? s->context.n : 0;
    int64_t first, end, last_first, last_end;

    seen_by(s, t, 0, window, &first, &end);
    seen_by(s, t, t - 1, window, &last_first, &last_end);
    return part->n == length && part->hidden == NULL && last_first <= before &&
           end >= before + length;
}

/* Queries that may see different entries: in front of a tail, and without a window, each
 * sees all of the context. */
static int64_t rows_apart(const fb_segment *s, int64_t t, int64_t window, bool of_tail)
{
    return of_tail || window > 0 || s->tail.kv == NULL ? t : 1;
}

/* What the mask of a segment depends on. */
static void add_segment(struct key *key, const fb_segment *s, int64_t window,
                        bool of_tail)
{
    const bool has_tail = s->tail.kv != NULL;

    add(key, of_tail && window == 0 ? -1 : s->context.n);
    add(key, has_tail && !of_tail && window == 0 ? -1 : s->tail.n);
}

fb_torch_handle fb_torch_unseen(fb_torch *torch, const fb_segment *const *segments,
                                int64_t n, int64_t t, int64_t window, bool of_tail,
                                int64_t length)
{
    const int64_t rows = rows_apart(segments[0], t, window, of_tail);
    struct key key = {
        fb_alloc(FB_ACCOUNT_scratch, (size_t)(2 * n + 5) * sizeof(int64_t)), 0};
    bool all = true, is_hidden = false;
    struct plan *plan;

    add(&key, TABLE_UNSEEN);
    add(&key, rows);
    add(&key, window);
    add(&key, of_tail);
    add(&key, length);
    for (int64_t p = 0; p < n; p++) {
        const fb_segment *s = segments[p];

        all = all && sees_all(s, t, window, of_tail, length);
        is_hidden = is_hidden || s->context.hidden != NULL || s->tail.hidden != NULL;
        add_segment(&key, s, window, of_tail);
    }
    plan = all || is_hidden ? NULL : look_up(torch, &key);
    if (is_there(plan)) return lend(torch, plan, &key);
    if (!all)
        return remember(
            torch, plan, &key,
            make_unseen(torch, segments, n, t, rows, window, of_tail, length));
    fb_free(key.key);
    return NULL;
}
