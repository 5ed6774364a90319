/* test_kept.c - every rule keeps the entries that kvpress's press of it keeps.
 *
 * Settings: protection as published, rounding as kvpress's. All ratios of the manifest,
 * all layers and kv heads. Sets are equal but for positions listed in `near`: those
 * whose score lies within a relative 1e-4 of the boundary or that flip when kvpress's
 * own scores are perturbed by 2e-4.
 *
 * The random matrix of `leverage` is here the one that kvpress drew, from a file: fb_normal
 * below takes the place of the library's.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/npy.h"
#include "tests/support/reference.h"

#include <string.h>

enum { LAYERS = 30, KV_HEADS = 3, N_SCORE_LAYERS = 3 };

#define COMPACTOR                                                                      \
    "compactor(noncausal:tail=kvpress,skip_first=8,skip_last=4,"                       \
    "leverage:skip_first=8,skip_last=4,lift=0"

static const struct {
    const char *press, *rule;
} pairs[] = {
    {"knorm", "knorm"},
    {"keydiff", "keydiff"},
    {"tova", "tova"},
    {"snapkv", "snapkv"},
    {"snapkv_w16", "snapkv:window=16"},
    {"streaming_llm", "streaming_llm:sink=4"},
    {"observed_attention", "observed_attention"},
    {"adakv_snapkv", "adakv(snapkv)"},
    {"cur", "cur:edge=kvpress"},
    {"lagkv", "lagkv"},
    {"lagkv_l32", "lagkv:lag=32"},
    {"lagkv_l32_cross", "lagkv:lag=32,cross=1"},
    {"finch_w32", "finch:window=32"},
    {"expected_attention", "expected_attention"},
    {"expected_attention_mean_eps", "expected_attention:covariance=0,epsilon=0.02"},
    {"adakv_expected_attention", "adakv(expected_attention)"},
    {"cap", "cap"},
    {"criticalkv_snapkv", "critical(snapkv)"},
    {"critical_adakv_snapkv", "adakv(critical(snapkv,safeguard=0.2))"},
    {"noncausal_attn", "noncausal:tail=kvpress"},
    {"leverage", "leverage:lift=0"},
    {"compactor", COMPACTOR ")"},
    {"compactor", COMPACTOR ",weight=fixed,fixed=0.9)"},
    {"pyramidkv", "pyramid(snapkv,form=kvpress)"},
    {"pyramidkv_w4_b10", "pyramid(snapkv:window=4,beta=10,form=kvpress)"},
    {"chunkkv_snapkv", "chunk(snapkv,fill=none,cut=first)"},
    {"entropy_chunkkv_snapkv", "entropy_chunk(snapkv)"},
    {"chunk_knorm", "span(knorm,size=128)"},
};

enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static rig the;

/* kvpress weighs by the ratio asked for, we by the share that really leaves: 271 of 300 at
 * 0.9. There the weight is given. */
static bool is_compared(int r, double ratio)
{
    const bool is_given = strstr(pairs[r].rule, "weight=fixed") != NULL;

    return strcmp(pairs[r].press, "compactor") != 0 || is_given == (ratio == 0.9);
}

/* Where less stays than its window, this press chooses within that by its own score. */
static bool chooses_within_window(int r)
{
    return strcmp(pairs[r].press, "criticalkv_snapkv") == 0;
}

/* In every layer the numbers that kvpress drew, of variance 1 / columns there. */
fb_tensor fb_normal(fb_ops *ops, const fb_signals *see, uint64_t seed, int64_t rows,
                    int64_t columns)
{
    fb_tensor out;
    npy drawn;

    (void)seed;
    npy_open(&drawn, REFERENCE "kept/leverage_sketch_Phi.npy", "<f4");
    assert_int_equal(drawn.shape[0], see->kv_heads);
    assert_int_equal(drawn.shape[1], rows);
    assert_int_equal(drawn.shape[2], columns);
    out = fb_from_host(ops, FB_F32, 3, drawn.shape, drawn.data);
    npy_close(&drawn);
    return fb_scale(ops, out, sqrt((double)columns));
}

/* A prompt, read once for all rules. */
typedef struct subject {
    const char *prompt;
    id_list ids;
    fb_bound_rule *rule[N_PAIRS];
    fb_reading *reading;
} subject;

static void read_subject(subject *s, const char *prompt)
{
    fb_seeded_rule rules[N_PAIRS];

    *s = (subject){.prompt = prompt, .ids = reference_prompt(prompt)};
    for (int r = 0; r < N_PAIRS; r++) {
        assert_ok(fb_rule_parse(&s->rule[r], pairs[r].rule));
        rules[r] = (fb_seeded_rule){.rule = s->rule[r]};
    }
    assert_ok(
        fb_read(&s->reading, the.engine, s->ids.ids, s->ids.n, rules, N_PAIRS, 0));
}

