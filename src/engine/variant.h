/* variant.h - inside of src/engine: a rule at a budget.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_VARIANT_H
#define FB_ENGINE_VARIANT_H

#include "engine/reading.h"

struct fb_variant {
    fb_reading *reading;
    fb_selection selection; /* kept.n_slots 0: all entries stay */
    fb_cache *arena;        /* own memory; NULL: the reading's cache is read */
    uint8_t *hidden;        /* [layers * kv_heads][n] for a mask, or NULL */
    int64_t next;           /* position of the first token behind the context */
    fb_ledger ledger;
};

/* What attention reads of the context; `index` counts the layers that do not slide. */
fb_part fb_variant_part(const fb_variant *variant, int64_t index, int64_t kv_head);

#endif
