/* ask.c - see ask.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/ask.h"

#include "base/time.h"
#include "experiment/run_inside.h"

#include <string.h>

/* One question at work. */
typedef struct asking {
    fb_ask *ask;
    fb_ops *ops;
    const fb_ask_options *options;
    fb_engine *engine;
    fb_seeded_rule *rules; /* [n_rules] that differ, for the reading */
    int *rule_of;          /* [n] of each answer, among them */
    int n_rules;
    fb_reading *reading;
    fb_variant **variants; /* [n] */
    int64_t begin_ns;      /* of the answers */
} asking;

/* --- the answers --- */

static fb_status open_answer(fb_ask *ask, int i)
{
    const fb_plan_sample *sample = &ask->plan->samples[0];
    fb_asked *answer = &ask->answers[i];

    answer->cell = &ask->cells[i];
    answer->ids = fb_alloc(
        FB_ACCOUNT_other, fb_size_mul((size_t)sample->max_tokens, sizeof *answer->ids));
    if (answer->ids == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an answer");
    if (ask->full < 0 && answer->cell->budget < 0) ask->full = i;
    return FB_OK;
}

fb_status fb_ask_init(fb_ask *ask, const fb_plan *plan)
{
    *ask = (fb_ask){.plan = plan, .full = -1};
    FB_TRY(fb_plan_cells(plan, 0, NULL, &ask->cells, &ask->n));
    ask->answers =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)ask->n, sizeof *ask->answers));
    if (ask->answers == NULL) return fb_fail(FB_NO_MEMORY, "no memory for answers");
    for (int i = 0; i < ask->n; i++)
        FB_TRY(open_answer(ask, i));
    return FB_OK;
}

void fb_ask_clear(fb_ask *ask)
{
    for (int i = 0; ask->answers != NULL && i < ask->n; i++) {
        fb_free(ask->answers[i].ids);
        fb_text_clear(&ask->answers[i].text);
    }
    fb_free(ask->answers);
    fb_free(ask->cells);
    *ask = (fb_ask){0};
}

int64_t fb_ask_differs(const fb_ask *ask, int answer)
{
    const fb_asked *a = &ask->answers[answer], *b = &ask->answers[ask->full];
    const int64_t n = a->n_ids < b->n_ids ? a->n_ids : b->n_ids;

    for (int64_t i = 0; i < n; i++)
        if (a->ids[i] != b->ids[i]) return i + 1;
    /* The one that has said less has not said less for good until it is over. */
    if (a->n_ids == b->n_ids || !(a->n_ids < b->n_ids ? a : b)->is_over) return 0;
    return n + 1;
}

/* --- telling --- */

static void tell(const asking *a)
{
    if (a->options->watch != NULL) a->options->watch(a->options->self, a->ask);
}

static bool is_stopped(const asking *a)
{
    return a->options->stop != NULL && *a->options->stop != 0;
}

/* An fb_watch: sees how far the reading is, and ends any pass on request. */
static void follow(void *self, fb_ops *ops, const char *what, int64_t layer,
                   int64_t first_row, fb_tensor tensor)
{
    const asking *a = self;
    const int64_t n = a->ask->plan->documents[0].context.n;

    (void)tensor;
    if (is_stopped(a)) fb_ops_refuse(ops, fb_fail(FB_STOPPED, "stopped on request"));
    if (a->reading != NULL || strcmp(what, "attention_in") != 0) return;
    if (first_row >= n) return; /* some rule has it read again */
    a->ask->read = layer * n + first_row;
    a->ask->read_total = fb_model_get_facts(a->ask->plan->model)->layers * n;
    tell(a);
}

/* --- reading --- */

static bool is_same_rule(const fb_cell *a, const fb_cell *b)
{
    return a->rule == b->rule && a->seed == b->seed;
}

/* A rule at two budgets is scored once. */
static void list_rules(asking *a)
{
    const fb_cell *cells = a->ask->cells;

    for (int i = 0; i < a->ask->n; i++) {
        int before = 0;

        while (!is_same_rule(&cells[before], &cells[i]))
            before++;
        a->rule_of[i] = before < i ? a->rule_of[before] : a->n_rules;
        if (before < i) continue;
        a->rules[a->n_rules++] = (fb_seeded_rule){
            a->ask->plan->spec->rules[cells[i].rule].rule, cells[i].seed};
    }
}

static fb_status read_text(asking *a)
{
    const fb_plan_document *document = &a->ask->plan->documents[0];
    const int64_t begin = fb_time_ns();
    const fb_status status =
        fb_read(&a->reading, a->engine, document->context.ids, document->context.n,
                a->rules, a->n_rules, document->stream);

    a->ask->read_ns = fb_time_ns() - begin;
    if (status != FB_OK) return status;
    a->ask->read = a->ask->read_total;
    a->ask->full_bytes = fb_cache_bytes(fb_reading_cache(a->reading));
    a->ask->window_bytes =
        fb_window_bytes(fb_model_get_facts(a->ask->plan->model),
                        a->ask->plan->shape.type, document->context.n);
    return FB_OK;
}

/* --- evicting --- */

static fb_status evict(asking *a, int i)
{
    const fb_plan *plan = a->ask->plan;
    const fb_cell *cell = &a->ask->cells[i];
    fb_asked *answer = &a->ask->answers[i];
    const fb_selection *selection;

    FB_TRY(cell->budget < 0 ? fb_keep_all(&a->variants[i], a->reading)
                            : fb_evict(&a->variants[i], a->reading, a->rule_of[i],
                                       &plan->spec->protect,
                                       plan->documents[0].protect_last, cell->k));
    selection = fb_variant_selection(a->variants[i]);
    answer->kept_bytes = fb_variant_bytes(a->variants[i]);
    answer->kept_entries = selection == NULL
                               ? fb_cache_total(fb_reading_cache(a->reading))
                               : fb_kept_total(&selection->kept);
    if (selection == NULL) return FB_OK;
    answer->fallback = selection->fallback;
    answer->shrunk = selection->shrunk;
    answer->free_choices = selection->free_choices;
    return FB_OK;
}

