/* embed.h - a rule of ours on tensors of yours, inside your process.
 *
 * For a host that has a PyTorch of its own, such as a Python interpreter: keys, values
 * and queries are described by address and strides, read where they lie, and what comes
 * back are the positions that stay. Scores and sets are made by the very rule and the
 * very selection that the program uses, over the operators of the host's own PyTorch.
 * libflexbudget.so exports these functions, what loaded rules call (rule.h), and nothing
 * else.
 *
 *     fb_guest_open       the operators, once per thread and device
 *     fb_event_open       a rule and a budget for a context
 *     fb_event_layer      layer by layer, in order: its scores
 *     fb_event_select     once: the kept sets
 *
 * Everything belongs to the thread that opened it. A function that fails returns a status
 * other than 0 and says why in fb_guest_error().
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FLEXBUDGET_EMBED_H
#define FLEXBUDGET_EMBED_H

#include <flexbudget/op.h>

enum { FB_EMBED_ABI = 1 };

#define FB_EXPORT __attribute__((visibility("default")))

/* A tensor of the host: three dimensions of f32, f16 or bf16. Read until the call that
 * takes it returns. */
typedef struct fb_outside {
    const void *data; /* of the first element; on a device its address there */
    int32_t dtype;    /* fb_dtype */
    int32_t device;   /* number in the list of fb_guest_open */
    int64_t shape[3];
    int64_t stride[3]; /* in elements */
} fb_outside;

typedef struct fb_guest fb_guest; /* the operators of a device */
typedef struct fb_event fb_event; /* a rule that is to evict from one context */

/* What does not change from layer to layer. */
typedef struct fb_event_about {
    const char *rule;   /* an expression: "adakv(snapkv:window=32)" */
    const char *given;  /* or NULL and the name of whoever gives scores himself */
    const char *budget; /* "20%", "256t", "64MiB" */
    int32_t protect;    /* fb_protect_kind: 0 sink + recent, 1 as published, 2 none */
    int64_t sink, recent;
    int64_t layers, heads, kv_heads, head_dim, tokens;
    int64_t value_dim; /* of a value; head_dim in most models */
    int32_t dtype;     /* fb_dtype of keys and values: what a budget in bytes counts */
    uint64_t seed;     /* of rules that read random numbers */
} fb_event_about;

/* What fb_event_select says beside the sets. */
typedef struct fb_event_facts {
    int64_t entries;     /* per head under an equal split */
    int64_t n_protected; /* of them */
    int32_t fallback;    /* fewer tokens than the rule needs: sinks + recents instead */
    int32_t shrunk;      /* some head may keep fewer entries than are protected */
} fb_event_facts;

/* What of the queries a rule needs. */
typedef struct fb_event_needs {
    int64_t queries; /* of so many of the last tokens; 0: none */
    int32_t values;  /* not 0: reads values */
    int32_t scores;  /* 0: keeps all or falls back, no layer has to be given */
} fb_event_needs;

/* The last failure of the calling thread, one sentence; lent until the next. */
FB_EXPORT const char *fb_guest_error(void);
FB_EXPORT int fb_guest_abi(void);

/* `torch`: directory of the host's package; `device`: "torch:cpu", "torch:cuda:0", or for
 * layers on several "torch:cuda:0,cuda:1", or "cpu" for kernels of our own on the host's
 * memory. Runs every operator once. */
FB_EXPORT FB_MUST_USE fb_status fb_guest_open(fb_guest **out, const char *torch,
                                              const char *device);
FB_EXPORT void fb_guest_close(fb_guest *guest); /* takes NULL */
/* A shared object of rules (rule.h): expressions on this guest know their names from now
 * on. One that is there already is left. What the file does when it is loaded is run. */
FB_EXPORT FB_MUST_USE fb_status fb_guest_load(fb_guest *guest, const char *path);

/* FB_USAGE for rules and budgets that are not understood, FB_UNSUPPORTED for rules that
 * read what is not there yet, FB_BUDGET for a budget below one entry per head. The
 * guest must outlive it. */
FB_EXPORT FB_MUST_USE fb_status fb_event_open(fb_event **out, fb_guest *guest,
                                              const fb_event_about *about);
FB_EXPORT void fb_event_close(fb_event *event);             /* takes NULL */
FB_EXPORT const char *fb_event_rule(const fb_event *event); /* canonical */
FB_EXPORT fb_event_needs fb_event_needs_of(const fb_event *event);

/* Scores one layer: queries [heads, t, head_dim] of the last t tokens, keys [kv_heads, n,
 * head_dim], both after rotary embedding, values [kv_heads, n, value_dim]. Queries and
 * values may be NULL where the rule does not read them. Attention is causal, of logits
 * q k^T * scale. */
FB_EXPORT FB_MUST_USE fb_status fb_event_layer(fb_event *event, int64_t layer,
                                               const fb_outside *queries,
                                               const fb_outside *keys,
                                               const fb_outside *values, double scale);
/* The layer's scores, made elsewhere: [1, R, n], R = heads, kv_heads or 1. */
FB_EXPORT FB_MUST_USE fb_status fb_event_scores(fb_event *event, int64_t layer,
                                                const fb_outside *scores);

/* After every layer. */
FB_EXPORT FB_MUST_USE fb_status fb_event_select(fb_event *event, fb_event_facts *out);
/* Positions that stay, ascending, `n_out` of them; lent until the event is closed. */
FB_EXPORT const int32_t *fb_event_kept(const fb_event *event, int64_t layer,
                                       int64_t kv_head, int64_t *n_out);

/* The work so far, by operator: false when there is no operator `index`. */
FB_EXPORT bool fb_event_work(const fb_event *event, int index, const char **name_out,
                             int64_t *calls_out, double *flops_out, double *bytes_out);

#endif
