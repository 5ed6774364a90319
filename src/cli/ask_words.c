/* ask_words.c - see ask_words.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/ask_words.h"

#include "base/json.h"
#include "base/shown.h"
#include "base/time.h"

#include <stdio.h>
#include <string.h>

#define BOLD  "\033[1m"
#define FAINT "\033[2m"
#define PLAIN "\033[0m"

/* Words of the program, each line of them in a colour; NULL: none. */
static void add_words(const fb_text *words, int indent, const char *code,
                      const fb_ask_look *look, fb_text *out)
{
    const bool has_colour = look->has_colour && code != NULL;
    fb_text lines = {0};

    if (look->width > 0)
        (void)fb_show_wrapped(fb_text_string(words), words->n, false, indent,
                              look->width, &lines);
    else
        fb_show_lines(fb_text_string(words), words->n, indent, &lines);
    for (const char *at = fb_text_string(&lines); *at != '\0';) {
        const size_t n = strcspn(at, "\n");

        fb_text_puts(out, has_colour ? code : "");
        fb_text_add(out, at, n);
        fb_text_puts(out, has_colour ? PLAIN "\n" : "\n");
        at += n + (at[n] == '\n');
    }
    fb_text_clear(&lines);
}

/* --- a block --- */

/* "20 %", "256 tokens per head", "64.0 MiB". */
static void add_budget(const fb_ask *ask, int budget, fb_text *out)
{
    const fb_budget *b = &ask->plan->spec->budgets[budget];
    char text[32];

    if (b->kind == FB_BUDGET_BYTES) {
        fb_print_size((double)b->value, text, sizeof text);
        fb_text_puts(out, text);
    } else if (b->kind == FB_BUDGET_TOKENS) {
        fb_print_count(b->value, text, sizeof text);
        fb_text_printf(out, "%s %s per head", text,
                       fb_plural(b->value, "token", "tokens"));
    } else {
        fb_budget_print(b, text, sizeof text);
        fb_text_printf(out, "%.*s %%", (int)strcspn(text, "%"), text);
    }
}

void fb_ask_add_heading(const fb_ask *ask, int i, const fb_ask_look *look, fb_text *out)
{
    const fb_cell *cell = ask->answers[i].cell;
    const fb_spec *spec = ask->plan->spec;
    fb_text words = {0};

    for (const char *c = spec->rules[cell->rule].label; *c != 0; c++)
        fb_text_add(&words, *c == '\n' ? " " : c, 1); /* a heading is one line */
    if (cell->seed != 0 && spec->n_seeds > 1)
        fb_text_printf(&words, ", seed %llu", (unsigned long long)cell->seed);
    if (cell->budget >= 0 && spec->n_budgets > 1) {
        fb_text_puts(&words, " at ");
        add_budget(ask, cell->budget, &words);
    }
    add_words(&words, 0, BOLD, look, out);
    fb_text_clear(&words);
}

static void add_kept(const fb_ask *ask, const fb_asked *answer, fb_text *out)
{
    char kept[32], full[32];

    fb_print_size((double)answer->kept_bytes, kept, sizeof kept);
    fb_print_size((double)ask->full_bytes, full, sizeof full);
    if (answer->cell->budget < 0) {
        fb_text_printf(out, "all %s", full);
        return;
    }
    add_budget(ask, answer->cell->budget, out);
    fb_text_printf(out, " = %s of %s", kept, full);
}

static void add_difference(const fb_ask *ask, int i, fb_text *out)
{
    const int64_t at = ask->full < 0 || ask->full == i ? -1 : fb_ask_differs(ask, i);
    const bool are_over =
        at >= 0 && ask->answers[i].is_over && ask->answers[ask->full].is_over;

    if (at > 0)
        fb_text_printf(out, " · differs from token %lld", (long long)at);
    else if (at == 0)
        fb_text_puts(out, are_over ? " · same answer" : " · the same so far");
}

static void add_length(const fb_asked *answer, fb_text *out)
{
    char time[FB_TIME_SHORT];

    fb_time_print(answer->ns, time);
    fb_text_printf(out, " · %lld %s", (long long)answer->n_ids,
                   fb_plural(answer->n_ids, "token", "tokens"));
    if (!answer->is_over)
        fb_text_puts(out, " so far");
    else
        fb_text_printf(out, "%s in %s",
                       answer->stop == FB_STOP_length ? ", cut there," : "", time);
}

