/* reread.c - a context cut to the budget: its last tokens are read as if they were all.
 *
 * Entries of these tokens have seen nothing of what stood before, as those of an eviction
 * have, and stand at positions 0, 1, ...
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/context.h"
#include "engine/variant.h"

#include "base/number.h"

static fb_status open_caches(fb_variant *variant, int64_t k)
{
    const fb_engine *engine = variant->reading->engine;

    FB_TRY(fb_cache_new(&variant->arena, engine->ops, &engine->shape, k));
    if (engine->sliding.layers == 0) return FB_OK;
    return fb_cache_new(&variant->sliding, engine->ops, &engine->sliding,
                        fb_smaller(k, engine->facts->window));
}

/* The last k tokens, in every slot. */
static fb_status note_kept(fb_variant *variant, int64_t k)
{
    const fb_cache_shape *shape = &variant->reading->engine->shape;
    fb_selection *selection = &variant->selection;
    const int64_t first = variant->reading->n - k,
                  slots = shape->layers * shape->kv_heads;

    FB_TRY(fb_kept_new(&selection->kept, slots));
    for (int64_t slot = 0; slot < slots; slot++) {
        int32_t *position = fb_alloc(FB_ACCOUNT_other, (size_t)k * sizeof *position);

        if (position == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
        for (int64_t i = 0; i < k; i++)
            position[i] = (int32_t)(first + i);
        selection->kept.position[slot] = position;
        selection->kept.count[slot] = k;
    }
    selection->k = k;
    selection->budget_entries = selection->free_choices = slots * k;
    return FB_OK;
}

static fb_status read_last(fb_variant *variant, const int32_t *ids, int64_t k)
{
    const fb_reading *reading = variant->reading;
    fb_ops *ops = reading->engine->ops;
    fb_ledger *ledger = &variant->ledger;
    fb_context_pass pass = {.engine = reading->engine,
                            .ids = ids + (reading->n - k),
                            .n = k,
                            .length = reading->n, /* as the question's rotation */
                            .cache = variant->arena,
                            .sliding = variant->sliding};
    fb_status status;

    fb_ops_charge(ops, &ledger, 1);
    fb_scope_open(ops);
    status = fb_context_run(&pass);
    fb_scope_close(ops);
    fb_ops_charge(ops, NULL, 0);
    return status;
}

fb_status fb_reread(fb_variant **out, fb_reading *reading, const int32_t *ids,
                    int64_t k)
{
    fb_status status;

    k = fb_smaller(k, reading->n);
    FB_TRY(fb_variant_new(out, reading));
    (*out)->read_itself = true;
    (*out)->next = (*out)->next_in_windows = k;
    status = open_caches(*out, k);
    if (status == FB_OK) status = note_kept(*out, k);
    if (status == FB_OK) status = read_last(*out, ids, k);
    if (status == FB_OK) return FB_OK;
    fb_variant_free(*out);
    *out = NULL;
    return status;
}
