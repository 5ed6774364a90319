/* choice_lists.c - what a choice was made from: ties, what misses which limit, what is no
 * candidate.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/choice_saying.h"

#include <math.h>

enum { MOST_NAMED = 6 };

/* --- what it was chosen from --- */

/* Whether a candidate belongs to a line, and what is said of it there. */
typedef struct group {
    bool (*has)(const fb_choice *choice, int at, int which);
    void (*say)(fb_saying *s, const fb_candidate *c, int which);
    int which; /* of both */
} group;

/* A line of those that belong to it; nothing if there are none. */
static void say_group(fb_saying *s, const char *heading, group g)
{
    int n = 0;

    for (int i = 0; i < s->choice->n; i++) {
        if (!g.has(s->choice, i, g.which)) continue;
        if (n++ >= MOST_NAMED) continue;
        fb_text_printf(&s->line, "%s", n == 1 ? heading : ", ");
        g.say(s, &s->choice->all[i], g.which);
    }
    if (n > MOST_NAMED) fb_text_printf(&s->line, " and %d more", n - MOST_NAMED);
    if (n > 0) fb_choice_end_line(s);
}

static bool fits_beside(const fb_choice *choice, int at, int tie)
{
    return at < choice->n_fit && at != choice->chosen &&
           choice->all[at].tie == (fb_tie)tie;
}

static void say_with_bytes(fb_saying *s, const fb_candidate *c, int which)
{
    (void)which;
    fb_choice_say_name(s, c);
    fb_text_puts(&s->line, " (");
    fb_say_bytes(&s->line, c->held_bytes);
    fb_text_puts(&s->line, ")");
}

/* The mean of the task that decides. */
static void say_with_quality(fb_saying *s, const fb_candidate *c, int which)
{
    const fb_table *table;
    const fb_row *row = fb_choice_row(s->choice, c, c->decides, &table);
    const bool is_lower = fb_choice_task(s->choice, c->decides)->lower_is_better;
    const double known = is_lower ? row->lost : row->share;

    (void)which;
    fb_choice_say_name(s, c);
    fb_text_puts(&s->line, " (");
    if (isfinite(known))
        fb_choice_say_value(s, known, c->decides);
    else
        fb_say_number(&s->line, row->mean, fb_choice_digits(s->choice, c->decides));
    if (s->choice->n_tasks > 1) fb_choice_say_task(s, c->decides);
    fb_text_puts(&s->line, ")");
}

static void say_ties(fb_saying *s)
{
    say_group(s, "as good, within the margin: ",
              (group){fits_beside, say_with_bytes, FB_TIE_same});
    say_group(s, "not told apart from it: ",
              (group){fits_beside, say_with_bytes, FB_TIE_open});
    say_group(s, "within the limits too: ",
              (group){fits_beside, say_with_quality, FB_TIE_apart});
}

/* --- what misses a limit --- */

static bool misses(const fb_choice *choice, int at, int limit)
{
    return choice->all[at].left == FB_LEFT_not &&
           (choice->all[at].over & 1u << limit) != 0;
}

static void say_with_number(fb_saying *s, const fb_candidate *c, int limit)
{
    const int task =
        limit == FB_LIMIT_quality ? fb_choice_worst_quality(s->choice, c) : 0;

    fb_choice_say_name(s, c);
    fb_text_puts(&s->line, " (");
    fb_choice_say_number(s, (fb_limit)limit,
                         fb_choice_number(s->choice, c, (fb_limit)limit, task), task);
    if (limit == FB_LIMIT_quality && s->choice->n_tasks > 1)
        fb_choice_say_task(s, task);
    fb_text_puts(&s->line, ")");
}

/* "over 100 KiB: ..." */
static void say_missing(fb_saying *s, fb_limit limit)
{
    const fb_choice *choice = s->choice;
    fb_text heading = {0};

    fb_choice_say_limit(s, limit, 0);
    fb_text_printf(&heading, "over %s%s: ", fb_text_string(&s->line),
                   fb_choice_limit_unit(choice, limit));
    fb_text_clear(&s->line);
    say_group(s, fb_text_string(&heading),
              (group){misses, say_with_number, (int)limit});
    s->text->failed |= heading.failed;
    fb_text_clear(&heading);
}

static void say_below(fb_saying *s)
{
    const fb_limits *limits = &s->choice->limits;
    const bool has_both = !isnan(limits->keep) && !isnan(limits->lose);
    fb_text heading = {0};

    fb_text_puts(&heading, "below the least quality, ");
    if (!isnan(limits->keep)) {
        fb_say_percent(&heading, limits->keep);
        fb_text_puts(&heading, has_both ? " kept and " : " kept");
    }
    if (!isnan(limits->lose)) {
        fb_text_add_real(&heading, limits->lose);
        fb_text_puts(&heading, " lost");
    }
    fb_text_puts(&heading, ": ");
    say_group(s, fb_text_string(&heading),
              (group){misses, say_with_number, FB_LIMIT_quality});
    s->text->failed |= heading.failed;
    fb_text_clear(&heading);
}

/* --- what is no candidate --- */

static bool is_left_out_here(const fb_choice *choice, int at, int why)
{
    return choice->all[at].left == (fb_left_out)why;
}

/* Each rule once. */
static bool is_left_out(const fb_choice *choice, int at, int why)
{
    const fb_candidate *c = &choice->all[at];

    for (int i = 0; i < at; i++)
        if (choice->all[i].rule == c->rule && choice->all[i].left == c->left)
            return false;
    return c->left == (fb_left_out)why;
}

static void say_label(fb_saying *s, const fb_candidate *c, int which)
{
    (void)which;
    fb_text_puts(&s->line, s->choice->analysis->results->rules[c->rule].label);
}

/* With its budget: there may be another one at which it is a candidate. */
static void say_name(fb_saying *s, const fb_candidate *c, int which)
{
    (void)which;
    fb_choice_say_name(s, c);
}

static void say_left_out(fb_saying *s)
{
    say_group(s, "no candidates, since they have seen what comes after the text: ",
              (group){is_left_out, say_label, FB_LEFT_ahead});
    say_group(s, "no candidates, since they held more than they are said to keep: ",
              (group){is_left_out, say_label, FB_LEFT_simulated});
    say_group(s, "no candidates, since they had no entry to choose: ",
              (group){is_left_out_here, say_name, FB_LEFT_no_choice});
    say_group(s, "no candidates, since a task has no finished cell of them: ",
              (group){is_left_out, say_label, FB_LEFT_missing});
}

void fb_choice_say_lists(fb_saying *s)
{
    say_ties(s);
    for (int l = 0; l < FB_LIMIT_quality; l++)
        if (!isnan(fb_choice_limit(s->choice, (fb_limit)l, 0)))
            say_missing(s, (fb_limit)l);
    say_below(s);
    say_left_out(s);
}
