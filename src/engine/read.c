/* read.c - a context is read once; every rule scores each layer as it passes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/hash.h"
#include "base/number.h"
#include "base/time.h"
#include "engine/batch.h"
#include "engine/context.h"
#include "engine/reading.h"

#include <string.h>

fb_status fb_reading_score_layer(fb_reading *reading, fb_scored_rule *rule,
                                 int64_t layer, const fb_layer_signals *seen)
{
    fb_ops *ops = reading->engine->ops;
    const fb_view view = {.engine = reading->engine,
                          .rule = rule->rule,
                          .seed = rule->seed,
                          .stream = reading->stream,
                          .cache = reading->cache,
                          .n = reading->n,
                          .m = reading->n,
                          .length = reading->n,
                          .seen = *seen,
                          .state = rule->state};
    const struct fb_rotary rotary = fb_view_rotary(&view);
    const fb_place before = fb_enter(reading->engine, FB_PHASE_evict, FB_SCOPE_score);
    const int64_t begin_ns = fb_time_ns();
    fb_signals signals;
    fb_tensor score, measured;

    fb_scope_open(ops);
    signals = fb_view_layer(&view, layer, &rotary);
    score = fb_bound_rule_score_once(rule->rule, ops, &signals);
    measured = fb_bound_rule_measure(rule->rule, ops, &signals, score);
    fb_release(ops, rule->scores[layer]);
    fb_release(ops, rule->measured[layer]);
    rule->scores[layer] = fb_persist(ops, FB_ACCOUNT_signals, score);
    rule->measured[layer] =
        measured.id == 0 ? FB_NONE : fb_persist(ops, FB_ACCOUNT_signals, measured);
    fb_scope_close(ops);
    fb_ops_move(ops, before);
    rule->score_ns += fb_time_ns() - begin_ns;
    return fb_ops_status(ops);
}

/* --- the pass --- */

static bool scores_now(const fb_reading *reading, const fb_scored_rule *rule)
{
    return fb_bound_rule_scores(rule->rule) &&
           fb_bound_rule_is_deployable(rule->rule) &&
           fb_bound_rule_replay(rule->rule) == NULL &&
           !fb_select_falls_back(rule->rule, reading->n);
}

static void charge_to(fb_reading *reading, fb_ledger *ledger)
{
    reading->payer = ledger;
    fb_ops_charge(reading->engine->ops, &reading->payer, 1);
}

/* Of a rule that carries on from block to block. */
static fb_status update_state(fb_reading *reading, fb_scored_rule *rule, int64_t layer,
                              fb_tensor rows)
{
    fb_ops *ops = reading->engine->ops;
    const int64_t t = fb_size(ops, rows, 1), m = fb_size(ops, rows, 2);
    const int64_t fresh[] = {reading->engine->shape.kv_heads,
                             fb_bound_rule_choices(rule->rule)->state_rows, t};
    fb_view view = {.engine = reading->engine,
                    .rule = rule->rule,
                    .seed = rule->seed,
                    .stream = reading->stream,
                    .cache = reading->cache,
                    .n = m,
                    .m = m,
                    .length = reading->n,
                    .seen = {.block = rows}};
    const struct fb_rotary rotary = fb_view_rotary(&view);
    const fb_place before = fb_enter(reading->engine, FB_PHASE_context, FB_SCOPE_score);
    fb_signals signals;
    fb_tensor state;

    fb_scope_open(ops);
    view.state = fb_full(ops, 3, fresh, 0);
    if (rule->state.id != 0) view.state = fb_cat(ops, rule->state, view.state, 2);
    signals = fb_view_layer(&view, layer, &rotary);
    state = fb_persist(ops, FB_ACCOUNT_signals,
                       fb_bound_rule_update(rule->rule, ops, &signals, FB_AFTER_BLOCK));
    fb_release(ops, rule->state);
    rule->state = state;
    fb_scope_close(ops);
    fb_ops_move(ops, before);
    return fb_ops_status(ops);
}

/* Rows of attention that this rule reads. */
static int64_t own_window(const fb_reading *reading, const fb_scored_rule *rule)
{
    return fb_bound_rule_window(rule->rule, reading->n);
}

