/* model.c - the operators of a model, and its weights.
 *
 * Weights are kept in the precision of the experiment; what runs between them is f32.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/torch.h"

#include "base/number.h"

#include <stdatomic.h>

/* Rows of a batch that are multiplied at once. The products of a library may differ in
 * their last bits with the number of rows; in blocks of one size a row gives the same
 * bits whatever else is in the batch. */
enum { BLOCK_ROWS = 32 };

/* Bytes of a weight that are unpacked on the host at a time. */
enum { UNPACK_BYTES = 16 << 20 };

static int32_t f32(const fb_torch *torch)
{
    return torch->lib->aoti_torch_dtype_float32();
}

/* --- weights --- */

struct unpacking {
    const fb_weight_source *source;
    int64_t first;
    float *out;
    atomic_bool has_failed;
};

static void unpack_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct unpacking *u = context;

    (void)thread;
    if (begin < end &&
        u->source->unpack(u->source->context, u->first + begin, u->first + end,
                          u->out + begin * u->source->columns) != FB_OK)
        atomic_store(&u->has_failed, true);
}

/* Rows [first, first + n) by way of `room` on the host. */
static void fill(fb_torch *torch, const fb_weight_source *source, fb_torch_handle to,
                 int64_t first, int64_t n, float *room)
{
    struct unpacking u = {source, first, room, false};

    fb_parallel(torch->threads, n, unpack_rows, &u);
    if (atomic_load(&u.has_failed)) /* again here: a sentence belongs to its thread */
        torch->status = source->unpack(source->context, first, first + n, room);
    if (torch->status == FB_OK)
        fb_torch_copy(torch, NARROW_(to, 0, first, n),
                      fb_torch_upload(torch, f32(torch), 2,
                                      (const int64_t[]){n, source->columns}, room));
}

static fb_status fill_all(fb_torch *torch, const fb_weight_source *source,
                          fb_torch_handle to, float *room, int64_t most)
{
    fb_status status = FB_OK;

    for (int64_t first = 0; status == FB_OK && first < source->rows; first += most) {
        fb_torch_begin(torch, torch->part_device);
        fill(torch, source, to, first, fb_smaller(most, source->rows - first), room);
        status = fb_torch_done(torch);
    }
    return status;
}

fb_status fb_torch_weight_new(void *self, fb_array *weight,
                              const fb_weight_source *source)
{
    fb_torch *torch = self;
    const size_t row = (size_t)source->columns * sizeof(float);
    const int64_t most =
        fb_larger(1, fb_smaller(source->rows, (int64_t)(UNPACK_BYTES / (row + 1))));
    float *room = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul((size_t)most, row));
    fb_array array = *weight;
    fb_torch_storage *storage;
    fb_status status;

    if (room == NULL) return fb_fail(FB_NO_MEMORY, "no memory to unpack a weight");
    array.dtype = torch->precision;
    status = fb_backend_torch.alloc(self, FB_ACCOUNT_weights, &array);
    if (status == FB_OK) {
        weight->storage = array.storage;
        storage = (fb_torch_storage *)(void *)array.storage;
        status = fill_all(torch, source, storage->tensor, room, most);
        if (status != FB_OK) fb_backend_torch.free(self, &array);
    }
    fb_free(room);
    return status;
}

fb_status fb_torch_embedding(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_storage *weight = (const void *)call->in[0].storage;
    const int32_t i64 = torch->lib->aoti_torch_dtype_int64();
    const int64_t n = call->out.shape[0];
    int64_t *ids = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul((size_t)n, sizeof *ids));
    fb_torch_handle index, rows;

    if (ids == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a lookup");
    for (int64_t i = 0; i < n; i++)
        ids[i] = call->ids[i];
    index = fb_torch_upload(torch, i64, 1, &n, ids);
    fb_free(ids);
    rows = OP_("embedding", "", T_(weight->tensor), T_(index), I_(-1), B_(false),
               B_(false));
    return fb_torch_return(torch, call, fb_torch_cast(torch, rows, f32(torch)));
}

/* x [R, K] in blocks of BLOCK_ROWS, the last one filled up with zeros: a product of a
 * fixed size for each block. */
