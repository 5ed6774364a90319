/* choice_export.c - the choice for programs: every candidate with its numbers and its fate.
 *
 * The keys of a task's numbers are those of `compare --json`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "report/choice_parts.h"

#include <math.h>
#include <string.h>

static const char *const limit_names[FB_LIMIT_COUNT] = {
    [FB_LIMIT_memory] = "kv_memory",
    [FB_LIMIT_compute] = "extra_compute",
    [FB_LIMIT_time] = "answer_time",
    [FB_LIMIT_quality] = "quality",
};

static void add_real(fb_text *text, const char *key, double value)
{
    fb_text_printf(text, "\"%s\":", key);
    fb_json_add_real(text, value);
    fb_text_puts(text, ",");
}

static void add_bytes(fb_text *text, const char *key, double value)
{
    fb_text_printf(text, "\"%s\":", key);
    if (isfinite(value))
        fb_text_add_plain(text, value);
    else
        fb_text_puts(text, "null");
    fb_text_puts(text, ",");
}

static void add_limits(fb_text *text, const fb_limits *limits)
{
    fb_text_puts(text, "\"limits\":{");
    add_bytes(text, "kv_memory", limits->kv_bytes);
    fb_text_printf(text, "\"resident\":%s,", limits->is_resident ? "true" : "false");
    add_real(text, "extra_compute", limits->extra);
    add_real(text, "answer_seconds", limits->seconds);
    add_real(text, "keep", limits->keep);
    add_real(text, "lose", limits->lose);
    if (limits->context > 0)
        fb_text_printf(text, "\"context\":%lld,", (long long)limits->context);
    else
        fb_text_puts(text, "\"context\":null,");
    fb_text_printf(text, "\"by\":\"%s\"},", limits->by_mean ? "mean" : "low");
}

/* --- candidates --- */

static const char *fate_of(const fb_choice *choice, int at)
{
    static const char *const left[] = {[FB_LEFT_not] = "",
                                       [FB_LEFT_ahead] = "looks ahead",
                                       [FB_LEFT_simulated] = "simulated",
                                       [FB_LEFT_no_choice] = "no choice",
                                       [FB_LEFT_missing] = "not finished"};
    static const char *const ties[] = {[FB_TIE_apart] = "fits",
                                       [FB_TIE_open] = "not told apart",
                                       [FB_TIE_same] = "as good"};
    const fb_candidate *c = &choice->all[at];

    if (c->left != FB_LEFT_not) return left[c->left];
    if (at == choice->chosen) return "chosen";
    if (at < choice->n_fit) return ties[c->tie];
    return c->over == 1u << FB_LIMIT_quality ? "below the least quality"
                                             : "over a limit";
}

static void add_task(fb_text *text, const fb_choice *choice, const fb_candidate *c,
                     int task)
{
    const fb_table *table;
    const fb_row *row = fb_choice_row(choice, c, task, &table);

    fb_text_puts(text, "{");
    fb_export_string(text, "task", fb_choice_task(choice, task)->name);
    if (row != NULL) {
        fb_text_printf(text, "\"samples\":%d,", table->n_samples);
        add_real(text, "mean", row->mean);
        add_real(text, "low", row->mean_interval.low);
        add_real(text, "high", row->mean_interval.high);
        add_real(text, "lost", row->lost);
        add_real(text, "lost_low", row->lost_interval.low);
        add_real(text, "lost_high", row->lost_interval.high);
        add_real(text, "share", row->share);
        add_real(text, "share_low", row->share_interval.low);
        add_real(text, "share_high", row->share_interval.high);
    }
    fb_text_printf(text, "\"decides\":%s}",
                   c->left == FB_LEFT_not && task == c->decides ? "true" : "false");
}

static void add_over(fb_text *text, const fb_candidate *c)
{
    bool is_first = true;

    fb_text_puts(text, "\"over\":[");
    for (int l = 0; l < FB_LIMIT_COUNT; l++) {
        if ((c->over & 1u << l) == 0) continue;
        fb_text_printf(text, "%s\"%s\"", is_first ? "" : ",", limit_names[l]);
        is_first = false;
    }
    fb_text_puts(text, "],");
}

