/* test_generation.c - answers from an evicted cache are those of kvpress's pipeline.
 *
 * A prompt is read and evicted once, a question follows at its original positions, then
 * a greedy answer. kvpress stored, per step, the log-sum-exp and the eight largest
 * logits. Three things must hold:
 *
 *   - with our own kept sets, the free answers of all rules and budgets, decoded as one
 *     batch, are the same tokens;
 *   - with kvpress's kept sets, the log-probability of every token of the answer under
 *     teacher forcing (logit minus log-sum-exp) is within 2e-3, and it is the likeliest;
 *   - so are all eight of the first step, after the shorter prompt.
 *
 * The same once more with entries that are renumbered (`positions: compact`), against
 * kvpress's KeyRerotationPress around knorm.
 *
 * Kept sets are handed over because they may differ in near ties (test_kept.c), and one
 * entry moves logits more than rounding does: by up to 0.07 for knorm at 0.75.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/npy.h"
#include "tests/support/reference.h"

enum { LAYERS = 30, KV_HEADS = 3, N_TOP = 8, N_RATIOS = 2, MOST_TOKENS = 1500 };

static const struct {
    const char *press, *rule;
} pairs[] = {
    {"none", "full"},
    {"knorm", "knorm"},
    {"snapkv", "snapkv"},
    {"tova", "tova"},
    {"streaming_llm", "streaming_llm:sink=4"},
    {"adakv_snapkv", "adakv(snapkv)"},
    {"keyrerotation_knorm", "knorm"}, /* in its own file */
};

enum { N_PAIRS = sizeof pairs / sizeof *pairs, N_CASES = 1 + N_RATIOS * (N_PAIRS - 2) };

static rig the;

/* A stored answer. */
typedef struct answer_case {
    json_t *json, *steps; /* lent */
    int pair;
    double ratio;
    id_list tokens;
} answer_case;

/* A prompt with its cases, read once. */
typedef struct subject {
    const char *name;
    json_t *reference;
    id_list prompt, question;
    answer_case one[N_CASES];
    int n_cases;
    fb_engine *engine;
    fb_bound_rule *rule[N_PAIRS];
    fb_reading *reading;
} subject;

/* --- opening -------------------------------------------------------------------------- */

static int pair_of(json_t *one)
{
    const char *press = json_string_value(golden_at(one, "press"));

    for (int r = 0; r < N_PAIRS; r++)
        if (strcmp(pairs[r].press, press) == 0) return r;
    fail_msg("no rule for press '%s'", press);
    return -1;
}

static void find_cases(subject *s)
{
    json_t *cases = golden_at(s->reference, "cases");
    int n = 0;

    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *one = json_array_get(cases, i);

        if (strcmp(json_string_value(golden_at(one, "prompt")), s->name) != 0) continue;
        assert_true(n < N_CASES);
        s->one[n++] = (answer_case){.json = one,
                                    .steps = golden_at(one, "steps"),
                                    .pair = pair_of(one),
                                    .ratio = golden_number(one, "ratio"),
                                    .tokens = reference_ids(golden_at(one, "tokens"))};
    }
    s->n_cases = n;
}

static void open_subject(subject *s, const char *name, bool compact)
{
    const fb_engine_options options = {.compact = compact};
    fb_seeded_rule rules[N_PAIRS];

    *s =
        (subject){.name = name,
                  .reference = golden_load(compact ? REFERENCE "generation_compact.json"
                                                   : REFERENCE "generation.json"),
                  .prompt = reference_prompt(name)};
    assert_ok(fb_engine_open(&s->engine, the.ops, the.model, &options));
    s->question = reference_ids(golden_at(s->reference, "question_ids"));
    find_cases(s);
    assert_int_equal(s->n_cases, compact ? N_RATIOS : N_CASES);
    for (int r = 0; r < N_PAIRS; r++) {
        assert_ok(fb_rule_parse(&s->rule[r], pairs[r].rule));
        rules[r] = (fb_seeded_rule){.rule = s->rule[r]};
    }
    assert_ok(
        fb_read(&s->reading, s->engine, s->prompt.ids, s->prompt.n, rules, N_PAIRS, 0));
}

