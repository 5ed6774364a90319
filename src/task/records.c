/* records.c - records of a JSON Lines file, one physical line at a time.
 *
 * Memory is one line and its values, whatever the size of the file.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"

#include <errno.h>
#include <flexbudget/task.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ROOM_OFFSET = 64, BLOCK_BYTES = 1 << 16, MOST_LINE_BYTES = 64 << 20 };

/* A block lent until the next line; the room lies behind the link. */
struct room {
    struct room *next;
};

struct fb_records {
    FILE *file;
    char *path;
    char *block;     /* [BLOCK_BYTES] what was read last */
    size_t at, n;    /* what is left of it */
    fb_text text;    /* the line */
    int64_t line;    /* its number, from 1 */
    fb_json *record; /* its value */
    struct room *rooms;
    char *unknown[FB_MOST_UNKNOWN]; /* names that were told */
    int n_unknown;
};

/* --- lines --- */

static fb_status fill(fb_records *r)
{
    r->at = 0;
    r->n = fread(r->block, 1, BLOCK_BYTES, r->file);
    if (r->n == 0 && ferror(r->file))
        return fb_fail(FB_IO, "'%.300s': cannot read: %s", r->path, strerror(errno));
    return FB_OK;
}

/* Reads a line without its newline; `*there` is false at the end of the file. A line
 * that is too long is read to its end and refused. */
