/* cmd_export.c - results for other programs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/export.h"
#include "report/export_kept.h"

#include <string.h>

enum { EXPERIMENT, FORMAT, OUT };

static const fb_option options[] = {
    [EXPERIMENT] = FB_EXPERIMENT_OPTION,
    [FORMAT] = {.name = "format",
                .type = FB_TYPE_TEXT,
                .initial = "",
                .argument = "FORMAT",
                .group = "Output",
                .help = "kept: jsonl (default) or safetensors; peer: text (default) or "
                        "json"},
    [OUT] = FB_OUT_OPTION,
    FB_OPTION_END,
};

/* WHAT can be exported. Formats: the default first; none: known, and not built yet. */
typedef enum subject { KEPT, PEER, N_BUILT, N_SUBJECTS = 9 } subject;

static const struct {
    const char *name, *formats[2];
} subjects[N_SUBJECTS] = {
    [KEPT] = {"kept", {"jsonl", "safetensors"}},
    [PEER] = {"peer", {"text", "json"}},
    {"cells", {0}},
    {"points", {0}},
    {"pairs", {0}},
    {"table", {0}},
    {"charts", {0}},
    {"samples", {0}},
    {"archive", {0}},
};

static fb_status find_subject(const char *name, subject *out)
{
    const char *names[N_SUBJECTS], *nearest;

    for (int i = 0; i < N_SUBJECTS; i++) {
        names[i] = subjects[i].name;
        if (strcmp(name, names[i]) != 0) continue;
        *out = (subject)i;
        if (i < N_BUILT) return FB_OK;
        return fb_fail(
            FB_UNSUPPORTED,
            "'export %s' is known but not built yet; there are kept and peer"
            "\nhelp: flexbudget compare RESULTS --csv, or --json, has tables",
            name);
    }
    nearest = fb_nearest_word(name, names, N_SUBJECTS);
    if (nearest != NULL)
        return fb_fail(FB_USAGE, "nothing is called '%s' here; did you mean '%s'?",
                       name, nearest);
    return fb_fail(FB_USAGE,
                   "nothing is called '%s' here; there are kept and peer\n"
                   "help: flexbudget export kept RESULTS",
                   name);
}

/* Whether it is the second format. */
static fb_status find_format(const fb_line *line, subject what, bool *is_second)
{
    const char *asked = fb_values_text(&line->own, FORMAT);
    const char *const *known = subjects[what].formats;

    *is_second = strcmp(asked, known[1]) == 0;
    if (asked[0] == '\0' || *is_second || strcmp(asked, known[0]) == 0) return FB_OK;
    return fb_fail(FB_USAGE, "option --format: '%s' is no format of %s; %s or %s",
                   asked, subjects[what].name, known[0], known[1]);
}

static fb_status write_kept(const fb_open_results *open, fb_kept_format format,
                            const char *path)
{
    const int64_t layers = open->results->model.layers;
    fb_kept_cells cells;
    fb_writer writer;
    fb_status status;

    FB_TRY(fb_kept_open(&cells, open->store, open->results));
    fb_writer_open(&writer, path[0] == '\0' ? NULL : path);
    status = fb_writer_close(&writer, fb_kept_write(&cells, format, &writer));
    if (status == FB_IO && path[0] != '\0') status = fb_context(status, "'%s'", path);
    if (status == FB_OK && path[0] != '\0')
        fb_say_note(
            "wrote %d kept %s of %lld layers%s to %s", cells.n,
            fb_plural(cells.n, "set", "sets"), (long long)cells.layers,
            cells.layers < layers ? ", those without a window of their own" : "", path);
    fb_kept_close(&cells);
    return status;
}

static fb_status write_peer(const fb_open_results *open, bool is_json, const char *path)
{
    fb_text text = {0};

    return fb_write_result(fb_export_peer(open->results, is_json, &text), &text, path);
}

static fb_status export_subject(const fb_line *line)
{
    const char *path = fb_values_text(&line->own, OUT);
    fb_open_results *open;
    bool is_second;
    subject what = KEPT;
    fb_status status;

    FB_TRY(find_subject(line->arguments[0], &what));
    FB_TRY(find_format(line, what, &is_second));
    if (what == KEPT && is_second && path[0] == '\0')
        return fb_fail(FB_USAGE, "tensors are no text for a terminal\nhelp: flexbudget "
                                 "export kept RESULTS --format safetensors -o FILE");
    FB_TRY(fb_results_spare(path));
    FB_TRY(fb_results_read(&open, line->arguments[1],
                           fb_values_text(&line->own, EXPERIMENT)));
    status =
        what == PEER
            ? write_peer(open, is_second, path)
            : write_kept(open, is_second ? FB_KEPT_SAFETENSORS : FB_KEPT_JSONL, path);
    fb_results_close(open, 1);
    return status;
}

static int run(const fb_line *line)
{
    return fb_say_end(export_subject(line));
}

const fb_command fb_command_export = {
    .name = "export",
    .arguments = "WHAT RESULTS",
    .summary = "results for other programs: kept sets, settings of kvpress",
    .about =
        "WHAT is kept: the positions of the entries that stayed, for every layer "
        "and kv head of each cell whose set was stored (run --keep-sets all), so "
        "that another engine can load what was tested; docs/KEPT.md has the layout. "
        "Or peer: the rules as presses of kvpress with their arguments and ratios, "
        "or why there is none.",
    .examples = "flexbudget export kept results.db -o kept.jsonl\n"
                "flexbudget export kept results.db --format safetensors -o "
                "kept.safetensors\n"
                "flexbudget export peer results.db --format json",
    .options = options,
    .least = 2,
    .most = 2,
    .run = run,
};
