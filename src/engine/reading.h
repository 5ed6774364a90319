/* reading.h - inside of src/engine: what is known of a context after it was read.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_READING_H
#define FB_ENGINE_READING_H

#include "engine/see.h"

/* A rule with its scores of this context. */
typedef struct fb_scored_rule {
    const fb_bound_rule *rule;
    uint64_t seed;
    /* [layers] of [planes * kv_heads, n - unscored]; FB_NONE where it has none */
    fb_tensor *scores;
    fb_tensor *measured; /* [layers] for an allocation over layers; FB_NONE: nothing */
    fb_tensor
        state; /* of a rule that follows the blocks of the layer at work; persistent */
    fb_ledger ledger;   /* plain pass + its signals + its scores */
    size_t again_bytes; /* of keys and values while the context is read again for it */
    int64_t score_ns;   /* of scoring its layers */
    bool has_failed;    /* looking ahead; left out from then on */
} fb_scored_rule;

struct fb_reading {
    const fb_engine *engine;
    int64_t n; /* tokens */
    size_t pass_bytes;
    uint64_t stream;
    fb_scored_rule *rules;
    int n_rules;
    fb_cache *cache;   /* of the layers that are evicted from */
    fb_cache *sliding; /* the windows of the others; NULL: there are none */
    fb_tensor
        window;     /* [H, w, n] put together from blocks where some rule follows them;
                          of the layer at work; persistent */
    fb_ledger pass; /* of the context, with the signals of all rules */
    fb_ledger *payer; /* who is charged now; lent to the operators */
    fb_ledger step;   /* of one token behind the context, its attention left out */
    bool has_step;
    int64_t read_ns; /* without the checksums of its cache */
    char trace[65], cache_sha256[65];
    /* The full cache's own answer to the last question. */
    char question_sha256[65];
    fb_tensor hidden; /* [n_answer, width], after the final norm; persistent */
    bool has_foreseen;
    /* [layers] of [heads, n]; FB_NONE: no rule reads it, or fb_foresee_document is to come */
    fb_tensor *document_future;
};

/* Scores one layer for one rule from what the kernel saw; persistent. */
FB_MUST_USE fb_status fb_reading_score_layer(fb_reading *reading, fb_scored_rule *rule,
                                             int64_t layer,
                                             const fb_layer_signals *seen);

/* Reads the context again for the rules that ask for it, and scores them. The cache of
 * the reading stays as it is. */
FB_MUST_USE fb_status fb_reading_replay(fb_reading *reading, const int32_t *ids);

/* Makes `hidden` (and, if asked, the scores of rules that read the future) for a
 * question, unless they are there already. */
FB_MUST_USE fb_status fb_reading_answer(fb_reading *reading,
                                        const fb_question *question, bool foresee);

/* Counts one token behind the context, once (step.c). */
FB_MUST_USE fb_status fb_step_count(fb_reading *reading);

#endif
