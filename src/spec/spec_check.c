/* spec_check.c - settings become tasks, budgets, seeds, and rules (spec_rules.c); all that
 * can be refused before a model is opened is refused here.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "spec/spec_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fb_spec_forget(fb_spec *spec)
{
    for (int i = 0; i < spec->n_rules; i++) {
        fb_free(spec->rules[i].label);
        fb_bound_rule_free(spec->rules[i].rule);
    }
    for (int i = 0; i < spec->n_tasks; i++)
        fb_bound_task_free(spec->tasks[i]);
    fb_free(spec->rules);
    fb_free(spec->tasks);
    fb_free(spec->budgets);
    fb_free(spec->seeds);
    spec->rules = NULL;
    spec->tasks = NULL;
    spec->budgets = NULL;
    spec->seeds = NULL;
    spec->n_rules = spec->n_tasks = spec->n_budgets = spec->n_seeds = 0;
    spec->baseline = NULL;
    fb_rule_files_clear(&spec->files);
}

void fb_spec_found(fb_spec_checker *c, fb_status status)
{
    if (status == FB_OK) return;
    if (c->first == FB_OK) c->first = status;
    if (c->report != NULL) c->report(c->self, fb_error_message());
}

void fb_spec_found_at(fb_spec_checker *c, fb_status status, fb_setting setting,
                      int item)
{
    char sentence[1024];

    if (status == FB_OK) return;
    (void)snprintf(sentence, sizeof sentence, "%s", fb_error_message());
    fb_spec_found(c, fb_spec_fail(c->spec, status, setting, item, "%s", sentence));
}

static void *list_of(fb_spec_checker *c, int n, size_t size)
{
    void *list = fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, size));

    if (list == NULL)
        fb_spec_found(c, fb_fail(FB_NO_MEMORY, "no memory for an experiment"));
    return list;
}

/* --- tasks --- */

/* A general limit on documents is the `samples` of a task that has none of its own: so
 * that its depths and lengths are spread over those that really run. */
static fb_status parse_task(const fb_spec *spec, fb_bound_task **out, const char *text)
{
    const char *limit = fb_values_text(&spec->values, FB_SET_samples);

    FB_TRY(fb_task_parse(out, text));
    if (strcmp(limit, "all") != 0 && fb_bound_task_is_default(*out, "samples"))
        FB_TRY(fb_bound_task_set(*out, "samples", limit));
    return fb_bound_task_bind_data(*out);
}

/* What tells tasks apart: a copy of the data is the same data. */
static fb_status print_identity(const fb_bound_task *task, fb_text *out)
{
    fb_text_clear(out);
    fb_bound_task_print(task, out);
    fb_text_puts(out, fb_bound_task_data_sha256(task));
    return fb_text_status(out);
}

static fb_status check_listed(const fb_spec *spec, const fb_bound_task *task,
                              const char *text)
{
    const char *data = fb_bound_task_data(task);
    fb_text own = {0}, other = {0};
    fb_status status = print_identity(task, &own);

    for (int i = 0; i < spec->n_tasks && status == FB_OK; i++) {
        status = print_identity(spec->tasks[i], &other);
        if (status == FB_OK && strcmp(own.bytes, other.bytes) == 0)
            status = fb_fail(FB_USAGE, "task '%s' is listed twice%s", text,
                             data != NULL ? ", with the same data" : "");
    }
    fb_text_clear(&own);
    fb_text_clear(&other);
    return status;
}

static void check_tasks(fb_spec_checker *c)
{
    fb_spec *spec = c->spec;
    const fb_value *value = &spec->values.value[FB_SET_tasks];

    if (value->n == 0) {
        fb_spec_found(c,
                      fb_fail(FB_USAGE, "no tasks given\nhelp: flexbudget tasks lists "
                                        "them, for --tasks recall"));
        return;
    }
    spec->tasks = list_of(c, value->n, sizeof(fb_bound_task *));
    if (spec->tasks == NULL) return;
    for (int i = 0; i < value->n; i++) {
        fb_bound_task **task = &spec->tasks[spec->n_tasks];
        fb_status status = parse_task(spec, task, value->items[i].text);

        if (status == FB_OK) status = check_listed(spec, *task, value->items[i].text);
        if (status == FB_OK) {
            spec->n_tasks++;
            continue;
        }
        fb_spec_found_at(c, status, FB_SET_tasks, i);
        fb_bound_task_free(*task);
        *task = NULL;
    }
}

