/* results.c - see results.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/results.h"
#include "base/memory.h"
#include "experiment/check_cells.h"
#include "experiment/verify.h"

#include <string.h>

/* What the experiment's own specification says of its statistics. */
static fb_status own_statistics(const fb_results *results, fb_analysis_options *out)
{
    fb_spec spec;
    fb_status status = fb_spec_init(&spec);

    if (status == FB_OK)
        status =
            fb_spec_parse(&spec, "specification", results->spec, strlen(results->spec));
    if (status == FB_OK) {
        out->confidence = fb_values_real(&spec.values, FB_SET_confidence) / 100;
        out->replicates = (int)fb_values_int(&spec.values, FB_SET_resamples);
        out->margin = -1; /* it is stored with the task */
    }
    fb_spec_clear(&spec);
    return status;
}

static fb_status choose_options(const fb_results *results,
                                const fb_analysis_options *asked,
                                fb_analysis_options *out)
{
    *out = (fb_analysis_options){.margin = -1};
    FB_TRY(own_statistics(results, out));
    if (asked == NULL) return FB_OK;
    out->baseline = asked->baseline;
    if (asked->confidence > 0) out->confidence = asked->confidence;
    if (asked->replicates > 0) out->replicates = asked->replicates;
    if (asked->margin >= 0) out->margin = asked->margin;
    return FB_OK;
}

/* Whoever shows the class shows this as its reason; the others have the warning. */
static fb_status disown(const fb_results *results, const char *path, const char *why)
{
    fb_text reason = {0}, warning = {0};
    fb_status status;

    fb_text_printf(&reason, "%s; 'flexbudget verify' says more", why);
    fb_text_printf(&warning, "%s: %s", path, fb_text_string(&reason));
    status = fb_text_status(&reason);
    if (status == FB_OK) status = fb_text_status(&warning);
    if (status == FB_OK) fb_say_warning(fb_text_string(&warning));
    if (status == FB_OK) status = fb_results_disown(results, fb_text_string(&reason));
    fb_text_clear(&reason);
    fb_text_clear(&warning);
    return status;
}

/* A file that was changed after its certificate must not be shown as closed, nor one whose
 * certificate says nothing to this program: what `verify` checks without running anything
 * is checked here too. An unfinished run has no certificate, and is open anyway. */
static fb_status check_certificate(const fb_open_results *open, const char *path)
{
    fb_text change = {0};
    fb_status status = fb_verify_change(open->store, open->results, path, &change);

    if (status == FB_UNSUPPORTED)
        status =
            disown(open->results, path,
                   "its certificate is of a form that this program does not check");
    else if (status == FB_NOT_FOUND)
        status = FB_OK;
    else if (status == FB_OK && change.n > 0)
        status = disown(open->results, path, fb_text_string(&change));
    fb_text_clear(&change);
    return status;
}

static fb_status read_experiment(fb_open_results *out, const char *path,
                                 const char *experiment)
{
    const bool is_chosen = experiment[0] != '\0';
    char sha256[FB_HASH_HEX];
    int n;

    FB_TRY(fb_store_find(out->store, is_chosen ? experiment : NULL, sha256, &n));
    FB_TRY(fb_store_read(out->store, sha256, &out->results));
    FB_TRY(fb_cells_check(out->results, path, true));
    FB_TRY(check_certificate(out, path));
    if (n > 1 && !is_chosen)
        fb_say_note("%s: the newest of %d experiments, '%s' (%.12s); --experiment NAME "
                    "or HASH shows another",
                    path, n, out->results->name, sha256);
    return FB_OK;
}

fb_status fb_results_spare(const char *path)
{
    if (!fb_store_is_at(path)) return FB_OK;
    return fb_fail(FB_USAGE,
                   "'%s' holds results, which would be lost; write to another "
                   "file with -o",
                   path);
}

