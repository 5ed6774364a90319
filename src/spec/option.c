/* option.c - tables of rows, and a value with its origin for each row.
 *
 * SPDX-License-Identifier: MIT
 */
#include "spec/option.h"
#include "base/check.h"
#include "base/memory.h"
#include "spec/option_type.h"

#include <stdlib.h>
#include <string.h>

bool fb_option_is_end(const fb_option *row)
{
    return row->key == NULL && row->name == NULL;
}

bool fb_option_is_list(const fb_option *row)
{
    return row->type >= FB_TYPE_INTS && row->type <= FB_TYPE_TASKS;
}

int fb_option_find_key(const fb_option *rows, const char *key)
{
    for (int i = 0; !fb_option_is_end(&rows[i]); i++)
        if (rows[i].key != NULL && strcmp(rows[i].key, key) == 0) return i;
    return -1;
}

int fb_option_find_name(const fb_option *rows, const char *name)
{
    for (int i = 0; !fb_option_is_end(&rows[i]); i++)
        if (rows[i].name != NULL && strcmp(rows[i].name, name) == 0) return i;
    return -1;
}

/* --- lists of items --- */

void fb_items_free(fb_item *items, int n)
{
    for (int i = 0; items != NULL && i < n; i++)
        fb_free(items[i].text);
    fb_free(items);
}

static fb_status add_item(fb_item **items, int *n, const char *text, size_t length)
{
    fb_item *grown;

    while (length > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        length--;
    }
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    if (length == 0) return fb_fail(FB_USAGE, "an item of the list is empty");
    grown = fb_realloc(FB_ACCOUNT_other, *items,
                       fb_size_mul((size_t)*n + 1, sizeof *grown));
    if (grown == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a list");
    *items = grown;
    grown[*n] = (fb_item){.text = fb_alloc(FB_ACCOUNT_other, length + 1)};
    if (grown[*n].text == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a list");
    memcpy(grown[*n].text, text, length);
    grown[*n].text[length] = '\0';
    (*n)++;
    return FB_OK;
}

/* `key=value`, with neither a bracket nor a ':' before the '=': a parameter of the item
 * before. */
static bool is_parameter(const char *text, size_t length)
{
    const size_t stop = strcspn(text, "=:(");

    return stop < length && text[stop] == '=';
}

/* Where the piece that begins at `text` ends: a comma outside brackets, or the end. */
static size_t piece_length(const char *text)
{
    int depth = 0;
    size_t i;

    for (i = 0; text[i] != '\0' && !(text[i] == ',' && depth <= 0); i++) {
        depth += text[i] == '(' || text[i] == '[' || text[i] == '{';
        depth -= text[i] == ')' || text[i] == ']' || text[i] == '}';
    }
    return i;
}

fb_status fb_split_list(const char *text, fb_item **items_out, int *n_out)
{
    fb_item *items = NULL;
    int n = 0;

    *items_out = NULL;
    *n_out = 0;
    for (const char *begin = text;;) {
        size_t length = piece_length(begin);
        fb_status status;

        while (begin[length] == ',' &&
               is_parameter(begin + length + 1, piece_length(begin + length + 1)))
            length += 1 + piece_length(begin + length + 1);
        status = add_item(&items, &n, begin, length);
        if (status != FB_OK) {
            fb_items_free(items, n);
            return status;
        }
        if (begin[length] == '\0') break;
        begin += length + 1;
    }
    *items_out = items;
    *n_out = n;
    return FB_OK;
}

/* --- values --- */

static void clear_value(fb_value *value)
{
    fb_items_free(value->items, value->n);
    *value = (fb_value){0};
}

void fb_values_clear(fb_values *values)
{
    for (int i = 0; values->value != NULL && i < values->n_rows; i++)
        clear_value(&values->value[i]);
    fb_free(values->value);
    *values = (fb_values){0};
}

fb_status fb_values_init(fb_values *values, const fb_option *rows)
{
    int n = 0;

    while (!fb_option_is_end(&rows[n]))
        n++;
    *values = (fb_values){.rows = rows, .n_rows = n};
    values->value =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *values->value));
    if (values->value == NULL) return fb_fail(FB_NO_MEMORY, "no memory for options");
    for (int i = 0; i < n; i++) {
        fb_status status = FB_OK;

        if (rows[i].type == FB_TYPE_LATER || rows[i].initial[0] == '\0') continue;
        status = fb_values_set(values, i, FB_FROM_DEFAULT, rows[i].initial);
        if (status != FB_OK) {
            fb_values_clear(values);
            return status;
        }
    }
    return FB_OK;
}