/* --- answering --- */

static fb_status is_done(void *self, const int32_t *ids, int64_t n, bool *out)
{
    const fb_plan *plan = ((const asking *)self)->ask->plan;

    return fb_run_has_stopped(plan, &plan->samples[0], ids, n, out);
}

static void add_text(const asking *a, fb_asked *answer, int32_t id)
{
    const fb_tokenizer *tokenizer = fb_model_tokenizer(a->ask->plan->model);
    size_t n;
    const char *bytes = fb_tokenizer_bytes(tokenizer, id, true, &n);

    fb_text_add(&answer->text, bytes, n);
}

static void finish_text(const asking *a, fb_asked *answer)
{
    fb_text *text = &answer->text;

    if (text->n == 0) return;
    text->n = fb_run_answer_length(&a->ask->plan->samples[0], text->bytes, text->n);
    text->bytes[text->n] = '\0';
}

/* The watch of fb_answer_options. */
static fb_status grow(void *self, const fb_growth *growth)
{
    const asking *a = self;
    fb_asked *answer = &a->ask->answers[growth->variant];

    for (int64_t i = growth->n - growth->n_new; i < growth->n; i++) {
        answer->ids[answer->n_ids++] = growth->ids[i];
        add_text(a, answer, growth->ids[i]);
    }
    answer->ns = fb_time_ns() - a->begin_ns;
    answer->is_over = growth->is_over;
    answer->stop = growth->stop;
    if (growth->is_over) finish_text(a, answer);
    FB_TRY(fb_text_status(&answer->text));
    tell(a);
    return is_stopped(a) ? fb_fail(FB_STOPPED, "stopped on request") : FB_OK;
}

/* Where no answer is read from the full cache it is given back. */
static fb_status let_go(asking *a)
{
    for (int i = 0; i < a->ask->n; i++)
        if (!fb_variant_is_alone(a->variants[i])) return FB_OK;
    return fb_reading_let_go(a->reading);
}

static fb_status answer_all(asking *a)
{
    const fb_plan_sample *sample = &a->ask->plan->samples[0];
    const fb_question question = fb_run_question(sample);
    fb_answer_options options = fb_run_answer_options(sample);
    fb_answer *out =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)a->ask->n, sizeof *out));
    fb_status status;

    if (out == NULL) return fb_fail(FB_NO_MEMORY, "no memory for answers");
    options.is_done = is_done;
    options.watch = grow;
    options.self = a;
    status = question.n_answer == 0 ? let_go(a) : FB_OK;
    a->begin_ns = fb_time_ns();
    if (status == FB_OK)
        status = fb_answer_group(a->reading, a->variants, a->ask->n, &question,
                                 &options, out);
    a->ask->answer_ns = fb_time_ns() - a->begin_ns;
    for (int i = 0; i < a->ask->n; i++)
        fb_answer_clear(&out[i]);
    fb_free(out);
    return status;
}

/* --- memory --- */

/* The full cache, what every variant keeps, and all answers at once. */
static fb_status check_memory(const asking *a)
{
    const fb_plan *plan = a->ask->plan;
    const fb_run_options options = {.memory = a->options->memory};
    const double limit = (double)fb_run_limit(plan, &options);
    const fb_question question = fb_run_question(&plan->samples[0]);
    const fb_answer_options how = fb_run_answer_options(&plan->samples[0]);
    const double each = (double)fb_answer_bytes(fb_model_get_facts(plan->model),
                                                plan->shape.type, &question, &how);
    double need, reading;

    FB_TRY(fb_run_reading_bytes(plan, plan->documents[0].context.n, &reading));
    need = fb_run_bytes_now() + reading + (double)a->ask->n * each;
    for (int i = 0; i < a->ask->n; i++)
        need += fb_run_cell_bytes(plan, &a->ask->cells[i]);
    if (need <= limit) return FB_OK;
    return fb_run_refuse_memory(limit, need, "all answers at once need",
                                "fewer rules, or a shorter text");
}

/* --- all of it --- */

static fb_status open_asking(asking *a)
{
    fb_engine_options options = fb_run_engine_options(a->ask->plan);
    const size_t n = (size_t)a->ask->n;

    a->rules = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *a->rules));
    a->rule_of = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *a->rule_of));
    a->variants = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof(fb_variant *)));
    if (a->rules == NULL || a->rule_of == NULL || a->variants == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for answers");
    list_rules(a);
    options.watch = follow;
    options.watch_self = a;
    return fb_engine_open(&a->engine, a->ops, a->ask->plan->model, &options);
}

static void close_asking(asking *a)
{
    for (int i = 0; a->variants != NULL && i < a->ask->n; i++)
        fb_variant_free(a->variants[i]);
    fb_reading_free(a->reading);
    fb_engine_close(a->engine);
    fb_free(a->variants);
    fb_free(a->rule_of);
    fb_free(a->rules);
}

fb_status fb_ask_run(fb_ask *ask, fb_ops *ops, const fb_ask_options *options)
{
    asking a = {.ask = ask, .ops = ops, .options = options};
    fb_status status = open_asking(&a);

    if (status == FB_OK) status = check_memory(&a);
    if (status == FB_OK) status = read_text(&a);
    for (int i = 0; status == FB_OK && i < ask->n; i++)
        status = evict(&a, i);
    if (status == FB_OK) status = answer_all(&a);
    if (status != FB_OK) fb_ops_reset(ops);
    close_asking(&a);
    return status;
}
