/* trust.c - what is proven: the conditions of the closed class, what was verified, how to
 * check it oneself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "report/page.h"
#include "store/conditions.h"

#include <string.h>

static const struct {
    const char *name, *sentence;
} conditions[] = {
#define ROW(name, sentence) {#name, sentence},
    FB_CONDITION_LIST(ROW)
#undef ROW
};

/* Words first: the sign alone is no answer. */
static void condition(const fb_page *page, const fb_json *held, const char *name,
                      const char *sentence)
{
    bool holds = false;

    if (!fb_json_bool(fb_json_get(held, name), &holds)) return;
    fb_html(page->out,
            "<tr><th scope=\"row\">%s</th><td class=\"l w\">%s</td>"
            "<td class=\"l\">%s</td></tr>\n",
            name, sentence,
            holds ? "holds \xE2\x9C\x93" : "does not hold \xE2\x9C\x97");
}

static void all_conditions(const fb_page *page, const fb_json *held)
{
    fb_page_table_open(page, "trust", 0);
    fb_text_puts(page->out,
                 "<thead><tr><th scope=\"col\">condition</th><th scope=\"col\" "
                 "class=\"l\">of the closed class</th><th scope=\"col\" class=\"l\">"
                 "here</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
        condition(page, held, conditions[i].name, conditions[i].sentence);
    fb_text_puts(page->out, "</tbody>\n");
    fb_page_table_close(page, "trust", 0);
}

/* "25%" as the budget is written everywhere else on the page. */
static void name_of(const fb_page *page, const char *asked)
{
    for (int b = 0; b < page->results->n_budgets; b++)
        if (strcmp(page->results->budgets[b].asked, asked) == 0) {
            fb_html_budget(page->out, &page->results->budgets[b]);
            return;
        }
    fb_html_text(page->out, asked);
}

/* The highest use that any cell made of each budget. */
static void budgets(const fb_page *page, const fb_json *used)
{
    bool is_first = true;

    fb_text_puts(page->out, "<p class=\"cap\">Highest use of a budget by any cell:");
    for (void *m = fb_json_first(used); m != NULL; m = fb_json_next(used, m)) {
        double bytes;

        if (!fb_json_real(fb_json_get(fb_json_value(m), "bytes_used"), &bytes))
            continue;
        fb_text_puts(page->out, is_first ? " " : ", ");
        fb_say_number(page->out, 100 * bytes, bytes == 1 ? 0 : 2);
        fb_text_puts(page->out, "\xC2\xA0% at ");
        name_of(page, fb_json_key(m));
        is_first = false;
    }
    fb_text_puts(page->out, ".</p>\n");
}

static void verdict(const fb_page *page)
{
    const fb_results *r = page->results;
    fb_text words = {0};

    (void)fb_say_verified(&words, r);
    fb_html(page->out, "<p>Class <b>%s</b>%s%s; %s", r->class_name,
            r->class_reasons[0] == '\0' ? "" : ": ", r->class_reasons,
            fb_text_string(&words));
    fb_text_clear(&words);
    if (r->verified != NULL) {
        fb_text_puts(page->out, " (on ");
        fb_html_date(page->out, r->verified);
        fb_text_puts(page->out, ")");
    }
    fb_html(
        page->out,
        ". To check it, with the results file at hand: <span class=\"mono\">flexbudget "
        "verify RESULTS</span>. Certificate <span class=\"sig\">%s</span></p>\n",
        r->certificate_sha256 == NULL ? "" : r->certificate_sha256);
}

void fb_page_trust(fb_page *page)
{
    const char *text = page->results->certificate;
    fb_json *body = NULL;

    if (text == NULL || fb_json_parse(&body, text, strlen(text)) != FB_OK) return;
    if (fb_json_is_object(fb_json_get(body, "conditions"))) {
        fb_page_open(page, "trust", "What is proven");
        verdict(page);
        all_conditions(page, fb_json_get(body, "conditions"));
        budgets(page, fb_json_get(body, "budget"));
        fb_page_close(page);
    }
    fb_json_free(body);
}
