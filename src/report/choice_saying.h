/* choice_saying.h - what the words about a choice share.
 *
 * Words gather in a line, which fb_choice_end_line breaks and adds to the text.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_CHOICE_SAYING_H
#define FB_REPORT_CHOICE_SAYING_H

#include "report/choice_parts.h"

typedef struct fb_saying {
    const fb_choice *choice;
    const fb_choice_words *words; /* NULL: nothing more is known */
    fb_text *text;                /* all of it */
    fb_text line;                 /* at work */
} fb_saying;

void fb_choice_end_line(fb_saying *s);

/* --- words --- */

void fb_choice_say_name(fb_saying *s,
                        const fb_candidate *c);         /* "h2o at 50 %", "full" */
void fb_choice_say_task(fb_saying *s, int task);        /* " on needle" */
void fb_choice_say_time(fb_text *text, double seconds); /* "1.22 ms" */
/* One number of digits in all that is said of a task: the fewest of its tables. */
int fb_choice_digits(const fb_choice *choice, int task);
/* What is lost, with the unit, or a share in percent. */
void fb_choice_say_value(fb_saying *s, double value, int task);
/* The number that a limit is held against. */
void fb_choice_say_number(fb_saying *s, fb_limit limit, double number, int task);
void fb_choice_say_limit(fb_saying *s, fb_limit limit, int task);
const char *fb_choice_limit_unit(const fb_choice *choice, fb_limit limit);
/* "88 % of the full cache's f1 (86 % to 90 %)" */
void fb_choice_say_quality(fb_saying *s, const fb_candidate *c, int task);
/* The task in which the least quality is missed by most. */
int fb_choice_worst_quality(const fb_choice *choice, const fb_candidate *c);
/* "385 KiB peak of at most 256 KiB", "81 % of at least 95 % on needle" */
void fb_choice_say_missed(fb_saying *s, const fb_candidate *c, fb_limit limit);

/* --- lines --- */

void fb_choice_say_chosen(fb_saying *s);
void fb_choice_say_nothing(fb_saying *s);
void fb_choice_say_lists(fb_saying *s);

#endif
