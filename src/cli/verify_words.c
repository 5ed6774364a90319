/* verify_words.c - see verify_words.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/verify_words.h"
#include "base/json.h"
#include "experiment/version.h"
#include "report/analysis_parts.h"

#include <string.h>

bool fb_verify_holds(const fb_verification *v)
{
    return v->problems->n == 0 &&
           v->verified->n_equal + v->verified->n_near == v->verified->n;
}

static bool is_other_program(const fb_verification *v)
{
    return strcmp(v->results->program, fb_program) != 0;
}

/* --- words --- */

static void add_cell_name(const fb_verification *v, int cell, fb_text *out)
{
    const fb_results *r = v->results;
    const fb_result_cell *c = &r->cells[cell];
    const fb_result_sample *sample = &r->samples[c->sample];
    const size_t from = out->n;

    fb_text_printf(out, "%s/%s, rule '%s', budget %s", r->tasks[sample->task].name,
                   sample->key, r->rules[c->rule].label,
                   c->budget < 0 ? "full" : r->budgets[c->budget].asked);
    if (c->seed != 0) fb_text_printf(out, ", seed %lld", (long long)c->seed);
    fb_say_clean(out, from);
}

static void add_problems(const fb_verification *v, fb_text *out)
{
    const char *line = fb_text_string(v->problems);
    size_t from;

    fb_text_printf(out, "file: NOT as certified\n");
    while (*line != '\0') {
        const size_t n = strcspn(line, "\n");

        fb_text_puts(out, "  ");
        from = out->n;
        fb_text_add(out, line, n);
        fb_say_clean(out, from);
        fb_text_puts(out, "\n");
        line += n + (line[n] == '\n');
    }
}

static void add_different(const fb_verification *v, fb_text *out)
{
    for (int i = 0; i < v->verified->n; i++) {
        const fb_verified_cell *cell = &v->verified->cells[i];

        if (cell->is_equal) continue;
        fb_text_puts(out, cell->is_near ? "  within tolerance: " : "  differs: ");
        add_cell_name(v, cell->cell, out);
        fb_text_printf(out, ": %s\n", cell->differs == NULL ? "" : cell->differs);
    }
}

/* What is not as it was, and may be why a cell is not. */
static void add_causes(const fb_verification *v, fb_text *out)
{
    const char *cause = fb_verify_holds(v) ? "" : "; that is a likely cause";
    const char *kernel = v->results->kernel == NULL ? "" : v->results->kernel;

    if (is_other_program(v))
        fb_text_printf(out, "program: %s made the results, %s ran them again%s\n",
                       v->results->program, fb_program, cause);
    if (strcmp(kernel, v->verified->kernel) != 0)
        fb_text_printf(out, "kernel: %s made the results, %s ran them again%s\n",
                       kernel, v->verified->kernel, cause);
}

static int count_failed(const fb_results *r)
{
    int n = 0;

    for (int i = 0; i < r->n_cells; i++)
        n += !fb_result_is_done(&r->cells[i]);
    return n;
}

static void add_cells(const fb_verification *v, fb_text *out)
{
    const fb_verified *all = v->verified;
    const int n_failed = count_failed(v->results);

    fb_text_printf(out, "cells: %d of %d run again %s equal", all->n_equal, all->n,
                   fb_plural(all->n_equal, "is", "are"));
    if (all->n_near > 0)
        fb_text_printf(out, ", %d within the tolerance of %s", all->n_near,
                       v->results->kernel);
    if (n_failed > 0)
        fb_text_printf(out, "; %d that failed %s not run again", n_failed,
                       fb_plural(n_failed, "was", "were"));
    fb_text_puts(out, "\n");
    add_different(v, out);
    add_causes(v, out);
}

