/* plan.c - documents of all tasks, checked budgets, and the cells on them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "experiment/plan_inside.h"
#include "task/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- template --- */

static fb_status choose_template(fb_plan *plan)
{
    const char *family = fb_values_text(&plan->spec->values, FB_SET_template);

    plan->template = *fb_model_template(plan->model);
    if (strcmp(family, "auto") != 0)
        return fb_context(fb_template_choose(&plan->template, family),
                          "model.template");
    return fb_context(fb_template_check(&plan->template), "model '%s'",
                      fb_values_text(&plan->spec->values, FB_SET_model));
}

/* --- budgets against contexts --- */

static fb_rounding rounding_of(const fb_plan *plan)
{
    return fb_values_is(&plan->spec->values, FB_SET_rounding, "kvpress")
               ? FB_ROUND_KVPRESS
               : FB_ROUND_EXACT;
}

int64_t fb_plan_entries(const fb_plan *plan, int budget, int64_t n)
{
    if (budget < 0) return n;
    return fb_budget_entries(&plan->spec->budgets[budget], &plan->shape, n,
                             rounding_of(plan));
}

bool fb_plan_needs_text(const fb_plan_sample *sample)
{
    const fb_metric *metric;

    if (sample->metric == NULL) return true; /* of a question of the user's it is all */
    metric = fb_metric_find(sample->metric);
    return !sample->continues && metric != NULL && metric->kind == FB_METRIC_TEXT;
}

int64_t fb_plan_tokens(const fb_plan *plan, int sample)
{
    const fb_plan_sample *s = &plan->samples[sample];
    const int64_t n = plan->documents[s->document].context.n;
    const int64_t free_tokens = fb_plan_needs_text(s) ? s->max_tokens : 0;

    if (!fb_spec_goes_on(plan->spec)) return n;
    return n + s->prompt.n + fb_larger(s->answer.n, free_tokens) - 1;
}

/* A byte budget in tokens per head is known only with the model. */
static fb_status check_bytes(const fb_plan *plan, int budget)
{
    const fb_budget *b = &plan->spec->budgets[budget];
    const double row = (double)plan->shape.layers * (double)plan->shape.kv_heads *
                       (double)fb_entry_bytes(&plan->shape);
    char text[64], asked[32], least[32];
    int64_t longest = 0, k;

    if (b->kind != FB_BUDGET_BYTES) return FB_OK;
    fb_plan_budget_text(plan, budget, text, sizeof text);
    fb_print_size((double)b->value, asked, sizeof asked);
    fb_print_size(row, least, sizeof least);
    for (int i = 0; i < plan->n_documents; i++)
        if (plan->documents[i].context.n > longest)
            longest = plan->documents[i].context.n;
    k = fb_plan_entries(plan, budget, longest);
    if (k < 1)
        return fb_fail(FB_BUDGET, "budget of %s is below one entry per head (%s)",
                       asked, least);
    if (k >= longest) return FB_OK;
    (void)snprintf(text, sizeof text, "%s or ", asked);
    return fb_spec_check_arithmetic(&plan->spec->protect, k, text);
}

/* What a share of a document is taken of, at least. */
static int64_t shortest(const fb_plan *plan, int document)
{
    const fb_plan_document *d = &plan->documents[document];
    int64_t tokens = INT64_MAX;

    for (int i = 0; i < d->n_samples; i++)
        tokens = fb_smaller(tokens, fb_plan_tokens(plan, d->first_sample + i));
    return tokens;
}

/* A budget that does not hold a chunk: none of its cells can be read under it. */
static void warn_of_chunk(const fb_plan *plan, int budget, fb_report *report,
                          void *self)
{
    const int64_t chunk = fb_values_int(&plan->spec->values, FB_SET_chunk);
    char text[32], sentence[512];
    int64_t least = INT64_MAX;
    int n = 0;

    for (int d = 0; d < plan->n_documents; d++) {
        const int64_t tokens = shortest(plan, d);
        const int64_t k = fb_plan_entries(plan, budget, tokens);

        if (k >= tokens || k > chunk) continue;
        n++;
        if (k < least) least = k;
    }
    if (n == 0) return;
    fb_plan_budget_text(plan, budget, text, sizeof text);
    (void)snprintf(sentence, sizeof sentence,
                   "in %d of %d %s: budget of %s or %lld tokens per head does not hold "
                   "a chunk of %lld tokens: cells of rules that evict will fail\nhelp: "
                   "a larger budget, or a --chunk below %lld",
                   n, plan->n_documents,
                   fb_plural(plan->n_documents, "context", "contexts"), text,
                   (long long)least, (long long)chunk, (long long)least);
    report(self, sentence);
}

static bool evicts(const fb_plan *plan)
{
    for (int i = 0; i < plan->spec->n_rules; i++)
        if (!fb_bound_rule_choices(plan->spec->rules[i].rule)->keeps_all) return true;
    return false;
}

