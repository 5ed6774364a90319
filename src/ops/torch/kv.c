/* kv.c - keys and values of caches: one tensor of exactly their bytes.
 *
 * Rows of head_dim numbers: the keys of a slot, then its values, slot by slot.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/gather.h"

#include "base/number.h"

static fb_torch_handle rows_from(fb_torch *torch, const fb_kv *kv, int64_t first)
{
    return fb_torch_rows(torch, kv, first, 2 * kv->first[kv->n_slots]);
}

/* Places of rows, on the device; `rows` is freed. */
static fb_torch_handle places(fb_torch *torch, int64_t *rows, int64_t n)
{
    const int32_t i64 = torch->lib->aoti_torch_dtype_int64();
    fb_torch_handle table = NULL;

    if (rows == NULL)
        torch->status = fb_fail(FB_NO_MEMORY, "no memory for places in a cache");
    else
        table = fb_torch_upload(torch, i64, 1, &n, rows);
    fb_free(rows);
    return table;
}

static int64_t *new_rows(int64_t n)
{
    return fb_alloc(FB_ACCOUNT_scratch, fb_size_mul((size_t)n, sizeof(int64_t)));
}

/* --- what does not fit the type ---
 * Looking at every number would make the host wait at every layer. The largest of those
 * rounded since the last look stays on the device, and is looked at where the host waits
 * anyway. NaN stays the largest. */

static void note_range(fb_torch *torch, fb_torch_handle x, fb_dtype dtype)
{
    const fb_torch_handle flat =
        OP_("reshape", "", T_(OP_("abs", "", T_(x))), INTS_(-1));
    fb_torch_handle most = OP_("amax", "", T_(flat), INTS_(0), B_(false)), own = NULL;

    torch->too_large = dtype == FB_F16 ? 65520 : 3.3961775292304957e38;
    if (torch->largest != NULL)
        most = OP_("maximum", "", T_(most),
                   T_(fb_torch_here(torch, torch->largest,
                                    torch->lib->aoti_torch_dtype_float32())));
    if (torch->status != FB_OK) return;
    if (torch->lib->aoti_torch_new_tensor_handle(most, &own) != 0) {
        (void)fb_torch_failed(torch, "new_tensor_handle");
        return;
    }
    if (torch->largest != NULL)
        (void)torch->lib->aoti_torch_delete_tensor_object(torch->largest);
    torch->largest = own;
}

void fb_torch_check_range(fb_torch *torch)
{
    float most = 0;

    if (torch->largest == NULL || torch->status != FB_OK) return;
    fb_torch_download(torch, torch->largest, torch->lib->aoti_torch_dtype_float32(),
                      &most, sizeof most);
    (void)torch->lib->aoti_torch_delete_tensor_object(torch->largest);
    torch->largest = NULL;
    if (torch->status == FB_OK && !((double)most < torch->too_large))
        torch->status = fb_fail(FB_UNSUPPORTED,
                                "a key or value of %g is not a number of the cache's "
                                "type; choose another with --cache",
                                (double)most);
}

/* --- writing --- */

/* Where head g of sequence v goes: the row of its first key. */
static int64_t row_of(const fb_call *call, int64_t v, int64_t g)
{
    return 2 * call->to->first[call->slot[v * call->kv_heads + g]] + call->at[v];
}

static int64_t lowest_row(const fb_call *call)
{
    int64_t lowest = row_of(call, 0, 0);

    for (int64_t i = 0; i < call->n_sequences * call->kv_heads; i++)
        lowest =
            fb_smaller(lowest, row_of(call, i / call->kv_heads, i % call->kv_heads));
    return lowest;
}

/* For each token and each of its 2 G rows, how far behind `lowest` it goes: the same in
 * every layer, and in every step in which all sequences go on by one. */
static fb_torch_handle write_places(fb_torch *torch, const fb_call *call, int64_t t,
                                    int64_t lowest)
{
    const int64_t heads = call->kv_heads, n = call->n_sequences * t * 2 * heads;
    int64_t *rows = new_rows(n), *to = rows;
    fb_torch_handle table;

    if (rows == NULL) {
        torch->status = fb_fail(FB_NO_MEMORY, "no memory for places in a cache");
        return NULL;
    }
    for (int64_t v = 0; v < call->n_sequences; v++)
        for (int64_t i = 0; i < t; i++)
            for (int64_t r = 0; r < 2 * heads; r++) {
                const int64_t slot = call->slot[v * heads + r % heads];

                *to++ = row_of(call, v, r % heads) - lowest + i +
                        (r < heads ? 0 : fb_kv_capacity(call->to, slot));
            }
    table = fb_torch_numbers(torch, rows, n);
    fb_free(rows);
    return table;
}

