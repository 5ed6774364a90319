/* verify.c - whether the file says what was certified.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/verify.h"
#include "base/json.h"
#include "base/memory.h"
#include "engine/digest.h"
#include "experiment/certificate.h"
#include "experiment/check_cells.h"
#include "store/form.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add_problem(fb_text *problems, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_problem(fb_text *problems, const char *format, ...)
{
    char line[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fb_text_printf(problems, "%s%s", problems->n > 0 ? "\n" : "", line);
}

/* --- two certificates --- */

static bool is_same_value(const fb_json *a, const fb_json *b)
{
    const char *x = fb_json_string(a), *y = fb_json_string(b);
    double p, q;
    bool u, v;

    if (x != NULL && y != NULL) return strcmp(x, y) == 0;
    if (fb_json_real(a, &p) && fb_json_real(b, &q)) return p == q;
    if (fb_json_bool(a, &u) && fb_json_bool(b, &v)) return u == v;
    return fb_json_is_null(a) && fb_json_is_null(b);
}

/* The path of the first value that differs; true if there is one. */
static bool find_difference(const fb_json *a, const fb_json *b, fb_text *path)
{
    const size_t before = path->n;

    if (fb_json_is_object(a) && fb_json_is_object(b)) {
        for (void *m = fb_json_first(a); m != NULL; m = fb_json_next(a, m)) {
            fb_text_printf(path, "%s%s", before > 0 ? "." : "", fb_json_key(m));
            if (find_difference(fb_json_value(m), fb_json_get(b, fb_json_key(m)), path))
                return true;
            path->n = before;
        }
        return fb_json_count(a) != fb_json_count(b);
    }
    if (fb_json_is_array(a) && fb_json_is_array(b)) {
        for (size_t i = 0; i < fb_json_count(a); i++)
            if (find_difference(fb_json_at(a, i), fb_json_at(b, i), path)) return true;
        return fb_json_count(a) != fb_json_count(b);
    }
    return !is_same_value(a, b);
}

/* Names of a table's columns whose sums differ. */
static void add_columns(fb_text *problems, const char *table, const fb_json *was,
                        const fb_json *is)
{
    const fb_json *before = fb_json_get(was, "columns"),
                  *now = fb_json_get(is, "columns");
    int64_t rows_before = -1, rows = -1;
    bool is_said = false;

    (void)fb_json_int(fb_json_get(was, "rows"), &rows_before);
    (void)fb_json_int(fb_json_get(is, "rows"), &rows);
    if (rows_before != rows) {
        add_problem(problems, "table %s: %lld rows were certified, %lld are there",
                    table, (long long)rows_before, (long long)rows);
        return;
    }
    for (void *m = fb_json_first(before); m != NULL; m = fb_json_next(before, m)) {
        if (is_same_value(fb_json_value(m), fb_json_get(now, fb_json_key(m)))) continue;
        add_problem(problems, "table %s, column %s: a value is not the certified one",
                    table, fb_json_key(m));
        is_said = true;
    }
    if (!is_said)
        add_problem(problems, "table %s: a row belongs to another one than certified",
                    table);
}

static void compare_tables(fb_text *problems, const fb_json *was, const fb_json *is)
{
    for (void *m = fb_json_first(was); m != NULL; m = fb_json_next(was, m)) {
        const fb_json *other = fb_json_get(is, fb_json_key(m));

        if (!is_same_value(fb_json_get(fb_json_value(m), "sha256"),
                           fb_json_get(other, "sha256")))
            add_columns(problems, fb_json_key(m), fb_json_value(m), other);
    }
}

static void compare_bodies(fb_text *problems, const fb_json *was, const fb_json *is)
{
    const size_t before = problems->n;
    fb_text path = {0};

    compare_tables(problems, fb_json_get(was, "tables"), fb_json_get(is, "tables"));
    compare_tables(problems, fb_json_get(fb_json_get(was, "made"), "tables"),
                   fb_json_get(fb_json_get(is, "made"), "tables"));
    if (problems->n > before) return; /* what follows from a table differs too */
    fb_text_init(&path, 0);
    if (find_difference(was, is, &path)) {
        add_problem(problems,
                    "the certificate's %s does not follow from what is stored",
                    path.n == 0 ? "form" : fb_text_string(&path));
    } else {
        add_problem(problems,
                    "the certificate is not written as this program writes it");
    }
    fb_text_clear(&path);
}

