/* test_experiment_ask.c - a question of the user's is asked as a task would ask it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/ask.h"
#include "tests/support/in_use.h"
#include "tests/support/random_llama.h"
#include "tests/support/small_experiment.h"

#define TEXT     "^.A7.B3.C9.D1.E5.F2.G8.H4.I6.J0.K7.L3.M9.N1"
#define QUESTION "?C"

/* What one is asked with. */
typedef struct asked {
    fb_spec spec;
    fb_ops *ops;
    fb_model *model;
    fb_plan *plan;
    fb_ask ask;
} asked;

static char folder[TEST_PATH];

typedef struct setting {
    fb_setting setting;
    const char *text;
} setting;

/* On the model of the settings; they end with FB_SET_COUNT. */
static fb_status open_asked(asked *a, const fb_own_question *own,
                            const setting *settings)
{
    static const setting usual[] = {{FB_SET_model, "builtin"},
                                    {FB_SET_rules, "full,snapkv:window=4,knorm,random"},
                                    {FB_SET_budgets, "50%"},
                                    {FB_SET_protect, "1+1"},
                                    {FB_SET_max_tokens, "6"}};
    const fb_ops_options options = {.threads = 1};

    *a = (asked){0};
    FB_TRY(fb_spec_init(&a->spec));
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        FB_TRY(
            fb_spec_assign(&a->spec, usual[i].setting, FB_FROM_DEFAULT, usual[i].text));
    for (; settings != NULL && settings->setting != FB_SET_COUNT; settings++)
        FB_TRY(fb_spec_assign(&a->spec, settings->setting, FB_FROM_COMMAND,
                              settings->text));
    FB_TRY(fb_spec_check_question(&a->spec, "there is none", NULL, NULL));
    FB_TRY(fb_ops_open(&a->ops, &options));
    FB_TRY(fb_model_open(&a->model, a->ops,
                         fb_values_text(&a->spec.values, FB_SET_model), NULL));
    FB_TRY(fb_plan_ask(&a->plan, &a->spec, a->model, own, NULL, NULL));
    return fb_ask_init(&a->ask, a->plan);
}

static void close_asked(asked *a)
{
    fb_ask_clear(&a->ask);
    fb_plan_free(a->plan);
    fb_model_close(a->model);
    fb_ops_close(a->ops);
    fb_spec_clear(&a->spec);
}

static void assert_refused(const fb_own_question *own, const setting *settings,
                           fb_status status, const char *words)
{
    asked a;

    assert_fails(open_asked(&a, own, settings), status, words);
    close_asked(&a);
}

/* --- the plan --- */

static void same_ids(const fb_ids *a, const fb_ids *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
}

/* The sample that the task `jsonl` makes of them. */
static void compare_with_a_task(const char *text, const char *question,
                                const char *query, const char *family)
{
    const setting settings[] = {
        {FB_SET_query, query}, {FB_SET_template, family}, {FB_SET_COUNT, NULL}};
    const fb_own_question own = {text, question, NULL};
    char record[1024], yaml[2 * TEST_PATH + 1024];
    small s;
    asked a;

    (void)snprintf(
        record, sizeof record,
        "{\"context\": \"%s\", \"question\": \"%s\", \"answers\": [\"9\"]}\n", text,
        question);
    test_write(test_path(folder, "own.jsonl"), record);
    (void)snprintf(yaml, sizeof yaml,
                   "model: {file: builtin, template: %s}\nrules: [random]\n"
                   "budgets: [50%%]\nprotocol: {query: %s, protect: none}\n"
                   "tasks: ['jsonl:data=%s']\n",
                   family, query, test_path(folder, "own.jsonl"));
    small_open(&s, yaml);
    assert_ok(open_asked(&a, &own, settings));
    same_ids(&a.plan->documents[0].context, &s.plan->documents[0].context);
    same_ids(&a.plan->samples[0].prompt, &s.plan->samples[0].prompt);
    assert_int_equal(a.plan->documents[0].stream, s.plan->documents[0].stream);
    assert_int_equal(a.plan->documents[0].protect_last,
                     s.plan->documents[0].protect_last);
    assert_int_equal(a.plan->samples[0].answer.n, 0);
    assert_int_equal(a.plan->n_documents, 1);
    assert_int_equal(a.plan->n_samples, 1);
    close_asked(&a);
    small_close(&s);
}