/* The last rows are the rule's own. Alone it would be given no others, so it does not
 * pay for the cut. */
static fb_tensor own_rows(const fb_reading *reading, const fb_scored_rule *rule,
                          fb_tensor rows)
{
    const int64_t own = own_window(reading, rule);
    fb_ops *ops = reading->engine->ops;
    const int64_t all = fb_size(ops, rows, 1);
    fb_place before;

    if (own == 0 || own == all) return rows;
    before = fb_enter(reading->engine, FB_PHASE_context, FB_SCOPE_signal);
    fb_ops_charge(ops, NULL, 0);
    rows = fb_narrow(ops, rows, 1, all - own, own);
    fb_ops_move(ops, before);
    return rows;
}

/* The longest window of all rules. */
static int64_t longest_window(const fb_reading *reading)
{
    int64_t longest = 0;

    for (int r = 0; r < reading->n_rules; r++)
        if (scores_now(reading, &reading->rules[r]))
            longest = fb_larger(longest, own_window(reading, &reading->rules[r]));
    return longest;
}

static fb_status follow_block(void *self, int64_t layer, fb_tensor rows)
{
    fb_reading *reading = self;
    fb_ops *ops = reading->engine->ops;
    fb_status status = FB_OK;

    /* alone the kernel writes the rows of a window where they belong: nobody pays */
    fb_ops_charge(ops, NULL, 0);
    reading->window = fb_signal_window(ops, reading->window, rows, reading->n,
                                       longest_window(reading));
    for (int r = 0; status == FB_OK && r < reading->n_rules; r++) {
        fb_scored_rule *rule = &reading->rules[r];

        if (!scores_now(reading, rule) || !fb_bound_rule_reads_block(rule->rule))
            continue;
        charge_to(reading, &rule->ledger);
        status = update_state(reading, rule, layer, rows);
    }
    charge_to(reading, &reading->pass);
    return status;
}

/* What was put together from the blocks of a layer. */
static void forget_blocks(fb_reading *reading)
{
    fb_ops *ops = reading->engine->ops;

    fb_release(ops, reading->window);
    reading->window = FB_NONE;
    for (int r = 0; r < reading->n_rules; r++) {
        fb_release(ops, reading->rules[r].state);
        reading->rules[r].state = FB_NONE;
    }
}

static fb_status score_layer(void *self, int64_t layer, const fb_layer_signals *seen)
{
    fb_reading *reading = self;
    fb_ops *ops = reading->engine->ops;
    const fb_tensor rows = reading->window.id != 0 ? reading->window : seen->rows;
    fb_status status = FB_OK;

    for (int r = 0; status == FB_OK && r < reading->n_rules; r++) {
        fb_scored_rule *rule = &reading->rules[r];
        fb_layer_signals own = *seen;

        if (!scores_now(reading, rule)) continue;
        fb_scope_open(ops);
        own.rows = own_rows(reading, rule, rows);
        charge_to(reading, &rule->ledger);
        status = fb_reading_score_layer(reading, rule, layer, &own);
        fb_scope_close(ops);
    }
    charge_to(reading, &reading->pass);
    forget_blocks(reading);
    return status;
}

/* The union of what the rules need from the kernel. */
static void ask_for_signals(const fb_reading *reading, fb_context_pass *pass)
{
    for (int r = 0; r < reading->n_rules; r++) {
        const fb_scored_rule *rule = &reading->rules[r];

        if (!scores_now(reading, rule)) continue;
        pass->wants_sum |= fb_bound_rule_reads_sum(rule->rule);
        pass->wants_queries |= fb_bound_rule_queries(rule->rule, reading->n) > 0;
        pass->wants_residual |= fb_bound_rule_reads_residual(rule->rule);
        if (fb_bound_rule_reads_block(rule->rule)) pass->after_block = follow_block;
    }
    pass->window = longest_window(reading);
}

/* Entries that the last `rows` tokens of the context see, each those up to itself. */
static double entries_seen(const fb_reading *reading, int64_t rows)
{
    return (double)rows * (double)reading->n - (double)rows * (double)(rows - 1) / 2;
}

