/* decoder.c - the layer of a Llama-like decoder:
 *
 *     x += W_o attention(rotate(W_qkv norm(x)))
 *     x += W_down swiglu(W_gate_up norm(x))
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

static void show(const fb_engine *engine, const char *what, int64_t layer,
                 int64_t first_row, fb_tensor a)
{
    if (engine->options.watch != NULL && fb_ops_status(engine->ops) == FB_OK)
        engine->options.watch(engine->options.watch_self, engine->ops, what, layer,
                              first_row, a);
}

static fb_tensor attend(const fb_engine *engine, int64_t layer, fb_tensor qkv,
                        fb_attend_rows *attend_rows, void *self)
{
    const fb_place place = fb_ops_place(engine->ops);
    fb_tensor out;

    fb_ops_move(engine->ops, (fb_place){place.phase, FB_SCOPE_attention});
    out = attend_rows(self, layer, qkv);
    fb_ops_move(engine->ops, place);
    return out;
}

void fb_layer_forward(const fb_engine *engine, int64_t layer, fb_tensor x,
                      const fb_angles *angles, int64_t first_row, bool only_attend,
                      fb_attend_rows *attend_rows, void *self)
{
    fb_ops *ops = engine->ops;
    const fb_layer *w = fb_model_layer(engine->model, layer);
    const fb_model_facts *facts = engine->facts;
    fb_tensor h, qkv;

    h = fb_rms_norm(ops, x, w->attention_norm, facts->rms_eps); /* [R, width] */
    show(engine, "attention_in", layer, first_row, h);
    qkv = fb_linear(ops, h, w->qkv); /* [R, (H + 2G)*d] */
    show(engine, "qkv", layer, first_row, qkv);
    fb_rotary(ops, qkv, facts->heads + facts->kv_heads, facts->head_dim, angles->cosine,
              angles->sine);
    show(engine, "qkv_rotated", layer, first_row, qkv);
    h = attend(engine, layer, qkv, attend_rows, self); /* [R, H*d] */
    if (only_attend) return;
    h = fb_linear(ops, h, w->output); /* [R, width] */
    show(engine, "attention_out", layer, first_row, h);
    fb_add_(ops, x, h);
    h = fb_rms_norm(ops, x, w->ffn_norm, facts->rms_eps);
    h = fb_swiglu(ops, fb_linear(ops, h, w->gate_up)); /* [R, ffn] */
    fb_add_(ops, x, fb_linear(ops, h, w->down));
    show(engine, "layer_out", layer, first_row, x);
}

fb_status fb_angles_of(const fb_engine *engine, const int64_t *position, int64_t n,
                       fb_angles *out)
{
    return fb_model_rope(engine->model, engine->ops, position, n, &out->cosine,
                         &out->sine);
}
