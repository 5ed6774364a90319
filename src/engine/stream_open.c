/* stream_open.c - streams begin, go on in a copy, and end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"

#include "base/number.h"

#include <string.h>

static int64_t n_slots(const fb_stream *s)
{
    return s->view.engine->shape.layers * s->view.engine->shape.kv_heads;
}

static fb_tensor *new_tensors(int64_t n)
{
    return fb_zalloc(FB_ACCOUNT_other, (size_t)n * sizeof(fb_tensor));
}

static fb_status open_lists(fb_stream *s)
{
    const fb_cache_shape *shape = &s->view.engine->shape;
    const int64_t slots = n_slots(s);
    bool has_all;

    s->queries = new_tensors(shape->layers);
    s->state = new_tensors(shape->layers);
    s->learnt = new_tensors(shape->layers);
    s->scores = new_tensors(shape->layers);
    s->kept_scores = new_tensors(shape->layers);
    s->sum = new_tensors(shape->layers);
    s->rows = new_tensors(shape->layers);
    s->segments =
        fb_alloc(FB_ACCOUNT_scratch, (size_t)shape->kv_heads * sizeof *s->segments);
    s->position = fb_zalloc(FB_ACCOUNT_other, (size_t)slots * sizeof *s->position);
    has_all = s->queries != NULL && s->state != NULL && s->learnt != NULL &&
              s->scores != NULL && s->kept_scores != NULL && s->sum != NULL &&
              s->rows != NULL && s->segments != NULL && s->position != NULL;
    for (int64_t i = 0; has_all && i < slots; i++) {
        s->position[i] = fb_alloc(FB_ACCOUNT_other, (size_t)s->k * sizeof(int32_t));
        has_all = s->position[i] != NULL;
    }
    s->view.position = s->position;
    return has_all ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for a stream");
}

/* The settings of `like`; nothing is shared with it. */
static fb_status open_like(fb_stream **out, const fb_stream *like)
{
    fb_stream *s = fb_alloc(FB_ACCOUNT_other, sizeof *s);

    *out = s;
    if (s == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a stream");
    *s = *like;
    s->view.length = s->view.engine->options.compact ? s->k : s->length;
    s->cache = s->sliding = NULL;
    s->view.cache = NULL;
    s->queries = s->state = s->learnt = s->scores = s->sum = s->rows = NULL;
    s->kept_scores = NULL;
    s->segments = NULL;
    s->position = NULL;
    s->keeps = FB_ACCOUNT_rule_state;
    return open_lists(s);
}

static fb_status open_caches(fb_stream *s)
{
    const fb_engine *engine = s->view.engine;

    FB_TRY(fb_cache_new(&s->cache, engine->ops, &engine->shape, s->k));
    s->view.cache = s->cache;
    if (engine->sliding.layers == 0) return FB_OK;
    return fb_cache_new(&s->sliding, engine->ops, &engine->sliding,
                        engine->facts->window + fb_larger(s->chunk, s->interval));
}

static fb_status finish(fb_stream **s, fb_status status)
{
    if (status == FB_OK) return FB_OK;
    fb_stream_free(*s);
    *s = NULL;
    return status;
}

fb_status fb_stream_open(fb_stream **out, const fb_stream *like)
{
    fb_status status = open_like(out, like);

    if (status == FB_OK) status = open_caches(*out);
    return finish(out, status);
}

/* --- a copy --- */

static fb_status copy_tensors(fb_stream *s, fb_tensor *to, const fb_tensor *from)
{
    fb_ops *ops = s->view.engine->ops;

    for (int64_t l = 0; l < s->view.engine->shape.layers; l++)
        if (from[l].id != 0) to[l] = fb_persist(ops, s->keeps, from[l]);
    return fb_ops_status(ops);
}

static fb_status copy_all(fb_stream *s, const fb_stream *from)
{
    fb_ops *ops = s->view.engine->ops;

    s->keeps = FB_ACCOUNT_other;
    FB_TRY(fb_cache_copy(&s->cache, ops, from->cache));
    s->view.cache = s->cache;
    if (from->sliding != NULL) FB_TRY(fb_cache_copy(&s->sliding, ops, from->sliding));
    for (int64_t i = 0; i < n_slots(s); i++)
        memcpy(s->position[i], from->position[i],
               (size_t)from->view.m * sizeof(int32_t));
    FB_TRY(copy_tensors(s, s->queries, from->queries));
    FB_TRY(copy_tensors(s, s->learnt, from->learnt));
    FB_TRY(copy_tensors(s, s->kept_scores, from->kept_scores));
    return copy_tensors(s, s->state, from->state);
}

fb_status fb_stream_fork(fb_stream **out, const fb_stream *from)
{
    fb_status status = open_like(out, from);

    if (status == FB_OK) status = copy_all(*out, from);
    return finish(out, status);
}

/* --- the end --- */

void fb_stream_free(fb_stream *s)
{
    if (s == NULL) return;
    for (int i = 0; i < 7; i++) {
        fb_tensor *list =
            (fb_tensor *[]){s->queries, s->state, s->learnt,     s->scores,
                            s->sum,     s->rows,  s->kept_scores}[i];

        for (int64_t l = 0; list != NULL && l < s->view.engine->shape.layers; l++)
            fb_release(s->view.engine->ops, list[l]);
        fb_free(list);
    }
    for (int64_t i = 0; s->position != NULL && i < n_slots(s); i++)
        fb_free(s->position[i]);
    fb_free(s->position);
    fb_free(s->segments);
    fb_cache_free(s->cache);
    fb_cache_free(s->sliding);
    fb_free(s);
}

fb_status fb_stream_held(const fb_stream *s, fb_selection *out)
{
    const size_t bytes = (size_t)s->view.m * sizeof(int32_t);

    *out = (fb_selection){.k = s->k,
                          .budget_entries = n_slots(s) * s->k,
                          .n_protected = s->n_protected,
                          .free_choices = s->free_choices,
                          .fallback = s->fallback,
                          .shrunk = s->shrunk};
    FB_TRY(fb_kept_new(&out->kept, n_slots(s)));
    for (int64_t i = 0; i < n_slots(s); i++) {
        out->kept.position[i] = fb_alloc(FB_ACCOUNT_other, bytes);
        if (out->kept.position[i] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
        memcpy(out->kept.position[i], s->position[i], bytes);
        out->kept.count[i] = s->view.m;
    }
    return FB_OK;
}
