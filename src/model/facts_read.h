/* facts_read.h - inside of src/model: settings become facts.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_FACTS_READ_H
#define FB_MODEL_FACTS_READ_H

#include "model/facts.h"
#include "model/settings.h"
#include "model/stored.h"

/* Memory that facts lend from. */
typedef struct fb_facts_room {
    fb_layer_facts *layer;
    float *factors[2 * FB_N_ROPES]; /* of longrope: short, long; of each rope */
} fb_facts_room;

/* Fills the numbers of `facts` (not its strings): each checked, none assumed that the
 * format does not define. `vocabulary` is the number of rows of the embedding. `tensors`
 * NULL: there are none, only a config.json. The room is to be cleared even after a
 * failure. */
FB_MUST_USE fb_status fb_facts_read(fb_model_facts *facts, fb_facts_room *room,
                                    const fb_settings *settings,
                                    const fb_stored_list *tensors);
void fb_facts_clear(fb_facts_room *room);

/* facts_rope.c: rotary bases and stretching. */
FB_MUST_USE fb_status fb_facts_read_rope(fb_model_facts *facts, fb_facts_room *room,
                                         const fb_settings *settings,
                                         const fb_stored_list *tensors);
/* facts_rope_config.c: the part of a head that is rotated; 1 where nothing is said. */
FB_MUST_USE fb_status fb_facts_read_rotary_part(double *out,
                                                const fb_settings *settings);
/* facts_layers.c: which layers slide. */
FB_MUST_USE fb_status fb_facts_read_layers(fb_model_facts *facts, fb_facts_room *room,
                                           const fb_settings *settings);

#endif
