/* across.c - cells of two runs, paired and compared.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/across.h"

#include "base/index.h"
#include "base/memory.h"
#include "report/across_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A cell of the first results and its counterpart in the second. */
typedef struct pair {
    int task;
    const fb_result_cell *a, *b;
} pair;

typedef struct pairing {
    fb_across *across;
    const fb_across_side *first, *second;
    fb_analysis_options options;
    /* Of the second results, by index of the first; -1: not there. */
    int *task, *rule, *budget, *sample;
    int *document; /* [n_samples of the first]: equal for samples of one document */
    pair *pairs;
    /* Room for a row: */
    double *values;
    int *groups, *seen; /* `seen` [n_samples]: the number of a document in the row */
} pairing;

static bool is_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* --- may they be compared? --- */

static fb_status check_same(const char *what, const char *a, const char *b)
{
    if (is_same(a, b)) return FB_OK;
    return fb_fail(
        FB_USAGE,
        "the two runs differ in more than the backend: %s (%.80s and %.80s)\n"
        "help: run the same experiment twice with the same program, with "
        "another --device or --precision alone",
        what, a == NULL ? "unknown" : a, b == NULL ? "unknown" : b);
}

static fb_status check_alike(const fb_results *a, const fb_results *b)
{
    FB_TRY(check_same("model", a->model.sha256, b->model.sha256));
    FB_TRY(check_same("program", a->program, b->program));
    FB_TRY(check_same("protocol", a->protocol, b->protocol));
    FB_TRY(check_same("protection", a->protection, b->protection));
    return check_same("compute", a->compute, b->compute);
}

/* --- what is the same in both --- */

static bool is_same_task(const fb_result_task *a, const fb_result_task *b)
{
    return is_same(a->kind, b->kind) && a->version == b->version &&
           is_same(a->metric, b->metric) && is_same(a->params, b->params) &&
           is_same(a->data_sha256, b->data_sha256);
}

static int find_task(const fb_results *in, const fb_result_task *task)
{
    for (int i = 0; i < in->n_tasks; i++)
        if (is_same_task(&in->tasks[i], task)) return i;
    return -1;
}

static int find_rule(const fb_results *in, const fb_result_rule *rule)
{
    for (int i = 0; i < in->n_rules; i++)
        if (is_same(in->rules[i].label, rule->label) &&
            is_same(in->rules[i].expression, rule->expression))
            return i;
    return -1;
}

static int find_budget(const fb_results *in, const fb_store_budget *budget)
{
    for (int i = 0; i < in->n_budgets; i++)
        if (is_same(in->budgets[i].asked, budget->asked)) return i;
    return -1;
}

static uint64_t hash_of(const char *text)
{
    return fb_checksum(text, strlen(text));
}

static int find_sample(const pairing *p, const fb_index *index,
                       const fb_result_sample *sample)
{
    const fb_results *in = p->second->results;
    const int task = p->task[sample->task];
    size_t at = 0;
    int i;

    while (fb_index_next(index, hash_of(sample->tokens_sha256), &at, &i))
        if (in->samples[i].task == task && is_same(in->samples[i].key, sample->key) &&
            is_same(in->samples[i].tokens_sha256, sample->tokens_sha256))
            return i;
    return -1;
}

static fb_status map_samples(pairing *p)
{
    const fb_results *a = p->first->results, *b = p->second->results;
    fb_index index = {0};
    fb_status status = FB_OK;

    for (int i = 0; i < b->n_samples && status == FB_OK; i++)
        status = fb_index_add(&index, hash_of(b->samples[i].tokens_sha256), i);
    for (int i = 0; i < a->n_samples && status == FB_OK; i++)
        p->sample[i] = find_sample(p, &index, &a->samples[i]);
    fb_index_clear(&index);
    return status;
}

