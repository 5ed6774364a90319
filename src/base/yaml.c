/* yaml.c - libyaml's events become a tree; what invites mistakes is refused.
 *
 * The node is the only place where text of the file is kept, so a tree is freed by
 * walking it; 32 levels bound that recursion and the one that builds it. libyaml counts
 * lines and columns from 0 and in characters.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/yaml.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { MOST_BYTES = 1 << 20, MOST_LEVELS = 32, SHOWN = 76 };

struct fb_yaml {
    char *name, *text;
    size_t n;
    fb_yaml_node *root;
};

typedef struct builder {
    fb_yaml *yaml;
    yaml_parser_t parser;
} builder;

/* --- messages --- */

/* The line that `place` is on: its bytes, without the end of line. */
static const char *find_line(const fb_yaml *yaml, int line, size_t *n_out)
{
    const char *at = yaml->text, *end = yaml->text + yaml->n;

    for (int i = 1; i < line && at < end; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));

        at = newline == NULL ? end : newline + 1;
    }
    *n_out = 0;
    while (at + *n_out < end && at[*n_out] != '\n' && at[*n_out] != '\r')
        ++*n_out;
    return at;
}

static size_t character_length(const char *at, size_t left)
{
    const size_t length = fb_utf8_length(at, left);

    return length == 0 ? 1 : length;
}

/* Characters [first, first + SHOWN) of a line. What would move the cursor is one blank. */
static int add_excerpt(fb_text *out, const char *line, size_t n, int first)
{
    int shown = 0, column = 0;

    for (size_t i = 0, length; i < n && shown < SHOWN; i += length, column++) {
        length = character_length(line + i, n - i);
        if (column < first) continue;
        shown++;
        if (length == 1 && (line[i] < ' ' || line[i] > '~'))
            fb_text_add(out, line[i] == '\t' ? " " : "?", 1);
        else
            fb_text_add(out, line + i, length);
    }
    return shown;
}

static void add_caret(fb_text *out, int column, int width)
{
    fb_text_printf(out, "\n      | %*s^", column, "");
    for (int i = 1; i < width && column + i < SHOWN; i++)
        fb_text_add(out, "~", 1);
}

fb_status fb_yaml_fail(fb_status status, const fb_yaml *yaml,
                       const fb_yaml_place *place, const char *format, ...)
{
    char sentence[512];
    fb_text picture = {0};
    va_list args;
    size_t n;
    const char *line = find_line(yaml, place->line, &n);
    const int column = place->column - 1, first = column < SHOWN / 2 ? 0 : column - 8;

    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    fb_text_printf(&picture, "\n%5d | ", place->line);
    (void)add_excerpt(&picture, line, n, first);
    add_caret(&picture, column - first, place->width);
    status = fb_fail(status, "%s:%d:%d: %s%s", yaml->name, place->line, place->column,
                     sentence, fb_text_string(&picture));
    fb_text_clear(&picture);
    return status;
}

static fb_yaml_place place_of(const yaml_event_t *event)
{
    const yaml_mark_t from = event->start_mark, to = event->end_mark;
    const bool is_one_line = from.line == to.line && to.column > from.column;

    return (fb_yaml_place){.line = (int)from.line + 1,
                           .column = (int)from.column + 1,
                           .width = is_one_line ? (int)(to.column - from.column) : 1};
}

static fb_status refuse(const builder *b, const yaml_event_t *event, const char *why)
{
    const fb_yaml_place place = place_of(event);

    return fb_yaml_fail(FB_FORMAT, b->yaml, &place, "%s", why);
}

/* --- events --- */

/* Tabs stand at the start of a line, where characters are bytes. */
static bool is_tab(const fb_yaml *yaml, const fb_yaml_place *place)
{
    size_t n;
    const char *line = find_line(yaml, place->line, &n);

    return (size_t)place->column <= n && line[place->column - 1] == '\t';
}

static fb_status parser_failed(const builder *b)
{
    const yaml_parser_t *parser = &b->parser;
    const fb_yaml_place place = {.line = (int)parser->problem_mark.line + 1,
                                 .column = (int)parser->problem_mark.column + 1,
                                 .width = 1};

    if (parser->error == YAML_MEMORY_ERROR)
        return fb_fail(FB_NO_MEMORY, "no memory to read '%s'", b->yaml->name);
    if (parser->error == YAML_READER_ERROR)
        return fb_fail(FB_FORMAT, "%s: byte %zu: %s", b->yaml->name,
                       parser->problem_offset, parser->problem);
    if (is_tab(b->yaml, &place))
        return fb_yaml_fail(FB_FORMAT, b->yaml, &place,
                            "a tab cannot indent; use blanks");
    return fb_yaml_fail(FB_FORMAT, b->yaml, &place, "%s%s%s", parser->problem,
                        parser->context == NULL ? "" : " ",
                        parser->context == NULL ? "" : parser->context);
}

