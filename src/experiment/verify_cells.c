/* verify_cells.c - cells run again, and compared with what is stored.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "base/time.h"
#include "experiment/verify.h"
#include "store/cover.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- which --- */

typedef struct draw {
    char place[FB_HASH_HEX]; /* of the certificate's hash and the cell's digest */
    int cell;
} draw;

static int by_place(const void *a, const void *b)
{
    const draw *x = a, *y = b;
    const int order = strcmp(x->place, y->place);

    return order != 0 ? order : x->cell - y->cell;
}

static int by_cell(const void *a, const void *b)
{
    const fb_verified_cell *x = a, *y = b;

    return x->cell - y->cell;
}

static void find_place(draw *d, const fb_results *results, int cell)
{
    const char *digest = results->cells[cell].digest;
    fb_hash hash;

    d->cell = cell;
    fb_hash_init(&hash);
    fb_hash_add(&hash, results->certificate_sha256,
                strlen(results->certificate_sha256));
    if (digest != NULL) fb_hash_add(&hash, digest, strlen(digest));
    fb_hash_hex(&hash, d->place);
}

static bool is_done(const fb_result_cell *cell)
{
    return strcmp(cell->status, "done") == 0;
}

/* The first `most` in an order that the certificate's hash gives, -1: all. */
static fb_status choose(fb_verified *out, const fb_results *results, int64_t most)
{
    const size_t room = (size_t)results->n_cells + 1;
    draw *draws = fb_alloc(FB_ACCOUNT_other, fb_size_mul(room, sizeof *draws));
    int n = 0;

    out->cells = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(room, sizeof *out->cells));
    if (draws == NULL || out->cells == NULL) {
        fb_free(draws);
        return fb_fail(FB_NO_MEMORY, "no memory to choose cells");
    }
    for (int i = 0; i < results->n_cells; i++)
        if (is_done(&results->cells[i])) find_place(&draws[n++], results, i);
    qsort(draws, (size_t)n, sizeof *draws, by_place);
    out->n = most < 0 || most > n ? n : (int)most;
    for (int i = 0; i < out->n; i++)
        out->cells[i].cell = draws[i].cell;
    if (out->n > 0) qsort(out->cells, (size_t)out->n, sizeof *out->cells, by_cell);
    fb_free(draws);
    return FB_OK;
}

/* --- a file of their own --- */

typedef struct folder {
    char path[512], file[512 + 16];
} folder;

static fb_status make_folder(folder *f)
{
    const char *place = getenv("TMPDIR");

    if (place == NULL || place[0] == '\0') place = "/tmp";
    if (snprintf(f->path, sizeof f->path, "%s/flexbudget-verify-XXXXXX", place) >=
        (int)sizeof f->path)
        return fb_fail(FB_USAGE, "the name of the folder TMPDIR is too long");
    if (mkdtemp(f->path) == NULL)
        return fb_fail(FB_IO, "cannot make a folder in '%s': %s", place,
                       strerror(errno));
    (void)snprintf(f->file, sizeof f->file, "%s/cells.db", f->path);
    return FB_OK;
}

static void remove_folder(const folder *f)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char name[sizeof f->file + 16];

        (void)snprintf(name, sizeof name, "%s%s", f->file, ends[i]);
        (void)unlink(name);
    }
    (void)rmdir(f->path);
}

/* --- running them again --- */

typedef struct again {
    const fb_verify_options *options;
    const fb_results *results;
    const folder *where;
    int64_t begin_ns;
    int done, n;

} again;

/* "KEY=VALUE" where what means something to a filter stands for any character: it may
 * let more cells pass, never fewer. */
static void add_item(fb_text *out, const char *key, const char *value)
{
    fb_text_printf(out, "%s%s=", out->n > 0 ? "," : "", key);
    for (; *value != '\0'; value++)
        fb_text_add(out, strchr("*,()", *value) != NULL ? "?" : value, 1);
}

