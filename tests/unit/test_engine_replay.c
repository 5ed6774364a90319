/* test_engine_replay.c - a second reading shows what a plain pass over both texts shows, and
 * leaves no trace; the residual stream is what the watcher sees.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/decoder.h"
#include "tests/support/near.h"
#include "tests/support/reference.h"

#include <math.h>

#define FAMILIES "tests/golden/families/"

enum {
    N = 60,
    PIECE = 25,
    OVERLAP = 3,
    SINKS = 2,
    MOST_FED = 160,
    MOST = N + MOST_FED
};
enum { MOST_HEADS = 8, WIDTH = 64 };

static const char *const models[] = {FAMILIES "llama_untied", FAMILIES "gemma3",
                                     FAMILIES "qwen3_mixed"};
enum { MODELS = sizeof models / sizeof models[0] };

static int32_t context[N];
static const char end_of_turn[] = "\nAnswer:";

static int open_text(void **state)
{
    (void)state;
    rig_text(context, N, 31);
    for (int i = 0; i < N; i++)
        context[i] += 32; /* letters */
    return 0;
}

/* --- rules that show a signal as their score --- */

static const fb_replay in_pieces = {.piece = PIECE,
                                    .first = "Say it again.",
                                    .later = "Go on from",
                                    .overlap = OVERLAP,
                                    .sinks = SINKS};
static fb_replay wanted; /* of the rule below */

static void choose_replay(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_REPLAY;
    choices->group = FB_GROUP_MAX;
    choices->replay = wanted;
}

static fb_tensor show_replay(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops;
    (void)params;
    return see->replay_attention;
}

static const fb_rule replay_rule = {FB_RULE_HEAD, .name = "replayed",
                                    .choose = choose_replay, .score = show_replay};

static void choose_residual(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_RESIDUAL;
}

static fb_tensor show_residual(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_reshape(ops, see->residual, 2, (int64_t[]){1, see->m});
}

static const fb_rule residual_rule = {FB_RULE_HEAD, .name = "residual",
                                      .choose = choose_residual,
                                      .score = show_residual};

/* --- the plain pass --- */

/* What the plain pass over context and all that is fed shows of its last rows. */
static struct {
    int64_t first, n; /* rows */
    float rows[2][MOST_HEADS][MOST_FED][MOST];
    float norm[2][MOST_FED]; /* of what attention reads */
} plain;

static void choose_window(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_WINDOW_ATTENTION;
    choices->window = plain.n;
}

static fb_tensor keep_window(fb_ops *ops, const fb_signals *see, const void *params)
{
    float *host = reference_floats(ops, see->window_attention);
    int64_t at = 0;

    (void)params;
    for (int64_t h = 0; h < see->heads; h++)
        for (int64_t i = 0; i < plain.n; i++, at += see->m)
            memcpy(plain.rows[see->layer][h][i], host + at,
                   (size_t)see->m * sizeof *host);
    fb_free(host);
    return fb_full(ops, 2, (int64_t[]){1, see->m}, 0);
}

static void keep_norms(void *self, fb_ops *ops, const char *what, int64_t layer,
                       int64_t first_row, fb_tensor a)
{
    const int64_t rows = fb_size(ops, a, 0), width = fb_size(ops, a, 1);
    float *host;

    (void)self;
    if (strcmp(what, "attention_in") != 0) return;
    host = reference_floats(ops, a);
    for (int64_t i = 0; i < rows; i++) {
        double square = 0;

        if (first_row + i < plain.first) continue;
        for (int64_t c = 0; c < width; c++)
            square += (double)host[i * width + c] * (double)host[i * width + c];
        plain.norm[layer][first_row + i - plain.first] = (float)sqrt(square);
    }
    fb_free(host);
}

static void add_text(const rig *r, const char *text, bool special, fb_ids *out)
{
    const fb_piece piece = {text, strlen(text), special};

    assert_ok(fb_tokenizer_encode(fb_model_tokenizer(r->model), &piece, 1, out));
}

/* What must be fed for the piece that begins at `first`. */
static fb_ids fed_for(const rig *r, const fb_replay *how, int64_t first, int64_t n)
{
    const char *text = first == 0 ? how->first : how->later;
    fb_ids out = {0};

    if (text != NULL) add_text(r, text, false, &out);
    for (int64_t i = first < how->overlap ? 0 : first - how->overlap; i < first; i++)
        assert_ok(fb_ids_add(&out, context[i]));
    if (text != NULL) add_text(r, end_of_turn, true, &out);
    for (int64_t i = first; i < first + n; i++)
        assert_ok(fb_ids_add(&out, context[i]));
    assert_true(out.n <= MOST_FED);
    return out;
}

