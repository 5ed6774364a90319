/* stream_in.c - a context that comes in under the budget becomes a variant.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "engine/stream.h"
#include "engine/variant.h"

static fb_status check_stream(const fb_stream *s)
{
    const fb_bound_rule *rule = s->view.rule;

    if (!fb_bound_rule_streams(rule))
        return fb_fail(FB_UNSUPPORTED, "rule '%s' cannot evict while a text comes in",
                       fb_bound_rule_text(rule));
    if (s->keeps_scores && fb_bound_rule_chooses(rule))
        return fb_fail(FB_UNSUPPORTED, "rule '%s' has no one score an entry to keep",
                       fb_bound_rule_text(rule));
    if (fb_bound_rule_choices(rule)->keeps_all && s->k < s->length)
        return fb_fail(FB_BUDGET,
                       "'%s' keeps all %lld entries; the budget has %lld a head",
                       fb_bound_rule_text(rule), (long long)s->length, (long long)s->k);
    if (s->k > s->chunk || s->k >= s->length) return FB_OK;
    return fb_fail(FB_BUDGET,
                   "chunks of %lld tokens do not fit a budget of %lld entries a head; "
                   "take smaller ones",
                   (long long)s->chunk, (long long)s->k);
}

/* Of a layer of k entries a head: what they carry, their scores where these are kept, what
 * was learnt, the last queries. */
static int64_t state_bytes(const fb_model_facts *facts, const fb_bound_rule *rule,
                           int64_t k, bool keeps_scores)
{
    const int64_t rows = fb_bound_rule_choices(rule)->state_rows;
    const int64_t score = keeps_scores && fb_bound_rule_scores(rule) ? 1 : 0;
    const int64_t carried = facts->kv_heads * k * (rows + score);
    const int64_t queries =
        fb_stream_last_queries(rule) * facts->heads * facts->head_dim;

    const int64_t learnt =
        facts->heads * facts->head_dim *
        fb_layer_state_rows(fb_bound_rule_choices(rule), facts->head_dim);

    return (carried + learnt + queries) * (int64_t)sizeof(float);
}

/* What was left in the end becomes the variant's own; the stream too, if it goes on. */
static fb_status hand_over(fb_stream *s, fb_variant *variant, bool pays_state)
{
    const fb_engine *engine = s->view.engine;

    FB_TRY(fb_stream_held(s, &variant->selection));
    if (s->sliding != NULL)
        FB_TRY(fb_cache_keep_last(s->sliding, engine->ops, engine->facts->window));
    variant->pays_state = pays_state;
    variant->highest = s->highest;
    variant->state_bytes =
        (size_t)(engine->shape.layers *
                 state_bytes(engine->facts, s->view.rule, s->k, s->keeps_scores));
    if (engine->options.compact) variant->next = s->view.m;
    variant->arena = s->cache;
    variant->sliding = s->sliding;
    if (s->interval > 0) {
        variant->stream = s;
        return FB_OK;
    }
    s->cache = s->sliding = NULL;
    fb_stream_free(s);
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
    status = fb_stream_read(s, ids, s->length);
    fb_trace_end(ops, variant->trace);
    fb_ops_charge(ops, NULL, 0);
    fb_ops_move(ops, before);
    return status;
}

fb_status fb_stream_in(fb_variant **out, fb_reading *reading,
                       const fb_seeded_rule *rule, const int32_t *ids,
                       const fb_protect *protect, const fb_pace *pace)
{
    const fb_stream like = {.view = {.engine = reading->engine,
                                     .rule = rule->rule,
                                     .seed = rule->seed,
                                     .stream = reading->stream},
                            .protect = *protect,
                            .k = pace->interval > 0 ? pace->k
                                                    : fb_smaller(pace->k, reading->n),
                            .chunk = pace->chunk,
                            .interval = pace->interval,
                            .keeps_scores = pace->keeps_scores,
                            .length = reading->n};
    fb_stream *stream = NULL;
    fb_status status;

    *out = NULL;
    FB_TRY(check_stream(&like));
    FB_TRY(fb_variant_new(out, reading));
    (*out)->read_itself = true;
    status = fb_stream_open(&stream, &like);
    if (status == FB_OK) status = run(stream, ids, *out);
    if (status == FB_OK) status = hand_over(stream, *out, pace->pays_state);
    if (status == FB_OK) return FB_OK;
    fb_stream_free(stream);
    fb_variant_free(*out);
    *out = NULL;
    return status;
}

int64_t fb_stream_entries(const fb_model_facts *facts, fb_dtype cache,
                          const fb_bound_rule *rule, int64_t k, bool keeps_scores)
{
    const fb_cache_shape shape = {facts->global_layers, facts->kv_heads,
                                  facts->head_dim, cache};
    const int64_t entry = (int64_t)fb_entry_bytes(&shape);
    const int64_t fixed = state_bytes(facts, rule, 0, keeps_scores);
    const int64_t carried = state_bytes(facts, rule, 1, keeps_scores) - fixed;

    return (facts->kv_heads * k * entry - fixed) / (facts->kv_heads * entry + carried);
}
