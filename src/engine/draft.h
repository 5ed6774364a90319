/* draft.h - inside of src/engine: what the model's next words look at.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_DRAFT_H
#define FB_ENGINE_DRAFT_H

#include "engine/variant.h"

/* `said`, at least one token, is read behind the context, and up to n tokens are decoded; `out`
 * [layers that do not slide] of [heads, context]: the mean attention that these pay;
 * persistent, FB_NONE before. */
FB_MUST_USE fb_status fb_draft(fb_reading *reading, const fb_variant *full,
                               const fb_ids *said, int64_t n, fb_tensor *out);

#endif
