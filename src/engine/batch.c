/* batch.c - see batch.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/batch.h"

fb_status fb_batch_room_new(fb_batch_room *out, const fb_engine *engine, int64_t n,
                            int64_t tokens)
{
    const size_t n_segments = fb_size_mul((size_t)n, (size_t)engine->facts->kv_heads);

    *out = (fb_batch_room){
        .segments = fb_alloc(FB_ACCOUNT_scratch,
                             fb_size_mul(n_segments, sizeof *out->segments)),
        .position = fb_alloc(FB_ACCOUNT_scratch,
                             fb_size_mul((size_t)tokens, 2 * sizeof *out->position))};
    if (out->segments != NULL && out->position != NULL) return FB_OK;
    return fb_fail(FB_NO_MEMORY, "no memory for attention");
}

void fb_batch_room_free(fb_batch_room *room)
{
    fb_free(room->segments);
    fb_free(room->position);
    *room = (fb_batch_room){0};
}

/* Attention of the same queries to the entries that are shown, for its rows alone. */
static void attend_shown(const fb_batch *batch, const fb_attend *attend, int64_t index)
{
    const fb_place before =
        fb_enter(batch->reading->engine, FB_PHASE_context, FB_SCOPE_signal);
    fb_ops *ops = batch->reading->engine->ops;
    fb_attend call = *attend;

    call.sum = FB_NONE;
    call.rows = batch->rows;
    for (int64_t g = 0; g < attend->kv_heads; g++)
        batch->room->segments[g].context = fb_cache_part(batch->shown, index, g);
    fb_scope_open(ops);
    (void)fb_attention(ops, &call);
    fb_scope_close(ops);
    fb_ops_move(ops, before);
}

/* fb_attend_rows: the context of each variant, then its tail with the new tokens. */
static fb_tensor attend(void *self, int64_t layer, fb_tensor qkv)
{
    fb_batch *batch = self;
    const fb_engine *engine = batch->reading->engine;
    const fb_model_facts *facts = engine->facts;
    const fb_layer_facts *about = &facts->layer[layer];
    const bool shows_itself = batch->shown == batch->reading->cache;
    const fb_attend call = {.x = qkv,
                            .segments = batch->room->segments,
                            .n_sequences = batch->n,
                            .heads = facts->heads,
                            .kv_heads = facts->kv_heads,
                            .head_dim = facts->head_dim,
                            .scale = engine->scale,
                            .window = about->slides ? about->window : 0,
                            .sum = batch->sum,
                            .rows = shows_itself ? batch->rows : FB_NONE};
    fb_tensor out;

    fb_tail_write(batch->tail, engine->ops, layer, qkv, facts->heads, batch->n,
                  batch->sequence, batch->at);
    for (int64_t v = 0; v < batch->n; v++)
        for (int64_t g = 0; g < facts->kv_heads; g++)
            batch->room->segments[v * facts->kv_heads + g] = (fb_segment){
                about->slides ? fb_variant_window(batch->variants[v], about->index, g)
                              : fb_variant_part(batch->variants[v], about->index, g),
                fb_tail_part(batch->tail, batch->sequence[v], layer, g,
                             batch->at[v] + batch->t)};
    out = fb_attention(engine->ops, &call);
    if (batch->rows.id != 0 && !shows_itself) attend_shown(batch, &call, about->index);
    return out;
}

/* fb_see_rows */
static void keep_normed(void *self, fb_tensor x, fb_tensor normed, fb_tensor added)
{
    fb_batch *batch = self;

    (void)x;
    (void)added;
    batch->normed = normed;
}

/* Zeroed memory for the layer's signals. */
static void open_signals(fb_batch *batch, bool slides)
{
    const int64_t heads = batch->reading->engine->facts->heads;
    const int64_t sum[] = {heads, batch->reading->n};
    fb_ops *ops = batch->reading->engine->ops;

    batch->sum = batch->rows = batch->normed = FB_NONE;
    if (batch->wants_sum && !slides) batch->sum = fb_full(ops, 2, sum, 0);
    if (batch->shown != NULL && !slides) {
        const int64_t n = fb_cache_part(batch->shown, 0, 0).n;

        batch->rows = fb_full(ops, 3, (int64_t[]){heads, batch->t, n}, 0);
    }
}

static fb_status run_layer(fb_batch *batch, int64_t layer, fb_tensor x,
                           const fb_angles *angles)
{
    const fb_engine *engine = batch->reading->engine;
    fb_ops *ops = engine->ops;
    const fb_layer_facts *about = &engine->facts->layer[layer];
    const fb_layer_hooks hooks = {.attend = attend,
                                  .see = batch->shown != NULL ? keep_normed : NULL,
                                  .self = batch};
    fb_status status;

    fb_use_layer(engine, layer);
    fb_scope_open(ops);
    open_signals(batch, about->slides);
    fb_layer_forward(engine, layer, x, angles, batch->reading->n, false, &hooks);
    status = fb_ops_status(ops);
    if (status == FB_OK && batch->after_layer != NULL && !about->slides)
        status = batch->after_layer(batch->self, about->index, batch);
    fb_scope_close(ops);
    return status;
}

/* New tokens go on at the original length of the context, whatever was evicted, or behind
 * the entries that are left and were renumbered, or were read alone. */
static fb_status open_angles(const fb_batch *batch, fb_angles *out)
{
    const int64_t rows = batch->n * batch->t;
    int64_t *position = batch->room->position, *in_windows = position + rows;

    for (int64_t r = 0; r < rows; r++) {
        const int64_t v = r / batch->t, token = batch->at[v] + r % batch->t;

        position[r] = batch->variants[v]->next + token;
        in_windows[r] = batch->variants[v]->next_in_windows + token;
    }
    return fb_angles_of(batch->reading->engine, batch->reading->n, position, in_windows,
                        rows, out);
}

fb_status fb_batch_run(fb_batch *batch, fb_tensor *x_out)
{
    const fb_engine *engine = batch->reading->engine;
    fb_angles angles;
    fb_status status;

    fb_ops_use_part(engine->ops, 0);
    status = open_angles(batch, &angles);
    if (status == FB_OK) *x_out = fb_embed(engine, batch->ids, batch->n * batch->t);
    for (int64_t layer = 0; status == FB_OK && layer < engine->facts->layers; layer++)
        status = run_layer(batch, layer, *x_out, &angles);
    return status;
}

fb_tensor fb_batch_hidden(const fb_batch *batch, fb_tensor x, int64_t first,
                          int64_t rows)
{
    const fb_engine *engine = batch->reading->engine;
    const int64_t width = engine->facts->width;
    fb_ops *ops = engine->ops;
    fb_tensor h = fb_reshape(ops, x, 3, (int64_t[]){batch->n, batch->t, width});

    h = fb_narrow(ops, h, 1, first, rows);
    h = fb_reshape(ops, h, 2, (int64_t[]){batch->n * rows, width});
    h = fb_rms_norm(ops, h, fb_model_norm(engine->model), engine->facts->rms_eps);
    return fb_reshape(ops, h, 3, (int64_t[]){batch->n, rows, width});
}
