/* peer_match.c - a rule as another project writes it.
 *
 * The expression of a row is a pattern: it is read beside the rule, names have to agree,
 * {argument} takes the rule's value. A parameter that the pattern gives another value, or
 * does not name though the rule's is not the default, differs; that is counted and said.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/peer.h"

#include "base/params.h"
#include "rule/bound.h"

#include <stdio.h>
#include <string.h>

enum { WORD = 64, VALUES = 1024 };

int fb_bound_rule_peers(const fb_bound_rule *rule, const fb_peer **out, int most)
{
    int n = 0;

    if (rule->peer != NULL && most > 0) out[n++] = rule->peer;
    for (int i = 0; i < rule->n_inner; i++)
        n += fb_bound_rule_peers(rule->inner[i], out + n, most - n);
    return n;
}

/* A pattern beside a rule. */
struct pattern {
    const char *at;
    const fb_peer_project *project;
    fb_peer_match *match;
    int press; /* whose arguments are taken */
};

static bool match_row(struct pattern *p, const fb_peer *peer,
                      const fb_bound_rule *rule);

/* --- values --- */

static void print_value(const fb_param *row, const void *values, char *out, size_t most)
{
    fb_text text;

    fb_text_init(&text, WORD);
    fb_param_print_value(row, values, &text);
    (void)snprintf(out, most, "%s", fb_text_string(&text));
    fb_text_clear(&text);
}

static void differ(struct pattern *p, const char *key, const char *here,
                   const char *there)
{
    fb_peer_match *m = p->match;
    const size_t n = strlen(m->differs);

    (void)snprintf(m->differs + n, sizeof m->differs - n, "%s%s=%s (there %s)",
                   n == 0 ? "" : ", ", key, here, there);
    m->n_differs++;
}

/* {name} takes the value, unless it has another one from elsewhere in the pattern. */
static void take(struct pattern *p, const char *key, const char *name,
                 const char *value)
{
    const char *at = p->match->press[p->press].peer->arguments;
    fb_peer_argument a;

    for (int i = 0; i < FB_PEER_ARGUMENTS && fb_peer_next_argument(&at, &a); i++) {
        char *taken = p->match->press[p->press].value[i];

        if (strcmp(a.name, name) != 0) continue;
        if (taken[0] == '\0')
            (void)snprintf(taken, FB_PEER_VALUE, "%.*s", FB_PEER_VALUE - 1, value);
        else if (!fb_peer_same_value(taken, value))
            differ(p, key, value, taken);
    }
}

/* --- reading the pattern --- */

static size_t read_word(const char **at, const char *ends, char *out)
{
    const size_t n = strcspn(*at, ends);

    (void)snprintf(out, WORD, "%.*s", (int)n, *at);
    *at += n;
    return n;
}

static const fb_param *find_row(const fb_rule *rule, const char *key)
{
    const fb_param *row = rule->params;

    while (row != NULL && row->name != NULL && strcmp(row->name, key) != 0)
        row++;
    return row != NULL && row->name != NULL ? row : NULL;
}

/* key=value at the cursor, if the rule has the key; the bit of its row in `seen`. */
static bool match_setting(struct pattern *p, const fb_bound_rule *rule, uint64_t *seen)
{
    const char *at = p->at;
    char key[WORD], value[WORD], own[WORD];
    const fb_param *row;

    (void)read_word(&at, "=,():{", key);
    row = *at == '=' ? find_row(rule->rule, key) : NULL;
    if (row == NULL) return false;
    at++;
    (void)read_word(&at, ",)", value);
    print_value(row, rule->params, own, sizeof own);
    if (value[0] == '{') {
        value[strcspn(value, "}")] = '\0';
        take(p, key, value + 1, own);
    } else if (!fb_peer_same_value(own, value)) {
        differ(p, key, own, value);
    }
    *seen |= UINT64_C(1) << (row - rule->rule->params);
    p->at = at;
    return true;
}

/* What the pattern does not say has its default. */
static void match_defaults(struct pattern *p, const fb_bound_rule *rule, uint64_t seen)
{
    const fb_param *rows = rule->rule->params;
    char values[VALUES], own[WORD], usual[WORD];

    if (rows == NULL || rule->rule->params_bytes > sizeof values) return;
    memset(values, 0, sizeof values);
    fb_params_init(rows, values);
    for (int i = 0; rows[i].name != NULL; i++) {
        if ((seen >> i & 1) != 0) continue;
        print_value(&rows[i], rule->params, own, sizeof own);
        print_value(&rows[i], values, usual, sizeof usual);
        if (strcmp(own, usual) != 0) differ(p, rows[i].name, own, usual);
    }
}

