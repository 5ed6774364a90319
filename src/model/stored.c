/* stored.c - see stored.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/stored.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>

static int compare_names(const void *a, const void *b)
{
    return fb_span_compare(((const fb_stored *)a)->name, ((const fb_stored *)b)->name);
}

static int compare_places(const void *a, const void *b)
{
    const uint8_t *x = ((const fb_stored *)a)->data;
    const uint8_t *y = ((const fb_stored *)b)->data;

    return (x > y) - (x < y);
}

fb_status fb_stored_measure(fb_stored *t)
{
    const fb_shown name = fb_span_show(t->name);
    int64_t blocks, bytes;

    if (t->columns % t->format->per_block != 0)
        return fb_fail(FB_FORMAT,
                       "tensor '%s' has rows of %" PRId64 " %s; %s comes in blocks "
                       "of %" PRId64,
                       name.text, t->columns,
                       fb_plural(t->columns, "number", "numbers"), t->format->name,
                       t->format->per_block);
    if (__builtin_mul_overflow(t->columns / t->format->per_block, t->rows, &blocks) ||
        __builtin_mul_overflow(blocks, (int64_t)t->format->bytes, &bytes))
        return fb_fail(FB_FORMAT, "tensor '%s' has more bytes than can be counted",
                       name.text);
    t->n_bytes = (size_t)bytes;
    return FB_OK;
}

fb_status fb_stored_sort(fb_stored_list *list)
{
    qsort(list->tensors, list->n, sizeof *list->tensors, compare_places);
    for (size_t i = 1; i < list->n; i++) {
        const fb_stored *a = &list->tensors[i - 1], *b = &list->tensors[i];

        if ((size_t)(b->data - a->data) < a->n_bytes)
            return fb_fail(FB_FORMAT, "the data of tensors '%s' and '%s' overlap",
                           fb_span_show(a->name).text, fb_span_show(b->name).text);
    }
    qsort(list->tensors, list->n, sizeof *list->tensors, compare_names);
    for (size_t i = 1; i < list->n; i++)
        if (compare_names(&list->tensors[i - 1], &list->tensors[i]) == 0)
            return fb_fail(FB_FORMAT, "the tensor '%s' is there twice",
                           fb_span_show(list->tensors[i].name).text);
    return FB_OK;
}

const fb_stored *fb_stored_find(const fb_stored_list *list, const char *name)
{
    const fb_stored wanted = {.name = fb_span_of(name)};

    if (list->n == 0) return NULL;
    return bsearch(&wanted, list->tensors, list->n, sizeof wanted, compare_names);
}
