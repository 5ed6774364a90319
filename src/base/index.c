/* index.c - see index.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/index.h"
#include "base/memory.h"

struct fb_index_slot {
    uint64_t hash;
    int value;
    bool is_taken;
};

enum { FIRST_CAPACITY = 64 };

static void put(fb_index *table, uint64_t hash, int value)
{
    size_t i = (size_t)hash & (table->capacity - 1);

    while (table->slot[i].is_taken)
        i = (i + 1) & (table->capacity - 1);
    table->slot[i] = (struct fb_index_slot){hash, value, true};
    table->n++;
}

static fb_status grow(fb_index *table)
{
    fb_index larger = {.capacity =
                           table->capacity == 0 ? FIRST_CAPACITY : 2 * table->capacity};

    larger.slot =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul(larger.capacity, sizeof *larger.slot));
    if (larger.slot == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a hash table");
    for (size_t i = 0; i < table->capacity; i++)
        if (table->slot[i].is_taken)
            put(&larger, table->slot[i].hash, table->slot[i].value);
    fb_free(table->slot);
    *table = larger;
    return FB_OK;
}

fb_status fb_index_add(fb_index *table, uint64_t hash, int value)
{
    if (2 * (table->n + 1) > table->capacity) FB_TRY(grow(table));
    put(table, hash, value);
    return FB_OK;
}

bool fb_index_next(const fb_index *table, uint64_t hash, size_t *at, int *out)
{
    while (*at < table->capacity) {
        const struct fb_index_slot *slot =
            &table->slot[((size_t)hash + *at) & (table->capacity - 1)];

        if (!slot->is_taken) return false;
        (*at)++;
        if (slot->hash != hash) continue;
        *out = slot->value;
        return true;
    }
    return false;
}

bool fb_index_has(const fb_index *table, uint64_t hash)
{
    size_t at = 0;
    int value;

    return fb_index_next(table, hash, &at, &value);
}

void fb_index_clear(fb_index *table)
{
    fb_free(table->slot);
    *table = (fb_index){0};
}
