/* parse.c - rule expressions.
 *
 *     expression = name [ "(" piece { "," piece } ")" ] [ ":" setting { "," setting } ]
 *     piece      = expression | setting
 *     setting    = key "=" value
 *
 * Settings separated by commas go on as long as the rule they follow knows the key: in
 * `adakv(snapkv:window=16, safeguard=0.3)` `safeguard` is adakv's, since snapkv has
 * none.
 *
 * The name of a preset stands for its expression. Settings may follow where that is a plain
 * rule, and then win over the preset's own: `snapkv_paper:window=16`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/params.h"
#include "base/text.h"
#include "rule/bound.h"

#include <ctype.h>
#include <string.h>

enum { WORD_BYTES = 128, DEEPEST = 8, LONGEST = 2048, MOST_NAMES = 256 };

struct parser {
    const char *text, *at;
    int depth;
    const fb_rule_files *files; /* or NULL */
};

static void skip_blanks(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

static fb_status refuse(const struct parser *p, const char *what)
{
    return fb_fail(FB_USAGE, "rule '%s', character %d: %s", p->text,
                   (int)(p->at - p->text) + 1, what);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Copies a run of `accept`ed characters to `out`. */
static fb_status read_run(struct parser *p, bool (*accept)(char), char *out,
                          const char *what)
{
    size_t n = 0;

    skip_blanks(p);
    while (accept(p->at[n]))
        n++;
    if (n == 0) return refuse(p, what);
    if (n >= WORD_BYTES) return refuse(p, "this word is too long");
    memcpy(out, p->at, n);
    out[n] = 0;
    p->at += n;
    skip_blanks(p);
    return FB_OK;
}

static bool is_value(char c)
{
    return c != 0 && strchr("(),= \t", c) == NULL;
}

/* True if `key=` stands at the cursor; the key is copied. */
static bool peek_key(const struct parser *p, char *out)
{
    struct parser ahead = *p;

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

/* A second value for a key would be a slip of the pen: which of the two was meant? */
static fb_status give_once(fb_bound_rule *bound, const char *key)
{
    const int row = find_key(bound->rule, key);
    const uint64_t bit = row >= 0 && row < 64 ? UINT64_C(1) << row : 0;

    if ((bound->given & bit) != 0)
        return fb_fail(FB_USAGE, "rule '%s': '%s' is given twice", bound->rule->name,
                       key);
    bound->given |= bit;
    return FB_OK;
}

static fb_status read_setting(struct parser *p, fb_bound_rule *bound)
{
    static const fb_param none[] = {FB_PARAM_END};
    const fb_rule *rule = bound->rule;
    char key[WORD_BYTES], value[WORD_BYTES];

    FB_TRY(read_run(p, is_word, key, "expected a key"));
    if (*p->at != '=') return refuse(p, "expected '='");
    p->at++;
    FB_TRY(read_run(p, is_value, value, "expected a value"));
    FB_TRY(give_once(bound, key));
    return fb_context(fb_params_set(rule->params != NULL ? rule->params : none,
                                    bound->params, key, value),
                      "rule '%s'", rule->name);
}

static fb_status unknown_rule(const fb_rule_files *files, const char *name)
{
    const char *names[MOST_NAMES], *nearest;
    int n = 0;

    for (int r = 0; r < fb_rule_count() && n < MOST_NAMES; r++)
        names[n++] = fb_rule_at(r)->name;
    for (int i = 0; i < fb_preset_count() && n < MOST_NAMES; i++)
        names[n++] = fb_preset_at(i)->name;
    for (int f = 0; files != NULL && f < files->n; f++)
        for (int r = 0; r < files->file[f]->n && n < MOST_NAMES; r++)
            names[n++] = files->file[f]->rules[r].name;
    nearest = fb_nearest_word(name, names, n);
    if (nearest == NULL)
        return fb_fail(FB_USAGE, "unknown rule '%s'\nhelp: flexbudget rules lists them",
                       name);
    return fb_fail(FB_USAGE, "unknown rule '%s'; did you mean '%s'?", name, nearest);
}

static fb_status read_expression(struct parser *p, fb_bound_rule **out);

static fb_status read_inner(struct parser *p, fb_bound_rule *bound)
{
    char key[WORD_BYTES];
    fb_bound_rule *inner;

    if (peek_key(p, key)) return read_setting(p, bound);
    if (bound->n_inner == FB_MAX_INNER) return refuse(p, "too many rules in brackets");
    FB_TRY(read_expression(p, &inner));
    bound->inner[bound->n_inner++] = inner;
    return FB_OK;
}

static fb_status read_brackets(struct parser *p, fb_bound_rule *bound)
{
    if (bound->rule->n_inner == 0)
        return fb_fail(FB_USAGE,
                       "rule '%s' takes no rules in brackets; settings follow a "
                       "colon, as in '%s:key=value'",
                       bound->rule->name, bound->rule->name);
    do {
        p->at++; /* the bracket or the comma */
        FB_TRY(read_inner(p, bound));
        skip_blanks(p);
    } while (*p->at == ',');
    if (*p->at != ')') return refuse(p, "expected ',' or ')'");
    p->at++;
    skip_blanks(p);
    return FB_OK;
}

/* After the colon. At the top every further key must be this rule's; in brackets a key
 * that it does not know ends the list and is left to the wrapper. */
static fb_status read_settings(struct parser *p, fb_bound_rule *bound)
{
    char key[WORD_BYTES];
    struct parser ahead;

    p->at++; /* the colon */
    FB_TRY(read_setting(p, bound));
    while (*p->at == ',') {
        ahead = *p;
        ahead.at++;
        if (p->depth > 1 && (!peek_key(&ahead, key) || find_key(bound->rule, key) < 0))
            return FB_OK;
        p->at++;
        FB_TRY(read_setting(p, bound));
    }
    return FB_OK;
}

static fb_status read_parts(struct parser *p, fb_bound_rule *bound)
{
    if (*p->at == '(') FB_TRY(read_brackets(p, bound));
    return *p->at == ':' ? read_settings(p, bound) : FB_OK;
}

/* A rule with its parts, not finished; whoever fails leaves `*out` for the caller to free. */
static fb_status read_rule(struct parser *p, fb_bound_rule **out);

/* What a preset stands for, with the settings that follow its name. */
static fb_status read_preset(struct parser *p, const fb_preset *preset,
                             fb_bound_rule **out)
{
    struct parser inside = {preset->expression, preset->expression, p->depth, NULL};

    FB_TRY(read_rule(&inside, out));
    FB_ASSERT(*out != NULL);
    if (*p->at == '(' || (*p->at == ':' && (*out)->rule->n_inner > 0))
        return fb_fail(
            FB_USAGE,
            "'%s' stands for '%s'; to change that, write it out and change it "
            "there",
            preset->name, preset->expression);
    (*out)->given = 0; /* the preset's settings can be given anew */
    return read_parts(p, *out);
}

static fb_status read_rule(struct parser *p, fb_bound_rule **out)
{
    char name[WORD_BYTES];
    const fb_preset *preset;
    const fb_rule_file *file = NULL;
    const fb_rule *rule;

    FB_TRY(read_run(p, is_word, name, "expected the name of a rule"));
    preset = fb_preset_find(name);
    if (preset != NULL) return read_preset(p, preset, out);
    rule = fb_rule_find(name);
    if (rule == NULL) rule = fb_rule_files_find(p->files, name, &file);
    if (rule == NULL) return unknown_rule(p->files, name);
    FB_TRY(fb_bound_rule_new(out, rule));
    (*out)->file = file;
    return read_parts(p, *out);
}

static fb_status read_expression(struct parser *p, fb_bound_rule **out)
{
    fb_status status;

    *out = NULL;
    if (p->depth == DEEPEST) return refuse(p, "brackets nest too deep");
    p->depth++;
    status = read_rule(p, out);
    p->depth--;
    if (status == FB_OK) status = fb_bound_rule_finish(*out);
    if (status != FB_OK) {
        fb_bound_rule_free(*out);
        *out = NULL;
    }
    return status;
}

fb_status fb_rule_parse_with(fb_bound_rule **out, const char *expression,
                             const fb_rule_files *files)
{
    struct parser p = {.text = expression, .at = expression, .files = files};
    fb_status status;

    *out = NULL;
    if (strlen(expression) > LONGEST)
        return fb_fail(FB_USAGE, "a rule expression of %zu bytes; at most %d",
                       strlen(expression), LONGEST);
    FB_TRY(read_expression(&p, out));
    if (*p.at == 0) return FB_OK;
    status = refuse(&p, "nothing more was expected here");
    fb_bound_rule_free(*out);
    *out = NULL;
    return status;
}

fb_status fb_rule_parse(fb_bound_rule **out, const char *expression)
{
    return fb_rule_parse_with(out, expression, NULL);
}
