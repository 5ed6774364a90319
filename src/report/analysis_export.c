/* analysis_export.c - the tables for machines: JSON, and CSV as in RFC 4180.
 *
 * Both walk the same lists of columns. Numbers have all their digits, those of bytes
 * without an exponent; what is not available is null, or empty. In CSV a text that a
 * spreadsheet would take for a formula (it begins with = + - or @, as a label may) has
 * an apostrophe in front, which makes it a text there; numbers are never touched.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "report/analysis_parts.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
    void (*add)(fb_text *text, double value);
} reals[] = {
    {"mean", offsetof(fb_row, mean), fb_text_add_real},
    {"low", offsetof(fb_row, mean_interval.low), fb_text_add_real},
    {"high", offsetof(fb_row, mean_interval.high), fb_text_add_real},
    {"difference", offsetof(fb_row, difference), fb_text_add_real},
    {"difference_low", offsetof(fb_row, difference_interval.low), fb_text_add_real},
    {"difference_high", offsetof(fb_row, difference_interval.high), fb_text_add_real},
    {"p", offsetof(fb_row, p), fb_text_add_real},
    {"p_holm", offsetof(fb_row, p_holm), fb_text_add_real},
    {"sd", offsetof(fb_row, sd), fb_text_add_real},
    {"lost", offsetof(fb_row, lost), fb_text_add_real},
    {"lost_low", offsetof(fb_row, lost_interval.low), fb_text_add_real},
    {"lost_high", offsetof(fb_row, lost_interval.high), fb_text_add_real},
    {"share", offsetof(fb_row, share), fb_text_add_real},
    {"share_low", offsetof(fb_row, share_interval.low), fb_text_add_real},
    {"share_high", offsetof(fb_row, share_interval.high), fb_text_add_real},
    {"filled", offsetof(fb_row, filled), fb_text_add_real},
    {"kept_bytes", offsetof(fb_row, kept_bytes), fb_text_add_plain},
    {"budget_bytes", offsetof(fb_row, budget_bytes), fb_text_add_plain},
    {"full_bytes", offsetof(fb_row, full_bytes), fb_text_add_plain},
    {"held_bytes", offsetof(fb_row, held_bytes), fb_text_add_plain},
    {"peak_bytes", offsetof(fb_row, peak_bytes), fb_text_add_plain},
    {"tail_bytes", offsetof(fb_row, tail_bytes), fb_text_add_plain},
    {"extra_flops", offsetof(fb_row, extra_flops), fb_text_add_real},
    {"extra_most", offsetof(fb_row, extra_most), fb_text_add_real},
    {"fused_flops", offsetof(fb_row, fused_flops), fb_text_add_real},
    {"step_flops", offsetof(fb_row, step_flops), fb_text_add_plain},
    {"step_bytes", offsetof(fb_row, step_bytes), fb_text_add_plain},
    {"em", offsetof(fb_row, em), fb_text_add_real},
    {"nll", offsetof(fb_row, nll), fb_text_add_real},
    {"kl", offsetof(fb_row, kl), fb_text_add_real},
    {"top1", offsetof(fb_row, top1), fb_text_add_real},
};

static const struct {
    const char *name;
    size_t offset;
} counts[] = {
    {"n", offsetof(fb_row, n)},
    {"seeds", offsetof(fb_row, n_seeds)},
    {"fallback", offsetof(fb_row, n_fallback)},
    {"shrunk", offsetof(fb_row, n_shrunk)},
    {"without_choice", offsetof(fb_row, n_without_choice)},
    {"first_lost", offsetof(fb_row, n_first_lost)},
    {"beyond_trained", offsetof(fb_row, n_beyond)},
    {"over_in_decode", offsetof(fb_row, n_over)},
};

enum {
    N_REALS = sizeof reals / sizeof *reals,
    N_COUNTS = sizeof counts / sizeof *counts
};

static double real_at(const fb_row *row, int column)
{
    double value;

    memcpy(&value, (const char *)row + reals[column].offset, sizeof value);
    return value;
}

static int count_at(const fb_row *row, int column)
{
    int value;

    memcpy(&value, (const char *)row + counts[column].offset, sizeof value);
    return value;
}

/* `none` is written for what is not available. */
static void add_real(fb_text *text, const fb_row *row, int column, const char *none)
{
    const double value = real_at(row, column);

    if (isfinite(value))
        reals[column].add(text, value);
    else
        fb_text_puts(text, none);
}

static const char *verdict_name(const fb_analysis *a, const fb_row *row)
{
    static const char *const names[] = {[FB_VERDICT_reference] = "reference",
                                        [FB_VERDICT_better] = "better",
                                        [FB_VERDICT_worse] = "worse",
                                        [FB_VERDICT_open] = "open"};

    return fb_stands_apart(row, a->baseline) ? "above_quota" : names[row->verdict];
}

