/* stream.c - a context that is read under the budget.
 *
 * Chunk by chunk: when the next one would not fit, the rule evicts first, then the chunk is
 * read through all layers and its entries stand behind those that were left. So the cache
 * never holds more than k entries a head, and what later tokens see of the text is what
 * the rule has left of it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"

#include "base/number.h"
#include "engine/variant.h"

enum { ROWS = 0, COLUMNS = 1, ENTRIES = 2 };

/* Queries of the last tokens that the rule wants to see at an event; 0: none. */
static int64_t last_queries(const fb_bound_rule *rule)
{
    return fb_larger(fb_bound_rule_window(rule, INT64_MAX),
                     fb_bound_rule_queries(rule, INT64_MAX));
}

/* The last n rows of `before` and, behind it, x. */
static fb_tensor last_rows(fb_ops *ops, fb_tensor before, fb_tensor x, int64_t n)
{
    int64_t all;

    if (before.id != 0) x = fb_cat(ops, before, x, ROWS);
    all = fb_size(ops, x, ROWS);
    return all > n ? fb_narrow(ops, x, ROWS, all - n, n) : x;
}

/* --- a chunk --- */

static fb_tensor attend(void *self, int64_t layer, fb_tensor qkv)
{
    fb_stream *s = self;
    const fb_engine *engine = s->view.engine;
    const fb_model_facts *facts = engine->facts;
    const fb_layer_facts *about = &facts->layer[layer];
    fb_cache *cache = about->slides ? s->sliding : s->cache;
    const fb_status status =
        fb_cache_append(cache, engine->ops, about->index, qkv, facts->heads);
    const fb_attend call = {.x = qkv,
                            .segments = s->segments,
                            .n_sequences = 1,
                            .heads = facts->heads,
                            .kv_heads = facts->kv_heads,
                            .head_dim = facts->head_dim,
                            .scale = engine->scale,
                            .window = about->slides ? about->window : 0,
                            .sum = s->sum};

    if (status != FB_OK) {
        fb_ops_refuse(engine->ops, status);
        return FB_NONE;
    }
    s->asked = qkv;
    for (int64_t g = 0; g < facts->kv_heads; g++)
        s->segments[g] = (fb_segment){.context = fb_cache_part(cache, about->index, g)};
    return fb_attention(engine->ops, &call);
}

/* The queries that an event may want to see. */
static void keep_queries(fb_stream *s, int64_t layer)
{
    const fb_model_facts *facts = s->view.engine->facts;
    const int64_t most = last_queries(s->view.rule);
    fb_ops *ops = s->view.engine->ops;
    fb_tensor q;

    if (most == 0) return;
    q = fb_narrow(ops, s->asked, COLUMNS, 0, facts->heads * facts->head_dim);
    q = fb_persist(ops, FB_ACCOUNT_signals, last_rows(ops, s->queries[layer], q, most));
    fb_release(ops, s->queries[layer]);
    s->queries[layer] = q;
}

/* The state of `t` new entries is 0 before the rule has seen them. */
static void update_state(fb_stream *s, int64_t layer, int64_t t)
{
    const int64_t rows = fb_bound_rule_choices(s->view.rule)->state_rows;
    fb_ops *ops = s->view.engine->ops;
    fb_view view = s->view;
    const struct fb_rotary rotary = fb_view_rotary(&view);
    fb_signals signals;
    fb_tensor fresh, state;

    if (rows == 0) return;
    fresh = fb_full(ops, 3, (int64_t[]){view.engine->facts->kv_heads, rows, t}, 0);
    view.n += t;
    view.m += t;
    view.seen = (fb_layer_signals){.sum = s->sum, .queries = s->queries[layer]};
    view.state =
        s->state[layer].id == 0 ? fresh : fb_cat(ops, s->state[layer], fresh, ENTRIES);
    signals = fb_view_layer(&view, layer, &rotary);
    state = fb_persist(ops, FB_ACCOUNT_signals,
                       fb_bound_rule_update(view.rule, ops, &signals));
    fb_release(ops, s->state[layer]);
    s->state[layer] = state;
}

static fb_status run_layer(fb_stream *s, int64_t layer, int64_t t)
{
    const fb_engine *engine = s->view.engine;
    const fb_layer_facts *about = &engine->facts->layer[layer];
    const bool is_last = layer == engine->facts->layers - 1;
    const int64_t shape[] = {engine->facts->heads, s->view.m + t};
    fb_ops *ops = engine->ops;
    fb_place before;

    fb_use_layer(engine, layer);
    fb_scope_open(ops);
    before = fb_enter(engine, FB_PHASE_context, FB_SCOPE_signal);
    s->sum = fb_bound_rule_reads_sum(s->view.rule) && !about->slides
                 ? fb_full(ops, 2, shape, 0)
                 : FB_NONE;
    fb_ops_move(ops, before);
    fb_layer_forward(engine, layer, s->x, &s->angles, s->view.n, is_last, attend, s);
    if (!about->slides) {
        before = fb_enter(engine, FB_PHASE_context, FB_SCOPE_signal);
        keep_queries(s, about->index);
        (void)fb_enter(engine, FB_PHASE_context, FB_SCOPE_score);
        update_state(s, about->index, t);
        fb_ops_move(ops, before);
    }
    fb_scope_close(ops);
    return fb_ops_status(ops);
}