static void pass_plainly(const char *model, const fb_ids *fed)
{
    const fb_rule rule = {FB_RULE_HEAD, .name = "window", .choose = choose_window,
                          .score = keep_window};
    int32_t both[MOST];
    fb_bound_rule *bound;
    fb_reading *reading;
    rig r;

    plain.first = N;
    plain.n = fed->n;
    memcpy(both, context, sizeof context);
    memcpy(both + N, fed->ids, (size_t)fed->n * sizeof *both);
    rig_open(&r, model, NULL, &(fb_engine_options){.watch = keep_norms});
    assert_ok(fb_rule_bind(&bound, &rule));
    assert_ok(fb_read(&reading, r.engine, both, N + fed->n, &(fb_seeded_rule){bound, 1},
                      1, 1));
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
    rig_close(&r);
}

/* The share of entry j among what query i sees of context and own text, by definition. */
static double share(const float *row, const fb_replay *how, int64_t first, int64_t n,
                    int64_t j)
{
    double sum = 0;

    for (int64_t e = 0; e < N + plain.n; e++)
        if (how->sees_all || e >= N || (e >= first && e < first + n) ||
            (e < how->sinks && e < first))
            sum += (double)row[e];
    return (double)row[j] / sum;
}

static double most(const fb_replay *how, int layer, int64_t head, int64_t group,
                   int64_t first, int64_t n, int64_t j)
{
    double out = 0;

    for (int64_t h = head * group; h < (head + 1) * group; h++)
        for (int64_t i = 0; i < plain.n; i++) {
            double a = share(plain.rows[layer][h][i], how, first, n, j);

            if (how->by_hidden) a /= (double)plain.norm[layer][i];
            if (a > out) out = a;
        }
    return out;
}

/* --- the comparison --- */

static fb_reading *read_again(rig *r, const char *model, fb_bound_rule **bound)
{
    fb_reading *reading;

    rig_open(r, model, NULL,
             &(fb_engine_options){.chunk = 16, .turn_end = end_of_turn});
    assert_ok(fb_rule_bind(bound, &replay_rule));
    assert_ok(
        fb_read(&reading, r->engine, context, N, &(fb_seeded_rule){*bound, 1}, 1, 1));
    return reading;
}

static void compare_piece(const rig *r, const fb_reading *reading, const char *model,
                          const fb_replay *how, int64_t first, int64_t n)
{
    const fb_model_facts *facts = fb_model_get_facts(r->model);
    const int64_t group = facts->heads / facts->kv_heads;
    fb_ids fed = fed_for(r, how, first, n);

    pass_plainly(model, &fed);
    for (int layer = 0; layer < facts->layers; layer++) {
        const int64_t index = facts->layer[layer].index;
        float *ours;

        if (facts->layer[layer].slides) continue;
        ours = reference_floats(r->ops, fb_reading_score(reading, 0, index));
        /* The watcher counts all layers, rules those that do not slide. */
        if (layer != index)
            memcpy(plain.norm[index], plain.norm[layer], sizeof plain.norm[0]);
        for (int64_t g = 0; g < facts->kv_heads; g++)
            for (int64_t j = first; j < first + n; j++) {
                const double is = most(how, (int)index, g, group, first, n, j);

                if (fabs((double)ours[g * N + j] - is) > 2e-6 + 2e-5 * is)
                    fail_msg("%s, layer %d, head %d, entry %d: %.8g; %.8g is right",
                             model, layer, (int)g, (int)j, (double)ours[g * N + j], is);
            }
        fb_free(ours);
    }
    fb_ids_clear(&fed);
}

static void compare(const fb_replay *how)
{
    wanted = *how;
    for (int m = 0; m < MODELS; m++) {
        fb_bound_rule *bound;
        rig r;
        fb_reading *reading = read_again(&r, models[m], &bound);

        for (int64_t first = 0; first < N; first += how->piece) {
            const int64_t left = N - first, n = left < how->piece ? left : how->piece;

            compare_piece(&r, reading, models[m], how, first, n);
            if (n == left) break;
        }
        fb_reading_free(reading);
        fb_bound_rule_free(bound);
        rig_close(&r);
    }
}

static void a_second_reading_is_a_plain_pass_over_both(void **state)
{
    (void)state;
    compare(&(fb_replay){.piece = INT64_MAX, .sees_all = true});
    compare(&(fb_replay){.piece = N, .first = "again", .sees_all = true});
}

