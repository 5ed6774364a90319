/* see.c - what a rule is shown of a layer, and the score that it makes of it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/reading.h"

/* struct fb_rotary: of the layers that are evicted from. */
static fb_status rotary_tables(const void *self, fb_ops *ops, const int64_t *position,
                               int64_t n, fb_tensor *cosine, fb_tensor *sine)
{
    const fb_reading *reading = self;
    const fb_model_facts *facts = reading->engine->facts;
    fb_rope rope = facts->rope[FB_ROPE_GLOBAL];

    rope.size = 1;
    return fb_rope_tables(ops, &rope, facts->rotary_dim / 2, reading->n, position, n,
                          cosine, sine);
}

/* [heads, t, d] of the last queries that this rule reads, of [n, heads*d]. */
static fb_tensor see_queries(const fb_reading *reading, const fb_scored_rule *rule,
                             fb_tensor queries)
{
    const fb_model_facts *facts = reading->engine->facts;
    const int64_t t = fb_bound_rule_queries(rule->rule, reading->n);
    fb_ops *ops = reading->engine->ops;

    queries = fb_narrow(ops, queries, 0, reading->n - t, t);
    queries = fb_reshape(ops, queries, 3, (int64_t[]){t, facts->heads, facts->head_dim});
    return fb_transpose(ops, queries, 0, 1);
}

/* The output projection of a layer of those that do not slide: [heads, width, d]. */
static fb_tensor see_output(const fb_reading *reading, int64_t index)
{
    const fb_model_facts *facts = reading->engine->facts;
    fb_ops *ops = reading->engine->ops;
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
    weight = fb_embedding(ops, fb_model_layer(reading->engine->model, layer)->output,
                          rows, facts->width);
    fb_free(rows);
    weight = fb_reshape(ops, weight, 3,
                        (int64_t[]){facts->width, facts->heads, facts->head_dim});
    return fb_transpose(ops, weight, 0, 1);
}

/* What the rule asked for, and nothing else. */
static fb_signals see(const fb_reading *reading, const fb_scored_rule *rule,
                      int64_t layer, const fb_layer_signals *seen,
                      const struct fb_rotary *rotary)
{
    const uint32_t reads = fb_bound_rule_choices(rule->rule)->reads;
    const fb_model_facts *facts = reading->engine->facts;
    fb_ops *ops = reading->engine->ops;
    fb_signals s = {.layer = layer,
                    .n_layers = facts->global_layers,
                    .heads = facts->heads,
                    .kv_heads = facts->kv_heads,
                    .head_dim = facts->head_dim,
                    .n = reading->n,
                    .m = reading->n,
                    .scale = reading->engine->scale};

    if (reads & FB_READS_KEYS) s.keys = fb_cache_keys(reading->cache, ops, layer);
    if (reads & FB_READS_VALUES) s.values = fb_cache_values(reading->cache, ops, layer);
    if (reads & FB_READS_WINDOW_ATTENTION) s.window_attention = seen->rows;
    if (reads & FB_READS_ATTENTION_SUM) s.attention_sum = seen->sum;
    if (reads & FB_READS_POSITION) s.position = fb_signal_position(ops, reading->n);
    if (reads & FB_READS_RANDOM)
        s.random = fb_signal_random(ops, rule->seed, reading->stream, layer,
                                    facts->kv_heads, reading->n);
    if (reads & FB_READS_FUTURE) s.future_attention = seen->future;
    if (reads & FB_READS_QUERIES) s.queries = see_queries(reading, rule, seen->queries);
    if (reads & FB_READS_OUTPUT_WEIGHT) s.output_weight = see_output(reading, layer);
    if (reads & FB_READS_ROTATION) s.rotary = rotary;
    return s;
}

fb_status fb_reading_score_layer(fb_reading *reading, fb_scored_rule *rule,
                                 int64_t layer, const fb_layer_signals *seen)
{
    fb_ops *ops = reading->engine->ops;
    const struct fb_rotary rotary = {reading, rotary_tables};
    const fb_place before = fb_enter(reading->engine, FB_PHASE_evict, FB_SCOPE_score);
    fb_signals signals;
    fb_tensor score, measured;

    fb_scope_open(ops);
    signals = see(reading, rule, layer, seen, &rotary);
    score = fb_bound_rule_score(rule->rule, ops, &signals);
    measured = fb_bound_rule_measure(rule->rule, ops, &signals, score);
    fb_release(ops, rule->scores[layer]);
    fb_release(ops, rule->measured[layer]);
    rule->scores[layer] = fb_persist(ops, FB_ACCOUNT_signals, score);
    rule->measured[layer] =
        measured.id == 0 ? FB_NONE : fb_persist(ops, FB_ACCOUNT_signals, measured);
    fb_scope_close(ops);
    fb_ops_move(ops, before);
    return fb_ops_status(ops);
}
