/* analysis.c - all tables of an experiment, and what they say.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis_story.h"

#include <math.h>
#include <string.h>

static const fb_analysis_options defaults = {
    .confidence = 0.95, .replicates = 10000, .draws = 9999, .margin = -1, .seed = 1000};

fb_analysis_options fb_analysis_usual(const fb_analysis_options *options)
{
    fb_analysis_options out = options == NULL ? defaults : *options;

    if (!(out.confidence > 0 && out.confidence < 1))
        out.confidence = defaults.confidence;
    if (out.replicates <= 0) out.replicates = defaults.replicates;
    if (out.draws <= 0) out.draws = defaults.draws;
    if (out.seed == 0) out.seed = defaults.seed;
    return out;
}

/* --- the baseline --- */

static int find_label(const fb_results *results, const char *label)
{
    for (int r = 0; r < results->n_rules; r++)
        if (label != NULL && strcmp(results->rules[r].label, label) == 0) return r;
    return -1;
}

static fb_status no_such_rule(const fb_results *results, const char *label)
{
    const char *names[64] = {0};
    const int n = results->n_rules < 64 ? results->n_rules : 64;
    const char *near;
    fb_text all = {0};
    fb_status status;

    for (int r = 0; r < n; r++)
        names[r] = results->rules[r].label;
    near = fb_nearest_word(label, names, n);
    if (near != NULL)
        return fb_fail(FB_NOT_FOUND,
                       "no rule '%s' in these results; did you mean '%s'?", label,
                       near);
    fb_text_init(&all, 0);
    for (int r = 0; r < n; r++)
        fb_text_printf(&all, "  %s", names[r]);
    fb_say_clean(&all, 0);
    status = fb_fail(FB_NOT_FOUND, "no rule '%s' in these results\nhelp: there are%s",
                     label, fb_text_string(&all));
    fb_text_clear(&all);
    return status;
}

/* The one asked for, else the experiment's, else `random`, else the first that evicts
 * and could be deployed. */
static fb_status choose_baseline(fb_analyser *analyser)
{
    const fb_results *results = analyser->results;
    const char *asked = analyser->options.baseline;

    analyser->baseline = find_label(results, asked);
    if (asked != NULL)
        return analyser->baseline >= 0 ? FB_OK : no_such_rule(results, asked);
    analyser->baseline = find_label(results, results->baseline);
    if (analyser->baseline < 0) analyser->baseline = find_label(results, "random");
    for (int r = 0; r < results->n_rules && analyser->baseline < 0; r++)
        if (strcmp(results->rules[r].expression, "full") != 0 &&
            results->rules[r].deployable)
            analyser->baseline = r;
    return FB_OK;
}

/* --- tables by place --- */

const fb_table *fb_analysis_table(const fb_analysis *analysis, int task, int budget)
{
    for (int t = 0; t < analysis->n_tables; t++)
        if (analysis->tables[t].task == task && analysis->tables[t].budget == budget)
            return &analysis->tables[t];
    return NULL;
}

double fb_table_budget_bytes(const fb_table *table)
{
    double least = (double)INFINITY;

    for (int i = 0; i < table->n_rows; i++)
        least = fmin(least, table->rows[i].budget_bytes);
    return least;
}

/* Mean bytes that a budget grants, over its tables; NAN without one. */
static double budget_bytes(const fb_analysis *analysis, int budget)
{
    double bytes = 0;
    int n = 0;

    for (int t = 0; t < analysis->n_tables; t++) {
        const fb_table *table = &analysis->tables[t];

        if (table->budget != budget) continue;
        bytes += fb_table_budget_bytes(table);
        n++;
    }
    return bytes / n;
}

int fb_analysis_smallest_budget(const fb_analysis *analysis)
{
    double least = (double)INFINITY;
    int smallest = -1;

    for (int b = 0; b < analysis->results->n_budgets; b++)
        if (budget_bytes(analysis, b) < least) {
            least = budget_bytes(analysis, b);
            smallest = b;
        }
    return smallest;
}

/* --- the whole --- */