/* A checked copy of items. */
static fb_status copy_items(const fb_option *row, const fb_item *items, int n,
                            fb_item **out, int *bad)
{
    fb_item *copy =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, sizeof *copy));

    if (copy == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an option");
    for (int i = 0; i < n; i++) {
        fb_text text = {0};
        fb_status status;

        fb_text_init(&text, 0);
        status = fb_option_check(row, items[i].text, &text);
        if (status == FB_OK) status = fb_text_status(&text);
        copy[i] = items[i];
        copy[i].text = status == FB_OK ? fb_strdup(fb_text_string(&text)) : NULL;
        fb_text_clear(&text);
        if (status == FB_OK && copy[i].text == NULL)
            status = fb_fail(FB_NO_MEMORY, "no memory for an option");
        if (status != FB_OK) {
            if (bad != NULL) *bad = i;
            fb_items_free(copy, i);
            return status;
        }
    }
    *out = copy;
    return FB_OK;
}

fb_status fb_values_set_items(fb_values *values, int row, fb_origin origin,
                              const fb_item *items, int n, int *bad)
{
    fb_value *value = &values->value[row];
    fb_item *copy = NULL;

    FB_ASSERT(row >= 0 && row < values->n_rows);
    if (bad != NULL) *bad = 0;
    FB_TRY(copy_items(&values->rows[row], items, n, &copy, bad));
    if (value->items != NULL && origin < value->origin) {
        fb_items_free(copy, n);
        return FB_OK;
    }
    clear_value(value);
    *value = (fb_value){.origin = origin, .items = copy, .n = n};
    return FB_OK;
}

fb_status fb_values_set(fb_values *values, int row, fb_origin origin, const char *text)
{
    fb_item *items = NULL;
    int n = 0;
    fb_status status;

    FB_ASSERT(row >= 0 && row < values->n_rows);
    if (!fb_option_is_list(&values->rows[row])) {
        char *copy = fb_strdup(text);
        const fb_item one = {.text = copy};

        if (copy == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an option");
        status = fb_values_set_items(values, row, origin, &one, 1, NULL);
        fb_free(copy);
        return status;
    }
    FB_TRY(fb_split_list(text, &items, &n));
    status = fb_values_set_items(values, row, origin, items, n, NULL);
    fb_items_free(items, n);
    return status;
}

const char *fb_values_text(const fb_values *values, int row)
{
    const fb_value *value = &values->value[row];

    FB_ASSERT(row >= 0 && row < values->n_rows);
    return value->n > 0 ? value->items[0].text : "";
}

bool fb_values_is(const fb_values *values, int row, const char *word)
{
    return strcmp(fb_values_text(values, row), word) == 0;
}

/* The canonical texts of sizes, times and percentages are a number and a unit of 1. */
int64_t fb_values_int(const fb_values *values, int row)
{
    const char *text = fb_values_text(values, row);

    if (strchr("+-0123456789", text[0]) == NULL || text[0] == '\0') return -1;
    return (int64_t)strtoll(text, NULL, 10);
}

double fb_values_real(const fb_values *values, int row)
{
    const char *text = fb_values_text(values, row);
    const size_t n = strspn(text, "+-.0123456789e");
    char number[64];
    double value = -1;

    if (n == 0 || n >= sizeof number) return -1;
    memcpy(number, text, n);
    number[n] = '\0';
    return fb_parse_real(number, &value) ? value : -1;
}

bool fb_values_flag(const fb_values *values, int row)
{
    return fb_values_is(values, row, "on");
}