/* --- budgets, seeds --- */

static bool same_budget(const fb_budget *a, const fb_budget *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == FB_BUDGET_RATIO)
        return a->numerator * b->denominator == b->numerator * a->denominator;
    return a->value == b->value;
}

fb_status fb_spec_check_arithmetic(const fb_protect *protect, int64_t k,
                                   const char *prefix)
{
    const int64_t n = protect->sink + protect->recent;
    const int64_t sink = protect->sink < k ? protect->sink : 0;
    const int64_t half = sink < k - k / 2 ? k / 2 : (k - sink) / 2;

    if (protect->kind != FB_PROTECT_EXPERIMENT || k > n) return FB_OK;
    return fb_fail(FB_BUDGET,
                   "budget of %s%lld tokens per head leaves a rule nothing to choose: "
                   "sinks %lld + recent %lld = %lld are protected\nhelp: use at least "
                   "%lld tokens, or --protect %lld+%lld",
                   prefix, (long long)k, (long long)protect->sink,
                   (long long)protect->recent, (long long)n, (long long)n + 1,
                   (long long)sink, (long long)half);
}

fb_status fb_spec_check_evicts(int64_t k, int64_t n, const char *budget)
{
    char tokens[32];

    if (k < n) return FB_OK;
    fb_print_count(n, tokens, sizeof tokens);
    return fb_fail(FB_BUDGET,
                   "budget of %s holds a context of %s %s whole, which leaves a rule "
                   "nothing to choose\nhelp: a smaller budget, or a longer context",
                   budget, tokens, fb_plural(n, "token", "tokens"));
}

static fb_status add_budget(fb_spec *spec, const fb_budget *budget, const char *text)
{
    fb_budget *grown;

    for (int i = 0; i < spec->n_budgets; i++)
        if (same_budget(&spec->budgets[i], budget))
            return fb_fail(FB_USAGE, "budget '%s' is listed twice", text);
    grown = fb_realloc(FB_ACCOUNT_other, spec->budgets,
                       (size_t)(spec->n_budgets + 1) * sizeof *grown);
    if (grown == NULL) return fb_fail(FB_NO_MEMORY, "no memory for budgets");
    spec->budgets = grown;
    grown[spec->n_budgets++] = *budget;
    if (budget->kind == FB_BUDGET_TOKENS)
        return fb_spec_check_arithmetic(&spec->protect, budget->value, "");
    return FB_OK;
}

static fb_status expand_budget(fb_spec *spec, const char *text)
{
    fb_budget *budgets = NULL;
    int n = 0;
    fb_status status = fb_budgets_expand(text, &budgets, &n);

    for (int i = 0; status == FB_OK && i < n; i++)
        status = add_budget(spec, &budgets[i], text);
    fb_free(budgets);
    return status;
}

static bool some_rule_evicts(const fb_spec *spec)
{
    for (int i = 0; i < spec->n_rules; i++)
        if (!fb_bound_rule_choices(spec->rules[i].rule)->keeps_all) return true;
    return false;
}

static void check_budgets(fb_spec_checker *c)
{
    const fb_value *value = &c->spec->values.value[FB_SET_budgets];

    if (value->n == 0 && some_rule_evicts(c->spec))
        fb_spec_found(c,
                      fb_fail(FB_USAGE, "no budgets given\nhelp: --budgets 10%%,25%%"));
    for (int i = 0; i < value->n; i++)
        fb_spec_found_at(c, expand_budget(c->spec, value->items[i].text),
                         FB_SET_budgets, i);
}

