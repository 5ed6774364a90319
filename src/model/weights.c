/* weights.c - which tensors a model has, what files call them, and which weights they make.
 *
 * Names and shapes are exact: a tensor that is missing, has another shape or has no
 * place in its family (a bias, say) is refused by name, because the engine would compute
 * something else than the model's makers meant.
 *
 * q, k and v become one weight, gate and up another: one product instead of several.
 * How rows become a weight is in weights_rows.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/weights_inside.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 96 };

/* --- names ------------------------------------------------------------------------ */

enum role {
    EMBEDDING,
    NORM,
    HEAD,
    ATTENTION_NORM,
    Q,
    K,
    V,
    QKV,
    Q_BIAS,
    K_BIAS,
    V_BIAS,
    Q_NORM,
    K_NORM,
    OUTPUT,
    ATTENTION_POST,
    FFN_NORM,
    FFN_NORM_OF_FOUR, /* where attention has a norm behind it too */
    GATE,
    UP,
    GATE_UP,
    DOWN,
    FFN_POST,
    N_ROLES
};

/* "%" stands for the layer. */
static const char *const names[N_ROLES][FB_N_NAMINGS] = {
    [EMBEDDING] = {"token_embd.weight", "model.embed_tokens.weight"},
    [NORM] = {"output_norm.weight", "model.norm.weight"},
    [HEAD] = {"output.weight", "lm_head.weight"},
    [ATTENTION_NORM] = {"blk.%.attn_norm.weight",
                        "model.layers.%.input_layernorm.weight"},
    [Q] = {"blk.%.attn_q.weight", "model.layers.%.self_attn.q_proj.weight"},
    [K] = {"blk.%.attn_k.weight", "model.layers.%.self_attn.k_proj.weight"},
    [V] = {"blk.%.attn_v.weight", "model.layers.%.self_attn.v_proj.weight"},
    [QKV] = {"blk.%.attn_qkv.weight", "model.layers.%.self_attn.qkv_proj.weight"},
    [Q_BIAS] = {"blk.%.attn_q.bias", "model.layers.%.self_attn.q_proj.bias"},
    [K_BIAS] = {"blk.%.attn_k.bias", "model.layers.%.self_attn.k_proj.bias"},
    [V_BIAS] = {"blk.%.attn_v.bias", "model.layers.%.self_attn.v_proj.bias"},
    [Q_NORM] = {"blk.%.attn_q_norm.weight", "model.layers.%.self_attn.q_norm.weight"},
    [K_NORM] = {"blk.%.attn_k_norm.weight", "model.layers.%.self_attn.k_norm.weight"},
    [OUTPUT] = {"blk.%.attn_output.weight", "model.layers.%.self_attn.o_proj.weight"},
    [ATTENTION_POST] = {"blk.%.post_attention_norm.weight",
                        "model.layers.%.post_attention_layernorm.weight"},
    [FFN_NORM] = {"blk.%.ffn_norm.weight",
                  "model.layers.%.post_attention_layernorm.weight"},
    [FFN_NORM_OF_FOUR] = {"blk.%.ffn_norm.weight",
                          "model.layers.%.pre_feedforward_layernorm.weight"},
    [GATE] = {"blk.%.ffn_gate.weight", "model.layers.%.mlp.gate_proj.weight"},
    [UP] = {"blk.%.ffn_up.weight", "model.layers.%.mlp.up_proj.weight"},
    [GATE_UP] = {"blk.%.ffn_up.weight", "model.layers.%.mlp.gate_up_proj.weight"},
    [DOWN] = {"blk.%.ffn_down.weight", "model.layers.%.mlp.down_proj.weight"},
    [FFN_POST] = {"blk.%.post_ffw_norm.weight",
                  "model.layers.%.post_feedforward_layernorm.weight"},
};

/* Tensors that are read elsewhere, or that nobody needs. */
static const char *const others[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                     "rope_factors_long.weight"};
static const char unused_end[] = ".self_attn.rotary_emb.inv_freq"; /* a table of old */

