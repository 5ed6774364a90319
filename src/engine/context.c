/* context.c - see context.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/context.h"

#include "base/number.h"

static const double SMALLEST_NORM = 1e-30; /* nothing there: 0, not 0/0 */

/* The block's queries to their rows. */
static void keep_queries(const fb_context_pass *pass, fb_tensor qkv)
{
    const fb_place before = fb_enter(pass->engine, FB_PHASE_context, FB_SCOPE_signal);
    const fb_model_facts *facts = pass->engine->facts;
    fb_ops *ops = pass->engine->ops;
    const fb_tensor rows =
        fb_narrow(ops, pass->seen.queries, 0, pass->start, fb_size(ops, qkv, 0));

    fb_add_(ops, rows, fb_narrow(ops, qkv, 1, 0, facts->heads * facts->head_dim));
    fb_ops_move(ops, before);
}

/* Zeroed memory for all rows of a block. */
static void open_block(fb_context_pass *pass, int64_t t)
{
    const fb_place before = fb_enter(pass->engine, FB_PHASE_context, FB_SCOPE_signal);
    const int64_t shape[] = {pass->engine->facts->heads, t, pass->start + t};

    pass->seen.block = fb_full(pass->engine->ops, 3, shape, 0);
    fb_ops_move(pass->engine->ops, before);
}

/* Shows the block to the rules that follow it. */
static void show_block(fb_context_pass *pass, int64_t layer)
{
    const fb_status status = pass->after_block(
        pass->self, pass->engine->facts->layer[layer].index, pass->seen.block);

    if (status != FB_OK) fb_ops_refuse(pass->engine->ops, status);
}

/* fb_attend_rows of a context: the queries' own tokens are the newest of the cache. */
static fb_tensor attend(void *self, int64_t layer, fb_tensor qkv)
{
    fb_context_pass *pass = self;
    const fb_engine *engine = pass->engine;
    const fb_model_facts *facts = engine->facts;
    const bool slides = facts->layer[layer].slides;
    fb_cache *cache = slides ? pass->whole : pass->cache;
    const int64_t index = slides ? 0 : facts->layer[layer].index;
    const bool shows = pass->after_block != NULL && !slides;
    const fb_status status =
        fb_cache_append(cache, engine->ops, index, qkv, facts->heads);
    fb_attend call = {.x = qkv,
                      .segments = pass->segments,
                      .n_sequences = 1,
                      .heads = facts->heads,
                      .kv_heads = facts->kv_heads,
                      .head_dim = facts->head_dim,
                      .scale = engine->scale,
                      .window = fb_window_of(engine, layer, pass->n),
                      .sum = pass->seen.sum,
                      .rows = pass->seen.rows,
                      .first_row = pass->start - (pass->n - pass->window)};
    fb_tensor attended;

    if (status != FB_OK) {
        fb_ops_refuse(engine->ops, status);
        return FB_NONE;
    }
    if (shows) {
        open_block(pass, fb_size(engine->ops, qkv, 0));
        call.rows = pass->seen.block;
        call.first_row = 0;
    }
    if (pass->seen.queries.id != 0) keep_queries(pass, qkv);
    for (int64_t g = 0; g < facts->kv_heads; g++)
        pass->segments[g] = (fb_segment){.context = fb_cache_part(cache, index, g)};
    attended = fb_attention(engine->ops, &call);
    if (shows) show_block(pass, layer);
    return attended;
}

/* Of the rows of a and b [R, width] each: [R]. */
static fb_tensor cosine(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    const fb_tensor of_a = fb_sqrt(ops, fb_sum(ops, fb_mul(ops, a, a), 1));
    const fb_tensor of_b = fb_sqrt(ops, fb_sum(ops, fb_mul(ops, b, b), 1));
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_NORM);

    return fb_div(ops, fb_sum(ops, fb_mul(ops, a, b), 1),
                  fb_maximum(ops, fb_mul(ops, of_a, of_b), least));
}

/* fb_see_rows: the cosines of the block behind those before. */
static void see_residual(void *self, fb_tensor x, fb_tensor normed, fb_tensor added)
{
    fb_context_pass *pass = self;
    const fb_place before = fb_enter(pass->engine, FB_PHASE_context, FB_SCOPE_signal);
    fb_ops *ops = pass->engine->ops;
    const fb_tensor rows = cosine(ops, x, fb_add(ops, x, added, 1));

    (void)normed;
    pass->seen.residual =
        pass->seen.residual.id == 0 ? rows : fb_cat(ops, pass->seen.residual, rows, 0);
    fb_ops_move(ops, before);
}

