/* cell.c - one finished cell, its children with it, in one transaction.
 *
 * Kept positions are stored as LEB128 numbers: the first position, then differences,
 * about 1.3 bytes per entry.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "store/query.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

enum { N_IDENTITY = 6, LEB_BYTES = 5 };

static void identify(fb_value values[N_IDENTITY], const fb_store_cell *cell)
{
    values[0] = fb_value_int(cell->experiment);
    values[1] = fb_value_int(cell->model);
    values[2] = fb_value_int(cell->sample);
    values[3] = fb_value_int(cell->rule);
    values[4] = fb_value_int(cell->budget);
    values[5] = fb_value_int(cell->seed);
}

fb_status fb_store_has_cell(fb_store *store, const fb_store_cell *identity, bool *out)
{
    fb_value values[N_IDENTITY];
    int64_t n = 0;
    fb_status status;

    identify(values, identity);
    status = fb_query_number(
        &n, store,
        "SELECT count(*) FROM cell WHERE experiment_id = ?1 AND model_id = ?2 AND "
        "sample_id = ?3 AND rule_id = ?4 AND budget_id = ?5 AND seed = ?6 AND "
        "status = 'done'",
        values, N_IDENTITY);
    *out = n > 0;
    return status;
}

static fb_status delete_unfinished(fb_store *store, const fb_store_cell *cell)
{
    fb_value values[N_IDENTITY];

    identify(values, cell);
    return fb_query_run(
        store,
        "DELETE FROM cell WHERE experiment_id = ?1 AND model_id = ?2 AND "
        "sample_id = ?3 AND rule_id = ?4 AND budget_id = ?5 AND seed = ?6 AND "
        "status != 'done'",
        values, N_IDENTITY);
}

fb_status fb_store_drop_cell(fb_store *store, int64_t id)
{
    const fb_value value = fb_value_int(id);

    return fb_query_run(store, "DELETE FROM cell WHERE id = ?1", &value, 1);
}

static fb_status insert_cell(int64_t *id_out, fb_store *store,
                             const fb_store_cell *cell)
{
    const fb_value values[] = {
        fb_value_int(cell->experiment),     fb_value_int(cell->model),
        fb_value_int(cell->sample),         fb_value_int(cell->rule),
        fb_value_int(cell->budget),         fb_value_int(cell->seed),
        fb_value_int(cell->host),           fb_value_text(cell->status),
        fb_value_text(cell->reason),        fb_value_int(cell->full_entries),
        fb_value_int(cell->budget_bytes),   fb_value_int(cell->budget_entries),
        fb_value_int(cell->kept_entries),   fb_value_int(cell->kept_bytes),
        fb_value_int(cell->state_bytes),    fb_value_int(cell->peak_bytes),
        fb_value_int(cell->tail_bytes),     fb_value_int(cell->evicted),
        fb_value_int(cell->free_choices),   fb_value_int(cell->fallback),
        fb_value_int(cell->shrunk),         fb_value_text(cell->answer),
        fb_value_text(cell->answer_tokens), fb_value_text(cell->stop),
        fb_value_text(cell->cache_sha256),  fb_value_text(cell->trace_context),
        fb_value_text(cell->trace_answer),  fb_value_text(cell->trace_decode),
        fb_value_text(cell->kept_sha256),   fb_value_text(cell->digest),
        fb_value_real(cell->fused_flops),   fb_value_real(cell->step_flops),
        fb_value_real(cell->step_bytes),    fb_value_real(cell->plain_flops),
    };

    return fb_query_number(
        id_out, store,
        "INSERT INTO cell (experiment_id, model_id, sample_id, rule_id, budget_id, "
        "seed, host_id, status, reason, full_entries, budget_bytes, budget_entries, "
        "kept_entries, kept_bytes, state_bytes, peak_bytes, tail_bytes, evicted, "
        "free_choices, fallback, shrunk, answer, answer_tokens, stop, cache_sha256, "
        "trace_context, trace_answer, trace_decode, kept_sha256, digest, fused_flops, "
        "step_flops, step_bytes, plain_flops) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
        "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        values, COUNT_OF(values));
}

/* --- children --- */

static fb_status insert_scores(fb_store *store, int64_t id, const fb_store_cell *cell)
{
    fb_query query;

    fb_query_open(&query, store, "INSERT INTO score VALUES (?, ?, ?)", NULL, 0);
    for (int i = 0; i < cell->n_scores; i++) {
        const fb_value values[] = {fb_value_int(id),
                                   fb_value_text(cell->scores[i].metric),
                                   fb_value_real(cell->scores[i].value)};

        fb_query_again(&query, values, COUNT_OF(values));
        (void)fb_query_next(&query);
    }
    return fb_query_close(&query);
}

static fb_status insert_counts(fb_store *store, int64_t id, const fb_store_cell *cell)
{
    fb_query query;

    fb_query_open(&query, store, "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)",
                  NULL, 0);
    for (int i = 0; i < cell->n_counts; i++) {
        const fb_store_count *count = &cell->counts[i];
        const fb_value values[] = {fb_value_int(id),
                                   fb_value_text(count->phase),
                                   fb_value_text(count->scope),
                                   fb_value_text(count->op),
                                   fb_value_int(count->calls),
                                   fb_value_real(count->flops),
                                   fb_value_real(count->bytes)};

        fb_query_again(&query, values, COUNT_OF(values));
        (void)fb_query_next(&query);
    }
    return fb_query_close(&query);
}

