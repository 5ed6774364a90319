/* llama.c - the tensors of a Llama file become weights.
 *
 * Names and shapes are exact: a tensor that is missing, has another shape or has no
 * place in the plain architecture (a bias, say) is refused by name, because the engine
 * would compute something else than the model's makers meant.
 *
 * q, k and v become one weight, gate and up another: one product instead of several.
 *
 * Rotary order. GGUF's Llama stores the rows of a head of q and k so that the two
 * members of rotary pair i are rows 2i and 2i + 1; here they are rows i and i + d/2.
 * Row s*d/2 + i of a head is therefore row 2i + s of the file's head.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/llama.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PARTS = 3, NAME_BYTES = 64 };

/* One tensor among those that are laid under each other to make a weight. */
typedef struct part {
    const fb_gguf_tensor *tensor;
    int64_t head_dim; /* rows in rotary order by heads of this size; 0: as they are */
} part;

typedef struct source {
    part parts[MOST_PARTS];
    int n_parts;
    int64_t rows, columns;
    _Atomic int64_t bad_row; /* 1 + a row with a number that is not finite; 0: none */
} source;

typedef struct loader {
    const fb_gguf *g;
    const fb_model_facts *f;
    fb_ops *ops;   /* NULL: only look whether all is there */
    bool *is_used; /* [tensors of the file] */
    size_t bytes;  /* of weights so far, loaded or not */
} loader;

/* --- reading rows --------------------------------------------------------------- */

static int64_t row_in_file(int64_t row, int64_t d)
{
    const int64_t head = row / d, in_head = row % d;

    return head * d + 2 * (in_head % (d / 2)) + in_head / (d / 2);
}

static bool is_finite_row(const float *row, int64_t n)
{
    bool is_finite = true;

    for (int64_t j = 0; j < n; j++) {
        uint32_t bits;

        memcpy(&bits, &row[j], sizeof bits);
        is_finite &= (bits & 0x7f800000u) != 0x7f800000u;
    }
    return is_finite;
}

/* fb_unpack: rows [begin, end) of a source. Several threads at once. */
static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    source *s = context;

    for (int64_t r = begin; r < end; r++, out += s->columns) {
        const part *p = s->parts;
        const fb_blocks *format;
        int64_t row = r, n_blocks;

        while (row >= p->tensor->rows)
            row -= p++->tensor->rows;
        if (p->head_dim > 0) row = row_in_file(row, p->head_dim);
        format = p->tensor->format;
        n_blocks = s->columns / format->per_block;
        format->unpack(p->tensor->data + (size_t)(row * n_blocks) * format->bytes,
                       n_blocks, out);
        if (!is_finite_row(out, s->columns)) atomic_store(&s->bad_row, r + 1);
    }
    return FB_OK;
}

static fb_status check_finite(const source *s)
{
    int64_t row = atomic_load(&s->bad_row) - 1;
    const part *p = s->parts;

    if (row < 0) return FB_OK;
    while (row >= p->tensor->rows)
        row -= p++->tensor->rows;
    return fb_fail(FB_FORMAT,
                   "tensor '%s' holds a number that is not finite (in row %" PRId64
                   " of %" PRId64 ")",
                   fb_span_show(p->tensor->name).text, row, p->tensor->rows);
}

/* --- finding tensors ------------------------------------------------------------ */

static fb_status find(loader *l, const char *name, int64_t rows, int64_t columns,
                      const fb_gguf_tensor **out)
{
    const fb_gguf_tensor *t = fb_gguf_find_tensor(l->g, name);

    *out = t;
    if (t == NULL) return fb_fail(FB_FORMAT, "the tensor '%s' is missing", name);
    if (t->rows != rows || t->columns != columns)
        return fb_fail(FB_FORMAT,
                       "tensor '%s' is [%" PRId64 ", %" PRId64 "]; [%" PRId64
                       ", %" PRId64 "] would be right",
                       name, t->rows, t->columns, rows, columns);
    if (t->format->unpack == NULL)
        return fb_fail(FB_UNSUPPORTED,
                       "tensor '%s' is in %s, which is not understood; F32, F16, BF16, "
                       "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are",
                       name, t->format->name);
    l->is_used[t - fb_gguf_tensor_at(l->g, 0)] = true;
    return FB_OK;
}

/* Adds the tensor `name` to a source; `layer` < 0: `name` is its whole name. */
static fb_status add_part(loader *l, source *s, int64_t layer, const char *name,
                          int64_t rows, int64_t head_dim)
{
    part *p = &s->parts[s->n_parts++];
    char full[NAME_BYTES];

    if (layer < 0)
        (void)snprintf(full, sizeof full, "%s", name);
    else
        (void)snprintf(full, sizeof full, "blk.%" PRId64 ".%s.weight", layer, name);
    FB_TRY(find(l, full, rows, s->columns, &p->tensor));
    p->head_dim = head_dim;
    s->rows += rows;
    return FB_OK;
}

/* --- making weights ------------------------------------------------------------- */

static fb_status make_weight(loader *l, source *s, fb_tensor *out)
{
    l->bytes += fb_weight_size(s->rows, s->columns);
    if (l->ops == NULL) return FB_OK;
    *out = fb_weight(l->ops, s->rows, s->columns, unpack, s);
    FB_TRY(fb_ops_status(l->ops));
    return check_finite(s);
}

/* A weight of one tensor. */
static fb_status load_one(loader *l, int64_t layer, const char *name, int64_t rows,
                          int64_t columns, fb_tensor *out)
{
    source s = {.columns = columns};

    FB_TRY(add_part(l, &s, layer, name, rows, 0));
    return make_weight(l, &s, out);
}

