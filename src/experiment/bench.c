/* bench.c - the repetitions of a bench: read, evict, answer, each timed by itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/bench.h"

#include "base/number.h"
#include "base/time.h"
#include "experiment/run_inside.h"

#include <flexbudget/task.h>
#include <string.h>

const char *const fb_bench_names[FB_BENCH_WHATS] = {"read", "evict", "first_token",
                                                    "token"};
const char *const fb_bench_phases[FB_BENCH_PHASES] = {"read", "evict", "answer"};
enum { READING, EVICTING, ANSWERING };

/* Of orders; any will do, but two calls are to have the same. */
static const uint64_t order_seed = 1;

/* A repetition at work. */
typedef struct turn {
    fb_bench *b;
    fb_ops *ops;
    fb_engine *engine;
    fb_random random;
    int at;          /* its number; -1: it warms up, and nothing is noted */
    int n_done;      /* arms of it */
    int *rules;      /* [n_rules] of the spec, in the order of this turn */
    int64_t *stamps; /* [answer] when each token was there */
    int64_t n_stamps;
    fb_reading *reading;
    int64_t begin_ns; /* of the first one */
    int64_t look_ns;  /* that looks at the device took since */
} turn;

/* --- what was seen --- */

static void note(const turn *t, fb_bench_arm *arm, fb_bench_what what, int64_t ns)
{
    if (t->at >= 0) arm->seconds[what][t->at] = (double)ns * 1e-9;
}

static void note_peaks(fb_bench_arm *arm, int phase)
{
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        arm->peak[phase][a] = fb_memory_peak((fb_account)a);
    fb_memory_reset_peaks();
}

static fb_status check_stop(const turn *t)
{
    const volatile sig_atomic_t *stop = t->b->options.stop;

    return stop != NULL && *stop != 0 ? fb_fail(FB_STOPPED, "stopped on request")
                                      : FB_OK;
}

/* --- answering --- */

/* The watch of fb_answer_options. */
static fb_status stamp(void *self, const fb_growth *growth)
{
    turn *t = self;

    (void)growth;
    t->stamps[t->n_stamps++] = fb_time_ns();
    return check_stop(t);
}

static void note_tokens(const turn *t, fb_bench_arm *arm, int64_t begin_ns)
{
    const int64_t n = t->b->options.answer - 1; /* behind the first */
    const int64_t all = t->stamps[n] - t->stamps[0];

    if (t->at < 0) return;
    note(t, arm, FB_BENCH_FIRST, t->stamps[0] - begin_ns);
    arm->seconds[FB_BENCH_TOKEN][t->at] = (double)all * 1e-9 / (double)n;
    for (int64_t i = 0; i < n; i++)
        arm->steps[t->at * n + i] = (double)(t->stamps[i + 1] - t->stamps[i]) * 1e-9;
}

static fb_status answer(turn *t, fb_bench_arm *arm, fb_variant *variant)
{
    const fb_bench *b = t->b;
    const fb_question question = {.prompt = b->ids.ids + b->options.context,
                                  .n_prompt = 1};
    const fb_answer_options how = {.generate = true,
                                   .max_tokens = b->options.answer,
                                   .goes_past_end = true,
                                   .watch = stamp,
                                   .self = t};
    const int64_t begin_ns = fb_time_ns();
    fb_answer said;

    t->n_stamps = 0;
    FB_TRY(fb_answer_group(t->reading, &variant, 1, &question, &how, &said));
    note_tokens(t, arm, begin_ns);
    arm->tail_bytes = said.tail_bytes;
    fb_ledger_add(&arm->ledger, &said.ledger);
    fb_answer_clear(&said);
    return FB_OK;
}

/* --- one arm --- */

/* Its rule is the only one of the reading. */
static fb_status evict(turn *t, fb_bench_arm *arm, fb_variant **out)
{
    const int64_t begin_ns = fb_time_ns();

    FB_TRY(arm->budget < 0
               ? fb_keep_all(out, t->reading)
               : fb_evict(out, t->reading, 0, &t->b->spec->protect, 0, arm->k));
    note(t, arm, FB_BENCH_EVICT,
         fb_time_ns() - begin_ns + fb_reading_score_ns(t->reading, 0));
    arm->kept_bytes = fb_variant_bytes(*out);
    arm->ledger = *fb_reading_ledger(t->reading, 0);
    fb_ledger_add(&arm->ledger, fb_variant_ledger(*out));
    return FB_OK;
}

