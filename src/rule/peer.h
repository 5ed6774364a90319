/* peer.h - rules by their names in other projects: rules/peers.h, read in both
 * directions.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_RULE_PEER_H
#define FB_RULE_PEER_H

#include "base/text.h"
#include "rule/rule.h"

typedef struct fb_peer_project {
    const char *name, *title;
    const char *settings; /* "protect=published rounding=kvpress": as it runs rules */
    const char *budgets;  /* "a|b": its arguments that say how much stays */
} fb_peer_project;

typedef enum fb_peer_kind {
    FB_PEER_SCORER,  /* others go around it */
    FB_PEER_PRESS,   /* nothing goes around it */
    FB_PEER_NEAREST, /* the expression keeps other entries than it: see the remark */
    FB_PEER_REFUSED, /* has no expression; the remark says why */
} fb_peer_kind;

/* A row of rules/peers.h, where the fields are explained. */
typedef struct fb_peer {
    const char *project, *name;
    fb_peer_kind kind;
    const char *arguments, *expression, *settings, *remark;
} fb_peer;

int fb_peer_project_count(void);
const fb_peer_project *fb_peer_project_at(int index);
const fb_peer_project *fb_peer_project_find(const char *name); /* NULL: none */
int fb_peer_count(void);
const fb_peer *fb_peer_at(int index);
const fb_peer *fb_peer_first(const fb_peer_project *project); /* of its rows */
/* The first row of that name in any project, upper and lower case being the same; NULL
 * if there is none. */
const fb_peer *fb_peer_by_name(const char *name);

/* Why a row is refused, with the nearest rule here: FB_UNSUPPORTED. */
fb_status fb_peer_refuse(const fb_peer *peer);

/* Reads `name(argument=value, ...)` of a project at `*at` and writes the expression that
 * it stands for; a press in it stays one of the project. `*at` is moved behind it. FB_USAGE
 * and FB_UNSUPPORTED as fb_rule_parse: `bad` [n_bad] are the characters in question. */
FB_MUST_USE fb_status fb_peer_expand(const fb_peer **out, fb_text *expression,
                                     const fb_peer_project *project, const char **at,
                                     const char **bad, size_t *n_bad);

/* The rows by which a rule and its inner rules were named, the outermost first: how many
 * of them, at most `most`. */
int fb_bound_rule_peers(const fb_bound_rule *rule, const fb_peer **out, int most);

/* --- the other way --- */

enum { FB_PEER_ARGUMENTS = 8, FB_PEER_VALUE = 32, FB_PEER_DEPTH = 4 };

/* How a rule is written in a project. */
typedef struct fb_peer_match {
    int n; /* presses, the outermost first; 0: the project has none */
    struct {
        const fb_peer *peer;
        char value[FB_PEER_ARGUMENTS][FB_PEER_VALUE]; /* by the row's arguments */
    } press[FB_PEER_DEPTH];
    int n_differs;     /* parameters that are not those of the press */
    char differs[512]; /* "edge=exact (there kvpress), ..." */
} fb_peer_match;

/* The row of the project whose expression has the shape of the rule; of several the one
 * with the fewest parameters that differ. `is_compact`: positions are renumbered. */
void fb_peer_find(fb_peer_match *out, const fb_peer_project *project,
                  const fb_bound_rule *rule, bool is_compact);
/* "AdaKVPress(SnapKVPress(compression_ratio=0.75, window_size=16))": arguments that are
 * not the default. `first`: what goes before those of the innermost; "": nothing. */
void fb_peer_print(const fb_peer_match *match, const char *first, fb_text *out);
/* {"class": ..., "arguments": {...}} with all of them. */
void fb_peer_print_json(const fb_peer_match *match, fb_text *out);

/* An argument of a row. */
typedef struct fb_peer_argument {
    char name[48], value[FB_PEER_VALUE]; /* value: "" if there is none */
    bool is_fixed;                       /* no other value than this */
    bool is_given;                       /* has no default */
} fb_peer_argument;

/* The next of `*at`; false behind the last. */
bool fb_peer_next_argument(const char **at, fb_peer_argument *out);
/* Whether two values are the same: as texts, as numbers, True as 1. */
bool fb_peer_same_value(const char *a, const char *b);

#endif
