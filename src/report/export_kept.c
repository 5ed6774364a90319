/* export_kept.c - kept sets as lines of JSON, one for each cell.
 *
 * A results file may come from anywhere: every set is read and checked before the first
 * byte is written.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/export_kept.h"

#include "base/json.h"
#include "base/memory.h"

/* --- reading --- */

/* Entries of a head before anything left: all heads have as many. */
static int64_t context_of(const fb_kept_cells *cells, const fb_result_cell *cell)
{
    return cell->full_entries / (cells->layers * cells->kv_heads);
}

static fb_status damaged(const fb_kept_cells *cells, const fb_result_cell *cell,
                         const char *what)
{
    const fb_results *r = cells->results;

    return fb_fail(FB_FORMAT, "the kept set of rule '%s' on sample '%s' %s",
                   r->rules[cell->rule].label, r->samples[cell->sample].key, what);
}

static fb_status check_sets(const fb_kept_cells *cells, const fb_result_cell *cell,
                            const fb_store_kept *kept, int n)
{
    const int64_t slots = cells->layers * cells->kv_heads;
    const int64_t context = context_of(cells, cell);
    int64_t total = 0;

    if (n != slots || cell->full_entries % slots != 0)
        return damaged(cells, cell, "has not one part for each head of the model");
    for (int64_t s = 0; s < slots; s++) {
        if (kept[s].layer != s / cells->kv_heads ||
            kept[s].kv_head != s % cells->kv_heads)
            return damaged(cells, cell, "has not one part for each head of the model");
        if (kept[s].n > 0 && kept[s].position[kept[s].n - 1] >= context)
            return damaged(cells, cell, "has a position behind the end of the text");
        total += kept[s].n;
    }
    if (total != cell->kept_entries)
        return damaged(cells, cell, "has not as many entries as its cell says");
    return FB_OK;
}

fb_status fb_kept_read(const fb_kept_cells *cells, int cell, fb_store_kept **out)
{
    const fb_result_cell *row = &cells->results->cells[cell];
    fb_store_kept *kept;
    fb_status status;
    int n;

    *out = NULL;
    FB_TRY(fb_store_read_kept(cells->store, row->id, &kept, &n));
    status = check_sets(cells, row, kept, n);
    if (status == FB_OK)
        *out = kept;
    else
        fb_free(kept);
    return status;
}

/* --- which --- */

/* Layers with a window of their own evict nothing and have no sets: what the first cell
 * with sets has is what all must have. */
static fb_status measure(fb_kept_cells *cells, const fb_store_kept *kept, int n)
{
    const fb_store_model *model = &cells->results->model;

    const fb_store_kept *last = &kept[n - 1];

    if (last->layer >= 0 && last->layer < model->layers && last->layer < n &&
        model->kv_heads <= n && last->kv_head == model->kv_heads - 1 &&
        n == (last->layer + 1) * model->kv_heads) {
        cells->layers = last->layer + 1;
        cells->kv_heads = model->kv_heads;
        return FB_OK;
    }
    return fb_fail(FB_FORMAT,
                   "kept sets of %d heads, the last in layer %lld; the model has %lld "
                   "layers of %lld kv heads",
                   n, (long long)last->layer, (long long)model->layers,
                   (long long)model->kv_heads);
}

static fb_status add_cell(fb_kept_cells *cells, int cell)
{
    const fb_result_cell *row = &cells->results->cells[cell];
    fb_store_kept *kept;
    fb_status status = FB_OK;
    int n;

    if (!fb_result_is_done(row)) return FB_OK;
    FB_TRY(fb_store_read_kept(cells->store, row->id, &kept, &n));
    if (n > 0 && cells->n == 0) status = measure(cells, kept, n);
    if (n > 0 && status == FB_OK) status = check_sets(cells, row, kept, n);
    if (n > 0 && status == FB_OK) cells->cell[cells->n++] = cell;
    fb_free(kept);
    return status;
}

