/* peer_expand.c - a name of another project becomes an expression.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/peer_call.h"

#include "base/check.h"

#include <string.h>

/* The value of a row's argument; false: there is none, or it is another than the row has. */
static bool value_of(const fb_call *c, const fb_peer_argument *a, char *out,
                     size_t most)
{
    const fb_given *g = fb_call_find(c, a->name);

    if (g == NULL) {
        fb_peer_copy(out, most, a->value, strlen(a->value));
        return !a->is_given;
    }
    fb_peer_copy(out, most, g->value, g->n_value);
    return !a->is_fixed || fb_peer_same_value(out, a->value);
}

static bool fits(const fb_peer *peer, const fb_call *c)
{
    const char *at = peer->arguments;
    fb_peer_argument a;
    char value[128];

    while (fb_peer_next_argument(&at, &a))
        if (!value_of(c, &a, value, sizeof value)) return false;
    return true;
}

/* Why no row of this name fits: of the first. */
static fb_status no_row(fb_call *c, const fb_peer *peer, const char *name_at)
{
    const char *at = peer->arguments;
    fb_peer_argument a;
    char value[128];

    while (fb_peer_next_argument(&at, &a)) {
        const fb_given *g = fb_call_find(c, a.name);

        if (value_of(c, &a, value, sizeof value)) continue;
        if (g == NULL)
            return fb_call_fail(
                c, name_at, strlen(c->name),
                fb_fail(FB_USAGE, "'%s' needs %s=...%s", c->name, a.name,
                        strcmp(a.name, "press") == 0 ? ", the press that it goes around"
                                                     : ""));
        if (strcmp(a.name, "seed") == 0)
            return fb_call_fail(c, g->at, strlen(a.name),
                                fb_fail(FB_USAGE,
                                        "seeds are the experiment's: leave '%s' "
                                        "out and give --seeds %s",
                                        a.name, value));
        return fb_call_fail(c, g->at, strlen(a.name),
                            fb_fail(FB_UNSUPPORTED,
                                    "'%s' with %s=%s is not there; with %s=%s it is",
                                    c->name, a.name, value, a.name, a.value));
    }
    return FB_OK;
}

/* --- writing --- */

/* A press inside: with the project in front it is read as one of its own. */
static fb_status add_press(fb_call *c, const fb_given *g, fb_text *out)
{
    char name[64];
    const fb_peer *inner;

    fb_peer_copy(name, sizeof name, g->value, fb_call_word(g->value));
    inner = fb_peer_named(c->project, name);
    if (inner == NULL) return fb_call_unknown(c, name, g->value);
    if (inner->kind == FB_PEER_REFUSED)
        return fb_call_fail(c, g->value, strlen(name), fb_peer_refuse(inner));
    if (inner->kind != FB_PEER_SCORER)
        return fb_call_fail(
            c, g->value, strlen(name),
            fb_fail(FB_UNSUPPORTED,
                    "'%s' around '%s' keeps what no expression here does", c->name,
                    name));
    fb_text_printf(out, "%s:%.*s", c->project->name, (int)g->n_value, g->value);
    return FB_OK;
}

static fb_status add_value(fb_call *c, const fb_peer *peer, const char *name,
                           size_t n_name, fb_text *out)
{
    const char *at = peer->arguments;
    fb_peer_argument a;
    char value[128], word[128];

    while (fb_peer_next_argument(&at, &a)) {
        if (strlen(a.name) != n_name || memcmp(a.name, name, n_name) != 0) continue;
        if (strcmp(a.name, "press") == 0)
            return add_press(c, fb_call_find(c, a.name), out);
        (void)value_of(c, &a, value, sizeof value);
        fb_peer_plain(word, sizeof word, value);
        fb_text_puts(out, word);
    }
    return FB_OK;
}

static fb_status write_expression(fb_call *c, const fb_peer *peer, fb_text *out)
{
    const char *at;

    FB_ASSERT(peer != NULL);
    at = peer->expression;

    while (*at != '\0') {
        const size_t n = strcspn(at, "{");

        fb_text_add(out, at, n);
        at += n;
        if (*at == '\0') break;
        FB_TRY(add_value(c, peer, at + 1, strcspn(at + 1, "}"), out));
        at += strcspn(at, "}") + 1;
    }
    return fb_text_status(out);
}

/* The row that fits what was given. */
static fb_status choose(fb_call *c, const char *name_at, const fb_peer **out)
{
    const fb_peer *first = fb_peer_named(c->project, c->name);

    if (first == NULL) return fb_call_unknown(c, c->name, name_at);
    if (first->kind == FB_PEER_REFUSED)
        return fb_call_fail(c, name_at, strlen(c->name), fb_peer_refuse(first));
    FB_TRY(fb_call_check(c, first));
    for (int i = 0; i < fb_peer_count(); i++) {
        *out = fb_peer_at(i);
        if (strcmp((*out)->project, c->project->name) == 0 &&
            strcmp((*out)->name, c->name) == 0 && fits(*out, c))
            return FB_OK;
    }
    return no_row(c, first, name_at);
}

fb_status fb_peer_expand(const fb_peer **out, fb_text *expression,
                         const fb_peer_project *project, const char **at,
                         const char **bad, size_t *n_bad)
{
    fb_call c = {.project = project};
    const char *name_at = *at = fb_call_blanks(*at);
    fb_status status = FB_OK;

    *out = NULL;
    fb_peer_copy(c.name, sizeof c.name, name_at, fb_call_word(name_at));
    *at += strlen(c.name);
    if (c.name[0] == '\0')
        status = fb_call_fail(&c, name_at, 1,
                              fb_fail(FB_USAGE, "expected a name of %s, as in '%s:%s'",
                                      project->title, project->name,
                                      fb_peer_first(project)->name));
    if (status == FB_OK && **at == '(') status = fb_call_read(&c, at);
    if (status == FB_OK) status = choose(&c, name_at, out);
    if (status == FB_OK) status = write_expression(&c, *out, expression);
    *bad = c.bad;
    *n_bad = c.n_bad;
    return status;
}
