/* analysis_print.c - the tables as text: a sentence, its numbers, aligned columns.
 *
 * Every cell of a table is made twice, once to measure its column and once to print it:
 * no second copy of the table is kept. Widths are counted in characters.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/unlike.h"

#include <math.h>
#include <string.h>

enum { LINE = 100, GAP = 2 };

enum column {
    COLUMN_rule,
    COLUMN_mean,
    COLUMN_mean_interval,
    COLUMN_difference,
    COLUMN_difference_interval,
    COLUMN_p,
    COLUMN_group,
    COLUMN_filled,
    COLUMN_extra,
    COLUMN_fused,
    COLUMN_COUNT
};

int fb_say_width(const char *text)
{
    int n = 0;

    for (; *text != 0; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void say_level(fb_text *text, const fb_analysis *a, const char *what)
{
    fb_say_percent(text, a->confidence);
    fb_text_printf(text, " %s", what);
}

static void say_head(fb_text *text, const fb_analysis *a, const fb_table *table,
                     enum column column)
{
    static const char *const names[COLUMN_COUNT] = {
        [COLUMN_rule] = "rule",         [COLUMN_p] = "p (Holm)",
        [COLUMN_group] = "group",       [COLUMN_filled] = "filled",
        [COLUMN_extra] = "extra FLOPs", [COLUMN_fused] = "fused",
    };

    if (column == COLUMN_mean)
        fb_text_puts(text, fb_say_metric(a->results->tasks[table->task].metric));
    else if (column == COLUMN_difference)
        fb_text_printf(text, "vs %s",
                       a->baseline < 0 ? "-" : a->results->rules[a->baseline].label);
    else if (names[column] == NULL)
        say_level(text, a, "interval");
    else
        fb_text_puts(text, names[column]);
}

void fb_say_extra(fb_text *text, double share)
{
    if (!isfinite(share)) {
        fb_text_puts(text, "-");
    } else if (share <= 0) {
        fb_text_puts(text, "0");
    } else if (share < 0.00005) {
        fb_text_puts(text, "<+0.01 %");
    } else {
        fb_say_signed(text, 100 * share, share < 0.001 ? 2 : 1);
        fb_text_puts(text, " %");
    }
}

static void say_cell(fb_text *text, const fb_analysis *a, const fb_table *table, int at,
                     enum column column)
{
    const fb_row *row = &table->rows[at];
    const bool is_baseline = at == table->baseline;
    const bool is_tested = row->verdict != FB_VERDICT_reference;

    switch (column) {
    case COLUMN_rule:
        fb_text_puts(text, a->results->rules[row->rule].label);
        break;
    case COLUMN_mean:
        fb_say_number(text, row->mean, table->digits);
        break;
    case COLUMN_mean_interval:
        fb_say_interval(text, row->mean_interval, table->digits, false);
        break;
    case COLUMN_difference:
        fb_say_signed(text, is_baseline ? (double)NAN : row->difference, table->digits);
        break;
    case COLUMN_difference_interval:
        if (!is_baseline && table->baseline >= 0)
            fb_say_interval(text, row->difference_interval, table->digits, true);
        break;
    case COLUMN_p:
        if (is_tested)
            fb_say_p(text, row->p_holm);
        else if (!is_baseline)
            fb_text_puts(text, "-");
        break;
    case COLUMN_group:
        fb_text_puts(text, is_tested || is_baseline ? row->letters
                           : row->is_over_quota     ? "above"
                           : row->is_without_choice ? "-"
                                                    : "ref");
        break;
    case COLUMN_filled:
        fb_say_percent(text, row->filled);
        break;
    case COLUMN_extra:
        fb_say_extra(text, row->extra_flops);
        break;
    case COLUMN_fused:
        fb_say_extra(text, row->fused_flops);
        break;
    case COLUMN_COUNT:
        break;
    }
}

/* Row -1 is the head of the table. */
static void make_cell(fb_text *cell, const fb_analysis *a, const fb_table *table,
                      int row, int column)
{
    fb_text_clear(cell);
    if (row < 0)
        say_head(cell, a, table, (enum column)column);
    else
        say_cell(cell, a, table, row, (enum column)column);
    fb_say_clean(cell, 0);
}

void fb_say_spaces(fb_text *text, int n)
{
    for (; n > 0; n--)
        fb_text_puts(text, " ");
}

