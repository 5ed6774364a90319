/* variant.c - evicting: the entries that stay move into an arena of exactly their
 * bytes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"

#include "base/check.h"
#include "engine/stream.h"

#include <string.h>

fb_status fb_variant_new(fb_variant **out, fb_reading *reading)
{
    *out = fb_zalloc(FB_ACCOUNT_other, sizeof **out);
    if (*out == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a variant");
    (*out)->reading = reading;
    (*out)->next = (*out)->next_in_windows = reading->n;
    return FB_OK;
}

static fb_status choose(fb_variant *variant, int rule, const fb_protect *protect,
                        int64_t protect_last, int64_t k)
{
    fb_reading *reading = variant->reading;
    const fb_engine *engine = reading->engine;
    const int64_t block = fb_bound_rule_choices(reading->rules[rule].rule)->block;
    const fb_selector in = {.rule = reading->rules[rule].rule,
                            .protect = *protect,
                            .layers = engine->shape.layers,
                            .kv_heads = engine->shape.kv_heads,
                            .n = reading->n,
                            .protect_last = protect_last,
                            .seed = reading->rules[rule].seed,
                            .stream = reading->stream,
                            .scores = reading->rules[rule].scores,
                            .measured = reading->rules[rule].measured};

    if (block > 0 && k + block < reading->n) /* one block has the scores of all */
        return fb_choose_by_blocks(&variant->selection, reading, &reading->rules[rule],
                                   &in, k);
    return fb_select(&variant->selection, engine->ops, &in, k);
}

/* The entries of a slot to the positions that end before `next`. */
static fb_status renumber_slot(fb_variant *variant, int64_t slot, int64_t *by)
{
    const fb_kept *kept = &variant->selection.kept;
    const int64_t m = kept->count[slot];

    for (int64_t j = 0; j < m; j++)
        by[j] = variant->next - m + j - kept->position[slot][j];
    return fb_turn_keys(variant->reading->engine, variant->arena, slot,
                        variant->reading->n, by, m);
}

static fb_status renumber(fb_variant *variant)
{
    const fb_kept *kept = &variant->selection.kept;
    int64_t *by =
        fb_alloc(FB_ACCOUNT_scratch, (size_t)variant->reading->n * sizeof *by);
    fb_status status = FB_OK;

    if (by == NULL) return fb_fail(FB_NO_MEMORY, "no memory for positions");
    variant->next = variant->selection.budget_entries / kept->n_slots;
    for (int64_t s = 0; status == FB_OK && s < kept->n_slots; s++)
        status = renumber_slot(variant, s, by);
    fb_free(by);
    return status;
}

/* `rule` NULL: none has chosen. */
static fb_status move(fb_variant *variant, const fb_bound_rule *rule)
{
    const fb_reading *reading = variant->reading;
    const fb_selection *selection = &variant->selection;

    FB_TRY(fb_cache_evict(&variant->arena, reading->engine->ops, reading->cache,
                          &selection->kept, selection->budget_entries));
    if (rule != NULL && fb_bound_rule_edits(rule))
        FB_TRY(fb_variant_edit(variant, rule));
    return reading->engine->options.compact ? renumber(variant) : FB_OK;
}

/* A mask shows no values but those of the context: where they are edited, entries move. */
static fb_status hide(fb_variant *variant, const fb_bound_rule *rule)
{
    const fb_reading *reading = variant->reading;
    const fb_selection *selection = &variant->selection;

    if (fb_bound_rule_edits(rule)) return move(variant, rule);
    FB_ASSERT(!reading->engine->options.compact);
    return fb_cache_hide(&variant->hidden, reading->engine->ops, reading->cache,
                         &selection->kept, selection->budget_entries);
}

