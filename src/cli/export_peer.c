/* export_peer.c - the rules of an experiment as presses of kvpress.
 *
 * The ratio of a press is the share that leaves. Of a budget in tokens or bytes it depends
 * on the length of the text: then the least and the most of the experiment's are given.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "cli/export.h"
#include "cli/peer_notes.h"
#include "rule/peer.h"

#include <stdio.h>
#include <string.h>

static const char PROJECT[] = "kvpress";

typedef struct export
{
    const fb_results *results;
    const fb_peer_project *project;
    fb_spec spec;
    bool is_json;
    fb_text *out;
    fb_text rows; /* of the table */
    int n_rules;  /* written so far */
}
export;

/* --- ratios --- */

typedef struct ratio {
    double least, most;
    bool is_known;
} ratio;

/* What leaves of a cell, with half an entry to spare: kvpress keeps the whole number below
 * n (1 - ratio), computed in doubles. False if it cannot be told. */
static bool cell_ratio(const export *e, const fb_result_cell *cell, double *out)
{
    const fb_result_sample *sample = &e->results->samples[cell->sample];
    const bool is_aware = fb_values_is(&e->spec.values, FB_SET_query, "aware");
    const double n = (double)sample->context_tokens +
                     (is_aware ? (double)sample->question_tokens : 0);

    if (cell->full_entries <= 0 || n < 1) return false;
    *out = 1 - (double)cell->budget_entries / (double)cell->full_entries - 0.5 / n;
    if (*out < 0) *out = 0;
    return true;
}

static ratio ratio_of(const export *e, int rule, int budget)
{
    const fb_store_budget *b = &e->results->budgets[budget];
    ratio r = {0};
    double share;

    if (strcmp(b->kind, "ratio") == 0 && fb_parse_real(b->value, &share))
        return (ratio){1 - share, 1 - share, true};
    for (int i = 0; i < e->results->n_cells; i++) {
        const fb_result_cell *cell = &e->results->cells[i];

        if (cell->rule != rule || cell->budget != budget ||
            !cell_ratio(e, cell, &share))
            continue;
        if (!r.is_known || share < r.least) r.least = share;
        if (!r.is_known || share > r.most) r.most = share;
        r.is_known = true;
    }
    return r;
}

static bool is_one(ratio r)
{
    return r.is_known && !(r.least < r.most);
}

/* "compression_ratio=0.8", or "" where it is not one number. */
static void print_first(ratio r, char *out, size_t most)
{
    out[0] = '\0';
    if (is_one(r)) (void)snprintf(out, most, "compression_ratio=%.9g", r.least);
}

/* --- why not --- */

static const char *why_none(const fb_bound_rule *rule)
{
    const fb_choices *c = fb_bound_rule_choices(rule);

    if (c->keeps_all) return "evicts nothing: run without a press";
    if (!fb_bound_rule_is_deployable(rule))
        return "looks at what comes after the text, which no press sees";
    return "no press keeps what it keeps";
}

/* Parameters and settings that no press has; "" if it keeps just that. */
static void add_differences(const export *e, const fb_peer_match *match, fb_text *out)
{
    const fb_peer *outer = match->press[0].peer;
    fb_text missing = {0};

    if (match->n_differs > 0) fb_text_printf(out, "nearest: %s", match->differs);
    fb_peer_add_missing(fb_settings(), &e->spec.values, outer->settings,
                        "positions= protect= rounding=", &missing);
    if (missing.n > 0)
        fb_text_printf(out, "%sit is run there as with %s", out->n > 0 ? "; " : "",
                       fb_text_string(&missing));
    if (outer->remark[0] != '\0')
        fb_text_printf(out, "%s%s", out->n > 0 ? "; " : "", outer->remark);
    fb_text_clear(&missing);
}

/* --- text --- */

static void add_row(export *e, int rule, int budget, const fb_peer_match *match)
{
    const ratio r = ratio_of(e, rule, budget);
    char first[64];

    print_first(r, first, sizeof first);
    fb_text_printf(&e->rows, "%s\t%s\t", e->results->rules[rule].label,
                   e->results->budgets[budget].asked);
    fb_peer_print(match, first, &e->rows);
    if (!is_one(r) && r.is_known)
        fb_text_printf(&e->rows, ", compression_ratio from %.4g to %.4g by length",
                       r.least, r.most);
    fb_text_puts(&e->rows, "\n");
}

