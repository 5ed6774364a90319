/* look.c - one hue per signal family; shape and dash tell its rules apart.
 *
 * The order inside a family is that of the experiment, so a rule looks the same in
 * every figure of a page. Four shapes and four dashes go round together, and against
 * each other after every fourth rule: sixteen looks before one comes again.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/page.h"

#include <string.h>

struct family {
    const char *name, *color;
};

static const struct family families[] = {
    {"attention", "attn"}, {"key", "key"},   {"value", "val"},
    {"position", "pos"},   {"mixed", "mix"}, {"random", "rand"},
    {"reference", "ref"},
};
enum { N_FAMILIES = (int)(sizeof families / sizeof *families) };

static const char *color_of(const char *family)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (family != NULL && strcmp(family, families[i].name) == 0)
            return families[i].color;
    return "mix"; /* loaded rules with a family of their own */
}

fb_look fb_rule_look(const fb_results *results, int rule)
{
    static const char *const shapes[] = {"circle", "square", "triangle-up", "diamond"};
    static const char *const dashes[] = {"1 0", "6 3", "2 2", "5 3"};
    const char *color = color_of(results->rules[rule].family);
    int place = 0;

    if (strcmp(color, "ref") == 0) {
        place = results->rules[rule].deployable ? 0 : 3;
        return (fb_look){color, shapes[place], dashes[place]};
    }
    for (int r = 0; r < rule; r++)
        place += strcmp(color_of(results->rules[r].family), color) == 0;
    return (fb_look){color, shapes[place % 4], dashes[(place + place / 4) % 4]};
}

static void open_color(const fb_page *page, int rule)
{
    fb_html(page->out, "<span style=\"color:var(--%s)\">",
            fb_rule_look(page->results, rule).color);
}

void fb_html_rule(const fb_page *page, int rule)
{
    open_color(page, rule);
    fb_html_breakable(page->out, page->results->rules[rule].label);
    fb_text_puts(page->out, "</span>");
}

void fb_html_rule_word(const fb_page *page, int rule)
{
    open_color(page, rule);
    fb_html_text(page->out, page->results->rules[rule].label);
    fb_text_puts(page->out, "</span>");
}

static const char *shape_path(const char *shape)
{
    switch (*shape) {
    case 's':
        return "M8 3h6v6H8z";
    case 't':
        return "M11 2l4 7H7z";
    case 'd':
        return "M11 1l4 5-4 5-4-5z";
    default:
        return "M7.6 6a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0";
    }
}

void fb_html_swatch(const fb_page *page, int rule)
{
    const fb_look look = fb_rule_look(page->results, rule);

    fb_html(page->out,
            "<svg class=\"sw\" width=\"22\" height=\"12\" aria-hidden=\"true\" "
            "fill=\"var(--%s)\" stroke=\"var(--%s)\"><path d=\"M0 6h22\" "
            "stroke-width=\"2\" stroke-dasharray=\"%s\"/><path d=\"%s\"/></svg>",
            look.color, look.color, look.dash, shape_path(look.shape));
}

void fb_html_budget(fb_text *out, const fb_store_budget *budget)
{
    fb_text words = {0};

    fb_say_budget(&words, budget);
    fb_html_prose(out, fb_text_string(&words), words.n);
    out->failed |= words.failed;
    fb_text_clear(&words);
}

void fb_html_confidence(const fb_page *page)
{
    fb_html_number(page->out, 100 * page->analysis->confidence, 0);
    fb_text_puts(page->out, "\xC2\xA0%");
}

const char *fb_metric_words(const char *metric)
{
    if (strcmp(metric, "kl") == 0) return "KL to the full cache";
    if (strcmp(metric, "nll") == 0) return "NLL of the expected text";
    return fb_say_metric(metric);
}

void fb_html_measure(fb_text *out, const fb_result_task *task)
{
    fb_html(out, "%s%s%s", fb_metric_words(task->metric),
            *task->unit == '\0' ? "" : ", ", task->unit);
}

const char *fb_verdict_words(fb_verdict verdict)
{
    switch (verdict) {
    case FB_VERDICT_better:
        return "better";
    case FB_VERDICT_worse:
        return "worse";
    case FB_VERDICT_open:
        return "not distinguishable";
    default:
        return "not tested";
    }
}
