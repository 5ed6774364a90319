/* engine.c - opening, and plain passes over a whole sequence.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/engine.h"

#include "engine/context.h"
#include "engine/decoder.h"

#include <string.h>

enum { ROWS_AT_ONCE = 32 };

fb_status fb_engine_open(fb_engine **out, fb_ops *ops, const fb_model *model,
                         const fb_engine_options *options)
{
    fb_engine *engine = fb_zalloc(FB_ACCOUNT_other, sizeof *engine);

    *out = NULL;
    if (engine == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an engine");
    engine->ops = ops;
    engine->model = model;
    engine->facts = fb_model_get_facts(model);
    if (options != NULL) engine->options = *options;
    engine->all = (fb_cache_shape){engine->facts->layers, engine->facts->kv_heads,
                                   engine->facts->head_dim, engine->options.cache};
    engine->shape = engine->sliding = engine->all;
    engine->shape.layers = engine->facts->global_layers;
    engine->sliding.layers = engine->facts->sliding_layers;
    if (engine->options.chunk < 1) engine->options.chunk = FB_CONTEXT_BLOCK;
    engine->scale = engine->options.scale;
    if (engine->scale == 0) engine->scale = engine->facts->attention_scale;
    *out = engine;
    return FB_OK;
}

void fb_engine_close(fb_engine *engine)
{
    fb_free(engine);
}

/* Logits of rows [row, row + n) of x [.., width]: final norm, then the head. */
static fb_status row_logits(const fb_engine *engine, fb_tensor x, int64_t row,
                            int64_t n, float *out)
{
    const size_t bytes = (size_t)(n * engine->facts->vocabulary) * sizeof *out;
    fb_ops *ops = engine->ops;
    fb_tensor h;
    fb_status status;

    fb_scope_open(ops);
    h = fb_narrow(ops, x, 0, row, n);
    h = fb_rms_norm(ops, h, fb_model_norm(engine->model), engine->facts->rms_eps);
    if (engine->options.watch != NULL && fb_ops_status(ops) == FB_OK)
        engine->options.watch(engine->options.watch_self, ops, "final_norm",
                              engine->facts->layers, row, h);
    h = fb_linear(ops, h, fb_model_head(engine->model)); /* [n, vocabulary] */
    status = fb_to_host(ops, h, out, bytes);
    fb_scope_close(ops);
    return status;
}

/* How many of the rows follow each other, up to a few: they share one product. */
static int64_t run_length(const int64_t *row, int64_t n)
{
    int64_t length = 1;

    while (length < n && length < ROWS_AT_ONCE && row[length] == row[0] + length)
        length++;
    return length;
}

fb_status fb_logits(fb_engine *engine, const int32_t *ids, int64_t n,
                    const int64_t *row, int64_t n_rows, float *out)
{
    fb_cache *cache = NULL;
    fb_context_pass pass = {.engine = engine, .ids = ids, .n = n, .wants_output = true};
    fb_status status = fb_cache_new(&cache, engine->ops, &engine->shape, n);

    fb_scope_open(engine->ops);
    if (status == FB_OK) {
        pass.cache = cache;
        status = fb_context_run(&pass);
    }
    for (int64_t i = 0, length; status == FB_OK && i < n_rows; i += length) {
        length = run_length(row + i, n_rows - i);
        status = row_logits(engine, pass.x, row[i], length,
                            out + i * engine->facts->vocabulary);
    }
    fb_scope_close(engine->ops);
    fb_cache_free(cache);
    return status;
}
