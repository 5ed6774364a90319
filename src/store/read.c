/* read.c - everything of one experiment as plain arrays.
 *
 * Rows are read inside one transaction, so a run that goes on beside does not show half
 * a state. Rows may be those of other experiments too, so that their ids tell nothing:
 * tasks, rules and budgets come in the order in which the experiment's own text lists
 * them. Samples of a task come in the order of their keys, shorter keys first: numbers
 * count upwards.
 *
 * The file may be anybody's: a text that is missing is read as "", and an id that leads
 * nowhere is a failure.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "store/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the experiment --- */

static fb_status find_experiment(fb_reader *reader, const char *spec_sha256)
{
    const fb_value hash = fb_value_text(spec_sha256);
    fb_results *r = &reader->results;

    fb_query_open(&reader->query, reader->store,
                  "SELECT id, name, question, spec, spec_sha256, class, class_reasons, "
                  "program, created, baseline, kernel, protocol, protection, compute "
                  "FROM experiment WHERE ?1 IS NULL OR spec_sha256 = ?1 "
                  "ORDER BY id DESC LIMIT 1",
                  &hash, 1);
    if (fb_query_next(&reader->query)) {
        r->experiment = fb_reader_int(reader, 0);
        r->name = fb_reader_word(reader, 1);
        r->question = fb_reader_word(reader, 2);
        r->spec = fb_reader_word(reader, 3);
        r->spec_sha256 = fb_reader_word(reader, 4);
        r->class_name = fb_reader_word(reader, 5);
        r->class_reasons = fb_reader_word(reader, 6);
        r->program = fb_reader_word(reader, 7);
        r->created = fb_reader_word(reader, 8);
        r->baseline = fb_reader_text(reader, 9);
        r->kernel = fb_reader_text(reader, 10);
        r->protocol = fb_reader_text(reader, 11);
        r->protection = fb_reader_text(reader, 12);
        r->compute = fb_reader_text(reader, 13);
    }
    FB_TRY(fb_query_close(&reader->query));
    if (r->experiment != 0) return FB_OK;
    if (spec_sha256 == NULL)
        return fb_fail(FB_NOT_FOUND, "results '%s': no experiment in it",
                       reader->store->path);
    return fb_fail(FB_NOT_FOUND, "results '%s': no experiment with spec %.12s in it",
                   reader->store->path, spec_sha256);
}

static fb_status read_planned(fb_reader *reader)
{
    bool says = false;

    FB_TRY(fb_reader_is_since(reader, 3, &says));
    if (!says) return FB_OK;
    fb_reader_query(reader, "SELECT planned FROM experiment WHERE id = ?1");
    if (fb_query_next(&reader->query))
        reader->results.planned = fb_reader_int(reader, 0);
    return fb_query_close(&reader->query);
}

static fb_status read_model(fb_reader *reader)
{
    fb_store_model *m = &reader->results.model;

    *m = (fb_store_model){.sha256 = "", .name = "", .architecture = ""};
    fb_reader_query(reader,
                    "SELECT sha256, name, architecture, layers, heads, kv_heads, "
                    "head_dim, template_sha256, tokenizer_sha256, facts FROM model "
                    "WHERE id = (SELECT model_id FROM cell WHERE experiment_id = ?1 "
                    "ORDER BY id LIMIT 1)");
    if (fb_query_next(&reader->query)) {
        m->sha256 = fb_reader_word(reader, 0);
        m->name = fb_reader_word(reader, 1);
        m->architecture = fb_reader_word(reader, 2);
        m->layers = fb_reader_int(reader, 3);
        m->heads = fb_reader_int(reader, 4);
        m->kv_heads = fb_reader_int(reader, 5);
        m->head_dim = fb_reader_int(reader, 6);
        m->template_sha256 = fb_reader_text(reader, 7);
        m->tokenizer_sha256 = fb_reader_text(reader, 8);
        m->facts = fb_reader_text(reader, 9);
    }
    return fb_query_close(&reader->query);
}

static fb_status read_word(fb_reader *reader, const char **out, const char *sql)
{
    *out = NULL;
    fb_reader_query(reader, sql);
    if (fb_query_next(&reader->query)) *out = fb_reader_text(reader, 0);
    return fb_query_close(&reader->query);
}

/* What is no JSON (a changed file) is written as null: the text around it stays whole. */
static fb_status add_description(const char *description, fb_text *out)
{
    fb_json *json = NULL;
    const char *text = description == NULL ? "" : description;
    const fb_status status = fb_json_parse(&json, text, strlen(text));

    if (status == FB_NO_MEMORY) return status;
    fb_text_puts(out, status == FB_OK ? text : "null");
    fb_json_free(json);
    return FB_OK;
}

