/* spec_yaml.c - the experiment file: a tree of nodes becomes settings.
 *
 * A section written as one value means its first key: `compute: cap` is
 * `compute: {mode: cap}`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "spec/spec_inside.h"

#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 128 };

/* The last failure's sentence again, at a place of the file. */
static fb_status at_place(const fb_spec *spec, fb_status status,
                          const fb_yaml_place *place, const char *key)
{
    char sentence[1024];

    if (status == FB_OK || status == FB_NO_MEMORY) return status;
    (void)snprintf(sentence, sizeof sentence, "%s", fb_error_message());
    return fb_yaml_fail(status, spec->yaml, place, "%s: %s", key, sentence);
}

/* --- one value as text --- */

static void add_scalar(fb_text *out, const fb_yaml_node *node)
{
    fb_text_puts(out, node->text);
}

/* [0.7, 0.3] as 0.7/0.3. */
static fb_status add_parameter(fb_text *out, const fb_yaml_node *node)
{
    if (node->kind == FB_YAML_MAP)
        return fb_fail(FB_USAGE, "a parameter is one value or a list of numbers");
    if (node->kind == FB_YAML_SCALAR) {
        add_scalar(out, node);
        return FB_OK;
    }
    for (const fb_yaml_node *n = node->first; n != NULL; n = n->next) {
        if (n->kind != FB_YAML_SCALAR)
            return fb_fail(FB_USAGE, "a parameter is one value or a list of numbers");
        if (n != node->first) fb_text_puts(out, "/");
        add_scalar(out, n);
    }
    return FB_OK;
}

/* {needle: {length: 512, samples: 3}} as needle:length=512,samples=3. */
static fb_status add_task(fb_text *out, const fb_yaml_node *node)
{
    const fb_yaml_node *value = node->first;

    if (node->n != 1) return fb_fail(FB_USAGE, "an item is NAME or {NAME: {...}}");
    fb_text_puts(out, value->key);
    if (fb_yaml_is_null(value)) return FB_OK;
    if (value->kind != FB_YAML_MAP)
        return fb_fail(FB_USAGE, "parameters are written {key: value, ...}");
    for (const fb_yaml_node *p = value->first; p != NULL; p = p->next) {
        fb_text_printf(out, "%s%s=", p == value->first ? ":" : ",", p->key);
        FB_TRY(add_parameter(out, p));
    }
    return FB_OK;
}

/* {label: expression} as "label: expression". */
static fb_status add_rule(fb_text *out, const fb_yaml_node *node)
{
    const fb_yaml_node *value = node->first;

    if (node->n != 1 || value->kind != FB_YAML_SCALAR || fb_yaml_is_null(value))
        return fb_fail(FB_USAGE, "an item is EXPRESSION or 'LABEL: EXPRESSION'");
    fb_text_printf(out, "%s: ", value->key);
    add_scalar(out, value);
    return FB_OK;
}

/* {sink: 4, recent: 16} as 4+16. */
static fb_status add_protect(fb_text *out, const fb_yaml_node *node)
{
    const fb_yaml_node *sink = fb_yaml_get(node, "sink");
    const fb_yaml_node *recent = fb_yaml_get(node, "recent");
    const int n = (sink != NULL) + (recent != NULL);

    if (n != node->n || n == 0 || (sink != NULL && sink->kind != FB_YAML_SCALAR) ||
        (recent != NULL && recent->kind != FB_YAML_SCALAR))
        return fb_fail(FB_USAGE,
                       "a protection is {sink: N, recent: N}, none or published");
    fb_text_printf(out, "%s+%s", sink == NULL ? "0" : sink->text,
                   recent == NULL ? "0" : recent->text);
    return FB_OK;
}

/* A bracket list cuts an expression at its comma: say so rather than "unknown rule". */
static fb_status check_brackets(const char *text)
{
    int depth = 0;

    for (const char *c = text; *c != '\0'; c++)
        depth += (*c == '(') - (*c == ')');
    if (depth == 0) return FB_OK;
    return fb_fail(FB_USAGE,
                   "'%s': a bracket stays open; in a [list], quote an expression that "
                   "has a comma",
                   text);
}

