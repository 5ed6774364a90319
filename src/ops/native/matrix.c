/* matrix.c - products with weights, and of plain tensors.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

#include <string.h>

static int64_t n_panels(int64_t columns)
{
    return (columns + FB_PANEL - 1) / FB_PANEL;
}

/* --- x times a weight */

enum {
    ROWS_AT_ONCE = 192,    /* of x, that stay near while panels pass by */
    ROWS_OF_A_PANEL = 960, /* of x, for which a panel is unpacked once */
    ROWS_OF_EIGHTS = 6,    /* fewer are multiplied by whole numbers as they are */
};

struct linear {
    const fb_native *native;
    const fb_call *call;
    const fb_native_weight *weight;
    int64_t n_panels, rows; /* of x in a block */
    struct fb_native_failure failure;
};

static bool is_of_eights(const struct linear *l)
{
    return l->weight->form == FB_IN_EIGHTS && l->call->in[0].shape[0] <= ROWS_OF_EIGHTS;
}

/* A block of rows times `n` panels from panel p on: one, unless they lie in memory as
 * they are needed. */
static fb_status multiply(const struct linear *l, int64_t block, int64_t p, int64_t n,
                          float *room)
{
    const fb_array *x = &l->call->in[0], *out = &l->call->out;
    const int64_t k = x->shape[1], width = out->shape[1], row = block * l->rows;
    const int64_t left = x->shape[0] - row, columns = width - p * FB_PANEL;
    fb_product product = {
        .rows = left < l->rows ? left : l->rows,
        .k = k,
        .columns = columns < n * FB_PANEL ? columns : n * FB_PANEL,
        .x = fb_floats(x) + row * k,
        .out = fb_floats(out) + row * width + p * FB_PANEL,
        .x_stride = k,
        .panel_stride = k,
        .out_stride = width,
        .scale = 1,
        .more = l->weight->form == FB_IN_FLOATS && p + n < l->n_panels,
    };

    if (is_of_eights(l)) {
        product.eights = fb_weight_eights(l->weight, p);
        l->native->isa->tiles->product_of_eights(&product);
        return FB_OK;
    }
    FB_TRY(fb_weight_panel(l->weight, l->native->isa, p, room, &product.panels));
    l->native->isa->tiles->product(&product);
    return FB_OK;
}

/* Items are (block of rows, panel); a thread's range is cut where the block changes. */
static void linear_items(void *context, int64_t begin, int64_t end, int thread)
{
    struct linear *l = context;
    float *room = l->native->scratch[thread].bytes;
    const int64_t most = l->weight->form == FB_IN_FLOATS || is_of_eights(l) ? end : 1;

    while (begin < end && !atomic_load(&l->failure.has_failed)) {
        const int64_t p = begin % l->n_panels;
        int64_t n = l->n_panels - p < end - begin ? l->n_panels - p : end - begin;

        if (n > most) n = most;
        fb_native_note(&l->failure, multiply(l, begin / l->n_panels, p, n, room));
        begin += n;
    }
}

size_t fb_native_linear_room(const fb_call *call, int n_threads)
{
    const fb_native_weight *weight = fb_native_weight_of(&call->in[1]);

    (void)n_threads;
    return weight->form == FB_IN_FLOATS ? 0 : fb_weight_room(weight);
}

fb_status fb_native_linear(void *self, const fb_call *call)
{
    const fb_native_weight *weight = fb_native_weight_of(&call->in[1]);
    const bool is_there = weight->form == FB_IN_FLOATS;
    struct linear l = {.native = self,
                       .call = call,
                       .weight = weight,
                       .n_panels = n_panels(call->out.shape[1]),
                       .rows = is_there ? ROWS_AT_ONCE : ROWS_OF_A_PANEL};
    const int64_t blocks = (call->out.shape[0] + l.rows - 1) / l.rows;

    FB_TRY(fb_native_reserve(self, fb_native_linear_room(call, 0)));
    fb_native_loop(self, blocks * l.n_panels,
                   (double)fb_array_elements(&call->in[1]) +
                       (double)fb_array_elements(&call->out) *
                           (double)call->in[0].shape[1] / 16,
                   linear_items, &l);
    return fb_native_failure_status(&l.failure);
}

