/* spec.h - the experiment as asked for: settings from a file, the environment, options.
 *
 * A file is strict: unknown keys (with the nearest known one), duplicates and values of
 * a wrong type are refused with line, column and a caret. What belongs to later
 * versions is known by name and refused in one sentence, never ignored.
 *
 * The *effective text* writes every setting out, rules and tasks in canonical form. Its
 * SHA-256 is the identity of the experiment: two runs with the same hash are one
 * experiment, and the text is itself a file that gives the same hash. Settings that
 * change no result (threads, instruction set, memory) are not in it, nor are the
 * folders of the model and of the data of tasks: their hashes are.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_SPEC_SPEC_H
#define FB_SPEC_SPEC_H

#include "base/hash.h"
#include "base/yaml.h"
#include "cache/cache.h"
#include "model/model.h"
#include "rule/rule.h"
#include "select/select.h"
#include "spec/option.h"
#include "task/task.h"

typedef enum fb_setting {
#define FB_SETTING(id, key, name, letter, type, initial, low, high, words, later,      \
                   argument, group, unhashed, help)                                    \
    FB_SET_##id,
#include "spec/list.h"
#undef FB_SETTING
    FB_SET_COUNT
} fb_setting;

/* The rows of all settings, in the order of the enum; ended by FB_OPTION_END. */
const fb_option *fb_settings(void);

/* A rule of the experiment. */
typedef struct fb_spec_rule {
    char *label;
    fb_bound_rule *rule;
    int item; /* of the setting, where it was written */
} fb_spec_rule;

typedef struct fb_spec {
    fb_values values; /* by fb_setting */
    fb_yaml *yaml;    /* of the file, for places in messages; NULL: none */

    /* Typed by fb_spec_check. */
    fb_rule_files files; /* whose rules are known beside the built-in ones */
    fb_spec_rule *rules;
    fb_bound_task **tasks;
    fb_budget *budgets;
    uint64_t *seeds;
    int n_rules, n_tasks, n_budgets, n_seeds;
    fb_protect protect;
    const char *baseline; /* label of a rule; lent */
} fb_spec;

/* The context is read under the budget. */
bool fb_spec_streams(const fb_spec *spec);
/* Entries that survived an eviction keep the score that they had. */
bool fb_spec_keeps_scores(const fb_spec *spec);
/* And question and answer with it. */
bool fb_spec_goes_on(const fb_spec *spec);
/* All settings at their defaults. */
FB_MUST_USE fb_status fb_spec_init(fb_spec *spec);
void fb_spec_clear(fb_spec *spec);

/* Reads a YAML file into settings that are not set by something stronger. */
FB_MUST_USE fb_status fb_spec_read(fb_spec *spec, const char *path);
FB_MUST_USE fb_status fb_spec_parse(fb_spec *spec, const char *name, const char *text,
                                    size_t n);
typedef void fb_report(void *self, const char *problem);
/* FLEXBUDGET_<OPTION> of the environment, as FLEXBUDGET_THREADS: of every setting that is
 * an option. */
FB_MUST_USE fb_status fb_spec_environment(fb_spec *spec);
/* Tells of each FLEXBUDGET_ name that nothing reads, with the nearest that is read. */
void fb_spec_unknown_environment(fb_report *report, void *self);
/* One setting from a text, as the command line writes it. */
FB_MUST_USE fb_status fb_spec_assign(fb_spec *spec, fb_setting setting,
                                     fb_origin origin, const char *text);
/* "key=value" by dotted YAML path: --set. */
FB_MUST_USE fb_status fb_spec_set(fb_spec *spec, const char *assignment);

/* Types everything, hashes the data of tasks, and checks what can be checked without the
 * model. Each problem is one call of `report` (NULL: none); the status is that of the
 * first. */
FB_MUST_USE fb_status fb_spec_check(fb_spec *spec, fb_report *report, void *self);
/* The same of a question of the user's: neither tasks nor names are asked for, and a rule
 * that looks at the right answer is refused. */
FB_MUST_USE fb_status fb_spec_check_question(fb_spec *spec, fb_report *report,
                                             void *self);

/* The hash of the model file becomes part of the experiment; FB_USAGE if the file asked
 * for another one. */
FB_MUST_USE fb_status fb_spec_bind_model(fb_spec *spec, const fb_model_facts *facts);

/* The type of keys and values; how weights are held. */
fb_dtype fb_spec_cache(const fb_spec *spec);
fb_weight_form fb_spec_weights(const fb_spec *spec);
/* The type of weights under a device of torch; whether there is one. */
fb_dtype fb_spec_precision(const fb_spec *spec);
bool fb_spec_is_torch(const fb_spec *spec);
/* Not a rule to be judged: what chooses nothing, what cannot be deployed, what quality is
 * lost from. */
bool fb_spec_is_reference(const fb_spec *spec, int rule);
/* The rule with this label, or -1. */
int fb_spec_find_rule(const fb_spec *spec, const char *label);
/* "needle:length=512,...": every parameter, and data and sha256 if there is some data.
 * `for_people`: with its folder. */
void fb_spec_print_task(const fb_spec *spec, int task, bool for_people, fb_text *out);
/* FB_BUDGET if `k` entries per head are no more than the protected ones. `prefix` is
 * put before the number: "64KiB or ". */
FB_MUST_USE fb_status fb_spec_check_arithmetic(const fb_spec *spec, int64_t k,
                                               const char *prefix);

/* The effective text. `for_people`: unhashed settings and folders too, each line with
 * where its value came from. The spec has been checked. */
FB_MUST_USE fb_status fb_spec_print(const fb_spec *spec, bool for_people, fb_text *out);
/* Of the effective text without the names of files whose hashes are in it. */
FB_MUST_USE fb_status fb_spec_hash(const fb_spec *spec, char out[FB_HASH_HEX]);
/* The same of an effective text that was printed and not `for_people`. */
FB_MUST_USE fb_status fb_spec_hash_text(const char *text, char out[FB_HASH_HEX]);
/* What two effective texts differ in: "budgets changed (10%,20% -> 10%,40%), ...". */
FB_MUST_USE fb_status fb_spec_changes(const char *before, const char *after,
                                      fb_text *out);

/* The same of all but what the backends may differ in: device, precision, and the words
 * that name the experiment. */
FB_MUST_USE fb_status fb_spec_changes_besides_backend(const char *before,
                                                      const char *after, fb_text *out);

/* A failure about the i-th item of a setting, with the place where it was written. */
fb_status fb_spec_fail(const fb_spec *spec, fb_status status, fb_setting setting,
                       int item, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* "10%..50%+10%" and its like become single budgets. FB_USAGE if nothing results. */
FB_MUST_USE fb_status fb_budgets_expand(const char *text, fb_budget **out, int *n_out);

#endif
