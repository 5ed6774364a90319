/* test_decoding.c - evictions while answering are those of kvpress's DecodingPress.
 *
 * A prompt is read whole, then a question, then a greedy answer; kvpress compresses the cache
 * to a size of its own after every so many forward passes, and in between it grows: that is
 * no budget, so the schedule is given here event by event to the stream below
 * fb_stream_in. What is compared is what lies under every schedule: the entries that a rule
 * keeps of those that it has left before, and what is said then: the same greedy tokens.
 *
 * Where the context is shorter than that size, kvpress's schedule is ours, one forward pass
 * apart: there the interval of fb_stream_in is compared too.
 *
 * Not compared: presses with a window of several queries, which kvpress turns to the current
 * position, and StreamingLLM, which takes the first places of a cache that it has sorted by
 * score for the first tokens.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"
#include "tests/support/npy.h"
#include "tests/support/reference.h"

#include <math.h>

/* One in so many entries may be another: scores of near ties, which then stay apart. */
enum { LAYERS = 30, KV_HEADS = 3, ROOM = 400, MOST_DIFFER = 5000 };

static const struct {
    const char *name, *rule;
    const char *first; /* the rule of the first event; NULL: the same */
} cases[] = {
    {"knorm", "knorm", NULL},
    {"keydiff", "keydiff", NULL},
    {"tova", "tova", NULL},
    {"ratio_knorm", "knorm", NULL},
    {"prefill_snapkv_decode_knorm", "knorm", "snapkv:window=16"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static rig the;
static json_t *root;
static id_list prompt, question;

/* A case at work. */
typedef struct subject {
    json_t *of, *events;
    npy masks;
    id_list tokens;
    fb_bound_rule *rule, *first;
    fb_stream *stream;
    size_t event;          /* the next */
    int64_t differ, total; /* entries that one of both kept, and all that are kept */
    double off;            /* the largest difference of a log-probability */
} subject;

static void open_subject(subject *s, int c)
{
    char path[256];
    fb_stream like = {.view = {.engine = the.engine},
                      .protect = {FB_PROTECT_NONE, 0, 0},
                      .k = ROOM,
                      .chunk = ROOM,
                      .length = prompt.n};

    *s = (subject){.of = golden_at(golden_at(root, "cases"), cases[c].name)};
    s->events = golden_at(s->of, "events");
    s->tokens = reference_ids(golden_at(s->of, "tokens"));
    snprintf(path, sizeof path, REFERENCE "decoding/%s.kept.npy", cases[c].name);
    npy_open(&s->masks, path, "|u1");
    assert_ok(fb_rule_parse(&s->rule, cases[c].rule));
    if (cases[c].first != NULL) assert_ok(fb_rule_parse(&s->first, cases[c].first));
    like.view.rule = s->first != NULL ? s->first : s->rule;
    assert_ok(fb_stream_open(&s->stream, &like));
}

static void close_subject(subject *s)
{
    fb_stream_free(s->stream);
    fb_bound_rule_free(s->rule);
    fb_bound_rule_free(s->first);
    fb_free(s->tokens.ids);
    npy_close(&s->masks);
}

static bool has_bit(const uint8_t *row, int64_t j)
{
    return (row[j / 8] >> (j % 8) & 1) != 0;
}

static void compare_kept(subject *s)
{
    const int64_t bytes = s->masks.shape[3], m = s->stream->view.m;

    for (int64_t slot = 0; slot < LAYERS * KV_HEADS; slot++) {
        const uint8_t *row = (const uint8_t *)s->masks.data +
                             ((int64_t)s->event * LAYERS * KV_HEADS + slot) * bytes;

        s->total += m;
        for (int64_t j = 0; j < m; j++)
            s->differ += !has_bit(row, s->stream->position[slot][j]);
    }
}

/* The events that kvpress had after so many tokens. */
static void evict(subject *s)
{
    json_t *event = json_array_get(s->events, s->event);

    if (event == NULL ||
        golden_number(event, "tokens_seen") != (double)s->stream->view.n)
        return;
    assert_int_equal(s->stream->view.m, (int64_t)golden_number(event, "cache_before"));
    assert_ok(fb_stream_evict(s->stream, (int64_t)golden_number(event, "cache_after")));
    compare_kept(s);
    s->stream->view.rule = s->rule;
    s->event++;
}

static void take_in(subject *s, const int32_t *ids, int64_t n)
{
    assert_ok(fb_stream_begin(s->stream, n));
    assert_ok(fb_stream_piece(s->stream, ids, n, true));
}

/* What comes after the last token that was read. */
static void compare_next(subject *s, int64_t i)
{
    fb_ops *ops = the.ops;
    const double logit =
        json_number_value(json_array_get(golden_at(s->of, "logit"), (size_t)i));
    const double sum =
        json_number_value(json_array_get(golden_at(s->of, "logsumexp"), (size_t)i));
    const int64_t t = fb_size(ops, s->stream->x, 0);
    fb_tensor h = fb_narrow(ops, s->stream->x, 0, t - 1, 1);
    double nll;
    int32_t best;

    h = fb_rms_norm(ops, h, fb_model_norm(the.model),
                    fb_model_get_facts(the.model)->rms_eps);
    h = fb_linear(ops, h, fb_model_head(the.model));
    assert_ok(fb_argmax(ops, h, &best));
    assert_int_equal(best, s->tokens.ids[i]);
    assert_ok(fb_nll(ops, h, &s->tokens.ids[i], &nll));
    s->off = fmax(s->off, fabs(logit - sum + nll));
}

static void run(subject *s)
{
    fb_scope_open(the.ops);
    take_in(s, prompt.ids, prompt.n);
    evict(s);
    for (int64_t i = 0; i < s->tokens.n; i++) {
        fb_scope_close(the.ops);
        fb_scope_open(the.ops);
        if (i == 0)
            take_in(s, question.ids, question.n);
        else
            take_in(s, &s->tokens.ids[i - 1], 1);
        compare_next(s, i);
        evict(s);
    }
    fb_scope_close(the.ops);
    assert_int_equal(s->event, json_array_size(s->events));
}

static void evictions_while_answering_are_those_of_kvpress(void **state)
{
    (void)state;
    for (int c = 0; c < N_CASES; c++) {
        subject s;

        open_subject(&s, c);
        run(&s);
        print_message("%s: %lld of %lld entries of %zu events differ; log p within "
                      "%.1e\n",
                      cases[c].name, (long long)s.differ, (long long)s.total, s.event,
                      s.off);
        assert_true(s.differ * MOST_DIFFER <= s.total);
        assert_true(s.off <= (s.differ == 0 ? 1e-4 : 1e-2));
        close_subject(&s);
    }
}

/* --- the interval --------------------------------------------------------------------- */

enum { TARGET = 204, INTERVAL = 8, SHORT = 200, MORE = 8, MOST_ANSWER = 64 };

/* kvpress counts the question as one forward pass and compresses behind the 8th; so its last
 * token is the first of ours, and the next compression comes before the token after. Some
 * more tokens behind the answer make the last one happen here too. */
static fb_question as_ours(const id_list *asked, const id_list *tokens,
                           int32_t answer[MOST_ANSWER])
{
    const int64_t n = 1 + tokens->n + MORE;

    assert_true(n <= MOST_ANSWER);
    answer[0] = asked->ids[asked->n - 1];
    memcpy(answer + 1, tokens->ids, (size_t)tokens->n * sizeof *answer);
    for (int64_t i = 1 + tokens->n; i < n; i++)
        answer[i] = answer[0];
    return (fb_question){asked->ids, answer, asked->n - 1, n};
}

static void compare_answer(const fb_answer *got, json_t *of, const id_list *tokens,
                           double *off)
{
    for (int64_t i = 0; i < tokens->n; i++) {
        const size_t at = (size_t)i;
        const double logit =
            json_number_value(json_array_get(golden_at(of, "logit"), at));
        const double sum =
            json_number_value(json_array_get(golden_at(of, "logsumexp"), at));

        assert_int_equal(got->top1[1 + i], tokens->ids[i]);
        *off = fmax(*off, fabs(logit - sum + got->nll[1 + i]));
    }
}

/* Positions that are here and not there, of layers 0, 15 and 29. */
static int64_t count_others(const fb_kept *kept, json_t *lists)
{
    int64_t others = 0;

    for (size_t row = 0; row < (size_t)3 * KV_HEADS; row++) {
        json_t *list =
            json_array_get(json_array_get(lists, row / KV_HEADS), row % KV_HEADS);
        const size_t slot = row / KV_HEADS * 15 - row / KV_HEADS / 2;
        const int32_t *position = kept->position[slot * KV_HEADS + row % KV_HEADS];
        size_t at = 0;

        assert_int_equal(json_array_size(list), TARGET);
        for (int j = 0; j < TARGET; j++) {
            while (at < TARGET &&
                   json_integer_value(json_array_get(list, at)) < position[j])
                at++;
            others += at == TARGET ||
                      json_integer_value(json_array_get(list, at)) != position[j];
        }
    }
    return others;
}

/* In layer 0 the length of a key is that of its token: repeated tokens are ties for knorm. */
static const struct {
    const char *rule;
    int64_t others; /* entries that may be others */
    double off;     /* of a log-probability */
} paced[] = {{"knorm", 9, 2e-2}, {"keydiff", 1, 1e-3}, {"tova", 1, 1e-3}};

static void run_interval(json_t *all, int c, fb_reading *reading)
{
    const char *name = paced[c].rule;
    json_t *of = golden_at(golden_at(all, "cases"), name);
    const id_list asked = reference_ids(golden_at(all, "question_ids"));
    const id_list tokens = reference_ids(golden_at(of, "tokens"));
    const fb_answer_options options = {.generate = false};
    int32_t answer[MOST_ANSWER];
    const fb_question ours = as_ours(&asked, &tokens, answer);
    fb_seeded_rule rule = {0};
    fb_bound_rule *bound;
    fb_variant *variant;
    fb_answer got;
    double off = 0;
    int64_t others;

    assert_ok(fb_rule_parse(&bound, name));
    rule.rule = bound;
    assert_ok(fb_stream_in(
        &variant, reading, &rule, prompt.ids, &(fb_protect){FB_PROTECT_NONE, 0, 0},
        &(fb_pace){TARGET + INTERVAL, SHORT, INTERVAL, false, false}));
    assert_ok(fb_answer_group(reading, &variant, 1, &ours, &options, &got));
    assert_int_equal(got.events, 5);
    assert_int_equal(got.highest, TARGET + INTERVAL);
    compare_answer(&got, of, &tokens, &off);
    others = count_others(&got.held.kept, golden_at(of, "kept"));
    print_message("%s every %d tokens: %lld of %d entries differ; log p within %.1e\n",
                  name, INTERVAL, (long long)others, 3 * KV_HEADS * TARGET, off);
    assert_true(others <= paced[c].others);
    assert_true(off <= paced[c].off);
    fb_answer_clear(&got);
    fb_variant_free(variant);
    fb_bound_rule_free(bound);
    fb_free(asked.ids);
    fb_free(tokens.ids);
}

static void an_interval_is_that_of_kvpress(void **state)
{
    json_t *all = golden_load(REFERENCE "decoding_interval.json");
    fb_reading *reading;

    (void)state;
    assert_ok(fb_read(&reading, the.engine, prompt.ids, SHORT, NULL, 0, 0));
    for (int c = 0; c < 3; c++)
        run_interval(all, c, reading);
    fb_reading_free(reading);
    json_decref(all);
}

static int open_all(void **state)
{
    (void)state;
    reference_open(&the);
    root = golden_load(REFERENCE "decoding.json");
    prompt = reference_prompt(json_string_value(golden_at(root, "prompt")));
    question = reference_ids(golden_at(root, "question_ids"));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fb_free(prompt.ids);
    fb_free(question.ids);
    json_decref(root);
    rig_close(&the);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evictions_while_answering_are_those_of_kvpress),
        cmocka_unit_test(an_interval_is_that_of_kvpress),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
