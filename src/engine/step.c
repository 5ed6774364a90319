/* step.c - what one token of an answer costs, the same for every cell.
 *
 * All of a step but its attention is the same whatever was kept: it is counted once for a
 * context, by the operators themselves, on one token behind it. Attention depends on the
 * numbers of entries alone and is counted from these.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "engine/batch.h"
#include "engine/stream.h"

/* --- all but attention --- */

static fb_status run_token(fb_reading *reading, const fb_variant *full, fb_tail *tail)
{
    const int64_t zero = 0;
    const int32_t any = 0;
    const fb_talk talk = {.reading = reading};
    fb_ops *ops = reading->engine->ops;
    fb_batch_room room;
    fb_batch batch = {.reading = reading,
                      .variants = &full,
                      .n = 1,
                      .t = 1,
                      .tail = tail,
                      .sequence = &zero,
                      .at = &zero,
                      .ids = &any,
                      .room = &room};
    fb_status status = fb_batch_room_new(&room, reading->engine, 1, 1);
    int32_t next;
    fb_tensor x;

    fb_scope_open(ops);
    if (status == FB_OK) status = fb_batch_run(&batch, &x);
    if (status == FB_OK)
        status = fb_talk_choose(&talk, fb_batch_hidden(&batch, x, 0, 1), 1, &next);
    fb_scope_close(ops);
    fb_batch_room_free(&room);
    return status;
}

static fb_status count_token(fb_reading *reading)
{
    const fb_engine *engine = reading->engine;
    const fb_place before = fb_enter(engine, FB_PHASE_decode, FB_SCOPE_model);
    fb_variant *full = NULL;
    fb_tail *tail = NULL;
    fb_status status = fb_keep_all(&full, reading);

    reading->payer = &reading->step;
    fb_ops_charge(engine->ops, &reading->payer, 1);
    if (status == FB_OK) status = fb_tail_new(&tail, engine->ops, &engine->all, 1, 1);
    if (status == FB_OK) status = run_token(reading, full, tail);
    fb_ops_charge(engine->ops, NULL, 0);
    fb_ops_move(engine->ops, before);
    fb_tail_free(tail);
    fb_variant_free(full);
    reading->has_step = status == FB_OK;
    return status;
}

fb_status fb_step_count(fb_reading *reading)
{
    return reading->has_step ? FB_OK : count_token(reading);
}

/* --- attention --- */

/* Entries of kv head g that the token sees. */
static int64_t seen(const fb_variant *variant, const fb_layer_facts *about, int64_t g,
                    int64_t n_prompt, const fb_answer *answer)
{
    const bool goes_on = variant->stream != NULL && answer->held.kept.n_slots > 0;
    fb_part part;

    if (about->slides)
        return fb_smaller(fb_variant_window(variant, about->index, g).n + n_prompt + 1,
                          about->window);
    if (goes_on) {
        const fb_stream *s = variant->stream;
        const int64_t kv_heads = variant->reading->engine->shape.kv_heads;
        const int64_t held = answer->held.kept.count[about->index * kv_heads + g];

        return fb_smaller(held, s->k - s->interval) + 1; /* room was made first */
    }
    part = fb_variant_part(variant, about->index, g);
    return (part.hidden != NULL ? part.n_open : part.n) + n_prompt + 1;
}

/* Numbers that are packed are read packed. */
static double packed_less(const fb_variant *variant)
{
    if (variant->packed_bytes == 0) return 0;
    return (double)fb_cache_bytes(variant->arena) - (double)variant->packed_bytes;
}

fb_status fb_step_work(fb_reading *reading, const fb_variant *variant, int64_t n_prompt,
                       const fb_answer *answer, double *flops_out, double *bytes_out)
{
    const fb_engine *engine = reading->engine;
    const fb_model_facts *facts = engine->facts;
    const int64_t group = facts->heads / facts->kv_heads;
    const double queries =
        2.0 * (double)(facts->heads * facts->head_dim) * sizeof(float);
    fb_count *attention =
        &reading->step.count[FB_PHASE_decode][FB_SCOPE_attention][FB_OP_attention];
    fb_count model, moved;
    double entries = 0;

    FB_TRY(fb_step_count(reading));
    *attention = (fb_count){0};
    model = fb_ledger_total(&reading->step, FB_PHASE_decode, FB_SCOPE_model);
    moved = fb_ledger_total(&reading->step, FB_PHASE_decode, FB_SCOPE_attention);
    for (int64_t l = 0; l < facts->layers; l++)
        for (int64_t g = 0; g < facts->kv_heads; g++)
            entries += (double)seen(variant, &facts->layer[l], g, n_prompt, answer);
    *flops_out = model.flops + moved.flops +
                 entries * (double)group * fb_attention_flops(facts->head_dim);
    *bytes_out = model.bytes + moved.bytes + (double)facts->layers * queries +
                 entries * (double)fb_entry_bytes(&engine->all) - packed_less(variant);
    return FB_OK;
}