/* --- finding tensors ------------------------------------------------------------ */

static void spell(const fb_weight_loader *l, enum role role, int64_t layer,
                  char name[NAME_BYTES])
{
    const char *pattern = names[role][l->naming];
    const char *mark = strchr(pattern, '%');

    if (mark == NULL)
        (void)snprintf(name, NAME_BYTES, "%s", pattern);
    else
        (void)snprintf(name, NAME_BYTES, "%.*s%" PRId64 "%s", (int)(mark - pattern),
                       pattern, layer, mark + 1);
}

static fb_status find(fb_weight_loader *l, const char *name, int64_t rows,
                      int64_t columns, const fb_stored **out)
{
    const fb_stored *t = fb_stored_find(l->tensors, name);

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
    l->is_used[t - l->tensors->tensors] = true;
    return FB_OK;
}

/* A tensor that no file has. */
static void imagine(const fb_weight_loader *l, fb_weight_part *p, int64_t rows,
                    int64_t columns)
{
    *p = (fb_weight_part){.tensor = {.rows = rows, .columns = columns}};
    p->tensor.n_bytes =
        fb_size_mul((size_t)rows, (size_t)columns * (size_t)l->bits / 8);
}

/* Adds a tensor of `rows` rows to a source. */
static fb_status add_part(fb_weight_loader *l, fb_weight_rows *s, enum role role,
                          int64_t layer, int64_t rows, int64_t paired)
{
    fb_weight_part *p = &s->parts[s->n_parts++];
    const fb_stored *tensor;
    char name[NAME_BYTES];

    s->rows += rows;
    if (l->tensors == NULL) {
        imagine(l, p, rows, s->columns);
        return FB_OK;
    }
    spell(l, role, layer, name);
    FB_TRY(find(l, name, rows, s->columns, &tensor));
    *p = (fb_weight_part){*tensor, paired, NULL};
    return FB_OK;
}

/* --- the weights of a model --------------------------------------------------- */

const char *fb_weight_form_name(fb_weight_form form)
{
    return form == FB_WEIGHTS_RESIDENT ? "resident" : "unpacked";
}

/* A weight of one tensor. */
static fb_status load_one(fb_weight_loader *l, enum role role, int64_t layer,
                          int64_t rows, int64_t columns, fb_tensor *out)
{
    fb_weight_rows s = {.columns = columns};

    FB_TRY(add_part(l, &s, role, layer, rows, 0));
    return fb_weight_make(l, &s, out);
}

/* A vector [n], what a norm multiplies by. */
static fb_status load_norm(fb_weight_loader *l, enum role role, int64_t layer,
                           int64_t n, fb_tensor *out)
{
    const bool adds_one = l->f->family->norms_add_one && l->naming == FB_NAMED_HF;
    fb_weight_rows s = {.columns = n};

    FB_TRY(add_part(l, &s, role, layer, 1, 0));
    return fb_weight_make_vector(l, &s, adds_one ? 1 : 0, out);
}

static fb_status load_qkv(fb_weight_loader *l, int64_t layer, fb_tensor *out)
{
    const fb_model_facts *f = l->f;
    const int64_t d = f->head_dim, q = f->heads * d, kv = f->kv_heads * d;
    const bool is_paired = f->family->pairs_rows && l->naming == FB_NAMED_GGUF;
    fb_weight_rows s = {.columns = f->width};

    if (f->family->fuses_qkv) {
        FB_TRY(add_part(l, &s, QKV, layer, q + 2 * kv, 0));
    } else {
        FB_TRY(add_part(l, &s, Q, layer, q, is_paired ? d : 0));
        FB_TRY(add_part(l, &s, K, layer, kv, is_paired ? d : 0));
        FB_TRY(add_part(l, &s, V, layer, kv, 0));
    }
    return fb_weight_make(l, &s, out);
}

