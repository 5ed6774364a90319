/* memory.c - where the memory of cells was, phase by phase, and what of it the budget bounds.
 *
 * Most rules hold the same, which is the point of a budget: such rows are one, which names
 * them all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <string.h>

static bool is_known(const fb_page *page)
{
    for (int t = 0; t < page->analysis->n_tables; t++)
        if (fb_table_has_memory(&page->analysis->tables[t])) return true;
    return false;
}

/* A phase that some cell of the task came through. */
static bool has_phase(const fb_page *page, int task, int phase)
{
    for (int b = 0; b < page->results->n_budgets; b++) {
        const fb_table *table = fb_analysis_table(page->analysis, task, b);

        if (table != NULL && fb_table_has_phase(table, phase)) return true;
    }
    return false;
}

static void head_cell(const fb_page *page, const char *words)
{
    fb_html(page->out, "<th scope=\"col\">%s</th>", words);
}

/* --- rows that are alike --- */

typedef bool alike_fn(const fb_page *page, const fb_row *a, const fb_row *b,
                      int account);

static bool are_kept_alike(const fb_page *page, const fb_row *a, const fb_row *b,
                           int account)
{
    (void)account;
    return fb_page_is_full(page, a->rule) == fb_page_is_full(page, b->rule) &&
           fb_rows_hold_alike(a, b);
}

static bool is_account_alike(const fb_page *page, const fb_row *a, const fb_row *b,
                             int account)
{
    (void)page;
    return fb_rows_agree(a, b, (fb_account)account);
}

/* "knorm, tova, h2o": the head of row `at` of all rows alike with it. False, and nothing,
 * if one of them stands before it. */
static bool rules_cell(const fb_page *page, const fb_table *table, int at, int account,
                       alike_fn *are_alike)
{
    for (int r = 0; r < at; r++)
        if (are_alike(page, &table->rows[r], &table->rows[at], account)) return false;
    fb_text_puts(page->out, "<tr><th scope=\"row\">");
    for (int r = at; r < table->n_rows; r++) {
        if (!are_alike(page, &table->rows[r], &table->rows[at], account)) continue;
        fb_text_puts(page->out, r == at ? "" : ", ");
        fb_html_rule(page, table->rows[r].rule);
    }
    return true;
}

/* --- keys and values by phase --- */

static void kept_head(const fb_page *page, int task)
{
    fb_html(page->out,
            "<caption><b>%s</b>: keys and values at their most in each phase, mean per "
            "cell; resident and peak as shares of the full cache</caption><thead><tr>",
            page->results->tasks[task].name);
    head_cell(page, "rule");
    head_cell(page, "kept");
    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        if (has_phase(page, task, p)) head_cell(page, fb_memory_phase_name(p));
    head_cell(page, "rule state");
    head_cell(page, "resident");
    head_cell(page, "peak");
    fb_text_puts(page->out, "</tr></thead>\n");
}

static void kept_row(const fb_page *page, const fb_table *table, int at)
{
    const fb_row *row = &table->rows[at];

    if (!rules_cell(page, table, at, FB_ACCOUNT_kv, are_kept_alike)) return;
    if (row->is_simulated) fb_text_puts(page->out, " (simulated)");
    fb_text_puts(page->out, "</th>");
    fb_page_kept_cell(page, table, row);
    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        if (has_phase(page, table->task, p))
            fb_html_bytes_cell(page->out, row->memory[p][FB_ACCOUNT_kv]);
    fb_html_bytes_cell(page->out, fb_row_peak(row, FB_ACCOUNT_rule_state));
    fb_html_share_cell(page->out, fb_row_resident(row));
    fb_html_share_cell(page->out, fb_row_peak_share(row));
    fb_text_puts(page->out, "</tr>\n");
}

/* At the budget that is shown first, or at the others. */
static void kept(const fb_page *page, int task, const char *name, bool shown)
{
    fb_page_table_open(page, name, task);
    kept_head(page, task);
    for (int b = 0; b < page->results->n_budgets; b++) {
        const fb_table *table = fb_analysis_table(page->analysis, task, b);

        if (table == NULL || (b == page->budget) != shown) continue;
        fb_text_puts(page->out, "<tbody>\n");
        for (int i = 0; i < table->n_rows; i++)
            kept_row(page, table, i);
        fb_text_puts(page->out, "</tbody>\n");
    }
    fb_page_table_close(page, name, task);
}

/* --- what the budget bounds --- */

static void bound(fb_text *words, const fb_page *page, int task)
{
    const fb_table *table = fb_analysis_table(page->analysis, task, page->budget);

    fb_text_clear(words);
    if (table != NULL) (void)fb_say_unbounded(words, page->analysis, table);
}

