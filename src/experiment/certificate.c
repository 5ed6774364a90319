/* certificate.c - see certificate.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/certificate.h"
#include "base/json.h"
#include "base/memory.h"

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

/* Of the backends the native one: see fb_ops_is_exact. */
static bool promises_bits(const fb_results *r)
{
    return r->kernel != NULL && strncmp(r->kernel, "native.", 7) == 0;
}

static void add_identity(fb_text *out, const fb_results *r)
{
    fb_text_puts(out, "{");
    add_pair(out, "spec", r->spec_sha256);
    add_pair(out, "model", r->model.sha256);
    add_pair(out, "program", r->program);
    add_pair(out, "kernel", r->kernel);
    add_pair(out, "bits", promises_bits(r) ? "equal" : "tolerance");
    add_pair(out, "protocol", r->protocol);
    add_tasks(out, r);
    fb_text_printf(out, ", \"host\": %s", r->host == NULL ? "null" : r->host);
}

/* --- traces --- */

/* An empty part did not run; among those that did, all must be equal. */
static bool agree(const char **seen, const char *hash)
{
    if (hash == NULL || hash[0] == '\0') return true;
    if (*seen == NULL) *seen = hash;
    return strcmp(*seen, hash) == 0;
}

static bool is_done(const fb_result_cell *cell)
{
    return strcmp(cell->status, "done") == 0;
}

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

/* Cells are sorted by sample: those of one stand behind each other. */
static int add_sample_trace(fb_certificate *c, const fb_results *r, int first)
{
    const fb_result_sample *sample = &r->samples[r->cells[first].sample];
    const char *context = NULL, *answer = NULL, *decode = NULL, *cache = NULL;
    int i = first;
    bool same = true;

    for (; i < r->n_cells && r->cells[i].sample == r->cells[first].sample; i++) {
        const fb_result_cell *cell = &r->cells[i];

        if (!is_done(cell)) continue;
        same &= agree(&context, cell->trace_context);
        same &= agree(&answer, cell->trace_answer);
        same &= agree(&decode, cell->trace_decode);
        c->same_cache &= agree(&cache, cell->cache_sha256);
    }
    c->same_trace &= same;
    add_sample_name(&c->body, sample, first == 0);
    fb_text_printf(&c->body,
                   ": {\"context\": \"%s\", \"answer\": \"%s\", \"decode\": \"%s\", "
                   "\"cache\": \"%s\", \"equal\": %s}",
                   context == NULL ? "" : context, answer == NULL ? "" : answer,
                   decode == NULL ? "" : decode, cache == NULL ? "" : cache,
                   same ? "true" : "false");
    return i;
}

static void add_traces(fb_certificate *c, const fb_results *r)
{
    fb_text_puts(&c->body, ", \"trace\": {");
    for (int i = 0; i < r->n_cells;)
        i = add_sample_trace(c, r, i);
    fb_text_printf(&c->body, "}, \"trace_equal\": %s, \"cache_equal\": %s",
                   c->same_trace ? "true" : "false", c->same_cache ? "true" : "false");
}

/* --- budget, cells, ledger --- */

static void add_budgets(fb_certificate *c, const fb_results *r)
{
    fb_text_puts(&c->body, ", \"budget\": {");
    for (int b = 0; b < r->n_budgets; b++) {
        double most = 0;

        for (int i = 0; i < r->n_cells; i++) {
            const fb_result_cell *cell = &r->cells[i];
            const double use = (double)cell->kept_bytes / (double)cell->budget_bytes;

            if (cell->budget == b && is_done(cell) && use > most) most = use;
        }
        if (most > c->highest_use) c->highest_use = most;
        fb_text_printf(&c->body, "%s\"%s\": ", b > 0 ? ", " : "", r->budgets[b].asked);
        fb_json_add_real(&c->body, most);
    }
    fb_text_puts(&c->body, "}");
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
        done += is_done(&r->cells[i]);
    fb_text_printf(&c->body,
                   ", \"cells\": {\"n\": %d, \"failed\": %d, \"digest\": \"%s\"}", done,
                   r->n_cells - done, r->digest);
}

fb_status fb_certificate_make(fb_certificate *out, fb_store *store,
                              const fb_results *results)
{
    fb_status status;

    *out = (fb_certificate){.same_trace = true, .same_cache = true};
    fb_text_init(&out->body, 0);
    add_identity(&out->body, results);
    add_traces(out, results);
    add_budgets(out, results);
    add_cells(out, results);
    status = add_ledger(out, store, results);
    fb_text_puts(&out->body, "}");
    if (status == FB_OK) status = fb_text_status(&out->body);
    if (status != FB_OK) {
        fb_certificate_clear(out);
        return status;
    }
    fb_hash_bytes(out->body.bytes, out->body.n, out->sha256);
    return FB_OK;
}

void fb_certificate_clear(fb_certificate *certificate)
{
    fb_text_clear(&certificate->body);
}
