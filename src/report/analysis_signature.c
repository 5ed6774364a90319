/* analysis_signature.c - one line of all that must agree before two numbers may be
 * compared.
 *
 *   fb1|m:3f2a9c|h:chatml.9c41d0|k:native.f32.kv32|p:prefill.agnostic.original|g:4+16|b:10%,20%|
 *   c:cap5|t:niah.1|n:300|s:1|v:0.1.0
 *
 * (k:torch-2.13.0.cuda:0.bf16.kv32 of PyTorch: version, device, precision.)
 *
 * m model, h chat template, k kernel, p protocol, g protection, b budgets, c compute, t tasks with
 * versions (and their data: jsonl.1.45ab12), n samples, s seeds, v version of the program. What a file
 * does not tell is a question mark. Budgets and tasks are sorted: in which order they
 * were listed changes no number.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "report/analysis_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *or_unknown(const char *word)
{
    return word == NULL || word[0] == 0 ? "?" : word;
}

/* The first word that begins with a digit: "0.1.0" of "flexbudget 0.1.0 (3f2a9c1)". */
static void add_version(fb_text *text, const char *program)
{
    const char *at = program;

    while (*at != 0 && !(isdigit((unsigned char)*at) &&
                         (at == program || !isalnum((unsigned char)at[-1]))))
        at++;
    if (*at == 0) fb_text_puts(text, "?");
    fb_text_add(text, at, strspn(at, "0123456789."));
}

/* --- sorted lists --- */

typedef int compare(const fb_results *r, int a, int b);

static int by_size(const fb_results *r, int a, int b)
{
    const fb_store_budget *x = &r->budgets[a], *y = &r->budgets[b];
    const double size = strtod(x->value, NULL) - strtod(y->value, NULL);
    const int kind = strcmp(x->kind, y->kind);

    if (kind != 0) return kind;
    return size != 0 ? (size > 0 ? 1 : -1) : a - b;
}

static int by_kind(const fb_results *r, int a, int b)
{
    const int kind = strcmp(r->tasks[a].kind, r->tasks[b].kind);
    const int64_t version = r->tasks[a].version - r->tasks[b].version;

    if (kind != 0) return kind;
    return version != 0 ? (version > 0 ? 1 : -1) : a - b;
}

/* The index of the least of `n` that comes behind `last` (-1: the least of all). */
static int next_of(const fb_results *r, int n, int last, compare *order)
{
    int next = -1;

    for (int i = 0; i < n; i++)
        if ((last < 0 || order(r, i, last) > 0) && (next < 0 || order(r, i, next) < 0))
            next = i;
    return next;
}

/* Which of the program's templates, and the hash of the text that the file has. */
static void add_template(fb_text *text, const fb_store_model *model)
{
    fb_json *facts = NULL;
    const char *family;

    if (model->facts == NULL ||
        fb_json_parse(&facts, model->facts, strlen(model->facts)) != FB_OK)
        facts = NULL;
    family = fb_json_string(fb_json_get(facts, "template"));
    fb_text_printf(text, "%s.%.6s", or_unknown(family),
                   or_unknown(model->template_sha256));
    fb_json_free(facts);
}

/* --- the whole --- */

void fb_say_signature(fb_text *text, const fb_analysis *analysis)
{
    const fb_results *r = analysis->results;
    int n_samples = 0, n_seeds = 1;

    for (int t = 0; t < analysis->n_tables; t++) {
        const fb_table *table = &analysis->tables[t];

        if (t == 0 || table[-1].task != table->task) n_samples += table->n_samples;
        for (int row = 0; row < table->n_rows; row++)
            if (table->rows[row].n_seeds > n_seeds) n_seeds = table->rows[row].n_seeds;
    }
    fb_text_printf(text, "fb1|m:%.6s|h:", or_unknown(r->model.sha256));
    add_template(text, &r->model);
    fb_text_printf(text, "|k:%s|p:%s|g:%s|b:", or_unknown(r->kernel),
                   or_unknown(r->protocol), or_unknown(r->protection));
    for (int i = 0, at = -1; i < r->n_budgets; i++) {
        at = next_of(r, r->n_budgets, at, by_size);
        fb_text_printf(text, "%s%s", i == 0 ? "" : ",", r->budgets[at].asked);
    }
    fb_text_printf(text, "|c:%s|t:", or_unknown(r->compute));
    for (int i = 0, at = -1; i < r->n_tasks; i++) {
        at = next_of(r, r->n_tasks, at, by_kind);
        fb_text_printf(text, "%s%s.%lld", i == 0 ? "" : ",", r->tasks[at].kind,
                       (long long)r->tasks[at].version);
        if (r->tasks[at].data_sha256 != NULL)
            fb_text_printf(text, ".%.6s", r->tasks[at].data_sha256);
    }
    fb_text_printf(text, "|n:%d|s:%d|v:", n_samples, n_seeds);
    add_version(text, r->program);
}