static void pieces_are_a_plain_pass_each_with_a_softmax_of_their_own(void **state)
{
    fb_replay how = in_pieces;

    (void)state;
    compare(&how);
    how.by_hidden = true;
    compare(&how);
    how.piece = N - 1; /* one entry is left, and shorter than the overlap before it */
    how.later = NULL;
    compare(&how);
    how.sees_all = true;
    how.piece = PIECE;
    compare(&how);
}

/* --- a draft --- */

enum { DRAFT = 5 };

/* The end of the turn and what the full cache says then, by the way answers are made. */
static fb_ids said_and_drafted(const rig *r, fb_reading *reading, int64_t *n_said)
{
    const fb_answer_options options = {.generate = true, .max_tokens = DRAFT};
    fb_variant *full;
    fb_answer answer;
    fb_ids out = {0};

    add_text(r, end_of_turn, true, &out);
    *n_said = out.n;
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_answer_group(
        reading, &full, 1, &(fb_question){out.ids, NULL, out.n, 0}, &options, &answer));
    assert_int_equal(answer.n_ids, DRAFT);
    for (int i = 0; i < DRAFT; i++)
        assert_ok(fb_ids_add(&out, answer.ids[i]));
    fb_answer_clear(&answer);
    fb_variant_free(full);
    return out;
}

/* The largest of the heads of a group's means over the draft's rows. */
static double mean_of_draft(int64_t layer, int64_t head, int64_t group, int64_t n_said,
                            int64_t j)
{
    double out = 0;

    for (int64_t h = head * group; h < (head + 1) * group; h++) {
        double sum = 0;

        for (int64_t i = n_said; i < n_said + DRAFT; i++)
            sum += (double)plain.rows[layer][h][i][j];
        out = fmax(out, sum / DRAFT);
    }
    return out;
}

static void a_draft_is_what_an_answer_would_say_and_look_at(void **state)
{
    (void)state;
    wanted = (fb_replay){.draft = DRAFT};
    for (int m = 0; m < MODELS; m++) {
        fb_bound_rule *bound;
        rig r;
        fb_reading *reading = read_again(&r, models[m], &bound);
        const fb_model_facts *facts = fb_model_get_facts(r.model);
        const int64_t group = facts->heads / facts->kv_heads;
        int64_t n_said;
        fb_ids fed = said_and_drafted(&r, reading, &n_said);

        pass_plainly(models[m], &fed);
        for (int64_t l = 0; l < facts->global_layers; l++) {
            float *ours = reference_floats(r.ops, fb_reading_score(reading, 0, l));

            for (int64_t g = 0; g < facts->kv_heads; g++)
                for (int64_t j = 0; j < N; j++)
                    assert_near((double)ours[g * N + j],
                                mean_of_draft(l, g, group, n_said, j), 2e-6);
            fb_free(ours);
        }
        fb_ids_clear(&fed);
        fb_reading_free(reading);
        fb_bound_rule_free(bound);
        rig_close(&r);
    }
}

/* --- no trace --- */

static const char *const company[] = {"knorm", "snapkv:window=8", "h2o", "oracle"};
enum { COMPANY = sizeof company / sizeof company[0] };

static int n_seen;

static void count(void *self, fb_ops *ops, const char *what, int64_t layer,
                  int64_t first_row, fb_tensor a)
{
    (void)self;
    (void)ops;
    (void)layer;
    (void)first_row;
    (void)a;
    n_seen += strcmp(what, "attention_in") == 0;
}

/* Reads for the company and, behind it, `others`. */
static fb_reading *read_with(const rig *r, fb_bound_rule *const *others, int n_others)
{
    static fb_bound_rule *rules[COMPANY];
    fb_seeded_rule seeded[COMPANY + 4];
    fb_reading *reading;

    for (int i = 0; i < COMPANY; i++) {
        if (rules[i] == NULL) assert_ok(fb_rule_parse(&rules[i], company[i]));
        seeded[i] = (fb_seeded_rule){rules[i], 1};
    }
    for (int i = 0; i < n_others; i++)
        seeded[COMPANY + i] = (fb_seeded_rule){others[i], 1};
    n_seen = 0;
    assert_ok(fb_read(&reading, r->engine, context, N, seeded, COMPANY + n_others, 1));
    return reading;
}

static void same_scores(const rig *r, const fb_reading *a, const fb_reading *b,
                        int rule)
{
    for (int64_t l = 0; l < 2; l++) {
        const fb_tensor score = fb_reading_score(a, rule, l);
        const int64_t n = fb_size(r->ops, score, 0) * fb_size(r->ops, score, 1);
        float *x = reference_floats(r->ops, score);
        float *y = reference_floats(r->ops, fb_reading_score(b, rule, l));

        assert_memory_equal(x, y, (size_t)n * sizeof *x);
        fb_free(x);
        fb_free(y);
    }
}

