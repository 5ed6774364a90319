/* verify_cells.c - cells run again, and compared with what is stored.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/time.h"
#include "experiment/verify_inside.h"

#include <errno.h>
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
        if (fb_result_is_done(&results->cells[i])) find_place(&draws[n++], results, i);
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

enum { LONGEST_VALUE = 400 }; /* a filter sees no more than 512 bytes of a name */

/* "KEY=VALUE" where what means something to a filter stands for any character, and the
 * end of a long value for any end: it may let more cells pass, never fewer. */
static void add_item(fb_text *out, const char *key, const char *value)
{
    fb_text_printf(out, "%s%s=", out->n > 0 ? "," : "", key);
    for (int n = 0; *value != '\0' && n < LONGEST_VALUE; value++, n++)
        fb_text_add(out, strchr("*,()", *value) != NULL ? "?" : value, 1);
    if (*value != '\0') fb_text_puts(out, "*");
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
    status = fb_text_status(&key);
    if (status == FB_OK) status = fb_text_status(&text);
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

/* --- the whole --- */

static fb_status keep_host(fb_verified *out, const fb_results *made)
{
    out->host = fb_strdup(made->host == NULL ? "{}" : made->host);
    out->kernel = fb_strdup(made->kernel == NULL ? "" : made->kernel);
    return out->host != NULL && out->kernel != NULL
               ? FB_OK
               : fb_fail(FB_NO_MEMORY, "no memory to compare");
}

static fb_status compare_all(fb_verified *out, fb_verify_side was, const folder *where)
{
    fb_verify_side is = {0};
    fb_status status = fb_store_open_read(&is.store, where->file);

    if (status == FB_OK)
        status = fb_store_read(is.store, was.results->spec_sha256, &is.results);
    if (status == FB_OK) status = keep_host(out, is.results);
    for (int i = 0; i < out->n && status == FB_OK; i++)
        status = fb_verify_compare(out, &out->cells[i], was, is);
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
    if (status == FB_OK)
        status = compare_all(out, (fb_verify_side){store, results}, &where);
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