/* --- JSON --- */

void fb_export_string(fb_text *text, const char *key, const char *value)
{
    fb_text_printf(text, "\"%s\":", key);
    if (value == NULL)
        fb_text_puts(text, "null");
    else
        fb_json_add_string(text, value);
    fb_text_puts(text, ",");
}

/* Bytes by phase and account. */
static void add_memory(fb_text *text, const fb_row *row)
{
    int n = 0;

    fb_text_puts(text, ",\"memory\":{");
    for (int p = 0; p < FB_MEMORY_PHASES; p++) {
        if (isnan(row->memory[p][FB_ACCOUNT_kv])) continue;
        fb_text_printf(text, "%s\"%s\":{", n++ == 0 ? "" : ",",
                       fb_memory_phase_name(p));
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++) {
            fb_text_printf(text, "%s\"%s\":", a == 0 ? "" : ",",
                           fb_account_name((fb_account)a));
            if (isfinite(row->memory[p][a]))
                fb_text_add_plain(text, row->memory[p][a]);
            else
                fb_text_puts(text, "null");
        }
        fb_text_puts(text, "}");
    }
    fb_text_puts(text, "}");
}

static void add_row(fb_text *text, const fb_analysis *a, const fb_row *row)
{
    const fb_result_rule *rule = &a->results->rules[row->rule];

    fb_text_puts(text, "{");
    fb_export_string(text, "rule", rule->label);
    fb_export_string(text, "expression", rule->expression);
    fb_export_string(text, "verdict", verdict_name(a, row));
    fb_export_string(text, "group", row->letters);
    for (int c = 0; c < N_COUNTS; c++)
        fb_text_printf(text, "\"%s\":%d,", counts[c].name, count_at(row, c));
    for (int c = 0; c < N_REALS; c++) {
        fb_text_printf(text, "%s\"%s\":", c == 0 ? "" : ",", reals[c].name);
        add_real(text, row, c, "null");
    }
    add_memory(text, row);
    fb_text_printf(text, ",\"simulated\":%s}", row->is_simulated ? "true" : "false");
}

/* Rows [from, to). */
static void add_rows(fb_text *text, const fb_analysis *a, const fb_table *table,
                     const char *name, int from, int to)
{
    fb_text_printf(text, ",\"%s\":[", name);
    for (int r = from; r < to; r++) {
        if (r > from) fb_text_puts(text, ",");
        add_row(text, a, &table->rows[r]);
    }
    fb_text_puts(text, "]");
}

static void add_table(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    const fb_result_task *task = &a->results->tasks[table->task];

    fb_text_puts(text, "{");
    fb_export_string(text, "task", task->name);
    fb_text_printf(text, "\"version\":%lld,", (long long)task->version);
    fb_export_string(text, "budget", a->results->budgets[table->budget].asked);
    fb_export_string(text, "metric", task->metric);
    fb_export_string(text, "unit", task->unit);
    fb_text_printf(text,
                   "\"lower_is_better\":%s,\"samples\":%d,\"documents\":%d,"
                   "\"left_out\":%d,\"smallest_effect\":",
                   task->lower_is_better ? "true" : "false", table->n_samples,
                   table->n_documents, table->n_left_out);
    fb_json_add_real(text, table->smallest_effect);
    fb_text_puts(text, ",\"margin\":");
    fb_json_add_real(text, table->margin);
    add_rows(text, a, table, "rows", 0, table->n_rows - table->n_apart);
    add_rows(text, a, table, "above_quota", table->n_rows - table->n_apart,
             table->n_rows);
    fb_text_puts(text, "}");
}

static void add_failure(fb_text *text, const fb_analysis *a, const fb_failure *failure)
{
    fb_text_puts(text, "{");
    fb_export_string(text, "task", a->results->tasks[failure->task].name);
    fb_export_string(text, "budget",
                     failure->budget < 0 ? NULL
                                         : a->results->budgets[failure->budget].asked);
    fb_export_string(text, "rule", a->results->rules[failure->rule].label);
    fb_export_string(text, "first", failure->reason);
    fb_text_printf(text, "\"cells\":%d,\"failed\":%d}", failure->n_cells,
                   failure->n_failed);
}

/* Planned is null where the file does not say. */
static void add_missing(fb_text *text, const fb_analysis *a)
{
    if (a->results->planned > 0)
        fb_text_printf(text, "\"planned\":%lld,", (long long)a->results->planned);
    else
        fb_text_puts(text, "\"planned\":null,");
    fb_text_printf(text, "\"done\":%lld,\"failed\":[", (long long)a->n_done);
    for (int i = 0; i < a->n_failures; i++) {
        if (i > 0) fb_text_puts(text, ",");
        add_failure(text, a, &a->failures[i]);
    }
    fb_text_puts(text, "],");
}

