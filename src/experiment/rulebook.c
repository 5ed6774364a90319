/* rulebook.c - see rulebook.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/rulebook.h"
#include "spec/spec.h"

#include <string.h>

/* --- the same for all --- */

static bool holds_kernel(const fb_evidence *e, fb_text *why)
{
    if (e->same_trace) return true;
    fb_text_puts(why, "the kernel was not the same for all rules: traces differ");
    return false;
}

static bool holds_start(const fb_evidence *e, fb_text *why)
{
    if (e->same_cache) return true;
    fb_text_puts(why, "rules of a sample began with different caches");
    return false;
}

bool fb_kernel_promises_bits(const char *kernel)
{
    return kernel != NULL && strncmp(kernel, "native.", 7) == 0;
}

static bool holds_bits(const fb_evidence *e, fb_text *why)
{
    const char *kernel = e->results->kernel;

    if (fb_kernel_promises_bits(kernel)) return true;
    fb_text_printf(why, "kernel %s promises results within a tolerance, not their bits",
                   kernel == NULL ? "unknown" : kernel);
    return false;
}

static bool holds_protection(const fb_evidence *e, fb_text *why)
{
    if (!fb_values_is(e->settings, FB_SET_protect, "published")) return true;
    fb_text_puts(why, "published protection: each rule keeps first and last entries of "
                      "its own");
    return false;
}

/* --- memory --- */

static bool holds_state(const fb_evidence *e, fb_text *why)
{
    if (fb_values_is(e->settings, FB_SET_metadata, "charged")) return true;
    fb_text_puts(why, "the state of rules is not charged to the budget");
    return false;
}

static bool holds_budget(const fb_evidence *e, fb_text *why)
{
    if (e->highest_use <= 1) return true;
    fb_text_printf(why, "a cell used %.4f of its budget", e->highest_use);
    return false;
}

/* --- compute --- */

static bool holds_counted(const fb_evidence *e, fb_text *why)
{
    for (int i = 0; i < e->results->n_rules; i++)
        if (!e->results->rules[i].accounted) {
            fb_text_printf(why, "what %.80s does beside operators is not counted",
                           e->results->rules[i].label);
            return false;
        }
    return true;
}

enum { MOST_QUOTA = 5 }; /* per cent of reading the context: the default */

/* A rule above the quota stands apart, with its cost: that opens nothing. Here it is asked
 * whether there is a limit at all. */
static bool holds_quota(const fb_evidence *e, fb_text *why)
{
    const double quota = fb_values_real(e->settings, FB_SET_quota);

    if (fb_values_is(e->settings, FB_SET_compute, "report")) {
        fb_text_puts(why, "extra work of rules is shown, not limited");
        return false;
    }
    if (quota <= MOST_QUOTA) return true;
    fb_text_printf(why, "the quota of extra work is %.15g %%, above %d %%", quota,
                   MOST_QUOTA);
    return false;
}

/* --- what rules see, and what they are beside --- */

static bool holds_signals(const fb_evidence *e, fb_text *why)
{
    for (int i = 0; i < e->results->n_rules; i++) {
        const fb_result_rule *rule = &e->results->rules[i];

        if (rule->deployable || rule->is_reference) continue;
        fb_text_printf(why, "%.80s sees what no deployed rule can, and is ranked",
                       rule->label);
        return false;
    }
    return true;
}

static bool is_called(const fb_result_rule *rule, const char *name)
{
    const size_t n = strlen(name);

    return strncmp(rule->expression, name, n) == 0 &&
           (rule->expression[n] == '\0' || rule->expression[n] == ':');
}

/* Whether a rule of this name has cells that did not fail. */
static bool has_cells(const fb_results *r, const char *name)
{
    for (int i = 0; i < r->n_cells; i++)
        if (is_called(&r->rules[r->cells[i].rule], name) &&
            fb_result_is_done(&r->cells[i]))
            return true;
    return false;
}

static bool has_rule(const fb_results *r, const char *name)
{
    for (int i = 0; i < r->n_rules; i++)
        if (is_called(&r->rules[i], name)) return true;
    return false;
}

static bool holds_frame(const fb_evidence *e, fb_text *why)
{
    const bool full = has_rule(e->results, "full");
    const bool random = has_rule(e->results, "random");

    if (!full || !random) {
        fb_text_printf(why, "%s not among the rules",
                       full ? "random is"
                            : (random ? "full is" : "full and random are"));
        return false;
    }
    if (has_cells(e->results, "full") && has_cells(e->results, "random")) return true;
    fb_text_puts(why, "every cell of full or of random failed");
    return false;
}

static bool holds_whole(const fb_evidence *e, fb_text *why)
{
    const fb_results *r = e->results;

    if (r->planned > 0 && r->n_cells == r->planned) return true;
    if (r->planned > 0 && r->n_cells > r->planned)
        fb_text_printf(why, "%d cells are there, and %lld were planned", r->n_cells,
                       (long long)r->planned);
    else if (r->planned > 0)
        fb_text_printf(why, "%lld of %lld cells are not there",
                       (long long)(r->planned - r->n_cells), (long long)r->planned);
    else
        fb_text_puts(why, "how many cells there should be is not known");
    return false;
}

const fb_condition fb_rulebook[FB_CONDITIONS] = {
#define ROW(name, sentence) {#name, sentence, holds_##name},
    FB_CONDITION_LIST(ROW)
#undef ROW
};

bool fb_rulebook_judge(const fb_evidence *evidence, fb_text *reasons,
                       bool holds[FB_CONDITIONS])
{
    bool closed = true;

    for (int i = 0; i < FB_CONDITIONS; i++) {
        fb_text why = {0};

        holds[i] = fb_rulebook[i].holds(evidence, &why);
        if (!holds[i])
            fb_text_printf(reasons, "%s%s", closed ? "" : "; ", fb_text_string(&why));
        closed &= holds[i];
        reasons->failed |= why.failed;
        fb_text_clear(&why);
    }
    return closed;
}