static fb_status open_angles(fb_stream *s, int64_t t)
{
    int64_t *position = fb_alloc(FB_ACCOUNT_scratch, (size_t)t * sizeof *position);
    fb_status status;

    if (position == NULL) return fb_fail(FB_NO_MEMORY, "no memory for positions");
    for (int64_t i = 0; i < t; i++)
        position[i] = s->view.n + i;
    status = fb_angles_of(s->view.engine, s->length, position, position, t, &s->angles);
    fb_free(position);
    return status;
}

static fb_status make_room(fb_stream *s, int64_t t)
{
    if (s->sliding != NULL)
        FB_TRY(fb_cache_keep_last(s->sliding, s->view.engine->ops,
                                  s->view.engine->facts->window));
    return s->view.m + t > s->k ? fb_stream_evict(s, s->k - t) : FB_OK;
}

static fb_status read_chunk(fb_stream *s, const int32_t *ids, int64_t t)
{
    const fb_engine *engine = s->view.engine;
    fb_status status;

    FB_TRY(make_room(s, t));
    fb_scope_open(engine->ops);
    status = open_angles(s, t);
    if (status == FB_OK) s->x = fb_embed(engine, ids, t);
    for (int64_t layer = 0; status == FB_OK && layer < engine->facts->layers; layer++)
        status = run_layer(s, layer, t);
    fb_scope_close(engine->ops);
    FB_TRY(status);
    for (int64_t slot = 0; slot < engine->shape.layers * engine->shape.kv_heads; slot++)
        for (int64_t i = 0; i < t; i++)
            s->position[slot][s->view.m + i] = (int32_t)(s->view.n + i);
    s->view.m += t;
    s->view.n += t;
    return FB_OK;
}

static fb_status read_all(fb_stream *s, const int32_t *ids)
{
    fb_status status = FB_OK;

    for (int64_t i = 0; status == FB_OK && i < s->length; i += s->chunk)
        status = read_chunk(s, ids + i, fb_smaller(s->chunk, s->length - i));
    return status;
}

/* --- opening and closing --- */

static fb_tensor *new_tensors(int64_t n)
{
    return fb_zalloc(FB_ACCOUNT_other, (size_t)n * sizeof(fb_tensor));
}

static fb_status open_lists(fb_stream *s)
{
    const fb_cache_shape *shape = &s->view.engine->shape;
    const int64_t slots = shape->layers * shape->kv_heads;
    bool has_all;

    s->queries = new_tensors(shape->layers);
    s->state = new_tensors(shape->layers);
    s->scores = new_tensors(shape->layers);
    s->segments =
        fb_alloc(FB_ACCOUNT_scratch, (size_t)shape->kv_heads * sizeof *s->segments);
    s->position = fb_zalloc(FB_ACCOUNT_other, (size_t)slots * sizeof *s->position);
    has_all = s->queries != NULL && s->state != NULL && s->scores != NULL &&
              s->segments != NULL && s->position != NULL;
    for (int64_t i = 0; has_all && i < slots; i++) {
        s->position[i] = fb_alloc(FB_ACCOUNT_other, (size_t)s->k * sizeof(int32_t));
        has_all = s->position[i] != NULL;
    }
    return has_all ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for a stream");
}

static fb_status open_stream(fb_stream *s)
{
    const fb_engine *engine = s->view.engine;

    FB_TRY(open_lists(s));
    FB_TRY(fb_cache_new(&s->cache, engine->ops, &engine->shape, s->k));
    s->view.cache = s->cache;
    s->view.position = s->position;
    if (engine->sliding.layers == 0) return FB_OK;
    return fb_cache_new(&s->sliding, engine->ops, &engine->sliding,
                        engine->facts->window + s->chunk);
}

static void close_stream(fb_stream *s)
{
    const fb_cache_shape *shape = &s->view.engine->shape;
    fb_tensor *const lists[] = {s->queries, s->state, s->scores};

    for (int i = 0; i < 3; i++) {
        for (int64_t l = 0; lists[i] != NULL && l < shape->layers; l++)
            fb_release(s->view.engine->ops, lists[i][l]);
        fb_free(lists[i]);
    }
    for (int64_t i = 0; s->position != NULL && i < shape->layers * shape->kv_heads; i++)
        fb_free(s->position[i]);
    fb_free(s->position);
    fb_free(s->segments);
    fb_cache_free(s->cache);
    fb_cache_free(s->sliding);
}

