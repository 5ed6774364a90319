/* rank.c - a budget divided among the rows of all layers by where the highest numbers are.
 *
 * The numbers are brought together on the host, since layers may be on several devices;
 * they are ordered by one top-k.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "rule/rule.h"

fb_status fb_numbers(fb_ops *ops, fb_tensor a, double *out, int64_t n)
{
    float *host;
    fb_status status;

    if (n < 0) return fb_fail(FB_DEFECT, "fb_numbers: %lld of them", (long long)n);
    host = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul((size_t)n, sizeof *host));
    if (host == NULL) return fb_fail(FB_NO_MEMORY, "no memory for numbers");
    status = fb_to_host(ops, a, host, (size_t)n * sizeof *host);
    for (int64_t i = 0; status == FB_OK && i < n; i++)
        out[i] = (double)host[i];
    fb_free(host);
    return status;
}

/* The rows of all layers, each without its best `first`. */
struct ranked {
    fb_ops *ops;
    const fb_spread_input *in;
    int64_t first;
    int64_t rows, columns; /* of a layer; columns that are left */
    float *number;         /* [n_layers, rows, columns], each row best first */
};

static fb_status add_layer(struct ranked *r, int64_t layer, fb_tensor x)
{
    const int64_t all = fb_size(r->ops, x, 1), rows = fb_size(r->ops, x, 0);
    const fb_tensor sorted = fb_gather(r->ops, x, fb_topk(r->ops, x, all));
    const fb_tensor rest = fb_narrow(r->ops, sorted, 1, r->first, all - r->first);

    FB_TRY(fb_ops_status(r->ops));
    if (layer == 0) {
        r->rows = rows;
        r->columns = all - r->first;
    }
    if (rows != r->rows || all - r->first != r->columns ||
        (rows != 1 && rows != r->in->kv_heads) || all > r->in->m - r->in->n_protected)
        return fb_fail(FB_DEFECT, "an allocation ranks %lld rows of %lld in layer %lld",
                       (long long)rows, (long long)all, (long long)layer);
    return fb_to_host(r->ops, rest, r->number + layer * rows * r->columns,
                      (size_t)(rows * r->columns) * sizeof *r->number);
}

static fb_status add_layers(struct ranked *r, fb_layer_rows *rows, const void *params)
{
    fb_status status = FB_OK;

    for (int64_t layer = 0; status == FB_OK && layer < r->in->n_layers; layer++) {
        fb_scope_open(r->ops);
        status = add_layer(r, layer, rows(r->ops, r->in, layer, params));
        fb_scope_close(r->ops);
    }
    return status;
}

/* Adds to k_out [n_layers * rows] how many of the highest numbers are each row's. */
static fb_status count(const struct ranked *r, int64_t *k_out)
{
    const int64_t n_rows = r->in->n_layers * r->rows, all = n_rows * r->columns;
    const int64_t each = r->in->k - r->in->n_protected - r->first;
    const int64_t n = fb_smaller(n_rows * each, all);
    const fb_tensor row =
        fb_from_host(r->ops, FB_F32, 2, (int64_t[]){1, all}, r->number);
    int64_t *place = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *place);
    fb_status status;

    if (place == NULL) return fb_fail(FB_NO_MEMORY, "no memory to share a budget");
    status =
        fb_to_host(r->ops, fb_topk(r->ops, row, n), place, (size_t)n * sizeof *place);
    for (int64_t i = 0; status == FB_OK && i < n; i++)
        k_out[place[i] / r->columns]++;
    fb_free(place);
    return status;
}

static fb_status rank(struct ranked *r, fb_layer_rows *rows, const void *params,
                      int64_t *k_out)
{
    const int64_t heads = r->in->kv_heads, n = r->in->n_layers * heads;

    FB_TRY(add_layers(r, rows, params));
    for (int64_t i = 0; i < n; i++)
        k_out[i] = r->in->n_protected + r->first;
    FB_TRY(count(r, k_out));
    if (r->rows == 1) /* from the end: a layer's number is read before it is replaced */
        for (int64_t i = n - 1; i >= 0; i--)
            k_out[i] = k_out[i / heads];
    return FB_OK;
}

fb_status fb_spread_by_rank(fb_ops *ops, const fb_spread_input *in, fb_layer_rows *rows,
                            const void *params, int64_t sure, int64_t *k_out)
{
    const int64_t most = in->n_layers * in->kv_heads * (in->m - in->n_protected);
    const int64_t left = in->k - in->n_protected;
    struct ranked r = {
        .ops = ops,
        .in = in,
        .first = fb_smaller(fb_larger(0, sure - in->n_protected), left),
        .number = fb_alloc(FB_ACCOUNT_scratch, (size_t)most * sizeof(float)),
    };
    fb_status status;

    if (r.number == NULL) return fb_fail(FB_NO_MEMORY, "no memory to share a budget");
    status = rank(&r, rows, params, k_out);
    fb_free(r.number);
    return status;
}