/* The first sample of a document stands for it. */
static fb_status map_documents(pairing *p)
{
    const fb_results *a = p->first->results;
    fb_index index = {0};
    fb_status status = FB_OK;

    for (int i = 0; i < a->n_samples && status == FB_OK; i++) {
        const fb_result_sample *sample = &a->samples[i];
        const uint64_t hash = hash_of(sample->group);
        size_t at = 0;
        int j;

        p->document[i] = i;
        while (fb_index_next(&index, hash, &at, &j))
            if (a->samples[j].task == sample->task &&
                is_same(a->samples[j].group, sample->group)) {
                p->document[i] = j;
                break;
            }
        if (p->document[i] == i) status = fb_index_add(&index, hash, i);
    }
    fb_index_clear(&index);
    return status;
}

static fb_status map_all(pairing *p)
{
    const fb_results *a = p->first->results, *b = p->second->results;

    for (int i = 0; i < a->n_tasks; i++)
        p->task[i] = find_task(b, &a->tasks[i]);
    for (int i = 0; i < a->n_rules; i++)
        p->rule[i] = find_rule(b, &a->rules[i]);
    for (int i = 0; i < a->n_budgets; i++)
        p->budget[i] = find_budget(b, &a->budgets[i]);
    FB_TRY(map_samples(p));
    return map_documents(p);
}

/* --- pairs --- */

static int by_place(const void *x, const void *y)
{
    const fb_result_cell *a = x, *b = y;

    if (a->sample != b->sample) return a->sample < b->sample ? -1 : 1;
    if (a->rule != b->rule) return a->rule < b->rule ? -1 : 1;
    if (a->budget != b->budget) return a->budget < b->budget ? -1 : 1;
    return a->seed < b->seed ? -1 : a->seed > b->seed;
}

/* The cell of the second results that stands where `a` does; NULL: none is finished. */
static const fb_result_cell *counterpart(const pairing *p, const fb_result_cell *a)
{
    const fb_results *b = p->second->results;
    const fb_result_cell *found;
    fb_result_cell place = {.sample = p->sample[a->sample],
                            .rule = p->rule[a->rule],
                            .budget = a->budget < 0 ? -1 : p->budget[a->budget],
                            .seed = a->seed};

    if (place.sample < 0 || place.rule < 0 || (a->budget >= 0 && place.budget < 0))
        return NULL;
    found = bsearch(&place, b->cells, (size_t)b->n_cells, sizeof place, by_place);
    return found != NULL && fb_result_is_done(found) ? found : NULL;
}

static bool score_of(const pairing *p, const fb_result_cell *a,
                     const fb_result_cell *cell, double *out)
{
    const fb_results *r = p->first->results;
    const char *metric = r->tasks[r->samples[a->sample].task].metric;

    return fb_result_score(cell, metric, out) && isfinite(*out);
}

static void find_pairs(pairing *p)
{
    const fb_results *a = p->first->results, *b = p->second->results;
    fb_across *across = p->across;
    int n_done = 0;

    for (int i = 0; i < a->n_cells; i++) {
        const fb_result_cell *cell = &a->cells[i], *other;
        double x, y;

        if (!fb_result_is_done(cell)) continue;
        other = counterpart(p, cell);
        if (other == NULL || !score_of(p, cell, cell, &x) ||
            !score_of(p, cell, other, &y)) {
            across->n_only_first++;
            continue;
        }
        p->pairs[across->n_pairs++] =
            (pair){a->samples[cell->sample].task, cell, other};
    }
    for (int i = 0; i < b->n_cells; i++)
        n_done += fb_result_is_done(&b->cells[i]);
    across->n_only_second = n_done - across->n_pairs;
}

/* By task, budget, rule, then in the order of the cells. */
static int by_row(const void *x, const void *y)
{
    const pair *a = x, *b = y;

    if (a->task != b->task) return a->task < b->task ? -1 : 1;
    if (a->a->budget != b->a->budget) return a->a->budget < b->a->budget ? -1 : 1;
    if (a->a->rule != b->a->rule) return a->a->rule < b->a->rule ? -1 : 1;
    return a->a < b->a ? -1 : a->a > b->a;
}

static bool is_of_row(const pair *a, const pair *b)
{
    return a->task == b->task && a->a->budget == b->a->budget &&
           a->a->rule == b->a->rule;
}

/* --- kept sets --- */