static void add_candidate(fb_text *text, const fb_choice *choice, int at)
{
    const fb_results *results = choice->analysis->results;
    const fb_candidate *c = &choice->all[at];

    fb_text_puts(text, "{");
    fb_export_string(text, "rule", results->rules[c->rule].label);
    fb_export_string(text, "expression", results->rules[c->rule].expression);
    fb_export_string(text, "budget",
                     c->budget < 0 ? NULL : results->budgets[c->budget].asked);
    fb_export_string(text, "fate", fate_of(choice, at));
    add_over(text, c);
    add_bytes(text, "held_bytes", c->held_bytes);
    add_bytes(text, "peak_bytes", c->peak_bytes);
    add_bytes(text, "tail_bytes", c->tail_bytes);
    add_real(text, "fused_flops", c->extra);
    add_real(text, "token_seconds", c->seconds);
    fb_text_puts(text, "\"tasks\":[");
    for (int t = 0; t < choice->n_tasks; t++) {
        if (t > 0) fb_text_puts(text, ",");
        add_task(text, choice, c, t);
    }
    fb_text_puts(text, "]}");
}

/* An index into the candidates, or null. */
static void add_index(fb_text *text, const char *key, int at)
{
    fb_text_printf(text, "\"%s\":", key);
    if (at < 0)
        fb_text_puts(text, "null,");
    else
        fb_text_printf(text, "%d,", at);
}

/* Lines as a list. */
static void add_lines(fb_text *text, const char *key, const char *lines)
{
    bool is_first = true;

    fb_text_printf(text, "\"%s\":[", key);
    for (size_t n; lines != NULL && *lines != '\0';
         lines += n + (lines[n] == '\n'), is_first = false) {
        n = strcspn(lines, "\n");
        fb_text_puts(text, is_first ? "" : ",");
        fb_json_add_bytes(text, lines, n);
    }
    fb_text_puts(text, "],");
}

static void add_words(fb_text *text, const fb_choice_words *words)
{
    if (words == NULL) return;
    fb_text_printf(text, "\"rules\":%d,\"not_tested\":%d,", words->n_rules,
                   words->n_untested);
    fb_export_string(text, "device", words->device);
    fb_export_string(text, "profile",
                     words->device == NULL ? NULL
                     : words->is_measured  ? "measured"
                                           : "given");
    fb_export_string(text, "kvpress", words->peer);
    add_lines(text, "kvpress_notes", words->peer_notes);
    fb_export_string(text, "next", words->next);
}

void fb_choice_print_json(fb_text *text, const fb_choice *choice,
                          const fb_choice_words *words)
{
    static const char *const scales[] = {[FB_SCALE_share] = "share",
                                         [FB_SCALE_lost] = "lost",
                                         [FB_SCALE_value] = "value",
                                         [FB_SCALE_place] = "place"};
    const fb_analysis *analysis = choice->analysis;

    fb_text_puts(text, "{\"format\":1,");
    fb_export_string(text, "signature", analysis->signature);
    fb_export_string(text, "class", analysis->results->class_name);
    fb_export_string(text, "class_reasons", analysis->results->class_reasons);
    fb_export_string(text, "digest", analysis->results->digest);
    fb_text_printf(text, "\"finished\":%s,",
                   fb_analysis_is_unfinished(analysis) ? "false" : "true");
    add_limits(text, &choice->limits);
    fb_export_string(text, "scale", scales[choice->scale]);
    add_index(text, "chosen", choice->chosen);
    add_index(text, "best", choice->best);
    add_index(text, "nearest", choice->chosen >= 0 ? -1 : choice->nearest);
    add_words(text, words);
    fb_text_puts(text, "\"candidates\":[");
    for (int i = 0; i < choice->n; i++) {
        if (i > 0) fb_text_puts(text, ",");
        add_candidate(text, choice, i);
    }
    fb_text_puts(text, "]}\n");
}