static void close_subject(subject *s)
{
    fb_reading_free(s->reading);
    for (int r = 0; r < N_PAIRS; r++)
        fb_bound_rule_free(s->rule[r]);
    fb_engine_close(s->engine);
    for (int c = 0; c < s->n_cases; c++)
        fb_free(s->one[c].tokens.ids);
    fb_free(s->prompt.ids);
    fb_free(s->question.ids);
    json_decref(s->reference);
}

/* --- kept sets ------------------------------------------------------------------------ */

/* The case's cache with the entries that we choose. */
static fb_variant *evict(const subject *s, const answer_case *one)
{
    const fb_protect protect = {.kind = FB_PROTECT_PUBLISHED};
    const int64_t percent = (int64_t)(100 - 100 * one->ratio + 0.5);
    const fb_budget budget = {
        .kind = FB_BUDGET_RATIO, .numerator = percent, .denominator = 100};
    const fb_cache_shape shape = {LAYERS, KV_HEADS, 64, FB_F32};
    const int64_t k = fb_budget_entries(&budget, &shape, s->prompt.n, FB_ROUND_KVPRESS);
    fb_variant *out;

    if (one->pair == 0)
        assert_ok(fb_keep_all(&out, s->reading));
    else
        assert_ok(fb_evict(&out, s->reading, one->pair, &protect, 0, k));
    return out;
}

/* The set that kvpress kept at a ratio, from its mask [ratios, layers, kv heads, bytes]. */
static void read_kept(fb_kept *out, const npy *masks, double ratio, int64_t n)
{
    static const double ratios[] = {0.25, 0.5, 0.75, 0.9};
    const uint8_t *mask = masks->data;
    uint8_t stays[MOST_TOKENS];
    int64_t value = 0;

    while (ratios[value] != ratio)
        value++;
    assert_ok(fb_kept_new(out, LAYERS * KV_HEADS));
    for (int64_t slot = 0; slot < LAYERS * KV_HEADS; slot++) {
        const uint8_t *row =
            mask + (value * LAYERS * KV_HEADS + slot) * masks->shape[3];

        for (int64_t j = 0; j < n; j++)
            stays[j] = (row[j / 8] >> (j % 8)) & 1;
        assert_ok(fb_kept_set(out, slot, stays, n));
    }
}

/* The case's cache with the entries that kvpress chose. */
static fb_variant *evict_given(const subject *s, const answer_case *one)
{
    fb_variant *out;
    char path[256];
    fb_kept kept;
    npy masks;

    if (one->pair == 0) return evict(s, one);
    snprintf(path, sizeof path, REFERENCE "kept/%s/%s.kept.npy", s->name,
             one->pair == N_PAIRS - 1 ? "knorm" : pairs[one->pair].press);
    npy_open(&masks, path, "|u1");
    read_kept(&kept, &masks, one->ratio, s->prompt.n);
    assert_ok(fb_evict_given(&out, s->reading, &kept, fb_kept_total(&kept)));
    fb_kept_clear(&kept);
    npy_close(&masks);
    return out;
}

/* --- free answers --------------------------------------------------------------------- */

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

/* The reference is a token that no answer begins with: the engine decodes them all. */
static void check_free_answers(const subject *s)
{
    const int32_t other = 0;
    const fb_answer_options options = {.generate = true, .max_tokens = 24};
    const fb_question question = {.prompt = s->question.ids,
                                  .n_prompt = s->question.n,
                                  .answer = &other,
                                  .n_answer = 1};
    fb_variant *variant[N_CASES];
    fb_answer answer[N_CASES];

    for (int c = 0; c < s->n_cases; c++)
        variant[c] = evict(s, &s->one[c]);
    assert_ok(
        fb_answer_group(s->reading, variant, s->n_cases, &question, &options, answer));
    for (int c = 0; c < s->n_cases; c++) {
        const id_list *tokens = &s->one[c].tokens;

        assert_int_equal(answer[c].n_ids, before_end(tokens));
        assert_memory_equal(answer[c].ids, tokens->ids,
                            (size_t)answer[c].n_ids * sizeof(int32_t));
        fb_answer_clear(&answer[c]);
        fb_variant_free(variant[c]);
    }
}

