/* choice_gather.c - the candidates and what they cost.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/choice_parts.h"

#include <math.h>
#include <string.h>

const fb_result_task *fb_choice_task(const fb_choice *choice, int task)
{
    return &choice->analysis->results->tasks[choice->tasks[task]];
}

static bool passes(const fb_choice *choice, const char *key, const char *value)
{
    const fb_limits *limits = &choice->limits;

    return limits->passes == NULL || limits->passes(limits->filter, key, value);
}

/* --- tasks --- */

static const fb_table *first_table(const fb_analysis *analysis, int task)
{
    for (int t = 0; t < analysis->n_tables; t++)
        if (analysis->tables[t].task == task) return &analysis->tables[t];
    return NULL;
}

static void find_tasks(fb_choice *choice)
{
    const fb_results *results = choice->analysis->results;

    for (int t = 0; t < results->n_tasks; t++) {
        const fb_table *table = first_table(choice->analysis, t);

        if (table == NULL || !passes(choice, "task", results->tasks[t].name)) continue;
        if (choice->n_tasks == FB_CHOICE_TASKS || choice->n_floors == FB_CHOICE_TASKS)
            return;
        if (fb_is_at_floor(choice->analysis, table))
            choice->floors[choice->n_floors++] = t;
        else
            choice->tasks[choice->n_tasks++] = t;
    }
}

/* --- rows --- */

static bool is_of(const fb_candidate *candidate, const fb_table *table)
{
    return candidate->budget < 0 || candidate->budget == table->budget;
}

const fb_row *fb_choice_row(const fb_choice *choice, const fb_candidate *candidate,
                            int task, const fb_table **table_out)
{
    const fb_analysis *analysis = choice->analysis;
    const fb_row *found = NULL;

    *table_out = NULL;
    for (int t = 0; t < analysis->n_tables; t++) {
        const fb_table *table = &analysis->tables[t];
        const fb_row *row = fb_analysis_row(table, candidate->rule);

        if (table->task != choice->tasks[task] || !is_of(candidate, table) ||
            row == NULL ||
            (*table_out != NULL && table->n_samples <= (*table_out)->n_samples))
            continue;
        *table_out = table;
        found = row;
    }
    return found;
}

/* Whether a rule keeps its whole cache at every budget: its cells have none. */
static bool is_whole(const fb_results *results, int rule)
{
    for (int c = 0; c < results->n_cells; c++)
        if (results->cells[c].rule == rule) return results->cells[c].budget < 0;
    return false;
}

/* --- costs --- */

/* How many times longer than the longest text that was measured. */
static double stretch_of(const fb_choice *choice, const fb_table *table)
{
    const fb_results *results = choice->analysis->results;
    int64_t longest = 0;

    if (choice->limits.context <= 0) return 1;
    for (int s = 0; s < table->n_samples; s++) {
        const int64_t n = results->samples[table->samples[s]].context_tokens;

        if (n > longest) longest = n;
    }
    return (double)choice->limits.context / (double)longest;
}

/* A budget in tokens or bytes does not grow with the text. */
static bool grows(const fb_results *results, const fb_candidate *candidate)
{
    return candidate->budget < 0 ||
           strcmp(results->budgets[candidate->budget].kind, "ratio") == 0;
}

static void add_bytes(const fb_choice *choice, fb_candidate *c, const fb_table *table,
                      const fb_row *row)
{
    const double stretch = stretch_of(choice, table);
    const double own = grows(choice->analysis->results, c) ? stretch : 1;
    const double held = row->held_bytes * own;
    const double granted = c->budget < 0 ? held : row->budget_bytes * own;

    c->granted = fmax(c->granted, granted);
    c->held_bytes = fmax(c->held_bytes, held);
    c->peak_bytes =
        fmax(c->peak_bytes, (row->peak_bytes - row->held_bytes) * stretch + held);
    c->tail_bytes = fmax(c->tail_bytes, row->tail_bytes);
}

/* NAN wins: what is not known of one task is not known. */
static double most(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
}

static void add_work(const fb_choice *choice, fb_candidate *c, const fb_row *row)
{
    const fb_limits *limits = &choice->limits;
    const double seconds =
        limits->time == NULL
            ? (double)NAN
            : limits->time(limits->device, row->step_flops, row->step_bytes);

    c->extra = most(c->extra, row->fused_flops);
    c->seconds = most(c->seconds, seconds);
}

static void measure(const fb_choice *choice, fb_candidate *c)
{
    const fb_result_rule *rule = &choice->analysis->results->rules[c->rule];

    if (!rule->deployable) c->left = FB_LEFT_ahead;
    for (int t = 0; t < choice->n_tasks; t++) {
        const fb_table *table;
        const fb_row *row = fb_choice_row(choice, c, t, &table);

        if (row == NULL) {
            c->left = c->left == FB_LEFT_not ? FB_LEFT_missing : c->left;
            continue;
        }
        if (row->is_simulated && c->left == FB_LEFT_not) c->left = FB_LEFT_simulated;
        if (row->is_without_choice && c->left == FB_LEFT_not)
            c->left = FB_LEFT_no_choice;
        add_bytes(choice, c, table, row);
        add_work(choice, c, row);
    }
}

/* --- the whole --- */

static void add_candidate(fb_choice *choice, int rule, int budget)
{
    const fb_results *results = choice->analysis->results;
    fb_candidate *c = &choice->all[choice->n];

    if (!passes(choice, "rule", results->rules[rule].label) ||
        !passes(choice, "budget", budget < 0 ? "full" : results->budgets[budget].asked))
        return;
    *c = (fb_candidate){.rule = rule, .budget = budget};
    measure(choice, c);
    fb_choice_hold(choice, c);
    choice->n++;
}

static fb_status add_candidates(fb_choice *choice)
{
    const fb_results *results = choice->analysis->results;
    const size_t most_of_all =
        fb_size_mul((size_t)results->n_rules, (size_t)results->n_budgets + 1);

    choice->all =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul(most_of_all, sizeof *choice->all));
    if (choice->all == NULL) return fb_fail(FB_NO_MEMORY, "no memory to choose");
    for (int r = 0; r < results->n_rules; r++) {
        if (is_whole(results, r)) {
            add_candidate(choice, r, -1);
            continue;
        }
        for (int b = 0; b < results->n_budgets; b++)
            add_candidate(choice, r, b);
    }
    return FB_OK;
}

fb_status fb_choice_gather(fb_choice *choice)
{
    find_tasks(choice);
    return add_candidates(choice);
}