/* Cells that `verify` ran again; null: none yet. */
static void add_verified(fb_text *text, const fb_results *r)
{
    if (r->verified == NULL)
        fb_text_puts(text, "\"verified\":null,");
    else
        fb_text_printf(text, "\"verified\":{\"cells\":%lld,\"equal\":%lld},",
                       (long long)r->n_verified, (long long)r->n_verified_equal);
}

static void add_made(fb_text *text, const fb_results *r)
{
    fb_export_string(text, "program", r->program);
    fb_export_string(text, "kernel", r->kernel);
    fb_export_string(text, "protocol", r->protocol);
    fb_export_string(text, "model_sha256", r->model.sha256);
    fb_export_string(text, "template_sha256", r->model.template_sha256);
}

void fb_analysis_print_json(fb_text *text, const fb_analysis *a)
{
    fb_text_puts(text, "{\"format\":1,");
    fb_export_string(text, "signature", a->signature);
    fb_export_string(text, "class", a->results->class_name);
    fb_export_string(text, "class_reasons", a->results->class_reasons);
    add_verified(text, a->results);
    add_made(text, a->results);
    fb_export_string(text, "digest", a->results->digest);
    fb_export_string(text, "baseline",
                     a->baseline < 0 ? NULL : a->results->rules[a->baseline].label);
    fb_text_puts(text, "\"quota\":");
    fb_json_add_real(text, a->quota);
    fb_text_puts(text, ",\"confidence\":");
    fb_json_add_real(text, a->confidence);
    fb_text_puts(text, ",");
    fb_export_string(text, "headline", a->headline);
    fb_export_string(text, "paragraph", a->paragraph);
    add_missing(text, a);
    fb_text_puts(text, "\"tables\":[");
    for (int t = 0; t < a->n_tables; t++) {
        if (t > 0) fb_text_puts(text, ",");
        add_table(text, a, &a->tables[t]);
    }
    fb_text_puts(text, "]}\n");
}

/* --- CSV --- */

static bool is_formula(const char *field)
{
    return field[0] != 0 && strchr("=+-@\t\r", field[0]) != NULL;
}

void fb_export_field(fb_text *text, const char *field)
{
    const bool is_quoted = strpbrk(field, ",\"\r\n") != NULL;

    if (is_quoted) fb_text_puts(text, "\"");
    if (is_formula(field)) fb_text_puts(text, "'");
    for (; *field != 0; field++)
        fb_text_printf(text, *field == '"' ? "\"%c" : "%c", *field);
    if (is_quoted) fb_text_puts(text, "\"");
}

static void add_words(fb_text *text, const char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        fb_export_field(text, words[i]);
        fb_text_puts(text, ",");
    }
}

/* Rows of several files are put below each other by others: each says whose it is. */
static void add_setting(fb_text *text, const fb_analysis *a)
{
    const char *words[] = {a->results->class_name, a->results->protocol, a->signature};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        fb_text_puts(text, ",");
        fb_export_field(text, words[i] == NULL ? "" : words[i]);
    }
}

static void add_line(fb_text *text, const fb_analysis *a, const fb_table *table,
                     const fb_row *row)
{
    const fb_result_task *task = &a->results->tasks[table->task];
    const fb_result_rule *rule = &a->results->rules[row->rule];
    const char *words[] = {
        task->name,           a->results->budgets[table->budget].asked,
        rule->label,          rule->expression,
        task->metric,         task->unit,
        verdict_name(a, row), row->letters};

    add_words(text, words, (int)(sizeof words / sizeof *words));
    fb_text_printf(text, "%d", table->n_samples);
    for (int c = 0; c < N_COUNTS; c++)
        fb_text_printf(text, ",%d", count_at(row, c));
    for (int c = 0; c < N_REALS; c++) {
        fb_text_puts(text, ",");
        add_real(text, row, c, "");
    }
    add_setting(text, a);
    fb_text_puts(text, "\r\n");
}

void fb_analysis_print_csv(fb_text *text, const fb_analysis *a)
{
    fb_text_puts(text, "task,budget,rule,expression,metric,unit,verdict,group,samples");
    for (int c = 0; c < N_COUNTS; c++)
        fb_text_printf(text, ",%s", counts[c].name);
    for (int c = 0; c < N_REALS; c++)
        fb_text_printf(text, ",%s", reals[c].name);
    fb_text_puts(text, ",class,protocol,signature\r\n");
    for (int t = 0; t < a->n_tables; t++)
        for (int r = 0; r < a->tables[t].n_rows; r++)
            add_line(text, a, &a->tables[t], &a->tables[t].rows[r]);
}
