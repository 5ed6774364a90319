/* certificate_body.c - the text of a certificate: see docs/CERTIFICATE.md.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "experiment/certificate_parts.h"
#include "store/cover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- what was run --- */

static void add_pair(fb_text *out, const char *key, const char *value)
{
    fb_text_printf(out, "%s\"%s\": ", out->n > 1 ? ", " : "", key);
    fb_json_add_string(out, value == NULL ? "" : value);
}

static void add_tasks(fb_text *out, const fb_results *r)
{
    fb_text_puts(out, ", \"tasks\": [");
    for (int i = 0; i < r->n_tasks; i++) {
        fb_text_printf(out, "%s{\"name\": \"%s\", \"version\": %lld, \"params\": %s}",
                       i > 0 ? ", " : "", r->tasks[i].kind,
                       (long long)r->tasks[i].version,
                       r->tasks[i].params == NULL ? "{}" : r->tasks[i].params);
    }
    fb_text_puts(out, "]");
}

static void add_identity(fb_text *out, const fb_results *r)
{
    fb_text_printf(out, "{\"format\": %d", FB_CERTIFICATE_FORMAT);
    add_pair(out, "spec", r->spec_sha256);
    add_pair(out, "model", r->model.sha256);
    add_pair(out, "program", r->program);
    add_pair(out, "kernel", r->kernel);
    add_pair(out, "bits", fb_kernel_promises_bits(r->kernel) ? "equal" : "tolerance");
    add_pair(out, "protocol", r->protocol);
    add_pair(out, "protection", r->protection);
    add_pair(out, "compute", r->compute);
    add_tasks(out, r);
}

/* --- the class --- */

static void add_class(fb_certificate *c)
{
    fb_text_printf(&c->body, ", \"class\": \"%s\", \"conditions\": {",
                   fb_certificate_class(c));
    for (int i = 0; i < FB_CONDITIONS; i++)
        fb_text_printf(&c->body, "%s\"%s\": %s", i > 0 ? ", " : "", fb_rulebook[i].name,
                       c->holds[i] ? "true" : "false");
    fb_text_puts(&c->body, "}");
}

/* --- traces --- */

/* "0/17", the task's index and the key: which is the user's, and may hold anything. */
static void add_sample_name(fb_text *out, const fb_result_sample *sample, bool is_first)
{
    fb_text name;

    fb_text_init(&name, 0);
    fb_text_printf(&name, "%d/%s", sample->task, sample->key);
    fb_text_puts(out, is_first ? "" : ", ");
    fb_json_add_string(out, fb_text_string(&name));
    if (name.failed) out->failed = true;
    fb_text_clear(&name);
}

static void add_hash(fb_text *out, const char *name, const char *hash)
{
    fb_text_printf(out, "\"%s\": ", name);
    fb_json_add_string(out, hash == NULL ? "" : hash);
    fb_text_puts(out, ", ");
}

static void add_traces(fb_certificate *c, const fb_results *r)
{
    fb_text *out = &c->body;

    fb_text_puts(out, ", \"trace\": {");
    for (int i = 0; i < r->n_cells;) {
        const fb_sample_trace t = fb_certificate_trace(r, i);

        add_sample_name(out, &r->samples[r->cells[i].sample], i == 0);
        fb_text_puts(out, ": {");
        add_hash(out, "context", t.context);
        add_hash(out, "answer", t.answer);
        add_hash(out, "decode", t.decode);
        add_hash(out, "cache", t.cache);
        fb_text_printf(out, "\"equal\": %s}",
                       t.same_trace && t.same_cache ? "true" : "false");
        i = t.end;
    }
    fb_text_printf(out, "}, \"trace_equal\": %s, \"cache_equal\": %s",
                   c->same_trace ? "true" : "false", c->same_cache ? "true" : "false");
}

/* --- budget, cells, ledger --- */

static void add_budgets(fb_certificate *c, const fb_results *r)
{
    fb_text *out = &c->body;

    fb_text_puts(out, ", \"budget\": {");
    for (int b = 0; b < r->n_budgets; b++) {
        const fb_most_used m = fb_certificate_most(r, b);

        fb_text_puts(out, b > 0 ? ", " : "");
        fb_json_add_string(out, r->budgets[b].asked);
        fb_text_puts(out, ": {\"bytes_used\": ");
        fb_json_add_real(out, m.bytes);
        fb_text_puts(out, ", \"entries_used\": ");
        fb_json_add_real(out, m.entries);
        fb_text_printf(out,
                       ", \"kept_entries\": %" PRId64 ", \"kept_bytes\": %" PRId64
                       ", \"peak_bytes\": %" PRId64 "}",
                       m.kept_entries, m.kept_bytes, m.peak_bytes);
    }
    fb_text_puts(out, "}");
}