static fb_status make_filter(fb_filter **out, const fb_results *r,
                             const fb_result_cell *cell)
{
    const fb_result_sample *sample = &r->samples[cell->sample];
    fb_text text = {0}, key = {0};
    char seed[32];
    fb_status status;

    *out = NULL;
    (void)snprintf(seed, sizeof seed, "%lld", (long long)cell->seed);
    fb_text_printf(&key, "%s/%s", r->tasks[sample->task].kind, sample->key);
    add_item(&text, "rule", r->rules[cell->rule].label);
    add_item(&text, "sample", fb_text_string(&key));
    add_item(&text, "budget",
             cell->budget < 0 ? "full" : r->budgets[cell->budget].asked);
    add_item(&text, "seed", seed);
    status = fb_text_status(&text);
    if (status == FB_OK) status = fb_filter_parse(out, fb_text_string(&text));
    fb_text_clear(&text);
    fb_text_clear(&key);
    return status;
}

/* Of all cells one run, whose own progress is shown. */
static fb_status run_some(again *a, const fb_filter *only)
{
    const fb_verify_options *o = a->options;
    const fb_run_options options = {
        .path = a->where->file,
        .only = only,
        .memory = o->memory,
        .stop = o->stop,
        .watch = only == NULL ? o->watch : NULL,
        .self = o->self,
    };
    fb_run_result result;
    const fb_status status = fb_run(o->plan, o->ops, &options, &result);

    /* A cell that fails now, or fits no budget, is one that differs. */
    return status == FB_DEFECT && result.failed > 0 ? FB_OK : status;
}

static void tell(const again *a, const char *event)
{
    const fb_run_progress now = {.event = event,
                                 .documents = a->done,
                                 .n_documents = a->n,
                                 .cells = a->done,
                                 .n_cells = a->n,
                                 .ns = fb_time_ns() - a->begin_ns,
                                 .left_ns = a->done == 0
                                                ? -1
                                                : (fb_time_ns() - a->begin_ns) /
                                                      a->done * (a->n - a->done)};

    if (a->options->watch != NULL) a->options->watch(a->options->self, &now);
}

static fb_status run_each(again *a, const fb_verified *chosen)
{
    fb_status status = FB_OK;

    tell(a, "begin");
    for (int i = 0; i < chosen->n && status == FB_OK; i++) {
        fb_filter *only;

        status =
            make_filter(&only, a->results, &a->results->cells[chosen->cells[i].cell]);
        if (status == FB_OK) status = run_some(a, only);
        fb_filter_free(only);
        a->done++;
        tell(a, "cell");
    }
    tell(a, "end");
    return status;
}

/* --- comparing --- */

