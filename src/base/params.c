/* params.c - named parameters: a table of rows sets, checks and prints a plain struct.
 *
 * A row's `offset` leads to an int64_t (whole numbers; the index of a word), a double,
 * or two doubles. They are moved with memcpy, so a struct may lie anywhere.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/params.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 64, MOST_SENTENCE = 600 };

/* --- values in the struct --- */

static int64_t get_int(const fb_param *row, const void *values)
{
    int64_t value;

    memcpy(&value, (const char *)values + row->offset, sizeof value);
    return value;
}

static double get_real(const fb_param *row, const void *values, int which)
{
    double value;

    memcpy(&value, (const char *)values + row->offset + (size_t)which * sizeof value,
           sizeof value);
    return value;
}

static void put(const fb_param *row, void *values, const void *value, size_t size)
{
    memcpy((char *)values + row->offset, value, size);
}

static void put_int(const fb_param *row, void *values, int64_t value)
{
    put(row, values, &value, sizeof value);
}

static void put_reals(const fb_param *row, void *values, double first, double second)
{
    const double both[2] = {first, second};

    put(row, values, both, row->type == FB_PARAM_PAIR ? sizeof both : sizeof both[0]);
}

void fb_params_init(const fb_param *rows, void *values)
{
    for (const fb_param *row = rows; row != NULL && row->name != NULL; row++) {
        if (row->type == FB_PARAM_INT || row->type == FB_PARAM_WORD)
            put_int(row, values, (int64_t)row->initial);
        else
            put_reals(row, values, row->initial, row->second);
    }
}

/* --- words: "avg|max" --- */

/* The `index`-th word and its length; NULL behind the last. */
static const char *word_at(const char *words, int64_t index, size_t *n_out)
{
    for (; index > 0; index--) {
        words = strchr(words, '|');
        if (words == NULL) return NULL;
        words++;
    }
    *n_out = strcspn(words, "|");
    return words;
}

static bool find_word(const char *words, const char *text, int64_t *index_out)
{
    const char *word;
    size_t n;

    for (int64_t i = 0; (word = word_at(words, i, &n)) != NULL; i++) {
        if (strlen(text) != n || memcmp(word, text, n) != 0) continue;
        *index_out = i;
        return true;
    }
    return false;
}

/* --- printing --- */

/* Whole numbers in full, others as short as reads back. */
static void print_real(fb_text *out, double value)
{
    if (fabs(value) < 1e15 && value == floor(value))
        fb_text_printf(out, "%.0f", value + 0.0); /* no minus zero */
    else
        fb_text_add_real(out, value);
}

void fb_param_print_value(const fb_param *row, const void *values, fb_text *out)
{
    const char *word;
    size_t n = 0;

    switch (row->type) {
    case FB_PARAM_INT:
        fb_text_printf(out, "%lld", (long long)get_int(row, values));
        break;
    case FB_PARAM_REAL:
        print_real(out, get_real(row, values, 0));
        break;
    case FB_PARAM_WORD:
        word = word_at(row->words, get_int(row, values), &n);
        FB_ASSERT(word != NULL);
        fb_text_add(out, word, n);
        break;
    case FB_PARAM_PAIR:
        print_real(out, get_real(row, values, 0));
        fb_text_puts(out, "/");
        print_real(out, get_real(row, values, 1));
        break;
    }
}

void fb_param_print_range(const fb_param *row, fb_text *out)
{
    const char *word;
    size_t n = 0;

    if (row->type == FB_PARAM_WORD) {
        for (int64_t i = 0; (word = word_at(row->words, i, &n)) != NULL; i++) {
            fb_text_puts(out, i == 0 ? "" : word[n] == '|' ? ", " : " or ");
            fb_text_add(out, word, n);
        }
        return;
    }
    print_real(out, row->low);
    fb_text_puts(out, " to ");
    print_real(out, row->high);
    if (row->type == FB_PARAM_PAIR) fb_text_puts(out, " each");
}

void fb_params_print(const fb_param *rows, const void *values, fb_text *out)
{
    for (const fb_param *row = rows; row != NULL && row->name != NULL; row++) {
        fb_text_printf(out, "%s%s=", row == rows ? "" : ",", row->name);
        fb_param_print_value(row, values, out);
    }
}

