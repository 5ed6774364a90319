/* test_engine_answer.c - a free answer is what greedy decoding from the question says.
 *
 * The witness is never shown a reference: behind one token that nobody says, all is
 * decoded step by step, without stop strings and end tokens. What it says, cut by hand,
 * must be said with every reference: one that a variant would have said too, wholly, in
 * part, or not at all; and where there is none.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "tests/support/in_use.h"
#include "tests/support/random_llama.h"
#include "tests/support/rig.h"

/* BOS, then every filler, key and value once: the built-in model says what followed. */
enum { CONTEXT = 61, FIRST = 4, PROMPT = 2, ASK = 2, NOBODY_SAYS = 1 };
enum { LONG = 24, NONE = RANDOM_NO_END, MOST_LOGITS = 256 };

static const char *const expressions[] = {"random", "tova", "h2o",
                                          "adakv(snapkv:window=16)"};
static const int64_t budgets[] = {15, 35, 50, 58};
enum {
    RULES = sizeof expressions / sizeof expressions[0],
    BUDGETS = sizeof budgets / sizeof budgets[0],
    FULL = RULES * BUDGETS,
    VARIANTS,
    SPEAKERS = 5
};

static rig the;
static fb_bound_rule *rules[RULES];
static fb_reading *reading;
static fb_variant *variant[VARIANTS];
static int32_t context[CONTEXT], prompt[PROMPT];
static int32_t said[VARIANTS][LONG]; /* by the witness */
static char folder[TEST_PATH];

/* A model to which every place and every entry matters, whose text is ended by `end`.
 * Lent until the next call. */
static const char *random_model(int32_t end)
{
    const char *path = test_path(folder, "random.gguf");

    random_llama(path, end);
    return path;
}

/* --- one that answers --- */

static void open_variants(const char *model)
{
    const fb_ops_options one_thread = {.threads = 1}; /* the models are small */
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, 2, 2};
    fb_seeded_rule seeded[RULES];

    rig_open(&the, model, &one_thread, NULL);
    for (int i = 1; i < CONTEXT; i++) /* 23 and 60 have no common factor */
        context[i] = FIRST + i * 23 % (CONTEXT - 1);
    prompt[0] = ASK;
    prompt[1] = context[10];
    for (int r = 0; r < RULES; r++) {
        assert_ok(fb_rule_parse(&rules[r], expressions[r]));
        seeded[r] = (fb_seeded_rule){rules[r], 1};
    }
    assert_ok(fb_read(&reading, the.engine, context, CONTEXT, seeded, RULES, 1));
    for (int v = 0; v < FULL; v++)
        assert_ok(fb_evict(&variant[v], reading, v / BUDGETS, &protect, 0,
                           budgets[v % BUDGETS]));
    assert_ok(fb_keep_all(&variant[FULL], reading));
}

static void close_variants(void)
{
    for (int v = 0; v < VARIANTS; v++)
        fb_variant_free(variant[v]);
    fb_reading_free(reading);
    for (int r = 0; r < RULES; r++)
        fb_bound_rule_free(rules[r]);
    rig_close(&the);
}

/* A stop string of one token. */
static fb_status ends_with(void *self, const int32_t *ids, int64_t n, bool *out)
{
    *out = ids[n - 1] == *(const int32_t *)self;
    return FB_OK;
}

static fb_answer_options options_of(int64_t max_tokens, int32_t *stop)
{
    return (fb_answer_options){.generate = true,
                               .max_tokens = max_tokens,
                               .is_done = *stop == NONE ? NULL : ends_with,
                               .self = stop};
}

static void answer(const int32_t *reference, int64_t n, int64_t max_tokens,
                   int32_t stop, fb_answer *out)
{
    const fb_question question = {prompt, reference, PROMPT, n};
    const fb_answer_options options = options_of(max_tokens, &stop);

    assert_ok(fb_answer_group(reading, variant, VARIANTS, &question, &options, out));
}

static void clear(fb_answer *out)
{
    for (int v = 0; v < VARIANTS; v++)
        fb_answer_clear(&out[v]);
}

