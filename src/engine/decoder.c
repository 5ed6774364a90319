/* decoder.c - the layer of a Llama-like decoder:
 *
 *     x += W_o attention(rotate(W_qkv norm(x)))
 *     x += W_down gate(W_gate_up norm(x))
 *
 * Families differ by what they have more of: a bias on q, k and v; a norm on the heads of
 * q and k; a norm behind attention and network; a window; another gate.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/decoder.h"

fb_place fb_enter(const fb_engine *engine, fb_phase phase, fb_scope scope)
{
    const fb_place before = fb_ops_place(engine->ops);

    fb_ops_move(engine->ops, (fb_place){phase, scope});
    return before;
}

void fb_use_layer(const fb_engine *engine, int64_t layer)
{
    const fb_layer_facts *about = &engine->facts->layer[layer];
    const int64_t layers =
        about->slides ? engine->sliding.layers : engine->shape.layers;

    fb_ops_use_part(engine->ops, fb_part_of_layer(engine->ops, about->index, layers));
}

static void show(const fb_engine *engine, const char *what, int64_t layer,
                 int64_t first_row, fb_tensor a)
{
    if (engine->options.watch != NULL && fb_ops_status(engine->ops) == FB_OK)
        engine->options.watch(engine->options.watch_self, engine->ops, what, layer,
                              first_row, a);
}

static fb_tensor attend(const fb_engine *engine, int64_t layer, fb_tensor qkv,
                        const fb_layer_hooks *hooks)
{
    const fb_place place = fb_ops_place(engine->ops);
    fb_tensor out;

    fb_ops_move(engine->ops, (fb_place){place.phase, FB_SCOPE_attention});
    out = hooks->attend(hooks->self, layer, qkv);
    fb_ops_move(engine->ops, place);
    return out;
}

/* What one token asks, offers and holds: q | k | v, rotated [R, (H + 2G)*d]. */
static fb_tensor project(const fb_engine *engine, int64_t layer, fb_tensor h,
                         const fb_angles *angles, int64_t first_row)
{
    const fb_layer *w = fb_model_layer(engine->model, layer);
    const fb_model_facts *facts = engine->facts;
    const int rope = facts->layer[layer].rope;
    fb_ops *ops = engine->ops;
    const fb_tensor qkv = fb_linear(ops, h, w->qkv);

    if (w->qkv_bias.id != 0) fb_add_(ops, qkv, w->qkv_bias);
    if (w->q_norm.id != 0) {
        fb_head_norm_(ops, qkv, 0, facts->heads, w->q_norm, facts->rms_eps);
        fb_head_norm_(ops, qkv, facts->heads, facts->kv_heads, w->k_norm,
                      facts->rms_eps);
    }
    show(engine, "qkv", layer, first_row, qkv);
    fb_rotary(ops, qkv, facts->heads + facts->kv_heads, facts->head_dim,
              angles->cosine[rope], angles->sine[rope]);
    show(engine, "qkv_rotated", layer, first_row, qkv);
    return qkv;
}

/* h, or its norm where the family has one behind a block. */
static fb_tensor with_post(const fb_engine *engine, fb_tensor h, fb_tensor post)
{
    return post.id == 0 ? h : fb_rms_norm(engine->ops, h, post, engine->facts->rms_eps);
}

/* Attention [R, H*d] as it is added to the residual stream: [R, width]. */
static fb_tensor attention_out(const fb_engine *engine, int64_t layer,
                               int64_t first_row, fb_tensor h)
{
    const fb_layer *w = fb_model_layer(engine->model, layer);

    h = fb_linear(engine->ops, h, w->output);
    show(engine, "attention_out", layer, first_row, h);
    return with_post(engine, h, w->attention_post);
}

/* Where the model has no use for the output, whoever looks pays for it. */
static void see_only(const fb_engine *engine, int64_t layer, int64_t first_row,
                     fb_tensor x, fb_tensor normed, fb_tensor h,
                     const fb_layer_hooks *hooks)
{
    const fb_place before =
        fb_enter(engine, fb_ops_place(engine->ops).phase, FB_SCOPE_signal);

    hooks->see(hooks->self, x, normed, attention_out(engine, layer, first_row, h));
    fb_ops_move(engine->ops, before);
}

void fb_layer_forward(const fb_engine *engine, int64_t layer, fb_tensor x,
                      const fb_angles *angles, int64_t first_row, bool only_attend,
                      const fb_layer_hooks *hooks)
{
    fb_ops *ops = engine->ops;
    const fb_layer *w = fb_model_layer(engine->model, layer);
    const fb_model_facts *facts = engine->facts;
    fb_tensor normed, h;

    normed = fb_rms_norm(ops, x, w->attention_norm, facts->rms_eps); /* [R, width] */
    show(engine, "attention_in", layer, first_row, normed);
    h = project(engine, layer, normed, angles, first_row);
    h = attend(engine, layer, h, hooks); /* [R, H*d] */
    if (only_attend) {
        if (hooks->see != NULL) see_only(engine, layer, first_row, x, normed, h, hooks);
        return;
    }
    h = attention_out(engine, layer, first_row, h); /* [R, width] */
    if (hooks->see != NULL) hooks->see(hooks->self, x, normed, h);
    fb_add_(ops, x, h);
    h = fb_rms_norm(ops, x, w->ffn_norm, facts->rms_eps);
    h = fb_linear(ops, h, w->gate_up);
    h = facts->family->gate == FB_GATE_GELU ? fb_geglu(ops, h)
                                            : fb_swiglu(ops, h); /* [R, ffn] */
    fb_add_(ops, x, with_post(engine, fb_linear(ops, h, w->down), w->ffn_post));
    show(engine, "layer_out", layer, first_row, x);
}

fb_status fb_angles_of(const fb_engine *engine, int64_t length, const int64_t *position,
                       const int64_t *in_windows, int64_t n, fb_angles *out)
{
    const int n_ropes = engine->facts->sliding_layers > 0 ? FB_N_ROPES : 1;
    fb_status status = FB_OK;

    *out = (fb_angles){.cosine = {FB_NONE}};
    for (int r = 0; status == FB_OK && r < n_ropes; r++)
        status = fb_model_rope(engine->model, engine->ops, r, length,
                               r == FB_ROPE_LOCAL ? in_windows : position, n,
                               &out->cosine[r], &out->sine[r]);
    return status;
}

fb_tensor fb_embed(const fb_engine *engine, const int32_t *ids, int64_t n)
{
    const fb_tensor x =
        fb_embedding(engine->ops, fb_model_embedding(engine->model), ids, n);
    const double scale = engine->facts->embedding_scale;

    return scale > 1 || scale < 1 ? fb_scale(engine->ops, x, scale) : x;
}

int64_t fb_window_of(const fb_engine *engine, int64_t layer, int64_t seen)
{
    const int64_t window = engine->facts->layer[layer].window;

    return window < seen ? window : 0;
}