/* `part` of `all` units that `from` has counted. Whole numbers, so the order is exact. */
static void add_part(fb_count *to, const fb_count *from, double part, double all)
{
    to->calls += from->calls;
    to->flops += from->flops / all * part;
    to->bytes += from->bytes / all * part;
}

/* The rows of attention that the kernel writes for this rule alone. */
static int64_t own_written(const fb_reading *reading, const fb_scored_rule *rule)
{
    return fb_bound_rule_reads_block(rule->rule) ? reading->n
                                                 : own_window(reading, rule);
}
/* Operators that make a signal; none serves two. */
static const enum fb_op of_queries[] = {FB_OP_narrow, FB_OP_add_};
static const enum fb_op of_residual[] = {FB_OP_add,    FB_OP_mul,     FB_OP_sum,
                                         FB_OP_sqrt,   FB_OP_div,     FB_OP_maximum,
                                         FB_OP_linear, FB_OP_rms_norm};
enum {
    N_OF_QUERIES = sizeof of_queries / sizeof of_queries[0],
    N_OF_RESIDUAL = sizeof of_residual / sizeof of_residual[0]
};

/* A rule's cells pay for the plain pass and for the reductions that this rule reads, as
 * if it were alone: of the `written` last rows its own. */
static void charge_pass(fb_reading *reading, fb_scored_rule *rule, int64_t written)
{
    const fb_count *signal = reading->pass.count[FB_PHASE_context][FB_SCOPE_signal];
    fb_count *own = rule->ledger.count[FB_PHASE_context][FB_SCOPE_signal];
    fb_ledger plain = reading->pass;

    memset(plain.count[FB_PHASE_context][FB_SCOPE_signal], 0,
           sizeof plain.count[FB_PHASE_context][FB_SCOPE_signal]);
    plain.again_sums = plain.again_rows = 0;
    fb_ledger_add(&rule->ledger, &plain);
    if (!scores_now(reading, rule)) return;
    if (fb_bound_rule_reads_sum(rule->rule)) {
        add_part(&own[FB_OP_attention_sum], &signal[FB_OP_attention_sum], 1, 1);
        rule->ledger.again_sums += reading->pass.again_sums;
    }
    if (own_written(reading, rule) > 0) {
        const double part = entries_seen(reading, own_written(reading, rule)),
                     all = entries_seen(reading, written);

        add_part(&own[FB_OP_attention_rows], &signal[FB_OP_attention_rows], part, all);
        rule->ledger.again_rows += reading->pass.again_rows / all * part;
    }
    if (fb_bound_rule_queries(rule->rule, reading->n) > 0)
        for (int i = 0; i < N_OF_QUERIES; i++)
            add_part(&own[of_queries[i]], &signal[of_queries[i]], 1, 1);
    if (fb_bound_rule_reads_residual(rule->rule))
        for (int i = 0; i < N_OF_RESIDUAL; i++)
            add_part(&own[of_residual[i]], &signal[of_residual[i]], 1, 1);
}

/* Adds the keys and values of every layer of a cache, `tokens` in each slot. */
static fb_status add_cache(const fb_reading *reading, const fb_cache *cache,
                           int64_t layers, int64_t tokens, fb_hash *hash)
{
    const fb_cache_shape *shape = &reading->engine->all;
    const size_t bytes =
        (size_t)(shape->kv_heads * tokens * shape->head_dim) * sizeof(float);
    fb_ops *ops = reading->engine->ops;
    void *host = fb_alloc(FB_ACCOUNT_scratch, bytes);
    fb_status status = FB_OK;
    uint64_t sum;

    if (host == NULL) return fb_fail(FB_NO_MEMORY, "no memory to hash a cache");
    for (int64_t i = 0; status == FB_OK && i < 2 * layers; i++) {
        fb_tensor numbers;

        fb_scope_open(ops);
        numbers = i % 2 == 0 ? fb_cache_keys(cache, ops, i / 2)
                             : fb_cache_values(cache, ops, i / 2);
        status = fb_ops_status(ops);
        sum = 0;
        if (status == FB_OK && fb_ops_has_numbers(ops)) {
            status = fb_to_host(ops, numbers, host, bytes);
            if (status == FB_OK) sum = fb_checksum(host, bytes);
        }
        fb_scope_close(ops);
        fb_hash_add(hash, &sum, sizeof sum);
    }
    fb_free(host);
    return status;
}

