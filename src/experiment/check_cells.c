/* check_cells.c - the digest of each cell, computed again from what is stored.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/check_cells.h"
#include "base/memory.h"
#include "engine/digest.h"
#include "experiment/run_inside.h"

#include <stdlib.h>
#include <string.h>

/* --- scores, in the order in which a run adds them --- */

const char *const fb_pass_metrics[FB_PASS_METRICS] = {
    "kl", "nll", "em_tf", "top1", "token_accuracy", "first_lost"};

static bool has_score(const fb_result_cell *cell, const char *metric)
{
    double value;

    return fb_result_score(cell, metric, &value);
}

bool fb_cell_is_incomplete(const fb_results *results, const fb_result_cell *cell)
{
    const char *own = results->tasks[results->samples[cell->sample].task].metric;

    for (int i = 0; i < FB_PASS_METRICS; i++)
        if (!has_score(cell, fb_pass_metrics[i])) return true;
    return !has_score(cell, own);
}

static bool is_of_pass(const char *metric)
{
    for (int i = 0; i < FB_PASS_METRICS; i++)
        if (strcmp(fb_pass_metrics[i], metric) == 0) return true;
    return false;
}

/* Those of the pass, then what the task adds; false if there are more than a run makes. */
static bool list_scores(const fb_result_cell *cell, fb_digest_cell *facts,
                        fb_digest_score scores[FB_MOST_SCORES])
{
    if (cell->n_scores > FB_MOST_SCORES) return false;
    for (int i = 0; i < FB_PASS_METRICS; i++) {
        fb_digest_score *score = &scores[facts->n_scores];

        score->metric = fb_pass_metrics[i];
        facts->n_scores += fb_result_score(cell, score->metric, &score->value);
    }
    for (int i = 0; i < cell->n_scores; i++)
        if (!is_of_pass(cell->scores[i].metric))
            scores[facts->n_scores++] =
                (fb_digest_score){cell->scores[i].metric, cell->scores[i].value};
    facts->scores = scores;
    return true;
}

/* --- ids: "[3,17,4]" --- */

static bool read_ids(const char *json, int32_t *ids, int64_t *n_out)
{
    const char *at = json;

    *n_out = 0;
    if (at == NULL) return true;
    if (*at++ != '[') return false;
    while (*at != ']') {
        char *end;
        const long id = strtol(at, &end, 10);

        if (end == at || id < 0 || id > INT32_MAX) return false;
        if (*end != ',' && *end != ']') return false;
        ids[(*n_out)++] = (int32_t)id;
        at = end + (*end == ',');
    }
    return at[1] == '\0';
}

/* --- one cell --- */

/* The ids of a free answer were not stored: no prompts, or the cell would be changed. */
static bool cannot_be_told(const fb_results *results, const fb_result_cell *cell)
{
    return cell->stop != NULL && cell->answer_tokens == NULL &&
           results->samples[cell->sample].context == NULL;
}

static bool is_equal(const fb_results *results, const fb_result_cell *cell,
                     int32_t *ids)
{
    const fb_result_sample *sample = &results->samples[cell->sample];
    fb_digest_score scores[FB_MOST_SCORES];
    char digest[FB_HASH_HEX];
    fb_digest_cell facts = {
        .spec_sha256 = results->spec_sha256,
        .model_sha256 = results->model.sha256,
        .sample_sha256 = sample->tokens_sha256,
        .task = results->tasks[sample->task].kind,
        .sample = sample->key,
        .rule = results->rules[cell->rule].expression,
        .seed = (uint64_t)cell->seed,
        .budget = cell->budget < 0 ? "full" : results->budgets[cell->budget].asked,
        .budget_entries = cell->budget_entries,
        .budget_bytes = cell->budget_bytes,
        .kept_sha256 = cell->kept_sha256,
        .ids = ids,
        .stop = cell->stop,
        .evicted = cell->evicted,
        .fallback = cell->fallback,
        .trace_context = cell->trace_context,
        .trace_answer = cell->trace_answer,
        .trace_decode = cell->trace_decode,
    };

    if (!list_scores(cell, &facts, scores)) return false;
    if (!read_ids(cell->answer_tokens, ids, &facts.n_ids)) return false;
    fb_cell_digest(&facts, digest);
    return cell->digest != NULL && strcmp(digest, cell->digest) == 0;
}

/* `is_changed_out`: not what was stored. */
static fb_status check_cell(const fb_results *results, const fb_result_cell *cell,
                            bool *is_changed_out)
{
    const size_t most = cell->answer_tokens == NULL ? 0 : strlen(cell->answer_tokens);
    int32_t *ids = fb_alloc(FB_ACCOUNT_other, fb_size_mul(most + 1, sizeof *ids));

    if (ids == NULL) return fb_fail(FB_NO_MEMORY, "no memory to check a cell");
    *is_changed_out = !cannot_be_told(results, cell) && !is_equal(results, cell, ids);
    fb_free(ids);
    return FB_OK;
}

/* --- all of them --- */

static fb_status check_spec(const fb_results *results, const char *path)
{
    char sha256[FB_HASH_HEX];

    FB_TRY(fb_spec_hash_text(results->spec, sha256));
    if (strcmp(sha256, results->spec_sha256) == 0) return FB_OK;
    return fb_fail(FB_IO,
                   "results '%s': the specification of '%.80s' is not the one that was "
                   "stored; take the file from where it was made, or run again",
                   path, results->name);
}

static fb_status refuse(const fb_results *results, const fb_result_cell *first, int n,
                        const char *path)
{
    const fb_result_sample *sample = &results->samples[first->sample];

    return fb_fail(
        FB_IO,
        "results '%s': %d of %d %s not what was stored (the first: %s/%.80s, "
        "rule '%.80s', budget %s); its numbers were changed or lost since\nhelp: the "
        "same run makes lost rows again; changed ones need another file, with -o",
        path, n, results->n_cells, n == 1 ? "cells is" : "cells are",
        results->tasks[sample->task].name, sample->key,
        results->rules[first->rule].label,
        first->budget < 0 ? "full" : results->budgets[first->budget].asked);
}

fb_status fb_cells_check(const fb_results *results, const char *path, bool strict)
{
    const fb_result_cell *first = NULL;
    int n = 0;

    FB_TRY(check_spec(results, path));
    for (int i = 0; i < results->n_cells; i++) {
        const fb_result_cell *cell = &results->cells[i];
        bool is_changed = false;

        if (!fb_result_is_done(cell)) continue;
        if (!strict && fb_cell_is_incomplete(results, cell)) continue;
        FB_TRY(check_cell(results, cell, &is_changed));
        if (is_changed && n++ == 0) first = cell;
    }
    return n == 0 ? FB_OK : refuse(results, first, n, path);
}
