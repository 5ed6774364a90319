/* replay.c - the context is read a second time behind itself, for rules that want to know
 * what of it the model needs to say it again.
 *
 * Piece by piece, each with what its rule wants to be said before it, as the tail of a full
 * cache, which stays as it is. In blocks of rows, so that attention of a block is all there
 * is of it; of that only the largest is kept.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "engine/batch.h"
#include "engine/draft.h"

#include <string.h>

enum { COLUMNS = 1, QUERIES = 1 };
enum { BYTES_PER_TOKEN = 4 };              /* of English text, about */
static const double SMALLEST_NORM = 1e-30; /* nothing was read: 0, not 0/0 */

typedef struct replaying {
    fb_reading *reading;
    const fb_replay *how;
    const int32_t *context; /* ids */
    fb_variant *full;
    fb_batch_room room;
    fb_tensor *seen; /* [layers] of [heads, entries of the pieces so far]; persistent */
    fb_ledger ledger, *payer;
    size_t bytes; /* of keys and values beside the context's, at most */
    /* The piece at work: */
    int64_t first, n; /* tokens of the context */
    fb_ids fed;       /* what is read, the piece in the end */
    fb_tail *tail;
    fb_cache *own;         /* sinks and piece, or NULL */
    const fb_cache *shown; /* what the rows of attention are of: `own` or all */
    int64_t column;        /* of the first entry of the piece */
} replaying;

/* --- what is fed --- */

/* Of a model that is known from its numbers alone: a token for every few bytes. */
static fb_status guess_tokens(size_t bytes, fb_ids *out)
{
    for (size_t i = 0; i < bytes; i += BYTES_PER_TOKEN)
        FB_TRY(fb_ids_add(out, 0));
    return FB_OK;
}

static fb_status add_text(const replaying *r, const char *text, bool special,
                          fb_ids *out)
{
    const fb_tokenizer *tokenizer = fb_model_tokenizer(r->reading->engine->model);
    const fb_piece piece = {.bytes = text, .n = strlen(text), .special = special};

    if (tokenizer == NULL) return guess_tokens(piece.n, out);
    return fb_tokenizer_encode(tokenizer, &piece, 1, out);
}

static fb_status add_context(const replaying *r, int64_t first, int64_t n, fb_ids *out)
{
    for (int64_t i = 0; i < n; i++)
        FB_TRY(fb_ids_add(out, r->context[first + i]));
    return FB_OK;
}

/* What ends a user's turn. */
static const char *turn_end(const replaying *r)
{
    const fb_engine *engine = r->reading->engine;
    const char *end = engine->options.turn_end;

    return end != NULL ? end : fb_model_template(engine->model)->after;
}

static fb_status add_before(const replaying *r, fb_ids *out)
{
    const char *text = r->first == 0 ? r->how->first : r->how->later;
    const char *end = turn_end(r);
    const int64_t overlap = fb_smaller(r->how->overlap, r->first);

    if (text != NULL) FB_TRY(add_text(r, text, false, out));
    FB_TRY(add_context(r, r->first - overlap, overlap, out));
    return text == NULL ? FB_OK : add_text(r, end, true, out);
}

/* --- what it is compared with --- */

/* Sinks and piece alone; they are few, and the cache of the context is not touched. */
static fb_status open_own(replaying *r)
{
    const fb_engine *engine = r->reading->engine;
    const int64_t slots = engine->shape.layers * engine->shape.kv_heads;
    const int64_t sinks = fb_smaller(r->how->sinks, r->first), end = r->first + r->n;
    uint8_t *stays = fb_zalloc(FB_ACCOUNT_scratch, (size_t)end);
    fb_kept kept = {0};
    fb_status status;

    if (stays == NULL) return fb_fail(FB_NO_MEMORY, "no memory to read a text again");
    memset(stays, 1, (size_t)sinks);
    memset(stays + r->first, 1, (size_t)r->n);
    status = fb_kept_new(&kept, slots);
    for (int64_t s = 0; status == FB_OK && s < slots; s++)
        status = fb_kept_set(&kept, s, stays, end);
    if (status == FB_OK)
        status = fb_cache_evict(&r->own, engine->ops, r->reading->cache, &kept,
                                slots * (sinks + r->n));
    fb_kept_clear(&kept);
    fb_free(stays);
    r->shown = r->own;
    r->column = sinks;
    return status;
}

