/* costs.h - the rows of docs/COSTS.md, and the rules that they are of.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_COSTS_H
#define TESTS_SUPPORT_COSTS_H

#include "base/file.h"
#include "engine/engine.h"
#include "tests/support/test.h"

enum { COST_ROWS = 128, COST_FIGURES = 2 };

/* A row of the document. */
typedef struct cost_row {
    char rule[128], formula[256]; /* "": none */
    bool is_beside;               /* what its inner rules cost comes in addition */
    double figure[COST_FIGURES], bytes;
    double fused[COST_FIGURES]; /* the figures where a kernel keeps no attention */
    fb_bound_rule *bound;
} cost_row;

typedef struct cost_table {
    cost_row row[COST_ROWS];
    int n;
} cost_table;

/* Cell `index` of a line "| a | b |", without spaces and the quotes of code. */
static inline void cost_cell(const char *line, int index, char *out, size_t n)
{
    const char *end;

    for (int i = 0; i <= index && line != NULL; i++)
        line = strchr(line + (i > 0), '|');
    assert_non_null(line);
    line += 1 + strspn(line + 1, " `");
    end = line + strcspn(line, "`|");
    while (end > line && end[-1] == ' ')
        end--;
    (void)snprintf(out, n, "%.*s", (int)(end - line), line);
}

static inline void cost_read_row(cost_table *table, const char *line)
{
    cost_row *row = &table->row[table->n];
    char cell[256];

    assert_true(table->n++ < COST_ROWS);
    cost_cell(line, 0, row->rule, sizeof row->rule);
    cost_cell(line, 2, cell, sizeof cell);
    row->is_beside = cell[0] == '+';
    (void)snprintf(row->formula, sizeof row->formula, "%s", cell + row->is_beside);
    for (int i = 0; i < COST_FIGURES; i++) {
        cost_cell(line, 3 + i, cell, sizeof cell);
        row->figure[i] = strtod(cell, NULL);
    }
    for (int i = 0; i < COST_FIGURES; i++) {
        cost_cell(line, 6 + i, cell, sizeof cell);
        row->fused[i] = strtod(cell, NULL);
    }
    cost_cell(line, 5, cell, sizeof cell);
    row->bytes = strtod(cell, NULL);
    assert_ok(fb_rule_parse(&row->bound, row->rule));
}

static inline void costs_open(cost_table *table)
{
    char *text, *rest, *line;
    size_t n;

    table->n = 0;
    assert_ok(fb_file_read(&text, &n, "docs/COSTS.md", 1 << 20));
    for (rest = text; (line = strsep(&rest, "\n")) != NULL;)
        if (strncmp(line, "| `", 3) == 0) cost_read_row(table, line);
    fb_free(text);
}

static inline void costs_close(cost_table *table)
{
    for (int i = 0; i < table->n; i++)
        fb_bound_rule_free(table->row[i].bound);
}

/* NULL: the document has none. */
static inline const cost_row *costs_find(const cost_table *table, const char *name)
{
    for (int i = 0; i < table->n; i++)
        if (strcmp(fb_bound_rule_get(table->row[i].bound)->name, name) == 0)
            return &table->row[i];
    return NULL;
}

#endif