static void the_ids_are_those_of_a_task(void **state)
{
    static const char *const families[] = {"auto", "none", "chatml"};

    (void)state;
    for (int f = 0; f < 3; f++) {
        compare_with_a_task(TEXT, QUESTION, "agnostic", families[f]);
        compare_with_a_task(TEXT " ", QUESTION, "agnostic", families[f]);
        compare_with_a_task(TEXT, " " QUESTION " ", "agnostic", families[f]);
        compare_with_a_task(TEXT, QUESTION, "aware", families[f]);
    }
}

static void what_makes_no_sense_is_refused(void **state)
{
    static char long_text[20000];
    const fb_own_question usual = {TEXT, QUESTION, NULL};
    const fb_own_question whole = {long_text, QUESTION, NULL};
    const setting below[] = {
        {FB_SET_budgets, "10%"}, {FB_SET_protect, "4+16"}, {FB_SET_COUNT, NULL}};
    const setting fits[] = {{FB_SET_rules, "full"},
                            {FB_SET_budgets, "10%"},
                            {FB_SET_protect, "4+16"},
                            {FB_SET_COUNT, NULL}};
    const setting bytes[] = {{FB_SET_budgets, "1B"}, {FB_SET_COUNT, NULL}};
    const setting tokens[] = {{FB_SET_budgets, "2t"}, {FB_SET_COUNT, NULL}};
    const setting oracle[] = {{FB_SET_rules, "full,oracle"}, {FB_SET_COUNT, NULL}};
    const setting unknown[] = {{FB_SET_rules, "snapvk"}, {FB_SET_COUNT, NULL}};
    const setting much[] = {{FB_SET_max_tokens, "20000"}, {FB_SET_COUNT, NULL}};
    asked a;

    (void)state;
    memset(long_text, '.', sizeof long_text - 1);
    assert_refused(
        &whole, NULL, FB_UNSUPPORTED,
        "the text has 20,000 tokens; the model takes 16,384, and question and "
        "answer leave 16,37");
    assert_refused(
        &usual, below, FB_BUDGET,
        "budget of 10% or 4 tokens per head leaves a rule nothing to choose");
    assert_refused(&usual, bytes, FB_BUDGET, "below one entry per head");
    assert_refused(&usual, tokens, FB_BUDGET,
                   "2 tokens per head leaves a rule nothing");
    assert_refused(&usual, oracle, FB_UNSUPPORTED, "looks at the right answer");
    assert_refused(&usual, unknown, FB_USAGE, "did you mean 'snapkv'");
    assert_refused(&usual, much, FB_UNSUPPORTED, "nothing is left for the context");
    assert_ok(
        open_asked(&a, &usual, fits)); /* where nothing is evicted, none is short */
    close_asked(&a);
}

static void take_note(void *self, const char *sentence)
{
    (void)snprintf(self, 256, "%s", sentence);
}

static void text_that_the_model_has_no_tokens_for_is_told(void **state)
{
    const fb_own_question own = {"\xc3\xa9tude " TEXT, QUESTION, NULL};
    char note[256] = "";
    asked a;

    (void)state;
    assert_ok(open_asked(&a, &own, NULL));
    fb_plan_notes(a.plan, 0, take_note, note);
    assert_non_null(strstr(note, "'builtin' has no tokens for some of the text"));
    close_asked(&a);
}

/* --- answers --- */

static const fb_own_question usual_question = {TEXT, QUESTION, NULL};

static void the_text_is_that_of_the_ids(void **state)
{
    const setting settings[] = {{FB_SET_model, test_path(folder, "random.gguf")},
                                {FB_SET_max_tokens, "40"},
                                {FB_SET_budgets, "50%,80%"},
                                {FB_SET_COUNT, NULL}};
    const fb_ask_options options = {0};
    asked a;

    (void)state;
    random_llama(settings[0].text, RANDOM_NO_END);
    assert_ok(open_asked(&a, &usual_question, settings));
    assert_int_equal(a.ask.n, 1 + 3 * 2);
    assert_int_equal(a.ask.full, 0);
    assert_ok(fb_ask_run(&a.ask, a.ops, &options));
    for (int i = 0; i < a.ask.n; i++) {
        const fb_asked *answer = &a.ask.answers[i];
        char *text;
        size_t n;

        assert_true(answer->is_over);
        assert_int_equal(answer->stop, FB_STOP_length);
        assert_int_equal(answer->n_ids, 40);
        assert_ok(fb_tokenizer_decode(fb_model_tokenizer(a.model), answer->ids,
                                      answer->n_ids, true, &text, &n));
        assert_int_equal(answer->text.n, n);
        assert_memory_equal(answer->text.bytes, text, n);
        fb_free(text);
        assert_true(answer->kept_bytes <= a.ask.full_bytes);
        assert_true(answer->ns <= a.ask.answer_ns);
    }
    assert_int_equal(a.ask.answers[0].kept_bytes, a.ask.full_bytes);
    assert_true(a.ask.answers[1].kept_bytes < a.ask.answers[2].kept_bytes);
    assert_int_equal(a.ask.read, a.ask.read_total);
    close_asked(&a);
}