static fb_status hash_caches(fb_reading *reading)
{
    const fb_engine *engine = reading->engine;
    fb_status status;
    fb_hash hash;

    fb_hash_init(&hash);
    fb_ops_charge(engine->ops, NULL, 0);
    status =
        add_cache(reading, reading->cache, engine->shape.layers, reading->n, &hash);
    if (status == FB_OK && reading->sliding != NULL)
        status = add_cache(reading, reading->sliding, engine->sliding.layers,
                           fb_smaller(reading->n, engine->facts->window), &hash);
    fb_hash_hex(&hash, reading->cache_sha256);
    return status;
}

static fb_status run_pass(fb_reading *reading, const int32_t *ids)
{
    fb_ops *ops = reading->engine->ops;
    fb_context_pass pass = {.engine = reading->engine,
                            .ids = ids,
                            .n = reading->n,
                            .cache = reading->cache,
                            .sliding = reading->sliding,
                            .after_layer = score_layer,
                            .self = reading};
    fb_status status;

    ask_for_signals(reading, &pass);
    charge_to(reading, &reading->pass);
    fb_scope_open(ops);
    fb_trace_begin(ops, 1);
    status = fb_context_run(&pass);
    fb_trace_end(ops, reading->trace);
    fb_scope_close(ops);
    fb_ops_charge(ops, NULL, 0);
    for (int r = 0; status == FB_OK && r < reading->n_rules; r++)
        charge_pass(reading, &reading->rules[r],
                    pass.after_block != NULL ? reading->n : pass.window);
    return status;
}

