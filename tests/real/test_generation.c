/* test_generation.c - answers from an evicted cache are those of kvpress's pipeline.
 *
 * A prompt is read and evicted once, a question follows at its original positions, then
 * a greedy answer. kvpress stored, per step, the log-sum-exp and the eight largest
 * logits. Two things must hold: every token of the free answer is the same, and the
 * log-probability of each token under teacher forcing, logit minus log-sum-exp, is
 * within 2e-3. Of the first step all eight are compared.
 *
 * Kept sets may differ in near ties (test_kept.c); one such entry moves the logits more
 * than rounding does.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/reference.h"

#include <string.h>

enum { LAYERS = 30, KV_HEADS = 3, N_TOP = 8 };

static const struct {
    const char *press, *rule;
} pairs[] = {
    {"none", "full"},
    {"knorm", "knorm"},
    {"snapkv", "snapkv"},
    {"tova", "tova"},
    {"streaming_llm", "streaming_llm:sink=4"},
    {"adakv_snapkv", "adakv(snapkv)"},
};

enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static rig the;

static int pair_of(json_t *one)
{
    const char *press = json_string_value(json_object_get(one, "press"));

    for (int r = 0; r < N_PAIRS; r++)
        if (strcmp(pairs[r].press, press) == 0) return r;
    return -1;
}

static fb_variant *evict(fb_reading *reading, int r, double ratio, int64_t n)
{
    const fb_protect protect = {.kind = FB_PROTECT_PUBLISHED};
    const int64_t percent = (int64_t)(100 - 100 * ratio + 0.5);
    const fb_budget budget = {
        .kind = FB_BUDGET_RATIO, .numerator = percent, .denominator = 100};
    const fb_cache_shape shape = {LAYERS, KV_HEADS, 64};
    fb_variant *out;

    if (r == 0) {
        must(fb_keep_all(&out, reading));
    } else {
        const int64_t k = fb_budget_entries(&budget, &shape, n, FB_ROUND_KVPRESS);

        must(fb_evict(&out, reading, r, &protect, 0, k));
    }
    return out;
}

static double log_probability(json_t *step, size_t which)
{
    json_t *logits = json_object_get(step, "top_logits");

    return json_number_value(json_array_get(logits, which)) -
           golden_number(step, "logsumexp");
}

/* The eight largest logits of the first step: each as an answer of one token. */
static double first_step_differs(fb_reading *reading, fb_variant *variant,
                                 const id_list *prompt, json_t *step)
{
    const fb_answer_options options = {.generate = false};
    id_list top = reference_ids(json_object_get(step, "top_ids"));
    double most = 0;

    assert_int_equal(top.n, N_TOP);
    for (int64_t i = 0; i < top.n; i++) {
        const fb_question question = {.prompt = prompt->ids,
                                      .n_prompt = prompt->n,
                                      .answer = &top.ids[i],
                                      .n_answer = 1};
        fb_answer answer;

        must(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
        most = fmax(most, fabs(log_probability(step, (size_t)i) + answer.nll[0]));
        fb_answer_clear(&answer);
    }
    fb_free(top.ids);
    return most;
}

/* A free answer stops before its first end token; kvpress never stops at the first
 * token, and keeps the end token it stops at. */
static int64_t before_end(const id_list *tokens)
{
    const fb_tokenizer *tokenizer = fb_model_tokenizer(the.model);
    int64_t n = 0;

    while (n < tokens->n && !fb_tokenizer_is_end(tokenizer, tokens->ids[n]))
        n++;
    return n;
}

static double steps_differ(const fb_answer *answer, json_t *steps)
{
    double most = 0;

    for (size_t i = 0; i < json_array_size(steps); i++)
        most = fmax(
            most, fabs(log_probability(json_array_get(steps, i), 0) + answer->nll[i]));
    return most;
}

/* The answer under teacher forcing: every token is the likeliest. */
static double forced_differs(fb_reading *reading, fb_variant *variant,
                             const fb_question *question, json_t *steps)
{
    const fb_answer_options options = {.generate = false};
    fb_answer answer;
    double most;

    must(fb_answer_group(reading, &variant, 1, question, &options, &answer));
    assert_memory_equal(answer.top1, question->answer,
                        (size_t)question->n_answer * sizeof(int32_t));
    most = steps_differ(&answer, steps);
    fb_answer_clear(&answer);
    return most;
}

/* The free answer: a reference that begins otherwise makes the engine decode it all. */
static void check_free(fb_reading *reading, fb_variant *variant, const id_list *prompt,
                       const id_list *tokens)
{
    const int32_t other = tokens->ids[0] + 1;
    const fb_answer_options options = {.generate = true, .max_tokens = tokens->n};
    const fb_question question = {
        .prompt = prompt->ids, .n_prompt = prompt->n, .answer = &other, .n_answer = 1};
    fb_answer answer;

    must(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
    assert_int_equal(answer.n_ids, before_end(tokens));
    assert_memory_equal(answer.ids, tokens->ids,
                        (size_t)answer.n_ids * sizeof(int32_t));
    fb_answer_clear(&answer);
}

static void check_case(fb_reading *reading, const id_list *prompt, json_t *one)
{
    json_t *steps = json_object_get(one, "steps");
    const double ratio = golden_number(one, "ratio");
    const int r = pair_of(one);
    id_list tokens = reference_ids(json_object_get(one, "tokens"));
    fb_variant *variant = evict(reading, r, ratio, fb_reading_tokens(reading));
    const fb_question question = {.prompt = prompt->ids,
                                  .n_prompt = prompt->n,
                                  .answer = tokens.ids,
                                  .n_answer = tokens.n};
    const double of_steps = forced_differs(reading, variant, &question, steps);
    const double of_first =
        first_step_differs(reading, variant, prompt, json_array_get(steps, 0));

    print_message("%-6s %-20s at %-4g: %2lld steps, log-probabilities differ by %.2g "
                  "(first step %.2g)\n",
                  json_string_value(json_object_get(one, "prompt")), pairs[r].rule,
                  ratio, (long long)tokens.n, of_steps, of_first);
    assert_true(of_steps <= 2e-3 && of_first <= 2e-3);
    check_free(reading, variant, prompt, &tokens);
    fb_variant_free(variant);
    fb_free(tokens.ids);
}

static void check_prompt(const char *name)
{
    json_t *reference = golden_load(REFERENCE "generation.json");
    json_t *cases = json_object_get(reference, "cases");
    id_list prompt = reference_prompt(name);
    id_list question = reference_ids(json_object_get(reference, "question_ids"));
    fb_bound_rule *rule[N_PAIRS];
    fb_seeded_rule rules[N_PAIRS];
    fb_reading *reading;
    int n_cases = 0;

    for (int r = 0; r < N_PAIRS; r++) {
        must(fb_rule_parse(&rule[r], pairs[r].rule));
        rules[r] = (fb_seeded_rule){.rule = rule[r]};
    }
    must(fb_read(&reading, the.engine, prompt.ids, prompt.n, rules, N_PAIRS, 0));
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *one = json_array_get(cases, i);

        if (strcmp(json_string_value(json_object_get(one, "prompt")), name) != 0)
            continue;
        check_case(reading, &question, one);
        n_cases++;
    }
    assert_int_equal(n_cases, 1 + 2 * (N_PAIRS - 1));
    fb_reading_free(reading);
    for (int r = 0; r < N_PAIRS; r++)
        fb_bound_rule_free(rule[r]);
    fb_free(question.ids);
    fb_free(prompt.ids);
    json_decref(reference);
}

static void answers_after_300_tokens_are_those_of_kvpress(void **state)
{
    (void)state;
    check_prompt("p300");
}

static void answers_after_1500_tokens_are_those_of_kvpress(void **state)
{
    (void)state;
    check_prompt("p1500");
}

static int open_rig(void **state)
{
    (void)state;
    reference_open(&the);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&the);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_after_300_tokens_are_those_of_kvpress),
        cmocka_unit_test(answers_after_1500_tokens_are_those_of_kvpress),
    };

    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
