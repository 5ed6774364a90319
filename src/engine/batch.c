/* batch.c - see batch.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/batch.h"

/* fb_attend_rows: the context of each variant, then its tail with the new tokens. */
static fb_tensor attend(void *self, int64_t layer, fb_tensor qkv)
{
    fb_batch *batch = self;
    const fb_engine *engine = batch->reading->engine;
    const fb_model_facts *facts = engine->facts;
    const fb_layer_facts *about = &facts->layer[layer];
    const fb_attend call = {.x = qkv,
                            .segments = batch->segments,
                            .n_sequences = batch->n,
                            .heads = facts->heads,
                            .kv_heads = facts->kv_heads,
                            .head_dim = facts->head_dim,
                            .scale = engine->scale,
                            .window = about->slides ? about->window : 0,
                            .sum = batch->sum};

    fb_tail_write(batch->tail, engine->ops, layer, qkv, facts->heads, batch->n,
                  batch->sequence, batch->at);
    for (int64_t v = 0; v < batch->n; v++)
        for (int64_t g = 0; g < facts->kv_heads; g++)
            batch->segments[v * facts->kv_heads + g] = (fb_segment){
                about->slides
                    ? fb_cache_part(batch->reading->sliding, about->index, g, NULL)
                    : fb_variant_part(batch->variants[v], about->index, g),
                fb_tail_part(batch->tail, batch->sequence[v], layer, g,
                             batch->at[v] + batch->t)};
    return fb_attention(engine->ops, &call);
}

static fb_status run_layer(fb_batch *batch, int64_t layer, fb_tensor x,
                           const fb_angles *angles)
{
    const fb_engine *engine = batch->reading->engine;
    fb_ops *ops = engine->ops;
    const fb_layer_facts *about = &engine->facts->layer[layer];
    const int64_t shape[] = {engine->facts->heads, batch->reading->n};
    fb_status status;

    fb_scope_open(ops);
    batch->sum =
        batch->wants_sum && !about->slides ? fb_full(ops, 2, shape, 0) : FB_NONE;
    fb_layer_forward(engine, layer, x, angles, batch->reading->n, false, attend, batch);
    status = fb_ops_status(ops);
    if (status == FB_OK && batch->after_layer != NULL && !about->slides)
        status = batch->after_layer(batch->self, about->index, batch->sum);
    fb_scope_close(ops);
    return status;
}

/* New tokens go on at the original length of the context, whatever was evicted, or behind
 * the entries that are left and were renumbered. */
static fb_status open_angles(const fb_batch *batch, fb_angles *out)
{
    const int64_t rows = batch->n * batch->t, n = batch->reading->n;
    int64_t *position =
        fb_alloc(FB_ACCOUNT_scratch, 2 * (size_t)rows * sizeof *position);
    fb_status status;

    if (position == NULL) return fb_fail(FB_NO_MEMORY, "no memory for positions");
    for (int64_t r = 0; r < rows; r++) {
        const int64_t v = r / batch->t, token = batch->at[v] + r % batch->t;

        position[r] = batch->variants[v]->next + token;
        position[rows + r] = n + token;
    }
    status =
        fb_angles_of(batch->reading->engine, n, position, position + rows, rows, out);
    fb_free(position);
    return status;
}

fb_status fb_batch_run(fb_batch *batch, fb_tensor *x_out)
{
    const fb_engine *engine = batch->reading->engine;
    const size_t n_segments = (size_t)(batch->n * engine->facts->kv_heads);
    fb_angles angles;
    fb_status status;

    batch->segments =
        fb_alloc(FB_ACCOUNT_scratch, n_segments * sizeof *batch->segments);
    status = batch->segments == NULL ? fb_fail(FB_NO_MEMORY, "no memory for attention")
                                     : open_angles(batch, &angles);
    if (status == FB_OK) *x_out = fb_embed(engine, batch->ids, batch->n * batch->t);
    for (int64_t layer = 0; status == FB_OK && layer < engine->facts->layers; layer++)
        status = run_layer(batch, layer, *x_out, &angles);
    fb_free(batch->segments);
    batch->segments = NULL;
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
