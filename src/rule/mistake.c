/* mistake.c - sentences about expressions that cannot be read: where, and what would be
 * right.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/mistake.h"

#include "base/text.h"
#include "rule/peer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE = 1024, SHOWN = 64, MOST_NAMES = 256, MOST_OWNERS = 4 };

fb_status fb_mistake_hint(fb_status status, const char *format, ...)
{
    char sentence[SENTENCE], help[SENTENCE];
    va_list args;

    (void)snprintf(sentence, sizeof sentence, "%s", fb_error_message());
    va_start(args, format);
    (void)vsnprintf(help, sizeof help, format, args);
    va_end(args);
    return fb_fail(status, "%s\nhelp: %s", sentence, help);
}

/* --- the place --- */

/* Characters that begin in the first n bytes. */
static int count_characters(const char *text, size_t n)
{
    int count = 0;

    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* From the character `first` on; what is no text of a line is one '?'. */
static void add_excerpt(fb_text *out, const char *text, int first)
{
    int at = 0;

    for (size_t left = strlen(text), n; left > 0 && at < first + SHOWN;
         text += n, left -= n, at++) {
        n = fb_utf8_length(text, left);
        if (n == 0) n = 1;
        if (at < first) continue;
        if (n > 1 || (*text >= ' ' && *text <= '~'))
            fb_text_add(out, text, n);
        else
            fb_text_puts(out, "?");
    }
    if (*text != '\0') fb_text_puts(out, "...");
}

static void add_picture(fb_text *out, const char *text, const char *at, size_t n)
{
    const int column = count_characters(text, (size_t)(at - text));
    const int width = count_characters(at, n);
    const int first = column + 8 < SHOWN ? 0 : column - SHOWN / 2;

    fb_text_printf(out, "\n    %s", first > 0 ? "..." : "");
    add_excerpt(out, text, first);
    fb_text_printf(out, "\n    %*s^", column - first + (first > 0 ? 3 : 0), "");
    for (int i = 1; i < width && column - first + i < SHOWN; i++)
        fb_text_puts(out, "~");
}

fb_status fb_mistake_show(fb_status status, const char *text, const char *at, size_t n)
{
    char sentence[SENTENCE];
    const char *help;
    fb_text picture;

    if (at == NULL || (status != FB_USAGE && status != FB_UNSUPPORTED)) return status;
    if (n > strlen(at)) n = strlen(at); /* what is missing at the end */
    if (strspn(text, " \t") + n + strspn(at + n, " \t") >= strlen(text)) return status;
    (void)snprintf(sentence, sizeof sentence, "%s", fb_error_message());
    help = strchr(sentence, '\n');
    if (help == NULL) help = sentence + strlen(sentence);
    fb_text_init(&picture, SENTENCE);
    add_picture(&picture, text, at, n);
    status = fb_fail(status, "%.*s%s%s", (int)(help - sentence), sentence,
                     fb_text_string(&picture), help);
    fb_text_clear(&picture);
    return status;
}

/* --- keys --- */

static bool has_key(const fb_rule *rule, const char *key)
{
    const fb_param *row = rule->params;

    while (row != NULL && row->name != NULL && strcmp(row->name, key) != 0)
        row++;
    return row != NULL && row->name != NULL;
}

static const fb_rule *inside(const fb_bound_rule *bound, const char *key)
{
    for (int i = 0; i < bound->n_inner; i++) {
        const fb_rule *deeper = inside(bound->inner[i], key);

        if (deeper != NULL) return deeper;
        if (has_key(bound->inner[i]->rule, key)) return bound->inner[i]->rule;
    }
    return NULL;
}

/* "window is a parameter of snapkv, cake" */
static fb_status name_others(fb_status status, const char *key)
{
    fb_text names;
    int n = 0;

    fb_text_init(&names, SENTENCE);
    for (int r = 0; r < fb_rule_count() && n < MOST_OWNERS; r++)
        if (has_key(fb_rule_at(r), key))
            fb_text_printf(&names, "%s%s", n++ == 0 ? "" : ", ", fb_rule_at(r)->name);
    if (n > 0)
        status = fb_mistake_hint(status, "'%s' is a parameter of %s", key,
                                 fb_text_string(&names));
    fb_text_clear(&names);
    return status;
}

fb_status fb_mistake_key(fb_status status, const fb_bound_rule *bound,
                         const fb_bound_rule *const *around, int n, const char *key)
{
    const fb_rule *inner = inside(bound, key);

    if (inner != NULL)
        return fb_mistake_hint(status,
                               "'%s' is a parameter of '%s', behind its colon: "
                               "'%s(%s:%s=...)'",
                               key, inner->name, bound->rule->name, inner->name, key);
    for (int i = n - 1; i >= 0; i--)
        if (around[i] != NULL && has_key(around[i]->rule, key))
            return fb_mistake_hint(
                status, "'%s' is a parameter of '%s', behind a comma: '%s(%s, %s=...)'",
                key, around[i]->rule->name, around[i]->rule->name, bound->rule->name,
                key);
    return name_others(status, key);
}

/* --- names --- */

/* As names are written here: "SnapKV" is snapkv, "streaming-llm" streaming_llm. */
static void fold(char *out, size_t n, const char *name)
{
    size_t i = 0;

    for (; name[i] != '\0' && i + 1 < n; i++)
        out[i] = name[i] == '-' ? '_' : (char)tolower((unsigned char)name[i]);
    out[i] = '\0';
}

static const char *nearest_name(const fb_rule_files *files, const char *name)
{
    const char *names[MOST_NAMES];
    char folded[64];
    int n = 0;

    for (int r = 0; r < fb_rule_count() && n < MOST_NAMES; r++)
        names[n++] = fb_rule_at(r)->name;
    for (int i = 0; i < fb_preset_count() && n < MOST_NAMES; i++)
        names[n++] = fb_preset_at(i)->name;
    for (int f = 0; files != NULL && f < files->n; f++)
        for (int r = 0; r < files->file[f]->n && n < MOST_NAMES; r++)
            names[n++] = files->file[f]->rules[r].name;
    for (int i = 0; i < fb_refused_count() && n < MOST_NAMES; i++)
        names[n++] = fb_refused_at(i)->name;
    for (int i = 0; i < fb_peer_project_count() && n < MOST_NAMES; i++)
        names[n++] = fb_peer_project_at(i)->name;
    fold(folded, sizeof folded, name);
    return fb_nearest_word(folded, names, n);
}

fb_status fb_mistake_name(const fb_rule_files *files, const char *name)
{
    const char *nearest = nearest_name(files, name);
    const fb_peer_project *project = fb_peer_project_find(name);
    const fb_peer *peer = fb_peer_by_name(name);
    char folded[64];

    fold(folded, sizeof folded, name);
    if (project != NULL)
        return fb_fail(
            FB_USAGE,
            "'%s' is a project, not a rule; a name of it follows a colon, as "
            "in '%s:%s'",
            name, name, fb_peer_first(project)->name);
    if (peer != NULL && fb_rule_find(folded) == NULL && fb_preset_find(folded) == NULL)
        return fb_fail(
            FB_USAGE, "unknown rule '%s'; with this name %s has one, written '%s:%s'",
            name, fb_peer_project_find(peer->project)->title, peer->project, name);
    if (nearest == NULL)
        return fb_fail(FB_USAGE, "unknown rule '%s'\nhelp: flexbudget rules lists them",
                       name);
    return fb_fail(FB_USAGE, "unknown rule '%s'; did you mean '%s'?", name, nearest);
}

fb_status fb_mistake_brackets(const fb_rule *rule, const char *text)
{
    const char *content = text + 1 + strspn(text + 1, " \t");
    const size_t key = strspn(content, "abcdefghijklmnopqrstuvwxyz_0123456789 ");
    const size_t n = strcspn(content, "()");

    if (content[0] == ')' || content[0] == '\0')
        return fb_fail(FB_USAGE, "rule '%s' takes no rules in brackets; write '%s'",
                       rule->name, rule->name);
    if (key > 0 && content[key] == '=' && content[n] != '(' && n < SHOWN)
        return fb_fail(FB_USAGE,
                       "rule '%s' takes no rules in brackets; its settings follow a "
                       "colon: write '%s:%.*s'",
                       rule->name, rule->name, (int)n, content);
    return fb_fail(FB_USAGE,
                   "rule '%s' takes no rules in brackets; settings follow a "
                   "colon, as in '%s:key=value'",
                   rule->name, rule->name);
}
