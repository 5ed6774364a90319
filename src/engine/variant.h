/* variant.h - inside of src/engine: a rule at a budget.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_VARIANT_H
#define FB_ENGINE_VARIANT_H

#include "engine/reading.h"

struct fb_variant {
    fb_reading *reading;
    fb_selection selection;  /* kept.n_slots 0: all entries stay */
    fb_cache *arena;         /* own memory; NULL: the reading's cache is read */
    fb_cache *sliding;       /* own windows; NULL: those of the reading */
    uint8_t *hidden;         /* [layers * kv_heads][n] for a mask, or NULL */
    int64_t next;            /* position of the first token behind the context */
    int64_t next_in_windows; /* the same in sliding layers, which nothing renumbers */
    fb_ledger ledger;
    bool read_itself; /* its context, in a pass of its own */
    char trace[65];   /* of that; "": not to be compared with others */
    size_t
        packed_bytes; /* of its arena, were it stored as what it stands for; 0: as it is */
    size_t state_bytes; /* that its rule may keep beside the entries as text comes in */
    bool pays_state;    /* they count as its own */
    int64_t highest;    /* entries that a head held as text came in, at most */
    /* The text goes on under the budget with question and answer; owns arena and windows.
     * NULL: they stand beside it. */
    struct fb_stream *stream;
};

/* Everything stays, until told otherwise. */
FB_MUST_USE fb_status fb_variant_new(fb_variant **out, fb_reading *reading);

/* block.c - as fb_select, for a rule that chooses block by block and so is scored anew;
 * fewer than all tokens stay. */
FB_MUST_USE fb_status fb_choose_by_blocks(fb_selection *out, fb_reading *reading,
                                          const fb_scored_rule *rule,
                                          const fb_selector *in, int64_t k);

/* edit.c - the rule changes the values in the arena, where those that stay are. */
FB_MUST_USE fb_status fb_variant_edit(fb_variant *variant, const fb_bound_rule *rule);

/* What attention reads of the context; `index` counts the layers that do not slide. */
fb_part fb_variant_part(const fb_variant *variant, int64_t index, int64_t kv_head);
/* The same of a window; `index` counts the layers that slide. */
fb_part fb_variant_window(const fb_variant *variant, int64_t index, int64_t kv_head);

#endif
