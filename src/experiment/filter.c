/* filter.c - which cells: "rule=snapkv*,task=needle".
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "experiment/plan.h"

#include <string.h>

static const char *const keys[] = {"rule", "task", "sample", "budget", "seed"};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

struct fb_filter {
    fb_item *items; /* "key=pattern" */
    int n;
};

static fb_status check_item(const char *item)
{
    const char *equals = strchr(item, '=');
    const char *nearest;
    char key[32] = "";

    if (equals != NULL && (size_t)(equals - item) < sizeof key)
        memcpy(key, item, (size_t)(equals - item));
    for (int i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i], key) == 0) return FB_OK;
    nearest = fb_nearest_word(key, keys, N_KEYS);
    if (equals != NULL && nearest != NULL)
        return fb_fail(FB_USAGE, "filter '%s': unknown key; did you mean '%s'?", item,
                       nearest);
    return fb_fail(FB_USAGE,
                   "filter '%s': write KEY=PATTERN with the keys rule, task, sample, "
                   "budget or seed",
                   item);
}

/* Whether a known "KEY=" stands here: what makes a comma the beginning of a new item,
 * for labels may hold commas. */
static bool begins_item(const char *text)
{
    for (int i = 0; i < N_KEYS; i++) {
        const size_t n = strlen(keys[i]);

        if (strncmp(text, keys[i], n) == 0 && text[n] == '=') return true;
    }
    return false;
}

/* Bytes of the item at the beginning of `text`. */
static size_t item_length(const char *text)
{
    int depth = 0;
    size_t n = 0;

    for (; text[n] != '\0'; n++) {
        depth += (text[n] == '(') - (text[n] == ')');
        if (text[n] == ',' && depth <= 0 && begins_item(text + n + 1)) break;
    }
    return n;
}

static fb_status add_item(fb_filter *filter, const char *text, size_t n)
{
    fb_item *grown = fb_realloc(FB_ACCOUNT_other, filter->items,
                                (size_t)(filter->n + 1) * sizeof *grown);

    if (grown == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a filter");
    filter->items = grown;
    grown[filter->n] = (fb_item){.text = fb_zalloc(FB_ACCOUNT_other, n + 1)};
    if (grown[filter->n].text == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a filter");
    memcpy(grown[filter->n].text, text, n);
    return check_item(grown[filter->n++].text);
}

static fb_status split(fb_filter *filter, const char *text)
{
    for (;;) {
        const size_t n = item_length(text);

        FB_TRY(add_item(filter, text, n));
        if (text[n] == '\0') return FB_OK;
        text += n + 1;
    }
}

fb_status fb_filter_parse(fb_filter **out, const char *text)
{
    fb_filter *filter = fb_zalloc(FB_ACCOUNT_other, sizeof *filter);
    fb_status status;

    *out = NULL;
    if (filter == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a filter");
    status = split(filter, text);
    if (status != FB_OK) {
        fb_filter_free(filter);
        return status;
    }
    *out = filter;
    return FB_OK;
}

void fb_filter_free(fb_filter *filter)
{
    if (filter == NULL) return;
    fb_items_free(filter->items, filter->n);
    fb_free(filter);
}

/* `*` any run of characters, `?` one. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *mark = NULL;

    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            mark = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

bool fb_filter_passes(const fb_filter *filter, const char *key, const char *value)
{
    const size_t n = strlen(key);
    bool asked = false;

    if (filter == NULL || value == NULL) return true;
    for (int i = 0; i < filter->n; i++) {
        const char *item = filter->items[i].text;

        if (strncmp(item, key, n) != 0 || item[n] != '=') continue;
        asked = true;
        if (matches(item + n + 1, value)) return true;
    }
    return !asked;
}
