/* choice_words.c - names, numbers and limits of candidates in words.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/choice_saying.h"

#include <math.h>

/* "h2o at 50 %", "full" */
void fb_choice_say_name(fb_saying *s, const fb_candidate *c)
{
    const fb_results *results = s->choice->analysis->results;

    fb_text_puts(&s->line, results->rules[c->rule].label);
    if (c->budget < 0) return;
    fb_text_puts(&s->line, " at ");
    fb_say_budget(&s->line, &results->budgets[c->budget]);
}

/* Two digits behind the first that is not 0, and at least one behind the point. */
void fb_choice_say_time(fb_text *text, double seconds)
{
    int digits = seconds < 0.01 ? 2 : 1;

    if (seconds > 0 && seconds < 0.001) digits -= (int)floor(log10(1000 * seconds));
    if (digits > 9) digits = 9;
    fb_say_number(text, 1000 * seconds, digits);
    fb_text_puts(text, " ms");
}

/* One number of digits in all that is said of a task: the fewest of its tables. */
int fb_choice_digits(const fb_choice *choice, int task)
{
    const fb_analysis *analysis = choice->analysis;
    int digits = 9;

    for (int t = 0; t < analysis->n_tables; t++)
        if (analysis->tables[t].task == choice->tasks[task] &&
            analysis->tables[t].digits < digits)
            digits = analysis->tables[t].digits;
    return digits;
}

void fb_choice_say_value(fb_saying *s, double number, int task)
{
    const fb_result_task *about = fb_choice_task(s->choice, task);

    if (about->lower_is_better) {
        fb_say_number(&s->line, number, fb_choice_digits(s->choice, task));
        fb_say_unit(&s->line, about);
    } else {
        fb_say_percent(&s->line, number);
    }
}

/* The number of a limit, or the limit. */
void fb_choice_say_number(fb_saying *s, fb_limit limit, double number, int task)
{
    if (!isfinite(number))
        fb_text_puts(&s->line, "unknown");
    else if (limit == FB_LIMIT_memory)
        fb_say_bytes(&s->line, number);
    else if (limit == FB_LIMIT_compute)
        fb_say_extra(&s->line, number);
    else if (limit == FB_LIMIT_time)
        fb_choice_say_time(&s->line, number);
    else
        fb_choice_say_value(s, number, task);
}

/* A limit of losses as it was given: digits of a table may be too few for it. */
void fb_choice_say_limit(fb_saying *s, fb_limit limit, int task)
{
    const double number = fb_choice_limit(s->choice, limit, task);

    if (limit != FB_LIMIT_quality ||
        !fb_choice_task(s->choice, task)->lower_is_better) {
        fb_choice_say_number(s, limit, number, task);
        return;
    }
    fb_text_add_real(&s->line, number);
    fb_say_unit(&s->line, fb_choice_task(s->choice, task));
}

const char *fb_choice_limit_unit(const fb_choice *choice, fb_limit limit)
{
    if (limit == FB_LIMIT_memory) return choice->limits.is_resident ? "" : " peak";
    if (limit == FB_LIMIT_compute) return " FLOPs";
    return limit == FB_LIMIT_time ? " a token, modelled" : "";
}

void fb_choice_say_task(fb_saying *s, int task)
{
    fb_text_printf(&s->line, " on %s", fb_choice_task(s->choice, task)->name);
}

void fb_choice_end_line(fb_saying *s)
{
    fb_say_clean(&s->line, 0);
    fb_say_wrapped(s->text, fb_text_string(&s->line));
    s->text->failed |= s->line.failed;
    fb_text_clear(&s->line);
}

int fb_choice_worst_quality(const fb_choice *choice, const fb_candidate *c)
{
    double most = -1;
    int worst = 0;

    for (int t = 0; t < choice->n_tasks; t++) {
        const double number = fb_choice_number(choice, c, FB_LIMIT_quality, t);
        const double limit = fb_choice_limit(choice, FB_LIMIT_quality, t);
        const bool is_less = fb_choice_task(choice, t)->lower_is_better;
        const double over = (is_less ? number - limit : limit - number) / limit;

        if (!(over > most)) continue;
        most = over;
        worst = t;
    }
    return worst;
}

/* "88 % of the full cache's f1 (86 to 90)", "0.08 nat lost (0.03 to 0.12)" */
void fb_choice_say_quality(fb_saying *s, const fb_candidate *c, int task)
{
    const fb_table *table;
    const fb_row *row = fb_choice_row(s->choice, c, task, &table);
    const fb_result_task *about = fb_choice_task(s->choice, task);
    const bool is_lost = about->lower_is_better && isfinite(row->lost);
    const int digits = fb_choice_digits(s->choice, task);
    fb_text *line = &s->line;

    if (!about->lower_is_better && isfinite(row->share)) {
        fb_say_percent(line, row->share);
        fb_text_printf(line, " of the full cache's %s (", fb_say_metric(about->metric));
        fb_say_percent(line, row->share_interval.low);
        fb_text_puts(line, " to ");
        fb_say_percent(line, row->share_interval.high);
    } else {
        fb_text_printf(line, "%s ", fb_say_metric(about->metric));
        fb_say_number(line, is_lost ? row->lost : row->mean, digits);
        fb_say_unit(line, about);
        fb_text_puts(line, is_lost ? " away from the full cache (" : " (");
        fb_say_interval(line, is_lost ? row->lost_interval : row->mean_interval, digits,
                        false);
    }
    fb_text_puts(line, ")");
}

/* "385 KiB peak of at most 256 KiB", "81 % of at least 95 % on needle" */
void fb_choice_say_missed(fb_saying *s, const fb_candidate *c, fb_limit limit)
{
    const fb_choice *choice = s->choice;
    const int task = limit == FB_LIMIT_quality ? fb_choice_worst_quality(choice, c) : 0;
    const bool is_least =
        limit == FB_LIMIT_quality && !fb_choice_task(choice, task)->lower_is_better;

    fb_choice_say_number(s, limit, fb_choice_number(choice, c, limit, task), task);
    fb_text_printf(&s->line, "%s of at %s ", fb_choice_limit_unit(choice, limit),
                   is_least ? "least" : "most");
    fb_choice_say_limit(s, limit, task);
    if (limit == FB_LIMIT_quality && choice->n_tasks > 1) fb_choice_say_task(s, task);
}
