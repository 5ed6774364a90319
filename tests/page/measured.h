/* measured.h - a results file made of lines that were measured on a real model.
 *
 * tests/golden/reference: SmolLM2-135M-Instruct, 16 documents, rules scored by kvpress.
 * Two of the three probes become tasks; answers are kept where they are known, that is,
 * where every token was right. What choosing costs is left out: it was not measured.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_PAGE_MEASURED_H
#define TESTS_PAGE_MEASURED_H

#include "tests/support/golden.h"
#include "tests/support/results.h"

#define MEASURED "tests/golden/reference/"

enum { MEASURED_DOCUMENTS = 16, MEASURED_TASKS = 2 };

static const struct measured_rule {
    const char *line, *label, *expression, *family;
    bool deployable, is_random, is_reference;
} measured_rules[] = {
    {"full", "full", "full", "reference", true, false, true},
    {"oracle", "oracle", "oracle", "reference", false, false, true},
    {"random_protected", "random", "random", "random", true, true, true},
    {"keydiff", "keydiff", "keydiff", "key", true, false, false},
    {"knorm", "knorm", "knorm", "key", true, false, false},
    {"h2o", "observed_attention", "observed_attention", "attention", true, false,
     false},
    {"snapkv", "snapkv", "snapkv:window=64,kernel=5,pool=avg", "attention", true, false,
     false},
    {"snapkv16", "snapkv-16", "snapkv:window=16,kernel=5,pool=avg", "attention", true,
     false, false},
    {"streaming", "streaming_llm", "streaming_llm:sink=4", "position", true, false,
     false},
};
enum { MEASURED_RULES = (int)(sizeof measured_rules / sizeof *measured_rules) };

struct measured {
    struct results_ids base;
    int64_t task[MEASURED_TASKS];
    int64_t sample[MEASURED_TASKS][MEASURED_DOCUMENTS];
    int64_t tokens[MEASURED_DOCUMENTS];
    char answer[MEASURED_DOCUMENTS][16];
    int64_t rule[MEASURED_RULES], full, half, fifth;
};

static inline void measured_begin(struct measured *m, fb_store *store)
{
    const fb_store_experiment experiment = {
        .name = "which-signal",
        .question = "Which signal keeps most of the full cache at 20 and 50 %?",
        .spec = "name: which-signal\nmodel: {file: SmolLM2-135M-Instruct.Q4_1.gguf}\n"
                "budgets: [50%, 20%]\nprotocol: {kind: prefill, query: agnostic, "
                "protect: published, rounding: kvpress}\n",
        .spec_sha256 = "5bec0000000000000000000000000000"
                       "00000000000000000000000000000002",
        .class_name = "open",
        .class_reasons = "published protection",
        .program = "flexbudget 0.1.0",
        .baseline = "random",
        .kernel = "torch.f32.sdpa",
        .protocol = "prefill.agnostic.original",
        .protection = "published",
        .compute = "report",
    };
    const fb_store_model model = {
        .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        .name = "SmolLM2-135M-Instruct.Q4_1",
        .architecture = "llama",
        .layers = 30,
        .heads = 9,
        .kv_heads = 3,
        .head_dim = 64,
        .facts = "{\"title\": \"Smollm2 135M 8k Lc100K Mix1 Ep2\"}",
    };

    assert_ok(fb_store_put_experiment(store, &experiment, &m->base.experiment));
    assert_ok(fb_store_put_host(store, "4057", "{\"cpu\": \"2 cores, AVX-512\"}",
                                &m->base.host));
    assert_ok(fb_store_put_model(store, &model, &m->base.model));
    m->task[0] = results_task(store, "needle", "kl", true);
    m->task[1] = results_task(store, "continuation", "kl", true);
    m->full = results_budget(store, "full");
    for (int b = 0; b < 2; b++) {
        const fb_store_budget budget = {b == 0 ? "50%" : "20%", "ratio",
                                        b == 0 ? "0.5" : "0.2"};

        assert_ok(fb_store_put_budget(store, &budget, b == 0 ? &m->half : &m->fifth));
    }
    for (int r = 0; r < MEASURED_RULES; r++) {
        const struct measured_rule *from = &measured_rules[r];
        const fb_store_rule rule = {.label = from->label,
                                    .expression = from->expression,
                                    .family = from->family,
                                    .origin = "built-in",
                                    .abi = 1,
                                    .deployable = from->deployable,
                                    .accounted = true,
                                    .is_random = from->is_random,
                                    .is_reference = from->is_reference};

        assert_ok(fb_store_put_rule(store, &rule, &m->rule[r]));
    }
}

/* The answers are numbers, one token per digit after the first: '0' is token 32. */
static inline void measured_sample(struct measured *m, fb_store *store, json_t *line)
{
    const int doc = (int)golden_number(line, "doc");
    const char *context = json_string_value(golden_at(line, "context"));
    const char *fact = strstr(context, "The secret number for ");
    const json_t *ids = golden_at(line, "answer_ids");
    char key[16], question[128], hash[65];
    size_t n = 0;

    assert_non_null(fact);
    for (size_t i = 1; i < json_array_size(ids); i++)
        m->answer[doc][n++] =
            (char)('0' + json_integer_value(json_array_get(ids, i)) - 32);
    (void)snprintf(key, sizeof key, "%d", doc);
    (void)snprintf(question, sizeof question, "What is t%.*s?",
                   (int)(strstr(fact, " is ") - fact - 1), fact + 1);
    for (int t = 0; t < MEASURED_TASKS; t++) {
        const fb_store_sample sample = {
            .task = m->task[t],
            .key = key,
            .context_tokens = (int64_t)golden_number(line, "context_tokens"),
            .question_tokens = t == 0 ? 12 : 0,
            .tokens_sha256 = hash,
            .context = context,
            .question = t == 0 ? question : NULL,
            .expected = t == 0 ? m->answer[doc] : NULL,
            .depth = t == 0 ? golden_number(line, "depth") : -1};

        (void)snprintf(hash, sizeof hash, "%064d", 100 * t + doc);
        m->tokens[doc] = sample.context_tokens;
        assert_ok(fb_store_put_sample(store, &sample, &m->sample[t][doc]));
    }
}