static fb_status add_value(fb_text *out, const fb_option *row, const fb_yaml_node *node)
{
    if (node->kind == FB_YAML_SCALAR) {
        if (fb_yaml_is_null(node) && row->type != FB_TYPE_TEXT)
            return fb_fail(FB_USAGE, "a value is missing");
        if (row->type == FB_TYPE_RULES || row->type == FB_TYPE_TASKS)
            FB_TRY(check_brackets(node->text));
        add_scalar(out, node);
        return FB_OK;
    }
    if (node->kind == FB_YAML_MAP && row->type == FB_TYPE_TASKS)
        return add_task(out, node);
    if (node->kind == FB_YAML_MAP && row->type == FB_TYPE_RULES)
        return add_rule(out, node);
    if (node->kind == FB_YAML_MAP && row->type == FB_TYPE_PROTECT)
        return add_protect(out, node);
    return fb_fail(FB_USAGE, "takes one value, not %s",
                   node->kind == FB_YAML_MAP ? "a map" : "a list");
}

/* --- one setting --- */

static fb_status read_item(const fb_option *row, const fb_yaml_node *node, fb_item *out)
{
    fb_text text = {0};
    fb_status status;

    fb_text_init(&text, 0);
    status = add_value(&text, row, node);
    if (status == FB_OK) status = fb_text_status(&text);
    if (status == FB_OK) {
        *out = (fb_item){fb_strdup(fb_text_string(&text)), node->place};
        if (out->text == NULL) status = fb_fail(FB_NO_MEMORY, "no memory for a list");
    }
    fb_text_clear(&text);
    return status;
}

static fb_status read_list(fb_spec *spec, int row, const fb_yaml_node *node)
{
    const fb_option *option = &fb_settings()[row];
    fb_item *items =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)node->n + 1, sizeof *items));
    const fb_yaml_node *at = node;
    int n = 0, bad = 0;
    fb_status status = FB_OK;

    if (items == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a list");
    for (at = node->first; at != NULL && status == FB_OK; at = at->next) {
        status = read_item(option, at, &items[n]);
        if (status != FB_OK) break;
        n++;
    }
    if (status == FB_OK) {
        status = fb_values_set_items(&spec->values, row, FB_FROM_FILE, items, n, &bad);
        if (status != FB_OK && n > 0)
            status = at_place(spec, status, &items[bad].place, option->key);
    } else {
        status = at_place(spec, status, &at->place, option->key);
    }
    fb_items_free(items, n);
    return status;
}

/* A list that is written as one value: all items are at its place. */
static fb_status set_list(fb_spec *spec, int row, const fb_yaml_node *node,
                          const char *text)
{
    fb_value *value = &spec->values.value[row];

    FB_TRY(fb_values_set(&spec->values, row, FB_FROM_FILE, text));
    for (int i = 0; i < value->n; i++)
        value->items[i].place = node->place;
    return FB_OK;
}

static fb_status read_setting(fb_spec *spec, int row, const fb_yaml_node *node)
{
    const fb_option *option = &fb_settings()[row];
    fb_item item = {0};
    fb_status status;

    if (option->type == FB_TYPE_LATER)
        return fb_yaml_fail(FB_UNSUPPORTED, spec->yaml, &node->key_place,
                            "key '%s' is known but not built yet: %s", option->key,
                            option->help);
    if (fb_option_is_list(option) && node->kind == FB_YAML_LIST)
        return read_list(spec, row, node);
    status = read_item(option, node, &item);
    if (status == FB_OK && fb_option_is_list(option))
        status = set_list(spec, row, node, item.text);
    else if (status == FB_OK)
        status = fb_values_set_items(&spec->values, row, FB_FROM_FILE, &item, 1, NULL);
    fb_free(item.text);
    return at_place(spec, status, &node->place, option->key);
}

/* --- the tree --- */

/* Where each setting was read: its key may be written nested, dotted, or as its section
 * alone, which the parser of YAML cannot know to be the same. */
typedef const fb_yaml_node *seen_keys[FB_SET_COUNT];

static fb_status read_once(fb_spec *spec, seen_keys seen, int row,
                           const fb_yaml_node *node)
{
    if (seen[row] != NULL)
        return fb_yaml_fail(FB_USAGE, spec->yaml, &node->key_place,
                            "key '%s' is already on line %d", fb_settings()[row].key,
                            seen[row]->key_place.line);
    seen[row] = node;
    return read_setting(spec, row, node);
}

/* The first setting whose key begins with "path."; -1: none. */
static int find_section(const char *path)
{
    const fb_option *rows = fb_settings();
    const size_t n = strlen(path);

    for (int i = 0; i < FB_SET_COUNT; i++)
        if (strncmp(rows[i].key, path, n) == 0 && rows[i].key[n] == '.') return i;
    return -1;
}

