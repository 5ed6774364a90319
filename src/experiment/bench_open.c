/* bench_open.c - what a bench measures: arms, the ids of its context, room for its samples.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/bench.h"

#include "experiment/forecast.h"
#include "experiment/run_inside.h"

#include <flexbudget/task.h>
#include <stdio.h>
#include <string.h>

/* --- the context --- */

static const char book[] = "austen_emma"; /* of the library */

/* Ids of the text, over and over. Where none of its characters has a token: all ids. */
static fb_status fill_context(fb_bench *b, const fb_ids *text)
{
    const int64_t n = b->options.context + 1;
    const int64_t size = fb_tokenizer_size(fb_model_tokenizer(b->model));
    const int32_t bos = fb_tokenizer_bos(fb_model_tokenizer(b->model));
    int64_t used = 0;

    if (bos >= 0) FB_TRY(fb_ids_add(&b->ids, bos));
    for (; b->ids.n < n; used++)
        FB_TRY(fb_ids_add(&b->ids, text->n > 0 ? text->ids[used % text->n]
                                               : (int32_t)(used % size)));
    return FB_OK;
}

/* No more of a long text is cut into tokens than can be needed: a token has a byte. */
static size_t text_bytes(const fb_bench_options *o, const char *text, size_t n)
{
    const size_t most = (size_t)o->context * 16 + 1024;

    while (n > most && fb_utf8_length(text + most, n - most) == 0)
        n--;
    return n > most ? most : n;
}

static fb_status make_ids(fb_bench *b)
{
    const fb_bench_options *o = &b->options;
    const char *text = o->text != NULL ? o->text : fb_library_find(book)->text;
    const size_t n = o->text != NULL ? o->n_text : strlen(text);
    const fb_piece piece = {.bytes = text, .n = text_bytes(o, text, n)};
    fb_ids ids = {0};
    fb_status status =
        fb_tokenizer_encode(fb_model_tokenizer(b->model), &piece, 1, &ids);

    if (status == FB_OK && ids.n == 0 && o->text != NULL)
        status = fb_fail(FB_FORMAT, "the text has no tokens of this model");
    if (status == FB_OK) status = fill_context(b, &ids);
    fb_ids_clear(&ids);
    return status;
}

static fb_status check_length(const fb_bench *b)
{
    const fb_model_facts *facts = fb_model_get_facts(b->model);
    const int64_t n = b->options.context + 1 + b->options.answer;

    FB_TRY(fb_forecast_check_length(facts, n, "a smaller --context or --answer"));
    return fb_reading_fits(facts, n);
}

/* --- arms --- */

static const fb_choices *choices_of(const fb_bench *b, int rule)
{
    return fb_bound_rule_choices(b->spec->rules[rule].rule);
}

static fb_status entries_of(const fb_bench *b, int budget, int64_t *out)
{
    char name[64], prefix[80];

    *out = fb_budget_entries(&b->spec->budgets[budget], &b->shape, b->options.context,
                             FB_ROUND_EXACT);
    fb_budget_print(&b->spec->budgets[budget], name, sizeof name);
    if (*out < 1)
        return fb_fail(FB_BUDGET, "budget of %s is below one entry per head", name);
    if (*out >= b->options.context) return FB_OK;
    (void)snprintf(prefix, sizeof prefix, "%s or ", name);
    return fb_spec_check_arithmetic(&b->spec->protect, *out, prefix);
}

static fb_status add_arm(fb_bench *b, int rule, int budget)
{
    fb_bench_arm *arm = &b->arms[b->n_arms];

    *arm = (fb_bench_arm){
        .rule = rule, .budget = budget, .k = b->options.context, .versus = -1};
    if (budget >= 0) FB_TRY(entries_of(b, budget, &arm->k));
    arm->holds_all = budget >= 0 && arm->k >= b->options.context;
    b->n_arms++;
    return FB_OK;
}

static fb_status add_arms(fb_bench *b)
{
    const fb_spec *spec = b->spec;

    b->arms = fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)spec->n_rules *
                                                          ((size_t)spec->n_budgets + 1),
                                                      sizeof *b->arms));
    if (b->arms == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a bench");
    for (int r = 0; r < spec->n_rules; r++) {
        const bool keeps_all = choices_of(b, r)->keeps_all;

        if (keeps_all) FB_TRY(add_arm(b, r, -1));
        for (int i = 0; !keeps_all && i < spec->n_budgets; i++)
            FB_TRY(add_arm(b, r, i));
    }
    return FB_OK;
}

/* --- the baseline --- */

static int first_full(const fb_bench *b)
{
    for (int r = 0; r < b->spec->n_rules; r++)
        if (choices_of(b, r)->keeps_all) return r;
    return 0;
}

