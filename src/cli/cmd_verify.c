/* cmd_verify.c - whether results are what was certified, and can be made again.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "cli/opening.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "cli/verify_words.h"
#include "experiment/host.h"
#include "experiment/version.h"

#include <string.h>

enum { EXPERIMENT, CELLS, CERTIFICATE, DATA, PROGRESS, JSON };

static const fb_option options[] = {
    [EXPERIMENT] = FB_EXPERIMENT_OPTION,
    [CELLS] = {.name = "cells",
               .type = FB_TYPE_INT,
               .initial = "12",
               .low = 1,
               .high = 1000000000,
               .words = "all",
               .argument = "N",
               .group = "How much",
               .help = "run so many cells again; which ones follows from the "
                       "certificate's hash; or all"},
    [CERTIFICATE] = {.name = "certificate",
                     .type = FB_TYPE_FLAG,
                     .initial = "off",
                     .group = "How much",
                     .help = "check the file alone, run nothing"},
    [DATA] = {.name = "data",
              .type = FB_TYPE_TEXT,
              .initial = "",
              .argument = "FOLDER",
              .group = "Where things are now",
              .help = "of the data files of tasks and the files of rules; their hashes "
                      "must be the stored ones"},
    [PROGRESS] = {.name = "progress",
                  .type = FB_TYPE_WORD,
                  .initial = "auto",
                  .words = "auto|bar|lines|json|none",
                  .argument = "FORM",
                  .group = "Output",
                  .help =
                      "on stderr: auto (bar on a terminal, else lines), bar, lines, "
                      "json or none"},
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON"},
    FB_OPTION_END,
};

static const fb_taken taken[] = {
    {FB_SET_model, NULL, "where the model is now: file, name, or 'builtin'"},
    FB_TAKEN_MACHINE,
    {FB_SET_COUNT, NULL, NULL},
};

typedef struct job {
    const fb_line *line;
    const char *path;
    fb_store *store;
    const fb_results *results;
    fb_spec spec; /* the stored one */
    fb_ops *ops;
    fb_model *model;
    fb_plan *plan;
    fb_text problems; /* of the file, a line each */
    fb_verified verified;
    int n_said;
    bool is_damaged; /* no program has written what is stored */
} job;

/* --- the file --- */

static fb_status read_results(job *j)
{
    const char *asked = fb_values_text(&j->line->own, EXPERIMENT);
    char sha256[FB_HASH_HEX];
    fb_status status;
    int n;

    FB_TRY(fb_store_open_read(&j->store, j->path));
    FB_TRY(fb_store_find(j->store, asked[0] == '\0' ? NULL : asked, sha256, &n));
    status = fb_store_read(j->store, sha256, &j->results);
    j->is_damaged = status == FB_FORMAT;
    if (status != FB_OK) return status;
    if (n > 1 && asked[0] == '\0')
        fb_say_note("%s: the newest of %d experiments, '%s' (%.12s); --experiment NAME "
                    "or HASH verifies another",
                    j->path, n, j->results->name, sha256);
    return FB_OK;
}

/* --- the experiment that the file holds --- */

/* What was said of this machine goes before what is usual here. */
static fb_status take_settings(job *j)
{
    const fb_values *asked = &j->line->spec->values;

    for (const fb_taken *t = taken; t->setting != FB_SET_COUNT; t++) {
        const fb_origin origin = asked->value[t->setting].origin;

        if (origin == FB_FROM_DEFAULT) continue;
        if (t->setting == FB_SET_model && origin != FB_FROM_COMMAND) continue;
        FB_TRY(fb_spec_assign(&j->spec, t->setting, origin,
                              fb_values_text(asked, (int)t->setting)));
    }
    return FB_OK;
}

static fb_status read_spec(job *j)
{
    const char *folder = fb_values_text(&j->line->own, DATA);
    fb_text text = {0};
    fb_status status = fb_spec_init(&j->spec);

    if (status == FB_OK)
        status = fb_verify_place_files(j->results->spec,
                                       folder[0] == '\0' ? "." : folder, &text);
    if (status == FB_OK)
        status =
            fb_spec_parse(&j->spec, "specification", fb_text_string(&text), text.n);
    fb_text_clear(&text);
    if (status == FB_OK) status = fb_open_environment(j->line->spec);
    if (status == FB_OK) status = take_settings(j);
    if (status != FB_OK) return status;
    status = fb_spec_check(&j->spec, fb_open_problem, &j->n_said);
    if (status == FB_NOT_FOUND && folder[0] == '\0')
        fb_say_note(
            "help: --data FOLDER says where data of tasks and files of rules are");
    return status;
}

static fb_status open_model(job *j)
{
    const fb_status status =
        fb_open_model(&j->model, &j->ops, &j->spec, FB_OPEN_FOR_RESULTS);
    char sentence[1024];

    if (status != FB_NOT_FOUND && status != FB_USAGE) return status;
    (void)snprintf(sentence, sizeof sentence, "%s", fb_error_message());
    return fb_fail(status,
                   "%s\nhelp: the results are of the model '%s', SHA-256 %s; -m FILE "
                   "says where that file is now",
                   sentence, j->results->model.name, j->results->model.sha256);
}

