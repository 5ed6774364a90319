/* write.c - the rows that cells refer to: found by what they are, or inserted.
 *
 * Looking first keeps a repeated run from writing at all. Should another process insert
 * the same row in between, the insert does nothing and the second look finds it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "store/query.h"

#include <stdio.h>

enum { SQL_BYTES = 1024 };

/* The first columns of a row say which one it is; the rest is what is known of it. */
struct table {
    const char *name, *identity, *rest;
};

static int count_columns(const char *list)
{
    int n = *list != 0;

    for (; *list != 0; list++)
        n += *list == ',';
    return n;
}

/* "?1, ?2, ..." for `n` parameters. */
static void list_parameters(char out[SQL_BYTES], int n)
{
    int used = 0;

    for (int i = 1; i <= n; i++)
        used += snprintf(out + used, SQL_BYTES - (size_t)used, "%s?%d",
                         i == 1 ? "" : ", ", i);
}

static fb_status find(int64_t *id_out, fb_store *store, const struct table *table,
                      const fb_value *values)
{
    const int n = count_columns(table->identity);
    char parameters[SQL_BYTES], sql[2 * SQL_BYTES];

    list_parameters(parameters, n);
    (void)snprintf(sql, sizeof sql, "SELECT id FROM %s WHERE (%s) IS (%s)", table->name,
                   table->identity, parameters);
    return fb_query_number(id_out, store, sql, values, n);
}

static fb_status insert(fb_store *store, const struct table *table,
                        const fb_value *values)
{
    const int n_rest = count_columns(table->rest);
    const int n = count_columns(table->identity) + n_rest;
    char parameters[SQL_BYTES], sql[2 * SQL_BYTES];

    list_parameters(parameters, n);
    (void)snprintf(
        sql, sizeof sql, "INSERT INTO %s (%s%s%s) VALUES (%s) ON CONFLICT DO NOTHING",
        table->name, table->identity, n_rest > 0 ? ", " : "", table->rest, parameters);
    return fb_query_run(store, sql, values, n);
}

static fb_status put(fb_store *store, int64_t *id_out, const struct table *table,
                     const fb_value *values)
{
    *id_out = 0;
    FB_TRY(find(id_out, store, table, values));
    if (*id_out != 0) return FB_OK;
    FB_TRY(insert(store, table, values));
    FB_TRY(find(id_out, store, table, values));
    if (*id_out == 0)
        return fb_fail(FB_FORMAT, "results '%s': a row of '%s' cannot be stored",
                       store->path, table->name);
    return FB_OK;
}

fb_status fb_store_put_experiment(fb_store *store, const fb_store_experiment *row,
                                  int64_t *id_out)
{
    static const struct table table = {
        "experiment", "spec_sha256",
        "name, question, spec, class, class_reasons, program, baseline, kernel, "
        "protocol, protection, compute, planned"};
    const fb_value values[] = {
        fb_value_text(row->spec_sha256), fb_value_text(row->name),
        fb_value_text(row->question),    fb_value_text(row->spec),
        fb_value_text(row->class_name),  fb_value_text(row->class_reasons),
        fb_value_text(row->program),     fb_value_text(row->baseline),
        fb_value_text(row->kernel),      fb_value_text(row->protocol),
        fb_value_text(row->protection),  fb_value_text(row->compute),
        fb_value_int(row->planned),
    };

    return put(store, id_out, &table, values);
}

fb_status fb_store_put_host(fb_store *store, const char *sha256,
                            const char *description, int64_t *id_out)
{
    static const struct table table = {"host", "sha256", "description"};
    const fb_value values[] = {fb_value_text(sha256), fb_value_text(description)};

    return put(store, id_out, &table, values);
}

fb_status fb_store_put_model(fb_store *store, const fb_store_model *row,
                             int64_t *id_out)
{
    static const struct table table = {
        "model",
        "sha256, name, architecture, layers, heads, kv_heads, head_dim, "
        "template_sha256, tokenizer_sha256, facts",
        ""};
    const fb_value values[] = {
        fb_value_text(row->sha256),
        fb_value_text(row->name),
        fb_value_text(row->architecture),
        fb_value_int(row->layers),
        fb_value_int(row->heads),
        fb_value_int(row->kv_heads),
        fb_value_int(row->head_dim),
        fb_value_text(row->template_sha256),
        fb_value_text(row->tokenizer_sha256),
        fb_value_text(row->facts),
    };

    return put(store, id_out, &table, values);
}

fb_status fb_store_put_task(fb_store *store, const fb_store_task *row, int64_t *id_out)
{
    static const struct table table = {"task",
                                       "name, version, metric, params, data_sha256, "
                                       "unit, lower_is_better, margin",
                                       ""};
    const fb_value values[] = {
        fb_value_text(row->name),           fb_value_int(row->version),
        fb_value_text(row->metric),         fb_value_text(row->params),
        fb_value_text(row->data_sha256),    fb_value_text(row->unit),
        fb_value_int(row->lower_is_better), fb_value_real(row->margin),
    };

    return put(store, id_out, &table, values);
}

