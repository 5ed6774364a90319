/* across_print.c - the comparison across backends as a sentence, tables, JSON and CSV.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/across_parts.h"

#include "base/json.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *or_unknown(const char *word)
{
    return word == NULL || word[0] == 0 ? "unknown" : word;
}

static const fb_result_task *task_of(const fb_across *a, const fb_across_row *row)
{
    return &a->first->tasks[row->task];
}

/* --- words --- */

void fb_across_say_difference(fb_text *text, double value)
{
    char number[32];

    if (fabs(value) < 1e-12) value = 0; /* the last bits of sums */
    if (!(fabs(value) > 0) || fabs(value) >= 0.001) {
        fb_say_signed(text, value, fabs(value) >= 100 ? 1 : 3);
        return;
    }
    (void)snprintf(number, sizeof number, "%.1e", fabs(value));
    fb_text_printf(text, "%s%s", value < 0 ? "\xE2\x88\x92" : "+", number);
}

static void say_of(fb_text *text, int part, int all)
{
    if (all == 0)
        fb_text_puts(text, "-");
    else
        fb_text_printf(text, "%d of %d", part, all);
}

void fb_across_say_place(fb_text *text, const fb_across *a, const fb_across_row *row)
{
    const fb_result_task *task = task_of(a, row);

    fb_text_printf(text, "%s \xC2\xB7 ", task->name);
    if (row->budget < 0)
        fb_text_puts(text, "full cache");
    else
        fb_say_budget(text, &a->first->budgets[row->budget]);
    fb_text_printf(text, " \xC2\xB7 %s in %s, %s is better",
                   fb_say_metric(task->metric), task->unit,
                   task->lower_is_better ? "lower" : "higher");
}

static void say_heading(fb_text *text, const fb_across *a, int column)
{
    static const char *const names[FB_ACROSS_COLUMNS] = {
        [FB_ACROSS_rule] = "rule",
        [FB_ACROSS_cells] = "cells",
        [FB_ACROSS_sets] = "equal sets",
        [FB_ACROSS_exchanged] = "exchanged entries",
        [FB_ACROSS_answers] = "equal answers",
        [FB_ACROSS_first] = "first",
        [FB_ACROSS_second] = "second",
        [FB_ACROSS_difference] = "difference",
    };

    if (column != FB_ACROSS_interval) {
        fb_text_puts(text, names[column]);
        return;
    }
    fb_say_percent(text, a->confidence);
    fb_text_puts(text, " interval");
}

static void say_exchanged(fb_text *text, const fb_across_row *row)
{
    if (row->n_positions == 0)
        fb_text_puts(text, "-");
    else
        fb_text_printf(text, "%lld of %lld", (long long)row->n_exchanged,
                       (long long)row->n_entries);
}

void fb_across_say_column(fb_text *text, const fb_across *a, const fb_across_row *row,
                          int column)
{
    if (row == NULL) {
        say_heading(text, a, column);
        return;
    }
    switch (column) {
    case FB_ACROSS_rule:
        fb_text_puts(text, a->first->rules[row->rule].label);
        break;
    case FB_ACROSS_cells:
        fb_text_printf(text, "%d", row->n_cells);
        break;
    case FB_ACROSS_sets:
        say_of(text, row->n_equal_sets, row->n_sets);
        break;
    case FB_ACROSS_exchanged:
        say_exchanged(text, row);
        break;
    case FB_ACROSS_answers:
        say_of(text, row->n_equal_answers, row->n_answers);
        break;
    case FB_ACROSS_first:
        fb_say_number(text, row->first, 3);
        break;
    case FB_ACROSS_second:
        fb_say_number(text, row->second, 3);
        break;
    case FB_ACROSS_difference:
        fb_across_say_difference(text, row->difference);
        break;
    case FB_ACROSS_interval:
        fb_across_say_difference(text, row->interval.low);
        fb_text_puts(text, " to ");
        fb_across_say_difference(text, row->interval.high);
        break;
    }
}