/* Nothing can be said of an experiment without a finished cell. */
static fb_status check_finished(const fb_analysis *analysis, const char *path)
{
    const fb_results *results = analysis->results;
    const fb_failure *first = analysis->failures;

    if (analysis->n_done > 0) return FB_OK;
    if (analysis->n_failures > 0)
        return fb_fail(FB_NOT_FOUND,
                       "results '%s': no cell of '%s' is finished; %d failed, the "
                       "first under '%s': %s",
                       path, results->name, results->n_cells,
                       results->rules[first->rule].label, first->reason);
    return fb_fail(FB_NOT_FOUND,
                   "results '%s': no cell of '%s' is finished\nhelp: the 'flexbudget "
                   "run' that made the file continues it",
                   path, results->name);
}

static fb_status read_one(fb_open_results *out, const char *path,
                          const char *experiment)
{
    FB_TRY(fb_store_open_read(&out->store, path));
    return read_experiment(out, path, experiment);
}

fb_status fb_results_read(fb_open_results **out, const char *path,
                          const char *experiment)
{
    fb_open_results *open = fb_zalloc(FB_ACCOUNT_other, sizeof *open);
    fb_status status;

    *out = NULL;
    if (open == NULL) return fb_fail(FB_NO_MEMORY, "no memory for results");
    status = read_one(open, path, experiment);
    if (status == FB_OK)
        *out = open;
    else
        fb_results_close(open, 1);
    return status;
}

static fb_status open_one(fb_open_results *out, const char *path,
                          const char *experiment, const fb_analysis_options *asked)
{
    fb_analysis_options chosen;

    FB_TRY(read_one(out, path, experiment));
    FB_TRY(choose_options(out->results, asked, &chosen));
    FB_TRY(fb_analyse(&out->analysis, out->store, out->results, &chosen));
    return check_finished(out->analysis, path);
}

fb_status fb_results_open(fb_open_results **out, const fb_line *line,
                          const char *experiment, const char *target,
                          const fb_analysis_options *asked)
{
    const int n = line->n_arguments;
    fb_open_results *open;
    fb_status status = FB_OK;

    *out = NULL;
    FB_TRY(fb_results_spare(target));
    open = fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *open));
    if (open == NULL) return fb_fail(FB_NO_MEMORY, "no memory for results");
    for (int i = 0; i < n && status == FB_OK; i++)
        status = open_one(&open[i], line->arguments[i], experiment, asked);
    if (status == FB_OK)
        *out = open;
    else
        fb_results_close(open, n);
    return status;
}

/* --- two of them --- */

fb_status fb_results_across(fb_across **out, const fb_open_results *open,
                            const fb_line *line, const fb_analysis_options *asked)
{
    const fb_across_side first = {open[0].store, open[0].results};
    const fb_across_side second = {open[1].store, open[1].results};
    fb_analysis_options chosen;
    fb_text changes = {0};
    fb_status status;

    *out = NULL;
    FB_TRY(choose_options(first.results, asked, &chosen));
    fb_text_init(&changes, 0);
    status = fb_spec_changes_besides_backend(first.results->spec, second.results->spec,
                                             &changes);
    if (status == FB_OK && changes.n > 0)
        status =
            fb_fail(FB_USAGE,
                    "%s and %s differ in more than the backend: %s\nhelp: run the "
                    "same experiment on both, with other --device or --precision "
                    "alone",
                    line->arguments[0], line->arguments[1], fb_text_string(&changes));
    fb_text_clear(&changes);
    if (status != FB_OK) return status;
    return fb_compare_across(out, &first, &second, &chosen);
}

fb_status fb_results_are_across(const fb_open_results *open, int n, bool *out)
{
    fb_text changes = {0};
    fb_status status;

    *out = false;
    if (n != 2 || open[0].results->kernel == NULL || open[1].results->kernel == NULL ||
        strcmp(open[0].results->kernel, open[1].results->kernel) == 0)
        return FB_OK;
    fb_text_init(&changes, 0);
    status = fb_spec_changes_besides_backend(open[0].results->spec,
                                             open[1].results->spec, &changes);
    *out = status == FB_OK && changes.n == 0;
    fb_text_clear(&changes);
    return status;
}

void fb_results_close(fb_open_results *results, int n)
{
    for (int i = 0; results != NULL && i < n; i++) {
        fb_analysis_free(results[i].analysis);
        fb_results_free(results[i].results);
        fb_store_close(results[i].store);
    }
    fb_free(results);
}
