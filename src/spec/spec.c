/* spec.c - the table of settings, and the values they take from everywhere.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "spec/spec_inside.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const fb_option settings[] = {
#define FB_SETTING(id, key_, name_, letter_, type_, initial_, low_, high_, words_,     \
                   later_, argument_, group_, unhashed_, help_)                        \
    [FB_SET_##id] = {.key = (key_),                                                    \
                     .name = (name_),                                                  \
                     .letter = (letter_),                                              \
                     .type = FB_TYPE_##type_,                                          \
                     .initial = (initial_),                                            \
                     .low = (low_),                                                    \
                     .high = (high_),                                                  \
                     .words = (words_),                                                \
                     .later = (later_),                                                \
                     .argument = (argument_),                                          \
                     .group = (group_),                                                \
                     .help = (help_),                                                  \
                     .unhashed = (unhashed_)},
#include "spec/list.h"
#undef FB_SETTING
    [FB_SET_COUNT] = FB_OPTION_END,
};

const fb_option *fb_settings(void)
{
    return settings;
}

fb_status fb_spec_init(fb_spec *spec)
{
    *spec = (fb_spec){0};
    return fb_values_init(&spec->values, settings);
}

void fb_spec_clear(fb_spec *spec)
{
    fb_spec_forget(spec);
    fb_values_clear(&spec->values);
    fb_yaml_free(spec->yaml);
    *spec = (fb_spec){0};
}

/* `--compute cap:5%` is compute.mode and compute.quota. */
static fb_status assign_compute(fb_spec *spec, fb_origin origin, const char *text)
{
    const char *colon = strchr(text, ':');
    char *mode;
    fb_status status;

    if (colon == NULL)
        return fb_values_set(&spec->values, FB_SET_compute, origin, text);
    mode = fb_strdup(text);
    if (mode == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an option");
    mode[colon - text] = '\0';
    status = fb_values_set(&spec->values, FB_SET_compute, origin, mode);
    if (status == FB_OK)
        status = fb_values_set(&spec->values, FB_SET_quota, origin, colon + 1);
    fb_free(mode);
    return status;
}

fb_status fb_spec_assign(fb_spec *spec, fb_setting setting, fb_origin origin,
                         const char *text)
{
    if (setting == FB_SET_compute) return assign_compute(spec, origin, text);
    return fb_values_set(&spec->values, (int)setting, origin, text);
}

/* --- the environment --- */

enum { NAME_MAX_BYTES = 64 };
#define PREFIX "FLEXBUDGET_"

/* Read elsewhere: the folder of models, and what tests are told with. */
static const char *const other_names[] = {PREFIX "MODELS",    PREFIX "PROGRAM",
                                          PREFIX "BUILD",     PREFIX "TEST_MODEL",
                                          PREFIX "TEST_LONG", PREFIX "TEST_SEED"};
enum { N_OTHERS = sizeof other_names / sizeof *other_names };

/* False for a setting that is no option. */
static bool print_variable(const fb_option *row, char out[NAME_MAX_BYTES])
{
    size_t n = sizeof PREFIX - 1;

    if (row->name == NULL) return false;
    memcpy(out, PREFIX, n);
    for (const char *c = row->name; *c != '\0' && n + 1 < NAME_MAX_BYTES; c++)
        out[n++] = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
    out[n] = '\0';
    return true;
}

fb_status fb_spec_environment(fb_spec *spec)
{
    for (int i = 0; i < FB_SET_COUNT; i++) {
        char name[NAME_MAX_BYTES];
        const char *text;

        if (!print_variable(&settings[i], name)) continue;
        text = getenv(name);
        if (text == NULL || text[0] == '\0') continue;
        FB_TRY(
            fb_context(fb_spec_assign(spec, (fb_setting)i, FB_FROM_ENVIRONMENT, text),
                       "%s", name));
    }
    return FB_OK;
}

static void report_unknown(const char *name, const char *const *known, int n,
                           fb_report *report, void *self)
{
    const char *nearest = fb_nearest_word(name, known, n);
    char sentence[256];

    for (int i = 0; i < n; i++)
        if (strcmp(known[i], name) == 0) return;
    if (nearest != NULL)
        (void)snprintf(sentence, sizeof sentence,
                       "the environment's %.80s is not read; did you mean %s?", name,
                       nearest);
    else
        (void)snprintf(sentence, sizeof sentence,
                       "the environment's %.80s is not read; 'flexbudget help run' has "
                       "the options",
                       name);
    report(self, sentence);
}

void fb_spec_unknown_environment(fb_report *report, void *self)
{
    char names[FB_SET_COUNT][NAME_MAX_BYTES];
    const char *known[FB_SET_COUNT + N_OTHERS];
    int n = 0;

    for (int i = 0; i < FB_SET_COUNT; i++)
        if (print_variable(&settings[i], names[i])) known[n++] = names[i];
    for (int i = 0; i < N_OTHERS; i++)
        known[n++] = other_names[i];
    for (char **entry = environ; *entry != NULL; entry++) {
        char name[2 * NAME_MAX_BYTES];

        if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) != 0) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        report_unknown(name, known, n, report, self);
    }
}

static fb_status set_key(fb_spec *spec, const char *key, const char *text)
{
    const int row = fb_option_find_key(settings, key);

    if (row < 0) return fb_spec_unknown_key(key);
    if (spec->values.value[row].origin == FB_FROM_COMMAND)
        return fb_fail(FB_USAGE, "--set %s: the key is given twice", key);
    return fb_context(fb_spec_assign(spec, (fb_setting)row, FB_FROM_COMMAND, text),
                      "--set %s", key);
}

fb_status fb_spec_set(fb_spec *spec, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    char *key;
    fb_status status;

    if (equals == NULL)
        return fb_fail(FB_USAGE, "--set %s: write KEY=VALUE as protocol.query=aware",
                       assignment);
    key = fb_strdup(assignment);
    if (key == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an option");
    key[equals - assignment] = '\0';
    status = set_key(spec, key, equals + 1);
    fb_free(key);
    return status;
}

fb_status fb_spec_unknown_key(const char *key)
{
    const char *keys[FB_SET_COUNT];
    const char *nearest;

    for (int i = 0; i < FB_SET_COUNT; i++)
        keys[i] = settings[i].key;
    nearest = fb_nearest_word(key, keys, FB_SET_COUNT);
    if (nearest == NULL)
        return fb_fail(FB_USAGE,
                       "unknown key '%s'\nhelp: flexbudget run --print-config "
                       "shows all keys",
                       key);
    return fb_fail(FB_USAGE, "unknown key '%s'; did you mean '%s'?", key, nearest);
}

fb_status fb_spec_fail(const fb_spec *spec, fb_status status, fb_setting setting,
                       int item, const char *format, ...)
{
    const fb_value *value = &spec->values.value[setting];
    char sentence[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (value->origin == FB_FROM_FILE && spec->yaml != NULL && item < value->n)
        return fb_yaml_fail(status, spec->yaml, &value->items[item].place, "%s",
                            sentence);
    return fb_fail(status, "%s", sentence);
}