/* [(H + 2G)*d] */
static fb_status load_qkv_bias(fb_weight_loader *l, int64_t layer, fb_tensor *out)
{
    static const enum role roles[] = {Q_BIAS, K_BIAS, V_BIAS};
    fb_weight_rows s = {0};

    if (!l->f->family->has_qkv_bias) return FB_OK;
    for (int p = 0; p < 3; p++) {
        s.columns = (p == 0 ? l->f->heads : l->f->kv_heads) * l->f->head_dim;
        FB_TRY(add_part(l, &s, roles[p], layer, 1, 0));
    }
    return fb_weight_make_vector(l, &s, 0, out);
}

static fb_status load_gate_up(fb_weight_loader *l, int64_t layer, fb_tensor *out)
{
    fb_weight_rows s = {.columns = l->f->width};

    if (l->f->family->fuses_gate_up) {
        FB_TRY(add_part(l, &s, GATE_UP, layer, 2 * l->f->ffn, 0));
    } else {
        FB_TRY(add_part(l, &s, GATE, layer, l->f->ffn, 0));
        FB_TRY(add_part(l, &s, UP, layer, l->f->ffn, 0));
    }
    return fb_weight_make(l, &s, out);
}

static fb_status load_attention(fb_weight_loader *l, int64_t i, fb_layer *out)
{
    const fb_model_facts *f = l->f;

    FB_TRY(load_norm(l, ATTENTION_NORM, i, f->width, &out->attention_norm));
    FB_TRY(load_qkv(l, i, &out->qkv));
    FB_TRY(load_qkv_bias(l, i, &out->qkv_bias));
    if (f->family->has_qk_norm) {
        FB_TRY(load_norm(l, Q_NORM, i, f->head_dim, &out->q_norm));
        FB_TRY(load_norm(l, K_NORM, i, f->head_dim, &out->k_norm));
    }
    if (f->family->has_post_norms)
        FB_TRY(load_norm(l, ATTENTION_POST, i, f->width, &out->attention_post));
    return load_one(l, OUTPUT, i, f->width, f->heads * f->head_dim, &out->output);
}

static fb_status load_layer(fb_weight_loader *l, int64_t i, fb_layer *out)
{
    const fb_model_facts *f = l->f;
    const bool has_four = f->family->has_post_norms;

    FB_TRY(load_attention(l, i, out));
    FB_TRY(load_norm(l, has_four ? FFN_NORM_OF_FOUR : FFN_NORM, i, f->width,
                     &out->ffn_norm));
    FB_TRY(load_gate_up(l, i, &out->gate_up));
    if (has_four) FB_TRY(load_norm(l, FFN_POST, i, f->width, &out->ffn_post));
    return load_one(l, DOWN, i, f->width, f->ffn, &out->down);
}

/* Without operators weights are only looked at. */
static void use_part_of(const fb_weight_loader *l, int64_t layer)
{
    if (l->ops != NULL)
        fb_ops_use_part(l->ops, fb_part_of_layer(l->ops, layer, l->f->layers));
}

static fb_status load_layers(fb_weight_loader *l, fb_layer *out)
{
    const int64_t layers = l->f->layers;
    fb_status status = FB_OK;

    for (int64_t i = 0; status == FB_OK && i < layers; i++) {
        use_part_of(l, i);
        status = load_layer(l, i, &out[i]);
    }
    use_part_of(l, 0);
    return status;
}

static bool is_for_others(const fb_stored *t)
{
    const size_t n_end = sizeof unused_end - 1;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (fb_span_is(t->name, others[i])) return true;
    return t->name.n > n_end &&
           memcmp(t->name.bytes + t->name.n - n_end, unused_end, n_end) == 0;
}

static fb_status refuse_unused(const fb_weight_loader *l)
{
    for (size_t i = 0; l->tensors != NULL && i < l->tensors->n; i++)
        if (!l->is_used[i] && !is_for_others(&l->tensors->tensors[i]))
            return fb_fail(FB_UNSUPPORTED,
                           "tensor '%s' has no place in a model of the family '%s', "
                           "and what it would change is not understood",
                           fb_span_show(l->tensors->tensors[i].name).text,
                           l->f->family->name);
    return FB_OK;
}

