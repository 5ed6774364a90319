/* stream.c - text that is read under the budget.
 *
 * Block by block: when the next one would not fit, the rule evicts first, then the block is
 * read through all layers and its entries stand behind those that were left. So the cache
 * never holds more than k entries a head, and what later tokens see of the text is what
 * the rule has left of it.
 *
 * A block of an answer that nobody knows yet comes in token by token. Room is made for all
 * of it, sums of attention go on from token to token, and the rule's state changes at its
 * end: so a block gives the same bits in one piece and in many.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"

#include "base/check.h"
#include "base/number.h"

enum { ROWS = 0, COLUMNS = 1, ENTRIES = 2 };

int64_t fb_stream_last_queries(const fb_bound_rule *rule)
{
    return fb_larger(fb_bound_rule_window(rule, INT64_MAX),
                     fb_bound_rule_choices(rule)->queries);
}

/* The last n rows of `before` and, behind it, x. */
static fb_tensor last_rows(fb_ops *ops, fb_tensor before, fb_tensor x, int64_t n)
{
    int64_t all;

    if (before.id != 0) x = fb_cat(ops, before, x, ROWS);
    all = fb_size(ops, x, ROWS);
    return all > n ? fb_narrow(ops, x, ROWS, all - n, n) : x;
}

/* What belongs to the rule, in the phase of the pass. */
static fb_place enter(const fb_engine *engine, fb_scope scope)
{
    return fb_enter(engine, fb_ops_place(engine->ops).phase, scope);
}

/* --- a piece of a block --- */

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
                            .sum = about->slides ? FB_NONE : s->sum[about->index],
                            .rows = about->slides ? FB_NONE : s->rows[about->index],
                            .first_row = s->at};

    if (status != FB_OK) {
        fb_ops_refuse(engine->ops, status);
        return FB_NONE;
    }
    s->asked = qkv;
    for (int64_t g = 0; g < facts->kv_heads; g++)
        s->segments[g] = (fb_segment){.context = fb_cache_part(cache, about->index, g)};
    return fb_attention(engine->ops, &call);
}

/* Room for what the kernel shows of a block, whose last entries are still to come. */
static void open_signals(fb_stream *s, int64_t layer)
{
    const fb_engine *engine = s->view.engine;
    const int64_t heads = engine->facts->heads, m = s->view.m + s->block;
    fb_place before;

    if (s->at > 0) return;
    before = enter(engine, FB_SCOPE_signal);
    if (fb_bound_rule_reads_sum(s->view.rule))
        s->sum[layer] =
            fb_new(engine->ops, FB_ACCOUNT_signals, FB_F32, 2, (int64_t[]){heads, m});
    if (fb_bound_rule_reads_block(s->view.rule))
        s->rows[layer] = fb_new(engine->ops, FB_ACCOUNT_signals, FB_F32, 3,
                                (int64_t[]){heads, s->block, m});
    fb_ops_move(engine->ops, before);
}

/* The queries that an event may want to see; and, for a rule that learns from them, all of the
 * block while it is at work, which are no state yet. */
static void keep_queries(fb_stream *s, int64_t layer)
{
    const fb_model_facts *facts = s->view.engine->facts;
    const bool learns = fb_bound_rule_learns(s->view.rule);
    const int64_t last = fb_stream_last_queries(s->view.rule);
    const int64_t most = fb_larger(last, learns ? s->block : 0);
    const fb_account account = most > last ? FB_ACCOUNT_signals : s->keeps;
    fb_ops *ops = s->view.engine->ops;
    fb_tensor q;

    if (most == 0) return;
    q = fb_narrow(ops, s->asked, COLUMNS, 0, facts->heads * facts->head_dim);
    q = last_rows(ops, s->queries[layer], q, most);
    s->queries[layer] = fb_persist_over(ops, account, s->queries[layer], q);
}

/* The rule has seen the block's queries: those that no event wants go. */
static void forget_queries(fb_stream *s, int64_t layer)
{
    const int64_t most = fb_stream_last_queries(s->view.rule);
    const fb_tensor q = s->queries[layer];
    fb_ops *ops = s->view.engine->ops;
    fb_tensor last = FB_NONE;

    if (fb_size(ops, q, ROWS) <= most) return;
    if (most > 0) last = fb_persist(ops, s->keeps, last_rows(ops, FB_NONE, q, most));
    fb_release(ops, q);
    s->queries[layer] = last;
}

/* What the rule knows of the layer, with the block's queries. */
static void learn(fb_stream *s, int64_t layer, int64_t t)
{
    fb_ops *ops = s->view.engine->ops;
    fb_view view = s->view;
    const struct fb_rotary rotary = fb_view_rotary(&view);
    fb_signals signals;

    if (!fb_bound_rule_learns(view.rule)) return;
    view.n += t;
    view.m += t;
    view.seen = (fb_layer_signals){
        .queries = last_rows(ops, FB_NONE, s->queries[layer], s->block)};
    view.state = FB_NONE;
    view.learnt = s->learnt[layer];
    signals = fb_view_layer(&view, layer, &rotary);
    s->learnt[layer] = fb_persist_over(ops, s->keeps, s->learnt[layer],
                                       fb_bound_rule_learn(view.rule, ops, &signals));
    forget_queries(s, layer);
}

