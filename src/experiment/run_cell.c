/* run_cell.c - what one cell said becomes numbers and a row.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/number.h"
#include "engine/digest.h"
#include "experiment/run_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A row with all that it lends. */
typedef struct draft {
    fb_store_cell row;
    fb_store_score scores[FB_MOST_SCORES];
    fb_store_count *counts;
    fb_store_peak peaks[FB_PHASE_COUNT * FB_ACCOUNT_COUNT];
    fb_store_time times[3];
    fb_store_kept *kept;
    fb_ledger *ledger;
    char *answer;
    fb_text answer_tokens;
    char kept_sha256[FB_HASH_HEX], digest[FB_HASH_HEX];
} draft;

bool fb_run_is_own_fault(fb_status status)
{
    return status != FB_OK && status != FB_NO_MEMORY && status != FB_IO &&
           status != FB_STOPPED;
}

fb_question fb_run_question(const fb_plan_sample *sample)
{
    return (fb_question){.prompt = sample->prompt.ids,
                         .answer = sample->answer.ids,
                         .n_prompt = sample->prompt.n,
                         .n_answer = sample->answer.n};
}

fb_answer_options fb_run_answer_options(const fb_plan_sample *sample)
{
    return (fb_answer_options){.generate = fb_plan_needs_text(sample),
                               .max_tokens = sample->max_tokens};
}

/* --- scores --- */

static void add_score(draft *d, const char *metric, double value)
{
    d->scores[d->row.n_scores++] = (fb_store_score){metric, value};
}

static double mean(const double *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static double share_equal(const int32_t *a, const int32_t *b, int64_t n)
{
    int64_t same = 0;

    for (int64_t i = 0; i < n; i++)
        same += a[i] == b[i];
    return (double)same / (double)n;
}

/* What is left in the end: of the context, or of all that was read where question and
 * answer go on under the budget. NULL: everything. */
static const fb_selection *held(const fb_outcome *outcome)
{
    return outcome->answer->held.kept.n_slots > 0
               ? &outcome->answer->held
               : fb_variant_selection(outcome->variant);
}

/* The share of heads that dropped the first token, to which models pay attention when
 * they look at nothing (Xiao et al. 2024, "attention sinks", arXiv:2309.17453). */
static double first_lost(const fb_selection *selection)
{
    const fb_kept *kept = selection == NULL ? NULL : &selection->kept;
    int64_t lost = 0;

    if (kept == NULL) return 0;
    for (int64_t s = 0; s < kept->n_slots; s++)
        lost += kept->position[s][0] != 0;
    return (double)lost / (double)kept->n_slots;
}

static void add_pass_scores(draft *d, const fb_plan_sample *sample,
                            const fb_outcome *outcome)
{
    const fb_answer *answer = outcome->answer;
    const double right = share_equal(answer->top1, sample->answer.ids, answer->n);
    const double values[FB_PASS_METRICS] = {
        mean(answer->kl, answer->n),
        mean(answer->nll, answer->n),
        right == 1 ? 1 : 0,
        share_equal(answer->top1, answer->full_top1, answer->n),
        right,
        first_lost(held(outcome))};

    for (int i = 0; i < FB_PASS_METRICS; i++)
        add_score(d, fb_pass_metrics[i], values[i]);
}

size_t fb_run_answer_length(const fb_plan_sample *sample, const char *text, size_t n)
{
    for (int i = 0; i < sample->stop.n; i++) {
        const char *stop = sample->stop.text[i];
        const char *found = memmem(text, n, stop, strlen(stop));

        if (found != NULL) n = (size_t)(found - text);
    }
    return n;
}

/* The free answer, ended before the first stop string. */
static fb_status decode_answer(const fb_runner *run, draft *d,
                               const fb_plan_sample *sample, const fb_answer *answer)
{
    size_t n = 0;

    FB_TRY(fb_tokenizer_decode(fb_model_tokenizer(run->plan->model), answer->ids,
                               answer->n_ids, true, &d->answer, &n));
    d->answer[fb_run_answer_length(sample, d->answer, n)] = '\0';
    fb_text_puts(&d->answer_tokens, "[");
    for (int64_t i = 0; i < answer->n_ids; i++)
        fb_text_printf(&d->answer_tokens, "%s%d", i > 0 ? "," : "",
                       (int)answer->ids[i]);
    fb_text_puts(&d->answer_tokens, "]");
    return fb_text_status(&d->answer_tokens);
}

/* A record of a `score` task whose own metric is one of the pass: its value counts
 * under the task's name as well. */
static void add_pass_as_task_score(const fb_runner *run, draft *d,
                                   const fb_plan_sample *sample)
{
    const char *name = fb_bound_task_metric(run->plan->spec->tasks[sample->task])->name;

    if (strcmp(name, sample->metric) == 0) return;
    for (int i = 0; i < d->row.n_scores; i++)
        if (strcmp(d->scores[i].metric, sample->metric) == 0) {
            add_score(d, name, d->scores[i].value);
            return;
        }
}

/* The score of the text: under the name of the task's metric, which of a `score` task
 * is not that of the record. */
static fb_status add_text_score(const fb_runner *run, draft *d,
                                const fb_plan_sample *sample)
{
    const fb_bound_task *task = run->plan->spec->tasks[sample->task];
    double value = 0;
    const fb_status status = fb_metric_text(
        sample->metric, d->answer, (const char *const *)sample->references.text,
        sample->references.n, (const char *const *)sample->classes.text,
        sample->classes.n, &value);

    if (status != FB_OK) return fb_context(status, "metric '%s'", sample->metric);
    add_score(d, fb_bound_task_metric(task)->name, value);
    return FB_OK;
}

/* --- what it cost --- */

static int count_nonzero(const fb_ledger *ledger)
{
    int n = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int o = 0; o < FB_OP_COUNT; o++)
                n += ledger->count[p][s][o].calls != 0;
    return n;
}