/* --- the witness --- */

static void hear_the_witness(const char *model)
{
    const int32_t nothing = NOBODY_SAYS;
    fb_answer out[VARIANTS];

    open_variants(model);
    answer(&nothing, 1, LONG, NONE, out);
    for (int v = 0; v < VARIANTS; v++) {
        assert_int_not_equal(out[v].top1[0], NOBODY_SAYS);
        assert_int_equal(out[v].n_ids, LONG); /* neither model has an end token */
        memcpy(said[v], out[v].ids, sizeof said[v]);
    }
    clear(out);
    close_variants();
}

/* Of the full cache, by plain passes over the whole text. */
static void check_the_witness(const char *model)
{
    int32_t ids[CONTEXT + PROMPT + LONG];
    float logits[MOST_LOGITS];

    hear_the_witness(model);
    open_variants(model);
    memcpy(ids, context, sizeof context);
    memcpy(ids + CONTEXT, prompt, sizeof prompt);
    for (int64_t i = 0; i < LONG; i++) {
        const int64_t n = CONTEXT + PROMPT + i, last = n - 1;
        int32_t best = 0;

        assert_ok(fb_logits(the.engine, ids, n, &last, 1, logits));
        for (int32_t id = 1; id < fb_model_get_facts(the.model)->vocabulary; id++)
            if (logits[id] > logits[best]) best = id;
        assert_int_equal(said[FULL][i], best);
        ids[n] = best;
    }
    close_variants();
}

static void the_witness_of_the_full_cache_is_right(void **state)
{
    (void)state;
    check_the_witness("builtin");
    check_the_witness(random_model(NONE));
}

static void check(const fb_answer *got, const int32_t *words, int64_t max_tokens,
                  int32_t stop, int32_t end)
{
    int64_t n = 0;

    while (n < max_tokens && words[n] != end && words[n] != stop)
        n++;
    if (n < max_tokens && words[n] == stop)
        assert_int_equal(got->stop, FB_STOP_string);
    else if (n < max_tokens)
        assert_int_equal(got->stop, FB_STOP_end);
    else
        assert_int_equal(got->stop, FB_STOP_length);
    n += got->stop == FB_STOP_string; /* the stop itself was said */
    assert_int_equal(got->n_ids, n);
    assert_memory_equal(got->ids, words, (size_t)n * sizeof *words);
}

/* --- references --- */

/* Every variant, with references made of `words`. */
static void check_references(const int32_t *words, int32_t end)
{
    static const int64_t lengths[] = {1, 8, LONG};
    const int32_t stops[] = {NONE, words[4]};
    int32_t reference[LONG];
    fb_answer out[VARIANTS];

    for (int i = 0; i < 3 * 3 * 2 * 2; i++) {
        const int64_t n = lengths[i % 3], max_tokens = lengths[i / 3 % 3];
        const int32_t stop = stops[i / 9 % 2];

        memcpy(reference, words, sizeof reference);
        if (i / 18 == 1) reference[n / 2] = NOBODY_SAYS;
        answer(reference, n, max_tokens, stop, out);
        for (int v = 0; v < VARIANTS; v++)
            check(&out[v], said[v], max_tokens, stop, end);
        clear(out);
    }
}

/* References of the words of several, which others say too, wholly or in part. */
static void check_all_references(const char *model, int32_t end)
{
    int n = 0;

    open_variants(model);
    for (int v = FULL; v >= 0 && n < SPEAKERS; v--) {
        bool is_new = true;

        for (int w = FULL; w > v; w--)
            is_new &= memcmp(said[v], said[w], sizeof said[v]) != 0;
        if (!is_new) continue;
        check_references(said[v], end);
        n++;
    }
    assert_int_equal(n, SPEAKERS);
    close_variants();
}

static void an_answer_does_not_depend_on_the_reference(void **state)
{
    (void)state;
    hear_the_witness("builtin");
    check_all_references("builtin", NONE);
    hear_the_witness(random_model(NONE));
    check_all_references(random_model(NONE), NONE);
}