static void who_reads_again_changes_no_bit_of_anybody_else(void **state)
{
    fb_bound_rule *again[4];
    fb_reading *without, *with;
    rig r;

    (void)state;
    rig_open(&r, models[0], NULL, NULL);
    assert_ok(fb_rule_parse(&again[0], "kvzip:piece=25"));
    assert_ok(fb_rule_parse(&again[1], "kvcompose"));
    assert_ok(fb_rule_parse(&again[2], "kvzip:plus=1"));
    assert_ok(fb_rule_bind(&again[3], &residual_rule));
    without = read_with(&r, NULL, 0);
    with = read_with(&r, again, 4);
    assert_string_equal(fb_reading_trace(with), fb_reading_trace(without));
    assert_string_equal(fb_reading_cache_sha256(with),
                        fb_reading_cache_sha256(without));
    for (int i = 0; i < COMPANY - 1; i++) /* the last one waits for its future */
        same_scores(&r, with, without, i);
    for (int i = 0; i < COMPANY; i++)
        assert_memory_equal(fb_reading_ledger(with, i), fb_reading_ledger(without, i),
                            sizeof(fb_ledger));
    fb_reading_free(with);
    fb_reading_free(without);
    for (int i = 0; i < 4; i++)
        fb_bound_rule_free(again[i]);
    rig_close(&r);
}

static void rules_that_ask_for_the_same_share_one_reading(void **state)
{
    fb_bound_rule *again[3];
    fb_reading *reading;
    int alone;
    rig r;

    (void)state;
    rig_open(&r, models[0], NULL, &(fb_engine_options){.watch = count});
    assert_ok(fb_rule_parse(&again[0], "kvzip:piece=25"));
    assert_ok(fb_rule_parse(&again[1], "flat(kvzip:piece=25)"));
    assert_ok(fb_rule_parse(&again[2], "kvzip:piece=26"));
    reading = read_with(&r, again, 1);
    alone = n_seen;
    fb_reading_free(reading);
    reading = read_with(&r, again, 2);
    assert_int_equal(n_seen, alone);
    assert_memory_equal(
        fb_reading_ledger(reading, COMPANY)->count[FB_PHASE_context],
        fb_reading_ledger(reading, COMPANY + 1)->count[FB_PHASE_context],
        sizeof fb_reading_ledger(reading, 0)->count[FB_PHASE_context]);
    fb_reading_free(reading);
    reading = read_with(&r, again, 3);
    assert_true(n_seen > alone);
    fb_reading_free(reading);
    for (int i = 0; i < 3; i++)
        fb_bound_rule_free(again[i]);
    rig_close(&r);
}

/* Keys and values of the context, and beside them what the rule has open. */
static void what_it_holds_is_what_the_allocator_counts(void **state)
{
    static const char *const expressions[] = {"kvzip:piece=25", "kvzip", "kvcompose",
                                              "lookahead"};

    (void)state;
    for (int i = 0; i < MODELS * 4; i++) {
        fb_bound_rule *again;
        fb_reading *reading;
        size_t bytes, held;
        rig r;

        rig_open(&r, models[i / 4], NULL, NULL);
        assert_ok(fb_rule_parse(&again, expressions[i % 4]));
        fb_memory_reset_peaks();
        reading = read_with(&r, &again, 1);
        bytes = fb_reading_again_bytes(reading, COMPANY);
        assert_true(bytes > 0);
        assert_int_equal(fb_reading_again_bytes(reading, 0), 0);
        held = fb_memory_now(FB_ACCOUNT_kv) + bytes;
        assert_true(fb_reading_pass_bytes(reading) >= held - bytes);
        assert_int_equal(fb_memory_peak(FB_ACCOUNT_kv),
                         held > fb_reading_pass_bytes(reading)
                             ? held
                             : fb_reading_pass_bytes(reading));
        fb_reading_free(reading);
        fb_bound_rule_free(again);
        rig_close(&r);
    }
}

/* But for the stack of the operators, which stays as large as it was. */
static size_t memory_in_use(void)
{
    return fb_memory_now(FB_ACCOUNT_kv) + fb_memory_now(FB_ACCOUNT_signals) +
           fb_memory_now(FB_ACCOUNT_other);
}

