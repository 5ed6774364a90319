/* spec_rules.c - the rules of an experiment: read from expressions and files, and refused
 * where what is asked of them is not theirs to do.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "spec/spec_inside.h"

#include <string.h>

/* --- from texts --- */

/* In a list both separate, so a label with one of them may have swallowed the rule before
 * it. A rule without a label is printed with its expression as the label: that is read, also
 * where a quota has lowered its effort since. */
static fb_status check_label(const fb_spec *spec, const char *label,
                             const fb_bound_rule *rule)
{
    fb_bound_rule *named = NULL;
    bool is_expression;
    fb_status status;

    if (strpbrk(label, "=,") == NULL) return FB_OK;
    status = fb_rule_parse_with(&named, label, &spec->files);
    if (status == FB_NO_MEMORY) return status;
    is_expression = status == FB_OK &&
                    (strcmp(fb_bound_rule_text(named), fb_bound_rule_text(rule)) == 0 ||
                     (fb_values_is(&spec->values, FB_SET_compute, "matched") &&
                      fb_bound_rule_is_lowered(rule, named)));
    fb_bound_rule_free(named);
    if (is_expression) return FB_OK;
    return fb_fail(FB_USAGE,
                   "the label '%s' has a '%c'; a label may have any "
                   "characters but '=' and ','",
                   label, *strpbrk(label, "=,"));
}