/* "in 3 of 12 contexts: " before what has just failed. */
static void report_in(const fb_plan *plan, int n, fb_status status, fb_report *report,
                      void *self)
{
    (void)fb_context(status, "in %d of %d %s", n, plan->n_documents,
                     fb_plural(plan->n_documents, "context", "contexts"));
    report(self, fb_error_message());
}

/* Nothing beside what is protected. */
static void warn_of_protection(const fb_plan *plan, int budget, const char *text,
                               fb_report *report, void *self)
{
    const fb_protect *protect = &plan->spec->protect;
    int64_t least = INT64_MAX;
    char prefix[48];
    int n = 0;

    for (int d = 0; d < plan->n_documents; d++) {
        const int64_t tokens = shortest(plan, d);
        const int64_t k = fb_plan_entries(plan, budget, tokens);

        if (k == tokens || fb_spec_check_arithmetic(protect, k, "") == FB_OK) continue;
        n++;
        if (k < least) least = k;
    }
    if (n == 0) return;
    (void)snprintf(prefix, sizeof prefix, "%s or ", text);
    report_in(plan, n, fb_spec_check_arithmetic(protect, least, prefix), report, self);
}

/* Nothing leaves. */
static void warn_of_whole(const fb_plan *plan, int budget, const char *text,
                          fb_report *report, void *self)
{
    int64_t longest = 0;
    int n = 0;

    for (int d = 0; d < plan->n_documents; d++) {
        const int64_t tokens = shortest(plan, d);

        if (fb_plan_entries(plan, budget, tokens) < tokens) continue;
        n++;
        if (tokens > longest) longest = tokens;
    }
    if (n == 0) return;
    report_in(plan, n, fb_spec_check_evicts(longest, longest, text), report, self);
}

void fb_plan_warn(const fb_plan *plan, const fb_filter *only, fb_report *report,
                  void *self)
{
    char sentence[512], budget[32];

    if (fb_plan_bos_warning(plan, sentence, sizeof sentence)) report(self, sentence);
    for (int b = 0; evicts(plan) && b < plan->spec->n_budgets; b++) {
        fb_plan_budget_text(plan, b, budget, sizeof budget);
        if (!fb_filter_passes(only, "budget", budget)) continue;
        if (fb_spec_streams(plan->spec)) warn_of_chunk(plan, b, report, self);
        warn_of_protection(plan, b, budget, report, self);
        warn_of_whole(plan, b, budget, report, self);
    }
}

static void tell_lines(const fb_text *text, fb_report *report, void *self)
{
    const char *lines = fb_text_string(text);

    while (*lines != '\0') {
        const size_t n = strcspn(lines, "\n");
        char line[512];

        (void)snprintf(line, sizeof line, "%.*s", (int)n, lines);
        report(self, line);
        lines += n + (lines[n] == '\n');
    }
}

void fb_plan_notes(const fb_plan *plan, int task, fb_report *report, void *self)
{
    tell_lines(&plan->tasks[task].notes, report, self);
}

void fb_plan_match_notes(const fb_plan *plan, fb_report *report, void *self)
{
    tell_lines(&plan->matched, report, self);
}

/* Rows that are made of the evidence need to know where it stands, on every sample. */
static fb_status check_evidence(const fb_plan *plan, int rule, int task)
{
    const fb_choices *choices = fb_bound_rule_choices(plan->spec->rules[rule].rule);
    int n = 0, unknown = 0;

    if (choices->reference != FB_REFERENCE_NO_EVIDENCE &&
        choices->reference != FB_REFERENCE_EVIDENCE)
        return FB_OK;
    for (int i = 0; i < plan->n_samples; i++) {
        n += plan->samples[i].task == task;
        unknown += plan->samples[i].task == task && plan->samples[i].n_evidence == 0;
    }
    if (unknown == 0) return FB_OK;
    return fb_fail(FB_USAGE,
                   "'%s' is told where the answer stands in the context, and %d of %d "
                   "%s of %s %s not say\nhelp: leave the row out, or the task",
                   plan->spec->rules[rule].label, unknown, n,
                   fb_plural(n, "sample", "samples"),
                   fb_bound_task_get(plan->spec->tasks[task])->name,
                   fb_plural(unknown, "does", "do"));
}

/* --- making --- */

/* Samples of a document behind each other, otherwise in the order they were made: each
 * document's are counted, so their places are known. */