static void check_seeds(fb_spec_checker *c)
{
    fb_spec *spec = c->spec;
    const fb_value *value = &spec->values.value[FB_SET_seeds];

    spec->seeds = list_of(c, value->n, sizeof *spec->seeds);
    if (spec->seeds == NULL) return;
    for (int i = 0; i < value->n; i++) {
        const uint64_t seed = strtoull(value->items[i].text, NULL, 10);

        for (int j = 0; j < spec->n_seeds; j++)
            if (spec->seeds[j] == seed)
                fb_spec_found_at(c,
                                 fb_fail(FB_USAGE, "seed %llu is listed twice",
                                         (unsigned long long)seed),
                                 FB_SET_seeds, i);
        spec->seeds[spec->n_seeds++] = seed;
    }
}

static void check_protect(fb_spec_checker *c)
{
    const char *text = fb_values_text(&c->spec->values, FB_SET_protect);
    fb_protect *protect = &c->spec->protect;

    *protect = (fb_protect){0};
    if (strcmp(text, "none") == 0) {
        protect->kind = FB_PROTECT_NONE;
    } else if (strcmp(text, "published") == 0) {
        protect->kind = FB_PROTECT_PUBLISHED;
    } else {
        protect->kind = FB_PROTECT_EXPERIMENT;
        fb_spec_found(c, fb_parse_protect(text, &protect->sink, &protect->recent));
    }
}

/* It becomes the name of a file and the heading of tables. */
static fb_status check_name(const char *name)
{
    if (name[0] == '\0')
        return fb_fail(FB_USAGE, "the name of the experiment is empty; give it one, or "
                                 "leave it out");
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return fb_fail(FB_USAGE,
                           "the name of the experiment has a control character (byte "
                           "%d); write it without",
                           (int)(c - name) + 1);
    for (size_t left = strlen(name), n; left > 0; name += n, left -= n) {
        n = fb_utf8_length(name, left);
        if (n == 0)
            return fb_fail(FB_USAGE,
                           "the name of the experiment is not UTF-8; write it "
                           "in that");
    }
    return FB_OK;
}

static void check_model(fb_spec_checker *c)
{
    if (fb_values_text(&c->spec->values, FB_SET_model)[0] == '\0')
        fb_spec_found(c, fb_fail(FB_USAGE,
                                 "no model given\nhelp: --model FILE, or --model "
                                 "builtin for the one inside the program"));
}

/* What only one of the backends can do. */
static void check_backend(fb_spec_checker *c)
{
    const fb_values *values = &c->spec->values;
    const char *isa = fb_values_text(values, FB_SET_isa);

    if (!fb_spec_is_torch(c->spec) && fb_spec_precision(c->spec) != FB_F32)
        fb_spec_found_at(
            c,
            fb_fail(FB_USAGE,
                    "precision %s is for a device of torch; device cpu has f32\n"
                    "help: --device torch:cpu, or leave the precision out",
                    fb_values_text(values, FB_SET_precision)),
            FB_SET_precision, 0);
    if (fb_spec_is_torch(c->spec) && strcmp(isa, "auto") != 0)
        fb_spec_found_at(
            c,
            fb_fail(FB_USAGE,
                    "isa %s is for device cpu; PyTorch chooses its kernels itself",
                    isa),
            FB_SET_isa, 0);
    if (fb_spec_is_torch(c->spec) && fb_spec_weights(c->spec) == FB_WEIGHTS_RESIDENT)
        fb_spec_found_at(
            c,
            fb_fail(FB_USAGE,
                    "weights resident is for device cpu; PyTorch holds them in "
                    "the precision asked for"),
            FB_SET_weights, 0);
}

/* --- what streaming cannot do (yet) --- */

bool fb_spec_streams(const fb_spec *spec)
{
    return fb_values_is(&spec->values, FB_SET_kind, "stream");
}

bool fb_spec_goes_on(const fb_spec *spec)
{
    return fb_spec_streams(spec) && fb_values_int(&spec->values, FB_SET_interval) > 0;
}

