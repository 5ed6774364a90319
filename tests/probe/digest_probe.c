/* digest_probe.c - one hash over many cells of the built-in model, on whatever CPU this is.
 *
 * Links base, ops, model, cache, rule, select, engine and the rules; libc and threads only. It
 * works from token ids, so the tokenizer is left out (no_tokenizer.c). Every build of it, on
 * every instruction set, must print the same line.
 *
 *     digest_probe [plain|avx2|avx512|neon [THREADS]]
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/digest.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_TOKENS = 260,
    DOCUMENTS = 3,
    BUDGETS = 3,
    PROMPT = 2,
    ANSWER = 4,
    MOST = 12
};

static const char *const expressions[] = {
    "full",
    "random",
    "oracle",
    "recency",
    "streaming_llm",
    "knorm",
    "keydiff",
    "tova",
    "h2o",
    "snapkv",
    "observed_attention",
    "snapkv:window=16",
    "adakv(snapkv:window=16)",
    "blend(snapkv:window=16, recency)",
};
enum { RULES = sizeof expressions / sizeof expressions[0] };

static const int64_t budgets[BUDGETS] = {1, 26, 97};

static void stop_on(fb_status status)
{
    if (status == FB_OK) return;
    (void)fprintf(stderr, "digest_probe: %s\n", fb_error_message());
    exit(1);
}

/* Filler, pairs of a key and its value, and repeats: every signal has something to see. */
static int64_t make_text(int document, int32_t *ids)
{
    const int64_t n = document == 0 ? 40 : document == 1 ? 131 : MOST_TOKENS;
    uint64_t seed = (uint64_t)document + 1;

    ids[0] = 0;
    for (int64_t i = 1; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)(4 + (seed >> 33) % 60);
    }
    return n;
}

static void hash_answer(fb_hash *hash, const fb_reading *reading, int rule, int64_t k,
                        const fb_variant *variant, const fb_answer *answer)
{
    const fb_selection *selection = fb_variant_selection(variant);
    fb_digest_score scores[2 * ANSWER];
    fb_digest_cell cell = {.rule = expressions[rule],
                           .budget_entries = k,
                           .budget_bytes = (int64_t)fb_variant_bytes(variant),
                           .ids = answer->ids,
                           .n_ids = answer->n_ids,
                           .scores = scores,
                           .n_scores = 2 * ANSWER,
                           .fallback = selection != NULL && selection->fallback,
                           .trace_context = fb_reading_trace(reading),
                           .trace_answer = answer->trace_answer,
                           .trace_decode = answer->trace_decode};
    char kept[FB_HASH_HEX], hex[FB_HASH_HEX];

    fb_kept_sha256(selection == NULL ? NULL : &selection->kept, kept);
    cell.kept_sha256 = kept;
    for (int i = 0; i < ANSWER; i++) {
        scores[2 * i] = (fb_digest_score){"nll", answer->nll[i]};
        scores[2 * i + 1] = (fb_digest_score){"kl", answer->kl[i]};
    }
    fb_cell_digest(&cell, hex);
    fb_hash_add(hash, hex, 64);
}

static void run_budget(fb_hash *hash, fb_reading *reading, int64_t k)
{
    static const int32_t prompt[PROMPT] = {2, 20}, reference[ANSWER] = {44, 21, 45, 22};
    static const fb_protect protect = {FB_PROTECT_EXPERIMENT, 2, 4};
    const fb_question question = {prompt, reference, PROMPT, ANSWER};
    const fb_answer_options options = {.generate = true, .max_tokens = MOST};
    fb_variant *variant[RULES];
    fb_answer answer[RULES];

    stop_on(fb_foresee(reading, &question));
    for (int r = 0; r < RULES; r++)
        stop_on(r == 0 ? fb_keep_all(&variant[r], reading)
                       : fb_evict(&variant[r], reading, r, &protect, 0, k));
    stop_on(fb_answer_group(reading, variant, RULES, &question, &options, answer));
    for (int r = 0; r < RULES; r++) {
        hash_answer(hash, reading, r, k, variant[r], &answer[r]);
        fb_answer_clear(&answer[r]);
        fb_variant_free(variant[r]);
    }
}

static void run_document(fb_hash *hash, fb_engine *engine, fb_bound_rule *const *rules,
                         int document)
{
    fb_seeded_rule seeded[RULES];
    int32_t ids[MOST_TOKENS];
    const int64_t n = make_text(document, ids);
    fb_reading *reading;

    for (int r = 0; r < RULES; r++)
        seeded[r] = (fb_seeded_rule){rules[r], 7};
    stop_on(fb_read(&reading, engine, ids, n, seeded, RULES, (uint64_t)document));
    fb_hash_add(hash, fb_reading_cache_sha256(reading), 64);
    for (int b = 0; b < BUDGETS; b++)
        run_budget(hash, reading, budgets[b] < n ? budgets[b] : n);
    fb_reading_free(reading);
}

int main(int argc, char **argv)
{
    const fb_ops_options options = {.isa = argc > 1 ? argv[1] : NULL,
                                    .threads = argc > 2 ? atoi(argv[2]) : 0};
    fb_bound_rule *rules[RULES];
    fb_engine *engine;
    fb_model *model;
    fb_ops *ops;
    fb_hash hash;
    char hex[FB_HASH_HEX];

    for (int r = 0; r < RULES; r++)
        stop_on(fb_rule_parse(&rules[r], expressions[r]));
    stop_on(fb_ops_open(&ops, &options));
    stop_on(fb_model_open(&model, ops, "builtin", NULL));
    stop_on(fb_engine_open(&engine, ops, model, NULL));
    fb_hash_init(&hash);
    for (int d = 0; d < DOCUMENTS; d++)
        run_document(&hash, engine, rules, d);
    fb_hash_hex(&hash, hex);
    (void)printf("%s\n", hex);
    fb_engine_close(engine);
    fb_model_close(model);
    fb_ops_close(ops);
    for (int r = 0; r < RULES; r++)
        fb_bound_rule_free(rules[r]);
    return 0;
}
