/* tail.c - keys and values of questions and answers.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "cache/cache.h"

struct fb_tail {
    fb_cache_shape shape;
    int64_t n_sequences;
    int64_t *slot; /* [n_sequences * kv_heads], scratch of a write */
    fb_split split;
    /* of each part; slot = (sequence * layers + layer) * kv_heads + kv head, where layers
     * are those of the part */
    fb_kv *kv[FB_MAX_PARTS];
};

static int64_t layers_of(const fb_split *split, int part)
{
    return split->first[part + 1] - split->first[part];
}

static fb_status open_parts(fb_tail *tail, fb_ops *ops, const int64_t *capacity)
{
    const fb_cache_shape *shape = &tail->shape;
    fb_status status = FB_OK;

    for (int i = 0; status == FB_OK && i < tail->split.n; i++) {
        fb_ops_use_part(ops, i);
        status = fb_kv_new(
            &tail->kv[i], ops, FB_ACCOUNT_kv, shape->type, shape->head_dim,
            tail->n_sequences * layers_of(&tail->split, i) * shape->kv_heads, capacity);
    }
    fb_ops_use_part(ops, 0);
    return status;
}

fb_status fb_tail_new(fb_tail **out, fb_ops *ops, const fb_cache_shape *shape,
                      int64_t n_sequences, int64_t tokens)
{
    const size_t heads = (size_t)(n_sequences * shape->kv_heads);
    const size_t n_slots = heads * (size_t)shape->layers;
    int64_t *capacity = fb_alloc(FB_ACCOUNT_other, n_slots * sizeof *capacity);
    fb_tail *tail = fb_zalloc(FB_ACCOUNT_other, sizeof *tail);
    fb_status status = FB_OK;

    *out = NULL;
    if (tail != NULL) {
        tail->shape = *shape;
        tail->n_sequences = n_sequences;
        tail->slot = fb_alloc(FB_ACCOUNT_other, heads * sizeof *tail->slot);
    }
    if (capacity == NULL || tail == NULL || tail->slot == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for question and answer");
    for (size_t s = 0; status == FB_OK && s < n_slots; s++)
        capacity[s] = tokens;
    if (status == FB_OK) {
        tail->split = fb_split_of(ops, shape->layers);
        status = open_parts(tail, ops, capacity);
    }
    fb_free(capacity);
    if (status == FB_OK)
        *out = tail;
    else
        fb_tail_free(tail);
    return status;
}

void fb_tail_free(fb_tail *tail)
{
    if (tail == NULL) return;
    for (int i = 0; i < tail->split.n; i++)
        fb_kv_free(tail->kv[i]);
    fb_free(tail->slot);
    fb_free(tail);
}

size_t fb_tail_bytes(const fb_cache_shape *shape, int64_t tokens)
{
    return (size_t)(shape->layers * shape->kv_heads * tokens) * fb_entry_bytes(shape);
}

static fb_kv *find(const fb_tail *tail, int64_t sequence, int64_t layer,
                   int64_t kv_head, int64_t *slot)
{
    const int part = fb_split_find(&tail->split, layer);

    *slot =
        (sequence * layers_of(&tail->split, part) + layer - tail->split.first[part]) *
            tail->shape.kv_heads +
        kv_head;
    return tail->kv[part];
}

void fb_tail_write(fb_tail *tail, fb_ops *ops, int64_t layer, fb_tensor x,
                   int64_t heads, int64_t n, const int64_t *sequence, const int64_t *at)
{
    const int64_t kv_heads = tail->shape.kv_heads;
    fb_kv *kv = NULL;

    FB_ASSERT(n <= tail->n_sequences);
    for (int64_t v = 0; v < n; v++)
        for (int64_t g = 0; g < kv_heads; g++)
            kv = find(tail, sequence[v], layer, g, &tail->slot[v * kv_heads + g]);
    fb_kv_write(ops, kv, x, n, heads, kv_heads, tail->slot, at);
}

fb_part fb_tail_part(const fb_tail *tail, int64_t sequence, int64_t layer,
                     int64_t kv_head, int64_t n)
{
    int64_t slot;
    const fb_kv *kv = find(tail, sequence, layer, kv_head, &slot);

    return (fb_part){.kv = kv, .slot = slot, .n = n};
}