fb_status fb_store_add_hosts(fb_store *store, int64_t experiment, fb_text *out)
{
    const fb_value id = fb_value_int(experiment);
    fb_status status = FB_OK, closed;
    fb_query query;

    fb_query_open(&query, store,
                  "SELECT description FROM host WHERE id IN (SELECT host_id FROM cell "
                  "WHERE experiment_id = ?1) ORDER BY sha256",
                  &id, 1);
    for (bool is_first = true; status == FB_OK && fb_query_next(&query);
         is_first = false) {
        fb_text_puts(out, is_first ? "" : ", ");
        status = add_description(fb_query_text(&query, 0), out);
    }
    closed = fb_query_close(&query);
    return status != FB_OK ? status : closed;
}

static fb_status read_certificate(fb_reader *reader)
{
    fb_results *r = &reader->results;

    FB_TRY(read_word(reader, &r->certificate,
                     "SELECT body FROM certificate WHERE experiment_id = ?1 "
                     "ORDER BY id DESC LIMIT 1"));
    FB_TRY(read_word(reader, &r->certificate_sha256,
                     "SELECT sha256 FROM certificate WHERE experiment_id = ?1 "
                     "ORDER BY id DESC LIMIT 1"));
    fb_reader_query(reader, "SELECT created, cells, equal FROM verification WHERE "
                            "certificate_id = (SELECT max(id) FROM certificate WHERE "
                            "experiment_id = ?1) AND equal BETWEEN 0 AND cells "
                            "ORDER BY id DESC LIMIT 1");
    if (fb_query_next(&reader->query)) {
        r->verified = fb_reader_word(reader, 0);
        r->n_verified = fb_reader_int(reader, 1);
        r->n_verified_equal = fb_reader_int(reader, 2);
    }
    return fb_query_close(&reader->query);
}

static fb_status read_notes(fb_reader *reader)
{
    void *rows;
    const char **notes;
    int n, i = 0;

    FB_TRY(fb_reader_take(&rows, &n, reader,
                          "SELECT count(*) FROM note WHERE experiment_id = ?1",
                          sizeof *notes));
    notes = rows;
    fb_reader_query(reader, "SELECT coalesce(level, '') || ': ' || coalesce(text, '') "
                            "FROM note WHERE experiment_id = ?1 ORDER BY id");
    while (i < n && fb_query_next(&reader->query))
        notes[i++] = fb_reader_word(reader, 0);
    reader->results.notes = notes;
    reader->results.n_notes = i;
    return fb_query_close(&reader->query);
}

/* --- what cells refer to --- */

/* Without the marks of quotes and lists, and with commas for ends of lines: the text of
 * the experiment becomes "...,tasks:,  - needle:length=512,rules:,  - full: full,
 * budgets:  10%, 20%,,...". */
#define PLAIN(text)                                                                    \
    "replace(replace(replace(replace(replace(" text                                    \
    ", '\\', ''), '\"', ''), char(10), ','), '[', ' '), ']', ',')"
#define WORDS "(SELECT " PLAIN("spec") " FROM experiment WHERE id = ?1)"
/* A task is found by its parameters, which the row has as JSON, then by its data. */
#define TASK_ORDER                                                                     \
    "instr(" WORDS ", ',  - ' || task.name || CASE task.params WHEN '{}' THEN '' "     \
    "ELSE ':' || replace(replace(replace(trim(task.params, '{}'), '\"', ''), "         \
    "': ', '='), ', ', ',') END || ','), instr(" WORDS ", task.data_sha256), task.id"
#define RULE_ORDER                                                                     \
    "instr(" WORDS ", " PLAIN("',  - ' || label || ': ' || expression || ','") "), id"
#define BUDGET_ORDER                                                                   \
    "instr(substr(" WORDS ", instr(" WORDS ", ',budgets:')), ' ' || asked || ','), id"

#define CELLS_OF "(SELECT DISTINCT sample_id FROM cell WHERE experiment_id = ?1)"
#define TASKS_OF "(SELECT DISTINCT task_id FROM sample WHERE id IN " CELLS_OF ")"

static fb_status read_tasks(fb_reader *reader)
{
    void *rows;
    fb_result_task *tasks;
    int n, i = 0;

    FB_TRY(fb_reader_take(&rows, &n, reader,
                          "SELECT count(*) FROM task WHERE id IN " TASKS_OF,
                          sizeof *tasks));
    tasks = rows;
    FB_TRY(fb_links_take(reader, &reader->tasks, n));
    fb_reader_query(
        reader, "SELECT id, name, metric, unit, params, version, "
                "lower_is_better, margin, data_sha256 FROM task WHERE id IN " TASKS_OF
                " ORDER BY " TASK_ORDER);
    while (i < n && fb_query_next(&reader->query)) {
        tasks[i] = (fb_result_task){
            .kind = fb_reader_word(reader, 1),
            .metric = fb_reader_word(reader, 2),
            .unit = fb_reader_word(reader, 3),
            .params = fb_reader_text(reader, 4),
            .version = fb_reader_int(reader, 5),
            .lower_is_better = fb_reader_bool(reader, 6),
            .margin = fb_query_real(&reader->query, 7),
            .data_sha256 = fb_reader_text(reader, 8),
        };
        fb_links_add(&reader->tasks, fb_reader_int(reader, 0), i);
        i++;
    }
    fb_links_sort(&reader->tasks);
    reader->results.tasks = tasks;
    reader->results.n_tasks = i;
    FB_TRY(fb_query_close(&reader->query));
    return fb_context(fb_name_tasks(&reader->pool, tasks, i),
                      "results '%s': parameters of a task", reader->store->path);
}

