/* everything.c - what the numbers came from: rules, bytes, settings, machine, digest.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "report/page.h"

#include <math.h>
#include <string.h>

static const char *kind_of(const fb_page *page, int rule)
{
    const fb_result_rule *r = &page->results->rules[rule];

    if (fb_page_is_full(page, rule)) return ""; /* what it keeps says it */
    if (!r->deployable) return "has seen the question or its answer";
    if (r->is_random) return "draws random numbers";
    return "";
}

/* Lines "name: what it keeps\tsource", the source small beneath. Where only one rule is at
 * work, its name stands in the first column already. */
static void about(const fb_page *page, const char *lines)
{
    const char *first = lines == NULL ? NULL : strchr(lines, '\n');

    if (lines != NULL && (first == NULL || first[1] == '\0')) {
        const char *what = strstr(lines, ": ");

        if (what != NULL) lines = what + 2;
    }
    while (lines != NULL && *lines != '\0') {
        const size_t what = strcspn(lines, "\t\n");
        const char *source = lines + what + (lines[what] == '\t');
        const size_t n = strcspn(source, "\n");

        fb_html_bytes(page->out, lines, what);
        fb_text_puts(page->out, "<br><span class=\"cap\">");
        fb_html_bytes(page->out, source, n);
        fb_text_puts(page->out, "</span>");
        lines = source + n + (source[n] == '\n');
        if (*lines != '\0') fb_text_puts(page->out, "<br>");
    }
}

static void rules(const fb_page *page)
{
    fb_text_puts(page->out, "<h3>Rules</h3>\n");
    fb_page_table_open(page, "rules", 0);
    fb_text_puts(
        page->out,
        "<thead><tr><th scope=\"col\">rule</th><th scope=\"col\" class=\"l\">"
        "expression, all parameters written out</th><th scope=\"col\" class=\"l\">"
        "what it keeps, and its source</th><th scope=\"col\" class=\"l\">"
        "signal family</th></tr></thead>"
        "<tbody>\n");
    for (int i = 0; i < page->results->n_rules; i++) {
        const int r = page->order[i];

        fb_text_puts(page->out, "<tr><th scope=\"row\" class=\"marked\">");
        fb_html_swatch(page, r);
        fb_text_puts(page->out, " ");
        fb_html_rule(page, r);
        fb_text_puts(page->out, "</th><td class=\"l w mono\">");
        fb_html_breakable(page->out, page->results->rules[r].expression);
        fb_text_puts(page->out, "</td><td class=\"l w\">");
        about(page, page->results->rules[r].about);
        fb_html(page->out,
                "</td><td class=\"l w\">%s<br><span class=\"cap\">%s</span></td>"
                "</tr>\n",
                page->results->rules[r].family, kind_of(page, r));
    }
    fb_text_puts(page->out, "</tbody>\n");
    fb_page_table_close(page, "rules", 0);
    fb_text_puts(
        page->out,
        "<p class=\"cap\">Of the query heads of a kv head the mean score counts, "
        "unless it says otherwise.</p>\n");
}

/* Cells that need a word: "3 fell back, 1 shrunk". */
static void marks(const fb_page *page, const fb_row *row)
{
    const struct {
        int n;
        const char *word;
    } all[] = {{row->n_fallback, "fell back"},
               {row->n_shrunk, "shrunk"},
               {row->n_without_choice, "without free choice"},
               {row->n_first_lost, "without the first token"},
               {row->n_beyond, "beyond the trained length"},
               {row->n_over, "over budget in decode"}};
    bool first = true;

    fb_text_puts(page->out, "<td class=\"l\">");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].n == 0) continue;
        fb_html(page->out, "%s%d %s", first ? "" : ", ", all[i].n, all[i].word);
        first = false;
    }
    fb_text_puts(page->out, "</td>");
}

static void bytes_row(const fb_page *page, const fb_table *table, const fb_row *row)
{
    fb_text_puts(page->out, "<tr><th scope=\"row\">");
    fb_html_rule(page, row->rule);
    fb_text_puts(page->out, "</th>");
    fb_page_kept_cell(page, table, row);
    fb_html_bytes_cell(page->out, row->kept_bytes);
    fb_html_bytes_cell(page->out, row->budget_bytes);
    fb_html_bytes_cell(page->out, row->full_bytes);
    fb_html_cell(page->out, 100 * row->filled, 1);
    fb_html_cell(page->out, 100 * row->extra_flops, 3);
    fb_html_cell(page->out, 100 * row->fused_flops, 3);
    fb_html_bytes_cell(page->out, row->step_bytes);
    marks(page, row);
    fb_text_puts(page->out, "</tr>\n");
}

static void bytes(const fb_page *page, int task)
{
    fb_page_table_open(page, "bytes", task);
    fb_html(
        page->out,
        "<caption><b>%s</b>: keys and values, mean per cell; extra operations as share "
        "of "
        "the context pass, fused: where a kernel keeps no attention; what the first "
        "token of an answer reads</caption><thead><tr><th scope=\"col\">rule</th>"
        "<th scope=\"col\">kept</th><th scope=\"col\">bytes kept</th>"
        "<th scope=\"col\">budget</th><th scope=\"col\">full cache</th>"
        "<th scope=\"col\">filled, %%</th><th scope=\"col\">extra operations, %%</th>"
        "<th scope=\"col\">fused, %%</th><th scope=\"col\">bytes a token</th>"
        "<th scope=\"col\" class=\"l\">cells marked</th></tr></thead>\n",
        page->results->tasks[task].name);
    for (int b = 0; b < page->results->n_budgets; b++) {
        const fb_table *table = fb_analysis_table(page->analysis, task, b);

        if (table == NULL) continue;
        fb_text_puts(page->out, "<tbody>\n");
        for (int i = 0; i < table->n_rows; i++)
            if (!fb_page_is_full(page, table->rows[i].rule))
                bytes_row(page, table, &table->rows[i]);
        fb_text_puts(page->out, "</tbody>\n");
    }
    fb_page_table_close(page, "bytes", task);
}

