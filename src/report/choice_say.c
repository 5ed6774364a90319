/* choice_say.c - the choice in a sentence, then what it was chosen from.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/choice_saying.h"

#include <math.h>
#include <string.h>

/* --- around it --- */

static void say_floors(fb_saying *s)
{
    for (int i = 0; i < s->choice->n_floors; i++) {
        const fb_results *results = s->choice->analysis->results;

        fb_text_printf(&s->line,
                       "%s is left out: the full cache itself scores nothing there",
                       results->tasks[s->choice->floors[i]].name);
        fb_choice_end_line(s);
    }
}

static void say_context(fb_saying *s)
{
    char tokens[32];

    if (s->choice->limits.context <= 0) return;
    fb_print_count(s->choice->limits.context, tokens, sizeof tokens);
    fb_text_printf(
        &s->line,
        "bytes are those of %s tokens; quality and FLOPs are as measured, on "
        "contexts of other lengths",
        tokens);
    fb_choice_end_line(s);
}

static void say_peer(fb_saying *s)
{
    const char *note = s->words->peer_notes;

    fb_text_printf(&s->line, "in kvpress: %s", s->words->peer);
    fb_choice_end_line(s);
    for (size_t n; note != NULL && *note != '\0'; note += n + (note[n] == '\n')) {
        n = strcspn(note, "\n");
        fb_text_add(&s->line, note, n);
        fb_choice_end_line(s);
    }
}

static void say_words(fb_saying *s)
{
    const fb_choice_words *words = s->words;

    if (words == NULL) return;
    if (words->n_rules > 0) {
        fb_text_printf(&s->line, "not tested here: %d of the %d rules that there are",
                       words->n_untested, words->n_rules);
        fb_choice_end_line(s);
    }
    if (words->device != NULL) {
        fb_text_printf(&s->line,
                       "time: modelled, not measured, by the %s profile of %s",
                       words->is_measured ? "measured" : "given", words->device);
        fb_choice_end_line(s);
    }
    if (s->choice->chosen < 0) return; /* nothing to go on with */
    if (words->peer != NULL) say_peer(s);
    if (words->next != NULL) {
        fb_text_printf(&s->line, "next: %s", words->next);
        fb_say_clean(&s->line, 0); /* not wrapped: to be copied */
        fb_text_printf(s->text, "%s\n", fb_text_string(&s->line));
        fb_text_clear(&s->line);
    }
}

/* What quality is by, and what a peak is. */
static void say_how(fb_saying *s)
{
    const fb_choice *choice = s->choice;
    const int shown = choice->chosen >= 0 ? choice->chosen : choice->nearest;

    fb_text_puts(&s->line, choice->limits.by_mean
                               ? "quality by the mean"
                               : "quality by the end of the interval "
                                 "that is against the rule");
    fb_text_puts(&s->line, choice->limits.is_resident
                               ? "; memory is what stays (--resident)"
                               : "; memory is the peak: where a text is read at once, "
                                 "its full cache and what stays of it");
    if (choice->all[shown].tail_bytes > 0) {
        fb_text_puts(&s->line, "; question and answer take up to ");
        fb_say_bytes(&s->line, choice->all[shown].tail_bytes);
        fb_text_puts(&s->line, " beside it");
    } else {
        fb_text_puts(&s->line, "; question and answer are in it");
    }
    fb_choice_end_line(s);
}

/* The fewest documents of a task: intervals decide here. */
static void say_few(fb_saying *s)
{
    const fb_analysis *analysis = s->choice->analysis;
    int least = FB_FEW_DOCUMENTS;

    for (int i = 0; i < analysis->n_tables; i++)
        for (int t = 0; t < s->choice->n_tasks; t++)
            if (analysis->tables[i].task == s->choice->tasks[t] &&
                analysis->tables[i].n_documents < least)
                least = analysis->tables[i].n_documents;
    if (least == FB_FEW_DOCUMENTS) return;
    fb_say_few(&s->line, least);
    fb_choice_end_line(s);
}

static void say_all(fb_saying *s)
{
    const fb_analysis *analysis = s->choice->analysis;

    if (fb_analysis_is_unfinished(analysis)) {
        fb_say_unfinished(&s->line, analysis);
        fb_choice_end_line(s);
        fb_text_puts(s->text, "\n");
    }
    if (s->choice->chosen >= 0)
        fb_choice_say_chosen(s);
    else
        fb_choice_say_nothing(s);
    fb_text_puts(s->text, "\n");
    fb_choice_say_lists(s);
    say_floors(s);
    say_words(s);
    fb_text_puts(s->text, "\n");
    say_how(s);
    say_few(s);
    say_context(s);
    fb_say_setting(s->text, analysis);
    if (fb_say_windows(s->text, &analysis->results->model)) fb_text_puts(s->text, "\n");
    fb_text_printf(s->text, "%s\n", analysis->signature);
}

static void print_text(fb_text *text, const fb_choice *choice,
                       const fb_choice_words *words)
{
    fb_saying s = {.choice = choice, .words = words, .text = text};

    say_all(&s);
    fb_text_clear(&s.line);
}

fb_status fb_choice_print(const fb_choice *choice, const fb_choice_words *words,
                          bool is_json, char **out)
{
    fb_text text = {0};
    fb_status status;

    *out = NULL;
    if (is_json)
        fb_choice_print_json(&text, choice, words);
    else
        print_text(&text, choice, words);
    status = fb_text_status(&text);
    if (status == FB_OK) {
        *out = text.bytes; /* never empty */
        return FB_OK;
    }
    fb_text_clear(&text);
    return status;
}