static inline void measured_cell(struct measured *m, fb_store *store, json_t *line)
{
    const char *probe = json_string_value(golden_at(line, "probe"));
    const char *name = json_string_value(golden_at(line, "rule"));
    const double kept = golden_number(line, "kept");
    const int doc = (int)golden_number(line, "doc");
    const int t = strcmp(probe, "needle_agnostic") == 0 ? 0
                  : strcmp(probe, "continuation") == 0  ? 1
                                                        : -1;
    const fb_store_score scores[] = {{"kl", golden_number(line, "kl")},
                                     {"nll", golden_number(line, "nll")},
                                     {"top1", golden_number(line, "top1")},
                                     {"em", golden_number(line, "em")}};
    const int64_t full = 90 * m->tokens[doc];
    const int64_t entries = (int64_t)(kept * (double)full);
    const fb_store_peak peaks[] = {
        {"context", "kv", 512 * full},           {"context", "rule_state", 0},
        {"answer", "kv", 512 * entries},         {"answer", "rule_state", 0},
        {"evict", "kv", 512 * (full + entries)}, {"evict", "rule_state", 0}};

    for (int r = 0; r < MEASURED_RULES && t >= 0; r++) {
        const int64_t budget = kept > 0.9 ? m->full : kept > 0.4 ? m->half : m->fifth;
        fb_store_cell cell;

        if (strcmp(measured_rules[r].line, name) != 0) continue;
        cell = results_cell(&m->base, m->sample[t][doc], m->rule[r], budget, kept);
        cell.full_entries = full;
        cell.kept_entries = cell.budget_entries = cell.free_choices = entries;
        cell.kept_bytes = cell.budget_bytes = 512 * entries;
        cell.peak_bytes = 512 * full;
        cell.evicted = full - entries;
        cell.answer = t == 0 && golden_number(line, "em") > 0 ? m->answer[doc] : NULL;
        cell.peaks = peaks;
        cell.n_peaks = kept > 0.9 ? 4 : 6;
        cell.scores = scores;
        cell.n_scores = t == 0 ? 4 : 3;
        assert_ok(fb_store_put_cell(store, &cell));
    }
}

static inline void measured_lines(struct measured *m, fb_store *store, const char *file,
                                  void (*put)(struct measured *, fb_store *, json_t *))
{
    static char text[1 << 16];
    FILE *lines = fopen(file, "r");

    assert_non_null(lines);
    while (fgets(text, sizeof text, lines) != NULL) {
        json_t *line = json_loads(text, 0, NULL);

        assert_non_null(line);
        put(m, store, line);
        json_decref(line);
    }
    assert_int_equal(fclose(lines), 0);
}

static inline void measured_fill(fb_store *store)
{
    struct measured m = {0};

    measured_begin(&m, store);
    measured_lines(&m, store, MEASURED "example_prompts.jsonl", measured_sample);
    measured_lines(&m, store, MEASURED "example_results.jsonl", measured_cell);
}

#endif