static fb_status insert_peaks(fb_store *store, int64_t id, const fb_store_cell *cell)
{
    fb_query query;

    fb_query_open(&query, store, "INSERT INTO memory VALUES (?, ?, ?, ?)", NULL, 0);
    for (int i = 0; i < cell->n_peaks; i++) {
        const fb_value values[] = {fb_value_int(id),
                                   fb_value_text(cell->peaks[i].phase),
                                   fb_value_text(cell->peaks[i].account),
                                   fb_value_int(cell->peaks[i].peak_bytes)};

        fb_query_again(&query, values, COUNT_OF(values));
        (void)fb_query_next(&query);
    }
    return fb_query_close(&query);
}

/* The repetition is the number of the time among those of its phase. */
static fb_status insert_times(fb_store *store, int64_t id, const fb_store_cell *cell)
{
    fb_query query;

    fb_query_open(&query, store,
                  "INSERT INTO timing VALUES (?1, ?2, ?3, (SELECT count(*) FROM timing "
                  "WHERE cell_id = ?1 AND host_id = ?2 AND phase = ?3), ?4, ?5)",
                  NULL, 0);
    for (int i = 0; i < cell->n_times; i++) {
        const fb_value values[] = {fb_value_int(id), fb_value_int(cell->host),
                                   fb_value_text(cell->times[i].phase),
                                   fb_value_int(cell->times[i].ns),
                                   fb_value_int(cell->times[i].shared)};

        fb_query_again(&query, values, COUNT_OF(values));
        (void)fb_query_next(&query);
    }
    return fb_query_close(&query);
}

/* Writes ascending positions to `out`; the bytes used, or 0 if they do not ascend. */
static size_t pack_positions(uint8_t *out, const fb_store_kept *kept)
{
    size_t used = 0;
    int64_t before = 0;

    for (int64_t i = 0; i < kept->n; i++) {
        uint64_t step = (uint64_t)(kept->position[i] - before);

        if (kept->position[i] < before || (i > 0 && step == 0)) return 0;
        before = kept->position[i];
        for (; step > 0x7f; step >>= 7)
            out[used++] = (uint8_t)(0x80 | (step & 0x7f));
        out[used++] = (uint8_t)step;
    }
    return used;
}

static fb_status insert_head(fb_query *query, int64_t id, const fb_store_kept *kept)
{
    uint8_t *bytes =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)kept->n + 1, LEB_BYTES));
    size_t used;

    if (bytes == NULL) return fb_fail(FB_NO_MEMORY, "no memory to store what was kept");
    used = pack_positions(bytes, kept);
    if (used > 0 || kept->n == 0) {
        const fb_value values[] = {fb_value_int(id), fb_value_int(kept->layer),
                                   fb_value_int(kept->kv_head), fb_value_int(kept->n),
                                   fb_value_blob(bytes, used)};

        fb_query_again(query, values, COUNT_OF(values));
        (void)fb_query_next(query);
        fb_query_again(query, NULL, 0); /* lets go of the bytes */
    }
    fb_free(bytes);
    if (used == 0 && kept->n > 0)
        return fb_fail(FB_DEFECT,
                       "kept positions of layer %lld, kv head %lld do not "
                       "ascend",
                       (long long)kept->layer, (long long)kept->kv_head);
    return FB_OK;
}

static fb_status insert_kept(fb_store *store, int64_t id, const fb_store_cell *cell)
{
    fb_status status = FB_OK, closed;
    fb_query query;

    fb_query_open(&query, store, "INSERT INTO kept VALUES (?, ?, ?, ?, ?)", NULL, 0);
    for (int i = 0; i < cell->n_kept && status == FB_OK; i++)
        status = insert_head(&query, id, &cell->kept[i]);
    closed = fb_query_close(&query);
    return status != FB_OK ? status : closed;
}

static fb_status insert_all(fb_store *store, const fb_store_cell *cell)
{
    bool is_there;
    int64_t id;

    FB_TRY(fb_store_has_cell(store, cell, &is_there));
    if (is_there)
        return fb_fail(FB_DEFECT,
                       "results '%s': another run has finished this cell meanwhile; "
                       "one at a time, the same command continues",
                       store->path);
    FB_TRY(delete_unfinished(store, cell));
    FB_TRY(insert_cell(&id, store, cell));
    FB_TRY(insert_scores(store, id, cell));
    FB_TRY(insert_counts(store, id, cell));
    FB_TRY(insert_peaks(store, id, cell));
    FB_TRY(insert_times(store, id, cell));
    return insert_kept(store, id, cell);
}

fb_status fb_store_put_cell(fb_store *store, const fb_store_cell *cell)
{
    FB_TRY(fb_query_run(store, "BEGIN IMMEDIATE", NULL, 0));
    return fb_query_end(store, insert_all(store, cell));
}
