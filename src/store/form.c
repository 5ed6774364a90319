/* form.c - see form.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/form.h"
#include "store/query.h"

#include <inttypes.h>
#include <string.h>

static void add_line(fb_text *problems, const char *kind, const char *name,
                     const char *what)
{
    fb_text_printf(problems, "%s%s %.80s: %s", problems->n > 0 ? "\n" : "",
                   kind == NULL ? "" : kind, name == NULL ? "" : name, what);
}

/* --- tables, views, indexes --- */

/* `mine` [type, name, sql]: an object that this program makes. */
static fb_status check_object(fb_store *store, const fb_query *mine, fb_text *problems)
{
    const char *type = fb_query_text(mine, 0), *name = fb_query_text(mine, 1);
    const fb_value values[] = {fb_value_text(type), fb_value_text(name),
                               fb_value_text(fb_query_text(mine, 2))};
    int64_t n;

    FB_TRY(fb_query_number(&n, store,
                           "SELECT count(*) FROM sqlite_schema WHERE type = ?1 AND "
                           "name = ?2 AND sql IS ?3",
                           values, 3));
    if (n != 1) add_line(problems, type, name, "not that of this program");
    return FB_OK;
}

static fb_status check_objects(fb_store *store, fb_store *model, fb_text *problems)
{
    fb_status status = FB_OK, closed;
    fb_query mine;

    fb_query_open(&mine, model,
                  "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL "
                  "ORDER BY type, name",
                  NULL, 0);
    while (status == FB_OK && fb_query_next(&mine))
        status = check_object(store, &mine, problems);
    closed = fb_query_close(&mine);
    return status != FB_OK ? status : closed;
}

static fb_status check_triggers(fb_store *store, fb_text *problems)
{
    fb_query query;

    fb_query_open(&query, store,
                  "SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
                  NULL, 0);
    while (fb_query_next(&query))
        add_line(problems, "trigger", fb_query_text(&query, 0),
                 "this program makes none");
    return fb_query_close(&query);
}

static fb_status check_number(fb_store *store, fb_text *problems)
{
    int64_t version;

    FB_TRY(fb_query_number(&version, store, "PRAGMA user_version", NULL, 0));
    if (version == FB_STORE_SCHEMA) return FB_OK;
    fb_text_printf(problems,
                   "%sschema number %" PRId64 ": a certificate of this form has %d",
                   problems->n > 0 ? "\n" : "", version, FB_STORE_SCHEMA);
    return FB_OK;
}

/* --- pages --- */

/* Values are compared elsewhere; what a check of one needs is not trusted here. */
static fb_status check_pages(fb_store *store, fb_text *problems)
{
    fb_query query;

    FB_TRY(fb_query_run(store, "PRAGMA ignore_check_constraints = ON", NULL, 0));
    fb_query_open(&query, store, "PRAGMA integrity_check(1)", NULL, 0);
    while (fb_query_next(&query)) {
        const char *said = fb_query_text(&query, 0);

        if (said == NULL || strcmp(said, "ok") == 0) continue;
        fb_text_printf(problems, "%spages of the file: %.*s",
                       problems->n > 0 ? "\n" : "", (int)strcspn(said, "\n"), said);
    }
    FB_TRY(fb_query_close(&query));
    return fb_query_run(store, "PRAGMA ignore_check_constraints = OFF", NULL, 0);
}

fb_status fb_store_check_form(fb_store *store, fb_text *problems)
{
    fb_store *model;
    fb_status status = fb_store_open_model(&model);

    if (status == FB_OK) status = check_objects(store, model, problems);
    fb_store_close(model);
    if (status == FB_OK) status = check_triggers(store, problems);
    if (status == FB_OK) status = check_number(store, problems);
    if (status == FB_OK) status = check_pages(store, problems);
    return status != FB_OK ? status : fb_text_status(problems);
}