static void free_subject(subject *s)
{
    fb_reading_free(s->reading);
    for (int r = 0; r < N_PAIRS; r++)
        fb_bound_rule_free(s->rule[r]);
    fb_free(s->ids.ids);
}

static void path_of(char *out, size_t n, const subject *s, int r, const char *end)
{
    snprintf(out, n, REFERENCE "kept/%s/%s.%s", s->prompt, pairs[r].press, end);
}

/* What one comparison of many heads found. */
typedef struct tally {
    int64_t positions; /* compared */
    int64_t differ;    /* differ and may */
    int64_t wrong;     /* differ and may not */
    bool is_shrunk;    /* fewer entries than are protected */
} tally;

static bool is_near(json_t *ranges, int64_t position)
{
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        json_t *range = json_array_get(ranges, i);

        if (json_integer_value(json_array_get(range, 0)) <= position &&
            position <= json_integer_value(json_array_get(range, 1)))
            return true;
    }
    return false;
}

static bool has_bit(const uint8_t *mask, int64_t position)
{
    return (mask[position / 8] >> (position % 8) & 1) != 0;
}

static void compare_head(tally *sum, const uint8_t *mask, const int32_t *kept,
                         int64_t n_kept, int64_t n, json_t *near)
{
    int64_t at = 0;

    for (int64_t position = 0; position < n; position++) {
        const bool ours = at < n_kept && kept[at] == position;

        if (ours) at++;
        sum->positions++;
        if (ours == has_bit(mask, position)) continue;
        if (is_near(near, position))
            sum->differ++;
        else
            sum->wrong++;
    }
    assert_int_equal(at, n_kept);
}

/* All heads at ratio number `value` of the masks [values, 30, 3, bytes]. */
static tally compare(const fb_selection *ours, const npy *masks, int64_t value,
                     int64_t n, json_t *near)
{
    const int64_t n_bytes = masks->shape[3];
    tally sum = {0};

    for (int slot = 0; slot < LAYERS * KV_HEADS; slot++) {
        const int64_t row = value * LAYERS * KV_HEADS + slot;
        char key[32];

        snprintf(key, sizeof key, "%d.%d", slot / KV_HEADS, slot % KV_HEADS);
        compare_head(&sum, (const uint8_t *)masks->data + row * n_bytes,
                     ours->kept.position[slot], ours->kept.count[slot], n,
                     json_object_get(near, key));
    }
    return sum;
}

/* Keeping 1 - ratio, of which the ratios 0.25, 0.5, 0.75, 0.9 have two digits. */
static int64_t entries_at(double ratio, int64_t n)
{
    const int64_t percent = (int64_t)(100 - 100 * ratio + 0.5);
    const fb_budget budget = {
        .kind = FB_BUDGET_RATIO, .numerator = percent, .denominator = 100};
    const fb_cache_shape shape = {LAYERS, KV_HEADS, 64, FB_F32};

    return fb_budget_entries(&budget, &shape, n, FB_ROUND_KVPRESS);
}

/* Presses whose number of entries is not that of the ratio. */
static bool counts_itself(const char *press)
{
    return strncmp(press, "pyramidkv", 9) == 0 || strncmp(press, "chunk", 5) == 0;
}

/* What kvpress kept, in entries per head. */
static int64_t entries_in(const npy *masks, int64_t value)
{
    const int64_t n_bytes = LAYERS * KV_HEADS * masks->shape[3];
    const uint8_t *mask = (const uint8_t *)masks->data + value * n_bytes;
    int64_t total = 0;

    for (int64_t bit = 0; bit < 8 * n_bytes; bit++)
        total += has_bit(mask, bit);
    assert_int_equal(total % (LAYERS * KV_HEADS), 0);
    return total / (LAYERS * KV_HEADS);
}

static tally check_ratio(const subject *s, int r, const npy *masks, int64_t value,
                         double ratio, json_t *near)
{
    const fb_protect protect = {.kind = FB_PROTECT_PUBLISHED};
    const int64_t k = counts_itself(pairs[r].press) ? entries_in(masks, value)
                                                    : entries_at(ratio, s->ids.n);
    fb_variant *variant;
    tally sum;

    assert_ok(fb_evict(&variant, s->reading, r, &protect, 0, k));
    sum = compare(fb_variant_selection(variant), masks, value, s->ids.n, near);
    sum.is_shrunk = fb_variant_selection(variant)->shrunk;
    fb_variant_free(variant);
    return sum;
}

