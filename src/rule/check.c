/* check.c - a rule from a file is as untrusted as its bytes: every field of its struct is
 * checked before it is used, and every number that its functions choose.
 *
 * What a pointer leads to cannot be checked before it is read; tables and texts are read
 * to their end or to the most that one may have.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/check.h"

#include "base/text.h"
#include "rule/bound.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum {
    MOST_NAME = 63,
    MOST_TEXT = 400,
    MOST_PARAMS = 64,        /* as many as an expression can set */
    MOST_PARAM_BYTES = 1024, /* of all of them */
    MOST_WORDS = 64,
    MOST_PLANES = 64,
    MOST_KERNEL = 4095,
    MOST_STATE = 1024,
    MOST_SQUARES = 16,
    MOST_DRAFT = 4096,
};

static const double MOST_INT = 9007199254740992.0; /* doubles are exact up to 2^53 */

fb_status fb_rule_check_abi(const fb_rule *rule)
{
    if (rule->abi != FB_RULE_ABI)
        return fb_fail(FB_UNSUPPORTED, "rule made for ABI %d; this program has %d",
                       rule->abi, FB_RULE_ABI);
    if (rule->size != FB_RULE_SIZE)
        return fb_fail(FB_UNSUPPORTED,
                       "rule made for an ABI %d whose structs have other sizes; build "
                       "it again with the headers of this program",
                       rule->abi);
    return FB_OK;
}

/* --- words and texts --- */

/* A name as an expression reads it: letters, digits, '_' and '-', a letter first. */
static bool is_name(const char *name)
{
    size_t n = 0;

    if (name == NULL || !isalpha((unsigned char)name[0])) return false;
    while (n <= MOST_NAME &&
           (isalnum((unsigned char)name[n]) || name[n] == '_' || name[n] == '-'))
        n++;
    return n <= MOST_NAME && name[n] == '\0';
}

/* UTF-8, not too long. */
static bool is_text(const char *text)
{
    const size_t length = text == NULL ? 0 : strnlen(text, MOST_TEXT + 1);

    if (text == NULL || length > MOST_TEXT) return false;
    for (size_t at = 0, n; at < length; at += n) {
        n = fb_utf8_length(text + at, length - at);
        if (n == 0) return false;
    }
    return true;
}

static bool is_line(const char *text)
{
    if (!is_text(text)) return false;
    for (; *text != '\0'; text++)
        if (iscntrl((unsigned char)*text)) return false;
    return true;
}

static fb_status check_line(const char *rule, const char *what, const char *text)
{
    if (is_line(text)) return FB_OK;
    return fb_fail(FB_DEFECT,
                   "rule '%s': its %s is not one line of at most %d bytes of UTF-8",
                   rule, what, MOST_TEXT);
}

static fb_status check_texts(const fb_rule *rule)
{
    FB_TRY(check_line(rule->name, "summary", rule->summary));
    if (rule->source != NULL) FB_TRY(check_line(rule->name, "source", rule->source));
    if (rule->family == NULL || is_name(rule->family)) return FB_OK;
    return fb_fail(FB_DEFECT, "rule '%s': its family is not a word as 'attention'",
                   rule->name);
}

/* --- parameters --- */

static fb_status refuse(const fb_rule *rule, const fb_param *row, const char *what)
{
    return fb_fail(FB_DEFECT, "rule '%s': parameter '%s' %s", rule->name, row->name,
                   what);
}

/* Words between bars, each a name; how many, 0 if they are not. */
static int count_words(const char *words)
{
    char word[MOST_NAME + 1];
    int n = 0;

    if (words == NULL || strnlen(words, MOST_TEXT + 1) > MOST_TEXT) return 0;
    for (;; words++) {
        const size_t length = strcspn(words, "|");

        if (length > MOST_NAME || n++ == MOST_WORDS) return 0;
        memcpy(word, words, length);
        word[length] = '\0';
        if (!is_name(word)) return 0;
        words += length;
        if (*words == '\0') return n;
    }
}

static bool is_whole(double x)
{
    return fabs(x) <= MOST_INT && x == floor(x);
}

static bool is_within(const fb_param *row, double x)
{
    return isfinite(x) && x >= row->low && x <= row->high;
}

