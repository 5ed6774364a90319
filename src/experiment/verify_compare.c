/* verify_compare.c - a cell that was run again beside the one that is stored.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "experiment/rulebook.h"
#include "experiment/verify_inside.h"
#include "store/cover.h"

#include <math.h>
#include <string.h>

static bool is_same_text(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

static const char *budget_of(const fb_results *r, const fb_result_cell *cell)
{
    return cell->budget < 0 ? "full" : r->budgets[cell->budget].asked;
}

static bool is_same_cell(const fb_results *r, const fb_result_cell *a,
                         const fb_results *s, const fb_result_cell *b)
{
    const fb_result_sample *x = &r->samples[a->sample], *y = &s->samples[b->sample];
    const fb_result_task *t = &r->tasks[x->task], *u = &s->tasks[y->task];

    return a->seed == b->seed && is_same_text(x->key, y->key) &&
           is_same_text(t->kind, u->kind) && is_same_text(t->params, u->params) &&
           is_same_text(t->data_sha256, u->data_sha256) &&
           is_same_text(r->rules[a->rule].label, s->rules[b->rule].label) &&
           is_same_text(budget_of(r, a), budget_of(s, b));
}

static int find_cell(const fb_results *r, const fb_result_cell *cell,
                     const fb_results *in)
{
    for (int i = 0; i < in->n_cells; i++)
        if (is_same_cell(r, cell, in, &in->cells[i])) return i;
    return -1;
}

static bool has_near_scores(const fb_result_cell *a, const fb_result_cell *b)
{
    for (int i = 0; i < a->n_scores; i++) {
        double value;

        if (!fb_result_score(b, a->scores[i].metric, &value)) return false;
        if (!(fabs(value - a->scores[i].value) <=
              FB_VERIFY_TOLERANCE * fmax(1, fabs(a->scores[i].value))))
            return false;
    }
    return a->n_scores == b->n_scores;
}

/* What a backend that promises no bits has to give again. */
static bool is_near(const fb_result_cell *a, const fb_result_cell *b)
{
    return fb_result_is_done(b) && is_same_text(a->kept_sha256, b->kept_sha256) &&
           is_same_text(a->answer_tokens, b->answer_tokens) &&
           is_same_text(a->stop, b->stop) && a->budget_bytes == b->budget_bytes &&
           is_same_text(a->trace_context, b->trace_context) &&
           is_same_text(a->trace_answer, b->trace_answer) && has_near_scores(a, b);
}

static fb_status compare_covers(fb_verified_cell *out, fb_verify_side was,
                                fb_verify_side is, int made)
{
    fb_cover *before = NULL, *now = NULL;
    fb_text differs = {0};
    fb_status status = fb_store_cover(&before, was.store, was.results, out->cell);

    if (status == FB_OK) status = fb_store_cover(&now, is.store, is.results, made);
    for (int t = 0; status == FB_OK && t < FB_COVER_TABLES; t++)
        if (!before->tables[t].is_made)
            fb_cover_add_differences(&before->tables[t], &now->tables[t], &differs);
    if (status == FB_OK) status = fb_text_status(&differs);
    if (status == FB_OK && differs.n > 0) {
        out->differs = fb_strdup(fb_text_string(&differs));
        if (out->differs == NULL)
            status = fb_fail(FB_NO_MEMORY, "no memory to compare");
    }
    fb_text_clear(&differs);
    fb_free(before);
    fb_free(now);
    return status;
}

fb_status fb_verify_compare(fb_verified *all, fb_verified_cell *out, fb_verify_side was,
                            fb_verify_side is)
{
    const fb_result_cell *cell = &was.results->cells[out->cell];
    const int made = find_cell(was.results, cell, is.results);

    if (made < 0) {
        out->differs = fb_strdup("it was not made again");
        return out->differs != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory");
    }
    FB_TRY(compare_covers(out, was, is, made));
    out->is_equal = out->differs == NULL;
    out->is_near = !out->is_equal && !fb_kernel_promises_bits(was.results->kernel) &&
                   is_near(cell, &is.results->cells[made]);
    all->n_equal += out->is_equal;
    all->n_near += out->is_near;
    return FB_OK;
}