static fb_status run_arm(turn *t, int i)
{
    fb_bench_arm *arm = &t->b->arms[i];
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    fb_variant *variant = NULL;
    fb_status status;

    fb_memory_reset_peaks();
    status = evict(t, arm, &variant);
    note_peaks(arm, EVICTING);
    if (status == FB_OK) status = answer(t, arm, variant);
    note_peaks(arm, ANSWERING);
    arm->held_bytes = arm->peak[ANSWERING][FB_ACCOUNT_kv] - before;
    if (arm->budget < 0) arm->held_bytes += arm->kept_bytes;
    fb_variant_free(variant);
    if (status == FB_OK && t->at >= 0)
        t->b->order[t->at * t->b->n_arms + t->n_done++] = i;
    return status;
}

/* --- one rule --- */

static fb_status read_context(turn *t, int rule)
{
    const fb_spec *spec = t->b->spec;
    const fb_seeded_rule seeded = {spec->rules[rule].rule, spec->seeds[0]};

    fb_memory_reset_peaks();
    FB_TRY(fb_read(&t->reading, t->engine, t->b->ids.ids, t->b->options.context,
                   &seeded, 1, 1));
    for (int i = 0; i < t->b->n_arms; i++)
        if (t->b->arms[i].rule == rule) {
            fb_bench_arm *arm = &t->b->arms[i];

            note(t, arm, FB_BENCH_READ,
                 fb_reading_ns(t->reading) - fb_reading_score_ns(t->reading, 0));
            for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
                arm->peak[READING][a] = fb_memory_peak((fb_account)a);
        }
    return FB_OK;
}

/* Fisher and Yates. */
static void shuffle(fb_random *random, int *list, int n)
{
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)fb_random_below(random, (uint64_t)i + 1);
        const int kept = list[i];

        list[i] = list[j];
        list[j] = kept;
    }
}