static void nor_where_the_text_ends(void **state)
{
    int32_t end;

    (void)state;
    hear_the_witness(random_model(NONE));
    end = said[FULL][6];
    check_all_references(random_model(end), end);
}

/* --- without a reference --- */

static void check_alone(const char *model, int32_t end)
{
    static const int64_t lengths[] = {1, 8, LONG};

    open_variants(model);
    for (int i = 0; i < 3 * 2; i++) {
        const int32_t stop = i / 3 == 0 ? NONE : said[FULL][4];
        fb_answer out[VARIANTS];

        answer(NULL, 0, lengths[i % 3], stop, out);
        for (int v = 0; v < VARIANTS; v++) {
            check(&out[v], said[v], lengths[i % 3], stop, end);
            assert_int_equal(out[v].n, 0);
        }
        clear(out);
    }
    close_variants();
}

static void nor_on_there_being_one(void **state)
{
    int32_t end;

    (void)state;
    hear_the_witness("builtin");
    check_alone("builtin", NONE);
    hear_the_witness(random_model(NONE));
    end = said[FULL][6];
    check_alone(random_model(NONE), NONE);
    check_alone(random_model(end), end);
}

/* What a model without an end token says. */
static void an_end_may_be_passed(void **state)
{
    const fb_question question = {prompt, NULL, PROMPT, 0};
    const fb_answer_options options = {
        .generate = true, .max_tokens = LONG, .goes_past_end = true};
    fb_answer out[VARIANTS];
    int32_t end;

    (void)state;
    hear_the_witness(random_model(NONE));
    end = said[FULL][6];
    open_variants(random_model(end));
    assert_ok(fb_answer_group(reading, variant, VARIANTS, &question, &options, out));
    for (int v = 0; v < VARIANTS; v++)
        check(&out[v], said[v], LONG, NONE, NONE);
    clear(out);
    close_variants();
}

static void without_a_reference_there_is_a_prompt_and_a_free_answer(void **state)
{
    const fb_question mute = {NULL, NULL, 0, 0}, asked = {prompt, NULL, PROMPT, 0};
    const fb_answer_options speak = {.generate = true, .max_tokens = 1}, measure = {0};
    fb_answer out[VARIANTS];

    (void)state;
    open_variants("builtin");
    assert_fails(fb_answer_group(reading, variant, VARIANTS, &mute, &speak, out),
                 FB_USAGE, "a prompt of at least one token");
    assert_fails(fb_answer_group(reading, variant, VARIANTS, &asked, &measure, out),
                 FB_USAGE, "a free answer");
    assert_fails(fb_foresee(reading, &asked), FB_USAGE, "a reference answer");
    close_variants();
}

/* --- growing --- */

/* What one who watches has seen. */
struct seen {
    int32_t ids[VARIANTS][LONG];
    int64_t n[VARIANTS];
    bool is_over[VARIANTS];
    fb_stop stop[VARIANTS];
    int64_t fail_after; /* steps: then no allocation succeeds; 0: never */
    int64_t stop_after; /* steps: then the group is to end; 0: never */
};

static fb_status see(void *self, const fb_growth *growth)
{
    struct seen *seen = self;
    const int v = growth->variant;

    assert_in_range(v, 0, VARIANTS - 1);
    assert_false(seen->is_over[v]);
    assert_int_equal(growth->n, seen->n[v] + growth->n_new);
    assert_memory_equal(growth->ids, seen->ids[v],
                        (size_t)seen->n[v] * sizeof *growth->ids);
    if (growth->n_new > 0) seen->ids[v][seen->n[v]++] = growth->ids[growth->n - 1];
    seen->is_over[v] = growth->is_over;
    seen->stop[v] = growth->stop;
    if (seen->fail_after > 0 && growth->n == seen->fail_after) fb_memory_fail_at(1);
    if (seen->stop_after > 0 && growth->n == seen->stop_after)
        return fb_fail(FB_STOPPED, "enough");
    return FB_OK;
}