void fb_ask_add_facts(const fb_ask *ask, int i, const fb_ask_look *look, fb_text *out)
{
    fb_text words = {0};

    fb_text_puts(&words, "[");
    add_kept(ask, &ask->answers[i], &words);
    add_difference(ask, i, &words);
    add_length(&ask->answers[i], &words);
    fb_text_puts(&words, "]");
    add_words(&words, FB_ASK_INDENT, FAINT, look, out);
    fb_text_clear(&words);
}

static void add_answer(const fb_asked *answer, const fb_ask_look *look, fb_text *out)
{
    const fb_text *text = &answer->text;

    if (look->width > 0)
        (void)fb_show_wrapped(fb_text_string(text), text->n, !answer->is_over,
                              FB_ASK_INDENT, look->width, out);
    else
        fb_show_lines(fb_text_string(text), text->n, FB_ASK_INDENT, out);
}

/* --- all of it --- */

/* "4 rules together"; nothing for one. */
static void add_number(const fb_ask *ask, fb_text *out)
{
    if (ask->n > 1)
        fb_text_printf(out, " %d %s together", ask->n,
                       ask->n == ask->plan->spec->n_rules ? "rules" : "variants");
}

static void add_time(const fb_ask *ask, const fb_ask_look *look, bool stopped,
                     fb_text *out)
{
    const int64_t n = ask->plan->documents[0].context.n;
    fb_text words = {0};
    char tokens[32], time[FB_TIME_SHORT], windows[32];

    if (ask->window_bytes > 0) {
        fb_print_size((double)ask->window_bytes, windows, sizeof windows);
        fb_text_printf(&words,
                       "every cache also has %s of windows that no rule evicts from\n",
                       windows);
    }
    fb_print_count(n, tokens, sizeof tokens);
    fb_time_print(ask->read_ns, time);
    fb_text_printf(&words, "read %s %s once in %s; %s", tokens,
                   fb_plural(n, "token", "tokens"), time,
                   stopped ? "stopped answering" : "answered");
    add_number(ask, &words);
    fb_time_print(ask->answer_ns, time);
    fb_text_printf(&words, " in %s\n", time);
    add_words(&words, 0, NULL, look, out);
    fb_text_clear(&words);
}

void fb_ask_add_all(const fb_ask *ask, const fb_ask_look *look, bool stopped,
                    fb_text *out)
{
    if (ask->full_bytes == 0) return; /* stopped before there was anything */
    for (int i = 0; i < ask->n; i++) {
        fb_ask_add_heading(ask, i, look, out);
        add_answer(&ask->answers[i], look, out);
        fb_ask_add_facts(ask, i, look, out);
        fb_text_puts(out, "\n");
    }
    add_time(ask, look, stopped, out);
}

static bool had_no_choice(const fb_ask *ask, const fb_asked *answer)
{
    return answer->kept_bytes < ask->full_bytes && answer->free_choices == 0;
}

void fb_ask_warn(const fb_ask *ask, int i, fb_report *report, void *self)
{
    const fb_asked *answer = &ask->answers[i];
    const char *label = ask->plan->spec->rules[answer->cell->rule].label;
    const char *what = NULL;
    char sentence[320];

    if (answer->cell->budget < 0) return;
    if (answer->fallback)
        what =
            "the text is too short for its score; the first and last tokens were kept "
            "instead";
    else if (had_no_choice(ask, answer))
        what = "nothing was left for the rule to choose; the answer says nothing about "
               "it. With a larger --budget, or a smaller window, it would";
    else if (answer->shrunk)
        what = "some head may keep fewer entries than are protected";
    if (what == NULL) return;
    (void)snprintf(sentence, sizeof sentence, "%.128s: %s", label, what);
    report(self, sentence);
}

/* --- JSON --- */

static void add_ids(const fb_asked *answer, fb_text *out)
{
    fb_text_puts(out, ", \"ids\": [");
    for (int64_t i = 0; i < answer->n_ids; i++)
        fb_text_printf(out, "%s%d", i > 0 ? ", " : "", (int)answer->ids[i]);
    fb_text_puts(out, "]");
}