fb_status fb_kept_open(fb_kept_cells *out, fb_store *store, const fb_results *results)
{
    fb_status status = FB_OK;

    *out = (fb_kept_cells){.store = store, .results = results};
    out->cell = fb_alloc(FB_ACCOUNT_other,
                         fb_size_mul((size_t)results->n_cells + 1, sizeof *out->cell));
    if (out->cell == NULL) return fb_fail(FB_NO_MEMORY, "no memory for kept sets");
    for (int i = 0; i < results->n_cells && status == FB_OK; i++)
        status = add_cell(out, i);
    if (status == FB_OK && out->n == 0)
        status = fb_fail(FB_NOT_FOUND,
                         "no cell of '%s' has a kept set\n"
                         "help: flexbudget run with --keep-sets all, or first, stores "
                         "them; the rule 'full' has none",
                         results->name);
    if (status != FB_OK) fb_kept_close(out);
    return status;
}

void fb_kept_close(fb_kept_cells *cells)
{
    fb_free(cells->cell);
    *cells = (fb_kept_cells){0};
}

/* --- writing --- */

static void add_string(fb_text *out, const char *key, const char *value)
{
    fb_text_printf(out, ", \"%s\": ", key);
    fb_json_add_string(out, value == NULL ? "" : value);
}

void fb_kept_describe(const fb_kept_cells *cells, int cell, fb_text *out)
{
    const fb_results *r = cells->results;
    const fb_result_cell *row = &r->cells[cell];
    const fb_result_sample *sample = &r->samples[row->sample];

    fb_text_puts(out, "\"model\": ");
    fb_json_add_string(out, r->model.name);
    add_string(out, "model_sha256", r->model.sha256);
    add_string(out, "task", r->tasks[sample->task].name);
    add_string(out, "sample", sample->key);
    add_string(out, "tokens_sha256", sample->tokens_sha256);
    add_string(out, "rule", r->rules[row->rule].label);
    add_string(out, "expression", r->rules[row->rule].expression);
    add_string(out, "budget", row->budget < 0 ? "" : r->budgets[row->budget].asked);
    fb_text_printf(out, ", \"seed\": %lld, \"n\": %lld, \"layers\": %lld",
                   (long long)row->seed, (long long)context_of(cells, row),
                   (long long)cells->layers);
    fb_text_printf(out, ", \"kv_heads\": %lld, \"entries\": %lld",
                   (long long)cells->kv_heads, (long long)row->kept_entries);
    add_string(out, "kept_sha256", row->kept_sha256);
}

static void add_head(fb_text *out, const fb_store_kept *kept)
{
    fb_text_puts(out, "[");
    for (int64_t j = 0; j < kept->n; j++)
        fb_text_printf(out, "%s%d", j == 0 ? "" : ",", (int)kept->position[j]);
    fb_text_puts(out, "]");
}

static fb_status write_line(const fb_kept_cells *cells, int cell, fb_writer *writer)
{
    fb_store_kept *kept;
    fb_text line = {0};
    fb_status status;

    FB_TRY(fb_kept_read(cells, cell, &kept));
    fb_text_puts(&line, "{\"format\": 1, ");
    fb_kept_describe(cells, cell, &line);
    fb_text_puts(&line, ", \"kept\": [");
    for (int64_t layer = 0; layer < cells->layers; layer++) {
        fb_text_puts(&line, layer == 0 ? "[" : ", [");
        for (int64_t g = 0; g < cells->kv_heads; g++) {
            if (g > 0) fb_text_puts(&line, ", ");
            add_head(&line, &kept[layer * cells->kv_heads + g]);
        }
        fb_text_puts(&line, "]");
    }
    fb_text_puts(&line, "]}\n");
    status = fb_text_status(&line);
    if (status == FB_OK) fb_writer_add(writer, line.bytes, line.n);
    fb_text_clear(&line);
    fb_free(kept);
    return status;
}

fb_status fb_kept_write(const fb_kept_cells *cells, fb_kept_format format,
                        fb_writer *writer)
{
    if (format == FB_KEPT_SAFETENSORS) return fb_kept_write_tensors(cells, writer);
    for (int i = 0; i < cells->n; i++)
        FB_TRY(write_line(cells, cells->cell[i], writer));
    return FB_OK;
}