/* Both ascend. */
static int64_t n_common(const fb_store_kept *a, const fb_store_kept *b)
{
    int64_t n = 0, i = 0, j = 0;

    while (i < a->n && j < b->n) {
        const int32_t x = a->position[i], y = b->position[j];

        n += x == y;
        i += x <= y;
        j += y <= x;
    }
    return n;
}

static const fb_store_kept *find_slot(const fb_store_kept *slots, int n,
                                      const fb_store_kept *like)
{
    for (int i = 0; i < n; i++)
        if (slots[i].layer == like->layer && slots[i].kv_head == like->kv_head)
            return &slots[i];
    return NULL;
}

static int64_t n_larger(const fb_store_kept *a, int n_a, const fb_store_kept *b,
                        int n_b)
{
    int64_t of_a = 0, of_b = 0;

    for (int i = 0; i < n_a; i++)
        of_a += a[i].n;
    for (int i = 0; i < n_b; i++)
        of_b += b[i].n;
    return of_a > of_b ? of_a : of_b;
}

/* Of all slots of a cell: entries that both kept, of those that the larger set has. */
static void count_entries(fb_across_row *row, const fb_store_kept *a, int n_a,
                          const fb_store_kept *b, int n_b)
{
    const int64_t all = n_larger(a, n_a, b, n_b);
    int64_t common = 0;

    for (int i = 0; i < n_a; i++) {
        /* Slots come in one order: usually it stands at the same place. */
        const fb_store_kept *other =
            i < n_b && b[i].layer == a[i].layer && b[i].kv_head == a[i].kv_head
                ? &b[i]
                : find_slot(b, n_b, &a[i]);

        if (other != NULL) common += n_common(&a[i], other);
    }
    row->n_positions++;
    row->n_entries += all;
    row->n_exchanged += all - common;
    row->common += all == 0 ? 1 : (double)common / (double)all;
}

static fb_status add_positions(const pairing *p, fb_across_row *row, const pair *cells)
{
    fb_store_kept *a = NULL, *b = NULL;
    int n_a = 0, n_b = 0;
    fb_status status = fb_store_read_kept(p->first->store, cells->a->id, &a, &n_a);

    if (status == FB_OK && n_a > 0)
        status = fb_store_read_kept(p->second->store, cells->b->id, &b, &n_b);
    if (status == FB_OK && n_a > 0 && n_b > 0) count_entries(row, a, n_a, b, n_b);
    fb_free(a);
    fb_free(b);
    return status;
}

static fb_status add_sets(const pairing *p, fb_across_row *row, const pair *cells)
{
    if (cells->a->budget < 0 || cells->a->evicted == 0) return FB_OK;
    if (cells->a->kept_sha256 == NULL || cells->b->kept_sha256 == NULL) return FB_OK;
    row->n_sets++;
    row->n_equal_sets += strcmp(cells->a->kept_sha256, cells->b->kept_sha256) == 0;
    return add_positions(p, row, cells);
}

/* --- rows --- */

/* By their ids; where a file has none, by their words. */
static void add_answers(fb_across_row *row, const fb_result_cell *a,
                        const fb_result_cell *b)
{
    const char *x = a->answer_tokens, *y = b->answer_tokens;

    if (x == NULL || y == NULL) {
        x = a->answer;
        y = b->answer;
    }
    if (x == NULL || y == NULL) return;
    row->n_answers++;
    row->n_equal_answers += strcmp(x, y) == 0;
}

/* The number of the pair's document in its row, from 0. */
static int document_of(const pairing *p, fb_across_row *row, const pair *cells)
{
    const int document = p->document[cells->a->sample];
    const int number = p->seen[document];

    if (number >= 0) return number;
    p->seen[document] = row->n_documents;
    return row->n_documents++;
}

