/* parse_names.c - names that stand for an expression: presets, names of other projects.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/parse.h"

#include "base/check.h"

#include <string.h>

fb_status fb_parse_preset(fb_parser *p, const fb_preset *preset, fb_bound_rule **out)
{
    fb_parser inside = {
        .text = preset->expression, .at = preset->expression, .depth = p->depth};

    FB_TRY(fb_parse_rule(&inside, out));
    FB_ASSERT(*out != NULL);
    if (*p->at == '(' || (*p->at == ':' && (*out)->rule->n_inner > 0)) {
        fb_parse_point(p, p->at, 1);
        return fb_fail(
            FB_USAGE,
            "'%s' stands for '%s'; to change that, write it out and change it "
            "there",
            preset->name, preset->expression);
    }
    (*out)->given = 0; /* the preset's settings can be given anew */
    return fb_parse_parts(p, *out);
}

/* Points at what was copied from there into another text, or at all of it. */
static void point_back(fb_parser *p, const char *from, const fb_parser *inside)
{
    const size_t n = inside->bad == NULL ? 0 : inside->n_bad;
    const char *at = from;

    while (at < p->at && (n < 2 || strncmp(at, inside->bad, n) != 0))
        at++;
    if (at + n <= p->at && at < p->at)
        fb_parse_point(p, at, n);
    else
        fb_parse_point(p, from, (size_t)(p->at - from));
}

static fb_status read_expanded(fb_parser *p, const fb_peer *peer, const char *from,
                               const char *expression, fb_bound_rule **out)
{
    fb_parser inside = {.text = expression, .at = expression, .depth = p->depth};
    fb_status status = fb_parse_rule(&inside, out);

    if (status == FB_OK) {
        FB_ASSERT(*inside.at == '\0');
        (*out)->peer = peer;
        return FB_OK;
    }
    point_back(p, from, &inside);
    if (strstr(peer->expression, "{press}") != NULL) return status; /* says it itself */
    return fb_context(status, "'%s' is '%s' here", peer->name, expression);
}

fb_status fb_parse_peer(fb_parser *p, const fb_peer_project *project,
                        fb_bound_rule **out)
{
    const char *from = ++p->at;
    const fb_peer *peer;
    fb_text expression;
    fb_status status;

    fb_text_init(&expression, FB_PARSE_LONGEST);
    status = fb_peer_expand(&peer, &expression, project, &p->at, &p->bad, &p->n_bad);
    if (status == FB_OK)
        status = read_expanded(p, peer, from, fb_text_string(&expression), out);
    fb_text_clear(&expression);
    fb_parse_blanks(p);
    return status;
}