static fb_status check_default(const fb_rule *rule, const fb_param *row)
{
    const double x = row->initial;

    if (row->type == FB_PARAM_WORD) {
        const int n = count_words(row->words);

        if (n == 0) return refuse(rule, row, "has no list of words as \"avg|max\"");
        if (!is_whole(x) || x < 0 || x >= n)
            return refuse(rule, row, "has a default that is none of its words");
        return FB_OK;
    }
    if (!is_within(row, x) ||
        (row->type == FB_PARAM_PAIR && !is_within(row, row->second)))
        return refuse(rule, row, "has a default outside of its range");
    if (row->type == FB_PARAM_INT &&
        !(is_whole(x) && is_whole(row->low) && is_whole(row->high)))
        return refuse(rule, row, "is whole, but not its range and default");
    if (row->type == FB_PARAM_PAIR && x == 0 && row->second == 0)
        return refuse(rule, row, "is a pair of two zeros by default");
    return FB_OK;
}

static fb_status check_param(const fb_rule *rule, const fb_param *row)
{
    const size_t bytes =
        row->type == FB_PARAM_PAIR ? 2 * sizeof(double) : sizeof(double);

    if (!is_name(row->name))
        return fb_fail(FB_DEFECT,
                       "rule '%s': a parameter's name is not a word of at "
                       "most %d letters, digits, '_' and '-'",
                       rule->name, MOST_NAME);
    if ((int)row->type < FB_PARAM_INT || (int)row->type > FB_PARAM_PAIR)
        return refuse(rule, row, "is of no type there is");
    if (rule->params_bytes < bytes || row->offset > rule->params_bytes - bytes)
        return refuse(rule, row, "lies outside of the rule's params_bytes");
    if (!is_line(row->help) || (row->origin != NULL && !is_line(row->origin)))
        return refuse(rule, row, "has no help, or more than a line of it");
    for (const fb_param *other = rule->params; other != row; other++)
        if (strcmp(other->name, row->name) == 0)
            return refuse(rule, row, "is there twice");
    return check_default(rule, row);
}

static fb_status check_params(const fb_rule *rule)
{
    int n = 0;

    if (rule->params_bytes > MOST_PARAM_BYTES)
        return fb_fail(FB_DEFECT, "rule '%s' has %zu bytes of parameters; at most %d",
                       rule->name, rule->params_bytes, MOST_PARAM_BYTES);
    for (; rule->params != NULL && rule->params[n].name != NULL; n++) {
        if (n == MOST_PARAMS)
            return fb_fail(FB_DEFECT,
                           "rule '%s': its parameters do not end with FB_PARAM_END "
                           "within %d rows",
                           rule->name, MOST_PARAMS);
        FB_TRY(check_param(rule, &rule->params[n]));
    }
    return FB_OK;
}

/* --- kind and functions --- */

enum {
    RULE = 1 << FB_KIND_RULE,
    WRAPPER = 1 << FB_KIND_WRAPPER,
    ALLOCATION = 1 << FB_KIND_ALLOCATION,
    EDIT = 1 << FB_KIND_EDIT,
};

/* A function that the kind does not have would never be called: a slip of the pen. */
static fb_status check_functions(const fb_rule *rule)
{
    const struct {
        const char *name;
        bool is_set;
        int kinds;
    } functions[] = {
        {"score", rule->score != NULL, RULE},
        {"wrap", rule->wrap != NULL, WRAPPER},
        {"share", rule->share != NULL, ALLOCATION},
        {"spread", rule->spread != NULL, ALLOCATION},
        {"measure", rule->measure != NULL, ALLOCATION},
        {"select", rule->select != NULL, RULE | WRAPPER},
        {"update", rule->update != NULL, RULE},
        {"learn", rule->learn != NULL, RULE},
        {"edit", rule->edit != NULL, EDIT},
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i].is_set && (functions[i].kinds & 1 << rule->kind) == 0)
            return fb_fail(FB_DEFECT,
                           "rule '%s' sets '%s', which its kind does not have",
                           rule->name, functions[i].name);
    return FB_OK;
}