static const char *why_refused(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return "aliases (*name) are not understood; write the value again";
    case YAML_DOCUMENT_START_EVENT:
        if (event->data.document_start.version_directive != NULL ||
            event->data.document_start.tag_directives.start !=
                event->data.document_start.tag_directives.end)
            return "directives (%YAML, %TAG) are not understood; leave them out";
        return NULL;
    case YAML_SCALAR_EVENT:
        if (event->data.scalar.anchor != NULL) break;
        if (event->data.scalar.tag != NULL) return "tags (!name) are not understood";
        if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
            return "a text with a zero byte";
        return NULL;
    case YAML_SEQUENCE_START_EVENT:
        if (event->data.sequence_start.anchor != NULL) break;
        if (event->data.sequence_start.tag != NULL)
            return "tags (!name) are not understood";
        return NULL;
    case YAML_MAPPING_START_EVENT:
        if (event->data.mapping_start.anchor != NULL) break;
        if (event->data.mapping_start.tag != NULL)
            return "tags (!name) are not understood";
        return NULL;
    default:
        return NULL;
    }
    return "anchors (&name) are not understood; write the value again";
}

/* The next event, which the caller deletes (also after a failure). */
static fb_status next_event(builder *b, yaml_event_t *event)
{
    const char *why;

    memset(event, 0, sizeof *event);
    if (!yaml_parser_parse(&b->parser, event)) return parser_failed(b);
    why = why_refused(event);
    return why == NULL ? FB_OK : refuse(b, event, why);
}

/* --- the tree --- */

static void free_node(fb_yaml_node *node)
{
    while (node != NULL) {
        fb_yaml_node *next = node->next;

        free_node(node->first);
        fb_free(node);
        node = next;
    }
}

/* A node of the event's kind; text and key, if any, stand in the same block. */
static fb_yaml_node *new_node(const yaml_event_t *event, const char *key)
{
    const bool is_scalar = event->type == YAML_SCALAR_EVENT;
    const size_t text_bytes = is_scalar ? event->data.scalar.length + 1 : 0;
    const size_t key_bytes = key == NULL ? 0 : strlen(key) + 1;
    fb_yaml_node *node =
        fb_zalloc(FB_ACCOUNT_other, sizeof *node + text_bytes + key_bytes);
    char *room = (char *)(node + 1);

    if (node == NULL) return NULL;
    node->kind = is_scalar                                  ? FB_YAML_SCALAR
                 : event->type == YAML_SEQUENCE_START_EVENT ? FB_YAML_LIST
                                                            : FB_YAML_MAP;
    node->place = place_of(event);
    if (is_scalar) {
        node->text = memcpy(room, event->data.scalar.value, text_bytes);
        node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    }
    if (key != NULL) node->key = memcpy(room + text_bytes, key, key_bytes);
    return node;
}

static fb_status build(builder *b, fb_yaml_node **out, const yaml_event_t *event,
                       const char *key, int level);

static fb_status check_key(const builder *b, const fb_yaml_node *map,
                           const yaml_event_t *event)
{
    const char *key = (const char *)event->data.scalar.value;
    const fb_yaml_place place = place_of(event);
    const fb_yaml_node *twin;

    if (event->type != YAML_SCALAR_EVENT)
        return refuse(b, event, "a key must be a plain word");
    if (strcmp(key, "<<") == 0)
        return refuse(b, event, "merging (<<) is not understood; write the keys again");
    twin = fb_yaml_get(map, key);
    if (twin == NULL) return FB_OK;
    return fb_yaml_fail(FB_FORMAT, b->yaml, &place, "key '%s' is already on line %d",
                        key, twin->key_place.line);
}

/* One value of a map, whose key is `event`. */
static fb_status build_member(builder *b, fb_yaml_node **out, const fb_yaml_node *map,
                              const yaml_event_t *event, int level)
{
    yaml_event_t value;
    fb_status status = check_key(b, map, event);

    if (status != FB_OK) return status;
    status = next_event(b, &value);
    if (status == FB_OK)
        status = build(b, out, &value, (const char *)event->data.scalar.value, level);
    if (status == FB_OK) (*out)->key_place = place_of(event);
    yaml_event_delete(&value);
    return status;
}

static bool is_end(const yaml_event_t *event)
{
    return event->type == YAML_SEQUENCE_END_EVENT ||
           event->type == YAML_MAPPING_END_EVENT;
}

static fb_status build_children(builder *b, fb_yaml_node *node, int level)
{
    fb_yaml_node **last = &node->first;
    fb_status status = FB_OK;
    bool ended = false;

    while (status == FB_OK && !ended) {
        yaml_event_t event;

        status = next_event(b, &event);
        ended = status == FB_OK && is_end(&event);
        if (status == FB_OK && !ended) {
            status = node->kind == FB_YAML_MAP
                         ? build_member(b, last, node, &event, level)
                         : build(b, last, &event, NULL, level);
            node->n++;
            if (status == FB_OK) last = &(*last)->next;
        }
        yaml_event_delete(&event);
    }
    return status;
}