static void a_failing_allocation_leaks_nothing(void **state)
{
    static const char *const expressions[] = {"kvzip:piece=25,plus=1", "kvcompose",
                                              "squeeze(knorm)"};
    fb_seeded_rule rules[3];
    fb_bound_rule *bound[3];
    fb_status status = FB_NO_MEMORY;
    int64_t n;
    rig r;

    (void)state;
    rig_open(&r, models[2], NULL, &(fb_engine_options){.chunk = 32});
    for (int i = 0; i < 3; i++) {
        assert_ok(fb_rule_parse(&bound[i], expressions[i]));
        rules[i] = (fb_seeded_rule){bound[i], 1};
    }
    for (n = 1; status != FB_OK && n < 100000; n++) {
        const size_t before = memory_in_use();
        fb_reading *reading = NULL;

        fb_memory_fail_at(n);
        status = fb_read(&reading, r.engine, context, N, rules, 3, 1);
        fb_memory_fail_at(0);
        if (status == FB_OK) {
            fb_reading_free(reading);
            break;
        }
        assert_int_equal(status, FB_NO_MEMORY);
        assert_null(reading);
        fb_ops_reset(r.ops);
        assert_int_equal(memory_in_use(), before);
    }
    assert_true(n > 100);
    for (int i = 0; i < 3; i++)
        fb_bound_rule_free(bound[i]);
    rig_close(&r);
}

/* --- the residual stream --- */

static struct {
    float before[2][N][WIDTH], added[2][N][WIDTH];
} stream;

static void keep_stream(void *self, fb_ops *ops, const char *what, int64_t layer,
                        int64_t first_row, fb_tensor a)
{
    const bool is_added = strcmp(what, "attention_out") == 0;
    float *host, *to;

    (void)self;
    if (!is_added && (strcmp(what, "layer_out") != 0 || layer != 0)) return;
    to = is_added ? stream.added[layer][first_row] : stream.before[1][first_row];
    host = reference_floats(ops, a);
    memcpy(to, host, (size_t)(fb_size(ops, a, 0) * WIDTH) * sizeof *host);
    fb_free(host);
}

static double cosine(const float *before, const float *added)
{
    double xx = 0, xy = 0, yy = 0;

    for (int c = 0; c < WIDTH; c++) {
        const double x = (double)before[c], y = x + (double)added[c];

        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    return xy / sqrt(xx * yy);
}

static void keep_embeddings(const rig *r)
{
    float *host;

    fb_scope_open(r->ops);
    host = reference_floats(r->ops, fb_embed(r->engine, context, N));
    memcpy(stream.before[0], host, sizeof stream.before[0]);
    fb_free(host);
    fb_scope_close(r->ops);
}

static void the_residual_is_the_cosine_around_attention(void **state)
{
    const int64_t last = N - 1;
    float logits[128];
    fb_bound_rule *bound;
    fb_reading *reading;
    rig r;

    (void)state;
    rig_open(&r, models[0], NULL,
             &(fb_engine_options){.chunk = 16, .watch = keep_stream});
    assert_int_equal(fb_model_get_facts(r.model)->width, WIDTH);
    assert_int_equal(fb_model_get_facts(r.model)->vocabulary, 128);
    assert_ok(fb_rule_bind(&bound, &residual_rule));
    assert_ok(
        fb_read(&reading, r.engine, context, N, &(fb_seeded_rule){bound, 1}, 1, 1));
    assert_ok(fb_logits(r.engine, context, N, &last, 1, logits)); /* plain numbers */
    keep_embeddings(&r);
    for (int64_t l = 0; l < 2; l++) {
        float *ours = reference_floats(r.ops, fb_reading_score(reading, 0, l));

        for (int i = 0; i < N; i++)
            assert_near((double)ours[i],
                        cosine(stream.before[l][i], stream.added[l][i]), 1e-6);
        fb_free(ours);
    }
    /* The last layer has an output for this alone. */
    assert_true(fb_reading_ledger(reading, 0)
                    ->count[FB_PHASE_context][FB_SCOPE_signal][FB_OP_linear]
                    .calls > 0);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_reading_is_a_plain_pass_over_both),
        cmocka_unit_test(a_draft_is_what_an_answer_would_say_and_look_at),
        cmocka_unit_test(pieces_are_a_plain_pass_each_with_a_softmax_of_their_own),
        cmocka_unit_test(who_reads_again_changes_no_bit_of_anybody_else),
        cmocka_unit_test(rules_that_ask_for_the_same_share_one_reading),
        cmocka_unit_test(what_it_holds_is_what_the_allocator_counts),
        cmocka_unit_test(a_failing_allocation_leaks_nothing),
        cmocka_unit_test(the_residual_is_the_cosine_around_attention),
    };
    return cmocka_run_group_tests(tests, open_text, NULL);
}