static void a_stop_string_ends_an_answer_and_is_no_part_of_it(void **state)
{
    const fb_ask_options options = {0};
    fb_own_question own = usual_question;
    char stop[2] = "";
    asked a;

    (void)state;
    assert_ok(open_asked(&a, &own, NULL));
    assert_ok(fb_ask_run(&a.ask, a.ops, &options));
    assert_int_equal(a.ask.answers[0].text.n, 6); /* a character per token */
    stop[0] = a.ask.answers[0].text.bytes[2];
    close_asked(&a);

    own.stop = stop;
    assert_ok(open_asked(&a, &own, NULL));
    assert_ok(fb_ask_run(&a.ask, a.ops, &options));
    assert_int_equal(a.ask.answers[0].stop, FB_STOP_string);
    assert_int_equal(a.ask.answers[0].text.n, a.ask.answers[0].n_ids - 1);
    assert_null(strchr(a.ask.answers[0].text.bytes, stop[0]));
    close_asked(&a);
}

static void difference_is_told_as_far_as_it_is_known(void **state)
{
    int32_t same[] = {1, 2, 3}, other[] = {1, 2, 4}, less[] = {1, 2};
    fb_asked answers[] = {{.ids = same, .n_ids = 3, .is_over = true},
                          {.ids = other, .n_ids = 3, .is_over = true},
                          {.ids = less, .n_ids = 2, .is_over = true},
                          {.ids = less, .n_ids = 2}};
    const fb_ask ask = {.answers = answers, .n = 4, .full = 0};

    (void)state;
    assert_int_equal(fb_ask_differs(&ask, 0), 0);
    assert_int_equal(fb_ask_differs(&ask, 1), 3);
    assert_int_equal(fb_ask_differs(&ask, 2), 3);
    assert_int_equal(fb_ask_differs(&ask, 3), 0); /* the rest may still come */
}

/* --- stopping --- */

/* One who asks to stop as soon as so much of it is there. */
struct stopper {
    int64_t read, tokens;
    volatile sig_atomic_t stop;
};

static void look(void *self, const fb_ask *ask)
{
    struct stopper *stopper = self;

    if (stopper->read > 0 && ask->read >= stopper->read) stopper->stop = 1;
    if (stopper->tokens > 0 && ask->answers[0].n_ids >= stopper->tokens)
        stopper->stop = 1;
}

static void what_is_there_stays_when_it_is_stopped(void **state)
{
    struct stopper reading = {.read = 1}, answering = {.tokens = 3}, never = {0};
    asked a;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct stopper *stopper = i == 0 ? &reading : i == 1 ? &answering : &never;
        const fb_ask_options options = {
            .stop = &stopper->stop, .watch = look, .self = stopper};

        assert_ok(open_asked(&a, &usual_question, NULL));
        if (stopper == &never)
            assert_ok(fb_ask_run(&a.ask, a.ops, &options));
        else
            assert_fails(fb_ask_run(&a.ask, a.ops, &options), FB_STOPPED, "on request");
        assert_int_equal(a.ask.answers[0].n_ids, i == 0 ? 0 : i == 1 ? 3 : 6);
        assert_int_equal(a.ask.answers[0].text.n, a.ask.answers[0].n_ids);
        assert_int_equal(a.ask.answers[0].is_over, stopper == &never);
        assert_int_equal(a.ask.full_bytes > 0, i > 0);
        close_asked(&a);
    }
}

/* --- memory --- */

static void two_hundred_questions_take_the_memory_of_one(void **state)
{
    const fb_ask_options options = {0};
    size_t now = 0, peak = 0;
    asked a;

    (void)state;
    assert_ok(open_asked(&a, &usual_question, NULL));
    for (int i = 0; i < 200; i++) {
        fb_memory_reset_peaks();
        assert_ok(fb_ask_run(&a.ask, a.ops, &options));
        fb_ask_clear(&a.ask);
        assert_ok(fb_ask_init(&a.ask, a.plan));
        if (i == 0) now = bytes_in_use(); /* with the operators' room */
        if (i == 1) peak = most_bytes();
        assert_int_equal(bytes_in_use(), now);
        if (i > 1) assert_int_equal(most_bytes(), peak);
    }
    close_asked(&a);
}

