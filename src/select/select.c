/* select.c - protect, allocate, choose.
 *
 * Protected entries are the first `sink` and the newest `recent` of a slot, the same
 * for all heads; what lies between can be chosen. So a choice is one top-k over a
 * middle piece of the scores, and no score has to be faked.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"

#include "base/check.h"
#include "base/number.h"

#include <math.h>
#include <string.h>

/* What stays in every head before the rule has a say. */
struct protection {
    int64_t sink, recent;
};

bool fb_select_falls_back(const fb_bound_rule *rule, int64_t n)
{
    const fb_choices *choices = fb_bound_rule_choices(rule);

    return fb_bound_rule_scores(rule) &&
           (n <= choices->unscored_last || n < choices->min_tokens);
}

/* The union of the experiment's or the rule's protection, the entries without a score,
 * the share of the newest that defines the rule, and the question. */
static struct protection protect(const fb_selector *in, int64_t k, bool fallback)
{
    const fb_choices *choices = fb_bound_rule_choices(in->rule);
    struct protection p = {0, 0};

    if (in->protect.kind == FB_PROTECT_EXPERIMENT)
        p = (struct protection){in->protect.sink, in->protect.recent};
    if (in->protect.kind == FB_PROTECT_PUBLISHED)
        p = (struct protection){choices->sink, choices->recent};
    p.recent = fb_larger(p.recent, in->protect_last);
    if (!fallback) {
        p.recent = fb_larger(p.recent, choices->unscored_last);
        p.recent = fb_larger(p.recent, (int64_t)((double)k * choices->recent_quota));
    }
    if (p.sink > in->n) p.sink = in->n;
    if (p.recent > in->n - p.sink) p.recent = in->n - p.sink;
    return p;
}

/* A head smaller than its protection: the newest entry, then sinks from the first on,
 * then the other recents, newest first. */
static void mark_shrunk(uint8_t *stays, int64_t n, struct protection p, int64_t k)
{
    int64_t left = k - 1;

    memset(stays, 0, (size_t)n);
    stays[n - 1] = 1;
    for (int64_t j = 0; j < p.sink && j < n - 1 && left > 0; j++, left--)
        stays[j] = 1;
    for (int64_t j = n - 2; left > 0; j--) {
        if (stays[j] != 0) continue;
        stays[j] = 1;
        left--;
    }
}

static void mark_protected(uint8_t *stays, int64_t n, struct protection p)
{
    memset(stays, 0, (size_t)n);
    memset(stays, 1, (size_t)p.sink);
    memset(stays + (n - p.recent), 1, (size_t)p.recent);
}

static fb_status keep_everything(fb_selection *out, int64_t n, uint8_t *stays)
{
    memset(stays, 1, (size_t)n);
    for (int64_t s = 0; s < out->kept.n_slots; s++)
        FB_TRY(fb_kept_set(&out->kept, s, stays, n));
    return FB_OK;
}

/* Sinks and the newest: where the rule has nothing to choose, or cannot. */
static fb_status keep_ends(fb_selection *out, const fb_selector *in,
                           struct protection p, uint8_t *stays)
{
    if (out->k == p.sink + p.recent)
        mark_protected(stays, in->n, p);
    else
        mark_shrunk(stays, in->n, p, out->k);
    for (int64_t s = 0; s < out->kept.n_slots; s++)
        FB_TRY(fb_kept_set(&out->kept, s, stays, in->n));
    return FB_OK;
}

/* A choice at work. */
struct choice {
    fb_selection *out;
    fb_ops *ops;
    const fb_selector *in;
    struct protection p;
    fb_tensor *scores; /* [layers] of the entries that can be chosen, all planes */
    fb_tensor *first;  /* [layers] their first plane */
    int64_t *k;        /* [layers * kv_heads] entries of each head */
    int64_t *best;     /* room for a layer [kv_heads, n] */
    float *value;      /* the same, of an order that is not the score; else NULL */
    uint8_t *stays;    /* [n] */
};

