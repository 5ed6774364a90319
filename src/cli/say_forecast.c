/* say_forecast.c - see say_forecast.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/say_forecast.h"

#include "base/json.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "report/analysis_parts.h"

#include <string.h>

static const char *phase_name(const fb_forecast *f, int phase)
{
    static const char *const names[] = {"prefill", "evict", "answer", "decode"};

    return f->like.streams && phase == FB_PHASE_context ? "stream" : names[phase];
}

/* --- budgets --- */

static void add_cache(const fb_forecast *f, fb_text *out)
{
    const fb_model_facts *facts = fb_model_get_facts(f->like.model);
    char token[32], tokens[32];

    fb_print_size(f->token_bytes, token, sizeof token);
    fb_print_count(f->like.n_tokens, tokens, sizeof tokens);
    fb_text_printf(out,
                   "  cache: %s per token in %s, %lld %s x %lld kv %s x (%lld + %lld) "
                   "numbers; the longest context has %s tokens\n",
                   token, fb_cache_type_name(f->like.engine.cache),
                   (long long)facts->global_layers,
                   fb_plural(facts->global_layers, "layer", "layers"),
                   (long long)facts->kv_heads,
                   fb_plural(facts->kv_heads, "head", "heads"),
                   (long long)facts->head_dim, (long long)facts->head_dim, tokens);
}

static void add_budget_row(const char *name, int64_t k, double bytes, fb_text *rows)
{
    char entries[32], size[32];

    fb_print_count(k, entries, sizeof entries);
    fb_print_size(bytes, size, sizeof size);
    fb_text_printf(rows, "  %s\t%s\t%s\n", name, entries, size);
}

static void add_budgets(const fb_forecast *f, fb_text *out)
{
    fb_text rows = {0};

    fb_text_puts(&rows, "  budget\ttokens per head\tkeys and values\n");
    add_budget_row("full", f->like.n_tokens, f->full_bytes, &rows);
    for (int b = 0; b < f->n_budgets; b++)
        add_budget_row(f->budgets[b].text, f->budgets[b].k, f->budgets[b].bytes, &rows);
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
}

/* --- memory --- */

static const fb_account shown[] = {FB_ACCOUNT_weights,    FB_ACCOUNT_kv,
                                   FB_ACCOUNT_rule_state, FB_ACCOUNT_signals,
                                   FB_ACCOUNT_scratch,    FB_ACCOUNT_other};
enum { N_SHOWN = sizeof shown / sizeof *shown };

static void add_phase(const fb_forecast *f, int phase, fb_text *rows)
{
    char size[32];

    fb_text_printf(rows, "  %s", phase_name(f, phase));
    for (int i = 0; i < N_SHOWN; i++) {
        fb_print_size((double)f->most.peak[phase][shown[i]], size, sizeof size);
        fb_text_printf(rows, "\t%s", size);
    }
    fb_print_size(fb_foretold_peak(&f->most, (fb_phase)phase), size, sizeof size);
    fb_text_printf(rows, "\t%s\n", size);
}

static void add_memory(const fb_forecast *f, fb_text *out)
{
    const int threads = fb_threads_of(f->like.threads);
    fb_text rows = {0};

    fb_text_printf(out, "  most memory of a cell alone, with %d %s; its rule: %s\n",
                   threads, fb_plural(threads, "thread", "threads"), f->heaviest);
    fb_text_puts(&rows,
                 "  phase\tweights\tkeys and values\trule state\tsignals\ttemporary\t"
                 "other\ttogether\n");
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        if (f->most.has[p]) add_phase(f, p, &rows);
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
    if (f->like.streams)
        fb_text_puts(out,
                     "  the budget bounds keys and values with rule state, for every "
                     "rule but full; a run holds the full cache besides, with which "
                     "answers are compared\n");
    else
        fb_text_puts(out, "  prefill is bounded by no budget: the full cache, and what "
                          "rules ask to see, is there until entries are evicted\n");
}

/* --- rules --- */