static void list_counts(draft *d)
{
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int o = 0; o < FB_OP_COUNT; o++) {
                const fb_count *count = &d->ledger->count[p][s][o];

                if (count->calls == 0) continue;
                d->counts[d->row.n_counts++] =
                    (fb_store_count){.phase = fb_phase_name((fb_phase)p),
                                     .scope = fb_scope_name((fb_scope)s),
                                     .op = fb_op_name((enum fb_op)o),
                                     .calls = count->calls,
                                     .flops = count->flops,
                                     .bytes = count->bytes};
            }
}

/* Everything that the cell would have cost alone. */
static fb_status add_counts(const fb_runner *run, draft *d, const fb_outcome *outcome)
{
    const fb_entrant *entrant = fb_run_entrant(run, outcome->cell);

    d->ledger = fb_zalloc(FB_ACCOUNT_other, sizeof *d->ledger);
    if (d->ledger == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a ledger");
    if (!fb_variant_streamed(outcome->variant))
        fb_ledger_add(d->ledger, fb_reading_ledger(run->reading, entrant->index));
    fb_ledger_add(d->ledger, fb_variant_ledger(outcome->variant));
    fb_ledger_add(d->ledger, &outcome->answer->ledger);
    d->counts =
        fb_alloc(FB_ACCOUNT_other,
                 fb_size_mul((size_t)count_nonzero(d->ledger) + 1, sizeof *d->counts));
    if (d->counts == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a ledger");
    list_counts(d);
    d->row.counts = d->counts;
    return FB_OK;
}

/* What the cell would cost where no attention is kept, and what its answer costs. */
static fb_status add_prices(const fb_runner *run, draft *d, const fb_outcome *outcome)
{
    const fb_plan_sample *sample = &run->plan->samples[outcome->cell->sample];

    d->row.plain_flops = fb_ledger_plain(fb_reading_pass(run->reading));
    d->row.fused_flops = fb_ledger_fused(d->ledger);
    return fb_step_work(run->reading, outcome->variant, sample->prompt.n,
                        outcome->answer, &d->row.step_flops, &d->row.step_bytes);
}

static void add_peaks(const fb_runner *run, draft *d, const fb_outcome *outcome)
{
    const fb_peaks peaks = fb_run_peaks(run, outcome);

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++) {
            if (!peaks.has[p]) continue;
            d->peaks[d->row.n_peaks++] = (fb_store_peak){fb_phase_name((fb_phase)p),
                                                         fb_account_name((fb_account)a),
                                                         (int64_t)peaks.bytes[p][a]};
        }
    d->row.peaks = d->peaks;
}

static void add_times(const fb_runner *run, draft *d, const fb_outcome *outcome)
{
    d->times[0] = (fb_store_time){"context", run->read_ns, true};
    d->times[1] = (fb_store_time){"evict", outcome->evict_ns, outcome->evict_shared};
    d->times[2] = (fb_store_time){"answer", outcome->answer_ns, outcome->answer_shared};
    d->row.times = d->times;
    d->row.n_times = 3;
}

/* --- what it kept --- */

static bool stores_kept(const fb_runner *run, const fb_plan_sample *sample)
{
    const fb_values *values = &run->plan->spec->values;

    return fb_values_is(values, FB_SET_kept, "all") ||
           (fb_values_is(values, FB_SET_kept, "first") && sample->is_first);
}

static fb_status add_kept(const fb_runner *run, draft *d, const fb_kept *kept)
{
    const int64_t kv_heads = run->plan->shape.kv_heads;

    d->kept = fb_alloc(FB_ACCOUNT_other,
                       fb_size_mul((size_t)kept->n_slots + 1, sizeof *d->kept));
    if (d->kept == NULL) return fb_fail(FB_NO_MEMORY, "no memory for kept sets");
    for (int64_t slot = 0; slot < kept->n_slots; slot++)
        d->kept[slot] = (fb_store_kept){.layer = slot / kv_heads,
                                        .kv_head = slot % kv_heads,
                                        .n = kept->count[slot],
                                        .position = kept->position[slot]};
    d->row.kept = d->kept;
    d->row.n_kept = (int)kept->n_slots;
    return FB_OK;
}

/* What the cell had read by then. */
static int64_t count_read(const fb_runner *run, const fb_outcome *outcome)
{
    const fb_cache_shape *shape = &run->plan->shape;

    const int64_t n = outcome->answer->n_read;

    return shape->layers * shape->kv_heads *
           (n > 0 ? n : fb_reading_tokens(run->reading));
}

/* What its rule may keep beside the entries, paid or not; where all fits there is no need. */
static int64_t state_bytes(const fb_runner *run, const fb_outcome *outcome)
{
    if (outcome->cell->k >= fb_plan_tokens(run->plan, outcome->cell->sample)) return 0;
    return (int64_t)fb_variant_state_bytes(outcome->variant);
}

/* The most that its caches had in them: as text came in, the fullest a head was; where all
 * was read first, the full cache, and while entries move from it both. */
static int64_t highest_bytes(const fb_runner *run, const fb_outcome *outcome,
                             const fb_store_cell *row)
{
    const fb_cache_shape *shape = &run->plan->shape;
    const int64_t highest =
        fb_larger(outcome->answer->highest, fb_variant_highest(outcome->variant));
    const int64_t full = (int64_t)run->full_bytes;
    const int64_t entries =
        shape->layers * shape->kv_heads * highest * (int64_t)fb_entry_bytes(shape);

    if (highest > 0)
        return entries +
               (fb_run_pays_state(run->plan, outcome->cell) ? row->state_bytes : 0);
    if (fb_variant_streamed(outcome->variant)) return row->kept_bytes;
    return row->evicted > 0 || row->kept_bytes < full ? full + row->kept_bytes : full;
}

/* Counted from the selection and the arena, not from the settings. */
static fb_status add_budget(const fb_runner *run, draft *d, const fb_outcome *outcome)
{
    const fb_selection *selection = held(outcome);
    const fb_plan_sample *sample = &run->plan->samples[outcome->cell->sample];
    const int64_t read = count_read(run, outcome);
    fb_store_cell *row = &d->row;

    row->full_entries = run->plan->shape.layers * run->plan->shape.kv_heads *
                        fb_plan_tokens(run->plan, outcome->cell->sample);
    row->kept_entries = selection == NULL ? read : fb_kept_total(&selection->kept);
    row->budget_entries = selection == NULL ? read : selection->budget_entries;
    row->budget_bytes = outcome->cell->k * run->plan->shape.layers *
                        run->plan->shape.kv_heads *
                        (int64_t)fb_entry_bytes(&run->plan->shape);
    row->kept_bytes = (int64_t)fb_variant_bytes(outcome->variant);
    row->state_bytes = state_bytes(run, outcome);
    row->tail_bytes = (int64_t)outcome->answer->tail_bytes;
    row->evicted = read - row->kept_entries;
    row->peak_bytes = highest_bytes(run, outcome, row);
    fb_kept_sha256(selection == NULL ? NULL : &selection->kept, d->kept_sha256);
    row->kept_sha256 = d->kept_sha256;
    if (selection == NULL) return FB_OK;
    if (row->evicted == 0 && row->budget_entries < read)
        return fb_fail(FB_DEFECT, "nothing was evicted under a budget that binds");
    if (outcome->answer->highest > selection->k)
        return fb_fail(FB_DEFECT, "a head held %lld entries; the budget has %lld",
                       (long long)outcome->answer->highest, (long long)selection->k);
    row->free_choices = selection->free_choices;
    row->fallback = selection->fallback;
    row->shrunk = selection->shrunk;
    return stores_kept(run, sample) ? add_kept(run, d, &selection->kept) : FB_OK;
}

/* --- digest --- */

static const char *stop_name(fb_stop stop)
{
    static const char *const names[] = {"end", "length", "string"};

    return names[stop];
}

static void add_digest(const fb_runner *run, draft *d, const fb_outcome *outcome)
{
    const fb_plan *plan = run->plan;
    const fb_plan_sample *sample = &plan->samples[outcome->cell->sample];
    fb_digest_score scores[FB_MOST_SCORES];
    char budget[32];
    const fb_digest_cell facts = {
        .spec_sha256 = run->rows.spec_sha256,
        .model_sha256 = fb_model_get_facts(plan->model)->sha256,
        .sample_sha256 = sample->tokens_sha256,
        .task = fb_bound_task_get(plan->spec->tasks[sample->task])->name,
        .sample = sample->key,
        .rule = fb_bound_rule_text(plan->spec->rules[outcome->cell->rule].rule),
        .seed = outcome->cell->seed,
        .budget = budget,
        .budget_entries = d->row.budget_entries,
        .budget_bytes = d->row.budget_bytes,
        .kept_sha256 = d->kept_sha256,
        .ids = outcome->answer->ids,
        .n_ids = outcome->answer->n_ids,
        .stop = d->row.stop,
        .scores = scores,
        .n_scores = d->row.n_scores,
        .evicted = d->row.evicted,
        .fallback = d->row.fallback,
        .trace_context = d->row.trace_context,
        .trace_answer = d->row.trace_answer,
        .trace_decode = d->row.trace_decode,
    };

    fb_plan_budget_text(plan, outcome->cell->budget, budget, sizeof budget);
    for (int i = 0; i < d->row.n_scores; i++)
        scores[i] = (fb_digest_score){d->scores[i].metric, d->scores[i].value};
    fb_cell_digest(&facts, d->digest);
    d->row.digest = d->digest;
}

/* --- the row --- */

static fb_status fill(const fb_runner *run, draft *d, const fb_outcome *outcome)
{
    const fb_plan_sample *sample = &run->plan->samples[outcome->cell->sample];
    const fb_answer *answer = outcome->answer;
    const bool prompts = fb_values_flag(&run->plan->spec->values, FB_SET_prompts);

    d->row = fb_run_identity(run, outcome->cell);
    d->row.status = "done";
    add_pass_scores(d, sample, outcome);
    if (fb_plan_needs_text(sample)) {
        FB_TRY(decode_answer(run, d, sample, answer));
        FB_TRY(add_text_score(run, d, sample));
        d->row.answer = prompts ? d->answer : NULL;
        d->row.answer_tokens = prompts ? fb_text_string(&d->answer_tokens) : NULL;
        d->row.stop = stop_name(answer->stop);
    } else {
        add_pass_as_task_score(run, d, sample);
    }
    d->row.scores = d->scores;
    d->row.cache_sha256 = fb_reading_cache_sha256(run->reading);
    d->row.trace_context = fb_variant_trace(outcome->variant);
    d->row.trace_answer = answer->trace_answer;
    d->row.trace_decode = answer->trace_decode;
    FB_TRY(add_budget(run, d, outcome));
    FB_TRY(add_counts(run, d, outcome));
    FB_TRY(add_prices(run, d, outcome));
    add_peaks(run, d, outcome);
    add_times(run, d, outcome);
    add_digest(run, d, outcome);
    return FB_OK;
}

static void count_marks(fb_runner *run, const fb_store_cell *row, bool has_budget)
{
    run->result->done++;
    run->result->fallback += row->fallback;
    run->result->shrunk += row->shrunk;
    run->result->no_choice += row->evicted > 0 && row->free_choices == 0 && has_budget;
}

static void advance(fb_runner *run, const fb_cell *cell)
{
    run->work_done += fb_run_cell_work(run, cell);
    run->progress.cells++;
    fb_run_tell(run, "cell", NULL);
}

fb_status fb_run_store_cell(fb_runner *run, const fb_outcome *outcome)
{
    draft *d = fb_zalloc(FB_ACCOUNT_other, sizeof *d);
    fb_status status;

    if (d == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a cell");
    fb_text_init(&d->answer_tokens, 0);
    status = fill(run, d, outcome);
    if (status == FB_OK) status = fb_store_put_cell(run->store, &d->row);
    if (status == FB_OK) {
        count_marks(run, &d->row, outcome->cell->budget >= 0);
        advance(run, outcome->cell);
    }
    fb_text_clear(&d->answer_tokens);
    fb_free(d->answer);
    fb_free(d->kept);
    fb_free(d->counts);
    fb_free(d->ledger);
    fb_free(d);
    if (fb_run_is_own_fault(status))
        return fb_run_store_failure(run, outcome->cell, fb_error_message());
    return status;
}

fb_status fb_run_store_failure(fb_runner *run, const fb_cell *cell, const char *reason)
{
    const fb_plan_sample *sample = &run->plan->samples[cell->sample];
    const char *label = run->plan->spec->rules[cell->rule].label;
    const char *task = fb_bound_task_get(run->plan->spec->tasks[sample->task])->name;
    fb_run_result *result = run->result;
    fb_store_cell row = fb_run_identity(run, cell);
    char text[512];
    fb_status status;

    (void)snprintf(text, sizeof text, "%s", reason); /* lent until the next failure */
    row.status = "failed";
    row.reason = text;
    row.plain_flops = row.fused_flops = (double)NAN;
    row.step_flops = row.step_bytes = (double)NAN;
    status = fb_store_put_cell(run->store, &row);
    if (status != FB_OK) return status;
    if (result->failed++ == 0) {
        (void)snprintf(result->reason, sizeof result->reason, "%.*s",
                       (int)sizeof result->reason - 1, text);
        (void)snprintf(result->failed_rule, sizeof result->failed_rule, "%s", label);
        (void)snprintf(result->failed_sample, sizeof result->failed_sample, "%s/%s",
                       task, sample->key);
    }
    advance(run, cell);
    if (run->options->fail_fast)
        return fb_fail(FB_DEFECT, "rule '%s', sample %s/%s: %s", label, task,
                       sample->key, text);
    return FB_OK;
}
