/* outline.c - see outline.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/outline.h"

#include "base/memory.h"
#include "base/time.h"
#include "engine/engine.h"

#include <string.h>

/* Numbers of the network that are multiplied for every token; with the head if a
 * distribution is read. */
static double weights_of(const fb_model_facts *f, bool with_head)
{
    const double width = (double)f->width, d = (double)f->head_dim;
    const double attention = width * d * (double)(2 * f->heads + 2 * f->kv_heads);
    const double network = 3 * width * (double)f->ffn;

    return (double)f->layers * (attention + network) +
           (with_head ? width * (double)f->vocabulary : 0);
}

/* Multiplications and additions of attention for one token that sees m entries. */
static double attention_flops(const fb_model_facts *f, double m)
{
    return 4 * (double)f->layers * (double)(f->heads * f->head_dim) * m;
}

/* A context of n tokens of which each sees m entries in the mean. */
static void add_reading(fb_outline *out, const fb_model_facts *facts, double n,
                        double m)
{
    out->read_tokens += n;
    out->read_flops += n * (2 * weights_of(facts, false) + attention_flops(facts, m));
}

static void add_cell(fb_outline *out, const fb_plan *plan, const fb_cell *cell)
{
    const fb_model_facts *facts = fb_model_get_facts(plan->model);
    const fb_plan_sample *sample = &plan->samples[cell->sample];
    const double tokens = (double)(sample->prompt.n + sample->answer.n);

    out->answer_tokens += tokens;
    out->answer_flops += tokens * (2 * weights_of(facts, true) +
                                   attention_flops(facts, (double)cell->k));
    if (fb_spec_streams(plan->spec)) {
        const double n = (double)plan->documents[sample->document].context.n;

        add_reading(out, facts, n, (double)cell->k < n / 2 ? (double)cell->k : n / 2);
    }
}

static fb_status add_document(fb_outline *out, const fb_plan *plan, int document,
                              const fb_filter *only)
{
    const fb_model_facts *facts = fb_model_get_facts(plan->model);
    const double n = (double)plan->documents[document].context.n;
    fb_cell *cells = NULL;
    int n_cells = 0;

    FB_TRY(fb_plan_cells(plan, document, only, &cells, &n_cells));
    for (int i = 0; i < n_cells; i++)
        add_cell(out, plan, &cells[i]);
    fb_free(cells);
    out->cells += n_cells;
    if (n_cells == 0) return FB_OK;
    out->contexts++;
    add_reading(out, facts, n, n / 2);
    return FB_OK;
}

fb_status fb_outline_make(fb_outline *out, const fb_plan *plan, const fb_filter *only)
{
    const fb_model_facts *facts = fb_model_get_facts(plan->model);
    const double heads = (double)plan->shape.kv_heads;
    const double layer = heads * (double)fb_entry_bytes(&plan->shape); /* per token */

    *out = (fb_outline){.samples = plan->n_samples};
    for (int i = 0; i < plan->n_documents; i++)
        FB_TRY(add_document(out, plan, i, only));
    for (int i = 0; i < plan->n_samples; i++) {
        const fb_plan_sample *s = &plan->samples[i];
        const double tail =
            layer * (double)facts->layers *
            (double)(s->prompt.n +
                     (s->answer.n > s->max_tokens ? s->answer.n : s->max_tokens));

        if (tail > out->tail_bytes) out->tail_bytes = tail;
    }
    out->weight_bytes = (double)facts->weight_bytes;
    if (fb_spec_is_torch(plan->spec)) /* loaded, in a precision of its own */
        out->weight_bytes = (double)fb_memory_now(FB_ACCOUNT_weights);
    return FB_OK;
}

/* --- speed --- */

enum { ROWS = 64, INNER = 576, COLUMNS = 1536 };

static fb_status zeros(void *context, int64_t begin, int64_t end, float *out)
{
    (void)context;
    memset(out, 0, (size_t)(end - begin) * INNER * sizeof *out);
    return FB_OK;
}

fb_status fb_outline_speed(fb_ops *ops, double *out)
{
    const fb_tensor weight = fb_weight(
        ops, &(fb_weight_source){
                 .rows = COLUMNS, .columns = INNER, .unpack = zeros, .context = NULL});
    const int64_t begin = fb_time_ns();
    float row[COLUMNS];
    fb_tensor out_row;
    int64_t calls = 0;

    for (; fb_time_ns() - begin < 1000000000 && fb_ops_status(ops) == FB_OK; calls++) {
        fb_scope_open(ops);
        out_row = fb_linear(ops, fb_full(ops, 2, (int64_t[]){ROWS, INNER}, 1), weight);
        /* A device computes later than it is told to: wait for the last row. */
        if (fb_to_host(ops, fb_narrow(ops, out_row, 0, ROWS - 1, 1), row, sizeof row) !=
            FB_OK)
            break;
        fb_scope_close(ops);
    }
    *out = 2.0 * ROWS * INNER * COLUMNS * (double)calls /
           ((double)(fb_time_ns() - begin) / 1e9);
    fb_release(ops, weight);
    return fb_ops_status(ops);
}
