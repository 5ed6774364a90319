/* run_questions.c - the questions on one document: what is compressed once for all of them.
 *
 * Unless a rule reads the question, what stays of a context is the same for all questions on
 * it: the variant is made once and asked each of them, its tail cut back between. Every cell
 * is charged as if it had been alone, and says the same to the last bit.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/run_inside.h"

bool fb_run_knows_question(const fb_plan *plan, int rule)
{
    const fb_choices *choices = fb_bound_rule_choices(plan->spec->rules[rule].rule);

    return (choices->reads & FB_READS_FUTURE) != 0 ||
           choices->reference == FB_REFERENCE_NO_EVIDENCE ||
           choices->reference == FB_REFERENCE_EVIDENCE;
}

/* Cells of one sample that stand behind each other. */
static int count_of_sample(const fb_cell *cells, int n)
{
    int same = 1;

    while (same < n && cells[same].sample == cells[0].sample)
        same++;
    return same;
}

/* Whether the budget holds all that the cell ever reads: then its rule pays for no state. */
static bool holds_all(const fb_plan *plan, const fb_cell *cell)
{
    return cell->k >= fb_plan_tokens(plan, cell->sample);
}

static bool is_same_variant(const fb_plan *plan, const fb_cell *a, const fb_cell *b)
{
    return a->rule == b->rule && a->budget == b->budget && a->seed == b->seed &&
           a->k == b->k && holds_all(plan, a) == holds_all(plan, b);
}

/* The cell of this variant in each of the samples of `cells`, or false if one has none. */
static bool find_in_all(const fb_plan *plan, const fb_cell *of, const fb_cell *cells,
                        int n, const fb_cell **out)
{
    int questions = 0;

    if (fb_run_knows_question(plan, of->rule)) return false;
    for (int first = 0, m; first < n; first += m) {
        int i = 0;

        m = count_of_sample(cells + first, n - first);
        while (i < m && !is_same_variant(plan, of, &cells[first + i]))
            i++;
        if (i == m) return false;
        out[questions++] = &cells[first + i];
    }
    return true;
}

/* A document's cells, those that share a variant apart. */
typedef struct parts {
    fb_cell
        *shared;  /* [n_questions][n_shared], the variants of each in the same order */
    fb_cell *own; /* [n_own] by sample */
    int n_questions, n_shared, n_own;
} parts;

static bool is_shared(const parts *p, const fb_plan *plan, const fb_cell *cell)
{
    for (int i = 0; i < p->n_shared; i++)
        if (is_same_variant(plan, &p->shared[i], cell)) return true;
    return false;
}

/* The variants of the first sample that every other has too, in their order; then the cells
 * of the others in the same one. */
static void divide(parts *p, const fb_plan *plan, const fb_cell *cells, int n,
                   const fb_cell **found)
{
    const int first = count_of_sample(cells, n);
    int at = 0;

    for (int i = 0; i < first; i++)
        if (find_in_all(plan, &cells[i], cells, n, found))
            p->shared[p->n_shared++] = cells[i];
    for (int i = 0; i < p->n_shared; i++) {
        (void)find_in_all(plan, &p->shared[i], cells, n, found);
        for (int q = 1; q < p->n_questions; q++)
            p->shared[q * p->n_shared + i] = *found[q];
    }
    for (int i = 0; i < n; i++)
        if (!is_shared(p, plan, &cells[i])) p->own[at++] = cells[i];
    p->n_own = at;
}

static fb_status run_own(fb_runner *run, const fb_cell *cells, int n)
{
    for (int first = 0, m; first < n; first += m) {
        m = count_of_sample(cells + first, n - first);
        FB_TRY(fb_run_sample(run, cells + first, m));
    }
    return FB_OK;
}

static fb_status run_parts(fb_runner *run, parts *p, const fb_cell *cells, int n)
{
    const fb_cell **found =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)p->n_questions, sizeof *found));
    fb_status status = FB_OK;

    p->shared = fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *p->shared));
    p->own = fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *p->own));
    if (found == NULL || p->shared == NULL || p->own == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for the run");
    else
        divide(p, run->plan, cells, n, found);
    if (status == FB_OK && p->n_shared > 0)
        status = fb_run_shared(run, p->shared, p->n_shared, p->n_questions);
    if (status == FB_OK) status = run_own(run, p->own, p->n_own);
    fb_free(found);
    fb_free(p->shared);
    fb_free(p->own);
    return status;
}

fb_status fb_run_questions(fb_runner *run, const fb_cell *cells, int n)
{
    parts p = {0};

    for (int first = 0; first < n; first += count_of_sample(cells + first, n - first))
        p.n_questions++;
    if (p.n_questions == 1) return fb_run_sample(run, cells, n);
    return run_parts(run, &p, cells, n);
}