typedef struct total {
    char scope[24];
    double flops;
} total;

enum { MOST_SCOPES = 16 };

static void add_total(total *totals, const fb_store_count *count)
{
    int i = 0;

    while (i < MOST_SCOPES - 1 && totals[i].scope[0] != '\0' &&
           strcmp(totals[i].scope, count->scope) != 0)
        i++;
    (void)snprintf(totals[i].scope, sizeof totals[i].scope, "%s", count->scope);
    totals[i].flops += count->flops;
}

static fb_status add_ledger(fb_certificate *c, fb_store *store, const fb_results *r)
{
    total totals[MOST_SCOPES] = {0};

    for (int i = 0; i < r->n_cells; i++) {
        fb_store_count *counts = NULL;
        int n = 0;

        FB_TRY(fb_store_read_counts(store, r->cells[i].id, &counts, &n));
        for (int j = 0; j < n; j++)
            add_total(totals, &counts[j]);
        fb_free(counts);
    }
    fb_text_puts(&c->body, ", \"ledger\": {");
    for (int i = 0; i < MOST_SCOPES && totals[i].scope[0] != '\0'; i++) {
        fb_text_printf(&c->body, "%s\"%s\": ", i > 0 ? ", " : "", totals[i].scope);
        fb_json_add_real(&c->body, totals[i].flops);
    }
    fb_text_puts(&c->body, "}");
    return FB_OK;
}

static void add_cells(fb_certificate *c, const fb_results *r)
{
    int done = 0;

    for (int i = 0; i < r->n_cells; i++)
        done += fb_result_is_done(&r->cells[i]);
    fb_text_printf(&c->body,
                   ", \"cells\": {\"n\": %d, \"failed\": %d, \"digest\": \"%s\"}", done,
                   r->n_cells - done, r->digest);
}

/* --- everything that is stored --- */

static void add_table(fb_text *out, const fb_cover_table *table, bool is_first)
{
    fb_text_printf(out,
                   "%s\"%s\": {\"rows\": %" PRId64 ", \"sha256\": \"%s\", "
                   "\"columns\": {",
                   is_first ? "" : ", ", table->name, table->rows, table->sha256);
    for (int i = 0; i < table->n_columns; i++) {
        fb_text_puts(out, i > 0 ? ", " : "");
        fb_json_add_string(out, table->columns[i].name);
        fb_text_printf(out, ": \"%016" PRIx64 "\"", table->columns[i].sum);
    }
    fb_text_puts(out, "}}");
}

static void add_tables(fb_text *out, const fb_cover *cover, bool is_made)
{
    bool is_first = true;

    fb_text_puts(out, ", \"tables\": {");
    for (int t = 0; t < FB_COVER_TABLES; t++) {
        if (cover->tables[t].is_made != is_made) continue;
        add_table(out, &cover->tables[t], is_first);
        is_first = false;
    }
    fb_text_puts(out, "}");
}

/* When and where; last, since it alone may differ between equal results. */
static fb_status add_made(fb_certificate *c, fb_store *store, const fb_results *r,
                          const fb_cover *cover)
{
    fb_text_puts(&c->body, ", \"made\": {\"created\": ");
    fb_json_add_string(&c->body, r->created);
    fb_text_puts(&c->body, ", \"hosts\": [");
    FB_TRY(fb_store_add_hosts(store, r->experiment, &c->body));
    fb_text_puts(&c->body, "]");
    add_tables(&c->body, cover, true);
    fb_text_puts(&c->body, "}}");
    return fb_text_status(&c->body);
}

/* --- the whole --- */

fb_status fb_certificate_write(fb_certificate *certificate, fb_store *store,
                               const fb_results *results)
{
    fb_text *body = &certificate->body;
    fb_cover *cover = NULL;
    fb_status status;

    fb_text_clear(body);
    add_identity(body, results);
    add_class(certificate);
    add_traces(certificate, results);
    add_budgets(certificate, results);
    add_cells(certificate, results);
    status = add_ledger(certificate, store, results);
    if (status == FB_OK) status = fb_store_cover(&cover, store, results, -1);
    if (status == FB_OK) {
        add_tables(body, cover, false);
        status = add_made(certificate, store, results, cover);
    }
    if (status == FB_OK) fb_hash_bytes(body->bytes, body->n, certificate->sha256);
    fb_free(cover);
    return status;
}
