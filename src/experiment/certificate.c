/* certificate.c - what the cells show, and the class that follows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/certificate.h"
#include "experiment/certificate_parts.h"
#include "spec/spec.h"

#include <string.h>

/* --- traces --- */

/* An empty part did not run; among those that did, all must be equal. */
static bool agree(const char **seen, const char *hash)
{
    if (hash == NULL || hash[0] == '\0') return true;
    if (*seen == NULL) *seen = hash;
    return strcmp(*seen, hash) == 0;
}

fb_sample_trace fb_certificate_trace(const fb_results *r, int first)
{
    fb_sample_trace t = {.same_trace = true, .same_cache = true, .end = first};

    for (; t.end < r->n_cells && r->cells[t.end].sample == r->cells[first].sample;
         t.end++) {
        const fb_result_cell *cell = &r->cells[t.end];

        if (!fb_result_is_done(cell)) continue;
        t.same_trace &= agree(&t.context, cell->trace_context);
        t.same_trace &= agree(&t.answer, cell->trace_answer);
        t.same_trace &= agree(&t.decode, cell->trace_decode);
        t.same_cache &= agree(&t.cache, cell->cache_sha256);
    }
    return t;
}

/* --- budgets --- */

static void keep_larger(int64_t *so_far, int64_t value)
{
    if (value > *so_far) *so_far = value;
}

static void add_use(fb_most_used *m, const fb_result_cell *cell)
{
    const double entries = (double)cell->kept_entries / (double)cell->budget_entries;
    const double bytes = (double)cell->kept_bytes / (double)cell->budget_bytes;

    if (entries > m->entries) m->entries = entries;
    if (bytes > m->bytes) m->bytes = bytes;
    keep_larger(&m->kept_entries, cell->kept_entries);
    keep_larger(&m->kept_bytes, cell->kept_bytes);
    keep_larger(&m->peak_bytes, cell->peak_bytes);
}

fb_most_used fb_certificate_most(const fb_results *r, int budget)
{
    fb_most_used m = {0};

    for (int i = 0; i < r->n_cells; i++)
        if (r->cells[i].budget == budget && fb_result_is_done(&r->cells[i]))
            add_use(&m, &r->cells[i]);
    return m;
}

/* --- the class --- */

const char *fb_certificate_class(const fb_certificate *certificate)
{
    return certificate->is_closed ? "closed" : "open";
}

static fb_status judge(fb_certificate *out, const fb_results *results)
{
    fb_evidence evidence = {results, NULL, out->same_trace, out->same_cache,
                            out->highest_use};
    fb_spec spec;
    fb_status status = fb_spec_init(&spec);

    if (status == FB_OK)
        status =
            fb_spec_parse(&spec, "specification", results->spec, strlen(results->spec));
    if (status == FB_OK) {
        evidence.settings = &spec.values;
        out->is_closed = fb_rulebook_judge(&evidence, &out->reasons, out->holds);
        status = fb_text_status(&out->reasons);
    }
    fb_spec_clear(&spec);
    return status;
}

fb_status fb_certificate_judge(fb_certificate *out, const fb_results *results)
{
    *out = (fb_certificate){.same_trace = true, .same_cache = true};
    for (int i = 0; i < results->n_cells;) {
        const fb_sample_trace t = fb_certificate_trace(results, i);

        out->same_trace &= t.same_trace;
        out->same_cache &= t.same_cache;
        i = t.end;
    }
    for (int b = 0; b < results->n_budgets; b++) {
        const fb_most_used m = fb_certificate_most(results, b);

        if (m.bytes > out->highest_use) out->highest_use = m.bytes;
    }
    return judge(out, results);
}

void fb_certificate_clear(fb_certificate *certificate)
{
    fb_text_clear(&certificate->reasons);
    fb_text_clear(&certificate->body);
}
