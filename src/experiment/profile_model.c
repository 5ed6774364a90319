/* profile_model.c - the parts of a profile that depend on a model: products of one row
 * with its weights as they are held, and attention with heads like its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/number.h"
#include "cache/cache.h"
#include "experiment/profile_inside.h"

#include <stdio.h>

/* --- one row --- */

static void multiply_row(fb_ops *ops, fb_tensor weight)
{
    const int64_t inner = fb_size(ops, weight, 1);

    fb_scope_open(ops);
    (void)fb_linear(ops, fb_full(ops, 2, (int64_t[]){1, inner}, 0.5), weight);
    fb_scope_close(ops);
}

static void multiply_all(fb_ops *ops, const void *self)
{
    const fb_model *model = self;

    for (int64_t l = 0; l < fb_model_get_facts(model)->layers; l++) {
        const fb_layer *layer = fb_model_layer(model, l);

        multiply_row(ops, layer->qkv);
        multiply_row(ops, layer->output);
        multiply_row(ops, layer->gate_up);
        multiply_row(ops, layer->down);
    }
    multiply_row(ops, fb_model_head(model));
}

static double flops_of(fb_ops *ops, fb_tensor weight)
{
    return 2.0 * (double)fb_size(ops, weight, 0) * (double)fb_size(ops, weight, 1);
}

static double flops_of_all(fb_ops *ops, const fb_model *model)
{
    double flops = flops_of(ops, fb_model_head(model));

    for (int64_t l = 0; l < fb_model_get_facts(model)->layers; l++) {
        const fb_layer *layer = fb_model_layer(model, l);

        flops += flops_of(ops, layer->qkv) + flops_of(ops, layer->output) +
                 flops_of(ops, layer->gate_up) + flops_of(ops, layer->down);
    }
    return flops;
}

/* What being called takes stands apart. */
fb_status fb_profile_measure_row(fb_profile *out, fb_ops *ops, const fb_model *model)
{
    const fb_model_facts *facts = fb_model_get_facts(model);
    fb_trial t = {.ops = ops, .work = multiply_all, .self = model, .calls = 1};
    const double calls = 2 * (4 * (double)facts->layers + 1); /* each makes its row */
    double seconds;

    FB_TRY(fb_trial_measure(&seconds, &t));
    if (seconds > 2 * calls * out->seconds_per_call)
        seconds -= calls * out->seconds_per_call;
    out->row_flops_per_s = flops_of_all(ops, model) / seconds;
    (void)snprintf(out->row_weights, sizeof out->row_weights, "%.100s, %s", facts->name,
                   fb_weight_form_name(fb_model_weight_form(model)));
    return fb_ops_status(ops);
}

/* --- attention --- */

enum { ROWS = 256, FAR_BYTES = 64 << 20 };

/* A cache of all layers that no cache of the machine holds, and who looks at it. */
typedef struct gaze {
    const fb_model_facts *facts;
    fb_cache *cache;
    fb_segment *segments; /* [kv_heads] scratch */
    int64_t layers;       /* that are looked at, one after the other */
    int64_t rows;
} gaze;

static fb_tensor qkv_rows(fb_ops *ops, const fb_model_facts *f, int64_t heads,
                          int64_t rows)
{
    const int64_t width = (heads + 2 * f->kv_heads) * f->head_dim;

    return fb_full(ops, 2, (int64_t[]){rows, width}, 0.1);
}

static void look(fb_ops *ops, const void *self)
{
    const gaze *g = self;
    const fb_model_facts *f = g->facts;
    const fb_tensor x = qkv_rows(ops, f, f->heads, g->rows);

    for (int64_t l = 0; l < g->layers; l++) {
        for (int64_t h = 0; h < f->kv_heads; h++)
            g->segments[h] = (fb_segment){.context = fb_cache_part(g->cache, l, h)};
        fb_scope_open(ops);
        (void)fb_attention(ops, &(fb_attend){.x = x,
                                             .segments = g->segments,
                                             .n_sequences = 1,
                                             .heads = f->heads,
                                             .kv_heads = f->kv_heads,
                                             .head_dim = f->head_dim,
                                             .scale = f->attention_scale});
        fb_scope_close(ops);
    }
}