/* Cells are named by the hash of the specification as this program writes it. */
static fb_status check_spec(const job *j)
{
    char sha256[FB_HASH_HEX];
    fb_text now = {0}, changes = {0};
    fb_status status = fb_spec_hash(&j->spec, sha256);

    if (status == FB_OK && strcmp(sha256, j->results->spec_sha256) == 0) return FB_OK;
    if (status == FB_OK) status = fb_spec_print(&j->spec, false, &now);
    if (status == FB_OK)
        status = fb_spec_changes(j->results->spec, fb_text_string(&now), &changes);
    if (status == FB_OK)
        status = fb_fail(FB_UNSUPPORTED,
                         "results '%s': this program (%s) reads the specification in "
                         "another way: %s\nhelp: verify with the program that made the "
                         "results: %.80s",
                         j->path, fb_program,
                         changes.n > 0 ? fb_text_string(&changes) : "its form differs",
                         j->results->program);
    fb_text_clear(&now);
    fb_text_clear(&changes);
    return status;
}

static fb_status open_plan(job *j)
{
    FB_TRY(read_spec(j));
    FB_TRY(open_model(j));
    FB_TRY(fb_plan_new(&j->plan, &j->spec, j->model, fb_open_problem, &j->n_said));
    return check_spec(j);
}

/* --- cells --- */

static fb_status run_cells(job *j)
{
    const int64_t memory = fb_values_int(&j->spec.values, FB_SET_memory);
    fb_progress progress;
    const fb_verify_options how = {
        .plan = j->plan,
        .ops = j->ops,
        .cells = fb_values_int(&j->line->own, CELLS),
        .memory = memory > 0 ? memory : 0,
        .stop = &fb_stop_asked,
        .watch = fb_progress_watch,
        .self = &progress,
    };

    fb_progress_open(&progress, fb_values_text(&j->line->own, PROGRESS));
    fb_stop_catch();
    return fb_verify_cells(&j->verified, j->store, j->results, &how);
}

/* --- what is stored of it --- */

static fb_status put(const job *j, fb_store *store, const char *details)
{
    const fb_store_verification row = {
        .cells = j->verified.n, .equal = j->verified.n_equal, .details = details};
    char sha256[FB_HASH_HEX];
    fb_store_verification with_host = row;

    fb_hash_bytes(j->verified.host, strlen(j->verified.host), sha256);
    FB_TRY(fb_store_put_host(store, sha256, j->verified.host, &with_host.host));
    return fb_store_put_verification(store, j->results->experiment, &with_host);
}

/* A file that cannot be written to is verified all the same. */
static void store_result(job *j)
{
    const fb_verification v = {j->results, &j->verified, &j->problems, j->path};
    fb_text details = {0};
    fb_store *store = NULL;
    fb_status status;

    if (j->verified.host == NULL) return;
    fb_verify_add_json(&v, &details);
    status = fb_text_status(&details);
    if (status == FB_OK) status = fb_store_open(&store, j->path);
    if (status == FB_OK) status = put(j, store, fb_text_string(&details));
    fb_store_close(store);
    fb_text_clear(&details);
    if (status != FB_OK) {
        fb_text text = {0};

        fb_text_printf(&text, "that it was verified is not stored: %s",
                       fb_error_message());
        fb_say_warning(fb_text_string(&text));
        fb_text_clear(&text);
    }
}

/* --- the command --- */

static fb_status verify(job *j)
{
    const bool is_certificate_alone = fb_values_flag(&j->line->own, CERTIFICATE);

    FB_TRY(read_results(j));
    FB_TRY(fb_verify_file(j->store, j->results, j->path, &j->problems));
    /* What was changed cannot be made again. */
    if (is_certificate_alone || j->problems.n > 0) return FB_OK;
    FB_TRY(open_plan(j));
    FB_TRY(run_cells(j));
    return FB_OK;
}

static int say(job *j, fb_status status)
{
    const fb_verification v = {j->results, &j->verified, &j->problems, j->path};
    const bool json = fb_values_flag(&j->line->own, JSON);
    fb_text text = {0};

    if (status != FB_OK) {
        const int code = fb_open_end(status, j->n_said);

        return j->is_damaged ? fb_status_exit_code(FB_STOPPED) : code;
    }
    store_result(j);
    (json ? fb_verify_add_json : fb_verify_add_words)(&v, &text);
    if (json) fb_text_puts(&text, "\n");
    status = fb_write_result(FB_OK, &text, "");
    if (status != FB_OK) return fb_say_end(status);
    return fb_verify_holds(&v) ? 0 : fb_status_exit_code(FB_STOPPED);
}

static void close_job(job *j)
{
    fb_plan_free(j->plan);
    fb_model_close(j->model);
    fb_ops_close(j->ops);
    fb_spec_clear(&j->spec);
    fb_verified_clear(&j->verified);
    fb_text_clear(&j->problems);
    fb_results_free(j->results);
    fb_store_close(j->store);
}

static int run(const fb_line *line)
{
    job j = {.line = line, .path = line->arguments[0]};
    const int code = say(&j, verify(&j));

    close_job(&j);
    return code;
}

const fb_command fb_command_verify = {
    .name = "verify",
    .arguments = "RESULTS",
    .summary = "whether results are what was certified, and can be made again",
    .about =
        "Makes the certificate again from everything that is stored and compares: a "
        "changed byte is found and its table and column are named. Then runs some "
        "cells "
        "again, each by itself, and compares digests, scores, kept positions, bytes "
        "and "
        "the ledger. Which cells these are follows from the certificate's hash. The "
        "outcome is stored in the file.",
    .reading = (const char *const[]){FB_VERIFY_WORDS, NULL},
    .examples = "flexbudget verify results.db\n"
                "flexbudget verify results.db --certificate\n"
                "flexbudget verify results.db --cells all -m models/SmolLM2.gguf",
    .codes = "3 not what was certified, or not made again",
    .options = options,
    .has_settings = true,
    .taken = taken,
    .least = 1,
    .most = 1,
    .run = run,
};
