/* native_matrix.c - weights in panels, and products with them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static int64_t n_panels(int64_t columns)
{
    return (columns + FB_PANEL - 1) / FB_PANEL;
}

/* --- making a weight */

size_t fb_weight_size(int64_t rows, int64_t columns)
{
    return fb_size_mul((size_t)n_panels(rows) * FB_PANEL * sizeof(float),
                       (size_t)columns);
}

size_t fb_weight_bytes(const fb_array *weight)
{
    return fb_weight_size(weight->shape[0], weight->shape[1]);
}

struct packing {
    const fb_native *native;
    const fb_array *weight;
    fb_unpack *unpack;
    void *context;
    atomic_bool failed;
    fb_status status; /* of the first that failed, and what it said */
    char sentence[512];
};

/* rows[32][K], those that exist, become a panel [K][32] filled up with zeros. */
static void pack_panel(const float *rows, int64_t stride, int64_t n_rows, int64_t k,
                       float *panel)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t r = 0; r < FB_PANEL; r++)
            panel[i * FB_PANEL + r] = r < n_rows ? rows[r * stride + i] : 0;
}

static void pack_panels(void *context, int64_t begin, int64_t end, int thread)
{
    struct packing *p = context;
    const int64_t rows = p->weight->shape[0], k = p->weight->shape[1];
    float *unpacked = p->native->scratch[thread].bytes;

    for (int64_t panel = begin; panel < end && !atomic_load(&p->failed); panel++) {
        const int64_t first = panel * FB_PANEL;
        const int64_t last = first + FB_PANEL < rows ? first + FB_PANEL : rows;
        const fb_status status = p->unpack(p->context, first, last, unpacked);

        if (status != FB_OK && !atomic_exchange(&p->failed, true)) {
            p->status = status;
            (void)snprintf(p->sentence, sizeof p->sentence, "%s", fb_error_message());
        }
        if (status != FB_OK) return;
        pack_panel(unpacked, k, last - first, k,
                   fb_floats(p->weight) + panel * k * FB_PANEL);
    }
}

fb_status fb_native_weight(void *self, const fb_array *weight, fb_unpack *unpack,
                           void *context)
{
    fb_native *native = self;
    struct packing p = {
        .native = native, .weight = weight, .unpack = unpack, .context = context};
    const size_t row = (size_t)weight->shape[1] * sizeof(float);

    FB_TRY(fb_native_reserve(native, FB_PANEL * row));
    fb_native_loop(native, n_panels(weight->shape[0]),
                   (double)fb_array_elements(weight), pack_panels, &p);
    return atomic_load(&p.failed) ? fb_fail(p.status, "%s", p.sentence) : FB_OK;
}

fb_status fb_native_embedding(void *self, const fb_call *call)
{
    const int64_t k = call->out.shape[1];

    (void)self;
    for (int64_t r = 0; r < call->out.shape[0]; r++) {
        const int64_t row = call->ids[r];
        const float *from =
            fb_floats(&call->in[0]) + row / FB_PANEL * k * FB_PANEL + row % FB_PANEL;
        float *out = fb_floats(&call->out) + r * k;

        for (int64_t i = 0; i < k; i++)
            out[i] = from[i * FB_PANEL];
    }
    return FB_OK;
}

/* --- x times a weight */

enum { ROWS_AT_ONCE = 192 }; /* rows of x that stay near while panels pass by */

struct linear {
    const fb_native *native;
    const fb_call *call;
    int64_t n_panels;
};

/* Items are (block of rows, panel); a thread's range is cut where the block changes. */
static void linear_items(void *context, int64_t begin, int64_t end, int thread)
{
    const struct linear *l = context;
    const fb_array *x = &l->call->in[0], *out = &l->call->out;
    const int64_t k = x->shape[1], n = out->shape[1];

    (void)thread;
    while (begin < end) {
        const int64_t block = begin / l->n_panels, first = begin % l->n_panels;
        const int64_t here =
            l->n_panels - first < end - begin ? l->n_panels - first : end - begin;
        const int64_t row = block * ROWS_AT_ONCE, left = x->shape[0] - row;
        const int64_t columns = n - first * FB_PANEL;

        l->native->isa->tiles->product(&(fb_product){
            .rows = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE,
            .k = k,
            .columns = here * FB_PANEL < columns ? here * FB_PANEL : columns,
            .x = fb_floats(x) + row * k,
            .panels = fb_floats(&l->call->in[1]) + first * k * FB_PANEL,
            .out = fb_floats(out) + row * n + first * FB_PANEL,
            .x_stride = k,
            .panel_stride = k,
            .out_stride = n,
            .scale = 1,
        });
        begin += here;
    }
}

fb_status fb_native_linear(void *self, const fb_call *call)
{
    struct linear l = {self, call, n_panels(call->out.shape[1])};
    const int64_t blocks = (call->out.shape[0] + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;

    fb_native_loop(self, blocks * l.n_panels,
                   (double)fb_array_elements(&call->in[1]) +
                       (double)fb_array_elements(&call->out) *
                           (double)call->in[0].shape[1] / 16,
                   linear_items, &l);
    return FB_OK;
}

/* --- a product of two plain tensors: panels are made on the way */

struct bmm {
    const fb_native *native;
    const fb_call *call;
    int64_t m, n, k, n_panels;
};

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

fb_status fb_native_bmm(void *self, const fb_call *call)
{
    const fb_array *out = &call->out;
    struct bmm p = {.native = self, .call = call, .m = out->shape[1]};
    size_t floats;

    p.n = out->shape[2];
    p.k = call->in[0].shape[call->transpose_a ? 1 : 2];
    p.n_panels = n_panels(p.n);
    floats = (size_t)(p.k * FB_PANEL + (call->transpose_a ? p.m * p.k : 0));
    FB_TRY(fb_native_reserve(self, floats * sizeof(float) + 64));
    fb_native_loop(self, out->shape[0] * p.n_panels,
                   (double)fb_array_elements(out) * (double)p.k / 8, bmm_items, &p);
    return FB_OK;
}