/* What the ledger says of one look. */
static fb_status count_look(fb_count *out, fb_ops *ops, const gaze *g)
{
    fb_ledger *ledger = fb_zalloc(FB_ACCOUNT_other, sizeof *ledger);
    const fb_place before = fb_ops_place(ops);

    if (ledger == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a ledger");
    fb_ops_move(ops, (fb_place){FB_PHASE_decode, FB_SCOPE_attention});
    fb_ops_charge(ops, &ledger, 1);
    fb_scope_open(ops);
    look(ops, g);
    fb_scope_close(ops);
    fb_ops_charge(ops, NULL, 0);
    fb_ops_move(ops, before);
    *out = ledger->count[FB_PHASE_decode][FB_SCOPE_attention][FB_OP_attention];
    fb_free(ledger);
    return fb_ops_status(ops);
}

static fb_status fill(fb_ops *ops, const gaze *g, int64_t n)
{
    fb_status status = FB_OK;

    for (int64_t l = 0; l < g->layers; l++)
        for (int64_t at = 0; status == FB_OK && at < n; at += ROWS) {
            fb_scope_open(ops);
            status = fb_cache_append(
                g->cache, ops, l, qkv_rows(ops, g->facts, 0, fb_smaller(ROWS, n - at)),
                0);
            fb_scope_close(ops);
        }
    return status;
}

static fb_status measure_gaze(fb_count *count, double *seconds, fb_ops *ops,
                              const gaze *g)
{
    fb_trial t = {.ops = ops, .work = look, .self = g, .calls = 1};

    FB_TRY(count_look(count, ops, g));
    FB_TRY(fb_trial_measure(seconds, &t));
    return FB_OK;
}

static fb_status measure_both(fb_profile *out, fb_ops *ops, gaze *g)
{
    fb_count count;
    double seconds;

    g->rows = 1;
    FB_TRY(measure_gaze(&count, &seconds, ops, g));
    out->attention_bytes_per_s = count.bytes / seconds;
    g->rows = ROWS;
    g->layers = 1;
    FB_TRY(measure_gaze(&count, &seconds, ops, g));
    out->attention_flops_per_s = count.flops / seconds;
    return FB_OK;
}

static fb_cache_shape shape_of(const fb_model_facts *f, fb_dtype cache)
{
    return (fb_cache_shape){f->global_layers, f->kv_heads, f->head_dim, cache};
}

static int64_t token_bytes(const fb_cache_shape *shape)
{
    return shape->layers * shape->kv_heads * (int64_t)fb_entry_bytes(shape);
}

static int64_t far_tokens(const fb_cache_shape *shape)
{
    return fb_larger(2 * ROWS, FAR_BYTES / token_bytes(shape));
}

double fb_profile_attention_bytes(const fb_model *model, fb_dtype cache)
{
    const fb_cache_shape shape = shape_of(fb_model_get_facts(model), cache);

    return (double)far_tokens(&shape) * (double)token_bytes(&shape);
}

fb_status fb_profile_measure_attention(fb_profile *out, fb_ops *ops,
                                       const fb_model *model, fb_dtype cache)
{
    const fb_model_facts *f = fb_model_get_facts(model);
    const fb_cache_shape shape = shape_of(f, cache);
    const int64_t n = far_tokens(&shape);
    gaze g = {.facts = f, .layers = shape.layers};
    fb_status status;

    g.segments = fb_zalloc(FB_ACCOUNT_other, (size_t)f->kv_heads * sizeof *g.segments);
    if (g.segments == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a profile");
    status = fb_cache_new(&g.cache, ops, &shape, n);
    if (status == FB_OK) status = fill(ops, &g, n);
    if (status == FB_OK) status = measure_both(out, ops, &g);
    fb_cache_free(g.cache);
    fb_free(g.segments);
    return status;
}