static fb_torch_handle in_blocks(fb_torch *torch, fb_torch_handle x, int64_t rows,
                                 int64_t k, fb_torch_handle weight, int64_t n)
{
    const int64_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int64_t missing = blocks * BLOCK_ROWS - rows;
    fb_torch_handle w = OP_("transpose", "int", T_(weight), I_(0), I_(1)), y;

    if (missing > 0)
        x = fb_torch_join(torch, x,
                          fb_torch_filled(torch, torch->weight_dtype, 2,
                                          (const int64_t[]){missing, k}, 0),
                          0);
    x = OP_("reshape", "", T_(x), INTS_(blocks, BLOCK_ROWS, k));
    w = OP_("expand", "", T_(w), INTS_(blocks, k, n), B_(false));
    y = OP_("bmm", "", T_(x), T_(w));
    y = OP_("reshape", "", T_(y), INTS_(blocks * BLOCK_ROWS, n));
    return NARROW_(y, 0, 0, rows);
}

fb_status fb_torch_linear(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[1]);
    const fb_torch_storage *weight = (const void *)call->in[1].storage;
    const int64_t rows = call->out.shape[0], n = call->out.shape[1];
    fb_torch_handle x = fb_torch_of(torch, &call->in[0]), y;

    x = fb_torch_cast(torch, x, torch->weight_dtype);
    if (call->is_batch && !torch->any_shape && rows > 0)
        y = in_blocks(torch, x, rows, call->in[0].shape[1], weight->tensor, n);
    else
        y = OP_("linear", "", T_(x), T_(weight->tensor), NONE_);
    return fb_torch_return(torch, call, fb_torch_cast(torch, y, f32(torch)));
}

/* --- norms --- */

static fb_torch_handle normed(fb_torch *torch, fb_torch_handle x,
                              const fb_array *weight, double eps)
{
    const fb_torch_handle w = fb_torch_of(torch, weight);

    return OP_("rms_norm", "", T_(x), INTS_(weight->shape[0]),
               fb_torch_some(torch, T_(w)), fb_torch_some(torch, fb_torch_double(eps)));
}

fb_status fb_torch_rms_norm(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[1]);

    return fb_torch_return(
        torch, call,
        normed(torch, fb_torch_of(torch, &call->in[0]), &call->in[1], call->alpha));
}

/* Columns [from, from + n*d) of x [R, W], as heads [R, n, width] that begin d apart. */
static fb_torch_handle heads_of(fb_torch *torch, const fb_array *x, int64_t from,
                                int64_t n, int64_t d, int64_t width)
{
    const fb_torch_storage *storage = (const void *)x->storage;

    return fb_torch_view(torch, storage->tensor, 3,
                         (const int64_t[]){x->shape[0], n, width},
                         (const int64_t[]){x->shape[1], d, 1}, x->offset + from);
}

/* In place: where x lies. */
fb_status fb_torch_head_norm_(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->out);
    const int64_t d = call->head_dim;
    const fb_torch_handle x =
        heads_of(torch, &call->out, call->start * d, call->heads, d, d);

    fb_torch_copy(torch, x, normed(torch, x, &call->in[1], call->alpha));
    return fb_torch_done(torch);
}

/* --- gates ---
 * On a CPU PyTorch computes elements in vectors, and what is left over at the end of a row,
 * or of a thread's share of more than SERIAL elements, one by one with other functions: the
 * last bits of an element depend on where it stands. So in a batch it gets rows that do not
 * join, and few enough of them for one thread: then a row has its bits in any batch. */

enum { SERIAL = 32768 };

static fb_torch_handle half(fb_torch *torch, const fb_call *call, int which)
{
    const int64_t n = call->out.shape[1];
    const fb_torch_handle x = fb_torch_of(torch, &call->in[0]);

    return NARROW_(x, 1, which * n, n);
}

/* Room for rows with a gap behind each. */
static fb_torch_handle apart(fb_torch *torch, const fb_call *call)
{
    const int64_t rows = call->out.shape[0], n = call->out.shape[1];

    return NARROW_(fb_torch_new(torch, f32(torch), 2, (const int64_t[]){rows, n + 1}),
                   1, 0, n);
}

/* Rows [0, rows) of x, which do not join, through `name`. */
static fb_torch_handle through(fb_torch *torch, const fb_call *call, const char *name,
                               fb_torch_handle x)
{
    const int64_t rows = call->out.shape[0];
    const int64_t most = fb_larger(1, SERIAL / fb_larger(1, call->out.shape[1]));
    fb_torch_handle out;

    if (!call->is_batch || torch->any_shape || rows <= most ||
        torch->devices[torch->at].type != torch->lib->aoti_torch_device_type_cpu())
        return fb_torch_call(torch, name, "", 1, (fb_torch_value[]){T_(x)});
    out = fb_torch_new(torch, f32(torch), 2, call->out.shape);
    for (int64_t first = 0; torch->status == FB_OK && first < rows; first += most) {
        const int64_t n = fb_smaller(most, rows - first);

        fb_torch_copy(torch, NARROW_(out, 0, first, n),
                      fb_torch_call(torch, name, "", 1,
                                    (fb_torch_value[]){T_(NARROW_(x, 0, first, n))}));
    }
    return out;
}

