/* kv.c - where the keys and values of an entry lie, and moving them.
 *
 * In f16 and bf16 they are rounded when they are written, to nearest and ties to even,
 * and from then on they are what was rounded. A number that is none, or too large for
 * the type, is refused: an infinity in its place would be silent nonsense.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/native.h"

#include "base/number.h"

#include <string.h>

fb_slot fb_slot_of(const fb_kv *kv, int64_t slot)
{
    const int64_t capacity = kv->first[slot + 1] - kv->first[slot];
    const size_t size = fb_dtype_bytes(kv->array.dtype);
    char *keys =
        (char *)kv->array.storage + (size_t)(kv->first[slot] * 2 * kv->head_dim) * size;

    return (fb_slot){.keys = keys,
                     .values = keys + (size_t)(capacity * kv->head_dim) * size,
                     .dtype = kv->array.dtype,
                     .size = size,
                     .capacity = capacity,
                     .head_dim = kv->head_dim};
}

void *fb_key_panel(const fb_slot *slot, int64_t p, int64_t *stride)
{
    const int64_t left = slot->capacity - p * FB_PANEL;

    *stride = left < FB_PANEL ? left : FB_PANEL;
    return slot->keys + (size_t)(p * FB_PANEL * slot->head_dim) * slot->size;
}

void *fb_value_panel(const fb_slot *slot, int64_t p, int64_t *stride)
{
    const int64_t left = slot->head_dim - p * FB_PANEL;

    *stride = left < FB_PANEL ? left : FB_PANEL;
    return slot->values + (size_t)(p * FB_PANEL * slot->capacity) * slot->size;
}

void fb_floats_of(const fb_isa *isa, fb_dtype dtype, const void *from, float *out,
                  int64_t n)
{
    if (dtype == FB_F16)
        isa->rows->floats_of_f16(from, out, n);
    else if (dtype == FB_BF16)
        isa->rows->floats_of_bf16(from, out, n);
    else
        memcpy(out, from, (size_t)n * sizeof *out);
}

/* --- rounding */

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The size (bits without a sign) of an f32 becomes that of an f16. Below 2^-14 those are
 * multiples of 2^-24, the last place of 1/2 in f32: adding that rounds. Otherwise 13
 * bits go. Above 0x7bff: there is no such number. */
static uint32_t size_in_f16(uint32_t size)
{
    float x;

    memcpy(&x, &size, sizeof x);
    if (size < 0x38800000) return bits_of(x + 0.5f) - 0x3f000000;
    return (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
}

/* 16 bits go. Above 0x7f7f: there is no such number. */
static uint32_t size_in_bf16(uint32_t size)
{
    return (size + 0x7fff + (size >> 16 & 1)) >> 16;
}

/* Whether all of the row fits the type. */
static bool round_row(fb_dtype dtype, const float *x, uint16_t *out, int64_t n)
{
    const uint32_t most = dtype == FB_F16 ? 0x7bff : 0x7f7f;
    uint32_t largest = 0;

    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(x[i]), size = bits & 0x7fffffff;
        const uint32_t rounded =
            dtype == FB_F16 ? size_in_f16(size) : size_in_bf16(size);

        largest = rounded > largest ? rounded : largest;
        out[i] = (uint16_t)((bits >> 16 & 0x8000) | rounded);
    }
    return largest <= most;
}

/* --- entries */

/* n elements of `size` bytes from places `from_step` apart to places `to_step` apart. */
static void copy_apart(size_t size, void *to, int64_t to_step, const void *from,
                       int64_t from_step, int64_t n)
{
    if (size == sizeof(uint16_t))
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i * to_step] = ((const uint16_t *)from)[i * from_step];
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i * to_step] = ((const float *)from)[i * from_step];
}

static char *key_of(const fb_slot *slot, int64_t entry, int64_t *step)
{
    char *panel = fb_key_panel(slot, entry / FB_PANEL, step);

    return panel + (size_t)(entry % FB_PANEL) * slot->size;
}

/* Columns [32 p, ...) of an entry's value; how many. */
static char *value_of(const fb_slot *slot, int64_t p, int64_t entry, int64_t *n)
{
    char *panel = fb_value_panel(slot, p, n);

    return panel + (size_t)(entry * *n) * slot->size;
}

/* key, value: [d] in the type of the slot. */
static void put_entry(const fb_slot *slot, int64_t entry, const void *key,
                      const void *value)
{
    const char *from = value;
    int64_t step, n;
    char *to = key_of(slot, entry, &step);

    copy_apart(slot->size, to, step, key, 1, slot->head_dim);
    for (int64_t p = 0; p * FB_PANEL < slot->head_dim; p++) {
        to = value_of(slot, p, entry, &n);
        memcpy(to, from, (size_t)n * slot->size);
        from += (size_t)n * slot->size;
    }
}