bool fb_spec_keeps_scores(const fb_spec *spec)
{
    return fb_values_is(&spec->values, FB_SET_rescore, "new");
}

/* A setting of streams under protocol prefill. */
static void check_unused(fb_spec_checker *c, fb_setting setting, const char *name,
                         const char *reason)
{
    if (fb_values_is(&c->spec->values, (int)setting, fb_settings()[setting].initial))
        return;
    fb_spec_found_at(
        c,
        fb_fail(FB_USAGE, "%s has no meaning under protocol prefill, %s", name, reason),
        setting, 0);
}

static void check_protocol(fb_spec_checker *c)
{
    const fb_values *values = &c->spec->values;

    if (!fb_spec_streams(c->spec)) {
        check_unused(c, FB_SET_chunk, "chunk", "which reads all before it evicts");
        check_unused(c, FB_SET_interval, "interval",
                     "which evicts once, before the question");
        check_unused(c, FB_SET_rescore, "rescore", "which evicts once");
        return;
    }
    if (!fb_values_is(values, FB_SET_query, "agnostic"))
        fb_spec_found_at(
            c,
            fb_fail(FB_USAGE,
                    "query aware needs the question before the eviction; under "
                    "protocol stream the text comes first"),
            FB_SET_query, 0);
    fb_spec_check_streams(c);
}

fb_status fb_spec_check(fb_spec *spec, fb_report *report, void *self)
{
    fb_spec_checker c = {spec, report, self, FB_OK};

    fb_spec_forget(spec);
    check_model(&c);
    check_backend(&c);
    fb_spec_found_at(&c, check_name(fb_values_text(&spec->values, FB_SET_name)),
                     FB_SET_name, 0);
    check_protect(&c);
    fb_spec_check_rules(&c);
    check_protocol(&c);
    check_tasks(&c);
    fb_spec_check_baseline(&c);
    check_budgets(&c);
    check_seeds(&c);
    return c.first;
}

fb_status fb_spec_check_question(fb_spec *spec, const char *without, fb_report *report,
                                 void *self)
{
    fb_spec_checker c = {spec, report, self, FB_OK};

    fb_spec_forget(spec);
    check_model(&c);
    check_backend(&c);
    check_protect(&c);
    fb_spec_check_rules(&c);
    fb_spec_check_deployable(&c, without);
    check_budgets(&c);
    check_seeds(&c);
    return c.first;
}

static fb_dtype type_of(const fb_spec *spec, fb_setting setting)
{
    if (fb_values_is(&spec->values, (int)setting, "f16")) return FB_F16;
    return fb_values_is(&spec->values, (int)setting, "bf16") ? FB_BF16 : FB_F32;
}

fb_dtype fb_spec_cache(const fb_spec *spec)
{
    return type_of(spec, FB_SET_cache);
}

fb_dtype fb_spec_precision(const fb_spec *spec)
{
    return type_of(spec, FB_SET_precision);
}

bool fb_spec_is_torch(const fb_spec *spec)
{
    return !fb_values_is(&spec->values, FB_SET_device, "cpu");
}

fb_weight_form fb_spec_weights(const fb_spec *spec)
{
    return fb_values_is(&spec->values, FB_SET_weights, "resident")
               ? FB_WEIGHTS_RESIDENT
               : FB_WEIGHTS_UNPACKED;
}

fb_status fb_spec_bind_model(fb_spec *spec, const fb_model_facts *facts)
{
    const char *asked = fb_values_text(&spec->values, FB_SET_model_sha256);

    if (strcmp(asked, "auto") == 0)
        return fb_values_set(&spec->values, FB_SET_model_sha256,
                             spec->values.value[FB_SET_model_sha256].origin,
                             facts->sha256);
    if (strcmp(asked, facts->sha256) == 0) return FB_OK;
    return fb_spec_fail(spec, FB_USAGE, FB_SET_model_sha256, 0,
                        "model.sha256 is %.12s..., but the file '%s' has %.12s...",
                        asked, fb_values_text(&spec->values, FB_SET_model),
                        facts->sha256);
}