static fb_status open_shown(replaying *r)
{
    r->shown = r->reading->cache;
    r->column = r->first;
    return r->how->sees_all || r->n == r->reading->n ? FB_OK : open_own(r);
}

/* --- a block --- */

/* The entries of the piece get the larger of what they had and `most` [heads, n]. */
static void keep_most(replaying *r, int64_t layer, fb_tensor most)
{
    fb_ops *ops = r->reading->engine->ops;
    const fb_tensor before = r->seen[layer];
    const int64_t n = before.id == 0 ? 0 : fb_size(ops, before, COLUMNS);

    if (n > r->first)
        most = fb_maximum(ops, fb_narrow(ops, before, COLUMNS, r->first, r->n), most);
    if (r->first > 0)
        most = fb_cat(ops, fb_narrow(ops, before, COLUMNS, 0, r->first), most, COLUMNS);
    r->seen[layer] = fb_persist(ops, FB_ACCOUNT_signals, most);
    fb_release(ops, before);
}

/* Rows over the norm of what attention read of each token. */
static fb_tensor by_norm(fb_ops *ops, fb_tensor rows, fb_tensor normed)
{
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_NORM);
    const fb_tensor square = fb_sum(ops, fb_mul(ops, normed, normed), 1);
    const fb_tensor norm = fb_maximum(ops, fb_sqrt(ops, square), least);

    return fb_div(ops, rows,
                  fb_reshape(ops, norm, 3, (int64_t[]){1, fb_size(ops, norm, 0), 1}));
}

static fb_status see_layer(void *self, int64_t layer, const fb_batch *batch)
{
    replaying *r = self;
    fb_ops *ops = r->reading->engine->ops;
    const fb_place before =
        fb_enter(r->reading->engine, FB_PHASE_context, FB_SCOPE_signal);
    const fb_tensor rows =
        r->how->by_hidden ? by_norm(ops, batch->rows, batch->normed) : batch->rows;
    const fb_tensor most = fb_amax(ops, rows, QUERIES);

    keep_most(r, layer, fb_narrow(ops, most, COLUMNS, r->column, r->n));
    fb_ops_move(ops, before);
    return fb_ops_status(ops);
}

static fb_status run_block(replaying *r, int64_t at, int64_t t)
{
    const int64_t zero = 0;
    const fb_variant *const variants[] = {r->full};
    fb_batch batch = {.reading = r->reading,
                      .variants = variants,
                      .n = 1,
                      .t = t,
                      .tail = r->tail,
                      .sequence = &zero,
                      .at = &at,
                      .ids = r->fed.ids + at,
                      .shown = r->shown,
                      .after_layer = see_layer,
                      .self = r,
                      .room = &r->room};
    fb_ops *ops = r->reading->engine->ops;
    fb_tensor x;
    fb_status status;

    fb_scope_open(ops);
    status = fb_batch_run(&batch, &x);
    fb_scope_close(ops);
    return status;
}

/* --- a piece --- */

static void note_bytes(replaying *r, int64_t tokens)
{
    const size_t tail = fb_tail_bytes(&r->reading->engine->all, tokens);
    const size_t bytes = tail + (r->own == NULL ? 0 : fb_cache_bytes(r->own));

    if (bytes > r->bytes) r->bytes = bytes;
}

static void close_piece(replaying *r)
{
    fb_ids_clear(&r->fed);
    fb_tail_free(r->tail);
    fb_cache_free(r->own);
    r->fed = (fb_ids){0};
    r->tail = NULL;
    r->own = NULL;
}

static fb_status run_piece(replaying *r)
{
    const fb_engine *engine = r->reading->engine;
    const int64_t chunk = engine->options.chunk;
    fb_status status;

    FB_TRY(add_before(r, &r->fed));
    FB_TRY(add_context(r, r->first, r->n, &r->fed));
    FB_TRY(fb_reading_fits(engine->facts, r->reading->n + r->fed.n));
    FB_TRY(fb_tail_new(&r->tail, engine->ops, &engine->all, 1, r->fed.n));
    FB_TRY(open_shown(r));
    note_bytes(r, r->fed.n);
    status = fb_batch_room_new(&r->room, engine, 1, chunk);
    for (int64_t at = 0; status == FB_OK && at < r->fed.n; at += chunk)
        status = run_block(r, at, fb_smaller(chunk, r->fed.n - at));
    fb_batch_room_free(&r->room);
    return status;
}

