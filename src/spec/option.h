/* option.h - what a person can set: one row per option, wherever it is written.
 *
 * A row has a YAML key, a long option, or both; its type, default, range and help. The
 * parser of files, the command line, the environment, `--help`, `--print-config` and
 * the manual read the same rows, so an option has one name and one meaning. Values are
 * typed by the rows and not by YAML: `on`, `012` or `1e3` mean what the row says.
 *
 * A value is kept as text in one canonical form ("5%", "512MiB"), a list as several.
 * Where a value came from stays with it: the command line beats the environment, the
 * environment beats the file, the file beats the default.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_SPEC_OPTION_H
#define FB_SPEC_OPTION_H

#include "base/text.h"
#include "base/yaml.h"

typedef enum fb_option_type {
    FB_TYPE_FLAG,    /* on or off; `--name` alone means on */
    FB_TYPE_INT,     /* a whole number from low to high */
    FB_TYPE_REAL,    /* a number from low to high */
    FB_TYPE_PERCENT, /* 5 %, from low to high */
    FB_TYPE_SIZE,    /* 512MiB, 64MB, 1000B */
    FB_TYPE_TIME,    /* 90s, 15m, 2h */
    FB_TYPE_WORD,    /* one of `words` */
    FB_TYPE_TEXT,
    FB_TYPE_PROTECT, /* 4+16, none, published; in YAML also {sink: 4, recent: 16} */
    FB_TYPE_DEVICE,  /* cpu, torch:cpu, torch:cuda:0,cuda:1 */
    FB_TYPE_INTS,    /* lists from here on */
    FB_TYPE_TEXTS,
    FB_TYPE_RULES, /* expressions or {label: expression} */
    FB_TYPE_TASKS, /* expressions or {name: {parameter: value}} */
    FB_TYPE_LATER, /* known by name and refused */
} fb_option_type;

typedef struct fb_option {
    const char *key;     /* dotted YAML path; NULL: not in files */
    const char *name;    /* long option, no dashes; NULL: not on the command line */
    const char *initial; /* default; "" none */
    double low, high;
    const char *words; /* "a|b": permitted words; of other types: instead of a number */
    const char *later; /* "c|d": words that are understood but not built yet */
    const char *argument; /* the word for the value in help; NULL for flags */
    const char *group;    /* heading in help */
    const char *help;     /* one line */
    fb_option_type type;
    char letter;   /* short option; 0: none */
    bool unhashed; /* changes no result: not part of an experiment's identity */
} fb_option;

/* The end of a table of rows. */
#define FB_OPTION_END                                                                  \
    {                                                                                  \
        .key = NULL, .name = NULL                                                      \
    }

bool fb_option_is_end(const fb_option *row);
bool fb_option_is_list(const fb_option *row);
/* The row with this YAML key, or long option; -1 if there is none. */
int fb_option_find_key(const fb_option *rows, const char *key);
int fb_option_find_name(const fb_option *rows, const char *name);
/* Allowed values in words: "1 to 4096", "on or off". */
void fb_option_print_range(const fb_option *row, fb_text *out);

typedef enum fb_origin {
    FB_FROM_DEFAULT,
    FB_FROM_FILE,
    FB_FROM_ENVIRONMENT,
    FB_FROM_COMMAND,
} fb_origin;

typedef struct fb_item {
    char *text;          /* canonical */
    fb_yaml_place place; /* in the file; line 0: not from a file */
} fb_item;

typedef struct fb_value {
    fb_origin origin;
    fb_item *items; /* a scalar has one */
    int n;
} fb_value;

/* A value for each row of a table. */
typedef struct fb_values {
    const fb_option *rows; /* lent */
    int n_rows;
    fb_value *value; /* [n_rows] */
} fb_values;

FB_MUST_USE fb_status fb_values_init(fb_values *values, const fb_option *rows);
void fb_values_clear(fb_values *values);

/* Sets a row from one text, which is split for lists. FB_USAGE or FB_UNSUPPORTED names
 * the permitted values and nothing has changed. A value of stronger origin stays. */
FB_MUST_USE fb_status fb_values_set(fb_values *values, int row, fb_origin origin,
                                    const char *text);
/* Sets a row from items (a copy is made); a scalar has one. `bad` gets the item. */
FB_MUST_USE fb_status fb_values_set_items(fb_values *values, int row, fb_origin origin,
                                          const fb_item *items, int n, int *bad);

/* Scalars, in the form of their type; a word that stands for a number gives `-1`. */
const char *fb_values_text(const fb_values *values, int row);
int64_t fb_values_int(const fb_values *values, int row); /* also sizes, seconds */
double fb_values_real(const fb_values *values, int row); /* percent: of 100 */
bool fb_values_flag(const fb_values *values, int row);
bool fb_values_is(const fb_values *values, int row, const char *word);

/* --- texts with a structure --- */

/* Splits at commas outside brackets; a piece `key=value` belongs to the piece before
 * it: "snapkv:window=16,pool=max,h2o" is two. Items are to be freed. */
FB_MUST_USE fb_status fb_split_list(const char *text, fb_item **items_out, int *n_out);
void fb_items_free(fb_item *items, int n);

/* 1TiB, 512MiB, 64MB, 2GB, 1000B or 1000. FB_USAGE with the forms. */
FB_MUST_USE fb_status fb_parse_size(const char *text, int64_t *out);
/* 90, 90s, 15m, 2h: seconds. */
FB_MUST_USE fb_status fb_parse_time(const char *text, int64_t *out);
/* "4+16". */
FB_MUST_USE fb_status fb_parse_protect(const char *text, int64_t *sink_out,
                                       int64_t *recent_out);
/* Bytes for people: "23.0 KiB". */
void fb_print_size(double bytes, char *out, size_t n);

#endif