/* Null where there is no full cache to differ from. */
static void add_json_difference(const fb_ask *ask, int i, fb_text *out)
{
    const int64_t at = ask->full < 0 ? 0 : fb_ask_differs(ask, i);

    fb_text_printf(out, ", \"same_as_full\": %s, \"differs_at\": ",
                   ask->full < 0 ? "null"
                   : at == 0     ? "true"
                                 : "false");
    if (at > 0)
        fb_text_printf(out, "%lld", (long long)at);
    else
        fb_text_puts(out, "null");
}

static void add_json_answer(const fb_ask *ask, int i, fb_text *out)
{
    static const char *const stops[] = {"end", "length", "string"};
    const fb_asked *answer = &ask->answers[i];
    const fb_cell *cell = answer->cell;
    const fb_spec_rule *rule = &ask->plan->spec->rules[cell->rule];
    char budget[32];

    fb_plan_budget_text(ask->plan, cell->budget, budget, sizeof budget);
    fb_text_puts(out, "{\"rule\": ");
    fb_json_add_string(out, rule->label);
    fb_text_puts(out, ", \"expression\": ");
    fb_json_add_string(out, fb_bound_rule_text(rule->rule));
    fb_text_printf(out,
                   ", \"budget\": \"%s\", \"seed\": %llu, \"kept_entries\": %lld, "
                   "\"kept_bytes\": %zu, \"fallback\": %s, \"without_choice\": %s, "
                   "\"shrunk\": %s, "
                   "\"answer\": ",
                   budget, (unsigned long long)cell->seed,
                   (long long)answer->kept_entries, answer->kept_bytes,
                   answer->fallback ? "true" : "false",
                   had_no_choice(ask, answer) ? "true" : "false",
                   answer->shrunk ? "true" : "false");
    fb_json_add_bytes(out, fb_text_string(&answer->text), answer->text.n);
    add_ids(answer, out);
    fb_text_printf(out, ", \"stop\": \"%s\"",
                   answer->is_over ? stops[answer->stop] : "request");
    add_json_difference(ask, i, out);
    fb_text_printf(out, ", \"seconds\": %.6f}", (double)answer->ns / 1e9);
}

void fb_ask_add_json(const fb_ask *ask, const char *question, bool stopped,
                     fb_text *out)
{
    const fb_plan *plan = ask->plan;
    const fb_model_facts *facts = fb_model_get_facts(plan->model);

    fb_text_puts(out, "{\"format\": 1, \"model\": ");
    fb_json_add_string(out, facts->name);
    fb_text_printf(out, ", \"model_sha256\": \"%s\", \"question\": ", facts->sha256);
    fb_json_add_string(out, question);
    fb_text_printf(out,
                   ", \"device\": \"%s\", \"precision\": \"%s\", \"cache\": \"%s\""
                   ", \"query\": \"%s\", \"protect\": \"%s\", \"max_tokens\": %lld, "
                   "\"text_tokens\": %lld, \"prompt_tokens\": %lld, \"full_bytes\": "
                   "%zu, \"window_bytes\": %zu, \"read_seconds\": %.6f, "
                   "\"answer_seconds\": %.6f, \"stopped\": %s, \"answers\": [",
                   fb_values_text(&plan->spec->values, FB_SET_device),
                   fb_values_text(&plan->spec->values, FB_SET_precision),
                   fb_values_text(&plan->spec->values, FB_SET_cache),
                   fb_values_text(&plan->spec->values, FB_SET_query),
                   fb_values_text(&plan->spec->values, FB_SET_protect),
                   (long long)plan->samples[0].max_tokens,
                   (long long)plan->documents[0].context.n,
                   (long long)plan->samples[0].prompt.n, ask->full_bytes,
                   ask->window_bytes, (double)ask->read_ns / 1e9,
                   (double)ask->answer_ns / 1e9, stopped ? "true" : "false");
    for (int i = 0; i < ask->n && ask->full_bytes > 0; i++) {
        fb_text_puts(out, i == 0 ? "\n  " : ",\n  ");
        add_json_answer(ask, i, out);
    }
    fb_text_puts(out, "\n]}\n");
}
