/* peer_notes.c - what rules in another project's words leave to the experiment: said, not
 * set.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/peer_notes.h"
#include "base/memory.h"
#include "rule/peer.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 8, MOST_NOTE = 1024 };

/* "KEY=VALUE" [n], KEY by the name of its option. One that is not among the options
 * cannot be given. */
static bool holds(const fb_option *rows, const fb_values *values, const char *setting,
                  size_t n)
{
    char key[32];
    const char *value;
    const size_t n_key = strcspn(setting, "=");

    (void)snprintf(key, sizeof key, "%.*s", (int)n_key, setting);
    for (int i = 0; i < FB_SET_COUNT; i++) {
        if (rows[i].name == NULL || strcmp(rows[i].name, key) != 0) continue;
        value = fb_values_text(values, i);
        return strlen(value) == n - n_key - 1 &&
               memcmp(value, setting + n_key + 1, n - n_key - 1) == 0;
    }
    return true;
}

void fb_peer_add_missing(const fb_option *rows, const fb_values *values,
                         const char *settings, const char *own, fb_text *out)
{
    while (*settings != '\0') {
        const size_t n = strcspn(settings, " ");
        const int key = (int)strcspn(settings, "=");
        char word[32];

        (void)snprintf(word, sizeof word, "%.*s=", key, settings);
        if (strstr(own, word) == NULL && !holds(rows, values, settings, n))
            fb_text_printf(out, "%s--%.*s %.*s", out->n == 0 ? "" : " ", key, settings,
                           (int)n - key - 1, settings + key + 1);
        settings += n + (settings[n] == ' ');
    }
}

/* " with --protect published; but ...": nothing if all is as there. */
static void add_note(const fb_line *line, const fb_bound_rule *rule, fb_text *out)
{
    fb_option rows[FB_SET_COUNT + 1];
    const fb_values *values = &line->spec->values;
    const fb_peer *named[MOST_NAMED];
    const int n = fb_bound_rule_peers(rule, named, MOST_NAMED);
    fb_text missing = {0};

    if (n == 0) return;
    fb_command_settings(line->command, rows);
    fb_peer_add_missing(rows, values, fb_peer_project_find(named[0]->project)->settings,
                        named[0]->settings, &missing);
    for (int i = 0; i < n; i++)
        fb_peer_add_missing(rows, values, named[i]->settings, "", &missing);
    if (missing.n > 0) fb_text_printf(out, " with %s", fb_text_string(&missing));
    for (int i = 0; i < n; i++)
        if (named[i]->remark[0] != '\0')
            fb_text_printf(out, "%s; but %s", out->n == 0 ? " so" : "",
                           named[i]->remark);
    fb_text_clear(&missing);
}

/* Rules with the same note share a line. */
static void say_group(const fb_spec *spec, const fb_text *notes, int first)
{
    const fb_peer *peer = NULL;
    fb_text labels;

    fb_text_init(&labels, MOST_NOTE);
    for (int i = 0; i < spec->n_rules; i++) {
        if (strcmp(fb_text_string(&notes[i]), fb_text_string(&notes[first])) != 0)
            continue;
        if (i < first) break; /* has been said */
        if (i == first) (void)fb_bound_rule_peers(spec->rules[i].rule, &peer, 1);
        fb_text_printf(&labels, "%s'%s'", i == first ? "" : ", ", spec->rules[i].label);
    }
    if (labels.n > 0 && peer != NULL)
        fb_say_note("note: %s runs %s%s", fb_peer_project_find(peer->project)->title,
                    fb_text_string(&labels), fb_text_string(&notes[first]));
    fb_text_clear(&labels);
}

void fb_say_peers(const fb_line *line)
{
    const fb_spec *spec = line->spec;
    fb_text *notes = fb_zalloc(FB_ACCOUNT_other,
                               fb_size_mul((size_t)spec->n_rules + 1, sizeof *notes));

    for (int i = 0; notes != NULL && i < spec->n_rules; i++) {
        fb_text_init(&notes[i], MOST_NOTE);
        add_note(line, spec->rules[i].rule, &notes[i]);
    }
    for (int i = 0; notes != NULL && i < spec->n_rules; i++)
        if (notes[i].n > 0) say_group(spec, notes, i);
    for (int i = 0; notes != NULL && i < spec->n_rules; i++)
        fb_text_clear(&notes[i]);
    fb_free(notes);
}