static fb_status fill_row(pairing *p, fb_across_row *row, const pair *pairs, int n)
{
    const double count = n;

    *row = (fb_across_row){.task = pairs->task,
                           .budget = pairs->a->budget,
                           .rule = pairs->a->rule,
                           .n_cells = n};
    for (int i = 0; i < p->first->results->n_samples; i++)
        p->seen[i] = -1;
    for (int i = 0; i < n; i++) {
        double a = 0, b = 0;

        (void)score_of(p, pairs[i].a, pairs[i].a, &a);
        (void)score_of(p, pairs[i].a, pairs[i].b, &b);
        row->first += a / count;
        row->second += b / count;
        p->values[i] = b - a;
        p->groups[i] = document_of(p, row, &pairs[i]);
        add_answers(row, pairs[i].a, pairs[i].b);
        FB_TRY(add_sets(p, row, &pairs[i]));
    }
    row->common =
        row->n_positions > 0 ? row->common / (double)row->n_positions : (double)NAN;
    row->difference = fb_mean_of(p->values, n);
    return fb_bootstrap_mean(&row->interval, p->values, p->groups, n, row->n_documents,
                             p->options.confidence, p->options.replicates,
                             p->options.seed);
}

static fb_status fill_rows(pairing *p)
{
    fb_across *across = p->across;

    qsort(p->pairs, (size_t)across->n_pairs, sizeof *p->pairs, by_row);
    for (int i = 0, n; i < across->n_pairs; i += n) {
        for (n = 1;
             i + n < across->n_pairs && is_of_row(&p->pairs[i], &p->pairs[i + n]);)
            n++;
        FB_TRY(fill_row(p, &across->rows[across->n_rows++], &p->pairs[i], n));
    }
    return FB_OK;
}

/* --- the whole --- */

static void *room(int n, size_t size)
{
    return fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, size));
}

static fb_status take_room(pairing *p)
{
    const fb_results *a = p->first->results;

    p->task = room(a->n_tasks, sizeof(int));
    p->rule = room(a->n_rules, sizeof(int));
    p->budget = room(a->n_budgets, sizeof(int));
    p->sample = room(a->n_samples, sizeof(int));
    p->document = room(a->n_samples, sizeof(int));
    p->seen = room(a->n_samples, sizeof(int));
    p->pairs = room(a->n_cells, sizeof(pair));
    p->values = room(a->n_cells, sizeof(double));
    p->groups = room(a->n_cells, sizeof(int));
    p->across->rows = room(a->n_cells, sizeof(fb_across_row));
    if (p->task == NULL || p->rule == NULL || p->budget == NULL || p->sample == NULL ||
        p->document == NULL || p->seen == NULL || p->pairs == NULL ||
        p->values == NULL || p->groups == NULL || p->across->rows == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to compare two runs");
    return FB_OK;
}

static void clear(pairing *p)
{
    fb_free(p->task);
    fb_free(p->rule);
    fb_free(p->budget);
    fb_free(p->sample);
    fb_free(p->document);
    fb_free(p->seen);
    fb_free(p->pairs);
    fb_free(p->values);
    fb_free(p->groups);
}

static fb_status compute(pairing *p)
{
    FB_TRY(check_alike(p->first->results, p->second->results));
    FB_TRY(take_room(p));
    FB_TRY(map_all(p));
    find_pairs(p);
    if (p->across->n_pairs == 0)
        return fb_fail(FB_USAGE,
                       "the two runs have no finished cell in common, so there is "
                       "nothing to compare across backends");
    FB_TRY(fill_rows(p));
    return fb_across_say(p->across);
}

fb_status fb_compare_across(fb_across **out, const fb_across_side *first,
                            const fb_across_side *second,
                            const fb_analysis_options *options)
{
    pairing p = {.across = fb_zalloc(FB_ACCOUNT_other, sizeof *p.across),
                 .first = first,
                 .second = second};
    fb_status status;

    *out = NULL;
    if (p.across == NULL) return fb_fail(FB_NO_MEMORY, "no memory to compare two runs");
    p.options = fb_analysis_usual(options);
    p.across->first = first->results;
    p.across->second = second->results;
    p.across->confidence = p.options.confidence;
    status = compute(&p);
    clear(&p);
    if (status == FB_OK)
        *out = p.across;
    else
        fb_across_free(p.across);
    return status;
}

void fb_across_free(fb_across *across)
{
    if (across == NULL) return;
    fb_free(across->rows);
    fb_free(across->headline);
    fb_free(across);
}