static fb_status open_rules(fb_reading *reading, const fb_seeded_rule *rules,
                            int n_rules)
{
    const size_t layers = (size_t)reading->engine->facts->global_layers;

    reading->rules =
        fb_zalloc(FB_ACCOUNT_other, (size_t)n_rules * sizeof *reading->rules);
    if (reading->rules == NULL) return fb_fail(FB_NO_MEMORY, "no memory for scores");
    reading->n_rules = n_rules;
    for (int r = 0; r < n_rules; r++) {
        reading->rules[r].rule = rules[r].rule;
        reading->rules[r].seed = rules[r].seed;
        reading->rules[r].scores =
            fb_zalloc(FB_ACCOUNT_other, layers * sizeof(fb_tensor));
        reading->rules[r].measured =
            fb_zalloc(FB_ACCOUNT_other, layers * sizeof(fb_tensor));
        if (reading->rules[r].scores == NULL || reading->rules[r].measured == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for scores");
    }
    return FB_OK;
}

static fb_status open_caches(fb_reading *reading)
{
    const fb_engine *engine = reading->engine;

    reading->document_future =
        fb_zalloc(FB_ACCOUNT_other, (size_t)engine->shape.layers * sizeof(fb_tensor));
    if (reading->document_future == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a context");
    FB_TRY(fb_cache_new(&reading->cache, engine->ops, &engine->shape, reading->n));
    if (engine->sliding.layers == 0) return FB_OK;
    return fb_cache_new(&reading->sliding, engine->ops, &engine->sliding,
                        fb_smaller(reading->n, engine->facts->window));
}

fb_status fb_reading_fits(const fb_model_facts *facts, int64_t tokens)
{
    if (facts->window == 0 || facts->sliding_layers > 0 || tokens <= facts->window)
        return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "%lld tokens; every layer of the model has a window of %lld tokens, "
                   "and what falls out of it cannot be evicted",
                   (long long)tokens, (long long)facts->window);
}

static fb_status check_seed_place(int64_t n)
{
    return n <= INT32_MAX
               ? FB_OK
               : fb_fail(FB_UNSUPPORTED, "a context of %lld tokens", (long long)n);
}

fb_status fb_read(fb_reading **out, fb_engine *engine, const int32_t *ids, int64_t n,
                  const fb_seeded_rule *rules, int n_rules, uint64_t stream)
{
    const int64_t begin_ns = fb_time_ns();
    fb_reading *reading;
    fb_status status;

    *out = NULL;
    FB_TRY(check_seed_place(n));
    FB_TRY(fb_reading_fits(engine->facts, n));
    if (n < 1)
        return fb_fail(FB_USAGE, "an empty context; at least one token is needed");
    reading = fb_zalloc(FB_ACCOUNT_other, sizeof *reading);
    if (reading == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a context");
    reading->engine = engine;
    reading->n = n;
    reading->stream = stream;
    status = open_rules(reading, rules, n_rules);
    if (status == FB_OK) status = open_caches(reading);
    if (status == FB_OK) status = run_pass(reading, ids);
    reading->pass_bytes = fb_memory_peak_in(FB_PHASE_context, FB_ACCOUNT_kv);
    if (status == FB_OK) status = fb_reading_replay(reading, ids);
    reading->read_ns = fb_time_ns() - begin_ns;
    if (status == FB_OK) status = hash_caches(reading);
    if (status != FB_OK) {
        fb_reading_free(reading);
        return status;
    }
    *out = reading;
    return FB_OK;
}

static void release_all(fb_ops *ops, fb_tensor *of_layers, int64_t layers)
{
    for (int64_t l = 0; of_layers != NULL && l < layers; l++)
        fb_release(ops, of_layers[l]);
    fb_free(of_layers);
}

void fb_reading_free(fb_reading *reading)
{
    fb_ops *ops;

    if (reading == NULL) return;
    ops = reading->engine->ops;
    forget_blocks(reading);
    for (int r = 0; r < reading->n_rules; r++) {
        release_all(ops, reading->rules[r].scores, reading->engine->shape.layers);
        release_all(ops, reading->rules[r].measured, reading->engine->shape.layers);
    }
    fb_free(reading->rules);
    release_all(ops, reading->document_future, reading->engine->shape.layers);
    fb_release(ops, reading->hidden);
    fb_cache_free(reading->cache);
    fb_cache_free(reading->sliding);
    fb_free(reading);
}

size_t fb_window_bytes(const fb_model_facts *facts, fb_dtype cache, int64_t tokens)
{
    const fb_cache_shape shape = {facts->sliding_layers, facts->kv_heads,
                                  facts->head_dim, cache};
    const int64_t held = fb_smaller(tokens, facts->window);

    return (size_t)(shape.layers * shape.kv_heads * held) * fb_entry_bytes(&shape);
}

const fb_cache *fb_reading_cache(const fb_reading *reading)
{
    return reading->cache;
}

fb_status fb_reading_let_go(fb_reading *reading)
{
    FB_TRY(fb_step_count(reading));
    fb_cache_free(reading->cache);
    reading->cache = NULL;
    return FB_OK;
}

int64_t fb_reading_tokens(const fb_reading *reading)
{
    return reading->n;
}

const fb_ledger *fb_reading_ledger(const fb_reading *reading, int rule)
{
    return &reading->rules[rule].ledger;
}

size_t fb_reading_pass_bytes(const fb_reading *reading)
{
    return reading->pass_bytes;
}

size_t fb_reading_again_bytes(const fb_reading *reading, int rule)
{
    return reading->rules[rule].again_bytes;
}

int64_t fb_reading_ns(const fb_reading *reading)
{
    return reading->read_ns;
}

int64_t fb_reading_score_ns(const fb_reading *reading, int rule)
{
    return reading->rules[rule].score_ns;
}

const fb_ledger *fb_reading_pass(const fb_reading *reading)
{
    return &reading->pass;
}

const char *fb_reading_trace(const fb_reading *reading)
{
    return reading->trace;
}

const char *fb_reading_cache_sha256(const fb_reading *reading)
{
    return reading->cache_sha256;
}

fb_tensor fb_reading_score(const fb_reading *reading, int rule, int64_t layer)
{
    return reading->rules[rule].scores[layer];
}