/* The key of the option that is called `word`, max_tokens or max-tokens; NULL: none. */
static const char *key_of_option(const char *word)
{
    char name[KEY_MAX];
    int row;

    (void)snprintf(name, sizeof name, "%s", word);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '_') *c = '-';
    row = fb_option_find_name(fb_settings(), name);
    return row < 0 ? NULL : fb_settings()[row].key;
}

/* `memory: 64MiB` is memory.metadata, and perhaps not what was meant. */
static fb_status read_section(fb_spec *spec, seen_keys seen, int row,
                              const fb_yaml_node *node)
{
    const fb_status status = read_once(spec, seen, row, node);
    const char *meant = key_of_option(node->key);
    char sentence[1024];

    if (status != FB_USAGE || meant == NULL ||
        strcmp(meant, fb_settings()[row].key) == 0)
        return status;
    (void)snprintf(sentence, sizeof sentence, "%s", fb_error_message());
    return fb_fail(status, "%s\nhelp: the option --%s is the key %s", sentence,
                   node->key, meant);
}

/* The words that may follow `path` ("" at the top), to find the nearest of them. */
static fb_status unknown_key(const fb_spec *spec, const char *path,
                             const fb_yaml_node *node)
{
    char words[FB_SET_COUNT][KEY_MAX];
    const char *list[FB_SET_COUNT];
    const size_t n_path = strlen(path);
    const char *nearest;
    int n = 0;

    for (int i = 0; i < FB_SET_COUNT; i++) {
        const char *key = fb_settings()[i].key;

        if (n_path > 0 && (strncmp(key, path, n_path) != 0 || key[n_path] != '.'))
            continue;
        key += n_path + (n_path > 0);
        (void)snprintf(words[n], KEY_MAX, "%.*s", (int)strcspn(key, "."), key);
        list[n] = words[n];
        n++;
    }
    if (n_path == 0 && key_of_option(node->key) != NULL)
        return fb_yaml_fail(FB_USAGE, spec->yaml, &node->key_place,
                            "unknown key '%s'; the option of this name is the key '%s'",
                            node->key, key_of_option(node->key));
    nearest = fb_nearest_word(node->key, list, n);
    if (nearest != NULL)
        return fb_yaml_fail(FB_USAGE, spec->yaml, &node->key_place,
                            "unknown key '%s'; did you mean '%s'?", node->key, nearest);
    return fb_yaml_fail(FB_USAGE, spec->yaml, &node->key_place, "unknown key '%s'",
                        node->key);
}

static fb_status read_map(fb_spec *spec, seen_keys seen, const char *path,
                          const fb_yaml_node *map)
{
    for (const fb_yaml_node *node = map->first; node != NULL; node = node->next) {
        char key[KEY_MAX];
        int row, section;

        (void)snprintf(key, sizeof key, "%s%s%s", path, path[0] == '\0' ? "" : ".",
                       node->key);
        row = fb_option_find_key(fb_settings(), key);
        section = find_section(key);
        if (row < 0 && section < 0) return unknown_key(spec, path, node);
        if (row < 0 && node->kind == FB_YAML_MAP)
            FB_TRY(read_map(spec, seen, key, node));
        else
            FB_TRY(row < 0 ? read_section(spec, seen, section, node)
                           : read_once(spec, seen, row, node));
    }
    return FB_OK;
}

static fb_status read_tree(fb_spec *spec)
{
    const fb_yaml_node *root = fb_yaml_root(spec->yaml);
    seen_keys seen = {NULL};

    if (root->kind != FB_YAML_MAP)
        return fb_yaml_fail(FB_FORMAT, spec->yaml, &root->place,
                            "an experiment is a map of keys as 'rules: [...]'");
    return read_map(spec, seen, "", root);
}

fb_status fb_spec_parse(fb_spec *spec, const char *name, const char *text, size_t n)
{
    fb_yaml_free(spec->yaml);
    spec->yaml = NULL;
    FB_TRY(fb_yaml_parse(&spec->yaml, name, text, n));
    return read_tree(spec);
}

fb_status fb_spec_read(fb_spec *spec, const char *path)
{
    fb_yaml_free(spec->yaml);
    spec->yaml = NULL;
    FB_TRY(fb_yaml_read(&spec->yaml, path));
    return read_tree(spec);
}
