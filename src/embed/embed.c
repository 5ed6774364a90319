/* embed.c - operators for a host, and a rule's event from its budget to its kept sets.
 *
 * SPDX-License-Identifier: MIT
 */
#include "embed/event.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

const char *fb_guest_error(void)
{
    return fb_error_message();
}

int fb_guest_abi(void)
{
    return FB_EMBED_ABI;
}

/* --- operators --- */

fb_status fb_guest_open(fb_guest **out, const char *torch, const char *device)
{
    const fb_ops_options options = {.device = device, .torch = torch, .threads = 1};
    fb_guest *guest = fb_zalloc(FB_ACCOUNT_other, sizeof *guest);
    fb_status status;

    *out = NULL;
    if (guest == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the operators");
    status = fb_ops_open(&guest->ops, &options);
    if (status != FB_OK) {
        fb_free(guest);
        return status;
    }
    *out = guest;
    return FB_OK;
}

void fb_guest_close(fb_guest *guest)
{
    if (guest == NULL) return;
    fb_ops_close(guest->ops);
    fb_rule_files_clear(&guest->files);
    fb_free(guest);
}

fb_status fb_guest_load(fb_guest *guest, const char *path)
{
    return fb_rule_files_add(&guest->files, path, NULL, NULL);
}

/* --- opening an event --- */

static bool is_between(int64_t low, int64_t x, int64_t high)
{
    return low <= x && x <= high;
}

static fb_status check_sizes(const fb_event_about *about)
{
    if (!is_between(1, about->layers, 1 << 16) ||
        !is_between(1, about->kv_heads, FB_MAX_KV_HEADS) ||
        !is_between(1, about->heads, 1 << 16) ||
        !is_between(1, about->head_dim, 1 << 16) ||
        !is_between(1, about->value_dim, 1 << 16) ||
        !is_between(1, about->tokens, INT32_MAX))
        return fb_fail(FB_USAGE,
                       "%lld layers, %lld query heads, %lld kv heads of width %lld and "
                       "%lld tokens are not possible",
                       (long long)about->layers, (long long)about->heads,
                       (long long)about->kv_heads, (long long)about->head_dim,
                       (long long)about->tokens);
    if (about->heads % about->kv_heads != 0)
        return fb_fail(FB_USAGE, "%lld query heads do not share %lld kv heads evenly",
                       (long long)about->heads, (long long)about->kv_heads);
    if (!is_between(0, about->protect, FB_PROTECT_NONE) ||
        !is_between(0, about->sink, INT32_MAX) ||
        !is_between(0, about->recent, INT32_MAX))
        return fb_fail(FB_USAGE, "a protection of %lld + %lld is not possible",
                       (long long)about->sink, (long long)about->recent);
    if (about->dtype == FB_F32 || about->dtype == FB_F16 || about->dtype == FB_BF16)
        return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "keys and values are of f32, f16 or bf16");
}

/* The host's formula has been computed; its result comes in the place of a signal. */
static fb_tensor given_score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops;
    (void)params;
    return see->attention_sum;
}

static fb_status bind(fb_event *event, const fb_guest *guest,
                      const fb_event_about *about)
{
    if (about->given == NULL)
        return fb_rule_parse_with(&event->rule, about->rule, &guest->files);
    (void)snprintf(event->name, sizeof event->name, "%s", about->given);
    event->given = (fb_rule){FB_RULE_HEAD, .name = event->name, .score = given_score};
    return fb_rule_bind(&event->rule, &event->given);
}

static fb_status open_budget(fb_event *event, const fb_event_about *about)
{
    const fb_cache_shape shape = {about->layers, about->kv_heads,
                                  (about->head_dim + about->value_dim) / 2,
                                  (fb_dtype)about->dtype};
    fb_budget budget;

    FB_TRY(fb_budget_parse(&budget, about->budget));
    event->k = fb_budget_entries(&budget, &shape, about->tokens, FB_ROUND_EXACT);
    if (event->k >= 1) return FB_OK;
    return fb_fail(FB_BUDGET,
                   "budget '%s' is below one entry per head: %lld bytes are the least",
                   about->budget,
                   (long long)(about->layers * about->kv_heads) *
                       (long long)fb_entry_bytes(&shape));
}