static void folded(const fb_page *page, const char *title, const char *text)
{
    if (text == NULL || *text == '\0') return;
    fb_html(page->out, "<details><summary>%s</summary><pre>%s</pre></details>\n", title,
            text);
}

static void notes(const fb_page *page)
{
    const fb_results *results = page->results;

    if (results->n_notes == 0) return;
    fb_html(page->out,
            "<details open><summary>Warnings and failures: %d</summary><ul>\n",
            results->n_notes);
    for (int i = 0; i < results->n_notes; i++)
        fb_html(page->out, "<li>%s</li>\n", results->notes[i]);
    fb_text_puts(page->out, "</ul></details>\n");
}

/* What begins a context, by the state that the facts name. */
static const char *bos_words(const char *state)
{
    static const struct {
        const char *state, *words;
    } all[] = {{"added", ", BOS in front of each context"},
               {"template", ", BOS written by the template"},
               {"off", ", <b>BOS switched off</b>"},
               {"none", ", no BOS"}};

    for (size_t i = 0; state != NULL && i < sizeof all / sizeof *all; i++)
        if (strcmp(state, all[i].state) == 0) return all[i].words;
    return ""; /* results of an older version */
}

static void model(const fb_page *page)
{
    const fb_store_model *m = &page->results->model;
    const char *title, *template;
    fb_json *facts = NULL;
    fb_text windows;

    if (m->facts == NULL || fb_json_parse(&facts, m->facts, strlen(m->facts)) != FB_OK)
        facts = NULL;
    title = fb_json_string(fb_json_get(facts, "title"));
    template = fb_json_string(fb_json_get(facts, "template"));
    fb_html(page->out, "<p class=\"cap\">Model %s", m->name);
    /* How its makers call it, in brackets. */
    if (title != NULL && *title != '\0') fb_html(page->out, " (%s)", title);
    fb_html(page->out, ": %s, %d %s, %d %s, %d kv %s of %d", m->architecture,
            (int)m->layers, fb_plural(m->layers, "layer", "layers"), (int)m->heads,
            fb_plural(m->heads, "head", "heads"), (int)m->kv_heads,
            fb_plural(m->kv_heads, "head", "heads"), (int)m->head_dim);
    if (template != NULL) fb_html(page->out, ", chat template %s", template);
    fb_text_puts(page->out, bos_words(fb_json_string(fb_json_get(facts, "bos"))));
    fb_html(page->out, ", SHA-256 <span class=\"sig\">%s</span>. Made by %s on %s.",
            m->sha256, page->results->program, page->results->created);
    fb_json_free(facts);
    fb_text_init(&windows, 1 << 10);
    if (fb_say_windows(&windows, m))
        fb_html(page->out, " %s.", fb_text_string(&windows));
    fb_text_clear(&windows);
    fb_text_puts(page->out, "</p>\n");
}

static void links(const fb_page *page)
{
    static const struct {
        const char *table, *words;
    } all[] = {{"means", "means"},
               {"differences", "differences"},
               {"samples", "samples"},
               {"bytes", "bytes"}};

    fb_text_puts(page->out, "<p class=\"cap noprint\">Tables:");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fb_html(page->out, "%s %s", i == 0 ? "" : " \xC2\xB7", all[i].words);
        for (int t = 0; t < page->results->n_tasks; t++)
            fb_html(page->out, "%s <a href=\"#e%d-t-%s-%d\">%s</a>", t == 0 ? "" : ",",
                    page->number, all[i].table, t, page->results->tasks[t].name);
    }
    fb_text_puts(page->out, "</p>\n");
}

/* A line of it may end behind each of its parts, not inside them. */
static void signature(fb_text *out, const char *parts)
{
    while (*parts != '\0') {
        const size_t n = strcspn(parts, "|");

        fb_html_bytes(out, parts, n + (parts[n] == '|'));
        fb_text_puts(out, parts[n] == '|' ? "<wbr>" : "");
        parts += n + (parts[n] == '|');
    }
}

void fb_page_everything(fb_page *page)
{
    const fb_results *results = page->results;

    fb_page_open(page, "all", "Everything");
    rules(page);
    notes(page);
    fb_text_puts(page->out, "<details><summary>Bytes and operations</summary>\n");
    for (int t = 0; t < results->n_tasks; t++)
        bytes(page, t);
    fb_text_puts(page->out, "</details>\n");
    folded(page, "Settings, every default written out", results->spec);
    folded(page, "Machine", results->host);
    folded(page, "Certificate", results->certificate);
    model(page);
    links(page);
    fb_text_puts(page->out, "<p class=\"cap\">");
    fb_html_prose(page->out, FB_CLASS_WORDS, strlen(FB_CLASS_WORDS));
    fb_text_puts(page->out, "</p>\n<p class=\"cap\">");
    fb_html_prose(page->out, FB_QUOTA_WORDS, strlen(FB_QUOTA_WORDS));
    fb_html(page->out, "</p>\n<p class=\"cap\">" FB_SIGNATURE_WORDS "</p>\n");
    fb_text_puts(page->out, "<p class=\"sig\">");
    signature(page->out, page->analysis->signature);
    fb_html(page->out, "<br>digest of all cells %s<br>settings %s</p>\n",
            results->digest, results->spec_sha256);
    fb_page_close(page);
}
