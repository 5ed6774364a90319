/* see.c - see see.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/see.h"

#include "base/number.h"

/* struct fb_rotary: of the layers that are evicted from. */
static fb_status rotary_tables(const void *self, fb_ops *ops, const int64_t *position,
                               int64_t n, fb_tensor *cosine, fb_tensor *sine)
{
    const fb_view *view = self;
    const fb_model_facts *facts = view->engine->facts;
    fb_rope rope = facts->rope[FB_ROPE_GLOBAL];

    rope.size = 1;
    return fb_rope_tables(ops, &rope, facts->rotary_dim / 2, view->length, position, n,
                          cosine, sine);
}

struct fb_rotary fb_view_rotary(const fb_view *view)
{
    return (struct fb_rotary){view, rotary_tables};
}

/* [heads, t, d] of the last queries that this rule reads, of [.., heads*d]. */
static fb_tensor see_queries(const fb_view *view)
{
    const fb_model_facts *facts = view->engine->facts;
    fb_ops *ops = view->engine->ops;
    const int64_t all = fb_size(ops, view->seen.queries, 0); /* or of a block */
    const int64_t t = fb_smaller(fb_bound_rule_queries(view->rule, view->n), all);
    const fb_tensor last = fb_narrow(ops, view->seen.queries, 0, all - t, t);

    return fb_transpose(
        ops, fb_reshape(ops, last, 3, (int64_t[]){t, facts->heads, facts->head_dim}), 0,
        1);
}

/* The output projection of a layer of those that do not slide: [heads, width, d]. */
static fb_tensor see_output(const fb_engine *engine, int64_t index)
{
    const fb_model_facts *facts = engine->facts;
    fb_ops *ops = engine->ops;
    int32_t *rows = fb_alloc(FB_ACCOUNT_scratch, (size_t)facts->width * sizeof *rows);
    int64_t layer = 0;
    fb_tensor weight;

    if (rows == NULL) {
        fb_ops_refuse(ops, fb_fail(FB_NO_MEMORY, "no memory for a weight"));
        return FB_NONE;
    }
    while (facts->layer[layer].slides || facts->layer[layer].index != index)
        layer++;
    for (int32_t i = 0; i < facts->width; i++)
        rows[i] = i;
    weight = fb_embedding(ops, fb_model_layer(engine->model, layer)->output, rows,
                          facts->width);
    fb_free(rows);
    weight = fb_reshape(ops, weight, 3,
                        (int64_t[]){facts->width, facts->heads, facts->head_dim});
    return fb_transpose(ops, weight, 0, 1);
}

/* The rows of a block, in `update`; nothing at an event. */
static void see_block(const fb_view *view, int64_t layer, fb_signals *s)
{
    const uint32_t reads = fb_bound_rule_choices(view->rule)->reads;
    fb_ops *ops = view->engine->ops;

    s->block_attention = view->seen.block;
    if (view->seen.block.id == 0) return;
    if (reads & FB_READS_RANDOM)
        s->block_random = fb_signal_block_random(
            ops, (fb_chance){view->seed, view->stream, FB_DRAWER_QUERY}, layer,
            s->heads, s->kv_heads, fb_size(ops, view->seen.block, 1), view->m,
            view->position == NULL ? NULL : view->position + layer * s->kv_heads);
    if (reads & FB_READS_ATTENTION_SUM && view->seen.sum.id == 0)
        s->attention_sum = fb_sum(ops, view->seen.block, 1);
}

fb_signals fb_view_layer(const fb_view *view, int64_t layer,
                         const struct fb_rotary *rotary)
{
    const uint32_t reads = fb_bound_rule_choices(view->rule)->reads;
    const fb_model_facts *facts = view->engine->facts;
    const int64_t heads = facts->kv_heads;
    int32_t *const *position =
        view->position == NULL ? NULL : view->position + layer * heads;
    fb_ops *ops = view->engine->ops;
    fb_signals s = {.layer = layer,
                    .n_layers = facts->global_layers,
                    .heads = facts->heads,
                    .kv_heads = heads,
                    .head_dim = facts->head_dim,
                    .n = view->n,
                    .m = view->m,
                    .next = view->engine->options.compact ? view->m : view->n,
                    .state = view->state,
                    .layer_state = view->learnt,
                    .scale = view->engine->scale};

    if (reads & FB_READS_KEYS) s.keys = fb_cache_keys(view->cache, ops, layer);
    if (reads & FB_READS_VALUES) s.values = fb_cache_values(view->cache, ops, layer);
    if (reads & FB_READS_WINDOW_ATTENTION) s.window_attention = view->seen.rows;
    if (reads & FB_READS_ATTENTION_SUM) s.attention_sum = view->seen.sum;
    if (reads & FB_READS_POSITION)
        s.position = fb_signal_position(ops, heads, view->m, position);
    if (reads & FB_READS_RANDOM)
        s.random =
            fb_signal_random(ops, (fb_chance){view->seed, view->stream, FB_DRAWER_RULE},
                             layer, heads, view->m, position);
    if (reads & FB_READS_ATTENTION_BLOCK) see_block(view, layer, &s);
    if (reads & FB_READS_FUTURE) s.future_attention = view->seen.future;
    if (reads & FB_READS_DOCUMENT_FUTURE)
        s.document_future = view->seen.document_future;
    if (reads & FB_READS_QUERIES && view->seen.queries.id != 0) /* not in `update` */
        s.queries = see_queries(view);
    if (reads & FB_READS_OUTPUT_WEIGHT)
        s.output_weight = see_output(view->engine, layer);
    if (reads & FB_READS_ROTATION) s.rotary = rotary;
    if (reads & FB_READS_RESIDUAL) s.residual = view->seen.residual;
    if (reads & FB_READS_REPLAY) s.replay_attention = view->seen.replay;
    return s;
}