static fb_status run_pieces(replaying *r)
{
    fb_status status = FB_OK;

    for (; status == FB_OK && r->first < r->reading->n; r->first += r->n) {
        r->n = fb_smaller(r->how->piece, r->reading->n - r->first);
        status = run_piece(r);
        close_piece(r);
    }
    return status;
}

static fb_status run_draft(replaying *r)
{
    fb_status status = add_text(r, turn_end(r), true, &r->fed);

    if (status == FB_OK && r->fed.n == 0)
        status = add_context(r, r->reading->n - 1, 1, &r->fed);
    note_bytes(r, r->fed.n + r->how->draft);
    if (status == FB_OK)
        status = fb_draft(r->reading, r->full, &r->fed, r->how->draft, r->seen);
    fb_ids_clear(&r->fed);
    return status;
}

/* --- rules --- */

/* How the rule wants it; NULL: it does not, or has no score of so few tokens. */
static const fb_replay *asks(const fb_reading *reading, int rule)
{
    const fb_bound_rule *bound = reading->rules[rule].rule;

    return fb_select_falls_back(bound, reading->n) ? NULL : fb_bound_rule_replay(bound);
}

static bool asks_the_same(const fb_reading *reading, int rule, const fb_replay *how)
{
    const fb_replay *own = asks(reading, rule);

    return own != NULL && fb_replay_is_same(own, how);
}

static bool was_done(const fb_reading *reading, int rule)
{
    for (int r = 0; r < rule; r++)
        if (asks_the_same(reading, r, asks(reading, rule))) return true;
    return false;
}

/* A rule pays for all of it, as if it were alone. */
static fb_status score(replaying *r, fb_scored_rule *rule)
{
    const int64_t layers = r->reading->engine->shape.layers;
    fb_ops *ops = r->reading->engine->ops;
    fb_status status = FB_OK;

    fb_ledger_add_as(&rule->ledger, FB_PHASE_context, FB_SCOPE_signal, &r->ledger);
    rule->again_bytes = r->bytes;
    r->payer = &rule->ledger;
    for (int64_t l = 0; status == FB_OK && l < layers; l++) {
        const fb_layer_signals seen = {.replay = r->seen[l]};

        fb_ops_use_part(ops, fb_part_of_layer(ops, l, layers));
        status = fb_reading_score_layer(r->reading, rule, l, &seen);
    }
    return status;
}

static fb_status replay(replaying *r)
{
    fb_reading *reading = r->reading;
    const fb_place before = fb_enter(reading->engine, FB_PHASE_context, FB_SCOPE_model);
    fb_status status;

    r->seen = fb_zalloc(FB_ACCOUNT_other,
                        (size_t)reading->engine->shape.layers * sizeof *r->seen);
    status = r->seen == NULL ? fb_fail(FB_NO_MEMORY, "no memory to read a text again")
                             : fb_keep_all(&r->full, reading);
    r->payer = &r->ledger;
    fb_ops_charge(reading->engine->ops, &r->payer, 1);
    if (status == FB_OK) status = r->how->draft > 0 ? run_draft(r) : run_pieces(r);
    for (int i = 0; status == FB_OK && i < reading->n_rules; i++)
        if (asks_the_same(reading, i, r->how)) status = score(r, &reading->rules[i]);
    fb_ops_charge(reading->engine->ops, NULL, 0);
    fb_ops_move(reading->engine->ops, before);
    return status;
}

static void close_replay(replaying *r)
{
    const int64_t layers = r->reading->engine->shape.layers;

    for (int64_t l = 0; r->seen != NULL && l < layers; l++)
        fb_release(r->reading->engine->ops, r->seen[l]);
    fb_free(r->seen);
    fb_variant_free(r->full);
}

fb_status fb_reading_replay(fb_reading *reading, const int32_t *ids)
{
    fb_status status = FB_OK;

    for (int i = 0; status == FB_OK && i < reading->n_rules; i++) {
        replaying r = {.reading = reading, .how = asks(reading, i), .context = ids};

        if (r.how == NULL || was_done(reading, i)) continue;
        status = replay(&r);
        close_replay(&r);
    }
    return status;
}