/* --- the headline --- */

/* Largest in terms of what matters: the task's margin. */
static const fb_across_row *find_largest(const fb_across *a)
{
    const fb_across_row *largest = a->rows;
    double most = -1;

    for (int i = 0; i < a->n_rows; i++) {
        const double margin = task_of(a, &a->rows[i])->margin;
        const double size = fabs(a->rows[i].difference) / (margin > 0 ? margin : 1);

        if (size <= most) continue;
        most = size;
        largest = &a->rows[i];
    }
    return largest;
}

static void say_largest(fb_text *text, const fb_across *a)
{
    const fb_across_row *row = find_largest(a);
    const fb_result_task *task = task_of(a, row);

    fb_text_puts(text, "the largest mean difference, second less first, is ");
    fb_across_say_difference(text, row->difference);
    fb_say_unit(text, task);
    fb_text_printf(text, " (%s, %s, ", a->first->rules[row->rule].label, task->name);
    if (row->budget < 0)
        fb_text_puts(text, "full cache");
    else
        fb_say_budget(text, &a->first->budgets[row->budget]);
    fb_text_printf(text, "); from %.15g on it matters", task->margin);
}

/* Of all rows. */
static fb_across_row sum_up(const fb_across *a)
{
    fb_across_row sum = {0};

    for (int i = 0; i < a->n_rows; i++) {
        const fb_across_row *row = &a->rows[i];

        sum.n_sets += row->n_sets;
        sum.n_equal_sets += row->n_equal_sets;
        sum.n_answers += row->n_answers;
        sum.n_equal_answers += row->n_equal_answers;
        sum.n_positions += row->n_positions;
        sum.n_entries += row->n_entries;
        sum.n_exchanged += row->n_exchanged;
    }
    return sum;
}

static void say_headline(fb_text *text, const fb_across *a)
{
    const fb_across_row sum = sum_up(a);

    fb_text_printf(text, "First %s, second %s, ", or_unknown(a->first->kernel),
                   or_unknown(a->second->kernel));
    fb_say_count(text, a->n_pairs, "cell");
    fb_text_puts(text, " of both: ");
    if (sum.n_sets > 0)
        fb_text_printf(text, "the kept sets are equal in %d of %d, ", sum.n_equal_sets,
                       sum.n_sets);
    if (sum.n_positions > 0)
        fb_text_printf(text,
                       "%lld of %lld entries are exchanged in the %d cells of which "
                       "both files hold positions, ",
                       (long long)sum.n_exchanged, (long long)sum.n_entries,
                       sum.n_positions);
    if (sum.n_answers > 0)
        fb_text_printf(text, "the free answers are equal in %d of %d, ",
                       sum.n_equal_answers, sum.n_answers);
    say_largest(text, a);
    fb_text_puts(text, ".");
}

