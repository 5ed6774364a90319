/* open.c - opens a results file, makes a new one, or says why not.
 *
 * A file is ours if its application_id says so; `user_version` is the number of its
 * schema. An older one is read and never written: its experiments belong to another
 * version of the program, whose bits may be others. While it is written it is in WAL mode with full synchronisation: a finished
 * cell survives a crash. Closing turns it back into one plain file.
 *
 * A file may come from a stranger: SQLite is told to trust nothing in the schema of a
 * file that is only read. (One that is written needs json_valid(), which 3.40 does not
 * count among the harmless functions.)
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/embed.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/query.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

FB_EMBED(schema_sql, "src/store/schema.sql");

enum {
    APPLICATION = 0x46425544,
    VERSION = FB_STORE_SCHEMA,
    WAIT_MS = 20000,
    RETRY_MS = 25,
    LONGEST = 256 << 20
};

struct identity {
    int64_t application, version, n_tables;
};

static fb_status read_identity(struct identity *out, fb_store *store)
{
    FB_TRY(fb_query_number(&out->application, store, "PRAGMA application_id", NULL, 0));
    FB_TRY(fb_query_number(&out->version, store, "PRAGMA user_version", NULL, 0));
    return fb_query_number(&out->n_tables, store, "SELECT count(*) FROM sqlite_schema",
                           NULL, 0);
}

/* At one moment: another process may be making the schema. */
static fb_status see_identity(struct identity *out, fb_store *store)
{
    FB_TRY(fb_query_run(store, "BEGIN", NULL, 0));
    return fb_query_end(store, read_identity(out, store));
}

static bool is_blank(const struct identity *identity)
{
    return identity->application == 0 && identity->version == 0 &&
           identity->n_tables == 0;
}

static fb_status check_identity(const fb_store *store, const struct identity *identity)
{
    if (is_blank(identity))
        return fb_fail(FB_FORMAT, "results '%s': there is nothing in it", store->path);
    if (identity->application != APPLICATION)
        return fb_fail(FB_FORMAT,
                       "results '%s': an SQLite file, but not one of results",
                       store->path);
    if (identity->version > VERSION)
        return fb_fail(FB_UNSUPPORTED,
                       "results '%s': schema %lld is newer than this program, which "
                       "reads up to %d",
                       store->path, (long long)identity->version, VERSION);
    if (identity->version < 1)
        return fb_fail(FB_FORMAT, "results '%s': it has no schema number", store->path);
    if (identity->version < VERSION && store->writes)
        return fb_fail(
            FB_UNSUPPORTED,
            "results '%s': schema %lld is that of an older program; it can be "
            "read, but not added to\nhelp: another file with -o",
            store->path, (long long)identity->version);
    return FB_OK;
}

static fb_status exec(fb_store *store, const char *sql)
{
    const int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? FB_OK : fb_store_failure(store, code);
}

/* Two processes may open the same new file: whoever is second finds it made. */
static fb_status make_schema(fb_store *store)
{
    struct identity identity = {0};
    fb_status status;

    FB_TRY(exec(store, "BEGIN IMMEDIATE"));
    status = read_identity(&identity, store);
    if (status == FB_OK && is_blank(&identity))
        status = exec(store, (const char *)schema_sql);
    return fb_query_end(store, status);
}

/* What is not there yet may become a file. */
static fb_status check_kind(const char *path)
{
    struct stat info;

    if (path[0] == 0) return fb_fail(FB_USAGE, "results '': the name is empty");
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return FB_OK;
    return fb_fail(FB_FORMAT, "results '%s': %s", path,
                   S_ISDIR(info.st_mode) ? "a folder, not a file" : "not a plain file");
}

/* SQLite keeps "", ":memory:" and "file:..." for what is no plain file, and results
 * would be lost with it: with a folder in front, every name is a file's. */
static fb_status open_path(fb_store *store, int flags)
{
    const char *path = store->path;
    fb_text name = {0};
    fb_status status;

    FB_TRY(check_kind(path));
    fb_text_printf(&name, "%s%s", path[0] == '/' ? "" : "./", path);
    status = fb_text_status(&name);
    if (status == FB_OK) {
        const int code =
            sqlite3_open_v2(fb_text_string(&name), &store->db, flags, NULL);

        if (code != SQLITE_OK) status = fb_store_failure(store, code);
    }
    fb_text_clear(&name);
    return status;
}

