/* tokens_json.h - between the files that read tokenizer.json: its steps are small
 * programs of their own.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_TOKENS_JSON_H
#define FB_MODEL_TOKENS_JSON_H

#include "base/json.h"
#include "model/tokens.h"

/* NULL where a part is missing or null. FB_UNSUPPORTED names what is not understood. */
FB_MUST_USE fb_status fb_tokens_add_normalizer(fb_tokens *tokens,
                                               const fb_json *normalizer);
/* Patterns are lent by the JSON. Says by `spelling` how tokens are written. */
FB_MUST_USE fb_status fb_tokens_add_pre_tokenizer(fb_tokens *tokens,
                                                  const fb_json *pre_tokenizer);
FB_MUST_USE fb_status fb_tokens_set_decoder(fb_tokens *tokens, const fb_json *decoder);
/* Only whether a text begins with BOS, and which token that is. */
FB_MUST_USE fb_status fb_tokens_set_post_processor(fb_tokens *tokens,
                                                   const fb_json *post_processor);

/* The token that `raw` describes: an element of `added_tokens`, with an id of its own
 * (`id` -1), or a member of `added_tokens_decoder`. A control token without a row in the
 * embedding is left out. The text changes, and the token's is lent from it. */
FB_MUST_USE fb_status fb_tokens_add_token(fb_tokens *tokens, fb_span raw, int64_t id);

/* A member that is true or false; `otherwise` if it is missing or null. */
FB_MUST_USE fb_status fb_tokens_want_bool(const fb_json *object, const char *key,
                                          bool otherwise, bool *out);

#endif