/* The widest cell of each column, the head among them. */
static void find_widths(int widths[COLUMN_COUNT], fb_text *cell, const fb_analysis *a,
                        const fb_table *table)
{
    for (int row = -1; row < table->n_rows; row++)
        for (int c = 0; c < COLUMN_COUNT; c++) {
            make_cell(cell, a, table, row, c);
            if (fb_say_width(fb_text_string(cell)) > widths[c])
                widths[c] = fb_say_width(fb_text_string(cell));
        }
}

static void print_row(fb_text *text, fb_text *cell, const int widths[COLUMN_COUNT],
                      const fb_analysis *a, const fb_table *table, int row)
{
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const bool is_left = c == COLUMN_rule || c == COLUMN_group;
        int room;

        make_cell(cell, a, table, row, c);
        room = widths[c] - fb_say_width(fb_text_string(cell));
        fb_say_spaces(text, (c == 0 ? 0 : GAP) + (is_left ? 0 : room));
        fb_text_puts(text, fb_text_string(cell));
        if (is_left) fb_say_spaces(text, room);
    }
    fb_text_puts(text, "\n");
}

/* "Above the quota of 5 % of ..., shown apart:" */
static void print_apart_head(fb_text *text, const fb_analysis *a)
{
    fb_text_puts(text, "Above the quota of ");
    fb_say_quota(text, a->quota);
    fb_text_puts(text, ", so not compared:\n");
}

static void print_rows(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    int widths[COLUMN_COUNT] = {0};
    fb_text cell;

    fb_text_init(&cell, 0);
    find_widths(widths, &cell, a, table);
    for (int row = -1; row < table->n_rows; row++) {
        if (table->n_apart > 0 && row == table->n_rows - table->n_apart)
            print_apart_head(text, a);
        print_row(text, &cell, widths, a, table, row);
    }
    fb_text_clear(&cell);
}

/* --- around the rows --- */

void fb_say_wrapped(fb_text *text, const char *words)
{
    int column = 0;

    while (*words != 0) {
        size_t n = strcspn(words, " ");
        int width = 0;

        if (words[n] == ' ' && words[n + 1] == '%') /* stays with its number */
            n += 1 + strcspn(words + n + 1, " ");

        for (size_t i = 0; i < n; i++)
            width += ((unsigned char)words[i] & 0xc0) != 0x80;
        if (column > 0 && column + 1 + width > LINE) {
            fb_text_puts(text, "\n");
            column = 0;
        }
        if (column > 0) fb_text_puts(text, " ");
        fb_text_add(text, words, n);
        column += width + (column > 0);
        words += n + strspn(words + n, " ");
    }
    fb_text_puts(text, "\n");
}

static void add_verified(fb_text *text, const fb_results *r)
{
    if (r->certificate == NULL) return;
    fb_text_puts(text, ", ");
    (void)fb_say_verified(text, r);
}

void fb_say_setting(fb_text *text, const fb_analysis *a)
{
    const fb_results *r = a->results;
    const size_t from = text->n;

    fb_text_printf(text, "%s class", r->class_name);
    if (r->class_reasons[0] != 0) fb_text_printf(text, " (%s)", r->class_reasons);
    add_verified(text, r);
    if (r->protocol != NULL) {
        fb_text_puts(text, " · ");
        fb_say_protocol(text, r->protocol);
    }
    if (r->model.name[0] != 0) fb_text_printf(text, " · %s", r->model.name);
    if (r->compute != NULL) fb_text_printf(text, " · compute %s", r->compute);
    fb_say_clean(text, from);
    fb_text_puts(text, "\n");
}

static void print_caption(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    const fb_result_task *task = &a->results->tasks[table->task];
    const fb_row *last = &table->rows[table->n_rows - 1];
    const size_t from = text->n;

    fb_text_printf(text, "%s · ", task->name);
    fb_say_budget(text, &a->results->budgets[table->budget]);
    fb_text_puts(text, " = ");
    fb_say_bytes(text, fb_table_budget_bytes(table));
    fb_text_puts(text, " of ");
    fb_say_bytes(text, last->full_bytes);
    fb_text_puts(text, " (mean) · ");
    fb_say_count(text, table->n_samples, "sample");
    fb_text_puts(text, ", ");
    fb_say_count(text, table->n_documents, "document");
    fb_text_printf(text, " · %s in %s, %s is better", fb_say_metric(task->metric),
                   task->unit, task->lower_is_better ? "lower" : "higher");
    fb_say_clean(text, from);
    fb_text_puts(text, "\n");
}

