/* peer_print.c - a rule in the words of another project, as Python or JSON.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/peer_call.h"

#include <string.h>

/* As Python writes it: by the value in the table. */
static void add_value(fb_text *out, const char *usual, const char *value, bool is_json)
{
    double x;

    if (strcmp(usual, "True") == 0 || strcmp(usual, "False") == 0)
        fb_text_puts(out, strcmp(value, "0") == 0 ? (is_json ? "false" : "False")
                                                  : (is_json ? "true" : "True"));
    else if (strcmp(value, "None") == 0)
        fb_text_puts(out, is_json ? "null" : "None");
    else if (fb_parse_real(value, &x))
        fb_text_puts(out, value);
    else
        fb_text_printf(out, is_json ? "\"%s\"" : "'%s'", value);
}

/* The i-th argument as the press has it: taken from the rule, or the row's own. */
static const char *value_of(const fb_peer_match *match, int press, int i,
                            const fb_peer_argument *a, char *plain)
{
    const char *taken = match->press[press].value[i];

    if (taken[0] != '\0') return taken;
    fb_peer_plain(plain, FB_PEER_VALUE, a->value);
    return plain;
}

static void add_press(const fb_peer_match *match, int press, const char *first,
                      fb_text *out)
{
    const fb_peer *peer = match->press[press].peer;
    const char *at = peer->arguments, *between = "";
    char plain[FB_PEER_VALUE];
    fb_peer_argument a;

    fb_text_printf(out, "%s(", peer->name);
    if (press == match->n - 1 && first[0] != '\0') {
        fb_text_puts(out, first);
        between = ", ";
    }
    for (int i = 0; fb_peer_next_argument(&at, &a); i++) {
        const bool is_press = strcmp(a.name, "press") == 0;
        const char *value = value_of(match, press, i, &a, plain);

        if (!is_press && !a.is_given && fb_peer_same_value(value, a.value)) continue;
        fb_text_puts(out, between);
        between = ", ";
        if (is_press) {
            add_press(match, press + 1, first, out);
            continue;
        }
        fb_text_printf(out, "%s=", a.name);
        add_value(out, a.value, value, false);
    }
    fb_text_puts(out, ")");
}

void fb_peer_print(const fb_peer_match *match, const char *first, fb_text *out)
{
    if (match->n > 0) add_press(match, 0, first, out);
}

static void add_json(const fb_peer_match *match, int press, fb_text *out)
{
    const fb_peer *peer = match->press[press].peer;
    const char *at = peer->arguments, *between = "";
    char plain[FB_PEER_VALUE];
    fb_peer_argument a;

    fb_text_printf(out, "{\"class\": \"%s\", \"arguments\": {", peer->name);
    for (int i = 0; fb_peer_next_argument(&at, &a); i++, between = ", ") {
        fb_text_printf(out, "%s\"%s\": ", between, a.name);
        if (strcmp(a.name, "press") == 0)
            add_json(match, press + 1, out);
        else
            add_value(out, a.value, value_of(match, press, i, &a, plain), true);
    }
    fb_text_puts(out, "}}");
}

void fb_peer_print_json(const fb_peer_match *match, fb_text *out)
{
    if (match->n > 0)
        add_json(match, 0, out);
    else
        fb_text_puts(out, "null");
}