/* NULL and a problem where the text is no JSON: then it was changed. */
static fb_status parse(fb_json **out, fb_text *problems, const char *what,
                       const char *text)
{
    const fb_status status = fb_json_parse(out, text, strlen(text));

    if (status == FB_OK) return FB_OK;
    *out = NULL;
    if (status == FB_NO_MEMORY) return status;
    add_problem(problems, "%s: %.400s", what, fb_error_message());
    return FB_OK;
}

static fb_status compare_texts(fb_text *problems, const char *was, const char *is)
{
    fb_json *a = NULL, *b = NULL;
    fb_status status;

    if (strcmp(was, is) == 0) return FB_OK;
    status = parse(&a, problems, "table certificate: the body cannot be read", was);
    if (status == FB_OK)
        status = parse(&b, problems, "what is stored makes no certificate", is);
    if (status == FB_OK && a != NULL && b != NULL) compare_bodies(problems, a, b);
    fb_json_free(a);
    fb_json_free(b);
    return status;
}

/* --- what the certificate says of itself --- */

static void check_hash(const fb_results *results, fb_text *problems)
{
    char sha256[FB_HASH_HEX];

    fb_hash_bytes(results->certificate, strlen(results->certificate), sha256);
    if (results->certificate_sha256 == NULL ||
        strcmp(sha256, results->certificate_sha256) != 0)
        add_problem(problems, "table certificate: the body does not have the hash that "
                              "stands beside it");
}

/* What was changed, or is of no form, is compared with what it should be: no program has
 * written it. */
static fb_status check_certificate(const fb_results *results, const char *path,
                                   fb_text *problems)
{
    int64_t format = 0;
    fb_json *body = NULL;
    fb_status status;

    if (results->certificate == NULL)
        return fb_fail(FB_NOT_FOUND,
                       "results '%s': '%.80s' has no certificate: its run is not "
                       "finished\nhelp: the 'flexbudget run' that made the file, "
                       "without --only, continues and certifies it",
                       path, results->name);
    check_hash(results, problems);
    if (problems->n > 0) return FB_OK;
    status = fb_json_parse(&body, results->certificate, strlen(results->certificate));
    if (status != FB_OK) return status == FB_NO_MEMORY ? status : FB_OK;
    (void)fb_json_int(fb_json_get(body, "format"), &format);
    fb_json_free(body);
    if (format < 1 || format == FB_CERTIFICATE_FORMAT) return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "results '%s': a certificate of form %lld; this program checks form "
                   "%d\nhelp: verify with the program that made it: %.80s",
                   path, (long long)format, FB_CERTIFICATE_FORMAT, results->program);
}

static fb_status check_content(fb_store *store, const fb_results *results,
                               fb_text *problems)
{
    fb_certificate made;
    fb_status status = fb_certificate_judge(&made, results);

    if (status != FB_OK && status != FB_NO_MEMORY) { /* a specification that is none */
        add_problem(problems, "the class cannot be found again: %.400s",
                    fb_error_message());
        fb_certificate_clear(&made);
        return FB_OK;
    }
    if (status == FB_OK) status = fb_certificate_write(&made, store, results);
    if (status == FB_OK)
        status =
            compare_texts(problems, results->certificate, fb_text_string(&made.body));
    if (status == FB_OK &&
        strcmp(results->class_name, fb_certificate_class(&made)) != 0)
        add_problem(problems,
                    "the class is stored as %.20s, and its conditions make it "
                    "%s",
                    results->class_name, fb_certificate_class(&made));
    fb_certificate_clear(&made);
    return status;
}

/* --- kept positions --- */

