/* choice_sentence.c - what to use and what it takes; or that nothing fits.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/choice_saying.h"

#include <math.h>
#include <string.h>

static void say_all_qualities(fb_saying *s, const fb_candidate *c)
{
    const fb_choice *choice = s->choice;

    for (int t = 0; t < choice->n_tasks; t++) {
        if (t > 0) fb_text_puts(&s->line, t + 1 < choice->n_tasks ? ", " : " and ");
        fb_choice_say_quality(s, c, t);
        fb_choice_say_task(s, t);
        if (choice->n_tasks > 1 && t == c->decides)
            fb_text_puts(&s->line, choice->scale == FB_SCALE_place
                                       ? " (its worst place, which decides)"
                                       : " (which decides)");
    }
}

static void say_costs(fb_saying *s, const fb_candidate *c)
{
    fb_text *line = &s->line;

    fb_say_bytes(line, c->held_bytes);
    fb_text_puts(line, c->peak_bytes > c->held_bytes ? " stay, " : " ");
    if (c->peak_bytes > c->held_bytes) fb_say_bytes(line, c->peak_bytes);
    fb_text_puts(line, c->peak_bytes > c->held_bytes ? " while they are chosen"
                                                     : "of keys and values throughout");
    if (isfinite(c->extra)) {
        fb_text_puts(line, ", ");
        fb_say_extra(line, c->extra);
        fb_text_puts(line, " FLOPs in a fused kernel");
    }
    if (isfinite(c->seconds)) {
        fb_text_puts(line, ", ");
        fb_choice_say_time(line, c->seconds);
        fb_text_puts(line, " a token of the answer, modelled");
    }
}

static bool is_over_quota(const fb_choice *choice, const fb_candidate *c)
{
    for (int t = 0; t < choice->n_tasks; t++) {
        const fb_table *table;

        if (fb_choice_row(choice, c, t, &table)->is_over_quota) return true;
    }
    return false;
}

void fb_choice_say_chosen(fb_saying *s)
{
    const fb_choice *choice = s->choice;
    const fb_candidate *c = &choice->all[choice->chosen];

    fb_text_puts(&s->line,
                 fb_analysis_is_unfinished(choice->analysis) ? "So far: use " : "Use ");
    fb_choice_say_name(s, c);
    fb_text_puts(&s->line, ": ");
    say_all_qualities(s, c);
    fb_text_puts(&s->line, "; ");
    say_costs(s, c);
    fb_text_puts(&s->line, ".");
    if (choice->best != choice->chosen) {
        fb_text_puts(&s->line, " It is as good as ");
        fb_choice_say_name(s, &choice->all[choice->best]);
        fb_text_puts(&s->line, " and takes less.");
    }
    if (is_over_quota(choice, c)) {
        fb_text_puts(&s->line,
                     " It works more than the experiment's compute quota of ");
        fb_say_percent(&s->line, choice->analysis->quota);
        fb_text_puts(&s->line, " lets it.");
    }
    fb_choice_end_line(s);
}

static double missed_by(const fb_choice *choice, const fb_candidate *c, fb_limit limit,
                        int task)
{
    return fabs(fb_choice_number(choice, c, limit, task) -
                fb_choice_limit(choice, limit, task));
}

/* No rule helps against the peak of a context that is read whole. */
static void say_way_out(fb_saying *s, const fb_candidate *c)
{
    const char *protocol = s->choice->analysis->results->protocol;

    if ((c->over & 1u << FB_LIMIT_memory) == 0 || s->choice->limits.is_resident ||
        protocol == NULL || strncmp(protocol, "prefill", 7) != 0)
        return;
    fb_text_puts(&s->line,
                 "Whatever the rule, a context that is read at once is whole in memory "
                 "at the peak: --resident asks for what stays of it; a run under "
                 "--protocol stream holds no more than the budget while it reads.");
    fb_choice_end_line(s);
}

void fb_choice_say_nothing(fb_saying *s)
{
    const fb_choice *choice = s->choice;
    const fb_candidate *c = &choice->all[choice->nearest];
    const int task =
        c->misses == FB_LIMIT_quality ? fb_choice_worst_quality(choice, c) : 0;
    const double by = missed_by(choice, c, c->misses, task);

    fb_text_puts(&s->line, fb_analysis_is_unfinished(choice->analysis)
                               ? "So far: nothing fits. Nearest is "
                               : "Nothing fits. Nearest is ");
    fb_choice_say_name(s, c);
    fb_text_puts(&s->line, ", with ");
    fb_choice_say_missed(s, c, c->misses);
    fb_text_puts(&s->line, ": ");
    fb_choice_say_number(s, c->misses, by, task);
    fb_text_puts(&s->line, c->misses == FB_LIMIT_quality &&
                                   !fb_choice_task(choice, task)->lower_is_better
                               ? " too little."
                               : " too much.");
    for (int l = 0; l < FB_LIMIT_COUNT; l++) {
        if ((c->over & 1u << l) == 0 || l == (int)c->misses) continue;
        fb_text_puts(&s->line, " It also has ");
        fb_choice_say_missed(s, c, (fb_limit)l);
        fb_text_puts(&s->line, ".");
    }
    fb_choice_end_line(s);
    say_way_out(s, c);
}