/* Marks the best k entries of each head, taken from `best` [kv_heads, most]. */
static fb_status keep_best(const struct choice *c, int64_t layer, int64_t most,
                           const int64_t *k)
{
    const fb_selector *in = c->in;

    for (int64_t g = 0; g < in->kv_heads; g++) {
        mark_protected(c->stays, in->n, c->p);
        for (int64_t i = 0; i < k[g]; i++)
            c->stays[c->p.sink + c->best[g * most + i]] = 1;
        FB_TRY(fb_kept_set(&c->out->kept, layer * in->kv_heads + g, c->stays, in->n));
    }
    return FB_OK;
}

/* The places of the `most` best of each head, to `best`; an order with a NaN has none. */
static fb_status find_best(const struct choice *c, fb_tensor best, int64_t most)
{
    const size_t n = (size_t)(c->in->kv_heads * most);
    const fb_status status = fb_to_host(c->ops, best, c->best, n * sizeof *c->best);
    const fb_bound_rule *rule = c->in->rule;

    return fb_bound_rule_context(
        rule, fb_context(status, "rule '%s'", fb_bound_rule_text(rule)));
}

/* The best `most` of each row of an order, and, where it is not the score, how many of them
 * stay: those that leave in any case come last. */
static fb_status rank(const struct choice *c, fb_tensor order, int64_t most, int64_t *k)
{
    const int64_t heads = c->in->kv_heads;
    fb_tensor best;

    FB_TRY(fb_ops_status(c->ops));
    best = fb_topk(c->ops, order, most);
    FB_TRY(find_best(c, best, most));
    if (c->value == NULL) return FB_OK;
    FB_TRY(fb_to_host(c->ops, fb_gather(c->ops, order, best), c->value,
                      (size_t)(heads * most) * sizeof *c->value));
    for (int64_t g = 0; g < heads; g++)
        while (k[g] > 0 && c->value[g * most + k[g] - 1] == -INFINITY)
            k[g]--;
    return FB_OK;
}

/* For a control: the same for numbers that are drawn. */
static fb_status draw(const struct choice *c, int64_t layer, int64_t most)
{
    const fb_selector *in = c->in;
    const fb_chance chance = {in->seed, in->stream, FB_DRAWER_CONTROL};
    int32_t *const *position =
        in->position == NULL ? NULL : in->position + layer * in->kv_heads;
    const fb_tensor numbers =
        fb_signal_random(c->ops, chance, layer, in->kv_heads, in->n, position);
    const fb_tensor order =
        fb_narrow(c->ops, numbers, 1, c->p.sink, in->n - c->p.sink - c->p.recent);

    return fb_to_host(c->ops, fb_topk(c->ops, order, most), c->best,
                      (size_t)(in->kv_heads * most) * sizeof *c->best);
}

static fb_status choose_layer(const struct choice *c, int64_t layer)
{
    const fb_selector *in = c->in;
    const int64_t n_protected = c->p.sink + c->p.recent;
    int64_t k[FB_MAX_KV_HEADS], most = 0;
    const fb_select_input select = {c->scores[layer], layer, in->layers, in->kv_heads,
                                    c->p.sink,        in->n, k};

    for (int64_t g = 0; g < in->kv_heads; g++) {
        k[g] = c->k[layer * in->kv_heads + g] - n_protected;
        most = fb_larger(most, k[g]);
    }
    FB_TRY(rank(c, fb_bound_rule_order(in->rule, c->ops, &select), most, k));
    if (fb_bound_rule_is_control(in->rule)) FB_TRY(draw(c, layer, most));
    return keep_best(c, layer, most, k);
}

static fb_status choose_layers(const struct choice *c)
{
    fb_status status = FB_OK;

    for (int64_t layer = 0; status == FB_OK && layer < c->in->layers; layer++) {
        fb_scope_open(c->ops);
        status = choose_layer(c, layer);
        fb_scope_close(c->ops);
    }
    return status;
}

/* The scores of what can be chosen, and how many entries each head keeps. */
static fb_status share(const struct choice *c)
{
    const fb_selector *in = c->in;
    const int64_t n_protected = c->p.sink + c->p.recent;
    const fb_spread_input spread = {
        .scores = c->first,
        .measured = in->measured,
        .n_layers = in->layers,
        .kv_heads = in->kv_heads,
        .m = in->n,
        .n_protected = n_protected,
        .k = c->out->k,
    };

    for (int64_t l = 0; l < in->layers; l++) {
        c->scores[l] =
            fb_narrow(c->ops, in->scores[l], 1, c->p.sink, in->n - n_protected);
        c->first[l] = fb_narrow(c->ops, c->scores[l], 0, 0, in->kv_heads);
    }
    FB_TRY(fb_ops_status(c->ops));
    return fb_bound_rule_share(in->rule, c->ops, &spread, c->k);
}

