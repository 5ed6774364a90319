/* read_cells.c - the cells of an experiment and their scores.
 *
 * Both come in the order of ids and are joined in one walk; then the cells are put into
 * the order that readers are promised.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/reader.h"

#include <math.h>
#include <stdlib.h>

static fb_status refer(fb_reader *reader, fb_result_cell *cell)
{
    if (!fb_links_find(&cell->sample, &reader->samples, fb_reader_int(reader, 1)))
        return fb_reader_dangling(reader, "sample");
    if (!fb_links_find(&cell->rule, &reader->rules, fb_reader_int(reader, 2)))
        return fb_reader_dangling(reader, "rule");
    if (!fb_links_find(&cell->budget, &reader->budgets, fb_reader_int(reader, 3)))
        return fb_reader_dangling(reader, "budget");
    return FB_OK;
}

/* NAN for NULL. */
static double price(const fb_reader *reader, int column)
{
    return fb_query_is_null(&reader->query, column)
               ? (double)NAN
               : fb_query_real(&reader->query, column);
}

static void fill_cell(fb_reader *reader, fb_result_cell *cell)
{
    cell->id = fb_reader_int(reader, 0);
    cell->seed = fb_reader_int(reader, 4);
    cell->status = fb_reader_word(reader, 5);
    cell->reason = fb_reader_text(reader, 6);
    cell->answer = fb_reader_text(reader, 7);
    cell->stop = fb_reader_text(reader, 8);
    cell->digest = fb_reader_text(reader, 9);
    cell->cache_sha256 = fb_reader_text(reader, 10);
    cell->trace_context = fb_reader_text(reader, 11);
    cell->trace_answer = fb_reader_text(reader, 12);
    cell->trace_decode = fb_reader_text(reader, 13);
    cell->full_entries = fb_reader_int(reader, 14);
    cell->budget_bytes = fb_reader_int(reader, 15);
    cell->budget_entries = fb_reader_int(reader, 16);
    cell->kept_entries = fb_reader_int(reader, 17);
    cell->kept_bytes = fb_reader_int(reader, 18);
    cell->state_bytes = fb_reader_int(reader, 19);
    cell->peak_bytes = fb_reader_int(reader, 20);
    cell->tail_bytes = fb_reader_int(reader, 21);
    cell->evicted = fb_reader_int(reader, 22);
    cell->free_choices = fb_reader_int(reader, 23);
    cell->fallback = fb_reader_bool(reader, 24);
    cell->shrunk = fb_reader_bool(reader, 25);
    cell->answer_tokens = fb_reader_text(reader, 26);
    cell->kept_sha256 = fb_reader_text(reader, 27);
    cell->fused_flops = price(reader, 28);
    cell->step_flops = price(reader, 29);
    cell->step_bytes = price(reader, 30);
    cell->plain_flops = price(reader, 31);
}

#define CELLS(prices)                                                                  \
    "SELECT id, sample_id, rule_id, budget_id, seed, status, reason, answer, stop, "   \
    "digest, cache_sha256, trace_context, trace_answer, trace_decode, full_entries, "  \
    "budget_bytes, budget_entries, kept_entries, kept_bytes, state_bytes, "            \
    "peak_bytes, tail_bytes, evicted, free_choices, fallback, shrunk, "                \
    "answer_tokens, kept_sha256, " prices " FROM cell WHERE experiment_id = ?1 "       \
    "ORDER BY id"

/* In the order of ids: what read_scores() walks along. */
static fb_status read_cells(fb_reader *reader, fb_result_cell *cells, int n)
{
    fb_status status = FB_OK, closed;
    bool has_prices, has_plain;
    int i = 0;

    FB_TRY(fb_reader_is_since(reader, 5, &has_prices));
    FB_TRY(fb_reader_is_since(reader, 6, &has_plain));
    fb_reader_query(
        reader, has_plain    ? CELLS("fused_flops, step_flops, step_bytes, plain_flops")
                : has_prices ? CELLS("fused_flops, step_flops, step_bytes, NULL")
                             : CELLS("NULL, NULL, NULL, NULL"));
    while (status == FB_OK && i < n && fb_query_next(&reader->query)) {
        status = refer(reader, &cells[i]);
        fill_cell(reader, &cells[i++]);
    }
    reader->results.n_cells = i;
    closed = fb_query_close(&reader->query);
    return status != FB_OK ? status : closed;
}

#define SCORES_OF "(SELECT id FROM cell WHERE experiment_id = ?1)"

static fb_status read_scores(fb_reader *reader, fb_result_cell *cells)
{
    void *rows;
    fb_store_score *scores;
    int n, c = 0, i = 0;

    FB_TRY(fb_reader_take(&rows, &n, reader,
                          "SELECT count(*) FROM score WHERE cell_id IN " SCORES_OF,
                          sizeof *scores));
    scores = rows;
    fb_reader_query(
        reader, "SELECT cell_id, metric, value FROM score WHERE cell_id IN " SCORES_OF
                " ORDER BY cell_id, metric");
    for (; i < n && fb_query_next(&reader->query); i++) {
        const int64_t id = fb_reader_int(reader, 0);

        while (c < reader->results.n_cells && cells[c].id < id)
            c++;
        if (c == reader->results.n_cells || cells[c].id != id) break;
        scores[i] = (fb_store_score){fb_reader_word(reader, 1),
                                     fb_query_real(&reader->query, 2)};
        if (cells[c].n_scores++ == 0) cells[c].scores = &scores[i];
    }
    return fb_query_close(&reader->query);
}

static int by_place(const void *a, const void *b)
{
    const fb_result_cell *x = a, *y = b;

    if (x->sample != y->sample) return x->sample < y->sample ? -1 : 1;
    if (x->rule != y->rule) return x->rule < y->rule ? -1 : 1;
    if (x->budget != y->budget) return x->budget < y->budget ? -1 : 1;
    return (x->seed > y->seed) - (x->seed < y->seed);
}

fb_status fb_reader_cells(fb_reader *reader)
{
    void *rows;
    fb_result_cell *cells;
    int n;

    FB_TRY(fb_reader_take(&rows, &n, reader,
                          "SELECT count(*) FROM cell WHERE experiment_id = ?1",
                          sizeof *cells));
    cells = rows;
    FB_TRY(read_cells(reader, cells, n));
    FB_TRY(read_scores(reader, cells));
    if (n > 0) qsort(cells, (size_t)reader->results.n_cells, sizeof *cells, by_place);
    reader->results.cells = cells;
    return FB_OK;
}
