/* native_kv.c - where the keys and values of an entry lie, and moving them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native.h"

#include <string.h>

fb_slot fb_slot_of(const fb_kv *kv, int64_t slot)
{
    const int64_t capacity = kv->first[slot + 1] - kv->first[slot];
    float *keys = fb_floats(&kv->array) + kv->first[slot] * 2 * kv->head_dim;

    return (fb_slot){keys, keys + capacity * kv->head_dim, capacity, kv->head_dim};
}

float *fb_key_panel(const fb_slot *slot, int64_t p, int64_t *stride)
{
    const int64_t left = slot->capacity - p * FB_PANEL;

    *stride = left < FB_PANEL ? left : FB_PANEL;
    return slot->keys + p * FB_PANEL * slot->head_dim;
}

float *fb_value_panel(const fb_slot *slot, int64_t p, int64_t *stride)
{
    const int64_t left = slot->head_dim - p * FB_PANEL;

    *stride = left < FB_PANEL ? left : FB_PANEL;
    return slot->values + p * FB_PANEL * slot->capacity;
}

/* One entry's key and value to or from plain rows of d floats; NULL: not this one. */
static void put_entry(const fb_slot *slot, int64_t entry, const float *key,
                      const float *value)
{
    int64_t stride;
    float *to = fb_key_panel(slot, entry / FB_PANEL, &stride) + entry % FB_PANEL;

    for (int64_t i = 0; i < slot->head_dim; i++)
        to[i * stride] = key[i];
    for (int64_t i = 0; i < slot->head_dim; i += FB_PANEL) {
        to = fb_value_panel(slot, i / FB_PANEL, &stride) + entry * stride;
        memcpy(to, value + i, (size_t)stride * sizeof *to);
    }
}

static void get_key(const fb_slot *slot, int64_t entry, float *key)
{
    int64_t stride;
    const float *from =
        fb_key_panel(slot, entry / FB_PANEL, &stride) + entry % FB_PANEL;

    for (int64_t i = 0; i < slot->head_dim; i++)
        key[i] = from[i * stride];
}

static void get_value(const fb_slot *slot, int64_t entry, float *value)
{
    int64_t stride;

    for (int64_t i = 0; i < slot->head_dim; i += FB_PANEL) {
        const float *from =
            fb_value_panel(slot, i / FB_PANEL, &stride) + entry * stride;

        memcpy(value + i, from, (size_t)stride * sizeof *from);
    }
}

/* --- writing */

struct write {
    const fb_call *call;
    int64_t t;
};

/* Items are (sequence, kv head). */
static void write_slots(void *context, int64_t begin, int64_t end, int thread)
{
    const struct write *w = context;
    const fb_call *call = w->call;
    const int64_t d = call->head_dim, width = call->in[0].shape[1];

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        const int64_t v = item / call->kv_heads, g = item % call->kv_heads;
        const fb_slot slot = fb_slot_of(call->to, call->slot[item]);
        const float *x = fb_floats(&call->in[0]) + v * w->t * width;
        const float *key = x + (call->heads + g) * d;

        for (int64_t i = 0; i < w->t; i++)
            put_entry(&slot, call->at[v] + i, key + i * width,
                      key + i * width + call->kv_heads * d);
    }
}

fb_status fb_native_kv_write(void *self, const fb_call *call)
{
    struct write w = {call, call->in[0].shape[0] / call->n_sequences};

    fb_native_loop(self, call->n_sequences * call->kv_heads,
                   (double)fb_array_elements(&call->in[0]), write_slots, &w);
    return FB_OK;
}

/* --- copying */

/* Items are blocks of 32 entries of the slot that is written. */
static void copy_panels(void *context, int64_t begin, int64_t end, int thread)
{
    const fb_call *call = context;
    const fb_slot to = fb_slot_of(call->to, call->to_slot);
    const fb_slot from = fb_slot_of(call->from, call->from_slot);
    const int64_t last = end * FB_PANEL < to.capacity ? end * FB_PANEL : to.capacity;
    int64_t to_stride, from_stride;

    (void)thread;
    for (int64_t j = begin * FB_PANEL; j < last; j++) {
        const int64_t entry = call->ids[j];
        float *key = fb_key_panel(&to, j / FB_PANEL, &to_stride) + j % FB_PANEL;
        const float *old =
            fb_key_panel(&from, entry / FB_PANEL, &from_stride) + entry % FB_PANEL;

        for (int64_t i = 0; i < to.head_dim; i++)
            key[i * to_stride] = old[i * from_stride];
        for (int64_t p = 0; p * FB_PANEL < to.head_dim; p++) {
            float *value = fb_value_panel(&to, p, &to_stride) + j * to_stride;

            memcpy(value, fb_value_panel(&from, p, &from_stride) + entry * from_stride,
                   (size_t)to_stride * sizeof *value);
        }
    }
}

fb_status fb_native_kv_copy(void *self, const fb_call *call)
{
    fb_call copy = *call;
    const int64_t n =
        call->to->first[call->to_slot + 1] - call->to->first[call->to_slot];

    fb_native_loop(self, (n + FB_PANEL - 1) / FB_PANEL,
                   (double)(2 * n * call->to->head_dim), copy_panels, &copy);
    return FB_OK;
}

/* --- turning */

/* Items are the entries. */
static void turn_entries(void *context, int64_t begin, int64_t end, int thread)
{
    const fb_call *call = context;
    const fb_slot slot = fb_slot_of(call->to, call->to_slot);
    const int64_t half = call->in[0].shape[1];
    int64_t stride;

    (void)thread;
    for (int64_t j = begin; j < end; j++) {
        float *key = fb_key_panel(&slot, j / FB_PANEL, &stride) + j % FB_PANEL;
        const float *cosine = fb_floats(&call->in[0]) + j * half;
        const float *sine = fb_floats(&call->in[1]) + j * half;

        for (int64_t i = 0; i < half; i++) {
            const float a = key[i * stride], b = key[(i + half) * stride];

            key[i * stride] = a * cosine[i] - b * sine[i];
            key[(i + half) * stride] = b * cosine[i] + a * sine[i];
        }
    }
}

fb_status fb_native_kv_turn(void *self, const fb_call *call)
{
    fb_call copy = *call;

    fb_native_loop(self, call->in[0].shape[0], (double)fb_array_elements(&call->out),
                   turn_entries, &copy);
    return FB_OK;
}

/* --- reading */

struct read {
    const fb_call *call;
};

/* Items are the slots. */
static void read_slots(void *context, int64_t begin, int64_t end, int thread)
{
    const struct read *r = context;
    const fb_array *out = &r->call->out;
    const int64_t m = out->shape[1], d = out->shape[2];

    (void)thread;
    for (int64_t s = begin; s < end; s++) {
        const fb_slot slot = fb_slot_of(r->call->from, r->call->from_slot + s);

        for (int64_t j = 0; j < m; j++) {
            float *to = fb_floats(out) + (s * m + j) * d;

            if (r->call->values)
                get_value(&slot, j, to);
            else
                get_key(&slot, j, to);
        }
    }
}

fb_status fb_native_kv_read(void *self, const fb_call *call)
{
    struct read r = {call};

    fb_native_loop(self, call->out.shape[0], (double)fb_array_elements(&call->out),
                   read_slots, &r);
    return FB_OK;
}