/* The node that begins with `event`. A half-built one hangs in the tree and is freed
 * with it. */
static fb_status build(builder *b, fb_yaml_node **out, const yaml_event_t *event,
                       const char *key, int level)
{
    if (level > MOST_LEVELS)
        return refuse(b, event, "more than 32 levels inside each other");
    *out = new_node(event, key);
    if (*out == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to read '%s'", b->yaml->name);
    if ((*out)->kind == FB_YAML_SCALAR) return FB_OK;
    return build_children(b, *out, level + 1);
}

/* Stream and document events around the one node; a second document is refused. */
static fb_status build_stream(builder *b)
{
    fb_status status = FB_OK;
    bool ended = false;

    while (status == FB_OK && !ended) {
        yaml_event_t event;

        status = next_event(b, &event);
        if (status == FB_OK && event.type == YAML_DOCUMENT_START_EVENT) {
            if (b->yaml->root != NULL)
                status = refuse(b, &event, "a second document; one is understood");
        } else if (status == FB_OK && event.type == YAML_STREAM_END_EVENT) {
            ended = true;
        } else if (status == FB_OK && event.type != YAML_STREAM_START_EVENT &&
                   event.type != YAML_DOCUMENT_END_EVENT) {
            status = build(b, &b->yaml->root, &event, NULL, 1);
        }
        yaml_event_delete(&event);
    }
    if (status == FB_OK && b->yaml->root == NULL)
        status = fb_fail(FB_FORMAT, "%s: the file is empty", b->yaml->name);
    return status;
}

static fb_status parse(fb_yaml *yaml)
{
    builder b = {.yaml = yaml};
    fb_status status;
    union { /* libyaml reads bytes without a sign */
        const char *text;
        const unsigned char *bytes;
    } input = {.text = yaml->text};

    if (!yaml_parser_initialize(&b.parser))
        return fb_fail(FB_NO_MEMORY, "no memory to read '%s'", yaml->name);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, input.bytes, yaml->n);
    status = build_stream(&b);
    yaml_parser_delete(&b.parser);
    return status;
}

fb_status fb_yaml_parse(fb_yaml **out, const char *name, const char *text, size_t n)
{
    static const char bom[] = "\xef\xbb\xbf"; /* some editors begin a file with it */
    fb_status status = FB_OK;
    fb_yaml *yaml;

    *out = NULL;
    if (n >= 3 && memcmp(text, bom, 3) == 0) {
        text += 3;
        n -= 3;
    }
    if (n > MOST_BYTES)
        return fb_fail(FB_FORMAT, "%s: larger than %d bytes", name, MOST_BYTES);
    yaml = fb_zalloc(FB_ACCOUNT_other, sizeof *yaml);
    if (yaml == NULL) return fb_fail(FB_NO_MEMORY, "no memory to read '%s'", name);
    yaml->name = fb_strdup(name);
    yaml->text = fb_alloc(FB_ACCOUNT_other, n + 1);
    yaml->n = n;
    if (yaml->name == NULL || yaml->text == NULL) {
        status = fb_fail(FB_NO_MEMORY, "no memory to read '%s'", name);
    } else {
        if (n > 0) memcpy(yaml->text, text, n);
        yaml->text[n] = 0;
        status = parse(yaml);
    }
    if (status != FB_OK) {
        fb_yaml_free(yaml);
        return status;
    }
    *out = yaml;
    return FB_OK;
}

fb_status fb_yaml_read(fb_yaml **out, const char *path)
{
    char *text;
    size_t n;
    fb_status status = fb_file_read(&text, &n, path, MOST_BYTES);

    *out = NULL;
    if (status != FB_OK) return fb_context(status, "%s", path);
    status = fb_yaml_parse(out, path, text, n);
    fb_free(text);
    return status;
}

void fb_yaml_free(fb_yaml *yaml)
{
    if (yaml == NULL) return;
    free_node(yaml->root);
    fb_free(yaml->name);
    fb_free(yaml->text);
    fb_free(yaml);
}

const fb_yaml_node *fb_yaml_root(const fb_yaml *yaml)
{
    return yaml->root;
}

const fb_yaml_node *fb_yaml_get(const fb_yaml_node *map, const char *key)
{
    if (map->kind != FB_YAML_MAP) return NULL;
    for (const fb_yaml_node *node = map->first; node != NULL; node = node->next)
        if (node->key != NULL && strcmp(node->key, key) == 0) return node;
    return NULL;
}

bool fb_yaml_is_null(const fb_yaml_node *node)
{
    if (node->kind != FB_YAML_SCALAR || node->is_quoted) return false;
    return node->text[0] == 0 || strcmp(node->text, "~") == 0 ||
           strcmp(node->text, "null") == 0;
}
