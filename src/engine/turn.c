/* turn.c - entries and queries that move to other positions.
 *
 * What is cached was rotated for the position that it had; a further turn by the difference
 * is the rotation of the new one (Su et al. 2021, arXiv:2104.09864).
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/decoder.h"

static fb_status tables(const fb_engine *engine, int64_t length, const int64_t *by,
                        int64_t n, fb_tensor *cosine, fb_tensor *sine)
{
    fb_rope rope = engine->facts->rope[FB_ROPE_GLOBAL];

    rope.size = 1; /* what is turned has grown by it already */
    return fb_rope_tables(engine->ops, &rope, engine->facts->rotary_dim / 2, length, by,
                          n, cosine, sine);
}

fb_status fb_turn_keys(const fb_engine *engine, fb_cache *cache, int64_t slot,
                       int64_t length, const int64_t *by, int64_t m)
{
    fb_tensor cosine, sine;
    fb_status status;

    fb_scope_open(engine->ops);
    status = tables(engine, length, by, m, &cosine, &sine);
    if (status == FB_OK) fb_cache_turn(cache, engine->ops, slot, cosine, sine);
    fb_scope_close(engine->ops);
    return status == FB_OK ? fb_ops_status(engine->ops) : status;
}

fb_tensor fb_turn_queries(const fb_engine *engine, fb_tensor queries, int64_t length,
                          int64_t by)
{
    const fb_model_facts *facts = engine->facts;
    const int64_t t = fb_size(engine->ops, queries, 0);
    const int64_t heads[] = {1, t * facts->heads, facts->head_dim};
    const int64_t rows[] = {t, facts->heads * facts->head_dim};
    fb_tensor cosine, sine, turned;
    const fb_status status = tables(engine, length, &by, 1, &cosine, &sine);

    if (status != FB_OK) {
        fb_ops_refuse(engine->ops, status);
        return FB_NONE;
    }
    turned = fb_rotate(engine->ops, fb_reshape(engine->ops, queries, 3, heads), cosine,
                       sine, false);
    return fb_reshape(engine->ops, turned, 2, rows);
}