/* The budget is what decides: of all rules the first that evicts, and the full cache. */
static void print_step(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    const fb_row *full = NULL, *row = NULL;

    for (int r = 0; r < table->n_rows; r++) {
        const char *expression = a->results->rules[table->rows[r].rule].expression;

        if (strcmp(expression, "full") == 0)
            full = &table->rows[r];
        else if (row == NULL || r == table->baseline)
            row = &table->rows[r];
    }
    if (row == NULL || !isfinite(row->step_bytes)) return;
    fb_text_puts(text, "the first token of an answer moves ");
    fb_say_bytes(text, row->step_bytes);
    if (full != NULL && isfinite(full->step_bytes)) {
        fb_text_puts(text, "; with the full cache ");
        fb_say_bytes(text, full->step_bytes);
    }
    fb_text_puts(text, "\n");
}

static void print_mark(fb_text *text, const char *rule, int n, const char *what)
{
    const size_t from = text->n;

    if (n == 0) return;
    fb_text_printf(text, "%s: ", rule);
    fb_say_clean(text, from);
    fb_say_count(text, n, "cell");
    fb_text_printf(text, " %s\n", what);
}

/* Sign flips have a smallest p: with few documents no pair can differ after Holm. */
static void print_power_of_pairs(fb_text *text, const fb_analysis *a,
                                 const fb_table *table)
{
    int n = 0;

    for (int r = 0; r < table->n_rows; r++)
        n += table->rows[r].letters[0] != 0;
    if (n < 2 || ldexp(n * (n - 1), -table->n_documents) < 1 - a->confidence) return;
    fb_say_count(text, table->n_documents, "document");
    fb_text_puts(text, " cannot tell ");
    fb_say_count(text, n * (n - 1) / 2, "pair");
    fb_text_puts(text, " apart: all share a letter\n");
}

static void print_floor(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    if (!fb_is_at_floor(a, table)) return;
    fb_say_floor(text, table);
    fb_text_puts(text, "\n");
}

static void print_few(fb_text *text, const fb_table *table)
{
    if (table->n_documents >= FB_FEW_DOCUMENTS) return;
    fb_say_few(text, table->n_documents);
    fb_text_puts(text, "\n");
}

/* With which document it is above the quota, where the mean does not show it. */
static void print_cost(fb_text *text, const fb_analysis *a, const fb_table *table,
                       int at)
{
    const fb_row *row = &table->rows[at];
    const size_t from = text->n;

    const bool is_shown = row->extra_flops > a->quota && at != table->baseline;

    if (!row->is_over_quota || is_shown) return;
    fb_text_printf(text, "%s: ", a->results->rules[row->rule].label);
    fb_say_clean(text, from);
    fb_say_signed(text, 100 * row->extra_most, 2);
    fb_text_printf(text, " %% with the dearest document, above the quota%s\n",
                   at == table->baseline ? "; others are measured against it" : "");
}

/* What the budget does not bound, in per cent of it. */
static void print_tail(fb_text *text, const fb_table *table)
{
    const double budget = fb_table_budget_bytes(table);
    double tail = 0;

    for (int r = 0; r < table->n_rows; r++)
        if (table->rows[r].tail_bytes > tail) tail = table->rows[r].tail_bytes;
    if (!(tail > 0) || !(budget > 0)) return;
    fb_text_puts(text, "question and answer stand beside the budget: up to ");
    fb_say_bytes(text, tail);
    fb_text_puts(text, " more, ");
    fb_say_percent(text, tail / budget);
    fb_text_puts(text, " of it, the same for every rule\n");
}

static void print_marks(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    for (int r = 0; r < table->n_rows; r++) {
        const fb_row *row = &table->rows[r];
        const char *rule = a->results->rules[row->rule].label;

        print_mark(text, rule, row->n_fallback,
                   "used the fallback for short contexts (sinks and recents)");
        print_mark(text, rule, row->n_shrunk, "shrank the protected entries");
        print_mark(text, rule, row->n_without_choice,
                   row->is_without_choice ? "had no entry to choose: not ranked"
                                          : "had no entry to choose");
        print_mark(text, rule, row->n_first_lost,
                   "lost the first token in most heads, which models lean on (sink)");
        print_cost(text, a, table, r);
        print_mark(text, rule, row->n_beyond,
                   "stood beyond the length that the model was trained for, and kl is "
                   "measured from them");
        print_mark(
            text, rule, row->n_over,
            "over budget in decode: question and answer took more than the budget");
    }
    if (table->n_left_out > 0) {
        fb_say_count(text, table->n_left_out, "sample");
        fb_text_puts(text, " left out: not finished under every rule of the table\n");
    }
}

