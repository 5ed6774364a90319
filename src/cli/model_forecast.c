/* model_forecast.c - see model_forecast.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/model_forecast.h"

#include "cli/say_forecast.h"

#include <stdio.h>
#include <string.h>

/* Of a question that nobody has asked. */
enum {
    PROMPT_TOKENS = 32,
    ANSWER_TOKENS = 128,
    SINK = 4,
    RECENT = 16,
    MOST_BUDGETS = 64
};

/* What the options say, typed. */
typedef struct asked {
    const fb_values *own;
    fb_foretell like;
    fb_forecast_rule *rules;
    fb_bound_rule **bound; /* [n_rules] behind them */
    int n_rules;
    fb_forecast_budget budgets[MOST_BUDGETS];
    int n_budgets;
} asked;

fb_weight_form fb_model_forecast_weights(const fb_values *own)
{
    return fb_values_is(own, FB_MODEL_weights, "resident") ? FB_WEIGHTS_RESIDENT
                                                           : FB_WEIGHTS_UNPACKED;
}

static fb_dtype cache_of(const fb_values *own)
{
    if (fb_values_is(own, FB_MODEL_cache, "f16")) return FB_F16;
    return fb_values_is(own, FB_MODEL_cache, "bf16") ? FB_BF16 : FB_F32;
}

/* --- rules and budgets --- */

static fb_status read_rules(asked *a)
{
    const fb_value *value = &a->own->value[FB_MODEL_rules];
    const size_t n = (size_t)value->n + 1;

    a->rules = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *a->rules));
    a->bound = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *a->bound));
    if (a->rules == NULL || a->bound == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for rules");
    for (int r = 0; r < value->n; r++) {
        FB_TRY(fb_rule_parse(&a->bound[r], value->items[r].text));
        a->rules[a->n_rules++] = (fb_forecast_rule){
            .label = value->items[r].text, .rule = a->bound[r], .n_seeds = 1};
    }
    return FB_OK;
}

static bool evicts(const asked *a)
{
    for (int r = 0; r < a->n_rules; r++)
        if (!fb_bound_rule_choices(a->bound[r])->keeps_all) return true;
    return false;
}

/* What a run would warn of. It can protect less; here that is not asked, so the help is
 * left out. */
static void warn_of_budget(const asked *a, fb_budget_kind kind,
                           const fb_forecast_budget *budget)
{
    char prefix[48] = "", sentence[512];

    if (!evicts(a)) return;
    if (kind != FB_BUDGET_TOKENS)
        (void)snprintf(prefix, sizeof prefix, "%s or ", budget->text);
    if (fb_spec_check_evicts(budget->k, a->like.n_tokens, budget->text) == FB_OK &&
        fb_spec_check_arithmetic(&a->like.protect, budget->k, prefix) == FB_OK)
        return;
    (void)snprintf(sentence, sizeof sentence, "%.*s",
                   (int)strcspn(fb_error_message(), "\n"), fb_error_message());
    fb_say_warning(sentence);
}

/* Bytes are called as they were written, 10GiB. */
static fb_status add_budget(asked *a, const fb_budget *budget, const char *written)
{
    const fb_model_facts *facts = fb_model_get_facts(a->like.model);
    const fb_cache_shape shape = {facts->global_layers, facts->kv_heads,
                                  facts->head_dim, a->like.engine.cache};
    fb_forecast_budget *out = &a->budgets[a->n_budgets];

    if (a->n_budgets == MOST_BUDGETS)
        return fb_fail(FB_USAGE, "more than %d budgets", MOST_BUDGETS);
    if (budget->kind == FB_BUDGET_BYTES && strlen(written) < sizeof out->text)
        (void)snprintf(out->text, sizeof out->text, "%s", written);
    else
        fb_budget_print(budget, out->text, sizeof out->text);
    out->k = fb_budget_entries(budget, &shape, a->like.n_tokens, FB_ROUND_EXACT);
    a->n_budgets++;
    if (out->k < 1)
        return fb_fail(FB_BUDGET, "budget of %s: not one token for each head",
                       out->text);
    warn_of_budget(a, budget->kind, out);
    return FB_OK;
}