static void run_block(fb_context_pass *pass, int64_t layer, int64_t n_rows)
{
    const fb_engine *engine = pass->engine;
    fb_ops *ops = engine->ops;
    const bool is_last = layer == engine->facts->layers - 1;
    const fb_layer_facts *about = &engine->facts->layer[layer];
    const fb_layer_hooks hooks = {
        .attend = attend,
        .see = pass->wants_residual && !about->slides ? see_residual : NULL,
        .self = pass};
    const int rope = about->rope;
    fb_angles angles = {.cosine = {FB_NONE}};

    fb_scope_open(ops);
    angles.cosine[rope] =
        fb_narrow(ops, pass->angles.cosine[rope], 0, pass->start, n_rows);
    angles.sine[rope] = fb_narrow(ops, pass->angles.sine[rope], 0, pass->start, n_rows);
    fb_layer_forward(engine, layer, fb_narrow(ops, pass->x, 0, pass->start, n_rows),
                     &angles, pass->start, is_last && !pass->wants_output, &hooks);
    if (hooks.see != NULL)
        pass->seen.residual = fb_scope_return(ops, pass->seen.residual);
    else
        fb_scope_close(ops);
}

/* Zeroed memory for the layer's signals, in the layer's scope. It belongs to the rules:
 * which ones are read must not show in the trace of the kernel. */
static void open_signals(fb_context_pass *pass, bool slides)
{
    const fb_place before = fb_enter(pass->engine, FB_PHASE_context, FB_SCOPE_signal);
    const int64_t heads = pass->engine->facts->heads, n = pass->n;
    const int64_t width = heads * pass->engine->facts->head_dim;
    fb_ops *ops = pass->engine->ops;

    pass->seen = (fb_layer_signals){.sum = FB_NONE};
    if (pass->wants_sum && !slides)
        pass->seen.sum = fb_full(ops, 2, (int64_t[]){heads, n}, 0);
    if (pass->window > 0 && !slides && pass->after_block == NULL)
        pass->seen.rows = fb_full(ops, 3, (int64_t[]){heads, pass->window, n}, 0);
    if (pass->wants_queries && !slides)
        pass->seen.queries = fb_full(ops, 2, (int64_t[]){n, width}, 0);
    fb_ops_move(ops, before);
}

/* What a layer leaves behind: its signals to the rules, or its window. */
static fb_status finish_layer(fb_context_pass *pass, int64_t layer)
{
    const fb_layer_facts *about = &pass->engine->facts->layer[layer];

    if (about->slides)
        return pass->sliding == NULL
                   ? FB_OK
                   : fb_cache_take_last(pass->sliding, pass->engine->ops, about->index,
                                        pass->whole);
    if (pass->after_layer == NULL) return FB_OK;
    return pass->after_layer(pass->self, about->index, &pass->seen);
}

static fb_status run_layer(fb_context_pass *pass, int64_t layer)
{
    const int64_t chunk = pass->engine->options.chunk;
    const bool slides = pass->engine->facts->layer[layer].slides;
    fb_ops *ops = pass->engine->ops;
    fb_status status;

    fb_use_layer(pass->engine, layer);
    fb_scope_open(ops);
    open_signals(pass, slides);
    if (slides) fb_cache_empty(pass->whole);
    for (pass->start = 0; pass->start < pass->n; pass->start += chunk)
        run_block(pass, layer, fb_smaller(chunk, pass->n - pass->start));
    status = fb_ops_status(ops);
    if (status == FB_OK) status = finish_layer(pass, layer);
    fb_scope_close(ops);
    return status;
}

/* Rotary tables of the whole context, made once. */
static fb_status open_angles(fb_context_pass *pass)
{
    const int64_t length = pass->length > 0 ? pass->length : pass->n;
    int64_t *position =
        fb_alloc(FB_ACCOUNT_scratch, (size_t)pass->n * sizeof *position);
    fb_status status;

    if (position == NULL) return fb_fail(FB_NO_MEMORY, "no memory for positions");
    for (int64_t i = 0; i < pass->n; i++)
        position[i] = i;
    status =
        fb_angles_of(pass->engine, length, position, position, pass->n, &pass->angles);
    fb_free(position);
    return status;
}

fb_status fb_context_run(fb_context_pass *pass)
{
    const fb_engine *engine = pass->engine;
    const fb_place before = fb_enter(engine, FB_PHASE_context, FB_SCOPE_model);
    const size_t kv_heads = (size_t)engine->facts->kv_heads;
    fb_status status;

    fb_ops_use_part(engine->ops, 0);
    pass->segments = fb_alloc(FB_ACCOUNT_scratch, kv_heads * sizeof *pass->segments);
    pass->whole = NULL;
    status = pass->segments == NULL ? fb_fail(FB_NO_MEMORY, "no memory for attention")
                                    : open_angles(pass);
    if (status == FB_OK && engine->sliding.layers > 0)
        status = fb_cache_new(&pass->whole, engine->ops,
                              &(fb_cache_shape){1, engine->all.kv_heads,
                                                engine->all.head_dim, engine->all.type},
                              pass->n);
    if (status == FB_OK) pass->x = fb_embed(engine, pass->ids, pass->n);
    for (int64_t layer = 0; status == FB_OK && layer < engine->facts->layers; layer++)
        status = run_layer(pass, layer);
    fb_free(pass->segments);
    fb_cache_free(pass->whole);
    fb_ops_move(engine->ops, before);
    return status;
}
