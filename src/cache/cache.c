/* cache.c - the arena: one allocation of exactly the bytes of its entries.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cache/cache.h"

#include "base/check.h"

#include <string.h>

struct fb_cache {
    fb_cache_shape shape;
    int64_t tokens;   /* capacity of a slot of a new cache; 0 after an eviction */
    int64_t *entries; /* [layers * kv_heads] */
    fb_split split;
    fb_kv *kv[FB_MAX_PARTS];
};

static int64_t n_slots(const fb_cache_shape *shape)
{
    return shape->layers * shape->kv_heads;
}

/* Where a slot is: which of the allocations, and which slot of it. */
static fb_kv *find(const fb_cache *cache, int64_t slot, int64_t *there)
{
    const int part = fb_split_find(&cache->split, slot / cache->shape.kv_heads);

    *there = slot - cache->split.first[part] * cache->shape.kv_heads;
    return cache->kv[part];
}

static fb_status open_parts(fb_cache *cache, fb_ops *ops, fb_account account,
                            const int64_t *capacity)
{
    const int64_t heads = cache->shape.kv_heads;
    fb_status status = FB_OK;

    for (int i = 0; status == FB_OK && i < cache->split.n; i++) {
        const int64_t first = cache->split.first[i] * heads;

        fb_ops_use_part(ops, i);
        status = fb_kv_new(&cache->kv[i], ops, account, cache->shape.type,
                           cache->shape.head_dim,
                           cache->split.first[i + 1] * heads - first, capacity + first);
    }
    fb_ops_use_part(ops, 0);
    return status;
}

