/* table.c - see table.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/table.h"
#include "base/memory.h"

struct fb_table_slot {
    uint64_t hash;
    int value;
    bool is_taken;
};

enum { FIRST_CAPACITY = 64 };

static void put(fb_table *table, uint64_t hash, int value)
{
    size_t i = (size_t)hash & (table->capacity - 1);

    while (table->slot[i].is_taken)
        i = (i + 1) & (table->capacity - 1);
    table->slot[i] = (struct fb_table_slot){hash, value, true};
    table->n++;
}

static fb_status grow(fb_table *table)
{
    fb_table larger = {.capacity =
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

fb_status fb_table_add(fb_table *table, uint64_t hash, int value)
{
    if (2 * (table->n + 1) > table->capacity) FB_TRY(grow(table));
    put(table, hash, value);
    return FB_OK;
}

bool fb_table_next(const fb_table *table, uint64_t hash, size_t *at, int *out)
{
    while (*at < table->capacity) {
        const struct fb_table_slot *slot =
            &table->slot[((size_t)hash + *at) & (table->capacity - 1)];

        if (!slot->is_taken) return false;
        (*at)++;
        if (slot->hash != hash) continue;
        *out = slot->value;
        return true;
    }
    return false;
}

bool fb_table_has(const fb_table *table, uint64_t hash)
{
    size_t at = 0;
    int value;

    return fb_table_next(table, hash, &at, &value);
}

void fb_table_clear(fb_table *table)
{
    fb_free(table->slot);
    *table = (fb_table){0};
}
