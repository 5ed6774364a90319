/* rules_names.c - see rules_names.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/rules_names.h"

#include "base/json.h"
#include "cli/cli.h"
#include "rule/peer.h"

#include <string.h>

enum { MOST_NAMED = 8 };

/* --- the list --- */

static void list_refused(fb_text *out)
{
    static const char head[] = "known and not offered: ";
    fb_text names = {0};

    fb_text_init(&names, 0);
    for (int i = 0; i < fb_refused_count(); i++)
        fb_text_printf(&names, "%s%s", i == 0 ? "" : ", ", fb_refused_at(i)->name);
    fb_text_printf(out, "\n%s", head);
    fb_wrap(out, fb_text_string(&names), (int)sizeof head - 1, 2);
    fb_text_printf(out, "why one is not: %s rules %s\n", fb_say_program(),
                   fb_refused_at(0)->name);
    fb_text_clear(&names);
}

void fb_rules_names_list(fb_text *out)
{
    list_refused(out);
    fb_text_printf(out,
                   "\nnames of other projects, as kvpress:SnapKVPress(window_size=32): "
                   "%s rules",
                   fb_say_program());
    for (int i = 0; i < fb_peer_project_count(); i++)
        fb_text_printf(out, "%s%s", i == 0 ? " " : "|", fb_peer_project_at(i)->name);
    fb_text_puts(out, "\n");
}

/* --- JSON --- */

static void add_pair(fb_text *out, const char *key, const char *value)
{
    fb_text_printf(out, ", \"%s\": ", key);
    fb_json_add_string(out, value);
}

static void add_json_refused(const fb_refused *row, fb_text *out)
{
    fb_text_printf(out, "{\"name\": \"%s\"", row->name);
    add_pair(out, "why", row->why);
    add_pair(out, "nearest", row->nearest);
    add_pair(out, "source", row->source);
    fb_text_puts(out, "}");
}

static void add_json_peer(const fb_peer *peer, fb_text *out)
{
    const fb_refused *refused =
        peer->kind == FB_PEER_REFUSED ? fb_refused_find(peer->remark) : NULL;

    fb_text_printf(out, "{\"project\": \"%s\", \"name\": \"%s\"", peer->project,
                   peer->name);
    add_pair(out, "arguments", peer->arguments);
    add_pair(out, "expression", peer->expression == NULL ? "" : peer->expression);
    add_pair(out, "settings", peer->settings);
    add_pair(out, "remark", refused != NULL ? refused->why : peer->remark);
    fb_text_puts(out, "}");
}

void fb_rules_names_json(fb_text *out)
{
    fb_text_puts(out, ", \"refused\": [");
    for (int i = 0; i < fb_refused_count(); i++) {
        fb_text_puts(out, i == 0 ? "\n  " : ",\n  ");
        add_json_refused(fb_refused_at(i), out);
    }
    fb_text_puts(out, "\n], \"peers\": [");
    for (int i = 0; i < fb_peer_count(); i++) {
        fb_text_puts(out, i == 0 ? "\n  " : ",\n  ");
        add_json_peer(fb_peer_at(i), out);
    }
    fb_text_puts(out, "\n]");
}

/* --- one of them --- */

static void explain_refused(const fb_refused *row, fb_text *out)
{
    fb_text_printf(out, "%s - known and not offered\n", row->name);
    if (row->source[0] != '\0') fb_text_printf(out, "source     %s\n", row->source);
    fb_text_printf(out, "why        it %s\n", row->why);
    if (row->nearest[0] != '\0') fb_text_printf(out, "nearest    %s\n", row->nearest);
}

static void add_settings(const char *settings, fb_text *out)
{
    while (*settings != '\0') {
        const size_t n = strcspn(settings, " "), key = strcspn(settings, "=");

        fb_text_printf(out, "--%.*s %.*s", (int)key, settings, (int)(n - key - 1),
                       settings + key + 1);
        settings += n + (settings[n] == ' ');
        if (*settings != '\0') fb_text_puts(out, " ");
    }
}

static void add_row(const fb_peer *peer, fb_text *out)
{
    const fb_refused *refused = fb_refused_find(peer->remark);

    fb_text_printf(out, "%s\t", peer->name);
    if (peer->kind == FB_PEER_REFUSED) {
        fb_text_printf(out, "- it %s\n", refused != NULL ? refused->why : peer->remark);
        return;
    }
    fb_text_puts(out, peer->expression);
    if (peer->settings[0] != '\0') fb_text_puts(out, "  ");
    add_settings(peer->settings, out);
    fb_text_printf(out, "%s%s\n", peer->remark[0] != '\0' ? "; " : "", peer->remark);
}

static void explain_project(const fb_peer_project *project, fb_text *out)
{
    fb_text rows = {0};

    fb_text_init(&rows, 0);
    for (int i = 0; i < fb_peer_count(); i++)
        if (strcmp(fb_peer_at(i)->project, project->name) == 0)
            add_row(fb_peer_at(i), &rows);
    fb_text_printf(out, "%s - names of %s, written %s:NAME(argument=value, ...)\n",
                   project->name, project->title, project->name);
    fb_text_puts(out, "as there   ");
    add_settings(project->settings, out);
    fb_text_puts(out, "\n\n");
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
}

bool fb_rules_names_explain(const char *name, bool is_json, fb_text *out)
{
    const fb_refused *refused = fb_refused_find(name);
    const fb_peer_project *project = fb_peer_project_find(name);

    if (is_json && (refused != NULL || project != NULL)) {
        fb_text_puts(out, "{\"format\": 1");
        fb_rules_names_json(out);
        fb_text_puts(out, "}\n");
    } else if (refused != NULL) {
        explain_refused(refused, out);
    } else if (project != NULL) {
        explain_project(project, out);
    }
    return refused != NULL || project != NULL;
}

void fb_rules_names_stand_for(const char *name, const fb_bound_rule *rule, fb_text *out)
{
    const fb_peer *named[MOST_NAMED];
    const int n = fb_bound_rule_peers(rule, named, MOST_NAMED);

    if (n == 0) return;
    fb_text_printf(out, "%s - in the words of %s\n", name,
                   fb_peer_project_find(named[0]->project)->title);
    fb_text_printf(out, "stands for %s\n", fb_bound_rule_text(rule));
    fb_text_puts(out, "as there   ");
    add_settings(fb_peer_project_find(named[0]->project)->settings, out);
    for (int i = 0; i < n; i++) {
        if (named[i]->settings[0] != '\0') fb_text_puts(out, " ");
        add_settings(named[i]->settings, out);
    }
    fb_text_puts(out, "\n");
    for (int i = 0; i < n; i++)
        if (named[i]->remark[0] != '\0')
            fb_text_printf(out, "but        %s: %s\n", named[i]->name,
                           named[i]->remark);
    fb_text_puts(out, "\n");
}