/* "label: expression" or an expression, which is its own label. */
static fb_status parse_rule(const fb_spec *spec, fb_spec_rule *out, const char *text)
{
    const char *expression = fb_spec_rule_text(text);

    out->label = fb_strdup(text);
    if (out->label == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a rule");
    if (expression != text) out->label[expression - text - 2] = '\0';
    if (out->label[0] == '\0')
        return fb_fail(FB_USAGE, "'%s': the label is empty", text);
    FB_TRY(fb_spec_explain_file(
        expression, fb_rule_parse_with(&out->rule, expression, &spec->files)));
    return check_label(spec, out->label, out->rule);
}

bool fb_spec_is_reference(const fb_spec *spec, int rule)
{
    const fb_bound_rule *bound = spec->rules[rule].rule;

    return !fb_bound_rule_scores(bound) || !fb_bound_rule_is_deployable(bound) ||
           strcmp(spec->rules[rule].label,
                  fb_values_text(&spec->values, FB_SET_reference)) == 0;
}

int fb_spec_find_rule(const fb_spec *spec, const char *label)
{
    for (int i = 0; i < spec->n_rules; i++)
        if (strcmp(spec->rules[i].label, label) == 0) return i;
    return -1;
}

static fb_status add_rule(fb_spec *spec, const char *text, int item)
{
    fb_spec_rule rule = {.item = item};
    fb_spec_rule *grown = fb_realloc(FB_ACCOUNT_other, spec->rules,
                                     (size_t)(spec->n_rules + 1) * sizeof *grown);
    fb_status status;

    if (grown == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rules");
    spec->rules = grown;
    status = parse_rule(spec, &rule, text);
    if (status == FB_OK && fb_spec_find_rule(spec, rule.label) >= 0)
        status = fb_fail(FB_USAGE,
                         "rule '%s' is listed twice; give one a label: "
                         "'other: %s'",
                         rule.label, rule.label);
    if (status == FB_OK) {
        spec->rules[spec->n_rules++] = rule;
        return FB_OK;
    }
    fb_free(rule.label);
    fb_bound_rule_free(rule.rule);
    return status;
}

/* The rules that a file's item stands for. */
static fb_status add_file(fb_spec *spec, const char *text, int item)
{
    const fb_rule_file *file = NULL;
    fb_item *items = NULL;
    int n = 0;
    fb_status status = fb_spec_load_file(spec, fb_spec_rule_text(text), &file);

    if (status == FB_OK) status = fb_spec_expand_file(file, text, &items, &n);
    for (int i = 0; status == FB_OK && i < n; i++)
        status = add_rule(spec, items[i].text, item);
    fb_items_free(items, n);
    return status;
}

/* Before any expression is read: the names of a file are known in all of them. That a file
 * of `rules` cannot be loaded is told in its turn. */
static void load_files(fb_spec_checker *c)
{
    const fb_value *files = &c->spec->values.value[FB_SET_rule_files];
    const fb_value *rules = &c->spec->values.value[FB_SET_rules];
    const fb_rule_file *file = NULL;

    for (int i = 0; i < files->n; i++)
        fb_spec_found_at(c, fb_spec_load_file(c->spec, files->items[i].text, &file),
                         FB_SET_rule_files, i);
    for (int i = 0; i < rules->n; i++) {
        const char *text = fb_spec_rule_text(rules->items[i].text);
        fb_status status = FB_OK;

        if (fb_rule_is_file(text)) status = fb_spec_load_file(c->spec, text, &file);
        (void)status;
    }
}

void fb_spec_check_rules(fb_spec_checker *c)
{
    fb_spec *spec = c->spec;
    const fb_value *value = &spec->values.value[FB_SET_rules];

    if (value->n == 0) {
        fb_spec_found(c,
                      fb_fail(FB_USAGE, "no rules given\nhelp: flexbudget rules lists "
                                        "them, for --rules full,random,snapkv"));
        return;
    }
    load_files(c);
    for (int i = 0; i < value->n; i++) {
        const char *text = value->items[i].text;

        fb_spec_found_at(c,
                         (fb_rule_is_file(text) ? add_file : add_rule)(spec, text, i),
                         FB_SET_rules, i);
    }
    if (spec->n_rules == 0 && c->first == FB_OK)
        fb_spec_found_at(c,
                         fb_fail(FB_USAGE,
                                 "no rule in it stands alone; name one and what goes "
                                 "in its brackets"),
                         FB_SET_rules, 0);
}

/* --- which of them is which --- */

/* The label as given, else `random`, else the first rule that evicts and could be
 * deployed. */
void fb_spec_check_baseline(fb_spec_checker *c)
{
    fb_spec *spec = c->spec;
    const char *asked = fb_values_text(&spec->values, FB_SET_baseline);
    const char *reference = fb_values_text(&spec->values, FB_SET_reference);
    int at = fb_spec_find_rule(spec, asked);

    if (spec->n_rules == 0 || c->first != FB_OK) return;
    if (at < 0 && strcmp(asked, "auto") != 0)
        fb_spec_found_at(
            c, fb_fail(FB_USAGE, "baseline '%s' is not one of the rules", asked),
            FB_SET_baseline, 0);
    if (strcmp(reference, "full") != 0 && fb_spec_find_rule(spec, reference) < 0)
        fb_spec_found_at(
            c, fb_fail(FB_USAGE, "reference '%s' is not one of the rules", reference),
            FB_SET_reference, 0);
    if (at < 0) at = fb_spec_find_rule(spec, "random");
    for (int i = 0; at < 0 && i < spec->n_rules; i++)
        if (!fb_bound_rule_choices(spec->rules[i].rule)->keeps_all &&
            fb_bound_rule_is_deployable(spec->rules[i].rule))
            at = i;
    spec->baseline = spec->rules[at < 0 ? 0 : at].label;
}

/* --- what they must be able to do --- */

/* A rule that makes an order of its own at each eviction has no number to keep. */
static fb_status check_rescore(const fb_spec *spec, const fb_bound_rule *rule)
{
    if (!fb_spec_keeps_scores(spec) || !fb_bound_rule_chooses(rule)) return FB_OK;
    return fb_fail(
        FB_USAGE,
        "rule '%s' makes an order of all entries at each eviction, and has no "
        "one score an entry that could be kept\nhelp: leave it out, or "
        "--rescore all",
        fb_bound_rule_text(rule));
}

static fb_status check_can_stream(const fb_bound_rule *rule)
{
    if (fb_bound_rule_streams(rule)) return FB_OK;
    return fb_fail(
        FB_USAGE,
        "rule '%s' cannot evict while a text comes in\nhelp: leave it out, or "
        "--protocol prefill",
        fb_bound_rule_text(rule));
}

void fb_spec_check_streams(fb_spec_checker *c)
{
    for (int i = 0; i < c->spec->n_rules; i++) {
        const fb_spec_rule *rule = &c->spec->rules[i];

        fb_spec_found_at(c, check_can_stream(rule->rule), FB_SET_rules, rule->item);
        fb_spec_found_at(c, check_rescore(c->spec, rule->rule), FB_SET_rules,
                         rule->item);
    }
}

static bool is_reference(const fb_bound_rule *rule)
{
    return fb_bound_rule_choices(rule)->reference != FB_REFERENCE_NONE;
}

/* The future that such a rule looks at is the question and its right answer. */
void fb_spec_check_deployable(fb_spec_checker *c, const char *without)
{
    for (int i = 0; i < c->spec->n_rules; i++)
        if (is_reference(c->spec->rules[i].rule))
            fb_spec_found(c, fb_fail(FB_UNSUPPORTED,
                                     "'%s' is a row that rules are compared with in an "
                                     "experiment\nhelp: flexbudget run has them",
                                     c->spec->rules[i].label));
        else if (!fb_bound_rule_is_deployable(c->spec->rules[i].rule))
            fb_spec_found(c, fb_fail(FB_UNSUPPORTED,
                                     "rule '%s' looks at the right answer, and %s",
                                     c->spec->rules[i].label, without));
}