/* Of the model nothing is known here. */
static fb_status check_signals(const fb_event *event)
{
    const uint32_t reads = fb_bound_rule_choices(event->rule)->reads;
    const char *what = reads & FB_READS_OUTPUT_WEIGHT ? "output projection"
                       : reads & FB_READS_ROTATION    ? "rotary embedding"
                       : reads & FB_READS_RESIDUAL    ? "residual stream"
                       : reads & FB_READS_REPLAY      ? "attention of a second pass"
                                                      : NULL;

    if (what == NULL) return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "rule '%s' reads the %s of the model, which is not "
                   "given here",
                   fb_bound_rule_text(event->rule), what);
}

static fb_status open_parts(fb_event *event, const fb_guest *guest,
                            const fb_event_about *about)
{
    const size_t layers = (size_t)about->layers;

    FB_TRY(check_sizes(about));
    FB_TRY(bind(event, guest, about));
    if (fb_bound_rule_choices(event->rule)->reference != FB_REFERENCE_NONE)
        return fb_fail(FB_UNSUPPORTED, "'%s' is a row of an experiment, not a rule",
                       fb_bound_rule_text(event->rule));
    if (!fb_bound_rule_is_deployable(event->rule))
        return fb_fail(FB_UNSUPPORTED,
                       "rule '%s' reads attention of what is still to come",
                       fb_bound_rule_text(event->rule));
    if (fb_bound_rule_choices(event->rule)->block > 0)
        return fb_fail(
            FB_UNSUPPORTED,
            "rule '%s' scores entries anew as it chooses, and they are shown "
            "once here",
            fb_bound_rule_text(event->rule));
    if (fb_bound_rule_edits(event->rule))
        return fb_fail(FB_UNSUPPORTED,
                       "rule '%s' changes values, and only what is kept is said here",
                       fb_bound_rule_text(event->rule));
    FB_TRY(check_signals(event));
    FB_TRY(open_budget(event, about));
    event->protect =
        (fb_protect){(fb_protect_kind)about->protect, about->sink, about->recent};
    event->layers = about->layers;
    event->heads = about->heads;
    event->kv_heads = about->kv_heads;
    event->head_dim = about->head_dim;
    event->value_dim = about->value_dim;
    event->n = about->tokens;
    event->seed = about->seed;
    event->payer = &event->ledger;
    event->is_scored = fb_zalloc(FB_ACCOUNT_other, layers * sizeof *event->is_scored);
    event->scores = fb_zalloc(FB_ACCOUNT_other, layers * sizeof *event->scores);
    event->measured = fb_zalloc(FB_ACCOUNT_other, layers * sizeof *event->measured);
    if (event->scores != NULL && event->measured != NULL && event->is_scored != NULL)
        return FB_OK;
    return fb_fail(FB_NO_MEMORY, "no memory for scores");
}