static fb_status copy_kept(fb_kept *out, const fb_kept *kept)
{
    FB_TRY(fb_kept_new(out, kept->n_slots));
    for (int64_t s = 0; s < kept->n_slots; s++) {
        const size_t bytes = (size_t)kept->count[s] * sizeof(int32_t);

        out->position[s] = fb_alloc(FB_ACCOUNT_other, bytes);
        if (out->position[s] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
        memcpy(out->position[s], kept->position[s], bytes);
        out->count[s] = kept->count[s];
    }
    return FB_OK;
}

/* What stays of a variant and how, with all that this takes. */
struct eviction {
    int rule;
    const fb_protect *protect;
    int64_t protect_last, k;
    const fb_kept *given; /* chosen elsewhere; NULL: the rule chooses */
    fb_status (*keep)(fb_variant *, const fb_bound_rule *);
};

static fb_status choose_or_copy(fb_variant *variant, const struct eviction *how)
{
    fb_selection *selection = &variant->selection;

    FB_ASSERT(how->given != NULL || how->protect != NULL);
    if (how->given == NULL)
        return choose(variant, how->rule, how->protect, how->protect_last, how->k);
    selection->budget_entries = how->k;
    return copy_kept(&selection->kept, how->given);
}

static fb_status evict(fb_variant **out, fb_reading *reading,
                       const struct eviction *how)
{
    const fb_engine *engine = reading->engine;
    fb_ledger *ledger;
    fb_place before;
    fb_status status;

    FB_ASSERT(reading->cache != NULL);
    FB_TRY(fb_variant_new(out, reading));
    before = fb_enter(engine, FB_PHASE_evict, FB_SCOPE_select);
    ledger = &(*out)->ledger;
    fb_ops_charge(engine->ops, &ledger, 1);
    status = choose_or_copy(*out, how);
    if (status == FB_OK)
        status =
            how->keep(*out, how->given != NULL ? NULL : reading->rules[how->rule].rule);
    fb_ops_charge(engine->ops, NULL, 0);
    fb_ops_move(engine->ops, before);
    if (status == FB_OK) return FB_OK;
    fb_variant_free(*out);
    *out = NULL;
    return status;
}

fb_status fb_evict(fb_variant **out, fb_reading *reading, int rule,
                   const fb_protect *protect, int64_t protect_last, int64_t k)
{
    FB_ASSERT(rule >= 0 && rule < reading->n_rules);
    return evict(out, reading,
                 &(struct eviction){rule, protect, protect_last, k, NULL, move});
}

fb_status fb_evict_masked(fb_variant **out, fb_reading *reading, int rule,
                          const fb_protect *protect, int64_t protect_last, int64_t k)
{
    FB_ASSERT(rule >= 0 && rule < reading->n_rules);
    return evict(out, reading,
                 &(struct eviction){rule, protect, protect_last, k, NULL, hide});
}

fb_status fb_evict_given(fb_variant **out, fb_reading *reading, const fb_kept *kept,
                         int64_t budget_entries)
{
    return evict(out, reading,
                 &(struct eviction){.k = budget_entries, .given = kept, .keep = move});
}

fb_status fb_keep_all(fb_variant **out, fb_reading *reading)
{
    return fb_variant_new(out, reading);
}

void fb_variant_free(fb_variant *variant)
{
    if (variant == NULL) return;
    fb_selection_clear(&variant->selection);
    if (variant->stream != NULL) {
        fb_stream_free(variant->stream);
    } else {
        fb_cache_free(variant->arena);
        fb_cache_free(variant->sliding);
    }
    fb_free(variant->hidden);
    fb_free(variant);
}

const fb_selection *fb_variant_selection(const fb_variant *variant)
{
    return variant->selection.kept.n_slots > 0 ? &variant->selection : NULL;
}

size_t fb_variant_bytes(const fb_variant *variant)
{
    const fb_reading *reading = variant->reading;

    if (variant->packed_bytes > 0) return variant->packed_bytes;
    if (variant->hidden != NULL)
        return (size_t)fb_kept_total(&variant->selection.kept) *
               fb_entry_bytes(&reading->engine->shape);
    return fb_cache_bytes(variant->arena != NULL ? variant->arena : reading->cache) +
           (variant->pays_state ? variant->state_bytes : 0);
}

size_t fb_variant_state_bytes(const fb_variant *variant)
{
    return variant->state_bytes;
}

int64_t fb_variant_highest(const fb_variant *variant)
{
    return variant->highest;
}

bool fb_variant_is_alone(const fb_variant *variant)
{
    return variant->arena != NULL && variant->hidden == NULL;
}

bool fb_mask_pays(const fb_engine *engine, int64_t n, int64_t k)
{
    return fb_ops_is_exact(engine->ops) && !engine->options.compact && 4 * k >= n;
}

const fb_ledger *fb_variant_ledger(const fb_variant *variant)
{
    return &variant->ledger;
}

fb_part fb_variant_part(const fb_variant *variant, int64_t index, int64_t kv_head)
{
    const fb_reading *reading = variant->reading;
    const int64_t slot = index * reading->engine->shape.kv_heads + kv_head;
    fb_part part = fb_cache_part(
        variant->arena != NULL ? variant->arena : reading->cache, index, kv_head);

    if (variant->hidden == NULL) return part;
    part.hidden = variant->hidden + slot * reading->n;
    part.n_open = variant->selection.kept.count[slot];
    return part;
}

fb_part fb_variant_window(const fb_variant *variant, int64_t index, int64_t kv_head)
{
    return fb_cache_part(variant->sliding != NULL ? variant->sliding
                                                  : variant->reading->sliding,
                         index, kv_head);
}

bool fb_variant_streamed(const fb_variant *variant)
{
    return variant->read_itself;
}

const char *fb_variant_trace(const fb_variant *variant)
{
    return variant->read_itself ? variant->trace : variant->reading->trace;
}