/* --- log-probabilities ---------------------------------------------------------------- */

static double log_probability(json_t *step, size_t which)
{
    json_t *logits = golden_at(step, "top_logits");

    return json_number_value(json_array_get(logits, which)) -
           golden_number(step, "logsumexp");
}

/* The stored answer under teacher forcing. */
static double steps_differ(const subject *s, const answer_case *one,
                           fb_variant *variant)
{
    const fb_answer_options options = {.generate = false};
    const fb_question question = {.prompt = s->question.ids,
                                  .n_prompt = s->question.n,
                                  .answer = one->tokens.ids,
                                  .n_answer = one->tokens.n};
    double most = 0;
    fb_answer answer;

    assert_ok(fb_answer_group(s->reading, &variant, 1, &question, &options, &answer));
    assert_memory_equal(answer.top1, one->tokens.ids,
                        (size_t)one->tokens.n * sizeof(int32_t));
    for (int64_t i = 0; i < one->tokens.n; i++) {
        json_t *step = json_array_get(one->steps, (size_t)i);

        most = fmax(most, fabs(log_probability(step, 0) + answer.nll[i]));
    }
    fb_answer_clear(&answer);
    return most;
}

/* The eight largest logits of the first step: each as an answer of one token. */
static double first_step_differs(const subject *s, const answer_case *one,
                                 fb_variant *variant)
{
    const fb_answer_options options = {.generate = false};
    json_t *step = json_array_get(one->steps, 0);
    id_list top = reference_ids(golden_at(step, "top_ids"));
    double most = 0;

    assert_int_equal(top.n, N_TOP);
    for (int64_t i = 0; i < top.n; i++) {
        const fb_question question = {.prompt = s->question.ids,
                                      .n_prompt = s->question.n,
                                      .answer = &top.ids[i],
                                      .n_answer = 1};
        fb_answer answer;

        assert_ok(
            fb_answer_group(s->reading, &variant, 1, &question, &options, &answer));
        most = fmax(most, fabs(log_probability(step, (size_t)i) + answer.nll[0]));
        fb_answer_clear(&answer);
    }
    fb_free(top.ids);
    return most;
}

static void check_case(const subject *s, int c)
{
    const answer_case *one = &s->one[c];
    fb_variant *variant = evict_given(s, one);
    const double of_steps = steps_differ(s, one, variant);
    const double of_first =
        s->prompt.n <= 300 ? first_step_differs(s, one, variant) : 0;

    print_message("%-6s %-20s at %-4g: %2lld steps, log-probabilities differ by %.2g "
                  "(all eight of the first: %.2g)\n",
                  s->name, pairs[one->pair].rule, one->ratio, (long long)one->tokens.n,
                  of_steps, of_first);
    assert_true(of_steps <= 2e-3 && of_first <= 2e-3);
    fb_variant_free(variant);
}

static void check_prompt(const char *name, bool compact)
{
    subject s;

    open_subject(&s, name, compact);
    check_free_answers(&s);
    for (int c = 0; c < s.n_cases; c++)
        check_case(&s, c);
    close_subject(&s);
}

static void answers_after_300_tokens_are_those_of_kvpress(void **state)
{
    (void)state;
    check_prompt("p300", false);
}

static void answers_after_1500_tokens_are_those_of_kvpress(void **state)
{
    (void)state;
    check_prompt("p1500", false);
}

static void renumbered_answers_are_those_of_kvpress(void **state)
{
    (void)state;
    check_prompt("p300", true);
    check_prompt("p1500", true);
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
        cmocka_unit_test(renumbered_answers_are_those_of_kvpress),
    };

    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
