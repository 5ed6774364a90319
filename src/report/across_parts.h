/* across_parts.h - what the files of the comparison across backends share.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_ACROSS_PARTS_H
#define FB_REPORT_ACROSS_PARTS_H

#include "report/across.h"
#include "report/analysis_parts.h"

/* Writes the headline. */
FB_MUST_USE fb_status fb_across_say(fb_across *across);
/* "+0.012", "+1.3e-06": differences may be of any size. */
void fb_across_say_difference(fb_text *text, double value);
/* "recall · 20 % · KL in nat, lower is better"; of a row. */
void fb_across_say_place(fb_text *text, const fb_across *across,
                         const fb_across_row *row);

/* The columns of a row, as text and page show them. */
enum fb_across_column {
    FB_ACROSS_rule,
    FB_ACROSS_cells,
    FB_ACROSS_sets,
    FB_ACROSS_exchanged,
    FB_ACROSS_answers,
    FB_ACROSS_first,
    FB_ACROSS_second,
    FB_ACROSS_difference,
    FB_ACROSS_interval,
    FB_ACROSS_COLUMNS
};
/* Row NULL: the heading. */
void fb_across_say_column(fb_text *text, const fb_across *across,
                          const fb_across_row *row, int column);

#endif