fb_status fb_torch_kv_write(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->to->array);
    const int64_t rows = call->in[0].shape[0], d = call->head_dim;
    const int64_t n = 2 * call->kv_heads * d;
    const fb_dtype dtype = call->to->array.dtype;
    const int64_t lowest = lowest_row(call);
    fb_torch_handle x = fb_torch_of(torch, &call->in[0]);

    x = NARROW_(x, 1, call->heads * d, n);
    x = OP_("reshape", "", T_(x), INTS_(rows * 2 * call->kv_heads, d));
    if (dtype != FB_F32) note_range(torch, x, dtype);
    x = fb_torch_cast(torch, x, fb_torch_dtype(torch, dtype));
    (void)OP_("index_copy_", "", T_(rows_from(torch, call->to, lowest)), I_(0),
              T_(write_places(torch, call, rows / call->n_sequences, lowest)), T_(x));
    return fb_torch_done(torch);
}

/* --- moving --- */

fb_status fb_torch_kv_copy(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->from->array);
    const int64_t n = call->in[0].shape[0];
    const int64_t first = 2 * call->to->first[call->to_slot];
    const int64_t keys = 2 * call->from->first[call->from_slot];
    const int64_t values = keys + fb_kv_capacity(call->from, call->from_slot);
    int64_t *rows = new_rows(2 * n);
    fb_torch_handle picked, to;

    for (int64_t j = 0; rows != NULL && j < n; j++) {
        rows[j] = keys + call->ids[j];
        rows[n + j] = values + call->ids[j];
    }
    picked = OP_("index_select", "", T_(rows_from(torch, call->from, 0)), I_(0),
                 T_(places(torch, rows, 2 * n)));
    to = rows_from(torch, call->to, 0);
    fb_torch_copy(torch, NARROW_(to, 0, first, n), NARROW_(picked, 0, 0, n));
    fb_torch_copy(torch,
                  NARROW_(to, 0, first + fb_kv_capacity(call->to, call->to_slot), n),
                  NARROW_(picked, 0, n, n));
    return fb_torch_done(torch);
}

/* Pairs of one head of the keys of the first n entries; in f32, written back rounded. */
fb_status fb_torch_kv_turn(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->to->array);
    const int64_t n = call->in[0].shape[0], r = call->in[0].shape[1];
    const fb_torch_handle rows = rows_from(torch, call->to, 0);
    const fb_torch_handle slot =
        NARROW_(rows, 0, 2 * call->to->first[call->to_slot], n);
    const fb_torch_handle keys =
        OP_("to", "dtype", T_(slot), E_(torch->lib->aoti_torch_dtype_float32()),
            B_(false), B_(true), NONE_);
    const fb_torch_handle c = SHAPED_(&call->in[0], n, r),
                          s = SHAPED_(&call->in[1], n, r);

    fb_torch_turn(torch, NARROW_(keys, 1, 0, r), NARROW_(keys, 1, r, r), c, s);
    if (call->to->array.dtype != FB_F32 && n > 0)
        note_range(torch, keys, call->to->array.dtype);
    fb_torch_copy(torch, slot, keys);
    return fb_torch_done(torch);
}

/* --- reading --- */

fb_status fb_torch_kv_read(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->from->array);
    const int64_t n_slots = call->out.shape[0], m = call->out.shape[1];
    const fb_torch_handle rows = rows_from(torch, call->from, 0);
    const int32_t f32 = torch->lib->aoti_torch_dtype_float32();
    const fb_torch_handle out = fb_torch_new(torch, f32, 3, call->out.shape);

    for (int64_t i = 0; torch->status == FB_OK && i < n_slots; i++) {
        const int64_t slot = call->from_slot + i;
        const int64_t skip = call->values ? fb_kv_capacity(call->from, slot) : 0;

        fb_torch_copy(torch, OP_("select", "int", T_(out), I_(0), I_(i)),
                      NARROW_(rows, 0, 2 * call->from->first[slot] + skip, m));
    }
    return fb_torch_return(torch, call, out);
}
