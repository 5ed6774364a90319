/* analysis_print_memory.c - the table of memory below one of scores: keys and values of a
 * cell by phase, what its rule keeps, and in a line what all cells had in common. Most rules
 * hold the same, which is the point of a budget: these stand in one row.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_parts.h"

#include <math.h>
#include <string.h>

enum column {
    COLUMN_rule,
    COLUMN_phase, /* and the other phases behind it */
    COLUMN_state = COLUMN_phase + FB_MEMORY_PHASES,
    COLUMN_resident,
    COLUMN_peak,
    COLUMN_COUNT,
    GAP = 2
};

static bool is_there(const fb_table *table, int column)
{
    if (column >= COLUMN_phase && column < COLUMN_state)
        return fb_table_has_phase(table, column - COLUMN_phase);
    return column != COLUMN_state || fb_table_peak(table, FB_ACCOUNT_rule_state) > 0;
}

static void say_bytes(fb_text *text, double bytes)
{
    if (isfinite(bytes))
        fb_say_bytes(text, bytes);
    else
        fb_text_puts(text, "-");
}

static void say_share(fb_text *text, double share)
{
    if (isfinite(share))
        fb_say_percent(text, share);
    else
        fb_text_puts(text, "-");
}

static void say_head(fb_text *text, int column)
{
    if (column == COLUMN_rule) fb_text_puts(text, "keys and values");
    if (column == COLUMN_state) fb_text_puts(text, "rule state");
    if (column == COLUMN_resident) fb_text_puts(text, "resident");
    if (column == COLUMN_peak) fb_text_puts(text, "peak");
    if (column >= COLUMN_phase && column < COLUMN_state)
        fb_text_puts(text, fb_memory_phase_name(column - COLUMN_phase));
}

/* --- rows that are alike --- */

enum { FEWEST_ALIKE = 3 };

/* Rows alike with `at`, itself among them; `is_first` if none of them stands before it. */
static int count_alike(const fb_table *table, int at, bool *is_first)
{
    int n = 0;

    *is_first = true;
    for (int row = 0; row < table->n_rows; row++) {
        if (!fb_rows_hold_alike(&table->rows[row], &table->rows[at])) continue;
        if (row < at) *is_first = false;
        n++;
    }
    return n;
}

static bool has_row(const fb_table *table, int at)
{
    bool is_first;

    return at < 0 || count_alike(table, at, &is_first) < FEWEST_ALIKE || is_first;
}

/* --- the rows --- */

static void say_label(fb_text *text, const fb_analysis *a, const fb_table *table,
                      int at)
{
    bool is_first;
    const int n = count_alike(table, at, &is_first);

    fb_text_puts(text, a->results->rules[table->rows[at].rule].label);
    if (n >= FEWEST_ALIKE) fb_text_printf(text, " and %d more", n - 1);
}

static void say_cell(fb_text *text, const fb_analysis *a, const fb_table *table, int at,
                     int column)
{
    const fb_row *row = &table->rows[at];

    if (column == COLUMN_rule)
        say_label(text, a, table, at);
    else if (column == COLUMN_state)
        say_bytes(text, fb_row_peak(row, FB_ACCOUNT_rule_state));
    else if (column == COLUMN_resident)
        say_share(text, fb_row_resident(row));
    else if (column == COLUMN_peak)
        say_share(text, fb_row_peak_share(row));
    else
        say_bytes(text, row->memory[column - COLUMN_phase][FB_ACCOUNT_kv]);
}

/* Row -1 is the head. */
static void make_cell(fb_text *cell, const fb_analysis *a, const fb_table *table,
                      int row, int column)
{
    fb_text_clear(cell);
    if (row < 0)
        say_head(cell, column);
    else
        say_cell(cell, a, table, row, column);
    fb_say_clean(cell, 0);
}

static void print_row(fb_text *text, const fb_analysis *a, const fb_table *table,
                      int row, const int *widths)
{
    fb_text cell = {0};

    for (int c = 0; c < COLUMN_COUNT; c++) {
        int room;

        if (!is_there(table, c)) continue;
        make_cell(&cell, a, table, row, c);
        room = widths[c] - fb_say_width(fb_text_string(&cell));
        fb_say_spaces(text, c == 0 ? 0 : GAP + room);
        fb_text_puts(text, fb_text_string(&cell));
        if (c == 0) fb_say_spaces(text, room);
    }
    fb_text_puts(text, "\n");
    text->failed |= cell.failed;
    fb_text_clear(&cell);
}

static void print_rows(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    int widths[COLUMN_COUNT] = {0};
    fb_text cell = {0};

    for (int row = -1; row < table->n_rows; row++)
        for (int c = 0; has_row(table, row) && c < COLUMN_COUNT; c++) {
            make_cell(&cell, a, table, row, c);
            if (fb_say_width(fb_text_string(&cell)) > widths[c])
                widths[c] = fb_say_width(fb_text_string(&cell));
        }
    text->failed |= cell.failed;
    fb_text_clear(&cell);
    for (int row = -1; row < table->n_rows; row++)
        if (has_row(table, row)) print_row(text, a, table, row, widths);
}

/* What is there once for all cells that are computed together. */
static void say_common(fb_text *text, const fb_table *table)
{
    static const struct {
        fb_account account;
        const char *words;
    } all[] = {{FB_ACCOUNT_weights, "weights"},
               {FB_ACCOUNT_signals, "signals and scores"},
               {FB_ACCOUNT_scratch, "activations and other temporary tensors"},
               {FB_ACCOUNT_other, "everything else"}};

    fb_text_puts(text, "beside them, of all cells of a sweep together: ");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fb_text_printf(text, "%s%s ", i == 0 ? "" : ", ", all[i].words);
        fb_say_bytes(text, fb_table_peak(table, all[i].account));
    }
}

static void print_simulated(fb_text *text, const fb_analysis *a, const fb_table *table)
{
    for (int r = 0; r < table->n_rows; r++) {
        const size_t from = text->n;

        if (!table->rows[r].is_simulated) continue;
        fb_text_printf(text, "%s: ", a->results->rules[table->rows[r].rule].label);
        fb_say_clean(text, from);
        (void)fb_say_simulated(text, &table->rows[r]);
        fb_text_puts(text, "\n");
    }
}

void fb_analysis_print_memory(fb_text *text, const fb_analysis *a,
                              const fb_table *table)
{
    fb_text words = {0};

    if (!fb_table_has_memory(table)) return;
    fb_text_puts(text, "\n");
    print_rows(text, a, table);
    print_simulated(text, a, table);
    if (fb_say_unbounded(&words, a, table))
        fb_say_wrapped(text, fb_text_string(&words));
    text->failed |= words.failed;
    fb_text_clear(&words);
    say_common(&words, table);
    fb_say_wrapped(text, fb_text_string(&words));
    text->failed |= words.failed;
    fb_text_clear(&words);
}