static fb_result_sample sample_at(fb_reader *reader, int task)
{
    const bool has_depth = fb_query_text(&reader->query, 13) != NULL;

    return (fb_result_sample){
        .task = task,
        .key = fb_reader_word(reader, 2),
        .group = fb_reader_word(reader, 3),
        .context = fb_reader_text(reader, 4),
        .question = fb_reader_text(reader, 5),
        .expected = fb_reader_text(reader, 6),
        .needle = fb_reader_text(reader, 7),
        .token_text = fb_reader_text(reader, 8),
        .tokens_sha256 = fb_reader_word(reader, 9),
        .context_tokens = fb_reader_int(reader, 10),
        .question_tokens = fb_reader_int(reader, 11),
        .cut_tokens = fb_reader_int(reader, 12),
        .depth = has_depth ? fb_query_real(&reader->query, 13) : -1,
        .length = fb_reader_int(reader, 14),
    };
}

static fb_status read_samples(fb_reader *reader)
{
    fb_status status = FB_OK, closed;
    fb_result_sample *samples;
    void *rows;
    int n, i = 0;

    FB_TRY(fb_reader_take(&rows, &n, reader,
                          "SELECT count(*) FROM sample WHERE id IN " CELLS_OF,
                          sizeof *samples));
    samples = rows;
    FB_TRY(fb_links_take(reader, &reader->samples, n));
    fb_reader_query(
        reader, "SELECT sample.id, task_id, key, grp, context, question, expected, "
                "needle, token_text, tokens_sha256, context_tokens, question_tokens, "
                "cut_tokens, depth, length FROM sample "
                "LEFT JOIN task ON task.id = task_id WHERE sample.id IN " CELLS_OF
                " ORDER BY " TASK_ORDER ", length(key), key, tokens_sha256, sample.id");
    while (status == FB_OK && i < n && fb_query_next(&reader->query)) {
        int task;

        if (!fb_links_find(&task, &reader->tasks, fb_reader_int(reader, 1))) {
            status = fb_reader_dangling(reader, "task");
            break;
        }
        samples[i] = sample_at(reader, task);
        fb_links_add(&reader->samples, fb_reader_int(reader, 0), i);
        i++;
    }
    closed = fb_query_close(&reader->query);
    fb_links_sort(&reader->samples);
    reader->results.samples = samples;
    reader->results.n_samples = i;
    return status != FB_OK ? status : closed;
}

#define RULES_OF "(SELECT DISTINCT rule_id FROM cell WHERE experiment_id = ?1)"

static fb_status read_rules(fb_reader *reader)
{
    void *rows;
    fb_result_rule *rules;
    int n, i = 0;
    bool says = false;

    FB_TRY(fb_reader_is_since(reader, 4, &says));
    FB_TRY(fb_reader_take(&rows, &n, reader,
                          "SELECT count(*) FROM rule WHERE id IN " RULES_OF,
                          sizeof *rules));
    rules = rows;
    FB_TRY(fb_links_take(reader, &reader->rules, n));
    fb_reader_query(
        reader, says ? "SELECT id, label, expression, family, deployable, is_random, "
                       "is_reference, about, accounted FROM rule WHERE id IN " RULES_OF
                       " ORDER BY " RULE_ORDER
                     : "SELECT id, label, expression, family, deployable, is_random, "
                       "is_reference, NULL, accounted FROM rule WHERE id IN " RULES_OF
                       " ORDER BY " RULE_ORDER);
    while (i < n && fb_query_next(&reader->query)) {
        rules[i] = (fb_result_rule){
            .label = fb_reader_word(reader, 1),
            .expression = fb_reader_word(reader, 2),
            .family = fb_reader_word(reader, 3),
            .deployable = fb_reader_bool(reader, 4),
            .is_random = fb_reader_bool(reader, 5),
            .is_reference = fb_reader_bool(reader, 6),
            .about = fb_reader_text(reader, 7),
            .accounted = fb_reader_bool(reader, 8),
        };
        fb_links_add(&reader->rules, fb_reader_int(reader, 0), i);
        i++;
    }
    fb_links_sort(&reader->rules);
    reader->results.rules = rules;
    reader->results.n_rules = i;
    return fb_query_close(&reader->query);
}

