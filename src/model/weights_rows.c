/* weights_rows.c - rows of stored tensors become a weight or a vector in memory.
 *
 * Resident weights. Their blocks are copied, not read from the mapped file: what is
 * computed with is then what was hashed, whatever happens to the file, and the account
 * says what is held. Tensors of Q8_0 become whole numbers with scales (fb_weight_source),
 * which are hardly larger and need no unpacking. F32 has nothing to save.
 *
 * Rotary order. GGUF's Llama stores the rows of a head of q and k so that the two
 * members of rotary pair i are rows 2i and 2i + 1; here they are rows i and i + d/2.
 * Row s*d/2 + i of a head is therefore row 2i + s of the file's head. Other families,
 * and Hugging Face's files, have the order that is used here.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/weights_inside.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* --- reading rows --------------------------------------------------------------- */

static int64_t row_in_file(int64_t row, int64_t d)
{
    const int64_t head = row / d, in_head = row % d;

    return head * d + 2 * (in_head % (d / 2)) + in_head / (d / 2);
}

static bool is_finite_row(const float *row, int64_t n)
{
    uint32_t largest = 0; /* of the bits without a sign: they ascend like the numbers */

    for (int64_t j = 0; j < n; j++) {
        uint32_t bits;

        memcpy(&bits, &row[j], sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7f800000u;
}

/* The blocks of row `r` of a source, and their format. */
static const uint8_t *blocks_of(const fb_weight_rows *s, int64_t r,
                                const fb_blocks **format_out)
{
    const fb_weight_part *p = s->parts;
    const fb_blocks *format;

    while (r >= p->tensor.rows)
        r -= p++->tensor.rows;
    if (p->paired > 0) r = row_in_file(r, p->paired);
    *format_out = format = p->tensor.format;
    return p->tensor.data +
           (size_t)(r * (s->columns / format->per_block)) * format->bytes;
}

/* Rows [begin, end) of a source. Several threads at once. */
static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    fb_weight_rows *s = context;

    for (int64_t r = begin; r < end; r++, out += s->columns) {
        const fb_blocks *format;
        const uint8_t *from = blocks_of(s, r, &format);

        format->unpack(from, s->columns / format->per_block, out);
        if (!s->is_checked && !is_finite_row(out, s->columns))
            atomic_store(&s->bad_row, r + 1);
    }
    return FB_OK;
}

/* The same rows, all in Q8_0. */
static fb_status eights(void *context, int64_t begin, int64_t end, int8_t *q,
                        float *scale)
{
    fb_weight_rows *s = context;
    const int64_t runs = s->columns / FB_EIGHT_BLOCK;

    for (int64_t r = begin; r < end; r++, q += s->columns, scale += runs) {
        const fb_blocks *format;

        fb_split_q8_0(blocks_of(s, r, &format), runs, q, scale);
        if (!is_finite_row(scale, runs)) atomic_store(&s->bad_row, r + 1);
    }
    return FB_OK;
}

static fb_status check_finite(fb_weight_rows *s)
{
    int64_t row = atomic_load(&s->bad_row) - 1;
    const fb_weight_part *p = s->parts;

    s->is_checked = true;
    if (row < 0) return FB_OK;
    while (row >= p->tensor.rows)
        row -= p++->tensor.rows;
    return fb_fail(FB_FORMAT,
                   "tensor '%s' holds a number that is not finite (in row %" PRId64
                   " of %" PRId64 ")",
                   fb_span_show(p->tensor.name).text, row, p->tensor.rows);
}

/* --- making weights ------------------------------------------------------------- */

static bool all_in(const fb_weight_rows *s, const char *format)
{
    for (int p = 0; p < s->n_parts; p++)
        if (strcmp(s->parts[p].tensor.format->name, format) != 0) return false;
    return true;
}

static size_t bytes_in_file(const fb_weight_rows *s)
{
    size_t bytes = 0;

    for (int p = 0; p < s->n_parts; p++)
        bytes += s->parts[p].tensor.n_bytes;
    return bytes;
}

/* How the next weight is held: as its tensors ask for, or as another's was. */
static fb_weight_note note_of(const fb_weight_loader *l, const fb_weight_rows *s)
{
    const bool is_resident = l->form == FB_WEIGHTS_RESIDENT;
    fb_weight_note note = {.bytes = bytes_in_file(s)};

    if (l->like != NULL) return l->like->notes[l->out->n_notes];
    if (l->tensors == NULL) {
        note.stays = is_resident && l->bits < 32;
    } else {
        note.in_eights = is_resident && all_in(s, "Q8_0");
        note.stays = is_resident && !note.in_eights && !all_in(s, "F32");
    }
    return note;
}

static fb_weight_source describe(const fb_weight_note *note, fb_weight_rows *s)
{
    return (fb_weight_source){
        .rows = s->rows,
        .columns = s->columns,
        .unpack = unpack,
        .eights = note->in_eights ? eights : NULL,
        .stays = note->stays,
        .context = s,
    };
}

static bool is_hollow(const fb_weight_loader *l)
{
    return l->ops != NULL && !fb_ops_has_numbers(l->ops);
}

/* A copy of a source that lives until the weights are unloaded, and of its blocks. */
static fb_status keep(fb_weight_loader *l, fb_weight_rows **s)
{
    fb_weight_rows *copy = fb_zalloc(FB_ACCOUNT_other, sizeof *copy);

    if (copy == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a weight");
    copy->rows = (*s)->rows;
    copy->columns = (*s)->columns;
    copy->next = l->staying;
    l->staying = copy;
    for (; copy->n_parts < (*s)->n_parts; copy->n_parts++) {
        const fb_weight_part *from = &(*s)->parts[copy->n_parts];
        fb_weight_part *to = &copy->parts[copy->n_parts];

        *to = *from;
        to->copy = fb_alloc(FB_ACCOUNT_weights, from->tensor.n_bytes);
        if (to->copy == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for a weight of %zu bytes",
                           from->tensor.n_bytes);
        memcpy(to->copy, from->tensor.data, from->tensor.n_bytes);
        to->tensor.data = to->copy;
    }
    *s = copy;
    return FB_OK;
}

void fb_weight_rows_free(fb_weight_rows *s)
{
    while (s != NULL) {
        fb_weight_rows *next = s->next;

        for (int p = 0; p < s->n_parts; p++)
            fb_free(s->parts[p].copy);
        fb_free(s);
        s = next;
    }
}

fb_status fb_weight_make(fb_weight_loader *l, fb_weight_rows *s, fb_tensor *out)
{
    const fb_weight_note note = note_of(l, s);
    const size_t kept = note.stays ? note.bytes : 0;
    fb_weight_source from = describe(&note, s);

    l->out->notes[l->out->n_notes++] = note;
    l->out->file_bytes += note.bytes;
    l->bytes += fb_weight_size(&from) + kept;
    if (l->ops == NULL) return FB_OK;
    if (is_hollow(l)) {
        fb_memory_add(FB_ACCOUNT_weights, kept);
        l->out->booked += kept;
        *out = fb_weight(l->ops, &from);
        return fb_ops_status(l->ops);
    }
    if (note.stays) FB_TRY(keep(l, &s));
    from.context = s;
    *out = fb_weight(l->ops, &from);
    FB_TRY(fb_ops_status(l->ops));
    return check_finite(s);
}

/* --- making vectors ------------------------------------------------------------- */

/* The numbers of a source of one-row tensors, one behind the other, as a vector. */
static fb_status unpack_vector(fb_weight_rows *s, float add, float *out)
{
    float *at = out;

    for (int p = 0; p < s->n_parts; p++) {
        fb_weight_rows one = {.parts = {s->parts[p]}, .n_parts = 1, .rows = 1};

        one.columns = s->parts[p].tensor.columns;
        FB_TRY(unpack(&one, 0, 1, at));
        FB_TRY(check_finite(&one));
        at += one.columns;
    }
    for (float *x = out; x < at; x++)
        *x += add;
    return FB_OK;
}

fb_status fb_weight_make_vector(fb_weight_loader *l, fb_weight_rows *s, float add,
                                fb_tensor *out)
{
    int64_t n = 0;
    float *host;
    fb_status status;

    for (int p = 0; p < s->n_parts; p++)
        n += s->parts[p].tensor.columns;
    l->out->file_bytes += bytes_in_file(s);
    l->bytes += (size_t)n * sizeof *host;
    if (l->ops == NULL) return FB_OK;
    if (is_hollow(l)) {
        *out = fb_new(l->ops, FB_ACCOUNT_weights, FB_F32, 1, &n);
        return fb_ops_status(l->ops);
    }
    host = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *host);
    if (host == NULL) return fb_fail(FB_NO_MEMORY, "no memory to read a tensor");
    status = unpack_vector(s, add, host);
    if (status == FB_OK) {
        fb_scope_open(l->ops);
        *out = fb_persist(l->ops, FB_ACCOUNT_weights,
                          fb_from_host(l->ops, FB_F32, 1, &n, host));
        fb_scope_close(l->ops);
        status = fb_ops_status(l->ops);
    }
    fb_free(host);
    return status;
}
