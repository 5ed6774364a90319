/* facts_rope.h - inside of src/model: what both file forms need to state a rotation.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_FACTS_ROPE_H
#define FB_MODEL_FACTS_ROPE_H

#include "model/facts_read.h"

/* Lists of factors per pair, for each rope: room->factors[r * FB_N_LISTS + which]. */
enum { FB_LIST_SHORT, FB_LIST_LONG, FB_N_LISTS };

/* The kind called `name`; FB_UNSUPPORTED lists the names, of which some may be NULL. */
FB_MUST_USE fb_status fb_rope_find_kind(const char *key, const char *name,
                                        const char *const names[FB_N_ROPE_KINDS],
                                        fb_rope_kind *out);
/* By how much cosine and sine grow where nothing is stated. */
double fb_rope_size(const fb_rope *rope);
/* Room for a list of factors, one per rotated pair. */
FB_MUST_USE fb_status fb_rope_room(const fb_model_facts *f, fb_facts_room *room,
                                   int which);
FB_MUST_USE fb_status fb_rope_check_factor(const char *name, float factor);

/* Into f->rope, which holds the bases. */
FB_MUST_USE fb_status fb_rope_read_config(fb_model_facts *f, fb_facts_room *room,
                                          const fb_settings *s);
FB_MUST_USE fb_status fb_rope_read_gguf(fb_model_facts *f, fb_facts_room *room,
                                        const fb_settings *s,
                                        const fb_stored_list *tensors);

#endif