/* --- a variant --- */

static fb_status check_stream(const fb_stream *s)
{
    const fb_bound_rule *rule = s->view.rule;

    if (!fb_bound_rule_streams(rule))
        return fb_fail(FB_UNSUPPORTED, "rule '%s' cannot evict while a text comes in",
                       fb_bound_rule_text(rule));
    if (fb_bound_rule_choices(rule)->keeps_all && s->k < s->length)
        return fb_fail(FB_BUDGET,
                       "'%s' keeps all %lld entries; the budget has %lld a head",
                       fb_bound_rule_text(rule), (long long)s->length, (long long)s->k);
    if (s->view.engine->options.compact)
        return fb_fail(FB_UNSUPPORTED,
                       "positions cannot be renumbered while a text comes in yet");
    if (s->k > s->chunk || s->k >= s->length) return FB_OK;
    return fb_fail(FB_BUDGET,
                   "chunks of %lld tokens do not fit a budget of %lld entries a head; "
                   "take smaller ones",
                   (long long)s->chunk, (long long)s->k);
}

/* Of a layer of k entries a head: what they carry, and the last queries. */
static int64_t state_bytes(const fb_model_facts *facts, const fb_bound_rule *rule,
                           int64_t k)
{
    const int64_t carried =
        facts->kv_heads * k * fb_bound_rule_choices(rule)->state_rows;
    const int64_t queries = last_queries(rule) * facts->heads * facts->head_dim;

    return (carried + queries) * (int64_t)sizeof(float);
}

/* What was left in the end becomes the variant's own. */
static fb_status hand_over(fb_stream *s, fb_variant *variant)
{
    const fb_engine *engine = s->view.engine;
    fb_selection *out = &variant->selection;
    const int64_t slots = engine->shape.layers * engine->shape.kv_heads;

    FB_TRY(fb_kept_new(&out->kept, slots));
    for (int64_t i = 0; i < slots; i++) {
        out->kept.position[i] = s->position[i];
        out->kept.count[i] = s->view.m;
        s->position[i] = NULL;
    }
    out->k = s->k;
    out->budget_entries = slots * s->k;
    out->n_protected = s->n_protected;
    out->free_choices = s->free_choices;
    out->fallback = s->fallback;
    out->shrunk = s->shrunk;
    if (s->sliding != NULL)
        FB_TRY(fb_cache_keep_last(s->sliding, engine->ops, engine->facts->window));
    variant->state_bytes =
        (size_t)(engine->shape.layers * state_bytes(engine->facts, s->view.rule, s->k));
    variant->arena = s->cache;
    variant->sliding = s->sliding;
    s->cache = s->sliding = NULL;
    return FB_OK;
}

static fb_status run(fb_stream *s, const int32_t *ids, fb_variant *variant)
{
    fb_ops *ops = s->view.engine->ops;
    fb_ledger *ledger = &variant->ledger;
    const fb_place before = fb_enter(s->view.engine, FB_PHASE_context, FB_SCOPE_model);
    fb_status status;

    fb_ops_use_part(ops, 0);
    fb_ops_charge(ops, &ledger, 1);
    fb_trace_begin(ops, 1);
    status = read_all(s, ids);
    fb_trace_end(ops, variant->trace);
    fb_ops_charge(ops, NULL, 0);
    fb_ops_move(ops, before);
    return status == FB_OK ? hand_over(s, variant) : status;
}

fb_status fb_stream_in(fb_variant **out, fb_reading *reading,
                       const fb_seeded_rule *rule, const int32_t *ids,
                       const fb_protect *protect, int64_t k, int64_t chunk)
{
    fb_stream s = {.view = {.engine = reading->engine,
                            .rule = rule->rule,
                            .seed = rule->seed,
                            .stream = reading->stream},
                   .protect = *protect,
                   .k = fb_smaller(k, reading->n),
                   .chunk = chunk,
                   .length = reading->n};
    fb_status status;

    *out = NULL;
    FB_TRY(check_stream(&s));
    FB_TRY(fb_variant_new(out, reading));
    (*out)->read_itself = true;
    status = open_stream(&s);
    if (status == FB_OK) status = run(&s, ids, *out);
    close_stream(&s);
    if (status == FB_OK) return FB_OK;
    fb_variant_free(*out);
    *out = NULL;
    return status;
}

int64_t fb_stream_entries(const fb_model_facts *facts, fb_dtype cache,
                          const fb_bound_rule *rule, int64_t k)
{
    const fb_cache_shape shape = {facts->global_layers, facts->kv_heads,
                                  facts->head_dim, cache};
    const int64_t entry = (int64_t)fb_entry_bytes(&shape);
    const int64_t fixed = state_bytes(facts, rule, 0);
    const int64_t carried = state_bytes(facts, rule, 1) - fixed;

    return (facts->kv_heads * k * entry - fixed) / (facts->kv_heads * entry + carried);
}
