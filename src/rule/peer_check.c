/* peer_check.c - arguments that a name of another project does not have.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/peer_call.h"

#include <string.h>

static bool is_listed(const char *words, const char *word)
{
    const size_t n = strlen(word);

    for (; *words != '\0'; words += strcspn(words, "|"), words += *words == '|')
        if (strcspn(words, "|") == n && memcmp(words, word, n) == 0) return true;
    return false;
}

static fb_status refuse_budget(fb_call *c, const fb_given *g)
{
    char value[64];
    double x;

    fb_peer_copy(value, sizeof value, g->value, g->n_value);
    if (strstr(g->name, "ratio") != NULL && fb_parse_real(value, &x) && x >= 0 && x < 1)
        return fb_call_fail(
            c, g->at, strlen(g->name),
            fb_fail(FB_USAGE,
                    "'%s' is the budget, which is the same for all rules: "
                    "leave it out and give --budgets %.6g%%",
                    g->name, 100 * (1 - x)));
    return fb_call_fail(c, g->at, strlen(g->name),
                        fb_fail(FB_USAGE,
                                "'%s' is the budget, which is the same for all rules: "
                                "leave it out and give --budgets, as 25%% or 256t",
                                g->name));
}

static fb_status unknown_argument(fb_call *c, const fb_peer *peer, const fb_given *g)
{
    char names[FB_PEER_ARGUMENTS][48];
    const char *lent[FB_PEER_ARGUMENTS], *at = peer->arguments, *nearest;
    fb_peer_argument a;
    fb_text all;
    fb_status status;
    int n = 0;

    fb_text_init(&all, 512);
    while (n < FB_PEER_ARGUMENTS && fb_peer_next_argument(&at, &a)) {
        fb_peer_copy(names[n], sizeof names[n], a.name, strlen(a.name));
        lent[n] = names[n];
        fb_text_printf(&all, "%s%s", n++ == 0 ? "" : ", ", a.name);
    }
    nearest = fb_nearest_word(g->name, lent, n);
    status = fb_fail(FB_USAGE, "'%s' has no argument '%s'; %s%s%s", c->name, g->name,
                     nearest != NULL ? "did you mean '"
                     : n == 0        ? "it has none"
                                     : "it has ",
                     nearest != NULL ? nearest : fb_text_string(&all),
                     nearest != NULL ? "'?" : "");
    fb_text_clear(&all);
    return fb_call_fail(c, g->at, strlen(g->name), status);
}

static bool has_argument(const fb_peer *peer, const char *name)
{
    const char *at = peer->arguments;
    fb_peer_argument a;

    while (fb_peer_next_argument(&at, &a))
        if (strcmp(a.name, name) == 0) return true;
    return false;
}

/* One without a name is the press. */
fb_status fb_call_check(fb_call *c, const fb_peer *peer)
{
    for (int i = 0; i < c->n; i++) {
        fb_given *g = &c->given[i];

        if (g->name[0] == '\0' && i == 0 && has_argument(peer, "press"))
            fb_peer_copy(g->name, sizeof g->name, "press", 5);
        if (g->name[0] == '\0')
            return fb_call_fail(
                c, g->at, g->n_value,
                fb_fail(FB_USAGE, "arguments of '%s' have names: write name=value",
                        c->name));
        if (is_listed(c->project->budgets, g->name)) return refuse_budget(c, g);
        if (!has_argument(peer, g->name)) return unknown_argument(c, peer, g);
        for (int j = 0; j < i; j++)
            if (strcmp(c->given[j].name, g->name) == 0)
                return fb_call_fail(
                    c, g->at, strlen(g->name),
                    fb_fail(FB_USAGE, "'%s': '%s' is given twice", c->name, g->name));
    }
    return FB_OK;
}
