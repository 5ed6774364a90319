/* analysis_words.c - numbers and lists as a person reads them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_parts.h"

#include "base/json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MINUS "\xe2\x88\x92" /* U+2212 */

static void say(fb_text *text, double value, int digits, bool has_plus)
{
    char number[64];
    bool is_zero;

    if (!isfinite(value)) {
        fb_text_puts(text, "-");
        return;
    }
    (void)snprintf(number, sizeof number, "%.*f", digits, fabs(value));
    for (char *c = number; *c != 0; c++)
        if (*c == ',') *c = '.'; /* whatever the locale */
    is_zero = strspn(number, "0.") == strlen(number);
    if (value < 0 && !is_zero) fb_text_puts(text, MINUS);
    if (value > 0 && !is_zero && has_plus) fb_text_puts(text, "+");
    fb_text_puts(text, number);
}

void fb_say_number(fb_text *text, double value, int digits)
{
    say(text, value, digits, false);
}

void fb_say_signed(fb_text *text, double value, int digits)
{
    say(text, value, digits, true);
}

void fb_say_interval(fb_text *text, fb_interval interval, int digits, bool is_signed)
{
    say(text, interval.low, digits, is_signed);
    fb_text_puts(text, " to ");
    say(text, interval.high, digits, is_signed);
}

void fb_say_p(fb_text *text, double p)
{
    if (p < 0.001)
        fb_text_puts(text, "<0.001");
    else
        say(text, p, p < 0.0995 ? 3 : 2, false);
}

/* Whole percents from 10 on, one digit below, and near 100, where a unit matters. */
void fb_say_percent(fb_text *text, double share)
{
    const double percent = 100 * share;
    const bool is_whole = fabs(percent - round(percent)) < 0.05;
    const bool is_near_all = percent >= 99 && percent <= 101;

    say(text, percent, is_whole || (fabs(percent) >= 10 && !is_near_all) ? 0 : 1,
        false);
    if (isfinite(share)) fb_text_puts(text, " %");
}

void fb_say_bytes(fb_text *text, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;

    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    say(text, bytes, unit == 0 || bytes >= 100 ? 0 : 1, false);
    fb_text_printf(text, " %s", units[unit]);
}

int64_t fb_trained_length(const fb_store_model *model)
{
    int64_t length = 0;
    fb_json *root;

    if (model->facts == NULL ||
        fb_json_parse(&root, model->facts, strlen(model->facts)) != FB_OK)
        return 0;
    (void)fb_json_int(fb_json_get(root, "context_length"), &length);
    fb_json_free(root);
    return length;
}

bool fb_say_windows(fb_text *text, const fb_store_model *model)
{
    int64_t layers = 0, window = 0;
    double bytes = 0;
    fb_json *root;

    if (model->facts == NULL ||
        fb_json_parse(&root, model->facts, strlen(model->facts)) != FB_OK)
        return false;
    (void)fb_json_int(fb_json_get(root, "sliding_layers"), &layers);
    (void)fb_json_int(fb_json_get(root, "window"), &window);
    (void)fb_json_real(fb_json_get(root, "window_bytes"), &bytes);
    fb_json_free(root);
    if (layers == 0) return false;
    fb_text_printf(
        text, "%lld of %lld layers slide: they keep their last %lld tokens, up to ",
        (long long)layers, (long long)model->layers, (long long)window);
    fb_say_bytes(text, bytes);
    fb_text_puts(text, " beside the budget, the same for every rule");
    return true;
}

/* "20%" is "20 %", "256t" is "256 tokens per head", "64MiB" is "64 MiB". */
void fb_say_budget(fb_text *text, const fb_store_budget *budget)
{
    const size_t n = strspn(budget->asked, "0123456789.");
    const char *unit = budget->asked + n;

    fb_text_add(text, budget->asked, n);
    while (isspace((unsigned char)*unit))
        unit++;
    if (*unit == 't')
        fb_text_puts(text, " tokens per head");
    else if (*unit != 0)
        fb_text_printf(text, "%s%s", n > 0 ? " " : "", unit);
}

void fb_say_count(fb_text *text, int n, const char *word)
{
    fb_text_printf(text, "%d %s%s", n, word, fb_plural(n, "", "s"));
}

void fb_say_list(fb_text *text, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        fb_text_printf(text, "%s%s",
                       i == 0       ? ""
                       : i == n - 1 ? " and "
                                    : ", ",
                       names[i]);
}

