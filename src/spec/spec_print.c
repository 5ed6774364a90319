/* spec_print.c - the effective text of an experiment, its hash, and what two of them
 * differ in.
 *
 * Lists of rules and tasks are written as quoted texts in canonical form, so that the
 * file reads back to the same hash.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "spec/spec_inside.h"

#include <stdio.h>
#include <string.h>

/* --- one value --- */

/* Plain where YAML and our rows agree that it is one word, else quoted. */
static void add_scalar(fb_text *out, const char *text)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "_./+%-";

    if (text[0] != '\0' && text[0] != '-' && text[0] != '%' &&
        strspn(text, plain) == strlen(text))
        fb_text_puts(out, text);
    else
        fb_json_add_string(out, text);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

void fb_spec_print_task(const fb_spec *spec, int task, bool for_people, fb_text *out)
{
    const fb_bound_task *bound = spec->tasks[task];
    const char *data = fb_bound_task_data(bound);
    const size_t before = out->n;

    fb_bound_task_print(bound, out);
    if (data == NULL || out->failed) return;
    fb_text_printf(out, "%cdata=%s,sha256=%s",
                   strchr(out->bytes + before, ':') == NULL ? ':' : ',',
                   for_people ? data : base_name(data),
                   fb_bound_task_data_sha256(bound));
}

/* The i-th item of a setting in canonical form. */
static void add_item(const fb_spec *spec, int row, int i, bool for_people, fb_text *out)
{
    const fb_value *value = &spec->values.value[row];
    char text[64];

    switch (row) {
    case FB_SET_rules:
        fb_text_printf(out, "%s: %s", spec->rules[i].label,
                       fb_bound_rule_text(spec->rules[i].rule));
        break;
    case FB_SET_rule_files:
        fb_text_printf(out, "%s,sha256=%s",
                       for_people ? spec->files.file[i]->path
                                  : base_name(spec->files.file[i]->path),
                       spec->files.file[i]->sha256);
        break;
    case FB_SET_tasks:
        fb_spec_print_task(spec, i, for_people, out);
        break;
    case FB_SET_budgets:
        fb_budget_print(&spec->budgets[i], text, sizeof text);
        fb_text_puts(out, text);
        break;
    case FB_SET_baseline:
        fb_text_puts(out, spec->baseline);
        break;
    case FB_SET_model:
        fb_text_puts(out, for_people ? value->items[i].text
                                     : base_name(value->items[i].text));
        break;
    default:
        fb_text_puts(out, i < value->n ? value->items[i].text : "");
        break;
    }
}

static int n_items(const fb_spec *spec, int row)
{
    switch (row) {
    case FB_SET_rules:
        return spec->n_rules;
    case FB_SET_rule_files:
        return spec->files.n;
    case FB_SET_tasks:
        return spec->n_tasks;
    case FB_SET_budgets:
        return spec->n_budgets;
    default:
        return spec->values.value[row].n;
    }
}

static void add_quoted_item(const fb_spec *spec, int row, int i, bool for_people,
                            fb_text *out)
{
    fb_text item = {0};

    fb_text_init(&item, 0);
    add_item(spec, row, i, for_people, &item);
    add_scalar(out, fb_text_string(&item));
    if (item.failed) out->failed = true;
    fb_text_clear(&item);
}

static const char *origin_name(fb_origin origin)
{
    static const char *const names[] = {"default", "file", "environment",
                                        "command line"};

    return names[origin];
}

static void add_origin(const fb_spec *spec, int row, fb_text *out)
{
    const bool is_by_rules = row == FB_SET_rule_files && spec->values.value[row].n == 0;
    const int named = is_by_rules ? FB_SET_rules : row;

    fb_text_printf(out, "   # %s", origin_name(spec->values.value[named].origin));
    if (fb_settings()[row].unhashed) fb_text_puts(out, ", not hashed");
}

static void add_setting(const fb_spec *spec, int row, bool for_people, fb_text *out)
{
    const fb_option *option = &fb_settings()[row];
    const char *dot = strrchr(option->key, '.');
    const bool is_block = option->type == FB_TYPE_RULES ||
                          option->type == FB_TYPE_TASKS || row == FB_SET_rule_files;

    if (is_block && n_items(spec, row) == 0) return;
    fb_text_printf(out, "%s%s:", dot == NULL ? "" : "  ",
                   dot == NULL ? option->key : dot + 1);
    if (!fb_option_is_list(option)) {
        fb_text_puts(out, " ");
        add_quoted_item(spec, row, 0, for_people, out);
    } else if (!is_block) {
        fb_text_puts(out, " [");
        for (int i = 0; i < n_items(spec, row); i++) {
            if (i > 0) fb_text_puts(out, ", ");
            add_quoted_item(spec, row, i, for_people, out);
        }
        fb_text_puts(out, "]");
    }
    if (for_people) add_origin(spec, row, out);
    fb_text_puts(out, "\n");
    for (int i = 0; is_block && i < n_items(spec, row); i++) {
        fb_text_puts(out, "  - ");
        add_quoted_item(spec, row, i, for_people, out);
        fb_text_puts(out, "\n");
    }
}

/* --- the whole --- */

static bool is_printed(int row, bool for_people)
{
    const fb_option *option = &fb_settings()[row];

    return option->type != FB_TYPE_LATER && (for_people || !option->unhashed);
}

