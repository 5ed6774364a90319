/* peer_call.h - inside of src/rule: a name of another project with its arguments, as it
 * stands in the text.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_RULE_PEER_CALL_H
#define FB_RULE_PEER_CALL_H

#include "rule/peer.h"

enum { FB_MOST_GIVEN = 16 };

typedef struct fb_given {
    const char *at;    /* where it begins */
    char name[48];     /* "": without one */
    const char *value; /* [n_value] */
    size_t n_value;
} fb_given;

typedef struct fb_call {
    const fb_peer_project *project;
    char name[64];
    fb_given given[FB_MOST_GIVEN];
    int n;
    const char *bad; /* [n_bad] what a failure is about */
    size_t n_bad;
} fb_call;

/* At most `most` - 1 bytes of `text` [n]. */
void fb_peer_copy(char *out, size_t most, const char *text, size_t n);
/* Python's words as ours: True is 1, 'word' is word. */
void fb_peer_plain(char *out, size_t most, const char *text);
/* The first row of that name; NULL if there is none. */
const fb_peer *fb_peer_named(const fb_peer_project *project, const char *name);

/* Passes `status` on: it is about these characters. */
fb_status fb_call_fail(fb_call *c, const char *at, size_t n, fb_status status);
const char *fb_call_blanks(const char *at); /* behind them */
size_t fb_call_word(const char *at);        /* its length */
/* The arguments from the bracket at `*at` on, which is moved behind them. */
FB_MUST_USE fb_status fb_call_read(fb_call *c, const char **at);
const fb_given *fb_call_find(const fb_call *c, const char *name); /* NULL: not given */
/* A name that the project does not have, with the nearest. */
fb_status fb_call_unknown(fb_call *c, const char *name, const char *at);

/* Every argument that was given is one of the row's, and no word for the budget. */
FB_MUST_USE fb_status fb_call_check(fb_call *c, const fb_peer *peer);

#endif
