/* exchanged.h - which entries two backends keep otherwise, and how nearly equal their scores
 * are.
 *
 * Two backends give scores that are some d apart, in a layer. One threshold decides what
 * stays: the k-th largest score, so thresholds are at most d apart too. An entry that only
 * one backend keeps has, by the first backend's scores, at most 2 d to the threshold; all
 * that changed places lie within 4 d. A larger distance says that something else than
 * rounding chose. The first entries, which no rule may drop, have by far the largest
 * scores of attention, and the largest d; they choose nothing, so theirs does not count.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_EXCHANGED_H
#define TESTS_SUPPORT_EXCHANGED_H

#include "tests/support/reference.h"

#include <math.h>

/* One context, read on one backend. */
typedef struct exchanged_side {
    const rig *rig;
    const fb_reading *reading;
    const fb_kept *kept;
} exchanged_side;

typedef struct exchanged {
    int64_t sink;        /* to be set: entries that are protected at the beginning */
    int64_t sets, equal; /* kept sets; those that are equal */
    int64_t kept, moved; /* entries that the first keeps; the second does not */
    double apart;  /* largest difference of a score, of the largest of its layer */
    double margin; /* largest distance of scores that changed places, of the same */
} exchanged;

/* Scores of a layer [kv_heads, columns], of both. */
typedef struct exchanged_layer {
    float *first, *second;
    int64_t kv_heads, columns;
    double size, apart; /* largest score, largest difference ... */
    double free_apart;  /* ... behind what is protected at the beginning */
} exchanged_layer;

static inline float *exchanged_scores(const exchanged_side *side, int rule,
                                      int64_t layer, int64_t *columns)
{
    const fb_tensor scores = fb_reading_score(side->reading, rule, layer);

    *columns = scores.id == 0 ? 0 : fb_size(side->rig->ops, scores, 1);
    return scores.id == 0 ? NULL : reference_floats(side->rig->ops, scores);
}

/* A context that is too short for a rule has no scores, but sinks and recents. */
static inline exchanged_layer exchanged_open(const exchanged_side *a,
                                             const exchanged_side *b, int rule,
                                             int64_t layer, int64_t sink)
{
    exchanged_layer out = {.kv_heads = fb_model_get_facts(a->rig->model)->kv_heads};
    int64_t columns;

    out.first = exchanged_scores(a, rule, layer, &out.columns);
    out.second = exchanged_scores(b, rule, layer, &columns);
    assert_int_equal(columns, out.columns);
    for (int64_t i = 0; i < out.kv_heads * columns; i++) {
        const double x = (double)out.first[i], y = (double)out.second[i];

        assert_int_equal(isfinite(x), isfinite(y));
        if (!isfinite(x)) continue;
        out.size = fmax(out.size, fabs(x));
        out.apart = fmax(out.apart, fabs(x - y));
        if (i % columns >= sink) out.free_apart = fmax(out.free_apart, fabs(x - y));
    }
    return out;
}

/* Positions ascend: whether the next one of a slot, from *at on, is this. */
static inline bool exchanged_holds(const fb_kept *kept, int64_t slot, int64_t position,
                                   int64_t *at)
{
    const bool holds = *at < kept->count[slot] && kept->position[slot][*at] == position;

    *at += holds;
    return holds;
}

/* Lowest and highest score of what changed places. */
typedef struct exchanged_range {
    double least, most;
} exchanged_range;

static inline void exchanged_slot(exchanged *sum, exchanged_range *range,
                                  const exchanged_layer *layer, const fb_kept *a,
                                  const fb_kept *b, int64_t slot)
{
    const float *row = layer->first + slot % layer->kv_heads * layer->columns;
    int64_t at_a = 0, at_b = 0;

    for (int64_t j = 0; j < layer->columns; j++) {
        const bool stays = exchanged_holds(a, slot, j, &at_a);

        if (stays == exchanged_holds(b, slot, j, &at_b)) continue;
        range->least = fmin(range->least, (double)row[j]);
        range->most = fmax(range->most, (double)row[j]);
        sum->moved += stays;
    }
}

static inline void exchanged_judge(exchanged *sum, const exchanged_layer *layer,
                                   const exchanged_range *range)
{
    if (range->most <= range->least) return;
    assert_true(range->most - range->least <= 4 * layer->free_apart);
    sum->margin = fmax(sum->margin, (range->most - range->least) / layer->size);
}

static inline bool exchanged_is_equal(const fb_kept *a, const fb_kept *b, int64_t slot,
                                      int64_t n)
{
    for (int64_t s = slot; s < slot + n; s++)
        if (a->count[s] != b->count[s] ||
            memcmp(a->position[s], b->position[s],
                   (size_t)a->count[s] * sizeof *a->position[s]) != 0)
            return false;
    return true;
}

/* The slots of one layer. Heads that give entries to each other share a threshold; one
 * that keeps as many as before has its own. */
static inline void exchanged_heads(exchanged *sum, const exchanged_layer *layer,
                                   const fb_kept *a, const fb_kept *b, int64_t first)
{
    exchanged_range shared = {HUGE_VAL, -HUGE_VAL};

    for (int64_t slot = first; slot < first + layer->kv_heads; slot++) {
        exchanged_range own = {HUGE_VAL, -HUGE_VAL};
        const bool is_own = a->count[slot] == b->count[slot];

        sum->kept += a->count[slot];
        exchanged_slot(sum, is_own ? &own : &shared, layer, a, b, slot);
        exchanged_judge(sum, layer, &own);
    }
    exchanged_judge(sum, layer, &shared);
}

static inline void exchanged_add_layer(exchanged *sum, const exchanged_side *a,
                                       const exchanged_side *b, int rule, int64_t layer)
{
    exchanged_layer scores = exchanged_open(a, b, rule, layer, sum->sink);
    const int64_t slot = layer * scores.kv_heads;

    if (scores.size > 0) sum->apart = fmax(sum->apart, scores.apart / scores.size);
    if (scores.first == NULL)
        assert_true(exchanged_is_equal(a->kept, b->kept, slot, scores.kv_heads));
    exchanged_heads(sum, &scores, a->kept, b->kept, slot);
    fb_free(scores.first);
    fb_free(scores.second);
}

/* A kept set of rule number `rule` of both readings. */
static inline void exchanged_add(exchanged *sum, const exchanged_side *a,
                                 const exchanged_side *b, int rule)
{
    const int64_t n = a->kept->n_slots;
    const int64_t kv_heads = fb_model_get_facts(a->rig->model)->kv_heads;

    assert_int_equal(n, b->kept->n_slots);
    assert_int_equal(fb_kept_total(a->kept), fb_kept_total(b->kept));
    sum->sets++;
    sum->equal += exchanged_is_equal(a->kept, b->kept, 0, n);
    for (int64_t layer = 0; layer < n / kv_heads; layer++)
        exchanged_add_layer(sum, a, b, rule, layer);
}

#endif