const char *fb_say_metric(const char *metric)
{
    static const char *const names[][2] = {{"kl", "KL"},
                                           {"nll", "NLL"},
                                           {"em", "exact match"},
                                           {"em_tf", "exact match"},
                                           {"top1", "same first choice"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(metric, names[i][0]) == 0) return names[i][1];
    return metric;
}

/* "chunk64": a word with a number. */
static bool say_number_of_protocol(fb_text *text, const char *part, size_t n)
{
    static const char *const words[][3] = {
        {"chunk", ", chunks of ", ""}, {"answer", ", answers too, every ", " tokens"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t word = strlen(words[i][0]);

        if (n <= word || strncmp(part, words[i][0], word) != 0) continue;
        fb_text_printf(text, "%s%.*s%s", words[i][1], (int)(n - word), part + word,
                       words[i][2]);
        return true;
    }
    return false;
}

void fb_say_protocol(fb_text *text, const char *protocol)
{
    static const char *const words[][2] = {{"agnostic", ", question not seen"},
                                           {"aware", ", question seen"},
                                           {"original", ""},
                                           {"new", ", scores kept"},
                                           {"compact", ", positions renumbered"}};
    size_t n = strcspn(protocol, ".");

    fb_text_add(text, protocol, n);
    for (const char *at = protocol + n; *at == '.'; at += n) {
        const char *word = NULL;

        n = strcspn(++at, ".");
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i][0]) == n && strncmp(at, words[i][0], n) == 0)
                word = words[i][1];
        if (word != NULL)
            fb_text_puts(text, word);
        else if (!say_number_of_protocol(text, at, n))
            fb_text_printf(text, ", %.*s", (int)n, at);
    }
}

/* A share of 1 needs no unit. */
void fb_say_unit(fb_text *text, const fb_result_task *task)
{
    if (task->unit[0] != 0 && strcmp(task->unit, "share") != 0)
        fb_text_printf(text, " %s", task->unit);
}

/* True if no tested rule differs from the baseline in any document. */
static bool are_equal(const fb_table *table)
{
    for (int r = 0; r < table->n_rows; r++)
        if (table->rows[r].verdict != FB_VERDICT_reference &&
            (fabs(table->rows[r].difference) > 0 || table->rows[r].sd > 0))
            return false;
    return true;
}

void fb_say_smallest(fb_text *text, const fb_analysis *analysis, const fb_table *table)
{
    const bool is_equal = !(table->smallest_effect > 0);

    if (isnan(table->smallest_effect))
        fb_text_puts(text, "no rule was tested over ");
    else if (is_equal)
        fb_text_puts(text, are_equal(table)
                               ? "the values are equal in all "
                               : "the middle difference is constant over ");
    fb_say_count(text, table->n_documents, "document");
    if (isinf(table->smallest_effect)) {
        fb_text_puts(text, " cannot show any difference at ");
        fb_say_percent(text, analysis->confidence);
    } else if (!is_equal) {
        fb_text_puts(text, " could show a difference of ");
        fb_say_number(text, table->smallest_effect, table->digits);
        fb_say_unit(text, &analysis->results->tasks[table->task]);
    }
}

void fb_say_few(fb_text *text, int n_documents)
{
    fb_say_count(text, n_documents, "document");
    fb_text_puts(text, ": intervals of so few are too narrow; p is exact (sign flips)");
}

/* Scores that are better when higher begin at 0; losses have no worst value. */
bool fb_is_at_floor(const fb_analysis *analysis, const fb_table *table)
{
    const fb_results *results = analysis->results;

    if (results->tasks[table->task].lower_is_better) return false;
    for (int r = 0; r < table->n_rows; r++)
        if (strcmp(results->rules[table->rows[r].rule].expression, "full") == 0)
            return !(table->rows[r].mean > 0);
    return false;
}

void fb_say_floor(fb_text *text, const fb_table *table)
{
    fb_text_puts(text, "the full cache itself scores ");
    fb_say_number(text, 0, table->digits);
    fb_text_puts(text, ": this model cannot do this task");
}

void fb_say_clean(fb_text *text, size_t from)
{
    for (size_t i = from; !text->failed && i < text->n; i++) {
        const unsigned char c = (unsigned char)text->bytes[i];

        if (c < 0x20 || c == 0x7f) text->bytes[i] = '?';
    }
}

bool fb_say_verified(fb_text *text, const fb_results *results)
{
    if (results->certificate == NULL) return false;
    if (results->verified == NULL)
        fb_text_puts(text, "no cell was run again yet");
    else
        fb_text_printf(text, "%lld of %lld %s run again %s equal",
                       (long long)results->n_verified_equal,
                       (long long)results->n_verified,
                       fb_plural(results->n_verified, "cell", "cells"),
                       fb_plural(results->n_verified_equal, "is", "are"));
    return true;
}