fb_status fb_store_put_sample(fb_store *store, const fb_store_sample *row,
                              int64_t *id_out)
{
    static const struct table table = {
        "sample", "task_id, key, tokens_sha256, has_texts",
        "grp, context_tokens, question_tokens, cut_tokens, context, question, "
        "expected, depth, length, needle, token_text"};
    const fb_value depth =
        row->depth < 0 ? fb_value_text(NULL) : fb_value_real(row->depth);
    const fb_value values[] = {
        fb_value_int(row->task),
        fb_value_text(row->key),
        fb_value_text(row->tokens_sha256),
        fb_value_int(row->context != NULL),
        fb_value_text(row->group != NULL ? row->group : row->key),
        fb_value_int(row->context_tokens),
        fb_value_int(row->question_tokens),
        fb_value_int(row->cut_tokens),
        fb_value_text(row->context),
        fb_value_text(row->question),
        fb_value_text(row->expected),
        depth,
        fb_value_id(row->length),
        fb_value_text(row->needle),
        fb_value_text(row->token_text),
    };

    return put(store, id_out, &table, values);
}

fb_status fb_store_put_rule(fb_store *store, const fb_store_rule *row, int64_t *id_out)
{
    static const struct table table = {
        "rule",
        "label, expression, abi, source_sha256, family, origin, state_bytes, "
        "deployable, accounted, is_random, is_reference, about",
        ""};
    const fb_value values[] = {
        fb_value_text(row->label),       fb_value_text(row->expression),
        fb_value_int(row->abi),          fb_value_text(row->source_sha256),
        fb_value_text(row->family),      fb_value_text(row->origin),
        fb_value_int(row->state_bytes),  fb_value_int(row->deployable),
        fb_value_int(row->accounted),    fb_value_int(row->is_random),
        fb_value_int(row->is_reference), fb_value_text(row->about),
    };

    return put(store, id_out, &table, values);
}

fb_status fb_store_put_budget(fb_store *store, const fb_store_budget *row,
                              int64_t *id_out)
{
    static const struct table table = {"budget", "asked, kind, value", ""};
    const fb_value values[] = {fb_value_text(row->asked), fb_value_text(row->kind),
                               fb_value_text(row->value)};

    return put(store, id_out, &table, values);
}

fb_status fb_store_put_note(fb_store *store, int64_t experiment, int64_t cell,
                            const char *level, const char *text)
{
    static const struct table table = {"note", "experiment_id, cell_id, level, text",
                                       ""};
    const fb_value values[] = {fb_value_int(experiment), fb_value_id(cell),
                               fb_value_text(level), fb_value_text(text)};
    int64_t id;

    return put(store, &id, &table, values);
}

fb_status fb_store_drop_notes(fb_store *store, int64_t experiment, const char *level)
{
    const fb_value values[] = {fb_value_int(experiment), fb_value_text(level)};

    return fb_query_run(store,
                        "DELETE FROM note WHERE experiment_id = ?1 AND level = ?2 AND "
                        "cell_id IS NULL",
                        values, 2);
}

/* All but the one with this hash, with what was verified of them. */
static fb_status drop_certificates(fb_store *store, int64_t experiment,
                                   const char *but_sha256)
{
    const fb_value values[] = {fb_value_int(experiment), fb_value_text(but_sha256)};

    FB_TRY(fb_query_run(store,
                        "DELETE FROM verification WHERE certificate_id IN (SELECT id "
                        "FROM certificate WHERE experiment_id = ?1 AND sha256 != ?2)",
                        values, 2));
    return fb_query_run(store,
                        "DELETE FROM certificate WHERE experiment_id = ?1 AND "
                        "sha256 != ?2",
                        values, 2);
}

fb_status fb_store_put_certificate(fb_store *store, int64_t experiment,
                                   const char *body, const char *sha256)
{
    static const struct table table = {"certificate", "experiment_id, sha256", "body"};
    const fb_value values[] = {fb_value_int(experiment), fb_value_text(sha256),
                               fb_value_text(body)};
    int64_t id;

    FB_TRY(drop_certificates(store, experiment, sha256));
    return put(store, &id, &table, values);
}

fb_status fb_store_put_class(fb_store *store, int64_t experiment,
                             const char *class_name, const char *reasons)
{
    const fb_value values[] = {fb_value_int(experiment), fb_value_text(class_name),
                               fb_value_text(reasons)};

    return fb_query_run(store,
                        "UPDATE experiment SET class = ?2, class_reasons = ?3 "
                        "WHERE id = ?1",
                        values, 3);
}

fb_status fb_store_reopen(fb_store *store, int64_t experiment, const char *reason)
{
    FB_TRY(drop_certificates(store, experiment, ""));
    return fb_store_put_class(store, experiment, "open", reason);
}

fb_status fb_store_put_verification(fb_store *store, int64_t experiment,
                                    const fb_store_verification *row)
{
    const fb_value of = fb_value_int(experiment);
    int64_t certificate = 0;

    FB_TRY(fb_query_number(&certificate, store,
                           "SELECT id FROM certificate WHERE experiment_id = ?1 "
                           "ORDER BY id DESC LIMIT 1",
                           &of, 1));
    if (certificate == 0)
        return fb_fail(FB_NOT_FOUND, "results '%s': there is no certificate",
                       store->path);
    const fb_value values[] = {fb_value_int(certificate), fb_value_int(row->host),
                               fb_value_int(row->cells), fb_value_int(row->equal),
                               fb_value_text(row->details)};

    return fb_query_run(store,
                        "INSERT INTO verification (certificate_id, host_id, cells, "
                        "equal, details) VALUES (?, ?, ?, ?, ?)",
                        values, 5);
}