/* --- a product of two plain tensors: panels are made on the way */

struct bmm {
    const fb_native *native;
    const fb_call *call;
    int64_t m, n, k, n_panels;
};

/* rows[32][K], those that exist, become a panel [K][32] filled up with zeros. */
static void pack_panel(const float *rows, int64_t stride, int64_t n_rows, int64_t k,
                       float *panel)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t r = 0; r < FB_PANEL; r++)
            panel[i * FB_PANEL + r] = r < n_rows ? rows[r * stride + i] : 0;
}

/* Columns [first, first + width) of b as a panel [K][32]. */
static void panel_of(const struct bmm *p, const float *b, int64_t first, int64_t width,
                     float *panel)
{
    if (p->call->transpose_b) {
        pack_panel(b + first * p->k, p->k, width, p->k, panel);
        return;
    }
    for (int64_t i = 0; i < p->k; i++)
        for (int64_t c = 0; c < FB_PANEL; c++)
            panel[i * FB_PANEL + c] = c < width ? b[i * p->n + first + c] : 0;
}

/* Row-major a of batch b: as it is, or turned round into `room`. */
static const float *rows_of_a(const struct bmm *p, int64_t b, float *room)
{
    const float *a = fb_floats(&p->call->in[0]) + b * p->m * p->k;

    if (!p->call->transpose_a) return a;
    for (int64_t r = 0; r < p->m; r++)
        for (int64_t i = 0; i < p->k; i++)
            room[r * p->k + i] = a[i * p->m + r];
    return room;
}

static void bmm_items(void *context, int64_t begin, int64_t end, int thread)
{
    const struct bmm *p = context;
    float *panel = p->native->scratch[thread].bytes, *turned = panel + p->k * FB_PANEL;
    const float *a = NULL;
    int64_t last_batch = -1;

    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / p->n_panels, first = i % p->n_panels * FB_PANEL;
        const int64_t width = p->n - first < FB_PANEL ? p->n - first : FB_PANEL;

        if (b != last_batch) a = rows_of_a(p, b, turned);
        last_batch = b;
        panel_of(p, fb_floats(&p->call->in[1]) + b * p->k * p->n, first, width, panel);
        p->native->isa->tiles->product(&(fb_product){
            .rows = p->m,
            .k = p->k,
            .columns = width,
            .x = a,
            .panels = panel,
            .out = fb_floats(&p->call->out) + b * p->m * p->n + first,
            .x_stride = p->k,
            .panel_stride = p->k,
            .out_stride = p->n,
            .scale = 1,
        });
    }
}

static int64_t inner_of(const fb_call *call)
{
    return call->in[0].shape[call->transpose_a ? 1 : 2];
}

size_t fb_native_bmm_room(const fb_call *call, int n_threads)
{
    const int64_t k = inner_of(call), m = call->out.shape[1];
    const size_t floats = (size_t)(k * FB_PANEL + (call->transpose_a ? m * k : 0));

    (void)n_threads;
    return floats * sizeof(float) + 64;
}

fb_status fb_native_bmm(void *self, const fb_call *call)
{
    const fb_array *out = &call->out;
    struct bmm p = {.native = self, .call = call, .m = out->shape[1]};

    p.n = out->shape[2];
    p.k = inner_of(call);
    p.n_panels = n_panels(p.n);
    FB_TRY(fb_native_reserve(self, fb_native_bmm_room(call, 0)));
    fb_native_loop(self, out->shape[0] * p.n_panels,
                   (double)fb_array_elements(out) * (double)p.k / 8, bmm_items, &p);
    return FB_OK;
}