/* The head is the embedding where the file says so, or has no other. */
static fb_status load_head(fb_weight_loader *l, fb_weights *out)
{
    const fb_stored *t = NULL;

    out->head = out->embedding;
    if (l->tensors != NULL) t = fb_stored_find(l->tensors, names[HEAD][l->naming]);
    if (l->like != NULL ? !l->like->has_head
                        : t == NULL && (l->tensors != NULL || l->f->head_is_tied))
        return FB_OK;
    if (t != NULL && l->f->head_is_tied) {
        l->is_used[t - l->tensors->tensors] = true;
        return FB_OK;
    }
    out->has_head = true;
    return load_one(l, HEAD, 0, l->f->vocabulary, l->f->width, &out->head);
}

static fb_status load_all(fb_weight_loader *l, fb_weights *out)
{
    const fb_model_facts *f = l->f;

    use_part_of(l, 0);
    FB_TRY(load_one(l, EMBEDDING, 0, f->vocabulary, f->width, &out->embedding));
    FB_TRY(load_norm(l, NORM, 0, f->width, &out->norm));
    FB_TRY(load_head(l, out));
    FB_TRY(load_layers(l, out->layers));
    return refuse_unused(l);
}

/* Embedding, head, and four weights of every layer. */
static fb_status load(fb_weight_loader *l, fb_weights *out)
{
    const size_t layers = (size_t)l->f->layers,
                 n = l->tensors == NULL ? 0 : l->tensors->n;
    fb_status status;

    *out = (fb_weights){.n_layers = l->f->layers};
    l->out = out;
    out->layers = fb_zalloc(FB_ACCOUNT_other, layers * sizeof *out->layers);
    out->notes = fb_alloc(FB_ACCOUNT_other, (4 * layers + 2) * sizeof *out->notes);
    l->is_used = fb_zalloc(FB_ACCOUNT_other, n * sizeof *l->is_used);
    if (out->layers == NULL || out->notes == NULL || l->is_used == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for the list of layers");
    else
        status = load_all(l, out);
    out->bytes = l->bytes;
    out->staying = l->staying;
    fb_free(l->is_used);
    return status;
}

fb_status fb_weights_load(fb_weights *out, fb_ops *ops, const fb_stored_list *tensors,
                          fb_naming naming, const fb_model_facts *f,
                          fb_weight_form form)
{
    fb_weight_loader l = {
        .tensors = tensors, .naming = naming, .f = f, .ops = ops, .form = form};

    return load(&l, out);
}

fb_status fb_weights_hollow(fb_weights *out, fb_ops *ops, const fb_weights *like,
                            int bits, const fb_model_facts *f, fb_weight_form form)
{
    fb_weight_loader l = {.like = like, .bits = bits, .f = f, .ops = ops, .form = form};

    return load(&l, out);
}

static void release_layer(const fb_layer *layer, fb_ops *ops)
{
    const fb_tensor all[] = {layer->attention_norm, layer->qkv,      layer->qkv_bias,
                             layer->q_norm,         layer->k_norm,   layer->output,
                             layer->attention_post, layer->ffn_norm, layer->gate_up,
                             layer->down,           layer->ffn_post};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        fb_release(ops, all[i]);
}

void fb_weights_unload(fb_weights *w, fb_ops *ops)
{
    for (int64_t i = 0; ops != NULL && w->layers != NULL && i < w->n_layers; i++)
        release_layer(&w->layers[i], ops);
    if (ops != NULL) {
        if (w->head.id != w->embedding.id) fb_release(ops, w->head);
        fb_release(ops, w->embedding);
        fb_release(ops, w->norm);
    }
    fb_weight_rows_free(w->staying);
    fb_memory_drop(FB_ACCOUNT_weights, w->booked);
    fb_free(w->notes);
    fb_free(w->layers);
    *w = (fb_weights){0};
}
