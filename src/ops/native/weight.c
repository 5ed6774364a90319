/* weight.c - weights in memory, in one of three forms.
 *
 *   floats     panels of f32, [N/32][K][32], the last one filled up with zeros
 *   eights     the same panels of whole numbers of 8 bits, with a scale for each column
 *              of 32 k
 *   at source  nothing: the source keeps its numbers, and a panel is unpacked into
 *              memory of the thread's own each time it is used
 *
 * The float that a product reads is the one that the source's `unpack` writes, to the
 * bit, in all of them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "ops/native/native.h"

#include <stdio.h>
#include <string.h>

static size_t n_panels(const fb_weight_source *source)
{
    return (size_t)((source->rows + FB_PANEL - 1) / FB_PANEL);
}

static enum fb_native_form form_of(const fb_weight_source *source)
{
    if (source->eights != NULL && source->columns % FB_EIGHT_RUN == 0)
        return FB_IN_EIGHTS;
    return source->stays ? FB_AT_SOURCE : FB_IN_FLOATS;
}

fb_native_weight fb_native_weight_like(const fb_weight_source *source)
{
    return (fb_native_weight){.form = form_of(source), .source = *source};
}

size_t fb_weight_size(const fb_weight_source *source)
{
    const size_t columns = (size_t)source->columns;

    switch (form_of(source)) {
    case FB_IN_FLOATS:
        return fb_size_mul(n_panels(source) * FB_PANEL * sizeof(float), columns);
    case FB_IN_EIGHTS:
        return fb_size_mul(n_panels(source) * sizeof(fb_eight), columns / FB_EIGHT_RUN);
    default:
        return 0;
    }
}

/* --- what several threads may fail at */

void fb_native_note(struct fb_native_failure *failure, fb_status status)
{
    if (status == FB_OK || atomic_exchange(&failure->has_failed, true)) return;
    failure->status = status;
    (void)snprintf(failure->sentence, sizeof failure->sentence, "%s",
                   fb_error_message());
}

fb_status fb_native_failure_status(const struct fb_native_failure *failure)
{
    if (!atomic_load(&failure->has_failed)) return FB_OK;
    return fb_fail(failure->status, "%s", failure->sentence);
}

/* --- panels */

/* Memory of a thread in which fb_weight_panel unpacks. */
size_t fb_weight_room(const fb_native_weight *weight)
{
    const size_t panel = FB_PANEL * (size_t)weight->source.columns * sizeof(float);

    return weight->form == FB_AT_SOURCE ? 2 * panel : panel;
}

/* The rows of panel p as [32][K], those that do not exist as zeros. */
static fb_status unpack_rows(const fb_weight_source *source, int64_t p, float *rows)
{
    const int64_t first = p * FB_PANEL, left = source->rows - first;
    const int64_t n = left < FB_PANEL ? left : FB_PANEL, k = source->columns;

    memset(rows + n * k, 0, (size_t)((FB_PANEL - n) * k) * sizeof *rows);
    return source->unpack(source->context, first, first + n, rows);
}

static const float *floats_at(const fb_native_weight *weight, int64_t p)
{
    return (const float *)weight->bytes + p * weight->source.columns * FB_PANEL;
}

const fb_eight *fb_weight_eights(const fb_native_weight *weight, int64_t p)
{
    if (weight->form != FB_IN_EIGHTS) return NULL;
    return (const fb_eight *)weight->bytes +
           p * (weight->source.columns / FB_EIGHT_RUN);
}

fb_status fb_weight_panel(const fb_native_weight *weight, const fb_isa *isa, int64_t p,
                          float *room, const float **out)
{
    const int64_t k = weight->source.columns;

    *out = room;
    switch (weight->form) {
    case FB_IN_FLOATS:
        *out = floats_at(weight, p);
        return FB_OK;
    case FB_IN_EIGHTS:
        isa->tiles->floats_of_eights(fb_weight_eights(weight, p), k, room);
        return FB_OK;
    default:
        FB_TRY(unpack_rows(&weight->source, p, room + FB_PANEL * k));
        isa->tiles->turn(room + FB_PANEL * k, k, k, room);
        return FB_OK;
    }
}

/* --- rows */

static void row_of_floats(const fb_native_weight *weight, int64_t row, float *out)
{
    const float *from = floats_at(weight, row / FB_PANEL) + row % FB_PANEL;

    for (int64_t i = 0; i < weight->source.columns; i++)
        out[i] = from[i * FB_PANEL];
}

static void row_of_eights(const fb_native_weight *weight, int64_t row, float *out)
{
    const fb_eight *from = fb_weight_eights(weight, row / FB_PANEL);
    const int64_t c = row % FB_PANEL;

    for (int64_t i = 0; i < weight->source.columns; i++) {
        const fb_eight *run = &from[i / FB_EIGHT_RUN];
        const uint32_t word = run->words[i % FB_EIGHT_RUN / 4][c];

        out[i] = run->scale[c] * (float)((int)(word >> (8 * (i % 4)) & 0xff) - 128);
    }
}

