/* peer_call.c - reads `name(argument=value, ...)` of another project.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/peer_call.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { MOST_NAMES = 128 };

fb_status fb_call_fail(fb_call *c, const char *at, size_t n, fb_status status)
{
    c->bad = at;
    c->n_bad = n;
    return status;
}

const char *fb_call_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

size_t fb_call_word(const char *at)
{
    size_t n = 0;

    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return n;
}

/* Bytes up to the comma or bracket that ends a value. */
static size_t value_length(const char *at)
{
    size_t n = 0;
    char quote = '\0';

    for (int depth = 0; at[n] != '\0'; n++) {
        if (quote != '\0') {
            if (at[n] == quote) quote = '\0';
        } else if (at[n] == '\'' || at[n] == '"') {
            quote = at[n];
        } else if (strchr("([{", at[n]) != NULL) {
            depth++;
        } else if ((at[n] == ',' && depth == 0) ||
                   (strchr(")]}", at[n]) != NULL && depth-- == 0)) {
            break;
        }
    }
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    return n;
}

static fb_status read_argument(fb_call *c, const char **at)
{
    fb_given *g = &c->given[c->n];
    const char *behind;

    if (c->n == FB_MOST_GIVEN)
        return fb_call_fail(c, *at, 1, fb_fail(FB_USAGE, "too many arguments"));
    *at = fb_call_blanks(*at);
    *g = (fb_given){.at = *at};
    behind = fb_call_blanks(*at + fb_call_word(*at));
    if (*behind == '=') {
        fb_peer_copy(g->name, sizeof g->name, *at, fb_call_word(*at));
        *at = fb_call_blanks(behind + 1);
    }
    g->value = *at;
    g->n_value = value_length(*at);
    if (g->n_value == 0)
        return fb_call_fail(c, *at, 1, fb_fail(FB_USAGE, "expected a value"));
    *at = fb_call_blanks(*at + g->n_value);
    c->n++;
    return FB_OK;
}

fb_status fb_call_read(fb_call *c, const char **at)
{
    const char *open = *at;

    *at = fb_call_blanks(open + 1);
    while (**at != ')') {
        FB_TRY(read_argument(c, at));
        if (**at == '\0')
            return fb_call_fail(
                c, open, 1,
                fb_fail(FB_USAGE,
                        "expected ',' or ')': the bracket behind '%s' stays open",
                        c->name));
        if (**at == ',') *at = fb_call_blanks(*at + 1);
    }
    (*at)++;
    return FB_OK;
}

const fb_given *fb_call_find(const fb_call *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->given[i].name, name) == 0) return &c->given[i];
    return NULL;
}

fb_status fb_call_unknown(fb_call *c, const char *name, const char *at)
{
    const char *names[MOST_NAMES], *nearest;
    int n = 0;

    for (int i = 0; i < fb_peer_count() && n < MOST_NAMES; i++)
        if (strcmp(fb_peer_at(i)->project, c->project->name) == 0)
            names[n++] = fb_peer_at(i)->name;
    nearest = fb_nearest_word(name, names, n);
    for (int i = 0; i < n && nearest == NULL; i++)
        if (strncasecmp(names[i], name, strlen(name)) == 0 && strlen(name) > 2)
            nearest = names[i];
    if (nearest != NULL)
        return fb_call_fail(c, at, strlen(name),
                            fb_fail(FB_USAGE, "%s has no '%s'; did you mean '%s'?",
                                    c->project->title, name, nearest));
    return fb_call_fail(
        c, at, strlen(name),
        fb_fail(FB_USAGE, "%s has no '%s'\nhelp: flexbudget rules %s lists its names",
                c->project->title, name, c->project->name));
}