/* Takes the memory of `capacity` [n_slots] entries, at once. */
static fb_status open_arena(fb_cache **out, fb_ops *ops, const fb_cache_shape *shape,
                            fb_account account, const int64_t *capacity)
{
    fb_cache *cache = fb_zalloc(FB_ACCOUNT_other, sizeof *cache);
    fb_status status = FB_OK;

    *out = NULL;
    if (cache == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a cache");
    cache->shape = *shape;
    cache->entries =
        fb_zalloc(FB_ACCOUNT_other, (size_t)n_slots(shape) * sizeof *cache->entries);
    if (cache->entries == NULL) status = fb_fail(FB_NO_MEMORY, "no memory for a cache");
    cache->split = fb_split_of(ops, shape->layers);
    if (status == FB_OK) status = open_parts(cache, ops, account, capacity);
    if (status != FB_OK) {
        fb_cache_free(cache);
        return status;
    }
    *out = cache;
    return FB_OK;
}

static fb_status open_new(fb_cache **out, fb_ops *ops, const fb_cache_shape *shape,
                          fb_account account, int64_t tokens)
{
    const size_t n = (size_t)n_slots(shape);
    int64_t *capacity = fb_alloc(FB_ACCOUNT_other, n * sizeof *capacity);
    fb_status status;

    *out = NULL;
    if (capacity == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a cache");
    for (size_t s = 0; s < n; s++)
        capacity[s] = tokens;
    status = open_arena(out, ops, shape, account, capacity);
    fb_free(capacity);
    if (status == FB_OK) (*out)->tokens = tokens;
    return status;
}

fb_status fb_cache_new(fb_cache **out, fb_ops *ops, const fb_cache_shape *shape,
                       int64_t tokens)
{
    return open_new(out, ops, shape, FB_ACCOUNT_kv, tokens);
}

/* All entries of each slot of `from`, to the same slot. */
static fb_status copy_slots(fb_cache *cache, fb_ops *ops, const fb_cache *from)
{
    const size_t bytes = (size_t)from->tokens * sizeof(int32_t);
    int32_t *index = fb_alloc(FB_ACCOUNT_scratch, bytes);

    if (index == NULL) return fb_fail(FB_NO_MEMORY, "no memory to copy a cache");
    for (int64_t i = 0; i < from->tokens; i++)
        index[i] = (int32_t)i;
    for (int64_t s = 0; s < n_slots(&cache->shape); s++) {
        int64_t to, old;
        fb_kv *kv = find(cache, s, &to);
        const fb_kv *all = find(from, s, &old);

        fb_kv_copy(ops, kv, to, all, old, index, from->entries[s]);
        cache->entries[s] = from->entries[s];
    }
    fb_free(index);
    return fb_ops_status(ops);
}

fb_status fb_cache_copy(fb_cache **out, fb_ops *ops, const fb_cache *from)
{
    fb_cache *cache;
    fb_status status;

    *out = NULL;
    FB_TRY(open_new(&cache, ops, &from->shape, FB_ACCOUNT_other, from->tokens));
    status = copy_slots(cache, ops, from);
    if (status == FB_OK)
        *out = cache;
    else
        fb_cache_free(cache);
    return status;
}

static fb_status check_kept(const fb_cache *full, const fb_kept *kept,
                            int64_t budget_entries)
{
    const int64_t total = fb_kept_total(kept);

    FB_ASSERT(kept->n_slots == n_slots(&full->shape));
    if (total > budget_entries)
        return fb_fail(FB_BUDGET, "%lld entries were selected; the budget holds %lld",
                       (long long)total, (long long)budget_entries);
    for (int64_t s = 0; s < kept->n_slots; s++) {
        if (kept->count[s] < 1)
            return fb_fail(FB_BUDGET, "nothing was kept for kv head %lld of layer %lld",
                           (long long)(s % full->shape.kv_heads),
                           (long long)(s / full->shape.kv_heads));
        for (int64_t i = 0; i < kept->count[s]; i++)
            if (kept->position[s][i] >= full->entries[s] || kept->position[s][i] < 0 ||
                (i > 0 && kept->position[s][i] <= kept->position[s][i - 1]))
                return fb_fail(FB_DEFECT,
                               "a kept set is not a set of ascending positions");
    }
    return FB_OK;
}

fb_status fb_cache_evict(fb_cache **out, fb_ops *ops, const fb_cache *full,
                         const fb_kept *kept, int64_t budget_entries)
{
    fb_cache *cache;

    *out = NULL;
    FB_TRY(check_kept(full, kept, budget_entries));
    FB_TRY(open_arena(&cache, ops, &full->shape, FB_ACCOUNT_kv, kept->count));
    for (int64_t s = 0; s < kept->n_slots; s++) {
        int64_t to, from;
        fb_kv *kv = find(cache, s, &to);
        const fb_kv *old = find(full, s, &from);

        fb_kv_copy(ops, kv, to, old, from, kept->position[s], kept->count[s]);
        cache->entries[s] = kept->count[s];
    }
    if (fb_ops_status(ops) != FB_OK) {
        fb_cache_free(cache);
        return fb_ops_status(ops);
    }
    *out = cache;
    return FB_OK;
}

fb_status fb_cache_hide(uint8_t **out, fb_ops *ops, const fb_cache *full,
                        const fb_kept *kept, int64_t budget_entries)
{
    *out = NULL;
    FB_TRY(check_kept(full, kept, budget_entries));
    *out = fb_alloc(FB_ACCOUNT_scratch, (size_t)(kept->n_slots * full->tokens));
    if (*out == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a mask");
    for (int64_t s = 0; s < kept->n_slots; s++) {
        int64_t slot;
        const fb_kv *kv = find(full, s, &slot);

        fb_kv_hide(ops, kv, slot, kept->position[s], kept->count[s],
                   *out + s * full->tokens);
    }
    if (fb_ops_status(ops) == FB_OK) return FB_OK;
    fb_free(*out);
    *out = NULL;
    return fb_ops_status(ops);
}

void fb_cache_free(fb_cache *cache)
{
    if (cache == NULL) return;
    for (int i = 0; i < cache->split.n; i++)
        fb_kv_free(cache->kv[i]);
    fb_free(cache->entries);
    fb_free(cache);
}

int64_t fb_cache_total(const fb_cache *cache)
{
    int64_t total = 0;

    for (int64_t s = 0; s < n_slots(&cache->shape); s++)
        total += cache->entries[s];
    return total;
}

size_t fb_cache_bytes(const fb_cache *cache)
{
    size_t bytes = 0;

    for (int i = 0; i < cache->split.n; i++)
        bytes += fb_kv_bytes(cache->kv[i]);
    return bytes;
}

fb_status fb_cache_append(fb_cache *cache, fb_ops *ops, int64_t layer, fb_tensor x,
                          int64_t heads)
{
    const int64_t first = layer * cache->shape.kv_heads, t = fb_size(ops, x, 0);
    const int64_t at = cache->entries[first];
    int64_t slot[FB_MAX_KV_HEADS], there;
    fb_kv *kv = find(cache, first, &there);

    FB_TRY(fb_ops_status(ops));
    if (at + t > cache->tokens)
        return fb_fail(FB_BUDGET, "%lld entries do not fit into a cache of %lld tokens",
                       (long long)(cache->entries[first] + t),
                       (long long)cache->tokens);
    for (int64_t g = 0; g < cache->shape.kv_heads; g++)
        slot[g] = there + g;
    fb_kv_write(ops, kv, x, 1, heads, cache->shape.kv_heads, slot, &at);
    FB_TRY(fb_ops_status(ops));
    for (int64_t g = 0; g < cache->shape.kv_heads; g++)
        cache->entries[first + g] += t;
    return FB_OK;
}

static void shrink_slot(fb_cache *cache, fb_ops *ops, int64_t slot,
                        const int32_t *index, int64_t n)
{
    int64_t there;
    fb_kv *kv = find(cache, slot, &there);

    if (n < cache->entries[slot]) fb_kv_copy(ops, kv, there, kv, there, index, n);
    cache->entries[slot] = n;
}

fb_status fb_cache_shrink(fb_cache *cache, fb_ops *ops, const fb_kept *kept)
{
    FB_TRY(check_kept(cache, kept, fb_cache_total(cache)));
    for (int64_t s = 0; s < kept->n_slots; s++)
        shrink_slot(cache, ops, s, kept->position[s], kept->count[s]);
    return fb_ops_status(ops);
}

fb_status fb_cache_keep_last(fb_cache *cache, fb_ops *ops, int64_t n)
{
    const size_t bytes = (size_t)cache->tokens * sizeof(int32_t);
    int32_t *index = fb_alloc(FB_ACCOUNT_scratch, bytes);

    if (index == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a window");
    for (int64_t s = 0; s < n_slots(&cache->shape); s++) {
        const int64_t first = cache->entries[s] - n;

        for (int64_t i = 0; i < n && first > 0; i++)
            index[i] = (int32_t)(first + i);
        if (first > 0) shrink_slot(cache, ops, s, index, n);
    }
    fb_free(index);
    return fb_ops_status(ops);
}

void fb_cache_empty(fb_cache *cache)
{
    for (int64_t s = 0; s < n_slots(&cache->shape); s++)
        cache->entries[s] = 0;
}

fb_status fb_cache_take_last(fb_cache *cache, fb_ops *ops, int64_t layer,
                             const fb_cache *from)
{
    const int64_t n = cache->tokens, first = from->entries[0] - n;
    int32_t *index = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *index);

    if (index == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a window");
    FB_ASSERT(first >= 0 && from->shape.layers == 1);
    for (int64_t i = 0; i < n; i++)
        index[i] = (int32_t)(first + i);
    for (int64_t g = 0; g < cache->shape.kv_heads; g++) {
        const int64_t slot = layer * cache->shape.kv_heads + g;
        int64_t to, old;
        fb_kv *kv = find(cache, slot, &to);

        const fb_kv *all = find(from, g, &old);

        fb_kv_copy(ops, kv, to, all, old, index, n);
        cache->entries[slot] = n;
    }
    fb_free(index);
    return fb_ops_status(ops);
}

void fb_cache_read_slot(const fb_cache *cache, fb_ops *ops, int64_t slot,
                        fb_tensor *keys_out, fb_tensor *values_out)
{
    int64_t there;
    const fb_kv *kv = find(cache, slot, &there);

    *keys_out = fb_kv_read(ops, kv, false, there, 1, cache->entries[slot]);
    *values_out = fb_kv_read(ops, kv, true, there, 1, cache->entries[slot]);
}

void fb_cache_write_slot(fb_cache *cache, fb_ops *ops, int64_t slot, fb_tensor keys,
                         fb_tensor values)
{
    const int64_t shape[] = {cache->entries[slot], 2 * cache->shape.head_dim};
    const fb_tensor both = fb_cat(ops, keys, values, 2); /* [1, entries, 2*d] */
    const int64_t at = 0;
    int64_t there;
    fb_kv *kv = find(cache, slot, &there);

    fb_kv_write(ops, kv, fb_reshape(ops, both, 2, shape), 1, 0, 1, &there, &at);
}

void fb_cache_turn(fb_cache *cache, fb_ops *ops, int64_t slot, fb_tensor cosine,
                   fb_tensor sine)
{
    int64_t there;
    fb_kv *kv = find(cache, slot, &there);

    fb_kv_turn(ops, kv, there, cosine, sine);
}

fb_part fb_cache_part(const fb_cache *cache, int64_t layer, int64_t kv_head)
{
    const int64_t slot = layer * cache->shape.kv_heads + kv_head;
    int64_t there;
    const fb_kv *kv = find(cache, slot, &there);

    return (fb_part){.kv = kv, .slot = there, .n = cache->entries[slot]};
}

static fb_tensor read_layer(const fb_cache *cache, fb_ops *ops, bool values,
                            int64_t layer)
{
    const int64_t first = layer * cache->shape.kv_heads;
    int64_t there;
    const fb_kv *kv = find(cache, first, &there);

    return fb_kv_read(ops, kv, values, there, cache->shape.kv_heads,
                      cache->entries[first]);
}

fb_tensor fb_cache_keys(const fb_cache *cache, fb_ops *ops, int64_t layer)
{
    return read_layer(cache, ops, false, layer);
}

fb_tensor fb_cache_values(const fb_cache *cache, fb_ops *ops, int64_t layer)
{
    return read_layer(cache, ops, true, layer);
}