/* Tables without a row are dropped. */
static fb_status make_tables(fb_analysis *analysis, const fb_analyser *analyser)
{
    const fb_results *results = analyser->results;
    const size_t most =
        fb_size_mul((size_t)results->n_tasks, (size_t)results->n_budgets);

    analysis->tables =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul(most, sizeof *analysis->tables));
    if (analysis->tables == NULL) return fb_fail(FB_NO_MEMORY, "no memory for tables");
    for (int task = 0; task < results->n_tasks; task++)
        for (int budget = 0; budget < results->n_budgets; budget++) {
            fb_table *table = &analysis->tables[analysis->n_tables++];

            table->task = task;
            table->budget = budget;
            FB_TRY(fb_analysis_fill(table, analyser));
            FB_TRY(fb_analysis_compare(table, analyser));
            FB_TRY(fb_analysis_lost(table, analyser));
            if (table->n_rows > 0) continue;
            fb_analysis_clear(table);
            analysis->n_tables--;
        }
    return FB_OK;
}

/* The text so far as a string of its own; the text is empty again. */
static fb_status take_string(char **out, fb_text *text)
{
    FB_TRY(fb_text_status(text));
    *out = fb_strdup(fb_text_string(text));
    fb_text_clear(text);
    return *out != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for a sentence");
}

static fb_status say_all(fb_analysis *analysis, fb_text *text)
{
    const fb_results *results = analysis->results;
    fb_story story = {.analysis = analysis, .results = results, .text = text};

    story.baseline =
        analysis->baseline < 0 ? "" : results->rules[analysis->baseline].label;
    fb_story_choose(&story, fb_analysis_smallest_budget(analysis));
    story.is_short = true; /* a sentence that can be repeated */
    fb_story_headline(&story);
    story.is_short = false;
    fb_say_clean(text, 0);
    FB_TRY(take_string(&analysis->headline, text));
    fb_story_paragraph(&story);
    fb_say_clean(text, 0);
    FB_TRY(take_string(&analysis->paragraph, text));
    fb_say_signature(text, analysis);
    fb_say_clean(text, 0);
    return take_string(&analysis->signature, text);
}

fb_status fb_analyse(fb_analysis **out, fb_store *store, const fb_results *results,
                     const fb_analysis_options *options)
{
    fb_analyser analyser = {.results = results, .store = store};
    fb_analysis *analysis;
    fb_text text;
    fb_status status;

    *out = NULL;
    analyser.options = fb_analysis_usual(options);
    FB_TRY(choose_baseline(&analyser));
    analysis = fb_zalloc(FB_ACCOUNT_other, sizeof *analysis);
    if (analysis == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the analysis");
    analysis->results = results;
    analysis->baseline = analyser.baseline;
    analysis->options = analyser.options;
    analysis->options.baseline = NULL; /* was lent */
    analysis->confidence = analyser.options.confidence;
    analysis->quota = fb_quota_of(results);
    fb_text_init(&text, 0);
    status = fb_analysis_count_missing(analysis);
    if (status == FB_OK) status = make_tables(analysis, &analyser);
    if (status == FB_OK) status = say_all(analysis, &text);
    fb_text_clear(&text);
    if (status != FB_OK) {
        fb_analysis_free(analysis);
        return status;
    }
    *out = analysis;
    return FB_OK;
}

void fb_analysis_free(fb_analysis *analysis)
{
    if (analysis == NULL) return;
    for (int t = 0; t < analysis->n_tables; t++)
        fb_analysis_clear(&analysis->tables[t]);
    fb_free(analysis->tables);
    fb_free(analysis->failures);
    fb_free(analysis->headline);
    fb_free(analysis->paragraph);
    fb_free(analysis->signature);
    fb_free(analysis);
}

fb_status fb_analysis_print(const fb_analysis *analysis, fb_format format, char **out)
{
    fb_text text;
    fb_status status;

    *out = NULL;
    fb_text_init(&text, 0);
    if (format == FB_FORMAT_JSON)
        fb_analysis_print_json(&text, analysis);
    else if (format == FB_FORMAT_CSV)
        fb_analysis_print_csv(&text, analysis);
    else
        fb_analysis_print_text(&text, analysis);
    status = take_string(out, &text);
    fb_text_clear(&text);
    return status;
}