static void get_key(const fb_slot *slot, int64_t entry, void *key)
{
    int64_t step;
    const char *from = key_of(slot, entry, &step);

    copy_apart(slot->size, key, 1, from, step, slot->head_dim);
}

static void get_value(const fb_slot *slot, int64_t entry, void *value)
{
    char *to = value;
    int64_t n;

    for (int64_t p = 0; p * FB_PANEL < slot->head_dim; p++) {
        const char *from = value_of(slot, p, entry, &n);

        memcpy(to, from, (size_t)n * slot->size);
        to += (size_t)n * slot->size;
    }
}

/* --- writing */

struct write {
    const fb_native *native;
    const fb_call *call;
    int64_t t;
    struct fb_native_failure failure;
};

static fb_status refuse_number(fb_dtype dtype)
{
    return fb_fail(FB_UNSUPPORTED,
                   dtype == FB_F16
                       ? "a key or value is no number that f16 has (at most 65504); "
                         "a cache of bf16 or f32 may hold it"
                       : "a key or value is no number that bf16 has; a cache of f32 "
                         "may hold it");
}

/* Token i of item (sequence, kv head). `room` holds 2 d numbers. */
static fb_status write_token(const struct write *w, const fb_slot *slot, int64_t item,
                             int64_t i, uint16_t *room)
{
    const fb_call *call = w->call;
    const int64_t d = call->head_dim, width = call->in[0].shape[1];
    const int64_t v = item / call->kv_heads, g = item % call->kv_heads;
    const float *x = fb_floats(&call->in[0]) + (v * w->t + i) * width;
    const float *key = x + (call->heads + g) * d, *value = key + call->kv_heads * d;

    if (slot->dtype == FB_F32) {
        put_entry(slot, call->at[v] + i, key, value);
        return FB_OK;
    }
    if (!round_row(slot->dtype, key, room, d) ||
        !round_row(slot->dtype, value, room + d, d))
        return refuse_number(slot->dtype);
    put_entry(slot, call->at[v] + i, room, room + d);
    return FB_OK;
}

/* Items are (sequence, kv head). */
static void write_slots(void *context, int64_t begin, int64_t end, int thread)
{
    struct write *w = context;
    uint16_t *room = w->native->scratch[thread].bytes;

    for (int64_t item = begin; item < end; item++) {
        const fb_slot slot = fb_slot_of(w->call->to, w->call->slot[item]);

        for (int64_t i = 0; i < w->t; i++)
            fb_native_note(&w->failure, write_token(w, &slot, item, i, room));
    }
}

size_t fb_native_kv_write_room(const fb_call *call, int n_threads)
{
    (void)n_threads;
    return 2 * (size_t)call->head_dim * sizeof(uint16_t);
}

fb_status fb_native_kv_write(void *self, const fb_call *call)
{
    struct write w = {
        .native = self, .call = call, .t = call->in[0].shape[0] / call->n_sequences};

    FB_TRY(fb_native_reserve(self, fb_native_kv_write_room(call, 0)));
    fb_native_loop(self, call->n_sequences * call->kv_heads,
                   (double)fb_array_elements(&call->in[0]), write_slots, &w);
    return fb_native_failure_status(&w.failure);
}

/* --- copying */

/* Keys of n entries to panel p. Row i of a panel is number i of its keys, so what is read
 * row by row are the lines of a few panels, again and again. In place, each number is read
 * before another is written there. */
static void gather_keys(const fb_slot *to, int64_t p, const fb_slot *from,
                        const int32_t *entry, int64_t n)
{
    const char *key[FB_PANEL];
    int64_t width, step[FB_PANEL];
    char *panel = fb_key_panel(to, p, &width);

    for (int64_t j = 0; j < n; j++)
        key[j] = key_of(from, entry[j], &step[j]);
    for (int64_t i = 0; i < to->head_dim; i++)
        for (int64_t j = 0; j < n; j++)
            if (to->size == sizeof(uint16_t))
                ((uint16_t *)(void *)panel)[i * width + j] =
                    ((const uint16_t *)(const void *)key[j])[i * step[j]];
            else
                ((float *)(void *)panel)[i * width + j] =
                    ((const float *)(const void *)key[j])[i * step[j]];
}

static void gather_value(const fb_slot *to, int64_t j, const fb_slot *from,
                         int64_t entry)
{
    int64_t n;

    for (int64_t p = 0; p * FB_PANEL < to->head_dim; p++) {
        char *value = value_of(to, p, j, &n);
        const char *old = value_of(from, p, entry, &n);

        if (old != value) memcpy(value, old, (size_t)n * to->size);
    }
}

