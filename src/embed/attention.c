/* attention.c - what the engine's context pass shows a rule, of queries and keys alone.
 *
 * Keys go into a cache of one layer, and the one attention kernel reduces its rows in
 * passing, in the same blocks, which a rule that follows them is shown. Of its result nothing is wanted but the signals, so keys
 * stand in for the values: those may be of another width.
 *
 * SPDX-License-Identifier: MIT
 */
#include "embed/event.h"

#include "base/number.h"

enum { ROWS = 256 }; /* of a block of queries */

/* Tokens [start, start + t) of a tensor [heads, n, d], token by token: [t, heads, d]. */
static fb_outside tokens_of(const fb_outside *tensor, int64_t start, int64_t t)
{
    const size_t skip = (size_t)(start * tensor->stride[1]);

    return (fb_outside){
        .data = (const char *)tensor->data +
                skip * (tensor->dtype == FB_F32 ? sizeof(float) : sizeof(uint16_t)),
        .dtype = tensor->dtype,
        .device = tensor->device,
        .shape = {t, tensor->shape[0], tensor->shape[2]},
        .stride = {tensor->stride[1], tensor->stride[0], tensor->stride[2]}};
}

/* q | k | v of some tokens, or k | v where no query is wanted: [t, ...]. */
static fb_tensor side_by_side(fb_event *event, const fb_outside *queries,
                              const fb_outside *keys, int64_t start, int64_t t)
{
    fb_outside parts[3];
    int n = 0;
    fb_tensor x;

    if (queries != NULL)
        parts[n++] = tokens_of(queries, start - (event->n - queries->shape[1]), t);
    parts[n++] = tokens_of(keys, start, t);
    parts[n++] = tokens_of(keys, start, t);
    x = fb_borrow(event->ops, parts, n);
    return fb_reshape(event->ops, x, 2,
                      (int64_t[]){t, fb_size(event->ops, x, 1) * event->head_dim});
}

/* The state of a rule that carries on from block to block, after one with these rows. */
static void follow(fb_event *event, fb_tensor rows, fb_signals *see)
{
    fb_ops *ops = event->ops;
    const uint32_t reads = fb_bound_rule_choices(event->rule)->reads;
    const int64_t t = fb_size(ops, rows, 1), m = fb_size(ops, rows, 2);
    const int64_t fresh[] = {event->kv_heads,
                             fb_bound_rule_choices(event->rule)->state_rows, t};
    fb_signals block = *see;
    fb_tensor state;

    block.n = block.m = m;
    block.block_attention = rows;
    if (reads & FB_READS_POSITION)
        block.position = fb_signal_position(ops, event->kv_heads, m, NULL);
    if (reads & FB_READS_RANDOM)
        block.block_random = fb_signal_block_random(
            ops, (fb_chance){event->seed, 0, FB_DRAWER_QUERY}, see->layer, event->heads,
            event->kv_heads, t, m, NULL);
    if (reads & FB_READS_ATTENTION_SUM) block.attention_sum = fb_sum(ops, rows, 1);
    block.state = fb_full(ops, 3, fresh, 0);
    if (see->state.id != 0) block.state = fb_cat(ops, see->state, block.state, 2);
    state = fb_persist(ops, FB_ACCOUNT_signals,
                       fb_bound_rule_update(event->rule, ops, &block, FB_AFTER_BLOCK));
    fb_release(ops, see->state);
    see->state = state;
    see->window_attention =
        fb_signal_window(ops, see->window_attention, rows, event->n,
                         fb_bound_rule_window(event->rule, event->n));
}

static void attend(fb_event *event, const fb_cache *cache, fb_tensor x, double scale,
                   int64_t first_row, fb_signals *see)
{
    const bool follows = fb_bound_rule_reads_block(event->rule);
    const int64_t t = fb_size(event->ops, x, 0), m = fb_cache_part(cache, 0, 0).n;
    const fb_tensor rows =
        follows ? fb_full(event->ops, 3, (int64_t[]){event->heads, t, m}, 0)
                : see->window_attention;
    fb_segment segments[FB_MAX_KV_HEADS];
    const fb_attend call = {.x = x,
                            .segments = segments,
                            .n_sequences = 1,
                            .heads = event->heads,
                            .kv_heads = event->kv_heads,
                            .head_dim = event->head_dim,
                            .scale = scale,
                            .sum = see->attention_sum,
                            .rows = rows,
                            .first_row = follows ? 0 : first_row};

    for (int64_t g = 0; g < event->kv_heads; g++)
        segments[g] = (fb_segment){.context = fb_cache_part(cache, 0, g)};
    (void)fb_attention(event->ops, &call);
    if (follows) follow(event, rows, see);
}

int64_t fb_event_queries(const fb_event *event)
{
    return fb_bound_rule_reads_sum(event->rule) ||
                   fb_bound_rule_reads_block(event->rule)
               ? event->n
               : fb_bound_rule_window(event->rule, event->n);
}

/* Tokens before the first query that is wanted only leave their keys. */
static void pass(fb_event *event, fb_cache *cache, const fb_outside *queries,
                 const fb_outside *keys, double scale, fb_signals *see)
{
    const int64_t n = event->n, first = n - fb_event_queries(event);
    const int64_t window = fb_bound_rule_window(event->rule, n);
    int64_t t;

    for (int64_t start = 0; start < n; start += t) {
        const bool asks = start >= first;
        fb_tensor x;
        fb_status status;

        t = fb_smaller(ROWS, (asks ? n : first) - start);
        fb_scope_open(event->ops);
        x = side_by_side(event, asks ? queries : NULL, keys, start, t);
        status = fb_cache_append(cache, event->ops, 0, x, asks ? event->heads : 0);
        if (status != FB_OK)
            fb_ops_refuse(event->ops, status);
        else if (asks)
            attend(event, cache, x, scale, start - (n - window), see);
        fb_scope_close(event->ops);
    }
}

void fb_event_attend(fb_event *event, const fb_outside *queries, const fb_outside *keys,
                     double scale, fb_signals *see)
{
    const int64_t n = event->n, window = fb_bound_rule_window(event->rule, n);
    const fb_cache_shape shape = {1, event->kv_heads, event->head_dim, FB_F32};
    fb_ops *ops = event->ops;
    fb_cache *cache;
    fb_status status;

    if (fb_bound_rule_reads_sum(event->rule) && !fb_bound_rule_reads_block(event->rule))
        see->attention_sum = fb_full(ops, 2, (int64_t[]){event->heads, n}, 0);
    if (window > 0 && !fb_bound_rule_reads_block(event->rule))
        see->window_attention =
            fb_full(ops, 3, (int64_t[]){event->heads, window, n}, 0);
    status = fb_cache_new(&cache, ops, &shape, n);
    if (status != FB_OK) {
        fb_ops_refuse(ops, status);
        return;
    }
    fb_ops_move(ops, (fb_place){FB_PHASE_context, FB_SCOPE_attention});
    pass(event, cache, queries, keys, scale, see);
    fb_cache_free(cache);
}

void fb_event_forget(const fb_event *event, fb_signals *see)
{
    if (!fb_bound_rule_reads_block(event->rule)) return;
    fb_release(event->ops, see->state);
    fb_release(event->ops, see->window_attention);
    see->state = see->window_attention = FB_NONE;
}