static fb_status answer_watched(const int32_t *reference, int64_t n, struct seen *seen,
                                fb_answer *out)
{
    const fb_question question = {prompt, reference, PROMPT, n};
    const fb_answer_options options = {
        .generate = true, .max_tokens = LONG, .watch = see, .self = seen};

    return fb_answer_group(reading, variant, VARIANTS, &question, &options, out);
}

/* Without a reference, with one that a variant says, and with one that nobody says. */
static void what_is_seen_is_what_is_said(void **state)
{
    const int32_t nothing = NOBODY_SAYS;
    const struct {
        const int32_t *ids;
        int64_t n;
    } references[] = {{NULL, 0}, {said[1], LONG}, {said[FULL], 8}, {&nothing, 1}};
    int32_t end;

    (void)state;
    hear_the_witness(random_model(NONE));
    end = said[FULL][6];
    open_variants(random_model(end));
    for (int r = 0; r < 4; r++) {
        struct seen seen = {0};
        fb_answer out[VARIANTS];

        assert_ok(answer_watched(references[r].ids, references[r].n, &seen, out));
        for (int v = 0; v < VARIANTS; v++) {
            assert_true(seen.is_over[v]);
            assert_int_equal(seen.stop[v], out[v].stop);
            assert_int_equal(seen.n[v], out[v].n_ids);
            assert_memory_equal(seen.ids[v], out[v].ids,
                                (size_t)seen.n[v] * sizeof *seen.ids[v]);
        }
        clear(out);
    }
    close_variants();
}

static void who_watches_can_end_it(void **state)
{
    struct seen seen = {.stop_after = 5};
    fb_answer out[VARIANTS];

    (void)state;
    hear_the_witness("builtin");
    open_variants("builtin");
    assert_fails(answer_watched(NULL, 0, &seen, out), FB_STOPPED, "enough");
    assert_int_equal(seen.n[0], 5);
    assert_int_equal(seen.n[FULL], 4);
    assert_memory_equal(seen.ids[FULL], said[FULL], 4 * sizeof *said[FULL]);
    assert_null(out[0].ids);
    seen = (struct seen){0};
    assert_ok(answer_watched(NULL, 0, &seen, out)); /* and ask again */
    assert_memory_equal(seen.ids[FULL], said[FULL], sizeof said[FULL]);
    clear(out);
    close_variants();
}

/* After two steps an allocation would end the group. */
static void a_token_allocates_nothing(void **state)
{
    struct seen seen = {.fail_after = 2};
    fb_answer out[VARIANTS];
    fb_status status;

    (void)state;
    open_variants("builtin");
    status = answer_watched(NULL, 0, &seen, out);
    fb_memory_fail_at(0);
    assert_ok(status);
    assert_int_equal(out[FULL].n_ids, LONG);
    clear(out);
    close_variants();
}

static void two_hundred_answers_take_the_memory_of_one(void **state)
{
    size_t now = 0, peak = 0;

    (void)state;
    open_variants("builtin");
    for (int i = 0; i < 200; i++) {
        struct seen seen = {0};
        fb_answer out[VARIANTS];

        fb_memory_reset_peaks();
        assert_ok(answer_watched(NULL, 0, &seen, out));
        clear(out);
        if (i == 0) now = bytes_in_use();
        if (i == 1) peak = most_bytes(); /* the first found no room there yet */
        assert_int_equal(bytes_in_use(), now);
        if (i > 1) assert_int_equal(most_bytes(), peak);
    }
    close_variants();
}

static int open_folder(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_witness_of_the_full_cache_is_right),
        cmocka_unit_test(an_answer_does_not_depend_on_the_reference),
        cmocka_unit_test(nor_where_the_text_ends),
        cmocka_unit_test(nor_on_there_being_one),
        cmocka_unit_test(an_end_may_be_passed),
        cmocka_unit_test(without_a_reference_there_is_a_prompt_and_a_free_answer),
        cmocka_unit_test(what_is_seen_is_what_is_said),
        cmocka_unit_test(who_watches_can_end_it),
        cmocka_unit_test(a_token_allocates_nothing),
        cmocka_unit_test(two_hundred_answers_take_the_memory_of_one),
    };
    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