/* One that evicts is a baseline at each budget. */
static fb_status set_baseline(fb_bench *b)
{
    const char *asked = b->options.baseline;
    const int rule = asked == NULL ? first_full(b) : fb_spec_find_rule(b->spec, asked);

    if (rule < 0)
        return fb_fail(FB_USAGE, "baseline '%s' is not one of the rules", asked);
    for (int i = 0; i < b->n_arms; i++)
        for (int j = 0; b->arms[i].rule != rule && j < b->n_arms; j++)
            if (b->arms[j].rule == rule &&
                (b->arms[j].budget < 0 || b->arms[j].budget == b->arms[i].budget))
                b->arms[i].versus = j;
    return FB_OK;
}

/* --- memory --- */

static fb_status check_memory(const fb_bench *b)
{
    const fb_plan plan = {.spec = b->spec, .model = b->model, .shape = b->shape};
    const fb_run_options limits = {.memory = b->options.memory};
    const double limit = (double)fb_run_limit(&plan, &limits);
    const fb_question question = {.n_prompt = 1};
    const fb_answer_options how = {.generate = true, .max_tokens = b->options.answer};
    double own = 0, reading, need;

    for (int i = 0; i < b->n_arms; i++) {
        const fb_cell cell = {
            .rule = b->arms[i].rule, .budget = b->arms[i].budget, .k = b->arms[i].k};
        const double bytes = fb_run_cell_bytes(&plan, &cell);

        if (bytes > own) own = bytes;
    }
    FB_TRY(fb_run_reading_bytes(&plan, b->options.context, &reading));
    need = fb_run_bytes_now() + own + reading +
           (double)fb_answer_bytes(fb_model_get_facts(b->model), b->shape.type,
                                   &question, &how);
    if (need > limit)
        return fb_run_refuse_memory(limit, need, "one rule alone needs",
                                    "a smaller --context");
    need = fb_run_bytes_now() + fb_profile_measure_bytes(b->model, b->shape.type);
    if (!b->options.measures_device || need <= limit) return FB_OK;
    return fb_run_refuse_memory(limit, need, "measuring the device needs",
                                "--profile with the numbers of one");
}

/* Four bytes of a weight in the ledger are so many in memory. */
static double weight_share(const fb_bench *b)
{
    const fb_model_facts *f = fb_model_get_facts(b->model);
    const double width = (double)f->width;
    const double layer =
        width * (double)((2 * f->heads + 2 * f->kv_heads) * f->head_dim) +
        3 * width * (double)f->ffn;
    const bool is_tied = fb_model_head(b->model).id == fb_model_embedding(b->model).id;
    const double numbers =
        (double)f->layers * layer + (is_tied ? 1 : 2) * width * (double)f->vocabulary;
    const double bytes = fb_spec_is_torch(b->spec)
                             ? (double)fb_memory_now(FB_ACCOUNT_weights)
                             : (double)f->weight_bytes;

    return bytes < 4 * numbers * 0.95 ? bytes / (4 * numbers) : 1;
}

/* --- room --- */

static double *room_of(int64_t n)
{
    return fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof(double)));
}

static fb_status open_room(fb_bench *b)
{
    const int64_t n = b->options.repetitions;
    bool has_all = true;

    b->order = fb_zalloc(FB_ACCOUNT_other,
                         fb_size_mul((size_t)n * (size_t)b->n_arms, sizeof *b->order));
    for (int i = 0; i < FB_BENCH_DEVICE; i++)
        has_all = (b->device[i] = room_of(n)) != NULL && has_all;
    for (int i = 0; i < b->n_arms; i++) {
        for (int w = 0; w < FB_BENCH_WHATS; w++)
            has_all = (b->arms[i].seconds[w] = room_of(n)) != NULL && has_all;
        b->arms[i].steps = room_of(n * (b->options.answer - 1));
        has_all = has_all && b->arms[i].steps != NULL;
    }
    if (b->order != NULL && has_all) return FB_OK;
    return fb_fail(FB_NO_MEMORY, "no memory for the times of a bench");
}

fb_status fb_bench_init(fb_bench *b, const fb_spec *spec, const fb_model *model,
                        const fb_bench_options *options)
{
    const fb_model_facts *facts = fb_model_get_facts(model);

    *b = (fb_bench){.spec = spec, .model = model, .options = *options};
    b->shape = (fb_cache_shape){facts->global_layers, facts->kv_heads, facts->head_dim,
                                fb_spec_cache(spec)};
    FB_TRY(check_length(b));
    FB_TRY(add_arms(b));
    FB_TRY(set_baseline(b));
    FB_TRY(check_memory(b));
    FB_TRY(make_ids(b));
    b->weight_share = weight_share(b);
    return open_room(b);
}

void fb_bench_clear(fb_bench *b)
{
    for (int i = 0; b->arms != NULL && i < b->n_arms; i++) {
        for (int w = 0; w < FB_BENCH_WHATS; w++)
            fb_free(b->arms[i].seconds[w]);
        fb_free(b->arms[i].steps);
    }
    for (int i = 0; i < FB_BENCH_DEVICE; i++)
        fb_free(b->device[i]);
    fb_free(b->order);
    fb_free(b->arms);
    fb_ids_clear(&b->ids);
    *b = (fb_bench){0};
}