fb_status fb_event_open(fb_event **out, fb_guest *guest, const fb_event_about *about)
{
    fb_event *event = NULL;
    fb_status status;

    *out = NULL;
    event = fb_zalloc(FB_ACCOUNT_other, sizeof *event);
    if (event == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a rule");
    event->ops = guest->ops;
    status = open_parts(event, guest, about);
    if (status != FB_OK) {
        fb_event_close(event);
        return status;
    }
    *out = event;
    return FB_OK;
}

void fb_event_close(fb_event *event)
{
    if (event == NULL) return;
    for (int64_t l = 0; event->scores != NULL && l < event->layers; l++)
        fb_release(event->ops, event->scores[l]);
    for (int64_t l = 0; event->measured != NULL && l < event->layers; l++)
        fb_release(event->ops, event->measured[l]);
    fb_ops_reset(event->ops);
    fb_ops_charge(event->ops, NULL, 0);
    fb_selection_clear(&event->selection);
    fb_bound_rule_free(event->rule);
    fb_free(event->is_scored);
    fb_free(event->scores);
    fb_free(event->measured);
    fb_free(event);
}

const char *fb_event_rule(const fb_event *event)
{
    return fb_bound_rule_text(event->rule);
}

static bool is_scored(const fb_event *event)
{
    return fb_bound_rule_scores(event->rule) &&
           !fb_select_falls_back(event->rule, event->n);
}

fb_event_needs fb_event_needs_of(const fb_event *event)
{
    const uint32_t reads = fb_bound_rule_choices(event->rule)->reads;

    const int64_t queries = fb_larger(fb_event_queries(event),
                                      fb_bound_rule_queries(event->rule, event->n));

    return (fb_event_needs){.queries = is_scored(event) ? queries : 0,
                            .values = (reads & FB_READS_VALUES) != 0,
                            .scores = is_scored(event)};
}

/* --- a layer --- */

/* [heads, at least t, d] */
static fb_status check_tensor(const fb_outside *x, const char *name, int64_t layer,
                              int64_t heads, int64_t t, int64_t d)
{
    if (x == NULL)
        return fb_fail(FB_USAGE, "layer %lld: the rule reads %s, and none were given",
                       (long long)layer, name);
    if (x->shape[0] == heads && x->shape[1] == t && x->shape[2] == d) return FB_OK;
    return fb_fail(FB_USAGE,
                   "layer %lld: %s are [%lld, %lld, %lld]; [%lld, %lld, %lld] was "
                   "expected",
                   (long long)layer, name, (long long)x->shape[0],
                   (long long)x->shape[1], (long long)x->shape[2], (long long)heads,
                   (long long)t, (long long)d);
}

static fb_status check_layer(const fb_event *event, int64_t layer)
{
    if (!is_between(0, layer, event->layers - 1))
        return fb_fail(FB_USAGE, "layer %lld of %lld", (long long)layer,
                       (long long)event->layers);
    if (!event->is_scored[layer]) return FB_OK;
    return fb_fail(FB_USAGE, "layer %lld has its scores already", (long long)layer);
}

static fb_status check_tensors(const fb_event *event, int64_t layer,
                               const fb_outside *queries, const fb_outside *keys,
                               const fb_outside *values)
{
    const fb_event_needs needs = fb_event_needs_of(event);

    FB_TRY(check_layer(event, layer));
    FB_TRY(
        check_tensor(keys, "keys", layer, event->kv_heads, event->n, event->head_dim));
    if (needs.values != 0)
        FB_TRY(check_tensor(values, "values", layer, event->kv_heads, event->n,
                            event->value_dim));
    if (needs.queries == 0) return FB_OK;
    if (queries != NULL && !is_between(needs.queries, queries->shape[1], event->n))
        return fb_fail(FB_USAGE,
                       "layer %lld: queries of %lld tokens; those of the last %lld are "
                       "read",
                       (long long)layer, (long long)queries->shape[1],
                       (long long)needs.queries);
    return check_tensor(queries, "queries", layer, event->heads,
                        queries == NULL ? 0 : queries->shape[1], event->head_dim);
}

/* [heads, t, d] of the last queries that the rule reads. */
static fb_tensor last_queries(const fb_event *event, const fb_outside *queries)
{
    const int64_t t = fb_bound_rule_queries(event->rule, event->n);
    const fb_tensor all = fb_borrow(event->ops, queries, 1);

    return fb_narrow(event->ops, all, 1, queries->shape[1] - t, t);
}

static fb_signals see(fb_event *event, int64_t layer, const fb_outside *queries,
                      const fb_outside *keys, const fb_outside *values, double scale)
{
    const uint32_t reads = fb_bound_rule_choices(event->rule)->reads;
    fb_ops *ops = event->ops;
    fb_signals s = {.layer = layer,
                    .n_layers = event->layers,
                    .heads = event->heads,
                    .kv_heads = event->kv_heads,
                    .head_dim = event->head_dim,
                    .n = event->n,
                    .m = event->n,
                    .next = event->n,
                    .scale = scale};

    if ((reads & FB_READS_QUERIES) != 0 && queries != NULL)
        s.queries = last_queries(event, queries);
    if (reads & FB_READS_KEYS) s.keys = fb_borrow(ops, keys, 1);
    if (reads & FB_READS_VALUES) s.values = fb_borrow(ops, values, 1);
    if (reads & FB_READS_POSITION)
        s.position = fb_signal_position(ops, event->kv_heads, event->n, NULL);
    if (reads & FB_READS_RANDOM)
        s.random = fb_signal_random(ops, (fb_chance){event->seed, 0, FB_DRAWER_RULE},
                                    layer, event->kv_heads, event->n, NULL);
    return s;
}

/* What follows is paid by this event. */
static void enter(fb_event *event)
{
    fb_ops_charge(event->ops, &event->payer, 1);
    fb_ops_move(event->ops, (fb_place){FB_PHASE_evict, FB_SCOPE_score});
    fb_scope_open(event->ops);
}

/* After a failure the operators are ready again for whatever comes next. */
static fb_status leave(fb_event *event, fb_status status)
{
    fb_scope_close(event->ops);
    if (status == FB_OK) status = fb_ops_status(event->ops);
    if (status != FB_OK) fb_ops_reset(event->ops);
    fb_ops_charge(event->ops, NULL, 0);
    return status;
}

static fb_status keep_score(fb_event *event, int64_t layer, const fb_signals *signals)
{
    fb_ops *ops = event->ops;
    fb_tensor score;

    fb_ops_move(ops, (fb_place){FB_PHASE_evict, FB_SCOPE_score});
    score = fb_bound_rule_score_once(event->rule, ops, signals);
    event->scores[layer] = fb_persist(ops, FB_ACCOUNT_signals, score);
    score = fb_bound_rule_measure(event->rule, ops, signals, score);
    if (score.id != 0)
        event->measured[layer] = fb_persist(ops, FB_ACCOUNT_signals, score);
    event->is_scored[layer] = fb_ops_status(ops) == FB_OK;
    return fb_ops_status(ops);
}

fb_status fb_event_layer(fb_event *event, int64_t layer, const fb_outside *queries,
                         const fb_outside *keys, const fb_outside *values, double scale)
{
    fb_signals signals;
    fb_status status;

    if (!is_scored(event)) return FB_OK;
    if (event->given.name != NULL)
        return fb_fail(FB_USAGE, "the scores of '%s' are given, not computed here",
                       event->name);
    FB_TRY(check_tensors(event, layer, queries, keys, values));
    enter(event);
    signals = see(event, layer, queries, keys, values, scale);
    if (fb_event_queries(event) > 0)
        fb_event_attend(event, queries, keys, scale, &signals);
    status = keep_score(event, layer, &signals);
    fb_event_forget(event, &signals);
    return leave(event, status);
}

fb_status fb_event_scores(fb_event *event, int64_t layer, const fb_outside *scores)
{
    fb_signals signals;

    if (event->given.name == NULL)
        return fb_fail(FB_USAGE, "rule '%s' computes its scores itself",
                       fb_event_rule(event));
    FB_TRY(check_layer(event, layer));
    FB_TRY(check_tensor(scores, "scores", layer, 1,
                        scores == NULL ? 0 : scores->shape[1], event->n));
    enter(event);
    signals = see(event, layer, NULL, NULL, NULL, 0);
    signals.attention_sum =
        fb_reshape(event->ops, fb_borrow(event->ops, scores, 1), 2, &scores->shape[1]);
    return leave(event, keep_score(event, layer, &signals));
}

/* --- the kept sets --- */

static fb_status check_scored(const fb_event *event)
{
    if (event->selection.kept.n_slots != 0)
        return fb_fail(FB_USAGE, "the sets are selected already");
    for (int64_t l = 0; is_scored(event) && l < event->layers; l++)
        if (!event->is_scored[l])
            return fb_fail(FB_USAGE, "layer %lld of %lld has no scores yet",
                           (long long)l, (long long)event->layers);
    return FB_OK;
}

fb_status fb_event_select(fb_event *event, fb_event_facts *out)
{
    const fb_selector selector = {.rule = event->rule,
                                  .protect = event->protect,
                                  .layers = event->layers,
                                  .kv_heads = event->kv_heads,
                                  .n = event->n,
                                  .seed = event->seed,
                                  .scores = event->scores,
                                  .measured = event->measured};
    const fb_selection *s = &event->selection;

    *out = (fb_event_facts){0};
    FB_TRY(check_scored(event));
    enter(event);
    fb_ops_move(event->ops, (fb_place){FB_PHASE_evict, FB_SCOPE_select});
    FB_TRY(leave(event, fb_select(&event->selection, event->ops, &selector, event->k)));
    *out = (fb_event_facts){s->k, s->n_protected, s->fallback, s->shrunk};
    return FB_OK;
}

const int32_t *fb_event_kept(const fb_event *event, int64_t layer, int64_t kv_head,
                             int64_t *n_out)
{
    const fb_kept *kept = &event->selection.kept;
    const int64_t slot = layer * event->kv_heads + kv_head;

    *n_out = 0;
    if (!is_between(0, layer, event->layers - 1) ||
        !is_between(0, kv_head, event->kv_heads - 1) || slot >= kept->n_slots)
        return NULL;
    *n_out = kept->count[slot];
    return kept->position[slot];
}

bool fb_event_work(const fb_event *event, int index, const char **name_out,
                   int64_t *calls_out, double *flops_out, double *bytes_out)
{
    fb_count total = {0};

    if (index < 0 || index >= FB_OP_COUNT) return false;
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++) {
            const fb_count *count = &event->ledger.count[p][s][index];

            total.calls += count->calls;
            total.flops += count->flops;
            total.bytes += count->bytes;
        }
    *name_out = fb_op_name((enum fb_op)index);
    *calls_out = total.calls;
    *flops_out = total.flops;
    *bytes_out = total.bytes;
    return true;
}
