/* parse.c - rule expressions.
 *
 *     expression = name [ "(" piece { "," piece } ")" ] [ ":" setting { "," setting } ]
 *                | project ":" name of that project [ "(" its arguments ")" ]
 *     piece      = expression | setting
 *     setting    = key "=" value
 *
 * Settings separated by commas go on as long as the rule they follow knows the key: in
 * `adakv(snapkv:window=16, safeguard=0.3)` `safeguard` is adakv's, since snapkv has
 * none.
 *
 * The name of a preset stands for its expression. Settings may follow where that is a plain
 * rule, and then win over the preset's own: `snapkv_paper:window=16`. A name of another
 * project becomes the text of an expression, which is read in its place (peer_expand.c).
 *
 * Whoever fails has pointed at the characters in question; the text with a caret under
 * them is added at the end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/parse.h"

#include "base/check.h"
#include "base/params.h"
#include "rule/mistake.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 128 };

void fb_parse_point(fb_parser *p, const char *at, size_t n)
{
    p->bad = at;
    p->n_bad = n;
}

void fb_parse_blanks(fb_parser *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

static fb_status refuse(fb_parser *p, const char *what)
{
    fb_parse_point(p, p->at, 1);
    return fb_fail(FB_USAGE, "rule expression, character %d: %s",
                   (int)(p->at - p->text) + 1, what);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Copies a run of `accept`ed characters to `out`. */
static fb_status read_run(fb_parser *p, bool (*accept)(char), char *out,
                          const char *what)
{
    size_t n = 0;

    fb_parse_blanks(p);
    while (accept(p->at[n]))
        n++;
    if (n == 0) return refuse(p, what);
    if (n >= WORD_BYTES) return refuse(p, "this word is too long");
    memcpy(out, p->at, n);
    out[n] = 0;
    p->at += n;
    fb_parse_blanks(p);
    return FB_OK;
}

static bool is_value(char c)
{
    return c != 0 && strchr("(),= \t", c) == NULL;
}

/* True if `key=` stands at the cursor; the key is copied. */
static bool peek_key(const fb_parser *p, char *out)
{
    fb_parser ahead = *p;

    return read_run(&ahead, is_word, out, "") == FB_OK && *ahead.at == '=';
}

/* The row of a key; -1 if the rule does not know it. */
static int find_key(const fb_rule *rule, const char *key)
{
    const fb_param *rows = rule->params;

    for (int i = 0; rows != NULL && rows[i].name != NULL; i++)
        if (strcmp(rows[i].name, key) == 0) return i;
    return -1;
}

/* The bit of a key in fb_bound_rule.given; 0 if the rule does not know it. */
static uint64_t bit_of(const fb_rule *rule, const char *key)
{
    const int row = find_key(rule, key);

    return row >= 0 && row < 64 ? UINT64_C(1) << row : 0;
}

/* A second value for a key would be a slip of the pen: which of the two was meant? */
static fb_status give_once(fb_bound_rule *bound, const char *key)
{
    const uint64_t bit = bit_of(bound->rule, key);

    if ((bound->given & bit) != 0)
        return fb_fail(FB_USAGE, "rule '%s': '%s' is given twice", bound->rule->name,
                       key);
    bound->given |= bit;
    return FB_OK;
}

/* Behind a word that should be a key. */
static fb_status want_equals(fb_parser *p, const fb_rule *rule, const char *word)
{
    fb_status status;

    if (*p->at == '=') return FB_OK;
    status = refuse(p, "expected '='");
    if (rule->n_inner > 0 && fb_rule_find(word) != NULL)
        return fb_mistake_hint(status, "rules go in brackets: '%s(%s)'", rule->name,
                               word);
    if (find_key(rule, word) < 0) return status;
    return fb_mistake_hint(status, "and a value behind it: '%s=...'", word);
}

static fb_status read_setting(fb_parser *p, fb_bound_rule *bound)
{
    static const fb_param none[] = {FB_PARAM_END};
    const fb_rule *rule = bound->rule;
    char key[WORD_BYTES], value[WORD_BYTES];
    const char *key_at, *value_at;
    fb_status status;

    fb_parse_blanks(p);
    key_at = p->at;
    FB_TRY(read_run(p, is_word, key, "expected a key"));
    FB_TRY(want_equals(p, rule, key));
    p->at++;
    fb_parse_blanks(p);
    value_at = p->at;
    FB_TRY(read_run(p, is_value, value, "expected a value"));
    fb_parse_point(p, key_at, strlen(key));
    FB_TRY(give_once(bound, key));
    if (find_key(rule, key) >= 0) fb_parse_point(p, value_at, strlen(value));
    status = fb_params_set(rule->params != NULL ? rule->params : none, bound->params,
                           key, value);
    status = fb_context(status, "rule '%s'", rule->name);
    if (status == FB_OK || find_key(rule, key) >= 0) return status;
    return fb_mistake_key(status, bound, p->around, p->depth - 1, key);
}

static fb_status read_expression(fb_parser *p, fb_bound_rule **out);

static fb_status read_inner(fb_parser *p, fb_bound_rule *bound)
{
    char key[WORD_BYTES];
    fb_bound_rule *inner;

    if (peek_key(p, key)) return read_setting(p, bound);
    if (bound->n_inner == FB_MAX_INNER) return refuse(p, "too many rules in brackets");
    FB_TRY(read_expression(p, &inner));
    bound->inner[bound->n_inner++] = inner;
    return FB_OK;
}