static fb_status sort_samples(fb_plan *plan)
{
    fb_plan_sample *sorted = fb_alloc(
        FB_ACCOUNT_other, fb_size_mul((size_t)plan->n_samples + 1, sizeof *sorted));
    int first = 0;

    if (sorted == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the plan");
    for (int i = 0; i < plan->n_samples; i++)
        plan->documents[plan->samples[i].document].n_samples++;
    for (int i = 0; i < plan->n_documents; i++) {
        plan->documents[i].first_sample = first;
        first += plan->documents[i].n_samples;
        plan->documents[i].n_samples = 0;
    }
    for (int i = 0; i < plan->n_samples; i++) {
        fb_plan_document *d = &plan->documents[plan->samples[i].document];

        sorted[d->first_sample + d->n_samples++] = plan->samples[i];
    }
    fb_free(plan->samples);
    plan->samples = sorted;
    return FB_OK;
}

/* Tells problems one by one and remembers the first status. */
typedef struct check {
    fb_report *report;
    void *self;
    fb_status first;
} check;

static void found(check *c, fb_status status)
{
    if (status == FB_OK) return;
    if (c->report != NULL) c->report(c->self, fb_error_message());
    if (c->first == FB_OK) c->first = status;
}

static fb_status make_all(fb_plan *plan, check *c)
{
    const fb_spec *spec = plan->spec;

    for (int i = 0; i < spec->n_tasks; i++)
        found(c, fb_plan_make(plan, i));
    if (c->first != FB_OK) return c->first;
    for (int i = 0; i < spec->n_budgets; i++)
        found(c, check_bytes(plan, i));
    for (int rule = 0; rule < spec->n_rules; rule++)
        for (int task = 0; task < spec->n_tasks; task++)
            found(c, check_evidence(plan, rule, task));
    return c->first;
}

static fb_status open_plan(fb_plan **out, const fb_spec *spec, const fb_model *model,
                           int n_tasks)
{
    const fb_model_facts *facts = fb_model_get_facts(model);
    fb_plan *plan = fb_zalloc(FB_ACCOUNT_other, sizeof *plan);

    *out = plan;
    if (plan == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the plan");
    plan->spec = spec;
    plan->model = model;
    plan->shape = (fb_cache_shape){facts->global_layers, facts->kv_heads,
                                   facts->head_dim, fb_spec_cache(spec)};
    plan->tasks =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n_tasks, sizeof *plan->tasks));
    if (plan->tasks == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the plan");
    plan->n_tasks = n_tasks;
    return choose_template(plan);
}

fb_status fb_plan_new(fb_plan **out, const fb_spec *spec, const fb_model *model,
                      fb_report *report, void *self)
{
    check c = {report, self, FB_OK};
    fb_plan *plan = NULL;
    fb_status status;

    *out = NULL;
    found(&c, open_plan(&plan, spec, model, spec->n_tasks));
    status = c.first == FB_OK ? make_all(plan, &c) : c.first;
    if (status == FB_OK) status = sort_samples(plan);
    if (status != FB_OK) {
        fb_plan_free(plan);
        return status;
    }
    *out = plan;
    return FB_OK;
}

/* --- a question of the user's --- */

static fb_status check_whole(const fb_plan *plan)
{
    const fb_plan_document *document = &plan->documents[0];
    char has[32], left[32], most[32];

    if (document->cut_tokens == 0) return FB_OK;
    fb_print_count(document->context.n + document->cut_tokens, has, sizeof has);
    fb_print_count(document->context.n, left, sizeof left);
    fb_print_count(fb_model_get_facts(plan->model)->longest, most, sizeof most);
    return fb_fail(
        FB_UNSUPPORTED,
        "the text has %s tokens; the model takes %s, and question and answer "
        "leave %s of them\nhelp: a shorter text, or another model",
        has, most, left);
}

/* Of a single text every budget is known in entries. */
static fb_status check_choice(const fb_plan *plan, int budget)
{
    const int64_t n = plan->documents[0].context.n,
                  k = fb_plan_entries(plan, budget, n);
    char text[32], prefix[48];

    FB_TRY(check_bytes(plan, budget));
    if (plan->spec->budgets[budget].kind != FB_BUDGET_RATIO || k == n) return FB_OK;
    fb_plan_budget_text(plan, budget, text, sizeof text);
    (void)snprintf(prefix, sizeof prefix, "%s or ", text);
    return fb_spec_check_arithmetic(&plan->spec->protect, k, prefix);
}

/* What the tokens of the text tell, and no task is refused for. */
static void check_own(const fb_plan *plan, check *c)
{
    found(c, check_whole(plan));
    if (c->first != FB_OK || !evicts(plan)) return;
    for (int i = 0; i < plan->spec->n_budgets; i++)
        found(c, check_choice(plan, i));
}

fb_status fb_plan_ask(fb_plan **out, const fb_spec *spec, const fb_model *model,
                      const fb_own_question *own, fb_report *report, void *self)
{
    check c = {report, self, FB_OK};
    fb_plan *plan = NULL;

    *out = NULL;
    found(&c, open_plan(&plan, spec, model, 1));
    if (c.first == FB_OK) found(&c, fb_plan_make_question(plan, own));
    if (c.first == FB_OK) check_own(plan, &c);
    if (c.first == FB_OK) found(&c, sort_samples(plan));
    if (c.first != FB_OK) {
        fb_plan_free(plan);
        return c.first;
    }
    *out = plan;
    return FB_OK;
}

void fb_plan_free(fb_plan *plan)
{
    if (plan == NULL) return;
    for (int i = 0; i < plan->n_documents; i++) {
        fb_ids_clear(&plan->documents[i].context);
        fb_free(plan->documents[i].text);
    }
    for (int i = 0; i < plan->n_samples; i++)
        fb_plan_sample_clear(&plan->samples[i]);
    for (int i = 0; plan->tasks != NULL && i < plan->n_tasks; i++) {
        fb_free(plan->tasks[i].first_rejection);
        fb_text_clear(&plan->tasks[i].notes);
    }
    fb_index_clear(&plan->streams);
    fb_text_clear(&plan->matched);
    fb_free(plan->documents);
    fb_free(plan->samples);
    fb_free(plan->tasks);
    fb_free(plan);
}

/* --- cells --- */

void fb_plan_budget_text(const fb_plan *plan, int budget, char *out, size_t n)
{
    if (budget < 0)
        (void)snprintf(out, n, "full");
    else
        fb_budget_print(&plan->spec->budgets[budget], out, n);
}

typedef struct cells {
    const fb_plan *plan;
    const fb_filter *only;
    fb_cell *cell; /* NULL: only counted */
    int n;
} cells;

static fb_status add_cell(cells *c, fb_cell cell)
{
    char budget[32], seed[24];

    fb_plan_budget_text(c->plan, cell.budget, budget, sizeof budget);
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)cell.seed);
    if (!fb_filter_passes(c->only, "budget", budget) ||
        !fb_filter_passes(c->only, "seed", seed))
        return FB_OK;
    FB_TRY(fb_list_grow((void **)&c->cell, c->n, sizeof *c->cell));
    cell.k =
        fb_plan_entries(c->plan, cell.budget, fb_plan_tokens(c->plan, cell.sample));
    c->cell[c->n++] = cell;
    return FB_OK;
}

