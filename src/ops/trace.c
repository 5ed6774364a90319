/* trace.c - a hash over which operators ran with which weights on which shapes.
 *
 * It proves that the kernel was the same for all rules, so what a rule may change does
 * not enter: the scopes of rules, the number of sequences in a batch (the first
 * dimension of temporaries is divided by it), the entries of a cache (written m).
 *
 * One line of text per call, e.g. "linear f32[2,576] weight 7 f32[960,576] f32[2,960]".
 * Weights are numbered as they were made, which is the order of the model's layers.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct line {
    char text[512];
    size_t n;
};

static void put(struct line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct line *line, const char *format, ...)
{
    const size_t left = sizeof line->text - line->n;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line->text + line->n, left, format, args);
    va_end(args);
    if (n > 0) line->n += (size_t)n < left ? (size_t)n : left - 1;
}

static void put_array(struct line *line, const fb_array *array, int64_t group)
{
    static const char *const dtypes[] = {[FB_F32] = "f32",
                                         [FB_F64] = "f64",
                                         [FB_I64] = "i64",
                                         [FB_F16] = "f16",
                                         [FB_BF16] = "bf16"};

    if (array->storage == NULL) return;
    if (array->weight != 0) put(line, " weight %d", (int)array->weight);
    put(line, " %s[", dtypes[array->dtype]);
    for (int i = 0; i < array->n_dims; i++) {
        int64_t size = array->shape[i];

        if (i == 0 && !array->persists && size % group == 0) size /= group;
        put(line, i == 0 ? "%lld" : ",%lld", (long long)size);
    }
    put(line, "]");
}

static void put_attributes(struct line *line, enum fb_op op, const fb_call *call)
{
    if (call->alpha < 0 || call->alpha > 0) put(line, " alpha=%a", call->alpha);
    if (call->dim != 0 || call->dim1 != 0)
        put(line, " dim=%d,%d", call->dim, call->dim1);
    if (call->start != 0) put(line, " start=%lld", (long long)call->start);
    if (call->kernel != 0) put(line, " kernel=%lld", (long long)call->kernel);
    if (call->transpose_a) put(line, " transpose_a");
    if (call->transpose_b) put(line, " transpose_b");
    if (call->heads != 0) put(line, " heads=%lld", (long long)call->heads);
    if (call->kv_heads != 0) put(line, " kv_heads=%lld", (long long)call->kv_heads);
    if (call->head_dim != 0) put(line, " head_dim=%lld", (long long)call->head_dim);
    if (call->n_sequences != 0)
        put(line, " t=%lld", (long long)(call->in[0].shape[0] / call->n_sequences));
    if (op == FB_OP_kv_copy || op == FB_OP_attention) put(line, " m");
}

/* Moving and reading entries is written without arrays: their counts are a rule's. */
void fb_ops_trace(fb_ops *ops, enum fb_op op, const fb_call *call)
{
    const int n_in = op == FB_OP_attention ? 1 : 3; /* signals belong to rules */
    struct line line = {.n = 0};
    fb_array out = call->out;

    if (!ops->is_tracing) return;
    if (ops->place.scope != FB_SCOPE_model && ops->place.scope != FB_SCOPE_attention)
        return;
    put(&line, "%s", fb_op_name(op));
    put_attributes(&line, op, call);
    if (op != FB_OP_kv_copy && op != FB_OP_kv_read) {
        for (int i = 0; i < n_in; i++)
            put_array(&line, &call->in[i], ops->trace_group);
        out.persists = false; /* a result kept for later is one of the batch */
        put_array(&line, &out, ops->trace_group);
    }
    put(&line, "\n");
    fb_hash_add(&ops->trace, line.text, line.n);
}

void fb_trace_begin(fb_ops *ops, int64_t group)
{
    ops->is_tracing = true;
    ops->trace_group = group < 1 ? 1 : group;
    fb_hash_init(&ops->trace);
}

void fb_trace_end(fb_ops *ops, char hex[65])
{
    hex[0] = 0;
    if (ops->is_tracing) fb_hash_hex(&ops->trace, hex);
    ops->is_tracing = false;
}
