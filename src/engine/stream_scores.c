/* stream_scores.c - scores that stay with the entries that survive an eviction.
 *
 * Under `rescore: new` an entry is scored once, at the first eviction at which it has a
 * score, and later competes with that (as LagKV does, Liang et al. 2025, arXiv:2504.04704,
 * in its authors' code). Those that have one stand before those that have none: a score is
 * missing of the newest entries alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "engine/stream.h"

enum { ENTRIES = 1 };

fb_tensor fb_stream_join_scores(const fb_stream *s, int64_t layer, fb_tensor fresh)
{
    fb_ops *ops = s->view.engine->ops;
    const fb_tensor kept = s->kept_scores[layer];
    int64_t old, all;

    if (kept.id == 0 || fb_ops_status(ops) != FB_OK) return fresh;
    old = fb_size(ops, kept, ENTRIES);
    all = fb_size(ops, fresh, ENTRIES);
    if (old >= all) return kept; /* of entries that have no score now, too */
    return fb_cat(ops, kept, fb_narrow(ops, fresh, ENTRIES, old, all - old), ENTRIES);
}

/* The first entries of a head that stay and have a score. */
static int64_t count_scored(const fb_kept *kept, int64_t slot, int64_t scored)
{
    int64_t n = 0;

    while (n < kept->count[slot] && kept->position[slot][n] < scored)
        n++;
    return n;
}

/* `from` [kv_heads, scored] to the scores of what stays. */
static fb_status gather(fb_stream *s, int64_t layer, const fb_kept *kept,
                        fb_tensor from)
{
    const int64_t heads = s->view.engine->facts->kv_heads, first = layer * heads;
    fb_ops *ops = s->view.engine->ops;
    const int64_t scored = fb_size(ops, from, ENTRIES);
    const int64_t n = count_scored(kept, first, scored), shape[] = {heads, n};
    int64_t *index;

    if (n == 0) {
        fb_release(ops, s->kept_scores[layer]);
        s->kept_scores[layer] = FB_NONE;
        return FB_OK;
    }
    index = fb_alloc(FB_ACCOUNT_scratch, (size_t)(heads * n) * sizeof *index);
    if (index == NULL) return fb_fail(FB_NO_MEMORY, "no memory for kept scores");
    for (int64_t g = 0; g < heads; g++) {
        FB_ASSERT(count_scored(kept, first + g, scored) == n);
        for (int64_t j = 0; j < n; j++)
            index[g * n + j] = kept->position[first + g][j];
    }
    fb_scope_open(ops);
    from = fb_gather(ops, from, fb_from_host(ops, FB_I64, 2, shape, index));
    s->kept_scores[layer] = fb_persist_over(ops, s->keeps, s->kept_scores[layer], from);
    fb_scope_close(ops);
    fb_free(index);
    return fb_ops_status(ops);
}

fb_status fb_stream_keep_scores(fb_stream *s, int64_t layer, const fb_kept *kept)
{
    fb_ops *ops = s->view.engine->ops;
    const fb_tensor now =
        s->scores[layer].id != 0 ? s->scores[layer] : s->kept_scores[layer];
    fb_status status = FB_OK;

    if (s->keeps_scores && now.id != 0) status = gather(s, layer, kept, now);
    fb_release(ops, s->scores[layer]);
    s->scores[layer] = FB_NONE;
    return status;
}