/* Items are panels of the slot that is written. */
static void copy_panels(void *context, int64_t begin, int64_t end, int thread)
{
    const fb_call *call = context;
    const fb_slot to = fb_slot_of(call->to, call->to_slot);
    const fb_slot from = fb_slot_of(call->from, call->from_slot);
    const int64_t last = fb_smaller(end * FB_PANEL, call->in[0].shape[0]);

    (void)thread;
    for (int64_t p = begin; p < end; p++)
        gather_keys(&to, p, &from, call->ids + p * FB_PANEL,
                    fb_smaller(FB_PANEL, last - p * FB_PANEL));
    for (int64_t j = begin * FB_PANEL; j < last; j++)
        gather_value(&to, j, &from, call->ids[j]);
}

fb_status fb_native_kv_copy(void *self, const fb_call *call)
{
    fb_call copy = *call;
    const int64_t n = call->in[0].shape[0], panels = (n + FB_PANEL - 1) / FB_PANEL;

    if (call->to == call->from) /* from the front to the end */
        copy_panels(&copy, 0, panels, 0);
    else
        fb_native_loop(self, panels, (double)(2 * n * call->to->head_dim), copy_panels,
                       &copy);
    return FB_OK;
}

/* --- turning */

/* Entry j of the slot. `room` holds d numbers of the slot's type and d floats. */
static fb_status turn_entry(const struct write *w, const fb_slot *slot, int64_t j,
                            void *room)
{
    const int64_t d = slot->head_dim, half = w->call->in[0].shape[1];
    const float *cosine = fb_floats(&w->call->in[0]) + j * half;
    const float *sine = fb_floats(&w->call->in[1]) + j * half;
    float *key = (float *)room + d;
    int64_t step;
    char *to = key_of(slot, j, &step);

    get_key(slot, j, room);
    fb_floats_of(w->native->isa, slot->dtype, room, key, d);
    for (int64_t i = 0; i < half; i++) {
        const float low = key[i], high = key[i + half];

        key[i] = low * cosine[i] - high * sine[i];
        key[i + half] = high * cosine[i] + low * sine[i];
    }
    if (slot->dtype == FB_F32)
        memcpy(room, key, (size_t)d * sizeof *key);
    else if (!round_row(slot->dtype, key, room, d))
        return refuse_number(slot->dtype);
    copy_apart(slot->size, to, step, room, 1, d);
    return FB_OK;
}

/* Items are the entries. */
static void turn_entries(void *context, int64_t begin, int64_t end, int thread)
{
    struct write *w = context;
    const fb_slot slot = fb_slot_of(w->call->to, w->call->to_slot);

    for (int64_t j = begin; j < end; j++)
        fb_native_note(&w->failure,
                       turn_entry(w, &slot, j, w->native->scratch[thread].bytes));
}

size_t fb_native_kv_turn_room(const fb_call *call, int n_threads)
{
    (void)n_threads;
    return 2 * (size_t)call->to->head_dim * sizeof(float);
}

fb_status fb_native_kv_turn(void *self, const fb_call *call)
{
    struct write w = {.native = self, .call = call};

    FB_TRY(fb_native_reserve(self, fb_native_kv_turn_room(call, 0)));
    fb_native_loop(self, call->in[0].shape[0], (double)fb_array_elements(&call->out),
                   turn_entries, &w);
    return fb_native_failure_status(&w.failure);
}

/* --- reading */

struct read {
    const fb_native *native;
    const fb_call *call;
};

/* Items are the slots. */
static void read_slots(void *context, int64_t begin, int64_t end, int thread)
{
    const struct read *r = context;
    const fb_array *out = &r->call->out;
    const int64_t m = out->shape[1], d = out->shape[2];
    void *room = r->native->scratch[thread].bytes;

    for (int64_t s = begin; s < end; s++) {
        const fb_slot slot = fb_slot_of(r->call->from, r->call->from_slot + s);

        for (int64_t j = 0; j < m; j++) {
            if (r->call->values)
                get_value(&slot, j, room);
            else
                get_key(&slot, j, room);
            fb_floats_of(r->native->isa, slot.dtype, room,
                         fb_floats(out) + (s * m + j) * d, d);
        }
    }
}

size_t fb_native_kv_read_room(const fb_call *call, int n_threads)
{
    (void)n_threads;
    return (size_t)call->out.shape[2] * sizeof(float);
}

fb_status fb_native_kv_read(void *self, const fb_call *call)
{
    struct read r = {self, call};

    FB_TRY(fb_native_reserve(self, fb_native_kv_read_room(call, 0)));
    fb_native_loop(self, call->out.shape[0], (double)fb_array_elements(&call->out),
                   read_slots, &r);
    return FB_OK;
}