static fb_status read_line(fb_records *r, bool *there)
{
    bool is_complete = false;
    size_t total = 0;

    *there = false;
    fb_text_clear(&r->text);
    while (!is_complete) {
        const char *newline;
        size_t n;

        if (r->at == r->n) FB_TRY(fill(r));
        if (r->n == 0) break;
        *there = true;
        newline = memchr(r->block + r->at, '\n', r->n - r->at);
        n = newline == NULL ? r->n - r->at : (size_t)(newline - r->block) - r->at;
        fb_text_add(&r->text, r->block + r->at, n);
        total += n;
        is_complete = newline != NULL;
        r->at += n + is_complete;
    }
    r->line += *there;
    if (total > MOST_LINE_BYTES)
        return fb_fail(FB_FORMAT, "a line of more than %d MiB", MOST_LINE_BYTES >> 20);
    return fb_text_status(&r->text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The line without byte-order mark and white space around it. */
static const char *trim(const fb_records *r, size_t *n_out)
{
    const char *line = fb_text_string(&r->text);
    size_t n = r->text.n;

    if (r->line == 1 && n >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
        line += 3;
        n -= 3;
    }
    while (n > 0 && is_blank(line[0])) {
        line++;
        n--;
    }
    while (n > 0 && is_blank(line[n - 1]))
        n--;
    *n_out = n;
    return line;
}

/* --- the file --- */

fb_status fb_records_open(fb_records **out, const char *path)
{
    fb_records *r = fb_zalloc(FB_ACCOUNT_other, sizeof *r);
    fb_status status = FB_OK;

    *out = NULL;
    if (r == NULL) return fb_fail(FB_NO_MEMORY, "no memory to read '%.300s'", path);
    fb_text_init(&r->text, MOST_LINE_BYTES);
    r->path = fb_strdup(path);
    r->block = fb_alloc(FB_ACCOUNT_other, BLOCK_BYTES);
    if (r->path == NULL || r->block == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory to read '%.300s'", path);
    if (status == FB_OK)
        status = fb_context(fb_file_open(&r->file, path), "'%.300s'", path);
    if (status != FB_OK) {
        fb_records_close(r);
        return status;
    }
    *out = r;
    return FB_OK;
}

static void clear_line(fb_records *r)
{
    while (r->rooms != NULL) {
        struct room *next = r->rooms->next;

        fb_free(r->rooms);
        r->rooms = next;
    }
    fb_json_free(r->record);
    r->record = NULL;
}

fb_status fb_records_room(fb_records *records, size_t size, void **out)
{
    struct room *room = NULL;

    *out = NULL;
    if (size < SIZE_MAX - ROOM_OFFSET)
        room = fb_zalloc(FB_ACCOUNT_other, ROOM_OFFSET + size);
    if (room == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a record");
    room->next = records->rooms;
    records->rooms = room;
    *out = (char *)room + ROOM_OFFSET;
    return FB_OK;
}

void fb_records_close(fb_records *records)
{
    if (records == NULL) return;
    if (records->file != NULL) (void)fclose(records->file);
    clear_line(records);
    for (int i = 0; i < records->n_unknown; i++)
        fb_free(records->unknown[i]);
    fb_text_clear(&records->text);
    fb_free(records->block);
    fb_free(records->path);
    fb_free(records);
}

static fb_status parse(fb_records *r, const char *line, size_t n)
{
    FB_TRY(fb_json_parse(&r->record, line, n));
    if (fb_json_is_object(r->record)) return FB_OK;
    return fb_fail(FB_FORMAT, "the record is %s; it must be an object",
                   fb_json_type(r->record));
}

fb_status fb_records_next(fb_records *records, const fb_record **out)
{
    fb_records *r = records;
    fb_status status = FB_OK;
    bool there = true;

    *out = NULL;
    clear_line(r);
    while (status == FB_OK && there && *out == NULL) {
        const char *line;
        size_t n = 0;

        status = read_line(r, &there);
        if (status == FB_IO) return status;
        line = trim(r, &n);
        if (status != FB_OK || n == 0) continue; /* blank lines count as lines */
        status = parse(r, line, n);
        if (status == FB_OK) *out = (const fb_record *)r->record;
    }
    return fb_context(status, "%.300s:%lld", r->path, (long long)r->line);
}

int64_t fb_records_line(const fb_records *records)
{
    return records->line;
}

/* --- fields --- */

/* The first of "key|id" that is there and not null; its name in `name` [64]. */
static const fb_json *find_field(const fb_record *record, const char *names,
                                 char name[64])
{
    for (;; names++) {
        const size_t n = strcspn(names, "|");
        const fb_json *value;

        (void)snprintf(name, 64, "%.*s", (int)n, names);
        value = fb_json_get((const fb_json *)record, name);
        if (value != NULL && !fb_json_is_null(value)) return value;
        names += n;
        if (*names == 0) return NULL;
    }
}

static fb_status refuse(const char *name, const fb_json *value, const char *must)
{
    return fb_fail(FB_FORMAT, "'%s' is %s; it must be %s", name, fb_json_type(value),
                   must);
}

fb_status fb_record_string(const fb_record *record, const char *names, const char **out)
{
    char name[64];
    const fb_json *value = find_field(record, names, name);

    *out = fb_json_string(value);
    if (value != NULL && *out == NULL) return refuse(name, value, "a string");
    return FB_OK;
}

fb_status fb_record_strings(const fb_record *record, const char *names,
                            const char *out[FB_MAX_STRINGS], int *n_out)
{
    char name[64];
    const fb_json *value = find_field(record, names, name);
    const size_t n = fb_json_count(value);

    *n_out = 0;
    if (value == NULL) return FB_OK;
    if (fb_json_string(value) != NULL) {
        out[(*n_out)++] = fb_json_string(value);
        return FB_OK;
    }
    if (!fb_json_is_array(value))
        return refuse(name, value, "a string or a list of strings");
    if (n > FB_MAX_STRINGS)
        return fb_fail(FB_FORMAT, "'%s' has %zu strings; at most %d", name, n,
                       FB_MAX_STRINGS);
    for (size_t i = 0; i < n; i++) {
        out[i] = fb_json_string(fb_json_at(value, i));
        if (out[i] == NULL)
            return refuse(name, fb_json_at(value, i), "a list of strings alone");
    }
    *n_out = (int)n;
    return FB_OK;
}

fb_status fb_record_integer(const fb_record *record, const char *names,
                            int64_t fallback, int64_t low, int64_t high, int64_t *out)
{
    char name[64];
    const fb_json *value = find_field(record, names, name);

    *out = fallback;
    if (value == NULL) return FB_OK;
    if (!fb_json_int(value, out)) return refuse(name, value, "a whole number");
    if (*out < low || *out > high)
        return fb_fail(FB_FORMAT, "'%s' is %lld; %lld to %lld", name, (long long)*out,
                       (long long)low, (long long)high);
    return FB_OK;
}

fb_status fb_record_name(const fb_record *record, const char *names, char *out,
                         size_t n)
{
    char name[64];
    const fb_json *value = find_field(record, names, name);
    const char *string = fb_json_string(value);
    int64_t number;
    int length = 0;

    out[0] = 0;
    if (value == NULL) return FB_OK;
    if (string != NULL)
        length = snprintf(out, n, "%s", string);
    else if (fb_json_int(value, &number))
        length = snprintf(out, n, "%lld", (long long)number);
    else
        return refuse(name, value, "a string or a whole number");
    if (length >= 0 && (size_t)length < n) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' has %d bytes; fewer than %zu", name, length, n);
}

fb_status fb_record_element(const fb_record *record, const char *name, int index,
                            const fb_record **out)
{
    char found[64];
    const fb_json *list = find_field(record, name, found), *value;

    *out = NULL;
    if (list != NULL && !fb_json_is_array(list))
        return refuse(found, list, "a list of objects");
    value = fb_json_at(list, (size_t)index);
    if (value != NULL && !fb_json_is_object(value))
        return refuse(found, value, "a list of objects alone");
    *out = (const fb_record *)value;
    return FB_OK;
}

/* --- names that nobody reads --- */

enum { MOST_NAMES = 64, NAME_BYTES = 64 };

/* Every synonym of the fields, taken apart. */
static int split_names(const fb_field *fields, char names[MOST_NAMES][NAME_BYTES])
{
    int n = 0;

    for (; fields->names != NULL; fields++)
        for (const char *at = fields->names; *at != 0 && n < MOST_NAMES;) {
            const size_t length = strcspn(at, "|");

            (void)snprintf(names[n++], NAME_BYTES, "%.*s", (int)length, at);
            at += length + (at[length] == '|');
        }
    return n;
}

static bool is_among(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static void tell_unknown(const fb_records *r, const fb_task_env *env, const char *name,
                         const char *nearest)
{
    char sentence[512];

    (void)snprintf(sentence, sizeof sentence,
                   "%.300s:%lld: unknown field '%.60s' ignored%s%s%s", r->path,
                   (long long)r->line, name, nearest == NULL ? "" : "; did you mean '",
                   nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
    env->note(env->self, sentence);
}

fb_status fb_records_note_unknown(fb_records *records, const fb_field *fields,
                                  const fb_task_env *env)
{
    fb_records *r = records;
    char room[MOST_NAMES][NAME_BYTES];
    const char *names[MOST_NAMES];
    const int n = split_names(fields, room);

    for (int i = 0; i < n; i++)
        names[i] = room[i];
    for (void *m = fb_json_first(r->record); m != NULL;
         m = fb_json_next(r->record, m)) {
        const char *name = fb_json_key(m);

        if (r->n_unknown == FB_MOST_UNKNOWN || is_among(name, names, n) ||
            is_among(name, (const char *const *)r->unknown, r->n_unknown))
            continue;
        r->unknown[r->n_unknown] = fb_strdup(name);
        if (r->unknown[r->n_unknown] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for a record");
        r->n_unknown++;
        tell_unknown(r, env, name, fb_nearest_word(name, names, n));
    }
    return FB_OK;
}

void fb_text_key(const char *text, char out[FB_TEXT_KEY])
{
    _Static_assert((int)FB_TEXT_KEY == (int)FB_HASH_HEX, "room for a hash");
    fb_hash_bytes(text, strlen(text), out);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

const char *fb_seam(const char *before, size_t n, const char *separator,
                    const char *after)
{
    const bool is_open = n > 0 && after[0] != 0;

    return is_open && !is_space(before[n - 1]) && !is_space(after[0]) ? separator : "";
}
