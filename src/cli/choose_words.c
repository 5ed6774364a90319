/* choose_words.c - see choose_words.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/choose_words.h"
#include "cli/export.h"

#include <ctype.h>
#include <string.h>

/* --- rules that were not tested --- */

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether a rule is the expression, or a part of it. */
static bool has_name(const char *expression, const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = expression; (at = strstr(at, name)) != NULL; at += n)
        if ((at == expression || !is_of_name(at[-1])) && !is_of_name(at[n]) &&
            at[n] != '=')
            return true;
    return false;
}

static int count_untested(const fb_results *results)
{
    int n = 0;

    for (int known = 0; known < fb_rule_count(); known++) {
        bool is_there = false;

        for (int r = 0; r < results->n_rules && !is_there; r++)
            is_there = has_name(results->rules[r].expression, fb_rule_at(known)->name);
        n += !is_there;
    }
    return n;
}

/* --- a command to go on with --- */

static void add_option(fb_text *out, const char *option, const char *value)
{
    fb_text_printf(out, " --%s ", option);
    fb_text_add_quoted(out, value);
}

/* What `ask` is to do as the experiment did, where that is not usual. */
static void add_settings(fb_text *out, const fb_values *values)
{
    static const fb_setting settings[] = {
        FB_SET_template, FB_SET_query,  FB_SET_protect,   FB_SET_positions,
        FB_SET_cache,    FB_SET_device, FB_SET_precision, FB_SET_bos};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const fb_option *row = &fb_settings()[settings[i]];
        const char *value = fb_values_text(values, (int)settings[i]);

        if (row->name != NULL && strcmp(value, row->initial) != 0)
            add_option(out, row->name, value);
    }
}

/* As it was written, if that is the same rule, else with all parameters; NULL: it comes
 * from a file of its own, or another version. */
static const char *expression_of(const fb_result_rule *rule)
{
    fb_bound_rule *bound = NULL;
    bool is_same = false;

    if (fb_rule_parse(&bound, rule->label) == FB_OK)
        is_same = strcmp(fb_bound_rule_text(bound), rule->expression) == 0;
    fb_bound_rule_free(bound);
    if (is_same) return rule->label;
    bound = NULL;
    is_same = fb_rule_parse(&bound, rule->expression) == FB_OK;
    fb_bound_rule_free(bound);
    return is_same ? rule->expression : NULL;
}

static bool is_reference(const fb_result_rule *rule)
{
    return rule->is_reference && strcmp(rule->expression, "full") != 0;
}

/* `ask` with the rule; where it cannot (it comes from a file, chooses nothing, or evicts
 * while it reads), the page. */
static void add_next(fb_text *out, const fb_results *results, const fb_spec *spec,
                     const fb_candidate *c, const char *path)
{
    const fb_result_rule *rule = &results->rules[c->rule];
    const char *expression = expression_of(rule);

    fb_text_puts(out, fb_say_program());
    if (expression == NULL || is_reference(rule) || fb_spec_streams(spec)) {
        fb_text_puts(out, " report ");
        fb_text_add_quoted(out, path);
        return;
    }
    fb_text_puts(out, " ask TEXT QUESTION");
    add_option(out, "model", fb_values_text(&spec->values, FB_SET_model));
    add_option(out, "rules", expression);
    if (c->budget >= 0) add_option(out, "budgets", results->budgets[c->budget].asked);
    add_settings(out, &spec->values);
}

/* --- the whole --- */

static fb_status make(fb_choose_words *out, const fb_choice *choice,
                      const fb_spec *spec, const char *path)
{
    const fb_results *results = choice->analysis->results;
    const fb_candidate *c =
        &choice->all[choice->chosen >= 0 ? choice->chosen : choice->nearest];

    FB_TRY(fb_export_peer_one(results, spec, c->rule, c->budget, &out->peer,
                              &out->peer_notes));
    add_next(&out->next, results, spec, c, path);
    FB_TRY(fb_text_status(&out->next));
    out->words.peer = fb_text_string(&out->peer);
    out->words.peer_notes = fb_text_string(&out->peer_notes);
    out->words.next = fb_text_string(&out->next);
    out->words.n_rules = fb_rule_count();
    out->words.n_untested = count_untested(results);
    return FB_OK;
}

fb_status fb_choose_words_make(fb_choose_words *out, const fb_choice *choice,
                               const char *path)
{
    const char *text = choice->analysis->results->spec;
    fb_spec spec;
    fb_status status = fb_spec_init(&spec);

    *out = (fb_choose_words){0};
    if (status == FB_OK)
        status = fb_spec_parse(&spec, "specification", text, strlen(text));
    if (status == FB_OK) status = make(out, choice, &spec, path);
    fb_spec_clear(&spec);
    return status;
}

void fb_choose_words_clear(fb_choose_words *words)
{
    fb_text_clear(&words->peer);
    fb_text_clear(&words->peer_notes);
    fb_text_clear(&words->next);
}
