/* gather.h - keys and values of many slots as one padded tensor.
 *
 * Slots hold different numbers of entries. For one product over all of them, the entries
 * are picked into [parts, length, d], filled up to a common length with entries that a
 * mask hides. Lengths are rounded up to a few sizes, so that a batch needs only a few
 * products whatever it holds, and the size a part is computed in depends on nothing but
 * its own number of entries. Where to pick from, and the masks, are kept on the device:
 * they are the same at every step of an answer.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_TORCH_GATHER_H
#define FB_OPS_TORCH_GATHER_H

#include "ops/torch/torch.h"

/* Padded length of a part of n entries. */
int64_t fb_torch_length(int64_t n);

/* Keys and values of parts, f32. */
typedef struct fb_torch_padded {
    fb_torch_handle keys, values; /* [n, length, d] */
    int64_t length;
} fb_torch_padded;

/* Parts parts[0 .. n), each of at most `length` entries and at least one. */
fb_torch_padded fb_torch_pick(fb_torch *torch, const fb_part *const *parts, int64_t n,
                              int64_t length);
/* All entries of a layer as they lie, if all kv heads have equally many in slots of one
 * size and one behind the other; keys is NULL if not. No copy in f32. */
fb_torch_padded fb_torch_whole(fb_torch *torch, const fb_segment *segments, int64_t n);

/* What t queries do not see, true: of the `length` places of the context of segments
 * segments[0 .. n), or of their tails: [n, 1, t, length], or [n, 1, 1, length] where that is
 * the same for all queries. NULL if they see all. */
fb_torch_handle fb_torch_unseen(fb_torch *torch, const fb_segment *const *segments,
                                int64_t n, int64_t t, int64_t window, bool of_tail,
                                int64_t length);

/* Whole numbers [n] on the device, kept there like the tables above. */
fb_torch_handle fb_torch_numbers(fb_torch *torch, const int64_t *x, int64_t n);

/* Rows [first, end) of the [2 * entries, d] of a cache: keys of a slot, then its values,
 * slot by slot. */
fb_torch_handle fb_torch_rows(fb_torch *torch, const fb_kv *kv, int64_t first,
                              int64_t end);

#endif
