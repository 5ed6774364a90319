/* peer.c - the table of names of other projects; the only reader of rules/peers.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/peer_call.h"

#include <string.h>
#include <strings.h>

static const fb_peer_project projects[] = {
#define FB_PEER_PROJECT(name, title, settings, budgets)                                \
    {#name, title, settings, budgets},
#define FB_PEER(project, name, kind, arguments, expression, settings, remark)
#define FB_PEER_REFUSED(project, name, why)
#include "rules/peers.h"
#undef FB_PEER_PROJECT
#undef FB_PEER
#undef FB_PEER_REFUSED
};

static const fb_peer peers[] = {
#define FB_PEER_PROJECT(name, title, settings, budgets)
#define FB_PEER(project, name, kind, arguments, expression, settings, remark)          \
    {#project, #name, FB_PEER_##kind, arguments, expression, settings, remark},
#define FB_PEER_REFUSED(project, name, why)                                            \
    {#project, #name, FB_PEER_REFUSED, "", NULL, "", why},
#include "rules/peers.h"
#undef FB_PEER_PROJECT
#undef FB_PEER
#undef FB_PEER_REFUSED
};

enum {
    N_PROJECTS = sizeof projects / sizeof *projects,
    N_PEERS = sizeof peers / sizeof *peers,
};

int fb_peer_project_count(void)
{
    return N_PROJECTS;
}

const fb_peer_project *fb_peer_project_at(int index)
{
    return &projects[index];
}

const fb_peer_project *fb_peer_project_find(const char *name)
{
    for (int i = 0; i < N_PROJECTS; i++)
        if (strcmp(projects[i].name, name) == 0) return &projects[i];
    return NULL;
}

int fb_peer_count(void)
{
    return N_PEERS;
}

const fb_peer *fb_peer_at(int index)
{
    return &peers[index];
}

static bool is_of(const fb_peer *peer, const fb_peer_project *project)
{
    return strcmp(peer->project, project->name) == 0;
}

const fb_peer *fb_peer_first(const fb_peer_project *project)
{
    const fb_peer *peer = peers;

    while (!is_of(peer, project))
        peer++;
    return peer;
}

const fb_peer *fb_peer_named(const fb_peer_project *project, const char *name)
{
    for (int i = 0; i < N_PEERS; i++)
        if (is_of(&peers[i], project) && strcmp(peers[i].name, name) == 0)
            return &peers[i];
    return NULL;
}

const fb_peer *fb_peer_by_name(const char *name)
{
    for (int i = 0; i < N_PEERS; i++)
        if (strcasecmp(peers[i].name, name) == 0) return &peers[i];
    return NULL;
}

fb_status fb_peer_refuse(const fb_peer *peer)
{
    const fb_refused *known = fb_refused_find(peer->remark);

    if (known != NULL) return fb_refused_fail(known, peer->name);
    return fb_fail(FB_UNSUPPORTED, "'%s' %s", peer->name, peer->remark);
}

/* --- arguments of a row, values --- */

void fb_peer_copy(char *out, size_t most, const char *text, size_t n)
{
    if (n >= most) n = most - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

bool fb_peer_next_argument(const char **at, fb_peer_argument *out)
{
    const char *value = *at + strcspn(*at, "=:,");
    const char *end = *at + strcspn(*at, ",");

    if (**at == '\0') return false;
    *out = (fb_peer_argument){.is_given = *value != '='};
    fb_peer_copy(out->name, sizeof out->name, *at, (size_t)(value - *at));
    out->is_fixed = *value == ':' || (value[0] == '=' && value[1] == '=');
    if (value < end) {
        value += *value == '=' && value[1] == '=' ? 2 : 1;
        fb_peer_copy(out->value, sizeof out->value, value, (size_t)(end - value));
    }
    *at = end + (*end == ',');
    return true;
}

/* Python's words as ours: True is 1, 'word' is word. */
void fb_peer_plain(char *out, size_t most, const char *text)
{
    const size_t n = strlen(text);

    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0)
        fb_peer_copy(out, most, text[0] == 'T' ? "1" : "0", 1);
    else if (n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n - 1] == text[0])
        fb_peer_copy(out, most, text + 1, n - 2);
    else
        fb_peer_copy(out, most, text, n);
}

bool fb_peer_same_value(const char *a, const char *b)
{
    char x[128], y[128];
    double p, q;

    fb_peer_plain(x, sizeof x, a);
    fb_peer_plain(y, sizeof y, b);
    if (fb_parse_real(x, &p) && fb_parse_real(y, &q)) return !(p < q) && !(p > q);
    return strcmp(x, y) == 0;
}
