/* model_inside.h - inside of src/model: what a model is made of.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_MODEL_INSIDE_H
#define FB_MODEL_MODEL_INSIDE_H

#include "model/facts_read.h"
#include "model/model.h"

struct fb_model {
    fb_model_facts facts;
    char *name, *title, *weight_types;
    fb_ops *ops; /* of the weights; NULL: none loaded */
    fb_model_options options;
    fb_weights weights;
    fb_tokenizer *tokenizer;
    fb_template chat_template;
    fb_facts_room room;
    const fb_model *like; /* lends facts, tokenizer, template; NULL: they are its own */
};

#endif