static void add_text(export *e, int rule, const fb_peer_match *match, const char *why,
                     const char *differs)
{
    const char *label = e->results->rules[rule].label;

    if (match->n == 0) fb_text_printf(&e->rows, "%s\t-\t%s\n", label, why);
    for (int b = 0; match->n > 0 && b < e->results->n_budgets; b++)
        add_row(e, rule, b, match);
    if (differs[0] != '\0') fb_text_printf(&e->rows, "\t\t(%s)\n", differs);
}

/* --- JSON --- */

static void add_pair(fb_text *out, const char *key, const char *value)
{
    fb_text_printf(out, ", \"%s\": ", key);
    fb_json_add_string(out, value);
}

static void add_json_budget(export *e, int rule, int budget, const fb_peer_match *match)
{
    const ratio r = ratio_of(e, rule, budget);
    fb_text call = {0};
    char first[64];

    print_first(r, first, sizeof first);
    fb_peer_print(match, first, &call);
    fb_text_printf(e->out, "%s{\"budget\": ", budget == 0 ? "" : ", ");
    fb_json_add_string(e->out, e->results->budgets[budget].asked);
    if (is_one(r))
        fb_text_printf(e->out, ", \"compression_ratio\": %.9g", r.least);
    else if (r.is_known)
        fb_text_printf(e->out, ", \"compression_ratio\": [%.9g, %.9g]", r.least,
                       r.most);
    add_pair(e->out, "call", fb_text_string(&call));
    fb_text_puts(e->out, "}");
    fb_text_clear(&call);
}

static void add_json(export *e, int rule, const fb_peer_match *match, const char *why,
                     const char *differs)
{
    fb_text *out = e->out;

    fb_text_printf(out, "%s{\"rule\": ", e->n_rules == 0 ? "\n  " : ",\n  ");
    fb_json_add_string(out, e->results->rules[rule].label);
    add_pair(out, "expression", e->results->rules[rule].expression);
    fb_text_puts(out, ", \"press\": ");
    fb_peer_print_json(match, out);
    if (match->n == 0) {
        add_pair(out, "reason", why);
    } else {
        fb_text_printf(out, ", \"exact\": %s",
                       match->n_differs == 0 ? "true" : "false");
        add_pair(out, "differs", differs);
        fb_text_puts(out, ", \"budgets\": [");
        for (int b = 0; b < e->results->n_budgets; b++)
            add_json_budget(e, rule, b, match);
        fb_text_puts(out, "]");
    }
    fb_text_puts(out, "}");
}

/* --- a rule --- */

enum { WHY_BYTES = 256 };

/* The presses of a rule, else why there are none; in what they differ. */
static void find_match(const export *e, int rule, fb_peer_match *match,
                       char why[WHY_BYTES], fb_text *differs)
{
    const bool is_compact = fb_values_is(&e->spec.values, FB_SET_positions, "compact");
    fb_bound_rule *bound = NULL;

    *match = (fb_peer_match){0};
    /* It may be of another version, or of a program of its own. */
    if (fb_rule_parse(&bound, e->results->rules[rule].expression) == FB_OK) {
        fb_peer_find(match, e->project, bound, is_compact);
        (void)snprintf(why, WHY_BYTES, "%s", why_none(bound));
    } else {
        (void)snprintf(why, WHY_BYTES, "is no expression here: %.*s",
                       (int)strcspn(fb_error_message(), "\n"), fb_error_message());
    }
    if (match->n > 0) add_differences(e, match, differs);
    fb_bound_rule_free(bound);
}

static void add_rule(export *e, int rule)
{
    fb_peer_match match;
    fb_text differs = {0};
    char why[WHY_BYTES];

    find_match(e, rule, &match, why, &differs);
    if (e->is_json)
        add_json(e, rule, &match, why, fb_text_string(&differs));
    else
        add_text(e, rule, &match, why, fb_text_string(&differs));
    e->n_rules++;
    fb_text_clear(&differs);
}

/* --- how the experiment is not run as kvpress runs its presses --- */

static bool has_question(const export *e)
{
    return fb_values_is(&e->spec.values, FB_SET_query, "aware");
}

