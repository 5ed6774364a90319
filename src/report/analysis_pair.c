/* analysis_pair.c - two rows side by side, as tables compare their own: paired by sample,
 * documents drawn and flipped whole, by the draws of all tables.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis_parts.h"

#include <math.h>
#include <stdlib.h>

typedef struct common {
    double *d;     /* [n], differences */
    int *document; /* [n], 0 to n_documents - 1 */
    int *renamed;  /* [n_documents of the first table], -1: not met yet */
    int n, n_documents;
} common;

static int by_number(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* The place of a sample in a table, whose samples ascend; -1: it has been left out. */
static int place_of(const fb_table *table, int sample)
{
    const int *found = bsearch(&sample, table->samples, (size_t)table->n_samples,
                               sizeof sample, by_number);

    return found == NULL ? -1 : (int)(found - table->samples);
}

static void add_sample(common *c, const fb_table *table, int at, double difference)
{
    int *renamed = &c->renamed[table->documents[at]];

    if (*renamed < 0) *renamed = c->n_documents++;
    c->document[c->n] = *renamed;
    c->d[c->n++] = difference;
}

static void subtract(common *c, const fb_table *first, const fb_row *row,
                     const fb_table *second, const fb_row *other)
{
    const double *x = first->values + (row - first->rows) * (ptrdiff_t)first->n_samples;
    const double *y =
        second->values + (other - second->rows) * (ptrdiff_t)second->n_samples;

    for (int i = 0; i < first->n_documents; i++)
        c->renamed[i] = -1;
    for (int s = 0; s < first->n_samples; s++) {
        const int at = place_of(second, first->samples[s]);

        if (at >= 0) add_sample(c, first, s, x[s] - y[at]);
    }
}

static fb_status test(fb_pair *out, const common *c, const fb_analysis_options *o)
{
    out->n_samples = c->n;
    out->n_documents = c->n_documents;
    if (c->n == 0) return FB_OK;
    out->difference = fb_mean_of(c->d, c->n);
    FB_TRY(fb_bootstrap_mean(&out->interval, c->d, c->document, c->n, c->n_documents,
                             o->confidence, o->replicates, o->seed));
    return fb_sign_flip(&out->p, c->d, c->document, c->n, c->n_documents, o->draws,
                        o->seed);
}

fb_status fb_analysis_pair(fb_pair *out, const fb_analysis *analysis,
                           const fb_table *first, const fb_row *row,
                           const fb_table *second, const fb_row *other)
{
    const size_t n = (size_t)first->n_samples;
    common c = {.d = fb_alloc(FB_ACCOUNT_other, (n + 1) * sizeof *c.d),
                .document = fb_alloc(FB_ACCOUNT_other, (n + 1) * sizeof(int)),
                .renamed = fb_alloc(FB_ACCOUNT_other, (n + 1) * sizeof(int))};
    fb_status status = FB_OK;

    *out = (fb_pair){.difference = (double)NAN,
                     .interval = {(double)NAN, (double)NAN},
                     .p = (double)NAN};
    if (c.d == NULL || c.document == NULL || c.renamed == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory to compare two rules");
    else
        subtract(&c, first, row, second, other);
    if (status == FB_OK) status = test(out, &c, &analysis->options);
    fb_free(c.d);
    fb_free(c.document);
    fb_free(c.renamed);
    return status;
}
