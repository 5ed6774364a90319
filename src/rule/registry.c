/* registry.c - the tables of built-in rules, of presets and of names that are refused; the
 * only reader of rules/list.h, rules/presets.h and rules/refused.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"

#include <string.h>

#define FB_RULE(name) extern const fb_rule fb_rule_##name;
#include "rules/list.h"
#undef FB_RULE

static const fb_rule *const rules[] = {
#define FB_RULE(name) &fb_rule_##name,
#include "rules/list.h"
#undef FB_RULE
};

static const fb_preset presets[] = {
#define FB_PRESET(name, expression, summary) {#name, expression, summary},
#include "rules/presets.h"
#undef FB_PRESET
};

static const fb_refused refused[] = {
#define FB_REFUSED(name, source, why, nearest) {#name, source, why, nearest},
#include "rules/refused.h"
#undef FB_REFUSED
};

int fb_rule_count(void)
{
    return (int)(sizeof rules / sizeof rules[0]);
}

const fb_rule *fb_rule_at(int index)
{
    return rules[index];
}

const fb_rule *fb_rule_find(const char *name)
{
    for (int r = 0; r < fb_rule_count(); r++)
        if (strcmp(rules[r]->name, name) == 0) return rules[r];
    return NULL;
}

int fb_preset_count(void)
{
    return (int)(sizeof presets / sizeof presets[0]);
}

const fb_preset *fb_preset_at(int index)
{
    return &presets[index];
}

const fb_preset *fb_preset_find(const char *name)
{
    for (int p = 0; p < fb_preset_count(); p++)
        if (strcmp(presets[p].name, name) == 0) return &presets[p];
    return NULL;
}

int fb_refused_count(void)
{
    return (int)(sizeof refused / sizeof refused[0]);
}

const fb_refused *fb_refused_at(int index)
{
    return &refused[index];
}

const fb_refused *fb_refused_find(const char *name)
{
    for (int i = 0; i < fb_refused_count(); i++)
        if (strcmp(refused[i].name, name) == 0) return &refused[i];
    return NULL;
}

fb_status fb_refused_fail(const fb_refused *row, const char *name)
{
    if (row->nearest[0] == '\0')
        return fb_fail(FB_UNSUPPORTED, "'%s' %s", name, row->why);
    return fb_fail(FB_UNSUPPORTED, "'%s' %s; the nearest here is '%s'", name, row->why,
                   row->nearest);
}
const fb_rule *fb_rule_files_find(const fb_rule_files *files, const char *name,
                                  const fb_rule_file **file_out)
{
    for (int f = 0; files != NULL && f < files->n; f++)
        for (int r = 0; r < files->file[f]->n; r++) {
            if (strcmp(files->file[f]->rules[r].name, name) != 0) continue;
            *file_out = files->file[f];
            return &files->file[f]->rules[r];
        }
    return NULL;
}
