/* struct.c - one rule, of which the test spoils a field with -D: the struct's own with
 * OVERRIDE, its parameters with ROWS, its choices with CHOICE, what `check` says with CHECK,
 * what is exported with EXPORTS. Where it is run, TOUCHED is made.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

#include <stdio.h>

#ifndef OVERRIDE
#define OVERRIDE .family = "key"
#endif
#ifndef ROWS
#define ROWS FB_INT(struct values, n, 1, 0, 9, "a test", "a number"), FB_PARAM_END
#endif
#ifndef CHOICE
#define CHOICE
#endif
#ifndef CHECK
#define CHECK FB_OK
#endif
#ifndef EXPORTS
#define EXPORTS &bad
#endif

struct values {
    int64_t n;
    double x, y;
};

static const fb_param rows[] = {ROWS};

static fb_status check(const void *params)
{
    (void)params;
    return CHECK;
}

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
    CHOICE;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_full(ops, 2, (const int64_t[]){1, see->m}, 1);
}

__attribute__((unused)) static fb_tensor
wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner, const void *params)
{
    (void)ops, (void)see, (void)params;
    return inner[0];
}

__attribute__((unused)) static fb_tensor edit(fb_ops *ops, const fb_edit_input *in,
                                              const void *params)
{
    (void)ops, (void)params;
    return in->kept_values;
}

static const fb_rule bad = {FB_RULE_HEAD,
                            .name = "bad",
                            .summary = "a rule for tests",
                            .runs = FB_RUNS_ONE_SHOT,
                            .params = rows,
                            .params_bytes = sizeof(struct values),
                            .check = check,
                            .choose = choose,
                            .score = score,
                            OVERRIDE};

FB_EXPORT_RULES(EXPORTS);

#ifdef TOUCHED
__attribute__((constructor)) static void touch(void)
{
    FILE *file = fopen(TOUCHED, "w");

    if (file != NULL) (void)fclose(file);
}
#endif
