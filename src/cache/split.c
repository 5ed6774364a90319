/* split.c - which layers of a cache lie on which part of the operators.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cache/cache.h"

fb_split fb_split_of(const fb_ops *ops, int64_t layers)
{
    fb_split split = {.n = fb_ops_parts(ops)};

    for (int64_t layer = 0; layer < layers; layer++)
        split.first[fb_part_of_layer(ops, layer, layers) + 1] = layer + 1;
    for (int i = 0; i < split.n; i++) /* a part without layers */
        if (split.first[i + 1] < split.first[i]) split.first[i + 1] = split.first[i];
    return split;
}

int fb_split_find(const fb_split *split, int64_t layer)
{
    int part = 0;

    while (part < split->n - 1 && layer >= split->first[part + 1])
        part++;
    return part;
}
