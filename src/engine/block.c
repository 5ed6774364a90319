/* block.c - a rule chooses as if the text came in block by block.
 *
 * After each block it is shown what is left and the block, out of the cache of the whole
 * text, and evicts to the budget; so scores are those that a cache under the budget gives,
 * with entries that have seen everything.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"

#include "base/check.h"
#include "base/number.h"

/* A choice at work. */
struct blocks {
    fb_view view;
    fb_selector in;
    const fb_reading *reading;
    fb_tensor *scores; /* [layers] of a step; persistent */
    fb_selection
        *out; /* kept: positions of what the rule is shown, then of what stays */
};

/* Room for the positions of k entries and a block. */
static fb_status open_blocks(struct blocks *b, int64_t most)
{
    const fb_cache_shape *shape = &b->reading->engine->shape;
    fb_kept *kept = &b->out->kept;

    FB_TRY(fb_kept_new(kept, shape->layers * shape->kv_heads));
    b->scores = fb_zalloc(FB_ACCOUNT_other, (size_t)shape->layers * sizeof *b->scores);
    if (b->scores == NULL) return fb_fail(FB_NO_MEMORY, "no memory for scores");
    for (int64_t slot = 0; slot < kept->n_slots; slot++) {
        kept->position[slot] =
            fb_alloc(FB_ACCOUNT_other, (size_t)most * sizeof(int32_t));
        if (kept->position[slot] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
    }
    return FB_OK;
}

static void close_blocks(struct blocks *b)
{
    const fb_engine *engine = b->reading->engine;

    for (int64_t l = 0; b->scores != NULL && l < engine->shape.layers; l++)
        fb_release(engine->ops, b->scores[l]);
    fb_free(b->scores);
}

/* Tokens [first, first + n) join what the rule is shown. */
static void show_more(struct blocks *b, int64_t first, int64_t n)
{
    fb_kept *kept = &b->out->kept;

    for (int64_t slot = 0; slot < kept->n_slots; slot++)
        for (int64_t i = 0; i < n; i++)
            kept->position[slot][kept->count[slot]++] = (int32_t)(first + i);
    b->view.n = first + n;
    b->view.m = kept->count[0];
}

static fb_status score(struct blocks *b)
{
    const fb_engine *engine = b->reading->engine;
    const struct fb_rotary rotary = fb_view_rotary(&b->view);
    fb_ops *ops = engine->ops;

    if (fb_select_falls_back(b->view.rule, b->view.m)) return FB_OK;
    for (int64_t l = 0; l < engine->shape.layers; l++) {
        fb_signals signals;

        fb_scope_open(ops);
        signals = fb_view_layer(&b->view, l, &rotary);
        fb_release(ops, b->scores[l]);
        b->scores[l] = fb_persist(ops, FB_ACCOUNT_signals,
                                  fb_bound_rule_score(b->view.rule, ops, &signals));
        fb_scope_close(ops);
    }
    return fb_ops_status(ops);
}

/* Of what was shown the places `chosen` stay. */
static void keep(struct blocks *b, const fb_selection *chosen)
{
    fb_selection *out = b->out;

    for (int64_t slot = 0; slot < out->kept.n_slots; slot++) {
        out->kept.count[slot] = chosen->kept.count[slot];
        for (int64_t i = 0; i < out->kept.count[slot]; i++)
            out->kept.position[slot][i] =
                out->kept.position[slot][chosen->kept.position[slot][i]];
    }
    out->n_protected = chosen->n_protected;
    out->free_choices = chosen->free_choices;
    out->fallback |= chosen->fallback;
    out->shrunk |= chosen->shrunk;
}

static fb_status evict(struct blocks *b)
{
    const fb_engine *engine = b->reading->engine;
    fb_cache *shown = NULL;
    fb_selection chosen;
    fb_status status;

    FB_TRY(fb_cache_evict(&shown, engine->ops, b->reading->cache, &b->out->kept,
                          fb_kept_total(&b->out->kept)));
    b->view.cache = shown;
    b->view.position = b->in.position = b->out->kept.position;
    b->in.n = b->view.m;
    (void)fb_enter(engine, FB_PHASE_evict, FB_SCOPE_score);
    status = score(b);
    (void)fb_enter(engine, FB_PHASE_evict, FB_SCOPE_select);
    fb_cache_free(shown);
    FB_TRY(status);
    FB_TRY(fb_select(&chosen, engine->ops, &b->in, b->out->k));
    keep(b, &chosen);
    fb_selection_clear(&chosen);
    return FB_OK;
}

static fb_status run(struct blocks *b, int64_t size, int64_t protect_last)
{
    const int64_t n = b->reading->n;
    fb_status status = FB_OK;

    show_more(b, 0, b->out->k);
    for (int64_t read = b->out->k; status == FB_OK && read < n; read += size) {
        show_more(b, read, fb_smaller(size, n - read));
        b->in.protect_last = read + size >= n ? protect_last : 0;
        status = evict(b);
    }
    return status;
}

fb_status fb_choose_by_blocks(fb_selection *out, fb_reading *reading,
                              const fb_scored_rule *rule, const fb_selector *in,
                              int64_t k)
{
    const int64_t size = fb_bound_rule_choices(rule->rule)->block;
    struct blocks b = {.view = {.engine = reading->engine,
                                .rule = rule->rule,
                                .seed = rule->seed,
                                .stream = reading->stream,
                                .length = reading->n},
                       .in = *in,
                       .reading = reading,
                       .out = out};
    fb_status status;

    FB_ASSERT(size > 0 && k < reading->n);
    *out = (fb_selection){.k = k, .budget_entries = in->layers * in->kv_heads * k};
    status = open_blocks(&b, fb_smaller(k + size, reading->n));
    b.in.scores = b.scores;
    b.in.measured = NULL;
    if (status == FB_OK) status = run(&b, size, in->protect_last);
    close_blocks(&b);
    if (status != FB_OK) fb_selection_clear(out);
    return status;
}