/* As `compare` shows it after the run. */
static void add_rule(const fb_forecast_rule *rule, fb_text *rows)
{
    fb_text_printf(rows, "  %s\t", rule->label);
    if (rule->reason != NULL) {
        fb_text_printf(rows, "-\t-\t%.*s\n", (int)strcspn(rule->reason, "\n"),
                       rule->reason);
        return;
    }
    fb_say_extra(rows, rule->open);
    fb_text_puts(rows, "\t");
    fb_say_extra(rows, rule->fused);
    fb_text_puts(rows, "\n");
}

static void add_rules(const fb_forecast *f, fb_text *out)
{
    fb_text rows = {0};

    fb_text_printf(
        out,
        "  extra FLOPs, fused: what a rule costs beside reading the context%s, "
        "here and where a kernel keeps no attention\n",
        f->n_budgets > 1 ? " under the largest budget" : "");
    fb_text_puts(&rows, "  rule\textra FLOPs\tfused\n");
    for (int r = 0; r < f->n_rules; r++)
        add_rule(&f->rules[r], &rows);
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
}

void fb_say_forecast(const fb_forecast *forecast, bool has_memory, fb_text *out)
{
    add_cache(forecast, out);
    add_budgets(forecast, out);
    if (has_memory) add_memory(forecast, out);
    add_rules(forecast, out);
}

/* --- JSON --- */

static void add_phase_json(const fb_forecast *f, int phase, fb_text *out)
{
    fb_text_printf(out, "\"%s\": {", phase_name(f, phase));
    for (int i = 0; i < N_SHOWN; i++)
        fb_text_printf(out, "\"%s\": %zu, ", fb_account_name(shown[i]),
                       f->most.peak[phase][shown[i]]);
    fb_text_printf(out, "\"together\": %.0f}",
                   fb_foretold_peak(&f->most, (fb_phase)phase));
}

static void add_memory_json(const fb_forecast *f, fb_text *out)
{
    bool is_first = true;

    fb_text_printf(out,
                   ", \"threads\": %d, \"heaviest\": ", fb_threads_of(f->like.threads));
    fb_json_add_string(out, f->heaviest);
    fb_text_puts(out, ", \"peak_bytes\": {");
    for (int p = 0; p < FB_PHASE_COUNT; p++) {
        if (!f->most.has[p]) continue;
        fb_text_puts(out, is_first ? "" : ", ");
        add_phase_json(f, p, out);
        is_first = false;
    }
    fb_text_puts(out, "}");
}

static void add_rules_json(const fb_forecast *f, fb_text *out)
{
    fb_text_puts(out, ", \"rules\": [");
    for (int r = 0; r < f->n_rules; r++) {
        fb_text_puts(out, r == 0 ? "{\"rule\": " : ", {\"rule\": ");
        fb_json_add_string(out, f->rules[r].label);
        if (f->rules[r].reason == NULL) {
            fb_text_puts(out, ", \"extra_flops\": ");
            fb_json_add_real(out, f->rules[r].open);
            fb_text_puts(out, ", \"fused_flops\": ");
            fb_json_add_real(out, f->rules[r].fused);
        } else {
            fb_text_puts(out, ", \"reason\": ");
            fb_json_add_string(out, f->rules[r].reason);
        }
        fb_text_puts(out, "}");
    }
    fb_text_puts(out, "]");
}

void fb_say_forecast_json(const fb_forecast *f, bool has_memory, fb_text *out)
{
    fb_text_printf(out,
                   "{\"tokens\": %lld, \"cache\": \"%s\", \"token_bytes\": %.0f, "
                   "\"full_bytes\": %.0f, \"window_bytes\": %.0f, \"plain_flops\": "
                   "%.17g, \"budgets\": [",
                   (long long)f->like.n_tokens,
                   fb_cache_type_name(f->like.engine.cache), f->token_bytes,
                   f->full_bytes, f->window_bytes, f->plain_flops);
    for (int b = 0; b < f->n_budgets; b++)
        fb_text_printf(out, "%s{\"budget\": \"%s\", \"tokens\": %lld, \"bytes\": %.0f}",
                       b == 0 ? "" : ", ", f->budgets[b].text,
                       (long long)f->budgets[b].k, f->budgets[b].bytes);
    fb_text_puts(out, "]");
    add_rules_json(f, out);
    if (has_memory) add_memory_json(f, out);
    fb_text_puts(out, "}");
}