static fb_status want_end(fb_parser *p, const char *open)
{
    char what[96] = "expected ',' or ')'";

    if (*p->at == ')') return FB_OK;
    if (*p->at == '\0')
        (void)snprintf(what, sizeof what,
                       "expected ',' or ')'; the bracket of character %d stays open",
                       (int)(open - p->text) + 1);
    return refuse(p, what);
}

static fb_status read_brackets(fb_parser *p, fb_bound_rule *bound)
{
    const char *open = p->at;

    if (bound->rule->n_inner == 0) {
        fb_parse_point(p, open, 1);
        return fb_mistake_brackets(bound->rule, open);
    }
    p->around[p->depth - 1] = bound;
    do {
        p->at++; /* the bracket or the comma */
        FB_TRY(read_inner(p, bound));
        fb_parse_blanks(p);
    } while (*p->at == ',');
    FB_TRY(want_end(p, open));
    p->at++;
    fb_parse_blanks(p);
    return FB_OK;
}

/* Whether a key behind settings in brackets is the wrapper's: the rule does not know it, or
 * has it already and the wrapper knows it too, as where all is written out. */
static bool is_of_wrapper(const fb_parser *p, const fb_bound_rule *bound,
                          const char *key)
{
    const fb_bound_rule *wrapper = p->around[p->depth - 2]; /* NULL: of a preset */
    const bool is_given = (bound->given & bit_of(bound->rule, key)) != 0;

    if (find_key(bound->rule, key) < 0) return true;
    return is_given && wrapper != NULL && find_key(wrapper->rule, key) >= 0;
}

/* After the colon. At the top every further key must be this rule's; in brackets one that is
 * the wrapper's ends the list. */
static fb_status read_settings(fb_parser *p, fb_bound_rule *bound)
{
    char key[WORD_BYTES];
    fb_parser ahead;

    p->at++; /* the colon */
    FB_TRY(read_setting(p, bound));
    while (*p->at == ',') {
        ahead = *p;
        ahead.at++;
        if (p->depth > 1 && (!peek_key(&ahead, key) || is_of_wrapper(p, bound, key)))
            return FB_OK;
        p->at++;
        FB_TRY(read_setting(p, bound));
    }
    return FB_OK;
}

fb_status fb_parse_parts(fb_parser *p, fb_bound_rule *bound)
{
    if (*p->at == '(') FB_TRY(read_brackets(p, bound));
    return *p->at == ':' ? read_settings(p, bound) : FB_OK;
}

fb_status fb_parse_rule(fb_parser *p, fb_bound_rule **out)
{
    char name[WORD_BYTES];
    const fb_peer_project *project;
    const fb_preset *preset;
    const fb_rule_file *file = NULL;
    const fb_rule *rule;

    FB_TRY(read_run(p, is_word, name, "expected the name of a rule"));
    preset = fb_preset_find(name);
    if (preset != NULL) return fb_parse_preset(p, preset, out);
    project = fb_peer_project_find(name);
    if (project != NULL && *p->at == ':') return fb_parse_peer(p, project, out);
    rule = fb_rule_find(name);
    if (rule == NULL) rule = fb_rule_files_find(p->files, name, &file);
    if (rule == NULL) {
        const fb_refused *refused = fb_refused_find(name);

        return refused != NULL ? fb_refused_fail(refused, name)
                               : fb_mistake_name(p->files, name);
    }
    FB_TRY(fb_bound_rule_new(out, rule));
    (*out)->file = file;
    return fb_parse_parts(p, *out);
}

/* A complete rule: what is wrong with all of it is said of its name. */
static fb_status finish(fb_parser *p, fb_bound_rule *bound, const char *from)
{
    const fb_rule *rule;
    fb_status status;

    FB_ASSERT(bound != NULL);
    rule = bound->rule;
    status = fb_bound_rule_finish(bound);
    if (status == FB_OK) return FB_OK;
    fb_parse_point(p, from,
                   bound->peer != NULL ? (size_t)(p->at - from)
                                       : strcspn(from, "(),:= \t"));
    if (bound->n_inner >= rule->n_inner) return status;
    return fb_mistake_hint(status, "write '%s(%s)', for example", rule->name,
                           rule->n_inner > 1 ? "snapkv, recency" : "snapkv");
}

static fb_status read_expression(fb_parser *p, fb_bound_rule **out)
{
    const char *from;
    fb_status status;

    *out = NULL;
    if (p->depth == FB_PARSE_DEEPEST) return refuse(p, "brackets nest too deep");
    p->depth++;
    fb_parse_blanks(p);
    from = p->at;
    fb_parse_point(p, from, strcspn(from, "(),:= \t"));
    status = fb_parse_rule(p, out);
    if (status == FB_OK) status = finish(p, *out, from);
    p->depth--;
    if (status != FB_OK) {
        fb_bound_rule_free(*out);
        *out = NULL;
    }
    return status;
}

fb_status fb_rule_parse_with(fb_bound_rule **out, const char *expression,
                             const fb_rule_files *files)
{
    fb_parser p = {.text = expression, .at = expression, .files = files};
    fb_status status;

    *out = NULL;
    if (strlen(expression) > FB_PARSE_LONGEST)
        return fb_fail(FB_USAGE, "a rule expression of %zu bytes; at most %d",
                       strlen(expression), FB_PARSE_LONGEST);
    status = read_expression(&p, out);
    if (status == FB_OK && *p.at == 0) return FB_OK;
    if (status == FB_OK) status = refuse(&p, "nothing more was expected here");
    fb_bound_rule_free(*out);
    *out = NULL;
    return fb_mistake_show(status, p.text, p.bad, p.n_bad);
}

fb_status fb_rule_parse(fb_bound_rule **out, const char *expression)
{
    return fb_rule_parse_with(out, expression, NULL);
}
