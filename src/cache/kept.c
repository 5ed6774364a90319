/* kept.c - sets of entries that stay.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cache/cache.h"

fb_status fb_kept_new(fb_kept *out, int64_t n_slots)
{
    *out = (fb_kept){.n_slots = n_slots};
    out->count = fb_zalloc(FB_ACCOUNT_other, (size_t)n_slots * sizeof *out->count);
    out->position =
        fb_zalloc(FB_ACCOUNT_other, (size_t)n_slots * sizeof *out->position);
    if (out->count != NULL && out->position != NULL) return FB_OK;
    fb_kept_clear(out);
    return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
}

fb_status fb_kept_set(fb_kept *kept, int64_t slot, const uint8_t *stays, int64_t n)
{
    int64_t count = 0;
    int32_t *position;

    for (int64_t j = 0; j < n; j++)
        count += stays[j] != 0;
    position = fb_alloc(FB_ACCOUNT_other, (size_t)count * sizeof *position);
    if (position == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
    fb_free(kept->position[slot]);
    kept->position[slot] = position;
    kept->count[slot] = count;
    for (int64_t j = 0; j < n; j++)
        if (stays[j] != 0) *position++ = (int32_t)j;
    return FB_OK;
}

void fb_kept_clear(fb_kept *kept)
{
    for (int64_t s = 0; kept->position != NULL && s < kept->n_slots; s++)
        fb_free(kept->position[s]);
    fb_free(kept->position);
    fb_free(kept->count);
    *kept = (fb_kept){0};
}

int64_t fb_kept_total(const fb_kept *kept)
{
    int64_t total = 0;

    for (int64_t s = 0; s < kept->n_slots; s++)
        total += kept->count[s];
    return total;
}
