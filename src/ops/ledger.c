/* ledger.c - counting: who pays for a call, and the names in the list.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ledger.h"

#include "base/memory.h"
#include "ops/context.h"

_Static_assert((int)FB_PHASE_COUNT <= (int)FB_MEMORY_PHASES,
               "memory has peaks of every phase");

static const struct {
    const char *name, *aten;
    double flops;
} operators[FB_OP_COUNT] = {
#define FB_OP(name, aten, flops, from_c) [FB_OP_##name] = {#name, aten, flops},
#include "ops/list.h"
#undef FB_OP
};

const char *fb_op_name(enum fb_op op)
{
    return operators[op].name;
}

const char *fb_op_aten(enum fb_op op)
{
    return operators[op].aten;
}

double fb_op_flops(enum fb_op op)
{
    return operators[op].flops;
}

const char *fb_scope_name(fb_scope scope)
{
    static const char *const names[FB_SCOPE_COUNT] = {
        [FB_SCOPE_model] = "model",   [FB_SCOPE_attention] = "attention",
        [FB_SCOPE_signal] = "signal", [FB_SCOPE_score] = "score",
        [FB_SCOPE_select] = "select", [FB_SCOPE_measure] = "measure",
    };
    return names[scope];
}

const char *fb_phase_name(fb_phase phase)
{
    static const char *const names[FB_PHASE_COUNT] = {
        [FB_PHASE_context] = "context",
        [FB_PHASE_evict] = "evict",
        [FB_PHASE_answer] = "answer",
        [FB_PHASE_decode] = "decode",
    };
    return names[phase];
}

static void add(fb_count *to, const fb_count *from)
{
    to->calls += from->calls;
    to->flops += from->flops;
    to->bytes += from->bytes;
}

static void add_again(fb_ledger *to, const fb_ledger *from)
{
    to->again_sums += from->again_sums;
    to->again_rows += from->again_rows;
}

void fb_ledger_add(fb_ledger *to, const fb_ledger *from)
{
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int op = 0; op < FB_OP_COUNT; op++)
                add(&to->count[p][s][op], &from->count[p][s][op]);
    add_again(to, from);
}

void fb_ledger_add_as(fb_ledger *to, fb_phase phase, fb_scope scope,
                      const fb_ledger *from)
{
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int op = 0; op < FB_OP_COUNT; op++)
                add(&to->count[phase][scope][op], &from->count[p][s][op]);
    add_again(to, from);
}

static bool are_equal(const fb_count *a, const fb_count *b)
{
    return a->calls == b->calls && a->flops == b->flops && a->bytes == b->bytes;
}

bool fb_ledger_equal(const fb_ledger *a, const fb_ledger *b)
{
    bool equal = a->again_sums == b->again_sums && a->again_rows == b->again_rows;

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int op = 0; op < FB_OP_COUNT; op++)
                equal = equal && are_equal(&a->count[p][s][op], &b->count[p][s][op]);
    return equal;
}

fb_count fb_ledger_total(const fb_ledger *ledger, fb_phase phase, fb_scope scope)
{
    fb_count total = {0};

    for (int op = 0; op < FB_OP_COUNT; op++)
        add(&total, &ledger->count[phase][scope][op]);
    return total;
}

double fb_ledger_open(const fb_ledger *ledger)
{
    double flops = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        flops += fb_ledger_total(ledger, (fb_phase)p, FB_SCOPE_signal).flops +
                 fb_ledger_total(ledger, (fb_phase)p, FB_SCOPE_score).flops +
                 fb_ledger_total(ledger, (fb_phase)p, FB_SCOPE_select).flops;
    return flops;
}

double fb_ledger_fused(const fb_ledger *ledger)
{
    return fb_ledger_open(ledger) + (ledger->again_sums > ledger->again_rows
                                         ? ledger->again_sums
                                         : ledger->again_rows);
}

double fb_ledger_plain(const fb_ledger *ledger)
{
    return fb_ledger_total(ledger, FB_PHASE_context, FB_SCOPE_model).flops +
           fb_ledger_total(ledger, FB_PHASE_context, FB_SCOPE_attention).flops;
}

void fb_ops_charge(fb_ops *ops, fb_ledger *const *ledgers, int n)
{
    ops->ledgers = ledgers;
    ops->n_ledgers = n;
}

fb_place fb_ops_place(const fb_ops *ops)
{
    return ops->place;
}

void fb_ops_move(fb_ops *ops, fb_place place)
{
    fb_memory_enter((int)place.phase);
    ops->place = place;
}

void fb_ops_count(fb_ops *ops, enum fb_op op, double units, double bytes, double common)
{
    const double n = ops->n_ledgers > 0 ? ops->n_ledgers : 1;
    const fb_count share = {1, units * operators[op].flops / n, bytes / n + common};

    for (int i = 0; i < ops->n_ledgers; i++)
        add(&ops->ledgers[i]->count[ops->place.phase][ops->place.scope][op], &share);
}

/* A batch with one ledger for each of its n sequences charges each with its own part;
 * any other number of ledgers shares every part. A call is counted with part 0. */
void fb_ops_count_part(fb_ops *ops, enum fb_op op, int64_t v, int64_t n, fb_scope scope,
                       double units, double bytes)
{
    const bool own = ops->n_ledgers == n;
    const double parts = own || ops->n_ledgers == 0 ? 1 : ops->n_ledgers;
    const fb_count share = {own || v == 0, units * operators[op].flops / parts,
                            bytes / parts};

    for (int i = own ? (int)v : 0; i < (own ? (int)v + 1 : ops->n_ledgers); i++)
        add(&ops->ledgers[i]->count[ops->place.phase][scope][op], &share);
}

void fb_ops_count_again(fb_ops *ops, bool sums, double flops)
{
    for (int i = 0; i < ops->n_ledgers; i++)
        *(sums ? &ops->ledgers[i]->again_sums : &ops->ledgers[i]->again_rows) +=
            flops / ops->n_ledgers;
}

double fb_array_bytes(const fb_array *array)
{
    if (array->storage == NULL) return 0;
    return (double)fb_array_elements(array) * (double)fb_dtype_bytes(array->dtype);
}