static fb_status add_rule(cells *c, int sample, int rule)
{
    const fb_spec *spec = c->plan->spec;
    const fb_bound_rule *bound = spec->rules[rule].rule;
    const int n_seeds = fb_bound_rule_is_random(bound) ? spec->n_seeds : 1;

    if (!fb_filter_passes(c->only, "rule", spec->rules[rule].label)) return FB_OK;
    if (fb_bound_rule_choices(bound)->keeps_all)
        return add_cell(c, (fb_cell){sample, rule, -1, 0, 0});
    for (int b = 0; b < spec->n_budgets; b++)
        for (int s = 0; s < n_seeds; s++) {
            const uint64_t seed = fb_bound_rule_is_random(bound) ? spec->seeds[s] : 0;

            FB_TRY(add_cell(c, (fb_cell){sample, rule, b, seed, 0}));
        }
    return FB_OK;
}

static bool sample_passes(const cells *c, const fb_plan_sample *sample)
{
    const char *task;
    char key[512];

    if (c->only == NULL) return true;
    task = fb_bound_task_get(c->plan->spec->tasks[sample->task])->name;
    (void)snprintf(key, sizeof key, "%s/%s", task, sample->key);
    return fb_filter_passes(c->only, "task", task) &&
           fb_filter_passes(c->only, "sample", key);
}

static fb_status add_sample_cells(cells *c, int index)
{
    if (!sample_passes(c, &c->plan->samples[index])) return FB_OK;
    for (int rule = 0; rule < c->plan->spec->n_rules; rule++)
        FB_TRY(add_rule(c, index, rule));
    return FB_OK;
}

fb_status fb_plan_cells(const fb_plan *plan, int document, const fb_filter *only,
                        fb_cell **out, int *n_out)
{
    const fb_plan_document *d = &plan->documents[document];
    cells c = {.plan = plan, .only = only};

    *out = NULL;
    *n_out = 0;
    for (int i = 0; i < d->n_samples; i++) {
        const fb_status status = add_sample_cells(&c, d->first_sample + i);

        if (status != FB_OK) {
            fb_free(c.cell);
            return status;
        }
    }
    *out = c.cell;
    *n_out = c.n;
    return FB_OK;
}

fb_status fb_plan_count(const fb_plan *plan, const fb_filter *only, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < plan->n_documents; i++) {
        fb_cell *cell = NULL;
        int n = 0;

        FB_TRY(fb_plan_cells(plan, i, only, &cell, &n));
        fb_free(cell);
        *out += n;
    }
    return FB_OK;
}
