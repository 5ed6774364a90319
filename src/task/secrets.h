/* secrets.h - keys and values that no text contains, and the depths they are hidden at.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TASK_SECRETS_H
#define FB_TASK_SECRETS_H

#include <flexbudget/task.h>

/* Numbers of a document for one purpose: not shifted by other documents. */
typedef enum fb_draw { FB_DRAW_START = 1, FB_DRAW_SECRETS = 2 } fb_draw;
void fb_draw_seed(fb_random *random, uint64_t seed, fb_draw purpose, int64_t document);

/* Kind, key, value and depth of each needle [options.keys] of document `i`. */
void fb_secrets_draw(fb_needle *needles, const fb_haystack_options *options,
                     uint64_t seed, int64_t i);

#endif
