/* talk.h - inside of src/engine: a free answer as it grows.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_TALK_H
#define FB_ENGINE_TALK_H

#include "engine/variant.h"

/* A question to a group of variants. */
typedef struct fb_talk {
    fb_reading *reading;
    const fb_question *question;
    const fb_answer_options *options;
    fb_answer *out; /* [variants] */
} fb_talk;

/* Places that the first pass shows: all of the reference, or the first of an answer
 * without one. */
int64_t fb_talk_places(const fb_question *question);
/* Tokens of the longest answer, be it the reference or a free one. */
int64_t fb_talk_longest(const fb_question *question, const fb_answer_options *options);

/* Memory for what `n` variants say. */
FB_MUST_USE fb_status fb_talk_open(const fb_talk *talk, int n);
/* What the first pass shows of a variant's free answer; whether it goes on talking. */
FB_MUST_USE fb_status fb_talk_begin(const fb_talk *talk, int v, bool *talking);
/* Whether a token ends an answer; where there are no numbers none does. */
bool fb_talk_ends(const fb_engine *engine, int32_t id);
/* Takes the next token of greedy decoding in. */
FB_MUST_USE fb_status fb_talk_take(const fb_talk *talk, int v, int32_t id,
                                   bool *talking);
/* What greedy decoding says next, to `ids` [n]; from hidden rows [n, 1, width]. */
FB_MUST_USE fb_status fb_talk_choose(const fb_talk *talk, fb_tensor hidden, int64_t n,
                                     int32_t *ids);

#endif