static bool match_press(struct pattern *p, const fb_bound_rule *rule)
{
    fb_peer_match *m = p->match;
    struct pattern inner = {.project = p->project, .match = m, .press = m->n};
    fb_peer_match best = {0};

    if (m->n == FB_PEER_DEPTH) return false;
    p->at += strlen("{press}");
    for (int i = 0; i < fb_peer_count(); i++) {
        const fb_peer *peer = fb_peer_at(i);
        const fb_peer_match before = *m;

        if (peer->kind == FB_PEER_SCORER && match_row(&inner, peer, rule) &&
            (best.n == 0 || m->n_differs < best.n_differs))
            best = *m;
        *m = before;
    }
    if (best.n == 0) return false;
    *m = best;
    return true;
}

static bool match_expression(struct pattern *p, const fb_bound_rule *rule)
{
    char name[WORD];
    uint64_t seen = 0;
    int n = 0;

    if (*p->at == '{') return match_press(p, rule);
    (void)read_word(&p->at, ",():={", name);
    if (strcmp(name, rule->rule->name) != 0) return false;
    if (*p->at == '(') {
        do {
            p->at++;
            if (match_setting(p, rule, &seen)) continue;
            if (n == rule->n_inner || !match_expression(p, rule->inner[n++]))
                return false;
        } while (*p->at == ',');
        p->at++; /* the bracket */
    }
    if (*p->at == ':') {
        p->at++;
        while (match_setting(p, rule, &seen) && *p->at == ',')
            p->at++;
        if (p->at[-1] == ',') p->at--; /* the wrapper's comma */
    }
    match_defaults(p, rule, seen);
    return n == rule->n_inner;
}

/* The row as press number p->press, the ones inside of it behind. */
static bool match_row(struct pattern *p, const fb_peer *peer, const fb_bound_rule *rule)
{
    struct pattern own = *p;

    if (strcmp(peer->project, p->project->name) != 0) return false;
    own.at = peer->expression;
    own.match->press[own.press].peer = peer;
    memset(own.match->press[own.press].value, 0, sizeof own.match->press[0].value);
    own.match->n = own.press + 1;
    return match_expression(&own, rule);
}

static bool is_compact_row(const fb_peer *peer)
{
    return strstr(peer->settings, "positions=compact") != NULL;
}

/* Renumbers what a press of the project keeps. */
static const fb_peer *find_rotation(const fb_peer_project *project)
{
    for (int i = 0; i < fb_peer_count(); i++) {
        const fb_peer *peer = fb_peer_at(i);

        if (strcmp(peer->project, project->name) == 0 && is_compact_row(peer) &&
            strcmp(peer->expression, "{press}") == 0)
            return peer;
    }
    return NULL;
}

static void go_around(struct pattern *p, fb_peer_match *match)
{
    const fb_peer *rotation = find_rotation(p->project);

    if (match->n == 0 || is_compact_row(match->press[0].peer)) return;
    if (rotation == NULL || match->press[0].peer->kind != FB_PEER_SCORER) {
        p->match = match;
        differ(p, "positions", "compact", "original");
        return;
    }
    memmove(&match->press[1], &match->press[0],
            (size_t)match->n * sizeof match->press[0]);
    memset(&match->press[0], 0, sizeof match->press[0]);
    match->press[0].peer = rotation;
    match->n++;
}

void fb_peer_find(fb_peer_match *out, const fb_peer_project *project,
                  const fb_bound_rule *rule, bool is_compact)
{
    fb_peer_match found;
    struct pattern p = {.project = project, .match = &found};

    *out = (fb_peer_match){0};
    for (int i = 0; i < fb_peer_count(); i++) {
        const fb_peer *peer = fb_peer_at(i);

        found = (fb_peer_match){0};
        if (peer->kind != FB_PEER_SCORER && peer->kind != FB_PEER_PRESS) continue;
        if (is_compact_row(peer) && !is_compact) continue;
        if (match_row(&p, peer, rule) &&
            (out->n == 0 || found.n_differs < out->n_differs))
            *out = found;
    }
    if (is_compact) go_around(&p, out);
}