#define BUDGETS_OF "(SELECT DISTINCT budget_id FROM cell WHERE experiment_id = ?1)"

static bool is_number(const char *text)
{
    char *end;
    const double value = strtod(text, &end);

    return end != text && isfinite(value);
}

/* `full` is no budget: its cells have index -1. */
static fb_status read_budgets(fb_reader *reader)
{
    void *rows;
    fb_store_budget *budgets;
    bool are_numbers = true;
    fb_status status;
    int n, i = 0;

    FB_TRY(fb_reader_take(&rows, &n, reader,
                          "SELECT count(*) FROM budget WHERE id IN " BUDGETS_OF,
                          sizeof *budgets));
    budgets = rows;
    FB_TRY(fb_links_take(reader, &reader->budgets, n));
    fb_reader_query(reader,
                    "SELECT id, asked, kind, value FROM budget WHERE id IN " BUDGETS_OF
                    " ORDER BY " BUDGET_ORDER);
    while (reader->budgets.n < n && fb_query_next(&reader->query)) {
        const char *kind = fb_reader_word(reader, 2);
        const bool is_full = kind != NULL && strcmp(kind, "full") == 0;

        fb_links_add(&reader->budgets, fb_reader_int(reader, 0), is_full ? -1 : i);
        if (is_full) continue;
        budgets[i++] = (fb_store_budget){.asked = fb_reader_word(reader, 1),
                                         .kind = kind,
                                         .value = fb_reader_word(reader, 3)};
        are_numbers &= is_number(budgets[i - 1].value);
    }
    fb_links_sort(&reader->budgets);
    reader->results.budgets = budgets;
    reader->results.n_budgets = i;
    status = fb_query_close(&reader->query);
    if (status != FB_OK || are_numbers) return status;
    return fb_fail(FB_FORMAT, "results '%s': the value of a budget is no number",
                   reader->store->path);
}

/* --- the whole --- */

static fb_status read_all(fb_reader *reader, const char *spec_sha256)
{
    fb_results *r = &reader->results;

    FB_TRY(find_experiment(reader, spec_sha256));
    FB_TRY(fb_store_digest(reader->store, r->experiment, r->digest));
    FB_TRY(read_planned(reader));
    FB_TRY(read_model(reader));
    FB_TRY(read_word(reader, &r->host,
                     "SELECT description FROM host WHERE id = (SELECT host_id FROM "
                     "cell WHERE experiment_id = ?1 ORDER BY id LIMIT 1)"));
    FB_TRY(read_certificate(reader));
    FB_TRY(read_notes(reader));
    FB_TRY(read_tasks(reader));
    FB_TRY(read_samples(reader));
    FB_TRY(read_rules(reader));
    FB_TRY(read_budgets(reader));
    FB_TRY(fb_reader_cells(reader));
    return fb_pool_status(&reader->pool);
}

fb_status fb_store_read(fb_store *store, const char *spec_sha256,
                        const fb_results **out)
{
    fb_reader *reader = fb_zalloc(FB_ACCOUNT_other, sizeof *reader);
    fb_status status;

    *out = NULL;
    if (reader == NULL) return fb_fail(FB_NO_MEMORY, "no memory to read the results");
    reader->store = store;
    reader->results.owner = reader;
    status = fb_query_run(store, "BEGIN", NULL, 0);
    if (status == FB_OK) {
        status = read_all(reader, spec_sha256);
        status = fb_query_end(store, status);
    }
    if (status != FB_OK) {
        fb_results_free(&reader->results);
        return status;
    }
    *out = &reader->results;
    return FB_OK;
}

fb_status fb_results_disown(const fb_results *results, const char *reason)
{
    fb_reader *reader = results->owner;
    fb_results *r = &reader->results;

    r->class_name = "open";
    r->class_reasons = fb_pool_text(&reader->pool, reason);
    r->certificate = r->certificate_sha256 = r->verified = NULL;
    return fb_pool_status(&reader->pool);
}

void fb_results_free(const fb_results *results)
{
    fb_reader *reader = results == NULL ? NULL : results->owner;

    if (reader == NULL) return;
    fb_pool_clear(&reader->pool);
    fb_free(reader);
}

bool fb_result_is_done(const fb_result_cell *cell)
{
    return strcmp(cell->status, "done") == 0;
}

bool fb_result_score(const fb_result_cell *cell, const char *metric, double *out)
{
    for (int i = 0; i < cell->n_scores; i++)
        if (strcmp(cell->scores[i].metric, metric) == 0) {
            *out = cell->scores[i].value;
            return true;
        }
    return false;
}