static void print_json_value(const fb_param *row, const void *values, fb_text *out)
{
    switch (row->type) {
    case FB_PARAM_INT:
    case FB_PARAM_REAL:
        fb_param_print_value(row, values, out);
        break;
    case FB_PARAM_WORD: /* words are of our own tables: nothing to escape */
        fb_text_puts(out, "\"");
        fb_param_print_value(row, values, out);
        fb_text_puts(out, "\"");
        break;
    case FB_PARAM_PAIR:
        fb_text_puts(out, "[");
        print_real(out, get_real(row, values, 0));
        fb_text_puts(out, ", ");
        print_real(out, get_real(row, values, 1));
        fb_text_puts(out, "]");
        break;
    }
}

void fb_params_print_json(const fb_param *rows, const void *values, fb_text *out)
{
    fb_text_puts(out, "{");
    for (const fb_param *row = rows; row != NULL && row->name != NULL; row++) {
        fb_text_printf(out, "%s\"%s\": ", row == rows ? "" : ", ", row->name);
        print_json_value(row, values, out);
    }
    fb_text_puts(out, "}");
}

/* --- setting --- */

/* "window=0 is out of range; 1 to 4096" */
static fb_status refuse(const fb_param *row, const char *value, const char *why)
{
    fb_text range;
    fb_status status;

    fb_text_init(&range, MOST_SENTENCE);
    fb_param_print_range(row, &range);
    status = fb_fail(FB_USAGE, "%s=%.80s %s; %s", row->name, value, why,
                     fb_text_string(&range));
    fb_text_clear(&range);
    return status;
}

static fb_status set_int(const fb_param *row, void *values, const char *text)
{
    int64_t value;

    if (!fb_parse_int(text, &value)) return refuse(row, text, "is not a whole number");
    if ((double)value < row->low || (double)value > row->high)
        return refuse(row, text, "is out of range");
    put_int(row, values, value);
    return FB_OK;
}

static bool is_within(const fb_param *row, double value)
{
    return value >= row->low && value <= row->high;
}

static fb_status set_real(const fb_param *row, void *values, const char *text)
{
    double value;

    if (!fb_parse_real(text, &value)) return refuse(row, text, "is not a number");
    if (!is_within(row, value)) return refuse(row, text, "is out of range");
    put_reals(row, values, value, 0);
    return FB_OK;
}

static fb_status set_pair(const fb_param *row, void *values, const char *text)
{
    const char *slash = strchr(text, '/');
    char first[64] = "";
    double a, b;

    if (slash != NULL && (size_t)(slash - text) < sizeof first)
        memcpy(first, text, (size_t)(slash - text));
    if (slash == NULL || !fb_parse_real(first, &a) || !fb_parse_real(slash + 1, &b))
        return refuse(row, text, "is not two numbers written x/y");
    if (!is_within(row, a) || !is_within(row, b))
        return refuse(row, text, "is out of range");
    if (a == 0 && b == 0) return refuse(row, text, "has no number that is not 0");
    put_reals(row, values, a, b);
    return FB_OK;
}

static fb_status set_word(const fb_param *row, void *values, const char *text)
{
    int64_t index;

    if (!find_word(row->words, text, &index))
        return refuse(row, text, "is not one of its words");
    put_int(row, values, index);
    return FB_OK;
}

/* "unknown parameter 'windw'; did you mean 'window'? it has window, kernel" */
static fb_status refuse_key(const fb_param *rows, const char *key)
{
    const char *names[MOST_ROWS] = {NULL}, *nearest;
    fb_text all;
    fb_status status;
    int n = 0;

    fb_text_init(&all, MOST_SENTENCE);
    for (; rows != NULL && rows[n].name != NULL && n < MOST_ROWS; n++) {
        names[n] = rows[n].name;
        fb_text_printf(&all, "%s%s", n == 0 ? "" : ", ", names[n]);
    }
    nearest = fb_nearest_word(key, names, n);
    status =
        fb_fail(FB_USAGE, "unknown parameter '%.80s'; %s%s%sit has %s", key,
                nearest == NULL ? "" : "did you mean '", nearest == NULL ? "" : nearest,
                nearest == NULL ? "" : "'? ", n == 0 ? "none" : fb_text_string(&all));
    fb_text_clear(&all);
    return status;
}

fb_status fb_params_set(const fb_param *rows, void *values, const char *key,
                        const char *text)
{
    const fb_param *row = rows;

    while (row != NULL && row->name != NULL && strcmp(row->name, key) != 0)
        row++;
    if (row == NULL || row->name == NULL) return refuse_key(rows, key);
    switch (row->type) {
    case FB_PARAM_INT:
        return set_int(row, values, text);
    case FB_PARAM_REAL:
        return set_real(row, values, text);
    case FB_PARAM_PAIR:
        return set_pair(row, values, text);
    case FB_PARAM_WORD:
        break;
    }
    return set_word(row, values, text);
}