static size_t section_length(int row)
{
    const char *key = fb_settings()[row].key;
    const char *dot = strrchr(key, '.');

    return dot == NULL ? 0 : (size_t)(dot - key);
}

static bool same_section(int a, int b)
{
    const size_t n = section_length(a);

    return n == section_length(b) &&
           strncmp(fb_settings()[a].key, fb_settings()[b].key, n) == 0;
}

/* True if an earlier row has opened the section of `row`. */
static bool section_is_done(int row, bool for_people)
{
    for (int i = 0; i < row; i++)
        if (section_length(row) > 0 && is_printed(i, for_people) &&
            same_section(i, row))
            return true;
    return false;
}

fb_status fb_spec_print(const fb_spec *spec, bool for_people, fb_text *out)
{
    for (int row = 0; row < FB_SET_COUNT; row++) {
        if (!is_printed(row, for_people) || section_is_done(row, for_people)) continue;
        if (section_length(row) == 0) {
            add_setting(spec, row, for_people, out);
            continue;
        }
        fb_text_printf(out, "%.*s:\n", (int)section_length(row),
                       fb_settings()[row].key);
        for (int i = row; i < FB_SET_COUNT; i++)
            if (is_printed(i, for_people) && same_section(i, row))
                add_setting(spec, i, for_people, out);
    }
    return fb_text_status(out);
}

/* --- differences --- */

enum { MOST = 60 };

/* The items of a setting as one text. */
static void join(const fb_spec *spec, int row, fb_text *out)
{
    const fb_value *value = &spec->values.value[row];

    for (int i = 0; i < value->n; i++)
        fb_text_printf(out, "%s%s", i > 0 ? "," : "", value->items[i].text);
}

/* Files of other names and the same hashes are no change. */
static bool is_renamed(const fb_spec *a, const fb_spec *b, int row)
{
    const char *hash = fb_values_text(&a->values, FB_SET_model_sha256);
    const fb_value *x = &a->values.value[row], *y = &b->values.value[row];

    if (row == FB_SET_model)
        return strcmp(hash, "auto") != 0 &&
               fb_values_is(&b->values, FB_SET_model_sha256, hash);
    if ((row != FB_SET_tasks && row != FB_SET_rule_files) || x->n != y->n) return false;
    for (int i = 0; i < x->n; i++)
        if (!(row == FB_SET_tasks ? fb_spec_is_same_task : fb_spec_is_same_file)(
                x->items[i].text, y->items[i].text))
            return false;
    return true;
}

/* Where two texts begin to differ: behind a comma, with the name of the data before its
 * hash. */
static size_t difference(const char *a, const char *b)
{
    size_t start = 0;

    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
        if (a[i] == ',' && strncmp(a + i, ",sha256=", 8) != 0) start = i + 1;
    return start;
}

/* A long text from `start` on. */
static void add_short(fb_text *out, const char *text, size_t start)
{
    if (strlen(text) > MOST && start > 0) fb_text_puts(out, "...");
    if (strlen(text) > MOST) text += start;
    if (strlen(text) <= MOST)
        fb_text_puts(out, text[0] == '\0' ? "nothing" : text);
    else
        fb_text_printf(out, "%.*s...", MOST - 3, text);
}

static void add_difference(fb_text *out, const char *before, const char *after)
{
    const size_t start = difference(before, after);

    add_short(out, before, start);
    fb_text_puts(out, " -> ");
    add_short(out, after, start);
}

static void add_change(const fb_spec *a, const fb_spec *b, int row, fb_text *out)
{
    const char *key = fb_settings()[row].key;
    const char *dot = strrchr(key, '.');
    fb_text before = {0}, after = {0};

    fb_text_init(&before, 0);
    fb_text_init(&after, 0);
    join(a, row, &before);
    join(b, row, &after);
    if (strcmp(fb_text_string(&before), fb_text_string(&after)) != 0) {
        fb_text_printf(out, "%s%s changed (", out->n > 0 ? ", " : "",
                       dot == NULL || row == FB_SET_model ? key : dot + 1);
        add_difference(out, fb_text_string(&before), fb_text_string(&after));
        fb_text_puts(out, ")");
    }
    fb_text_clear(&before);
    fb_text_clear(&after);
}

static bool is_of_backend(int row)
{
    return row == FB_SET_device || row == FB_SET_precision || row == FB_SET_name ||
           row == FB_SET_question;
}

static fb_status changes(const char *before, const char *after, bool with_backend,
                         fb_text *out)
{
    fb_spec a = {0}, b = {0};
    fb_status status = fb_spec_init(&a);

    if (status == FB_OK) status = fb_spec_init(&b);
    if (status == FB_OK) status = fb_spec_parse(&a, "before", before, strlen(before));
    if (status == FB_OK) status = fb_spec_parse(&b, "after", after, strlen(after));
    for (int row = 0; status == FB_OK && row < FB_SET_COUNT; row++)
        if (is_printed(row, false) && !is_renamed(&a, &b, row) &&
            (with_backend || !is_of_backend(row)))
            add_change(&a, &b, row, out);
    if (status == FB_OK) status = fb_text_status(out);
    fb_spec_clear(&a);
    fb_spec_clear(&b);
    return status;
}

fb_status fb_spec_changes(const char *before, const char *after, fb_text *out)
{
    return changes(before, after, true, out);
}

fb_status fb_spec_changes_besides_backend(const char *before, const char *after,
                                          fb_text *out)
{
    return changes(before, after, false, out);
}