static fb_status open_file(fb_store *store, int flags)
{
    FB_TRY(open_path(store, flags));
    (void)sqlite3_busy_timeout(store->db, WAIT_MS);
    (void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    (void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA,
                            (flags & SQLITE_OPEN_READWRITE) != 0, (int *)NULL);
    (void)sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, LONGEST);
    return exec(store, "PRAGMA cell_size_check = ON; PRAGMA foreign_keys = ON");
}

static fb_status prepare(fb_store *store)
{
    struct identity identity;

    FB_TRY(see_identity(&identity, store));
    if (store->writes && is_blank(&identity)) {
        FB_TRY(make_schema(store));
        FB_TRY(see_identity(&identity, store));
    }
    FB_TRY(check_identity(store, &identity));
    if (!store->writes) return FB_OK;
    return exec(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
}

/* SQLite does not wait where two that wait for each other would block: another process
 * that makes or leaves the same file. So we do, and begin again. */
static fb_status prepare_patiently(fb_store *store)
{
    fb_status status;
    int tries = WAIT_MS / RETRY_MS;

    do {
        status = prepare(store);
        if (status == FB_OK || (sqlite3_errcode(store->db) & 0xff) != SQLITE_BUSY)
            return status;
        (void)sqlite3_sleep(RETRY_MS);
    } while (tries-- > 0);
    return status;
}

static fb_status open_store(fb_store **out, const char *path, bool writes)
{
    const int flags =
        writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    fb_status status;
    fb_store *store;

    *out = NULL;
    store = fb_zalloc(FB_ACCOUNT_other, sizeof *store);
    if (store == NULL) return fb_fail(FB_NO_MEMORY, "no memory to open '%s'", path);
    store->path = fb_strdup(path);
    if (store->path == NULL) {
        status = fb_fail(FB_NO_MEMORY, "no memory to open '%s'", path);
        goto done;
    }
    status = open_file(store, flags);
    store->writes = writes;
    if (status == FB_OK) status = prepare_patiently(store);
done:
    if (status != FB_OK) {
        store->writes = false; /* leave what was not ours as it was */
        fb_store_close(store);
        return status;
    }
    *out = store;
    return FB_OK;
}

fb_status fb_store_open(fb_store **out, const char *path)
{
    return open_store(out, path, true);
}

fb_status fb_store_open_read(fb_store **out, const char *path)
{
    return open_store(out, path, false);
}

fb_status fb_store_open_model(fb_store **out)
{
    fb_store *store = fb_zalloc(FB_ACCOUNT_other, sizeof *store);
    int code;

    *out = store;
    if (store == NULL) return fb_fail(FB_NO_MEMORY, "no memory to check results");
    store->path = fb_strdup("tables of this program");
    if (store->path == NULL) return fb_fail(FB_NO_MEMORY, "no memory to check results");
    code = sqlite3_open_v2(":memory:", &store->db,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code != SQLITE_OK) return fb_store_failure(store, code);
    return exec(store, (const char *)schema_sql);
}

void fb_store_close(fb_store *store)
{
    if (store == NULL) return;
    if (store->writes) { /* one plain file again, unless somebody else has it open */
        (void)sqlite3_busy_timeout(store->db, 0);
        (void)sqlite3_exec(store->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    }
    (void)sqlite3_close(store->db);
    fb_free(store->path);
    fb_free(store);
}

bool fb_store_is_at(const char *path)
{
    static const char mark[] = "SQLite format 3"; /* and a zero byte */
    char begin[sizeof mark] = {0};
    struct stat info;
    FILE *file;

    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    file = fopen(path, "rb");
    if (file == NULL) return false;
    if (fread(begin, 1, sizeof begin, file) < sizeof begin) begin[0] = 0;
    (void)fclose(file);
    return memcmp(begin, mark, sizeof mark) == 0;
}