fb_status fb_torch_swiglu(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle gate =
        through(torch, call, "aten::silu", half(torch, call, 0));
    const fb_torch_handle up = half(torch, call, 1);

    return fb_torch_return(torch, call, OP_("mul", "Tensor", T_(gate), T_(up)));
}

/* (1 + tanh(u)) / 2 = sigmoid(2 u), and 2 u = x (a + b x^2) with a = 2 sqrt(2 / pi),
 * b = 0.044715 a. (gelu takes a string, which leaks before PyTorch 2.14.) */
fb_status fb_torch_geglu(void *self, const fb_call *call)
{
    static const double a = 1.5957691216057308, b = 0.07135481627260025;
    fb_torch *torch = fb_torch_begin_at(self, &call->in[0]);
    const fb_torch_handle x = half(torch, call, 0), up = half(torch, call, 1);
    const fb_torch_handle room = apart(torch, call);
    fb_torch_handle u = OP_("mul", "Tensor", T_(x), T_(x));

    u = OP_("mul", "Tensor", T_(u), T_(fb_torch_number(torch, b)));
    u = fb_torch_plus(torch, u, fb_torch_number(torch, a), 1);
    fb_torch_copy(torch, room, OP_("mul", "Tensor", T_(u), T_(x)));
    u = through(torch, call, "aten::sigmoid", room);
    u = OP_("mul", "Tensor", T_(u), T_(x));
    return fb_torch_return(torch, call, OP_("mul", "Tensor", T_(u), T_(up)));
}

/* --- the rest --- */

/* A temporary that is all of its tensor becomes the sum, where the other lies: so what
 * runs through the layers goes from device to device with them. */
static bool is_whole(fb_torch *torch, const fb_array *a)
{
    const fb_torch_storage *storage = (const void *)a->storage;
    int64_t n = 0;

    if (a->persists || torch->lib->aoti_torch_get_numel(storage->tensor, &n) != 0)
        return false;
    return n == fb_array_elements(a);
}

fb_status fb_torch_add_(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->out);
    fb_torch_storage *storage = (fb_torch_storage *)(void *)call->out.storage;
    const bool moves = is_whole(torch, &call->out);
    fb_torch_handle a, sum, old = storage->tensor;

    if (moves) (void)fb_torch_begin_at(torch, &call->in[1]);
    a = fb_torch_of(torch, &call->out);
    sum = fb_torch_plus(torch, a, fb_torch_of(torch, &call->in[1]), 1);
    if (!moves) {
        fb_torch_copy(torch, a, sum);
        return fb_torch_done(torch);
    }
    if (torch->status != FB_OK) return fb_torch_done(torch);
    storage->tensor = NULL;
    (void)fb_torch_keep(torch, old);
    return fb_torch_return(torch, call, sum);
}

/* Pairs (x, y) become (x c - y s, y c + x s); x, y [R, n, r/2], c, s [R, 1, r/2]. */
void fb_torch_turn(fb_torch *torch, fb_torch_handle x, fb_torch_handle y,
                   fb_torch_handle c, fb_torch_handle s)
{
    const fb_torch_handle xc = OP_("mul", "Tensor", T_(x), T_(c));
    const fb_torch_handle xs = OP_("mul", "Tensor", T_(x), T_(s));
    const fb_torch_handle yc = OP_("mul", "Tensor", T_(y), T_(c));
    const fb_torch_handle ys = OP_("mul", "Tensor", T_(y), T_(s));

    fb_torch_copy(torch, x, fb_torch_plus(torch, xc, ys, -1));
    fb_torch_copy(torch, y, fb_torch_plus(torch, yc, xs, 1));
}

fb_status fb_torch_rotary(void *self, const fb_call *call)
{
    fb_torch *torch = fb_torch_begin_at(self, &call->out);
    const int64_t d = call->head_dim, r = call->in[1].shape[1],
                  rows = call->out.shape[0];

    fb_torch_turn(torch, heads_of(torch, &call->out, 0, call->heads, d, r),
                  heads_of(torch, &call->out, r, call->heads, d, r),
                  SHAPED_(&call->in[1], rows, 1, r), SHAPED_(&call->in[2], rows, 1, r));
    return fb_torch_done(torch);
}