static fb_status run_budgets(turn *t, int rule)
{
    int *arms = fb_alloc(FB_ACCOUNT_other, (size_t)t->b->n_arms * sizeof *arms);
    fb_status status = FB_OK;
    int n = 0;

    if (arms == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a repetition");
    for (int i = 0; i < t->b->n_arms; i++)
        if (t->b->arms[i].rule == rule) arms[n++] = i;
    shuffle(&t->random, arms, n);
    for (int i = 0; status == FB_OK && i < n; i++)
        status = run_arm(t, arms[i]);
    fb_free(arms);
    return status;
}

static fb_status run_rule(turn *t, int rule)
{
    fb_status status = check_stop(t);

    if (status == FB_OK) status = read_context(t, rule);
    if (status == FB_OK) status = run_budgets(t, rule);
    fb_reading_free(t->reading);
    t->reading = NULL;
    return fb_context(status, "%s", t->b->spec->rules[rule].label);
}

/* --- one repetition --- */

/* The numbers of a profile, in the order of fb_bench.device. */
static void list_rates(fb_profile *p, double *out[FB_BENCH_DEVICE])
{
    out[0] = &p->flops_per_s;
    out[1] = &p->bytes_per_s;
    out[2] = &p->seconds_per_call;
    out[3] = &p->row_flops_per_s;
    out[4] = &p->attention_flops_per_s;
    out[5] = &p->attention_bytes_per_s;
}

static fb_status look_at_device(turn *t)
{
    double *rates[FB_BENCH_DEVICE];
    const int64_t begin_ns = fb_time_ns();
    fb_bench *b = t->b;

    if (t->at < 0 || !b->options.measures_device) return FB_OK;
    FB_TRY(fb_profile_measure(&b->profile, t->ops, b->model, b->shape.type));
    list_rates(&b->profile, rates);
    for (int i = 0; i < FB_BENCH_DEVICE; i++)
        b->device[i][t->at] = *rates[i];
    t->look_ns += fb_time_ns() - begin_ns;
    return FB_OK;
}

static fb_status repeat(turn *t, int at)
{
    const int n = t->b->spec->n_rules;

    t->at = at;
    t->n_done = 0;
    FB_TRY(look_at_device(t));
    for (int i = 0; i < n; i++)
        t->rules[i] = i;
    shuffle(&t->random, t->rules, n);
    for (int i = 0; i < n; i++)
        FB_TRY(run_rule(t, t->rules[i]));
    if (at >= 0)
        t->b->n++;
    else
        t->b->warmups++;
    return FB_OK;
}

/* --- all of them --- */

/* Of the limit: looks at the device are none of it. */
static int64_t spent_ns(const turn *t)
{
    return fb_time_ns() - t->begin_ns - t->look_ns;
}

/* Whether `more` repetitions as long as the longest so far end in time. */
static bool has_time(const turn *t, int64_t longest_ns, int more)
{
    const int64_t limit_ns = t->b->options.limit_ns;

    return limit_ns == 0 || spent_ns(t) + more * longest_ns <= limit_ns;
}

static fb_status repeat_all(turn *t)
{
    fb_bench *b = t->b;
    const int of = b->options.warmup + b->options.repetitions;
    int64_t longest_ns = 0;

    t->begin_ns = fb_time_ns();
    for (int i = 0; i < of; i++) {
        const bool warms = i < b->options.warmup;
        const int64_t before_ns = spent_ns(t);

        /* One is measured, whatever it takes; a second warm-up leaves room for it. */
        if (!has_time(t, longest_ns, warms ? 2 : 1) && (warms || b->n > 0)) {
            b->is_cut = true;
            continue;
        }
        if (b->options.watch != NULL) b->options.watch(b->options.self, i, of);
        FB_TRY(repeat(t, warms ? -1 : b->n));
        b->repetitions_ns = spent_ns(t);
        longest_ns = fb_larger(longest_ns, b->repetitions_ns - before_ns);
    }
    return FB_OK;
}

static fb_status sum_up_device(fb_bench *b)
{
    double *rates[FB_BENCH_DEVICE];

    if (!b->options.measures_device || b->n == 0) return FB_OK;
    list_rates(&b->profile, rates);
    for (int i = 0; i < FB_BENCH_DEVICE; i++)
        FB_TRY(fb_median_of(rates[i], b->device[i], b->n));
    return FB_OK;
}

static fb_status open_turn(turn *t)
{
    const fb_bench *b = t->b;
    const fb_plan plan = {.spec = b->spec, .model = b->model, .shape = b->shape};
    fb_engine_options options = fb_run_engine_options(&plan);

    options.turn_end = NULL; /* as the model's own template has it */
    fb_random_seed(&t->random, order_seed, 0);
    t->rules = fb_alloc(FB_ACCOUNT_other, (size_t)b->spec->n_rules * sizeof *t->rules);
    t->stamps = fb_alloc(FB_ACCOUNT_other,
                         fb_size_mul((size_t)b->options.answer, sizeof *t->stamps));
    if (t->rules == NULL || t->stamps == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a repetition");
    return fb_engine_open(&t->engine, t->ops, b->model, &options);
}

fb_status fb_bench_run(fb_bench *b, fb_ops *ops)
{
    turn t = {.b = b, .ops = ops};
    const int64_t begin_ns = fb_time_ns();
    fb_status status = open_turn(&t), summed;

    fb_disturbance_begin(&b->disturbance);
    if (status == FB_OK) status = repeat_all(&t);
    fb_disturbance_end(&b->disturbance);
    b->ns = fb_time_ns() - begin_ns;
    if (status != FB_OK) fb_ops_reset(ops);
    fb_engine_close(t.engine);
    fb_free(t.stamps);
    fb_free(t.rules);
    if (status != FB_OK && status != FB_STOPPED) return status;
    summed = sum_up_device(b);
    return summed != FB_OK ? summed : status;
}