/* Slots stand behind each other, as the hash takes them. */
static fb_status hash_kept(const fb_store_kept *rows, int n, char out[FB_HASH_HEX])
{
    const size_t most = (size_t)n + 1;
    int64_t *count = fb_alloc(FB_ACCOUNT_other, most * sizeof *count);
    int32_t **position = fb_alloc(FB_ACCOUNT_other, most * sizeof *position);
    const fb_kept kept = {.n_slots = n, .count = count, .position = position};

    if (count == NULL || position == NULL) {
        fb_free(count);
        fb_free(position);
        return fb_fail(FB_NO_MEMORY, "no memory to check what was kept");
    }
    for (int i = 0; i < n; i++) {
        count[i] = rows[i].n;
        memcpy(&position[i], &rows[i].position, sizeof position[i]); /* only read */
    }
    fb_kept_sha256(&kept, out);
    fb_free(count);
    fb_free(position);
    return FB_OK;
}

/* False where positions are stored and are not those of the cell's hash. */
static fb_status has_kept(fb_store *store, const fb_result_cell *cell, bool *out)
{
    fb_store_kept *rows;
    char sha256[FB_HASH_HEX];
    fb_status status;
    int n;

    *out = true;
    FB_TRY(fb_store_read_kept(store, cell->id, &rows, &n));
    if (n == 0) {
        fb_free(rows);
        return FB_OK;
    }
    status = hash_kept(rows, n, sha256);
    fb_free(rows);
    *out = cell->kept_sha256 != NULL && strcmp(cell->kept_sha256, sha256) == 0;
    return status;
}

static fb_status check_kept(fb_store *store, const fb_results *results,
                            fb_text *problems)
{
    for (int i = 0; i < results->n_cells; i++) {
        const fb_result_cell *cell = &results->cells[i];
        bool is_equal;
        const fb_status status = has_kept(store, cell, &is_equal);

        if (status == FB_NO_MEMORY) return status;
        if (status == FB_OK && is_equal) continue;
        add_problem(
            problems,
            "kept positions of %.80s, rule '%.80s', are not those of the cell's "
            "hash%s%s",
            results->samples[cell->sample].key, results->rules[cell->rule].label,
            status != FB_OK ? ": " : "", status != FB_OK ? fb_error_message() : "");
        return FB_OK; /* the first; the table says the rest */
    }
    return FB_OK;
}

/* --- cells and specification --- */

static fb_status check_digests(const fb_results *results, const char *path,
                               fb_text *problems)
{
    const fb_status status = fb_cells_check(results, path, true);

    if (status != FB_IO) return status; /* that is its word for a change */
    add_problem(problems, "%.*s", (int)strcspn(fb_error_message(), "\n"),
                fb_error_message());
    return FB_OK;
}

/* Nothing but an open class is without a certificate: both are stored at once. */
static bool has_lost_certificate(const fb_results *results)
{
    return results->certificate == NULL && strcmp(results->class_name, "open") != 0;
}

static fb_status check_file(fb_store *store, const fb_results *results,
                            const char *path, bool has_cells, fb_text *problems)
{
    const bool is_lost = has_lost_certificate(results);

    if (is_lost)
        add_problem(problems,
                    "table certificate: the class is stored as %.20s, and its "
                    "certificate is not there",
                    results->class_name);
    else
        FB_TRY(check_certificate(results, path, problems));
    FB_TRY(fb_store_check_form(store, problems));
    if (has_cells) FB_TRY(check_digests(results, path, problems));
    FB_TRY(check_kept(store, results, problems));
    if (!is_lost) FB_TRY(check_content(store, results, problems));
    return fb_text_status(problems);
}

fb_status fb_verify_file(fb_store *store, const fb_results *results, const char *path,
                         fb_text *problems)
{
    return check_file(store, results, path, true, problems);
}

fb_status fb_verify_change(fb_store *store, const fb_results *results, const char *path,
                           fb_text *out)
{
    fb_text problems = {0};
    const fb_status status = check_file(store, results, path, false, &problems);

    if (status == FB_OK && problems.n > 0)
        fb_text_printf(out, "changed after its certificate: %.*s",
                       (int)strcspn(fb_text_string(&problems), "\n"),
                       fb_text_string(&problems));
    fb_text_clear(&problems);
    return status != FB_OK ? status : fb_text_status(out);
}
