/* edit.c - values of what is kept are changed by what is not, head by head.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"

/* The places of a slot's entries that are not kept, ascending. */
static void list_dropped(const int32_t *kept, int64_t k, int64_t n, int32_t *out)
{
    int64_t i = 0;

    for (int32_t j = 0; j < n; j++) {
        if (i < k && kept[i] == j)
            i++;
        else
            *out++ = j;
    }
}

/* Rows `place` [m] of x [1, n, d]: [1, m, d]. */
static fb_tensor pick_rows(fb_ops *ops, fb_tensor x, const int32_t *place, int64_t m)
{
    const int64_t d = fb_size(ops, x, 2), shape[] = {1, d, m};
    int64_t *index = fb_alloc(FB_ACCOUNT_scratch, (size_t)(d * m) * sizeof *index);
    fb_tensor picked;

    if (index == NULL) {
        fb_ops_refuse(ops, fb_fail(FB_NO_MEMORY, "no memory to edit entries"));
        return FB_NONE;
    }
    for (int64_t i = 0; i < d * m; i++)
        index[i] = place[i % m];
    picked = fb_gather(ops, fb_transpose(ops, x, 1, 2),
                       fb_from_host(ops, FB_I64, 3, shape, index));
    fb_free(index);
    return fb_transpose(ops, picked, 1, 2);
}

/* `dropped` [n]: room. */
static void edit_slot(fb_variant *variant, const fb_bound_rule *rule, int64_t slot,
                      int32_t *dropped)
{
    const fb_reading *reading = variant->reading;
    const fb_cache_shape *shape = &reading->engine->shape;
    const fb_kept *kept = &variant->selection.kept;
    const int64_t k = kept->count[slot], n = reading->n;
    fb_ops *ops = reading->engine->ops;
    fb_edit_input in = {.layer = slot / shape->kv_heads,
                        .n_layers = shape->layers,
                        .kv_head = slot % shape->kv_heads,
                        .kv_heads = shape->kv_heads};
    fb_tensor keys, values;

    if (k == n) return;
    list_dropped(kept->position[slot], k, n, dropped);
    fb_cache_read_slot(variant->arena, ops, slot, &in.kept_keys, &in.kept_values);
    fb_cache_read_slot(reading->cache, ops, slot, &keys, &values);
    in.dropped_keys = pick_rows(ops, keys, dropped, n - k);
    in.dropped_values = pick_rows(ops, values, dropped, n - k);
    values = fb_bound_rule_edit(rule, ops, &in);
    fb_cache_write_slot(variant->arena, ops, slot, in.kept_keys, values);
}

fb_status fb_variant_edit(fb_variant *variant, const fb_bound_rule *rule)
{
    const fb_engine *engine = variant->reading->engine;
    const int64_t heads = engine->shape.kv_heads;
    int32_t *dropped =
        fb_alloc(FB_ACCOUNT_scratch, (size_t)variant->reading->n * sizeof *dropped);

    if (dropped == NULL) return fb_fail(FB_NO_MEMORY, "no memory to edit entries");
    for (int64_t l = 0; l < engine->facts->layers; l++) {
        if (engine->facts->layer[l].slides) continue;
        fb_use_layer(engine, l);
        for (int64_t g = 0; g < heads && fb_ops_status(engine->ops) == FB_OK; g++) {
            fb_scope_open(engine->ops);
            edit_slot(variant, rule, engine->facts->layer[l].index * heads + g,
                      dropped);
            fb_scope_close(engine->ops);
        }
    }
    fb_ops_use_part(engine->ops, 0);
    fb_free(dropped);
    return fb_ops_status(engine->ops);
}