static fb_status check_kind(const fb_rule *rule)
{
    const unsigned all = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING;

    if ((unsigned)rule->kind > FB_KIND_EDIT || rule->kind == FB_KIND_CONTROL)
        return fb_fail(FB_DEFECT, "rule '%s' is of no kind there is (%d)", rule->name,
                       (int)rule->kind);
    if (rule->runs == 0 || (rule->runs & ~all) != 0)
        return fb_fail(FB_DEFECT,
                       "rule '%s': runs is FB_RUNS_ONE_SHOT, FB_RUNS_STREAMING or both",
                       rule->name);
    if ((unsigned)rule->needs > FB_COMPARES_LAYERS)
        return fb_fail(FB_DEFECT, "rule '%s' needs what no scores compare (%d)",
                       rule->name, (int)rule->needs);
    if (rule->kind == FB_KIND_WRAPPER && rule->n_inner < 1)
        return fb_fail(FB_DEFECT, "rule '%s' is a wrapper around %d rules", rule->name,
                       rule->n_inner);
    return check_functions(rule);
}

fb_status fb_rule_check(const fb_rule *rule)
{
    FB_TRY(fb_rule_check_abi(rule));
    if (!is_name(rule->name))
        return fb_fail(FB_DEFECT,
                       "a rule's name is not a word of at most %d letters, "
                       "digits, '_' and '-' that begins with a letter",
                       MOST_NAME);
    FB_TRY(check_texts(rule));
    FB_TRY(check_kind(rule));
    FB_TRY(check_params(rule));
    if (rule->effort == NULL || fb_rule_effort_row(rule) != NULL) return FB_OK;
    return fb_fail(FB_DEFECT,
                   "rule '%s': its effort is none of its whole-number parameters",
                   rule->name);
}

/* --- what its functions say --- */

fb_status fb_rule_check_choices(const fb_rule *rule, const fb_choices *c)
{
    const struct {
        const char *name;
        int64_t value, most;
    } numbers[] = {
        {"window", c->window, INT32_MAX},
        {"queries", c->queries, INT64_MAX},
        {"planes", c->planes, MOST_PLANES},
        {"state_rows", c->state_rows, MOST_STATE},
        {"layer_rows", c->layer_rows, MOST_STATE},
        {"layer_squares", c->layer_squares, MOST_SQUARES},
        {"group", (int64_t)c->group, FB_GROUP_LAYER},
        {"pool_average", c->pool_average, MOST_KERNEL},
        {"pool_max", c->pool_max, MOST_KERNEL},
        {"unscored_last", c->unscored_last, INT32_MAX},
        {"sink", c->sink, INT32_MAX},
        {"recent", c->recent, INT32_MAX},
        {"block", c->block, INT32_MAX},
        {"min_tokens", c->min_tokens, INT32_MAX},
        {"replay.piece", c->replay.piece, INT64_MAX},
        {"replay.draft", c->replay.draft, MOST_DRAFT},
        {"replay.overlap", c->replay.overlap, INT32_MAX},
        {"replay.sinks", c->replay.sinks, INT32_MAX},
        {"compares", (int64_t)c->compares, FB_COMPARES_LAYERS},
        {"reference", (int64_t)c->reference, FB_REFERENCE_REREAD},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < 0 || numbers[i].value > numbers[i].most)
            return fb_fail(FB_DEFECT, "rule '%s' chooses %s = %lld; 0 to %lld",
                           rule->name, numbers[i].name, (long long)numbers[i].value,
                           (long long)numbers[i].most);
    if ((c->replay.first != NULL && !is_text(c->replay.first)) ||
        (c->replay.later != NULL && !is_text(c->replay.later)))
        return fb_fail(FB_DEFECT,
                       "rule '%s' chooses a text for `replay` that is not at most %d "
                       "bytes of UTF-8",
                       rule->name, MOST_TEXT);
    if (c->recent_quota >= 0 && c->recent_quota <= 1) return FB_OK;
    return fb_fail(FB_DEFECT, "rule '%s' chooses recent_quota = %g; 0 to 1", rule->name,
                   c->recent_quota);
}

fb_status fb_rule_check_status(const char *function, fb_status status)
{
    switch ((int)status) {
    case FB_OK:
    case FB_USAGE:
    case FB_UNSUPPORTED:
    case FB_BUDGET:
    case FB_NO_MEMORY:
    case FB_DEFECT:
        return status;
    default:
        return fb_fail(FB_DEFECT, "'%s' returned the status %d, which a rule does not",
                       function, (int)status);
    }
}
