/* analysis_cost.c - what a row cost and what else was measured: means over its cells.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis_parts.h"

#include <math.h>
#include <string.h>

/* Sums over the cells of a row, and the largest of one. */
struct sums {
    double filled, kept_bytes, tails, budget_bytes, full_bytes, em, nll, kl, top1;
    double extra, most, fused, step_flops, step_bytes;
    int n;
};

/* FLOPs of a cell. */
struct work {
    double extra;   /* that the rule caused */
    double context; /* of the plain pass over the context with a full cache */
};

/* Files before schema 6 have the cell's own pass alone, which with text that comes in under
 * the budget is somewhat smaller. */
static fb_status read_work(struct work *out, fb_store *store,
                           const fb_result_cell *cell)
{
    const bool is_known = !isnan(cell->plain_flops);
    fb_store_count *counts;
    int n;

    *out = (struct work){.context = is_known ? cell->plain_flops : 0};
    if (store == NULL) return FB_OK;
    FB_TRY(fb_store_read_counts(store, cell->id, &counts, &n));
    for (int i = 0; i < n; i++) {
        const char *scope = counts[i].scope;

        if (strcmp(scope, "signal") == 0 || strcmp(scope, "score") == 0 ||
            strcmp(scope, "select") == 0)
            out->extra += counts[i].flops;
        else if (!is_known && strcmp(counts[i].phase, "context") == 0 &&
                 (strcmp(scope, "model") == 0 || strcmp(scope, "attention") == 0))
            out->context += counts[i].flops;
    }
    fb_free(counts);
    return FB_OK;
}

static double share_of(double flops, const struct work *work)
{
    return work->context > 0 ? flops / work->context : (double)NAN;
}

/* A measure that a cell lacks makes the mean NAN, as it should. */
static double measure(const fb_result_cell *cell, const char *name, const char *other)
{
    double value;

    if (fb_result_score(cell, name, &value)) return value;
    if (other != NULL && fb_result_score(cell, other, &value)) return value;
    return (double)NAN;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

static void add_marks(fb_row *row, const fb_result_cell *cell,
                      const fb_result_sample *sample, int64_t trained)
{
    double lost;

    row->n_beyond += cell->budget < 0 && trained > 0 &&
                     sample->context_tokens + sample->question_tokens > trained;
    row->n_over += cell->budget >= 0 && cell->tail_bytes > cell->budget_bytes;
    row->n_fallback += cell->fallback;
    row->n_shrunk += cell->shrunk;
    row->n_without_choice +=
        cell->budget >= 0 && cell->evicted > 0 && cell->free_choices == 0;
    row->n_first_lost += fb_result_score(cell, "first_lost", &lost) && lost > 0.5;
}

static void note_most(fb_row *row, const fb_result_cell *cell)
{
    row->held_bytes = fmax(row->held_bytes, (double)cell->kept_bytes);
    row->peak_bytes = fmax(row->peak_bytes, (double)cell->peak_bytes);
    row->tail_bytes = fmax(row->tail_bytes, (double)cell->tail_bytes);
}

static void add_prices(struct sums *sums, const fb_result_cell *cell,
                       const struct work *work)
{
    const double extra = share_of(work->extra, work);

    sums->extra += extra;
    if (extra > sums->most) sums->most = extra;
    sums->fused += share_of(cell->fused_flops, work);
    sums->step_flops += cell->step_flops;
    sums->step_bytes += cell->step_bytes;
}

/* Bytes of an entry: from what a cell keeps; where text comes in under the budget its memory
 * has room for more entries than are there, and for state, so from the model. */
static double entry_bytes(const fb_results *results, const fb_result_cell *cell)
{
    const bool streams =
        results->protocol != NULL && strncmp(results->protocol, "stream", 6) == 0;
    const bool is_half =
        results->kernel != NULL && strstr(results->kernel, ".kv32") == NULL;

    if (!streams || results->model.head_dim <= 0)
        return share(cell->kept_bytes, cell->kept_entries);
    return 2 * (double)results->model.head_dim * (is_half ? 2 : 4);
}

static fb_status add_cell(struct sums *sums, const fb_result_cell *cell,
                          const fb_analyser *analyser)
{
    struct work work;

    FB_TRY(read_work(&work, analyser->store, cell));
    add_prices(sums, cell, &work);
    sums->filled += share(cell->kept_entries, cell->budget_entries);
    sums->kept_bytes += (double)cell->kept_bytes;
    sums->tails += (double)cell->tail_bytes;
    sums->budget_bytes += (double)cell->budget_bytes;
    sums->full_bytes +=
        entry_bytes(analyser->results, cell) * (double)cell->full_entries;
    sums->em += measure(cell, "em", "em_tf");
    sums->nll += measure(cell, "nll", NULL);
    sums->kl += measure(cell, "kl", NULL);
    sums->top1 += measure(cell, "top1", NULL);
    sums->n++;
    return FB_OK;
}

/* What looks ahead has no price. */
static void set_prices(fb_row *row, const struct sums *sums, const fb_result_rule *rule)
{
    const double n = rule->deployable ? sums->n : (double)NAN;

    row->extra_flops = sums->extra / n;
    row->extra_most = isnan(row->extra_flops) ? (double)NAN : sums->most;
    row->fused_flops = sums->fused / n;
    row->step_flops = sums->step_flops / sums->n;
    row->step_bytes = sums->step_bytes / sums->n;
}

fb_status fb_analysis_cost(fb_row *row, const fb_table *table,
                           const fb_analyser *analyser)
{
    const int64_t trained = fb_trained_length(&analyser->results->model);
    struct sums sums = {0};

    for (int s = 0; s < table->n_samples; s++) {
        int n;
        const fb_result_cell *cells = fb_analysis_cells(
            analyser->results, table->samples[s], row->rule, table->budget, &n);

        for (int c = 0; c < n; c++) {
            if (!fb_result_is_done(&cells[c])) continue;
            add_marks(row, &cells[c], &analyser->results->samples[table->samples[s]],
                      trained);
            note_most(row, &cells[c]);
            FB_TRY(add_cell(&sums, &cells[c], analyser));
        }
        if (n > row->n_seeds) row->n_seeds = n;
    }
    row->filled = sums.filled / sums.n;
    row->kept_bytes = sums.kept_bytes / sums.n;
    row->budget_bytes = sums.budget_bytes / sums.n;
    row->full_bytes = sums.full_bytes / sums.n;
    set_prices(row, &sums, &analyser->results->rules[row->rule]);
    row->is_over_quota = fb_is_over_quota(analyser->results, row);
    row->em = sums.em / sums.n;
    row->nll = sums.nll / sums.n;
    row->kl = sums.kl / sums.n;
    row->top1 = sums.top1 / sums.n;
    row->is_without_choice = row->n_without_choice == sums.n;
    return fb_analysis_memory(row, table, analyser, sums.tails / sums.n);
}