/* Keys and values while the first answer grows. */
static void note_kv(void *self, const fb_ask *ask)
{
    if (ask->answers[0].n_ids > 0) *(size_t *)self = fb_memory_now(FB_ACCOUNT_kv);
}

static void the_full_cache_goes_where_no_answer_reads_it(void **state)
{
    static const char *const rules[] = {"full,knorm", "knorm,snapkv:window=4"};
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);

    (void)state;
    for (int i = 0; i < 2; i++) {
        const setting other[] = {{FB_SET_rules, rules[i]}, {FB_SET_COUNT, NULL}};
        size_t held = 0, kept = 0, tails;
        const fb_ask_options options = {.watch = note_kv, .self = &held};
        asked a;

        assert_ok(open_asked(&a, &usual_question, other));
        assert_ok(fb_ask_run(&a.ask, a.ops, &options));
        for (int v = 0; v < a.ask.n; v++)
            kept += a.ask.answers[v].kept_bytes; /* `full` keeps that of the reading */
        tails = held - before - kept;
        assert_true(held > before + kept && tails < (size_t)a.ask.full_bytes);
        close_asked(&a);
    }
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
}

/* From the third token of the first answer on, no allocation succeeds. */
static void allow_no_more(void *self, const fb_ask *ask)
{
    (void)self;
    if (ask->answers[0].n_ids == 3) fb_memory_fail_at(1);
}

static void a_token_allocates_nothing(void **state)
{
    const setting longer[] = {{FB_SET_max_tokens, "200"}, {FB_SET_COUNT, NULL}};
    const fb_ask_options options = {.watch = allow_no_more};
    fb_status status;
    asked a;

    (void)state;
    assert_ok(open_asked(&a, &usual_question, longer));
    status = fb_ask_run(&a.ask, a.ops, &options);
    fb_memory_fail_at(0);
    assert_ok(status);
    assert_int_equal(a.ask.answers[0].n_ids, 200);
    close_asked(&a);
}

static void too_little_memory_is_refused_before_it_is_used(void **state)
{
    fb_ask_options options = {.memory = 1};
    asked a;

    (void)state;
    assert_ok(open_asked(&a, &usual_question, NULL));
    assert_fails(fb_ask_run(&a.ask, a.ops, &options), FB_BUDGET,
                 "memory limit of 1 B: all answers at once need");
    assert_int_equal(a.ask.read_total, 0);
    options.memory = (int64_t)bytes_in_use() + (1 << 20);
    assert_ok(fb_ask_run(&a.ask, a.ops, &options));
    close_asked(&a);
}

/* However the memory ends, it is said, and nothing is lost. */
static void every_allocation_may_fail(void **state)
{
    const size_t before = bytes_in_use();
    fb_status status = FB_NO_MEMORY;
    int64_t n = 0;

    (void)state;
    for (int64_t i = 1; status != FB_OK; i += 1 + i / long_or_short(1000, 40)) {
        const fb_ask_options options = {0};
        asked a;

        fb_memory_fail_at(i);
        status = open_asked(&a, &usual_question, NULL);
        if (status == FB_OK) status = fb_ask_run(&a.ask, a.ops, &options);
        fb_memory_fail_at(0);
        close_asked(&a);
        assert_int_equal(bytes_in_use(), before);
        n++;
    }
    assert_true(n > 50);
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
        cmocka_unit_test(the_ids_are_those_of_a_task),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(text_that_the_model_has_no_tokens_for_is_told),
        cmocka_unit_test(the_text_is_that_of_the_ids),
        cmocka_unit_test(a_stop_string_ends_an_answer_and_is_no_part_of_it),
        cmocka_unit_test(difference_is_told_as_far_as_it_is_known),
        cmocka_unit_test(what_is_there_stays_when_it_is_stopped),
        cmocka_unit_test(the_full_cache_goes_where_no_answer_reads_it),
        cmocka_unit_test(two_hundred_questions_take_the_memory_of_one),
        cmocka_unit_test(a_token_allocates_nothing),
        cmocka_unit_test(too_little_memory_is_refused_before_it_is_used),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