static void add_missing(const export *e, fb_text *out)
{
    fb_peer_add_missing(fb_settings(), &e->spec.values, e->project->settings, "", out);
}

/* A line each. */
static void add_notes(const export *e, fb_text *out)
{
    fb_text missing = {0};

    add_missing(e, &missing);
    if (missing.n > 0)
        fb_text_printf(out,
                       "%s runs presses as with %s, which this experiment is not: "
                       "other entries stay\n",
                       e->project->title, fb_text_string(&missing));
    if (fb_spec_streams(&e->spec))
        fb_text_puts(out, "here entries leave while the text comes in (protocol "
                          "stream), there once behind it: other entries stay\n");
    if (has_question(e))
        fb_text_puts(out, "the question is part of the context here (query aware): "
                          "pass it there as well\n");
    fb_text_clear(&missing);
}

static void add_settings(export *e)
{
    fb_text words = {0};

    if (e->is_json) {
        add_missing(e, &words);
        fb_text_puts(e->out, "\n], \"run_there_as_with\": ");
        fb_json_add_string(e->out, fb_text_string(&words));
        fb_text_printf(e->out, ", \"question_in_context\": %s, \"streamed\": %s}\n",
                       has_question(e) ? "true" : "false",
                       fb_spec_streams(&e->spec) ? "true" : "false");
    } else {
        add_notes(e, &words);
        fb_text_printf(e->out, "%s%s", words.n > 0 ? "\n" : "", fb_text_string(&words));
    }
    fb_text_clear(&words);
}

/* --- all --- */

static fb_status write_all(export *e)
{
    if (e->is_json) {
        fb_text_puts(e->out, "{\"format\": 1");
        add_pair(e->out, "project", e->project->title);
        add_pair(e->out, "experiment", e->results->name);
        fb_text_puts(e->out, ", \"rules\": [");
    } else {
        fb_text_printf(e->out, "rules of '%s' as presses of %s\n\n", e->results->name,
                       e->project->title);
        fb_text_puts(&e->rows, "rule\tbudget\tpress\n");
    }
    for (int r = 0; r < e->results->n_rules; r++)
        add_rule(e, r);
    if (!e->is_json) fb_align(fb_text_string(&e->rows), e->out);
    add_settings(e);
    FB_TRY(fb_text_status(&e->rows));
    return fb_text_status(e->out);
}

/* --- one of them --- */

static void add_one(const export *e, int rule, int budget, fb_text *notes)
{
    const ratio r = budget < 0 ? (ratio){0} : ratio_of(e, rule, budget);
    fb_peer_match match;
    fb_text differs = {0};
    char first[64], why[WHY_BYTES];

    find_match(e, rule, &match, why, &differs);
    print_first(r, first, sizeof first);
    if (match.n == 0)
        fb_text_printf(e->out, "none (%s)", why);
    else
        fb_peer_print(&match, first, e->out);
    if (match.n > 0 && r.is_known && !is_one(r))
        fb_text_printf(e->out, ", compression_ratio from %.4g to %.4g by length",
                       r.least, r.most);
    if (differs.n > 0) fb_text_printf(e->out, " (%s)", fb_text_string(&differs));
    if (match.n > 0) add_notes(e, notes);
    fb_text_clear(&differs);
}

fb_status fb_export_peer_one(const fb_results *results, const fb_spec *spec, int rule,
                             int budget, fb_text *out, fb_text *notes)
{
    const export e = {.results = results,
                      .project = fb_peer_project_find(PROJECT),
                      .spec = *spec, /* lent */
                      .out = out};

    add_one(&e, rule, budget, notes);
    FB_TRY(fb_text_status(notes));
    return fb_text_status(out);
}

/* --- all of them --- */

fb_status fb_export_peer(const fb_results *results, bool is_json, fb_text *out)
{
    export e = {.results = results,
                .project = fb_peer_project_find(PROJECT),
                .is_json = is_json,
                .out = out};
    fb_status status = fb_spec_init(&e.spec);

    if (status == FB_OK)
        status = fb_spec_parse(&e.spec, "specification", results->spec,
                               strlen(results->spec));
    if (status == FB_OK) status = write_all(&e);
    fb_text_clear(&e.rows);
    fb_spec_clear(&e.spec);
    return status;
}