static void check_rule(const subject *s, int r, json_t *manifest)
{
    json_t *entry = json_object_get(manifest, pairs[r].press);
    json_t *values = json_object_get(entry, "values");
    char path[256];
    json_t *near;
    npy masks;

    path_of(path, sizeof path, s, r, "kept.npy");
    npy_open(&masks, path, "|u1");
    path_of(path, sizeof path, s, r, "near.json");
    near = golden_load(path);
    assert_int_equal(json_array_size(values), masks.shape[0]);
    for (int64_t v = 0; v < masks.shape[0]; v++) {
        const double ratio = json_number_value(json_array_get(values, (size_t)v));
        char key[32];
        tally sum;

        if (!is_compared(r, ratio)) continue;
        snprintf(key, sizeof key, "%g", ratio);
        sum = check_ratio(s, r, &masks, v, ratio, json_object_get(near, key));
        print_message("%-6s %-20s at %-4s: of %lld positions %lld near ones differ, "
                      "%lld others\n",
                      s->prompt, pairs[r].rule, key, (long long)sum.positions,
                      (long long)sum.differ, (long long)sum.wrong);
        assert_true(sum.wrong == 0 || (sum.is_shrunk && chooses_within_window(r)));
    }
    json_decref(near);
    npy_close(&masks);
}

static void check_prompt(const char *prompt)
{
    char path[256];
    json_t *manifest;
    subject s;

    snprintf(path, sizeof path, REFERENCE "kept/%s/manifest.json", prompt);
    manifest = golden_load(path);
    read_subject(&s, prompt);
    for (int r = 0; r < N_PAIRS; r++)
        check_rule(&s, r, manifest);
    free_subject(&s);
    json_decref(manifest);
}

static void kept_sets_of_300_tokens_are_those_of_kvpress(void **state)
{
    (void)state;
    check_prompt("p300");
}

static void kept_sets_of_1500_tokens_are_those_of_kvpress(void **state)
{
    (void)state;
    check_prompt("p1500");
}

/* --- scores ---------------------------------------------------------------------- */

/* Largest difference of one head's scores over the range of theirs. */
static double head_differs(const float *theirs, const float *ours, int64_t n)
{
    double most = 0, low = (double)theirs[0], high = low;

    for (int64_t j = 0; j < n; j++) {
        most = fmax(most, fabs((double)theirs[j] - (double)ours[j]));
        low = fmin(low, (double)theirs[j]);
        high = fmax(high, (double)theirs[j]);
    }
    return most / (high - low);
}

/* Scores of rule r in three layers; kvpress's have columns for the window as well, and
 * their own numbers for sinks. */
static double scores_differ(const subject *s, int r, const npy *theirs)
{
    static const int layers[N_SCORE_LAYERS] = {0, 15, 29};
    const int64_t first = fb_bound_rule_choices(s->rule[r])->sink;
    double most = 0;

    for (int l = 0; l < N_SCORE_LAYERS; l++) {
        const fb_tensor score = fb_reading_score(s->reading, r, layers[l]);
        const int64_t m = fb_size(the.ops, score, 1);
        float *ours = reference_floats(the.ops, score);

        for (int g = 0; g < KV_HEADS; g++) {
            const float *row =
                (const float *)theirs->data + (l * KV_HEADS + g) * s->ids.n;

            most =
                fmax(most, head_differs(row + first, ours + g * m + first, m - first));
        }
        fb_free(ours);
    }
    return most;
}

/* Not those of a rule inside of others, zeros and ones, or numbers of our own for entries
 * that stay in any case. */
static bool has_scores(const char *rule)
{
    return strchr(rule, '(') == NULL && strncmp(rule, "streaming_llm", 13) != 0 &&
           strncmp(rule, "lagkv", 5) != 0;
}

/* X^T X of `leverage` is nearly singular: kvpress's scores in f32 are themselves up to 4e-4
 * of their range away from those in f64 (layer 0 of p1500; ours 1.2e-4). */
static double most_difference(int r)
{
    return strcmp(pairs[r].press, "leverage") == 0 ? 1e-3 : 1e-4;
}

static void scores_are_those_of_kvpress(void **state)
{
    subject s;

    (void)state;
    read_subject(&s, "p300");
    for (int r = 0; r < N_PAIRS; r++) {
        char path[256];
        double worst;
        npy theirs;

        if (!has_scores(pairs[r].rule)) continue;
        path_of(path, sizeof path, &s, r, "scores.npy");
        npy_open(&theirs, path, "<f4");
        worst = scores_differ(&s, r, &theirs);
        print_message("%-20s scores differ by %.2g of their range\n", pairs[r].rule,
                      worst);
        assert_true(worst <= most_difference(r));
        npy_close(&theirs);
    }
    free_subject(&s);
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
        cmocka_unit_test(scores_are_those_of_kvpress),
        cmocka_unit_test(kept_sets_of_300_tokens_are_those_of_kvpress),
        cmocka_unit_test(kept_sets_of_1500_tokens_are_those_of_kvpress),
    };

    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