/* The text as a string of its own. */
static fb_status take(char **out, fb_text *text)
{
    fb_status status = fb_text_status(text);

    if (status == FB_OK) *out = fb_strdup(fb_text_string(text));
    if (status == FB_OK && *out == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for a comparison");
    fb_text_clear(text);
    return status;
}

fb_status fb_across_say(fb_across *across)
{
    fb_text text;

    fb_text_init(&text, 0);
    say_headline(&text, across);
    fb_say_clean(&text, 0);
    return take(&across->headline, &text);
}

/* --- text --- */

static bool is_same_table(const fb_across_row *a, const fb_across_row *b)
{
    return a->task == b->task && a->budget == b->budget;
}

static void make_cell(fb_text *cell, const fb_across *a, const fb_across_row *row,
                      int column)
{
    fb_text_clear(cell);
    fb_across_say_column(cell, a, row, column);
    fb_say_clean(cell, 0);
}

static void print_line(fb_text *text, const fb_across *a, const fb_across_row *row,
                       const int *widths, fb_text *cell)
{
    for (int c = 0; c < FB_ACROSS_COLUMNS; c++) {
        int room;

        make_cell(cell, a, row, c);
        room = widths[c] - fb_say_width(fb_text_string(cell));
        fb_say_spaces(text, (c == 0 ? 0 : 2) + (c == FB_ACROSS_rule ? 0 : room));
        fb_text_puts(text, fb_text_string(cell));
        if (c == FB_ACROSS_rule) fb_say_spaces(text, room);
    }
    fb_text_puts(text, "\n");
}

/* Rows [row, row + n) are of one task and budget. */
static void print_table(fb_text *text, const fb_across *a, const fb_across_row *row,
                        int n)
{
    const size_t from = text->n;
    int widths[FB_ACROSS_COLUMNS] = {0};
    fb_text cell;

    fb_text_init(&cell, 0);
    fb_across_say_place(text, a, row);
    fb_say_clean(text, from);
    fb_text_puts(text, "\n");
    for (int i = -1; i < n; i++)
        for (int c = 0; c < FB_ACROSS_COLUMNS; c++) {
            int width;

            make_cell(&cell, a, i < 0 ? NULL : &row[i], c);
            width = fb_say_width(fb_text_string(&cell));
            if (width > widths[c]) widths[c] = width;
        }
    for (int i = -1; i < n; i++)
        print_line(text, a, i < 0 ? NULL : &row[i], widths, &cell);
    text->failed |= cell.failed;
    fb_text_clear(&cell);
}

static void print_text(fb_text *text, const fb_across *a)
{
    fb_say_wrapped(text, a->headline);
    for (int i = 0, n; i < a->n_rows; i += n) {
        n = 1;
        while (i + n < a->n_rows && is_same_table(&a->rows[i], &a->rows[i + n]))
            n++;
        fb_text_puts(text, "\n");
        print_table(text, a, &a->rows[i], n);
    }
    fb_text_puts(text, "\n");
    if (a->n_only_first + a->n_only_second > 0)
        fb_text_printf(text,
                       "left out: %d cells of the first and %d of the second "
                       "without a finished counterpart\n\n",
                       a->n_only_first, a->n_only_second);
    fb_say_wrapped(text, FB_ACROSS_WORDS);
}

/* --- for machines --- */

static const struct {
    const char *name;
    size_t offset;
    bool is_wide; /* an int64_t, else an int */
} counts[] = {
    {"cells", offsetof(fb_across_row, n_cells), false},
    {"documents", offsetof(fb_across_row, n_documents), false},
    {"sets", offsetof(fb_across_row, n_sets), false},
    {"equal_sets", offsetof(fb_across_row, n_equal_sets), false},
    {"position_cells", offsetof(fb_across_row, n_positions), false},
    {"entries", offsetof(fb_across_row, n_entries), true},
    {"exchanged_entries", offsetof(fb_across_row, n_exchanged), true},
    {"answers", offsetof(fb_across_row, n_answers), false},
    {"equal_answers", offsetof(fb_across_row, n_equal_answers), false},
};

static const struct {
    const char *name;
    size_t offset;
} reals[] = {
    {"equal_entries", offsetof(fb_across_row, common)},
    {"first", offsetof(fb_across_row, first)},
    {"second", offsetof(fb_across_row, second)},
    {"difference", offsetof(fb_across_row, difference)},
    {"difference_low", offsetof(fb_across_row, interval.low)},
    {"difference_high", offsetof(fb_across_row, interval.high)},
};

enum {
    N_COUNTS = sizeof counts / sizeof *counts,
    N_REALS = sizeof reals / sizeof *reals
};

static long long count_at(const fb_across_row *row, int column)
{
    const char *at = (const char *)row + counts[column].offset;
    int64_t wide;
    int narrow;

    if (counts[column].is_wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static void add_real(fb_text *text, const fb_across_row *row, int column,
                     const char *none)
{
    double value;

    memcpy(&value, (const char *)row + reals[column].offset, sizeof value);
    if (isfinite(value))
        fb_text_add_real(text, value);
    else
        fb_text_puts(text, none);
}

static const char *budget_name(const fb_across *a, const fb_across_row *row)
{
    return row->budget < 0 ? "full" : a->first->budgets[row->budget].asked;
}

static void add_row(fb_text *text, const fb_across *a, const fb_across_row *row)
{
    const fb_result_task *task = task_of(a, row);
    const fb_result_rule *rule = &a->first->rules[row->rule];

    fb_text_puts(text, "{");
    fb_export_string(text, "task", task->name);
    fb_export_string(text, "budget", budget_name(a, row));
    fb_export_string(text, "rule", rule->label);
    fb_export_string(text, "expression", rule->expression);
    fb_export_string(text, "metric", task->metric);
    fb_export_string(text, "unit", task->unit);
    for (int c = 0; c < N_COUNTS; c++)
        fb_text_printf(text, "\"%s\":%lld,", counts[c].name, count_at(row, c));
    for (int c = 0; c < N_REALS; c++) {
        fb_text_printf(text, "%s\"%s\":", c == 0 ? "" : ",", reals[c].name);
        add_real(text, row, c, "null");
    }
    fb_text_puts(text, "}");
}

static void print_json(fb_text *text, const fb_across *a)
{
    fb_text_puts(text, "{\"format\":1,");
    fb_export_string(text, "first_kernel", a->first->kernel);
    fb_export_string(text, "second_kernel", a->second->kernel);
    fb_export_string(text, "first_digest", a->first->digest);
    fb_export_string(text, "second_digest", a->second->digest);
    fb_export_string(text, "headline", a->headline);
    fb_text_printf(text, "\"pairs\":%d,\"only_first\":%d,\"only_second\":%d,",
                   a->n_pairs, a->n_only_first, a->n_only_second);
    fb_text_puts(text, "\"confidence\":");
    fb_json_add_real(text, a->confidence);
    fb_text_puts(text, ",\"rows\":[");
    for (int i = 0; i < a->n_rows; i++) {
        if (i > 0) fb_text_puts(text, ",");
        add_row(text, a, &a->rows[i]);
    }
    fb_text_puts(text, "]}\n");
}

static void add_line(fb_text *text, const fb_across *a, const fb_across_row *row)
{
    const fb_result_task *task = task_of(a, row);
    const fb_result_rule *rule = &a->first->rules[row->rule];
    const char *words[] = {or_unknown(a->first->kernel),
                           or_unknown(a->second->kernel),
                           task->name,
                           budget_name(a, row),
                           rule->label,
                           rule->expression,
                           task->metric,
                           task->unit};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (i > 0) fb_text_puts(text, ",");
        fb_export_field(text, words[i]);
    }
    for (int c = 0; c < N_COUNTS; c++)
        fb_text_printf(text, ",%lld", count_at(row, c));
    for (int c = 0; c < N_REALS; c++) {
        fb_text_puts(text, ",");
        add_real(text, row, c, "");
    }
    fb_text_puts(text, "\r\n");
}

static void print_csv(fb_text *text, const fb_across *a)
{
    fb_text_puts(text, "first_kernel,second_kernel,task,budget,rule,expression,metric,"
                       "unit");
    for (int c = 0; c < N_COUNTS; c++)
        fb_text_printf(text, ",%s", counts[c].name);
    for (int c = 0; c < N_REALS; c++)
        fb_text_printf(text, ",%s", reals[c].name);
    fb_text_puts(text, "\r\n");
    for (int i = 0; i < a->n_rows; i++)
        add_line(text, a, &a->rows[i]);
}

fb_status fb_across_print(const fb_across *across, fb_format format, char **out)
{
    fb_text text;

    *out = NULL;
    fb_text_init(&text, 0);
    if (format == FB_FORMAT_JSON)
        print_json(&text, across);
    else if (format == FB_FORMAT_CSV)
        print_csv(&text, across);
    else
        print_text(&text, across);
    return take(out, &text);
}
