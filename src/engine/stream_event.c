/* stream_event.c - an eviction while text comes in.
 *
 * The rule sees what a deployment would: the entries that are left, attention of the last
 * queries to these, and the state that they carry.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"

#include "base/number.h"

#include <string.h>

enum { ROWS = 0, COLUMNS = 1, ENTRIES = 2 };

/* --- signals --- */

/* Attention of the last queries to all that is left [H, w, m]. The softmax is that of the
 * one kernel; what it makes of the values is not needed. */
static fb_tensor window_rows(fb_stream *s, int64_t layer)
{
    const fb_engine *engine = s->view.engine;
    const fb_model_facts *facts = engine->facts;
    const int64_t w = fb_bound_rule_window(s->view.rule, s->view.n);
    const fb_place before = fb_enter(engine, FB_PHASE_evict, FB_SCOPE_signal);
    fb_ops *ops = engine->ops;
    const fb_tensor q = s->queries[layer];
    const fb_tensor none =
        fb_full(ops, 2, (int64_t[]){w, 2 * facts->kv_heads * facts->head_dim}, 0);
    const fb_tensor last = fb_narrow(ops, q, ROWS, fb_size(ops, q, ROWS) - w, w);
    const fb_attend call = {
        .x = fb_cat(ops, last, none, COLUMNS),
        .segments = s->segments,
        .n_sequences = 1,
        .heads = facts->heads,
        .kv_heads = facts->kv_heads,
        .head_dim = facts->head_dim,
        .scale = engine->scale,
        .rows = fb_full(ops, 3, (int64_t[]){facts->heads, w, s->view.m}, 0)};

    for (int64_t g = 0; g < facts->kv_heads; g++)
        s->segments[g] = (fb_segment){.context = fb_cache_part(s->cache, layer, g)};
    (void)fb_attention(ops, &call);
    fb_ops_move(ops, before);
    return call.rows;
}

/* The state of a rule that changes it now. */
static void update_state(fb_stream *s, int64_t layer, fb_signals *signals)
{
    fb_ops *ops = s->view.engine->ops;

    if (!fb_bound_rule_updates_at_events(s->view.rule)) return;
    s->state[layer] = signals->state =
        fb_persist_over(ops, s->keeps, s->state[layer],
                        fb_bound_rule_update(s->view.rule, ops, signals, FB_AT_EVENT));
}

static fb_status score_layer(fb_stream *s, int64_t layer)
{
    fb_ops *ops = s->view.engine->ops;
    const struct fb_rotary rotary = fb_view_rotary(&s->view);
    fb_signals signals;

    fb_ops_use_part(ops, fb_part_of_layer(ops, layer, s->view.engine->shape.layers));
    fb_scope_open(ops);
    s->view.seen = (fb_layer_signals){.queries = s->queries[layer]};
    s->view.state = s->state[layer];
    s->view.learnt = s->learnt[layer];
    if (fb_bound_rule_window(s->view.rule, s->view.n) > 0)
        s->view.seen.rows = window_rows(s, layer);
    signals = fb_view_layer(&s->view, layer, &rotary);
    update_state(s, layer, &signals);
    s->scores[layer] =
        fb_persist(ops, FB_ACCOUNT_signals,
                   fb_stream_join_scores(
                       s, layer, fb_bound_rule_score(s->view.rule, ops, &signals)));
    fb_scope_close(ops);
    return fb_ops_status(ops);
}

/* --- what stays --- */

