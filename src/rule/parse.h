/* parse.h - inside of src/rule: reading an expression.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_RULE_PARSE_H
#define FB_RULE_PARSE_H

#include "rule/bound.h"
#include "rule/peer.h"

enum { FB_PARSE_DEEPEST = 8, FB_PARSE_LONGEST = 2048 };

typedef struct fb_parser {
    const char *text, *at;
    int depth;
    const fb_rule_files *files; /* or NULL */
    const char *bad; /* [n_bad] what a failure is about; NULL: nothing of this text */
    size_t n_bad;
    const fb_bound_rule
        *around[FB_PARSE_DEEPEST]; /* whose brackets are open, by depth */
} fb_parser;

/* A failure that follows is about these characters. */
void fb_parse_point(fb_parser *p, const char *at, size_t n);
void fb_parse_blanks(fb_parser *p);

/* A rule with its parts, not finished; whoever fails leaves `*out` for the caller to
 * free. */
FB_MUST_USE fb_status fb_parse_rule(fb_parser *p, fb_bound_rule **out);
/* Brackets and settings behind its name. */
FB_MUST_USE fb_status fb_parse_parts(fb_parser *p, fb_bound_rule *bound);
/* What a preset stands for, with the settings that follow its name. */
FB_MUST_USE fb_status fb_parse_preset(fb_parser *p, const fb_preset *preset,
                                      fb_bound_rule **out);
/* `project:name(arguments)`, from the colon on. */
FB_MUST_USE fb_status fb_parse_peer(fb_parser *p, const fb_peer_project *project,
                                    fb_bound_rule **out);

#endif