/* Tasks of which the same is true from `task` on; 0 if an earlier one has said it. */
static int count_bound_alike(const fb_page *page, int task, const fb_text *words)
{
    fb_text other = {0};
    int n = 0;

    for (int t = 0; t < page->results->n_tasks; t++) {
        bound(&other, page, t);
        if (strcmp(fb_text_string(&other), fb_text_string(words)) != 0) continue;
        if (t < task) break;
        n++;
    }
    page->out->failed |= other.failed;
    fb_text_clear(&other);
    return n;
}

/* "20 %: resident 20 %, peak 120 % of the full cache: ..." Once where it is the same for
 * all tasks, else with the name of the first one of which it is true. */
static void bounds(const fb_page *page)
{
    fb_text words = {0};

    for (int t = 0; t < page->results->n_tasks; t++) {
        int n_alike;

        bound(&words, page, t);
        n_alike = words.n == 0 ? 0 : count_bound_alike(page, t, &words);
        if (n_alike == 0) continue;
        fb_text_puts(page->out, "<p class=\"cap\">At ");
        fb_html_budget(page->out, &page->results->budgets[page->budget]);
        if (n_alike < page->results->n_tasks)
            fb_html(page->out, " on %s", page->results->tasks[t].name);
        fb_text_puts(page->out, ": ");
        fb_html_prose(page->out, fb_text_string(&words), words.n);
        fb_text_puts(page->out, ".</p>\n");
    }
    page->out->failed |= words.failed;
    fb_text_clear(&words);
}

/* --- all accounts --- */

static void account_rows(const fb_page *page, const fb_table *table, int account)
{
    fb_text_puts(page->out, "<tbody>\n");
    for (int i = 0; i < table->n_rows; i++) {
        if (!rules_cell(page, table, i, account, is_account_alike)) continue;
        fb_html(page->out, "</th><td class=\"l\">%s</td>",
                fb_account_name((fb_account)account));
        for (int p = 0; p < FB_MEMORY_PHASES; p++)
            if (fb_table_has_phase(table, p))
                fb_html_bytes_cell(page->out, table->rows[i].memory[p][account]);
        fb_text_puts(page->out, "</tr>\n");
    }
    fb_text_puts(page->out, "</tbody>\n");
}

static void accounts(const fb_page *page, int task)
{
    const fb_table *table = fb_analysis_table(page->analysis, task, page->budget);

    if (table == NULL) return;
    fb_page_table_open(page, "accounts", task);
    fb_html(page->out, "<caption><b>%s</b> at ", page->results->tasks[task].name);
    fb_html_budget(page->out, &page->results->budgets[table->budget]);
    fb_text_puts(page->out, ": all accounts of the allocator, the most in each phase, "
                            "mean per cell</caption><thead><tr>");
    head_cell(page, "rule");
    fb_text_puts(page->out, "<th scope=\"col\" class=\"l\">account</th>");
    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        if (fb_table_has_phase(table, p)) head_cell(page, fb_memory_phase_name(p));
    fb_text_puts(page->out, "</tr></thead>\n");
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        account_rows(page, table, a);
    fb_page_table_close(page, "accounts", task);
}

void fb_page_memory(fb_page *page)
{
    if (!is_known(page)) return;
    fb_page_open(page, "memory", "Memory");
    fb_text_puts(
        page->out,
        "<p>As the allocator counted it, of each cell alone. Rules that hold the same "
        "stand in one row.</p>\n");
    for (int t = 0; t < page->results->n_tasks; t++)
        kept(page, t, "memory", true);
    bounds(page);
    fb_text_puts(
        page->out,
        "<p class=\"cap\">A cell that was evicted no longer has the full cache, which "
        "this program may keep for other cells. In the answer the tail is with the "
        "keys "
        "and values, of the same size for all rules. What is only simulated was held "
        "in "
        "more than it is said to keep, and has no shares here.</p>\n");
    fb_text_puts(
        page->out,
        "<details><summary>All accounts and budgets</summary>\n<p class=\"cap\">kv: "
        "keys and values. rule_state: what a rule keeps beside them. Of all cells of a "
        "sweep together: weights, signals (attention and scores), scratch "
        "(activations and other temporary tensors), other.</p>\n");
    for (int t = 0; t < page->results->n_tasks; t++) {
        accounts(page, t);
        if (page->results->n_budgets > 1) kept(page, t, "phases", false);
    }
    fb_text_puts(page->out, "</details>\n");
    fb_page_close(page);
}