static fb_status open_choice(struct choice *c)
{
    const size_t layers = (size_t)c->in->layers, heads = (size_t)c->in->kv_heads;
    const size_t n = (size_t)c->in->n;
    const bool chooses = fb_bound_rule_chooses(c->in->rule);

    c->scores = fb_alloc(FB_ACCOUNT_scratch, layers * sizeof *c->scores);
    c->first = fb_alloc(FB_ACCOUNT_scratch, layers * sizeof *c->first);
    c->k = fb_alloc(FB_ACCOUNT_scratch, layers * heads * sizeof *c->k);
    c->best = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul(heads * n, sizeof *c->best));
    if (chooses)
        c->value =
            fb_alloc(FB_ACCOUNT_scratch, fb_size_mul(heads * n, sizeof *c->value));
    if (c->scores != NULL && c->first != NULL && c->k != NULL && c->best != NULL &&
        (c->value != NULL || !chooses))
        return FB_OK;
    return fb_fail(FB_NO_MEMORY, "no memory to select entries");
}

static void close_choice(struct choice *c)
{
    fb_free(c->scores);
    fb_free(c->first);
    fb_free(c->k);
    fb_free(c->best);
    fb_free(c->value);
}

static fb_status choose(fb_selection *out, fb_ops *ops, const fb_selector *in,
                        struct protection p, uint8_t *stays)
{
    struct choice c = {.out = out, .ops = ops, .in = in, .p = p, .stays = stays};
    fb_status status = open_choice(&c);

    fb_scope_open(ops);
    if (status == FB_OK) status = share(&c);
    if (status == FB_OK) status = choose_layers(&c);
    fb_scope_close(ops);
    close_choice(&c);
    return status;
}

static fb_status select_into(fb_selection *out, fb_ops *ops, const fb_selector *in,
                             uint8_t *stays)
{
    const bool fallback = fb_select_falls_back(in->rule, in->n);
    const struct protection p = protect(in, out->k, fallback);

    out->n_protected = p.sink + p.recent;
    if (out->k >= in->n) return keep_everything(out, in->n, stays);
    out->fallback = fallback;
    out->shrunk = out->k < out->n_protected;
    if (fallback || out->k <= out->n_protected) return keep_ends(out, in, p, stays);
    out->free_choices = in->layers * in->kv_heads * (out->k - out->n_protected);
    return choose(out, ops, in, p, stays);
}

fb_status fb_select(fb_selection *out, fb_ops *ops, const fb_selector *in, int64_t k)
{
    uint8_t *stays;
    fb_status status;

    *out = (fb_selection){.k = k, .budget_entries = in->layers * in->kv_heads * k};
    FB_ASSERT(k >= 1 && in->n >= 1 && in->kv_heads <= FB_MAX_KV_HEADS);
    if (fb_bound_rule_choices(in->rule)->reference != FB_REFERENCE_NONE)
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' chooses nothing: it is a row of an experiment",
                       fb_bound_rule_text(in->rule));
    if (fb_bound_rule_choices(in->rule)->keeps_all && k < in->n)
        return fb_fail(FB_BUDGET,
                       "'%s' keeps all %lld entries; the budget has %lld a head",
                       fb_bound_rule_text(in->rule), (long long)in->n, (long long)k);
    FB_TRY(fb_kept_new(&out->kept, in->layers * in->kv_heads));
    stays = fb_alloc(FB_ACCOUNT_scratch, (size_t)in->n);
    status = stays == NULL ? fb_fail(FB_NO_MEMORY, "no memory to select entries")
                           : select_into(out, ops, in, stays);
    fb_free(stays);
    if (status != FB_OK) fb_selection_clear(out);
    return status;
}

void fb_selection_clear(fb_selection *selection)
{
    fb_kept_clear(&selection->kept);
    *selection = (fb_selection){0};
}