/* A vector [width]. */
static fb_status load_norm(loader *l, int64_t layer, const char *name, fb_tensor *out)
{
    source s = {.columns = l->f->width};
    float *host;
    fb_status status;

    FB_TRY(add_part(l, &s, layer, name, 1, 0));
    l->bytes += (size_t)s.columns * sizeof *host;
    if (l->ops == NULL) return FB_OK;
    host = fb_alloc(FB_ACCOUNT_scratch, (size_t)s.columns * sizeof *host);
    if (host == NULL) return fb_fail(FB_NO_MEMORY, "no memory to read '%s'", name);
    status = unpack(&s, 0, 1, host);
    if (status == FB_OK) status = check_finite(&s);
    if (status == FB_OK) {
        fb_scope_open(l->ops);
        *out = fb_persist(l->ops, FB_ACCOUNT_weights,
                          fb_from_host(l->ops, FB_F32, 1, &s.columns, host));
        fb_scope_close(l->ops);
        status = fb_ops_status(l->ops);
    }
    fb_free(host);
    return status;
}

static fb_status load_qkv(loader *l, int64_t layer, fb_tensor *out)
{
    const fb_model_facts *f = l->f;
    const int64_t d = f->head_dim;
    source s = {.columns = f->width};

    FB_TRY(add_part(l, &s, layer, "attn_q", f->heads * d, d));
    FB_TRY(add_part(l, &s, layer, "attn_k", f->kv_heads * d, d));
    FB_TRY(add_part(l, &s, layer, "attn_v", f->kv_heads * d, 0));
    return make_weight(l, &s, out);
}

static fb_status load_gate_up(loader *l, int64_t layer, fb_tensor *out)
{
    source s = {.columns = l->f->width};

    FB_TRY(add_part(l, &s, layer, "ffn_gate", l->f->ffn, 0));
    FB_TRY(add_part(l, &s, layer, "ffn_up", l->f->ffn, 0));
    return make_weight(l, &s, out);
}

static fb_status load_layer(loader *l, int64_t i, fb_layer *out)
{
    const fb_model_facts *f = l->f;

    FB_TRY(load_norm(l, i, "attn_norm", &out->attention_norm));
    FB_TRY(load_qkv(l, i, &out->qkv));
    FB_TRY(
        load_one(l, i, "attn_output", f->width, f->heads * f->head_dim, &out->output));
    FB_TRY(load_norm(l, i, "ffn_norm", &out->ffn_norm));
    FB_TRY(load_gate_up(l, i, &out->gate_up));
    return load_one(l, i, "ffn_down", f->width, f->ffn, &out->down);
}

static fb_status refuse_unused(const loader *l)
{
    for (int64_t i = 0; i < fb_gguf_n_tensors(l->g); i++)
        if (!l->is_used[i])
            return fb_fail(FB_UNSUPPORTED,
                           "tensor '%s' has no place in a plain Llama model, and what "
                           "it would change is not understood",
                           fb_span_show(fb_gguf_tensor_at(l->g, i)->name).text);
    return FB_OK;
}

static fb_status load_all(loader *l, fb_llama *out)
{
    static const char head[] = "output.weight";
    const fb_model_facts *f = l->f;

    FB_TRY(
        load_one(l, -1, "token_embd.weight", f->vocabulary, f->width, &out->embedding));
    FB_TRY(load_norm(l, -1, "output_norm.weight", &out->norm));
    out->head = out->embedding;
    if (fb_gguf_find_tensor(l->g, head) != NULL)
        FB_TRY(load_one(l, -1, head, f->vocabulary, f->width, &out->head));
    for (int64_t i = 0; i < f->layers; i++)
        FB_TRY(load_layer(l, i, &out->layers[i]));
    return refuse_unused(l);
}

fb_status fb_llama_load(fb_llama *out, fb_ops *ops, const fb_gguf *g,
                        const fb_model_facts *f)
{
    const size_t n_tensors = (size_t)fb_gguf_n_tensors(g);
    loader l = {.g = g, .f = f, .ops = ops};
    fb_status status;

    *out = (fb_llama){.n_layers = f->layers};
    out->layers = fb_zalloc(FB_ACCOUNT_other, (size_t)f->layers * sizeof *out->layers);
    l.is_used = fb_zalloc(FB_ACCOUNT_other, n_tensors * sizeof *l.is_used);
    if (out->layers == NULL || l.is_used == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for the list of layers");
    else
        status = load_all(&l, out);
    out->bytes = l.bytes;
    fb_free(l.is_used);
    return status;
}

static void release_layer(const fb_layer *layer, fb_ops *ops)
{
    fb_release(ops, layer->attention_norm);
    fb_release(ops, layer->qkv);
    fb_release(ops, layer->output);
    fb_release(ops, layer->ffn_norm);
    fb_release(ops, layer->gate_up);
    fb_release(ops, layer->down);
}

void fb_llama_unload(fb_llama *llama, fb_ops *ops)
{
    for (int64_t i = 0; ops != NULL && llama->layers != NULL && i < llama->n_layers;
         i++)
        release_layer(&llama->layers[i], ops);
    if (ops != NULL) {
        if (llama->head.id != llama->embedding.id) fb_release(ops, llama->head);
        fb_release(ops, llama->embedding);
        fb_release(ops, llama->norm);
    }
    fb_free(llama->layers);
    *llama = (fb_llama){0};
}
