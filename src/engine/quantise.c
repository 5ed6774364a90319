/* quantise.c - the whole cache in fewer bits: what eviction competes with at equal bytes.
 *
 *     q  =  round((x - least) / step),   x'  =  least + step * q
 *
 * for 32 channels of one key or value, with their least number and step = (most - least) /
 * (2^bits - 1), both rounded to 16 bits (the form of q4_1 in llama.cpp; KIVI, Liu et al.
 * 2024, arXiv:2402.02750, shares them between tokens for keys instead). Attention reads x',
 * written back as the cache writes numbers; bytes are those of q, least and step.
 *
 * Heads that 32 does not divide have one group of all their channels.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"

enum { GROUP = 32, PAIR_BYTES = 4 /* least and step */ };

static const double SMALLEST_STEP = 1e-30; /* equal numbers have step 0 */

static fb_tensor constant(fb_ops *ops, double value)
{
    return fb_full(ops, 1, (int64_t[]){1}, value);
}

/* x, smaller than 2^22, to the nearest whole number, ties to even: f32 has no room for the
 * rest of x + 1.5 * 2^23. */
static fb_tensor to_whole(fb_ops *ops, fb_tensor x)
{
    const fb_tensor large = constant(ops, 0x1.8p23);

    return fb_add(ops, fb_add(ops, x, large, 1), large, -1);
}

/* x to 11 binary digits, those of a number of 16 bits: the high part of Veltkamp's split
 * (Dekker 1971, "A floating-point technique for extending the available precision"). */
static fb_tensor to_half(fb_ops *ops, fb_tensor x)
{
    const fb_tensor wide = fb_scale(ops, x, 0x1p13 + 1);

    return fb_add(ops, wide, fb_add(ops, wide, x, -1), -1);
}

static fb_tensor row_least(fb_ops *ops, fb_tensor x)
{
    return fb_scale(ops, fb_amax(ops, fb_scale(ops, x, -1), 1), -1);
}

static int64_t group_of(const fb_cache_shape *shape)
{
    return shape->head_dim % GROUP == 0 ? GROUP : shape->head_dim;
}

/* x [rows, group]. */
static fb_tensor quantise(fb_ops *ops, fb_tensor x, int bits)
{
    const int64_t column[] = {fb_size(ops, x, 0), 1};
    const double top = (double)((1 << bits) - 1);
    const fb_tensor low = row_least(ops, x);
    const fb_tensor range = fb_add(ops, fb_amax(ops, x, 1), low, -1);
    const fb_tensor least = fb_reshape(ops, to_half(ops, low), 2, column);
    fb_tensor step = to_half(ops, fb_scale(ops, range, 1 / top)), q;

    step =
        fb_maximum(ops, fb_reshape(ops, step, 2, column), constant(ops, SMALLEST_STEP));
    q = fb_div(ops, fb_add(ops, x, least, -1), step);
    q = fb_maximum(ops, q, constant(ops, 0));
    q = fb_scale(ops, fb_maximum(ops, fb_scale(ops, q, -1), constant(ops, -top)), -1);
    return fb_add(ops, fb_mul(ops, to_whole(ops, q), step), least, 1);
}

/* Keys or values [G, n, d] of a layer as a cache takes them [n, G*d]. */
static fb_tensor rows_of(const fb_engine *engine, fb_tensor x, int bits)
{
    const fb_cache_shape *shape = &engine->shape;
    const int64_t heads = shape->kv_heads, d = shape->head_dim, group = group_of(shape);
    fb_ops *ops = engine->ops;
    const int64_t n = fb_size(ops, x, 1);

    x = fb_reshape(ops, x, 2, (int64_t[]){heads * n * d / group, group});
    x = fb_reshape(ops, quantise(ops, x, bits), 3, (int64_t[]){heads, n, d});
    return fb_reshape(ops, fb_transpose(ops, x, 0, 1), 2, (int64_t[]){n, heads * d});
}

static fb_status fill_layer(fb_variant *variant, int64_t index, int bits)
{
    const fb_engine *engine = variant->reading->engine;
    const fb_cache *full = variant->reading->cache;
    fb_ops *ops = engine->ops;
    fb_tensor keys, values;
    fb_status status;

    fb_scope_open(ops);
    keys = rows_of(engine, fb_cache_keys(full, ops, index), bits);
    values = rows_of(engine, fb_cache_values(full, ops, index), bits);
    status =
        fb_cache_append(variant->arena, ops, index, fb_cat(ops, keys, values, 1), 0);
    fb_scope_close(ops);
    return status;
}

static fb_status fill(fb_variant *variant, int bits)
{
    const fb_engine *engine = variant->reading->engine;
    const fb_place before = fb_enter(engine, FB_PHASE_evict, FB_SCOPE_select);
    fb_ledger *ledger = &variant->ledger;
    fb_status status = FB_OK;

    fb_ops_charge(engine->ops, &ledger, 1);
    for (int64_t l = 0; status == FB_OK && l < engine->facts->layers; l++) {
        if (engine->facts->layer[l].slides) continue;
        fb_use_layer(engine, l);
        status = fill_layer(variant, engine->facts->layer[l].index, bits);
    }
    fb_ops_use_part(engine->ops, 0);
    fb_ops_charge(engine->ops, NULL, 0);
    fb_ops_move(engine->ops, before);
    return status;
}

static size_t packed_bytes(const fb_cache_shape *shape, int64_t entries, int bits)
{
    const int64_t group = group_of(shape);
    const int64_t bytes = (group * bits + 7) / 8 + PAIR_BYTES;

    return (size_t)(2 * entries * (shape->head_dim / group) * bytes);
}

fb_status fb_keep_quantised(fb_variant **out, fb_reading *reading, int bits)
{
    const fb_engine *engine = reading->engine;
    fb_status status;

    FB_TRY(fb_variant_new(out, reading));
    (*out)->packed_bytes =
        packed_bytes(&engine->shape, fb_cache_total(reading->cache), bits);
    status = fb_cache_new(&(*out)->arena, engine->ops, &engine->shape, reading->n);
    if (status == FB_OK) status = fill(*out, bits);
    if (status == FB_OK) return FB_OK;
    fb_variant_free(*out);
    *out = NULL;
    return status;
}
