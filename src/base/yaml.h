/* yaml.h - a YAML text as a tree of nodes that know their line and column.
 *
 * Scalars stay text: what `on`, `012` or `1e3` mean is for the one who asked for the
 * value, so nothing is guessed. Refused, with the place: duplicate keys, keys that are
 * not plain words, tags, anchors and aliases, `<<`, directives, a second document, zero
 * bytes, more than 32 levels, more than 1 MiB.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_YAML_H
#define FB_BASE_YAML_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum fb_yaml_kind { FB_YAML_SCALAR, FB_YAML_LIST, FB_YAML_MAP } fb_yaml_kind;

/* Where something stands, counted from 1; `width` characters from there are meant. */
typedef struct fb_yaml_place {
    int line, column, width;
} fb_yaml_place;

typedef struct fb_yaml_node fb_yaml_node;
struct fb_yaml_node {
    fb_yaml_kind kind;
    const char *text; /* of a scalar, else NULL */
    bool is_quoted;   /* a scalar in quotes or a block: never null, whatever it says */
    const char *key;  /* of a value in a map, else NULL */
    fb_yaml_place place, key_place;
    int n;               /* children of a list or map */
    fb_yaml_node *first; /* child */
    fb_yaml_node *next;  /* sibling, in the order of the text */
};

typedef struct fb_yaml fb_yaml;

/* `name` is what messages call the text; it is copied, the text too. */
FB_MUST_USE fb_status fb_yaml_parse(fb_yaml **out, const char *name, const char *text,
                                    size_t n);
FB_MUST_USE fb_status fb_yaml_read(fb_yaml **out, const char *path);
void fb_yaml_free(fb_yaml *yaml); /* takes NULL */

const fb_yaml_node *fb_yaml_root(const fb_yaml *yaml); /* lent; never NULL */
const fb_yaml_node *fb_yaml_get(const fb_yaml_node *map, const char *key); /* or NULL */
bool fb_yaml_is_null(const fb_yaml_node *node); /* plain and empty, `~` or `null` */

/* A failure at a place of the text: "name:31:1: sentence", then the line and a caret:
 *        31 | bugets: [10%, 20%]
 *           | ^~~~~~
 * `place` is a node's `place` or `key_place`.
 */
fb_status fb_yaml_fail(fb_status status, const fb_yaml *yaml,
                       const fb_yaml_place *place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