static fb_status read_budgets(asked *a)
{
    const fb_value *value = &a->own->value[FB_MODEL_budgets];

    for (int i = 0; i < value->n; i++) {
        fb_budget *budgets;
        int n;
        fb_status status;

        FB_TRY(fb_budgets_expand(value->items[i].text, &budgets, &n));
        status = FB_OK;
        for (int b = 0; status == FB_OK && b < n; b++)
            status = add_budget(a, &budgets[b], value->items[i].text);
        fb_free(budgets);
        FB_TRY(status);
    }
    return FB_OK;
}

static void clear(asked *a)
{
    for (int r = 0; r < a->n_rules; r++)
        fb_bound_rule_free(a->bound[r]);
    fb_free((void *)a->bound);
    fb_free(a->rules);
}

/* --- the plan --- */

static fb_status make(asked *a, fb_forecast *out)
{
    FB_TRY(read_rules(a));
    FB_TRY(read_budgets(a));
    if (fb_forecast_check_length(fb_model_get_facts(a->like.model),
                                 a->like.n_tokens + PROMPT_TOKENS + ANSWER_TOKENS,
                                 "a smaller --context; a run cuts such a text in the "
                                 "middle, and here all of it is counted") != FB_OK)
        fb_say_warning(fb_error_message());
    return fb_forecast_make(out, &a->like, a->rules, a->n_rules, a->budgets,
                            a->n_budgets);
}

static void print(const fb_forecast *forecast, const fb_model_facts *facts,
                  bool is_json, fb_text *out)
{
    char stored[32];

    if (is_json) {
        fb_text_puts(out, ", \"plan\": ");
        fb_say_forecast_json(forecast, true, out);
        return;
    }
    fb_print_size((double)facts->file_bytes, stored, sizeof stored);
    fb_text_printf(
        out,
        "plan       a question of %d tokens, an answer of %d; protected %d + "
        "%d; weights %s, of %s in %s\n",
        PROMPT_TOKENS, ANSWER_TOKENS, SINK, RECENT,
        facts->weight_bytes > facts->file_bytes ? "unpacked" : "as stored", stored,
        facts->weight_types);
    fb_say_forecast(forecast, true, out);
}

/* Options of a context that nobody gave are not passed over in silence. */
static fb_status refuse_options(const fb_values *own)
{
    static const struct {
        int option;
        const char *name;
    } of_context[] = {{FB_MODEL_budgets, "budgets"},
                      {FB_MODEL_rules, "rules"},
                      {FB_MODEL_cache, "cache"},
                      {FB_MODEL_weights, "weights"},
                      {FB_MODEL_threads, "threads"}};

    for (size_t i = 0; i < sizeof of_context / sizeof *of_context; i++)
        if (own->value[of_context[i].option].origin == FB_FROM_COMMAND)
            return fb_fail(FB_USAGE,
                           "--%s says what a context takes, and --context is not given",
                           of_context[i].name);
    return FB_OK;
}

fb_status fb_model_forecast_print(const fb_values *own, const fb_model *model,
                                  bool is_json, fb_text *out)
{
    const int64_t threads = fb_values_int(own, FB_MODEL_threads);
    asked a = {.own = own,
               .like = {.model = model,
                        .n_tokens = fb_values_int(own, FB_MODEL_context),
                        .engine = {.cache = cache_of(own)},
                        .protect = {FB_PROTECT_EXPERIMENT, SINK, RECENT},
                        .n_prompt = PROMPT_TOKENS,
                        .max_tokens = ANSWER_TOKENS,
                        .threads = threads > 0 ? (int)threads : 0}};
    fb_forecast forecast;
    fb_status status;

    if (a.like.n_tokens < 1) return refuse_options(own);
    status = make(&a, &forecast);
    if (status == FB_OK) {
        print(&forecast, fb_model_get_facts(model), is_json, out);
        fb_forecast_clear(&forecast);
    }
    clear(&a);
    return status;
}