static bool is_same_text(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

static const char *budget_of(const fb_results *r, const fb_result_cell *cell)
{
    return cell->budget < 0 ? "full" : r->budgets[cell->budget].asked;
}

static bool is_same_cell(const fb_results *r, const fb_result_cell *a,
                         const fb_results *s, const fb_result_cell *b)
{
    const fb_result_sample *x = &r->samples[a->sample], *y = &s->samples[b->sample];
    const fb_result_task *t = &r->tasks[x->task], *u = &s->tasks[y->task];

    return a->seed == b->seed && is_same_text(x->key, y->key) &&
           is_same_text(t->kind, u->kind) && is_same_text(t->params, u->params) &&
           is_same_text(t->data_sha256, u->data_sha256) &&
           is_same_text(r->rules[a->rule].label, s->rules[b->rule].label) &&
           is_same_text(budget_of(r, a), budget_of(s, b));
}

static int find_cell(const fb_results *r, const fb_result_cell *cell,
                     const fb_results *in)
{
    for (int i = 0; i < in->n_cells; i++)
        if (is_same_cell(r, cell, in, &in->cells[i])) return i;
    return -1;
}

static bool has_near_scores(const fb_result_cell *a, const fb_result_cell *b)
{
    for (int i = 0; i < a->n_scores; i++) {
        double value;

        if (!fb_result_score(b, a->scores[i].metric, &value)) return false;
        if (!(fabs(value - a->scores[i].value) <=
              FB_VERIFY_TOLERANCE * fmax(1, fabs(a->scores[i].value))))
            return false;
    }
    return a->n_scores == b->n_scores;
}

/* What a backend that promises no bits has to give again. */
static bool is_near(const fb_result_cell *a, const fb_result_cell *b)
{
    return is_done(b) && is_same_text(a->kept_sha256, b->kept_sha256) &&
           is_same_text(a->answer_tokens, b->answer_tokens) &&
           is_same_text(a->stop, b->stop) && a->budget_bytes == b->budget_bytes &&
           is_same_text(a->trace_context, b->trace_context) &&
           is_same_text(a->trace_answer, b->trace_answer) && has_near_scores(a, b);
}

/* See holds_bits of the rulebook. */
static bool has_tolerance(const fb_results *r)
{
    return r->kernel != NULL && strncmp(r->kernel, "native.", 7) != 0;
}

/* Of two files, each with its store. */
typedef struct side {
    fb_store *store;
    const fb_results *results;
} side;

static fb_status compare_covers(fb_verified_cell *out, side was, side is, int made)
{
    fb_cover *before = NULL, *now = NULL;
    fb_text differs = {0};
    fb_status status = fb_store_cover(&before, was.store, was.results, out->cell);

    if (status == FB_OK) status = fb_store_cover(&now, is.store, is.results, made);
    for (int t = 0; status == FB_OK && t < FB_COVER_TABLES; t++)
        if (!before->tables[t].is_made)
            fb_cover_add_differences(&before->tables[t], &now->tables[t], &differs);
    if (status == FB_OK) status = fb_text_status(&differs);
    if (status == FB_OK && differs.n > 0) {
        out->differs = fb_strdup(fb_text_string(&differs));
        if (out->differs == NULL)
            status = fb_fail(FB_NO_MEMORY, "no memory to compare");
    }
    fb_text_clear(&differs);
    fb_free(before);
    fb_free(now);
    return status;
}

static fb_status compare_one(fb_verified *all, fb_verified_cell *out, side was, side is)
{
    const fb_result_cell *cell = &was.results->cells[out->cell];
    const int made = find_cell(was.results, cell, is.results);

    if (made < 0) {
        out->differs = fb_strdup("it was not made again");
        return out->differs != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory");
    }
    FB_TRY(compare_covers(out, was, is, made));
    out->is_equal = out->differs == NULL;
    out->is_near = !out->is_equal && has_tolerance(was.results) &&
                   is_near(cell, &is.results->cells[made]);
    all->n_equal += out->is_equal;
    all->n_near += out->is_near;
    return FB_OK;
}

static fb_status keep_host(fb_verified *out, const fb_results *made)
{
    out->host = fb_strdup(made->host == NULL ? "{}" : made->host);
    out->kernel = fb_strdup(made->kernel == NULL ? "" : made->kernel);
    return out->host != NULL && out->kernel != NULL
               ? FB_OK
               : fb_fail(FB_NO_MEMORY, "no memory to compare");
}

static fb_status compare_all(fb_verified *out, side was, const folder *where)
{
    side is = {0};
    fb_status status = fb_store_open_read(&is.store, where->file);

    if (status == FB_OK)
        status = fb_store_read(is.store, was.results->spec_sha256, &is.results);
    if (status == FB_OK) status = keep_host(out, is.results);
    for (int i = 0; i < out->n && status == FB_OK; i++)
        status = compare_one(out, &out->cells[i], was, is);
    fb_results_free(is.results);
    fb_store_close(is.store);
    return status;
}

fb_status fb_verify_cells(fb_verified *out, fb_store *store, const fb_results *results,
                          const fb_verify_options *options)
{
    again a = {.options = options, .results = results, .begin_ns = fb_time_ns()};
    folder where;
    fb_status status;

    *out = (fb_verified){0};
    FB_TRY(choose(out, results, options->cells));
    if (out->n == 0) return FB_OK;
    FB_TRY(make_folder(&where));
    a.where = &where;
    a.n = out->n;
    status = options->cells < 0 ? run_some(&a, NULL) : run_each(&a, out);
    if (status == FB_OK) status = compare_all(out, (side){store, results}, &where);
    remove_folder(&where);
    return status;
}

void fb_verified_clear(fb_verified *verified)
{
    for (int i = 0; i < verified->n; i++)
        fb_free(verified->cells[i].differs);
    fb_free(verified->cells);
    fb_free(verified->host);
    fb_free(verified->kernel);
    *verified = (fb_verified){0};
}