static fb_status read_row(const fb_native_weight *weight, int64_t row, float *out)
{
    switch (weight->form) {
    case FB_IN_FLOATS:
        row_of_floats(weight, row, out);
        return FB_OK;
    case FB_IN_EIGHTS:
        row_of_eights(weight, row, out);
        return FB_OK;
    default:
        return weight->source.unpack(weight->source.context, row, row + 1, out);
    }
}

fb_status fb_native_embedding(void *self, const fb_call *call)
{
    const int64_t k = call->out.shape[1];

    (void)self;
    for (int64_t r = 0; r < call->out.shape[0]; r++)
        FB_TRY(read_row(fb_native_weight_of(&call->in[0]), call->ids[r],
                        fb_floats(&call->out) + r * k));
    return FB_OK;
}

/* --- making */

struct making {
    const fb_native *native;
    fb_native_weight *weight;
    struct fb_native_failure failure;
};

/* q [32][K] and scale [32][K / 32] by rows become runs of a panel. */
static void arrange(const int8_t *q, const float *scale, int64_t k, fb_eight *out)
{
    const int64_t runs = k / FB_EIGHT_RUN;

    for (int64_t i = 0; i < k / 4; i++)
        for (int64_t c = 0; c < FB_PANEL; c++) {
            fb_eight *run = &out[i / (FB_EIGHT_RUN / 4)];
            const int8_t *from = q + c * k + 4 * i;

            run->scale[c] = scale[c * runs + i / (FB_EIGHT_RUN / 4)];
            run->words[i % (FB_EIGHT_RUN / 4)][c] =
                (uint32_t)(from[0] + 128) | (uint32_t)(from[1] + 128) << 8 |
                (uint32_t)(from[2] + 128) << 16 | (uint32_t)(from[3] + 128) << 24;
        }
}

static fb_status make_eights(const fb_native_weight *weight, int64_t p, float *room)
{
    const fb_weight_source *source = &weight->source;
    const int64_t first = p * FB_PANEL, left = source->rows - first;
    const int64_t n = left < FB_PANEL ? left : FB_PANEL, k = source->columns;
    float *scale = room;
    int8_t *q = (int8_t *)(scale + FB_PANEL * k / FB_EIGHT_RUN);

    memset(room, 0, fb_weight_room(weight));
    FB_TRY(source->eights(source->context, first, first + n, q, scale));
    arrange(q, scale, k, (fb_eight *)weight->bytes + p * (k / FB_EIGHT_RUN));
    return FB_OK;
}

/* A source that stays is read once all the same: it may find a fault. */
static fb_status make_panel(const struct making *m, int64_t p, float *room)
{
    const fb_native_weight *weight = m->weight;
    const int64_t k = weight->source.columns;

    if (weight->form == FB_IN_EIGHTS) return make_eights(weight, p, room);
    FB_TRY(unpack_rows(&weight->source, p, room));
    if (weight->form == FB_IN_FLOATS)
        m->native->isa->tiles->turn(room, k, k,
                                    (float *)weight->bytes + p * k * FB_PANEL);
    return FB_OK;
}

static void make_panels(void *context, int64_t begin, int64_t end, int thread)
{
    struct making *m = context;

    for (int64_t p = begin; p < end && !atomic_load(&m->failure.has_failed); p++)
        fb_native_note(&m->failure, make_panel(m, p, m->native->scratch[thread].bytes));
}

static fb_status fill(fb_native *native, fb_native_weight *weight)
{
    const fb_weight_source *source = &weight->source;
    struct making m = {.native = native, .weight = weight};

    FB_TRY(fb_native_reserve(native, fb_weight_room(weight)));
    fb_native_loop(native, (int64_t)n_panels(source),
                   (double)source->rows * (double)source->columns, make_panels, &m);
    return fb_native_failure_status(&m.failure);
}

fb_status fb_native_weight_new(void *self, fb_array *array,
                               const fb_weight_source *source)
{
    const size_t size = fb_weight_size(source);
    fb_native_weight *weight = fb_zalloc(FB_ACCOUNT_other, sizeof *weight);
    fb_status status;

    if (weight == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a weight");
    *weight = fb_native_weight_like(source);
    if (weight->form != FB_AT_SOURCE)
        weight->bytes = fb_alloc(FB_ACCOUNT_weights, size);
    if (weight->bytes == NULL && weight->form != FB_AT_SOURCE)
        status = fb_fail(FB_NO_MEMORY, "no memory for a weight of %zu bytes", size);
    else
        status = fill(self, weight);
    if (status != FB_OK) {
        fb_native_weight_free(weight);
        return status;
    }
    array->storage = (fb_storage *)weight;
    return FB_OK;
}

void fb_native_weight_free(fb_native_weight *weight)
{
    fb_free(weight->bytes);
    fb_free(weight);
}