/* Those of a table; for NULL those that no table belongs to. */
static void print_failures(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    for (int i = 0; i < a->n_failures; i++) {
        const fb_failure *failure = &a->failures[i];
        const bool is_here = table != NULL ? fb_failure_is_of(failure, table)
                                           : !fb_failure_has_table(failure, a);
        const size_t from = text->n;

        if (!is_here) continue;
        if (table == NULL)
            fb_text_printf(text, "%s · ", a->results->tasks[failure->task].name);
        if (table == NULL && failure->budget >= 0) {
            fb_say_budget(text, &a->results->budgets[failure->budget]);
            fb_text_puts(text, " · ");
        }
        fb_say_failure(text, a, failure);
        fb_say_clean(text, from);
        fb_text_puts(text, "\n");
    }
}

/* What --compute matched has lowered: the label of a rule does not say it. */
static bool is_of_matching(const fb_analysis *a, const char *note)
{
    return a->results->compute != NULL &&
           strncmp(a->results->compute, "matched", strlen("matched")) == 0 &&
           strstr(note, ", to keep to ") != NULL;
}

/* Remarks; other warnings were said when it ran, and stand on the page. */
static void print_notes(fb_text *text, const fb_analysis *a)
{
    static const char level[] = "note: ";

    for (int i = 0; i < a->results->n_notes; i++) {
        fb_text note = {0};

        if (strncmp(a->results->notes[i], level, sizeof level - 1) != 0 &&
            !is_of_matching(a, a->results->notes[i]))
            continue;
        fb_text_puts(&note, a->results->notes[i]);
        fb_say_clean(&note, 0);
        fb_text_puts(text, "\n");
        fb_say_wrapped(text, fb_text_string(&note));
        text->failed |= note.failed;
        fb_text_clear(&note);
    }
}

static void print_unfinished(fb_text *text, const fb_analysis *a)
{
    if (!fb_analysis_is_unfinished(a)) return;
    fb_say_unfinished(text, a);
    fb_text_puts(text, "\n\n");
}

static void print_legend(fb_text *text, const fb_analysis *a)
{
    fb_text words = {0};

    fb_text_puts(&words, "same letter: not distinguishable at ");
    fb_say_percent(&words, a->confidence);
    fb_text_puts(&words, " (paired sign flips). " FB_LETTER_WORDS
                         " extra FLOPs, fused: what the rule costs beside reading "
                         "the context, here and where a kernel keeps no attention.");
    fb_text_puts(text, "\n");
    fb_say_wrapped(text, fb_text_string(&words));
    text->failed |= words.failed;
    fb_text_clear(&words);
}

static void print_made(fb_text *text, const fb_results *results)
{
    fb_text words = {0};

    fb_say_made(&words, results);
    fb_say_wrapped(text, fb_text_string(&words));
    text->failed |= words.failed;
    fb_text_clear(&words);
}

void fb_analysis_print_text(fb_text *text, const fb_analysis *a)
{
    print_unfinished(text, a);
    fb_say_wrapped(text, a->headline);
    fb_text_puts(text, "\n");
    if (a->paragraph[0] != 0) {
        fb_say_wrapped(text, a->paragraph);
        fb_text_puts(text, "\n");
    }
    fb_say_setting(text, a);
    if (fb_say_windows(text, &a->results->model)) fb_text_puts(text, "\n");
    print_failures(text, a, NULL);
    for (int t = 0; t < a->n_tables; t++) {
        fb_text_puts(text, "\n");
        print_caption(text, a, &a->tables[t]);
        print_rows(text, a, &a->tables[t]);
        print_step(text, a, &a->tables[t]);
        print_floor(text, a, &a->tables[t]);
        print_few(text, &a->tables[t]);
        print_failures(text, a, &a->tables[t]);
        print_tail(text, &a->tables[t]);
        print_marks(text, a, &a->tables[t]);
        print_power_of_pairs(text, a, &a->tables[t]);
        if (!isnan(a->tables[t].smallest_effect)) {
            fb_say_smallest(text, a, &a->tables[t]);
            fb_text_puts(text, "\n");
        }
        fb_analysis_print_memory(text, a, &a->tables[t]);
    }
    print_notes(text, a);
    if (a->n_tables > 0) print_legend(text, a);
    print_made(text, a->results);
    fb_text_printf(text, "%s\n", a->signature);
}