/* The state of the entries that stay. */
static fb_status move_state(fb_stream *s, int64_t layer, const fb_kept *kept)
{
    const int64_t heads = s->view.engine->facts->kv_heads;
    const int64_t rows = fb_bound_rule_choices(s->view.rule)->state_rows;
    const int64_t m = kept->count[0], shape[] = {heads, rows, m};
    fb_ops *ops = s->view.engine->ops;
    int64_t *index;
    fb_tensor moved;

    if (rows == 0) return FB_OK;
    index = fb_alloc(FB_ACCOUNT_scratch, (size_t)(heads * rows * m) * sizeof *index);
    if (index == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a rule's state");
    for (int64_t i = 0; i < heads * rows * m; i++)
        index[i] = kept->position[layer * heads + i / (rows * m)][i % m];
    fb_scope_open(ops);
    moved = fb_gather(ops, s->state[layer], fb_from_host(ops, FB_I64, 3, shape, index));
    s->state[layer] = fb_persist_over(ops, s->keeps, s->state[layer], moved);
    fb_scope_close(ops);
    fb_free(index);
    return fb_ops_status(ops);
}

static fb_status move_layer(fb_stream *s, int64_t layer, const fb_kept *kept)
{
    FB_TRY(move_state(s, layer, kept));
    return fb_stream_keep_scores(s, layer, kept);
}

static void move_positions(fb_stream *s, const fb_kept *kept)
{
    for (int64_t slot = 0; slot < kept->n_slots; slot++)
        for (int64_t j = 0; j < kept->count[slot]; j++)
            s->position[slot][j] = s->position[slot][kept->position[slot][j]];
}

/* Entries are numbered by where they stand. Those that stay turn to their new places; the
 * queries that are held, of the newest tokens, move with these. */
static fb_status renumber(fb_stream *s, const fb_kept *kept)
{
    const fb_engine *engine = s->view.engine;
    const int64_t m = kept->count[0];
    int64_t *by = fb_alloc(FB_ACCOUNT_scratch, (size_t)m * sizeof *by);
    fb_status status = FB_OK;

    if (by == NULL) return fb_fail(FB_NO_MEMORY, "no memory for positions");
    for (int64_t slot = 0; status == FB_OK && slot < kept->n_slots; slot++) {
        for (int64_t j = 0; j < m; j++)
            by[j] = j - kept->position[slot][j];
        status = fb_turn_keys(engine, s->cache, slot, s->k, by, m);
    }
    fb_free(by);
    for (int64_t l = 0; status == FB_OK && l < engine->shape.layers; l++) {
        const fb_tensor before = s->queries[l];

        if (before.id == 0) continue;
        fb_scope_open(engine->ops);
        s->queries[l] =
            fb_persist_over(engine->ops, s->keeps, before,
                            fb_turn_queries(engine, before, s->k, m - s->view.m));
        fb_scope_close(engine->ops);
        status = fb_ops_status(engine->ops);
    }
    return status;
}

/* All heads keep as many: those of one layer are read together. */
static fb_status check_even(const fb_kept *kept)
{
    for (int64_t slot = 1; slot < kept->n_slots; slot++)
        if (kept->count[slot] != kept->count[0])
            return fb_fail(FB_UNSUPPORTED,
                           "heads that keep different numbers of entries cannot stream "
                           "yet");
    return FB_OK;
}

static fb_status move(fb_stream *s, const fb_selection *selection)
{
    FB_TRY(check_even(&selection->kept));
    FB_TRY(fb_cache_shrink(s->cache, s->view.engine->ops, &selection->kept));
    for (int64_t layer = 0; layer < s->view.engine->shape.layers; layer++)
        FB_TRY(move_layer(s, layer, &selection->kept));
    if (s->view.engine->options.compact) FB_TRY(renumber(s, &selection->kept));
    move_positions(s, &selection->kept);
    s->view.m = selection->kept.count[0];
    s->events++;
    s->n_protected = selection->n_protected;
    s->free_choices = selection->free_choices;
    s->fallback |= selection->fallback;
    s->shrunk |= selection->shrunk;
    return FB_OK;
}

static fb_status evict(fb_stream *s, int64_t most)
{
    const fb_engine *engine = s->view.engine;
    const fb_selector in = {.rule = s->view.rule,
                            .protect = s->protect,
                            .layers = engine->shape.layers,
                            .kv_heads = engine->shape.kv_heads,
                            .n = s->view.m,
                            .seed = s->view.seed,
                            .stream = s->view.stream,
                            .position = s->view.position,
                            .scores = s->scores};
    fb_selection selection;
    fb_status status = FB_OK;

    for (int64_t l = 0; status == FB_OK && l < engine->shape.layers; l++)
        if (!fb_select_falls_back(s->view.rule, s->view.m)) status = score_layer(s, l);
    FB_TRY(status);
    (void)fb_enter(engine, FB_PHASE_evict, FB_SCOPE_select);
    FB_TRY(fb_select(&selection, engine->ops, &in, most));
    status = move(s, &selection);
    fb_selection_clear(&selection);
    return status;
}

fb_status fb_stream_evict(fb_stream *stream, int64_t most)
{
    const fb_place before =
        fb_enter(stream->view.engine, FB_PHASE_evict, FB_SCOPE_score);
    const fb_status status = evict(stream, most);

    fb_ops_move(stream->view.engine->ops, before);
    return status;
}