static void add_class(const fb_verification *v, fb_text *out)
{
    const fb_results *r = v->results;
    const size_t from = out->n;

    fb_text_printf(out, "class %s%s", r->class_name,
                   fb_verify_holds(v) ? ""
                                      : " as it is stored, which nothing upholds now");
    if (r->class_reasons[0] != '\0') fb_text_printf(out, " (%s)", r->class_reasons);
    if (r->certificate_sha256 != NULL)
        fb_text_printf(out, "; certificate %s", r->certificate_sha256);
    fb_say_clean(out, from);
    fb_text_puts(out, "\n");
}

void fb_verify_add_words(const fb_verification *v, fb_text *out)
{
    const fb_results *r = v->results;

    fb_text_printf(out, "%s: %s\n", v->path,
                   fb_verify_holds(v) ? "verified" : "NOT verified");
    if (v->problems->n > 0)
        add_problems(v, out);
    else
        fb_text_printf(out, "file: %d %s and everything around them as certified\n",
                       r->n_cells, fb_plural(r->n_cells, "cell", "cells"));
    if (v->problems->n == 0 && v->verified->n > 0)
        add_cells(v, out);
    else
        fb_text_puts(out, v->problems->n > 0
                              ? "cells: none run again, since the file was changed\n"
                              : "cells: none run again\n");
    add_class(v, out);
}

/* --- JSON --- */

static void add_string(fb_text *out, const char *key, const char *value)
{
    fb_text_printf(out, "\"%s\": ", key);
    if (value == NULL)
        fb_text_puts(out, "null");
    else
        fb_json_add_string(out, value);
    fb_text_puts(out, ", ");
}

static void add_problem_list(const fb_verification *v, fb_text *out)
{
    const char *line = fb_text_string(v->problems);

    fb_text_puts(out, "\"problems\": [");
    for (bool is_first = true; *line != '\0'; is_first = false) {
        const size_t n = strcspn(line, "\n");

        fb_text_puts(out, is_first ? "" : ", ");
        fb_json_add_bytes(out, line, n);
        line += n + (line[n] == '\n');
    }
    fb_text_puts(out, "], ");
}

static void add_json_cell(const fb_verification *v, const fb_verified_cell *cell,
                          fb_text *out)
{
    const fb_results *r = v->results;
    const fb_result_cell *c = &r->cells[cell->cell];
    const fb_result_sample *sample = &r->samples[c->sample];

    fb_text_puts(out, "{");
    add_string(out, "task", r->tasks[sample->task].name);
    add_string(out, "sample", sample->key);
    add_string(out, "rule", r->rules[c->rule].label);
    add_string(out, "budget", c->budget < 0 ? "full" : r->budgets[c->budget].asked);
    fb_text_printf(out, "\"seed\": %lld, ", (long long)c->seed);
    if (cell->differs != NULL) add_string(out, "differs", cell->differs);
    fb_text_printf(out, "\"equal\": %s, \"near\": %s}",
                   cell->is_equal ? "true" : "false", cell->is_near ? "true" : "false");
}

void fb_verify_add_json(const fb_verification *v, fb_text *out)
{
    const fb_verified *all = v->verified;

    fb_text_puts(out, "{\"format\": 1, ");
    add_string(out, "certificate", v->results->certificate_sha256);
    add_string(out, "class", v->results->class_name);
    add_string(out, "made_by", v->results->program);
    add_string(out, "verified_by", fb_program);
    add_string(out, "kernel", v->results->kernel);
    add_string(out, "verified_with", v->verified->kernel);
    add_problem_list(v, out);
    fb_text_printf(out,
                   "\"holds\": %s, \"n\": %d, \"equal\": %d, \"near\": %d, "
                   "\"cells\": [",
                   fb_verify_holds(v) ? "true" : "false", all->n, all->n_equal,
                   all->n_near);
    for (int i = 0; i < all->n; i++) {
        fb_text_puts(out, i > 0 ? ", " : "");
        add_json_cell(v, &all->cells[i], out);
    }
    fb_text_puts(out, "]}");
}