/* The state of the block's entries is 0 before the rule has seen them. */
static void update_state(fb_stream *s, int64_t layer, int64_t t)
{
    const int64_t rows = fb_bound_rule_choices(s->view.rule)->state_rows;
    fb_ops *ops = s->view.engine->ops;
    fb_view view = s->view;
    const struct fb_rotary rotary = fb_view_rotary(&view);
    fb_signals signals;
    fb_tensor fresh;

    if (rows == 0) return;
    fresh =
        fb_full(ops, 3, (int64_t[]){view.engine->facts->kv_heads, rows, s->block}, 0);
    view.n += t;
    view.m += t;
    view.seen = (fb_layer_signals){
        .sum = s->sum[layer], .block = s->rows[layer], .queries = s->queries[layer]};
    view.learnt = FB_NONE;
    view.state =
        s->state[layer].id == 0 ? fresh : fb_cat(ops, s->state[layer], fresh, ENTRIES);
    signals = fb_view_layer(&view, layer, &rotary);
    s->state[layer] =
        fb_persist_over(ops, s->keeps, s->state[layer],
                        fb_bound_rule_update(view.rule, ops, &signals, FB_AFTER_BLOCK));
}

/* What the rule wants of the piece, and of the block once it is whole. */
static void show_rule(fb_stream *s, int64_t layer, int64_t t)
{
    const fb_engine *engine = s->view.engine;
    const fb_place before = enter(engine, FB_SCOPE_signal);

    keep_queries(s, layer);
    if (s->at + t == s->block) {
        (void)enter(engine, FB_SCOPE_score);
        update_state(s, layer, t);
        learn(s, layer, t);
        fb_release(engine->ops, s->sum[layer]);
        fb_release(engine->ops, s->rows[layer]);
        s->sum[layer] = s->rows[layer] = FB_NONE;
    }
    fb_ops_move(engine->ops, before);
}

static fb_status run_layer(fb_stream *s, int64_t layer, int64_t t, bool wants_output)
{
    const fb_engine *engine = s->view.engine;
    const fb_layer_facts *about = &engine->facts->layer[layer];
    const bool is_last = layer == engine->facts->layers - 1;
    fb_ops *ops = engine->ops;

    fb_use_layer(engine, layer);
    fb_scope_open(ops);
    if (!about->slides) open_signals(s, about->index);
    fb_layer_forward(engine, layer, s->x, &s->angles, s->view.n,
                     is_last && !wants_output,
                     &(fb_layer_hooks){.attend = attend, .self = s});
    if (!about->slides) show_rule(s, about->index, t);
    fb_scope_close(ops);
    return fb_ops_status(ops);
}

/* New tokens stand where the text is, or behind the entries that are left. */
static fb_status open_angles(fb_stream *s, int64_t t)
{
    const bool compact = s->view.engine->options.compact;
    int64_t *position = fb_alloc(FB_ACCOUNT_scratch, 2 * (size_t)t * sizeof *position);
    fb_status status;

    if (position == NULL) return fb_fail(FB_NO_MEMORY, "no memory for positions");
    for (int64_t i = 0; i < t; i++) {
        position[i] = (compact ? s->view.m : s->view.n) + i;
        position[t + i] = s->view.n + i;
    }
    status = fb_angles_of(s->view.engine, s->view.length, position, position + t, t,
                          &s->angles);
    fb_free(position);
    return status;
}

static void note_positions(fb_stream *s, int64_t t)
{
    const fb_cache_shape *shape = &s->view.engine->shape;

    for (int64_t slot = 0; slot < shape->layers * shape->kv_heads; slot++)
        for (int64_t i = 0; i < t; i++)
            s->position[slot][s->view.m + i] = (int32_t)(s->view.n + i);
}

fb_status fb_stream_piece(fb_stream *s, const int32_t *ids, int64_t t,
                          bool wants_output)
{
    const fb_engine *engine = s->view.engine;
    fb_status status;

    FB_ASSERT(s->at + t <= s->block);
    note_positions(s, t);
    fb_ops_use_part(engine->ops, 0);
    status = open_angles(s, t);
    if (status == FB_OK) s->x = fb_embed(engine, ids, t);
    for (int64_t layer = 0; status == FB_OK && layer < engine->facts->layers; layer++)
        status = run_layer(s, layer, t, wants_output);
    FB_TRY(status);
    s->view.m += t;
    s->view.n += t;
    s->at += t;
    s->highest = fb_larger(s->highest, s->view.m);
    return FB_OK;
}

/* --- a block --- */

void fb_stream_open_block(fb_stream *s, int64_t t)
{
    FB_ASSERT(s->at == s->block);
    s->block = t;
    s->at = 0;
}

fb_status fb_stream_make_room(fb_stream *s, int64_t t)
{
    FB_ASSERT(s->at == s->block);
    if (s->sliding != NULL)
        FB_TRY(fb_cache_keep_last(s->sliding, s->view.engine->ops,
                                  s->view.engine->facts->window));
    if (s->view.m + t <= s->k) return FB_OK;
    if (t < s->k) return fb_stream_evict(s, s->k - t);
    return fb_fail(FB_BUDGET,
                   "%lld tokens at a time do not fit a budget of %lld entries a head; "
                   "take smaller chunks, or a smaller interval of an answer",
                   (long long)t, (long long)s->k);
}

fb_status fb_stream_begin(fb_stream *s, int64_t t)
{
    FB_TRY(fb_stream_make_room(s, t));
    fb_stream_open_block(s, t);
    return FB_OK;
}

fb_status fb_stream_read(fb_stream *s, const int32_t *ids, int64_t n)
{
    fb_ops *ops = s->view.engine->ops;
    fb_status status = FB_OK;

    for (int64_t i = 0; status == FB_OK && i < n; i += s->chunk) {
        const int64_t t = fb_smaller(s->chunk, n - i);

        FB_TRY(fb_stream_begin(s, t));
        fb_scope_open(ops);
        status = fb_stream_piece(s, ids + i, t, false);
        fb_scope_close(ops);
    }
    return status;
}
