/* test_experiment_profile.c - profiles of devices: what is read, and what they say.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/profile.h"
#include "tests/support/test.h"

#include <math.h>

#define RATES "\"flops_per_s\": 1e12, \"bytes_per_s\": 2e11"

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

static fb_status parse(fb_profile *out, const char *text)
{
    return fb_profile_parse(out, text, strlen(text));
}

static void refused(const char *text, const char *words)
{
    fb_profile profile;
    const fb_status status = parse(&profile, text);

    if (status == FB_OK) fail_msg("taken: %s", text);
    assert_true(status == FB_FORMAT || status == FB_UNSUPPORTED);
    if (strstr(fb_error_message(), words) == NULL)
        fail_msg("'%s' is not in '%s'", words, fb_error_message());
}

static void name_and_two_rates_are_enough(void **state)
{
    fb_profile p;

    (void)state;
    assert_ok(parse(&p, "{\"name\": \"a card\", " RATES "}"));
    assert_string_equal(p.name, "a card");
    assert_near(p.flops_per_s, 1e12);
    assert_near(p.bytes_per_s, 2e11);
    assert_true(p.seconds_per_call == 0 && p.row_flops_per_s == 0 && p.threads == 0);
}

static void what_is_printed_is_read_again(void **state)
{
    const fb_profile p = {.name = "quoted \"name\"",
                          .backend = "native avx2",
                          .cpu = "CPU",
                          .date = "2026-01-01T00:00:00Z",
                          .threads = 3,
                          .flops_per_s = 123456789012.5,
                          .bytes_per_s = 9.87e10,
                          .seconds_per_call = 2.5e-7,
                          .row_flops_per_s = 1.5e10,
                          .attention_flops_per_s = 7e10,
                          .attention_bytes_per_s = 1.25e10,
                          .row_weights = "a model, unpacked"};
    fb_text text = {0};
    fb_profile again;

    (void)state;
    fb_profile_print(&p, &text);
    assert_ok(parse(&again, fb_text_string(&text)));
    assert_string_equal(again.name, p.name);
    assert_string_equal(again.backend, p.backend);
    assert_string_equal(again.cpu, p.cpu);
    assert_string_equal(again.date, p.date);
    assert_string_equal(again.row_weights, p.row_weights);
    assert_int_equal(again.threads, 3);
    assert_true(again.flops_per_s == p.flops_per_s);
    assert_true(again.bytes_per_s == p.bytes_per_s);
    assert_true(again.seconds_per_call == p.seconds_per_call);
    assert_true(again.row_flops_per_s == p.row_flops_per_s);
    assert_true(again.attention_flops_per_s == p.attention_flops_per_s);
    assert_true(again.attention_bytes_per_s == p.attention_bytes_per_s);
    fb_text_clear(&text);
}

static void hostile_files_are_refused_by_key(void **state)
{
    char longer[512];

    (void)state;
    refused("", "column");
    refused("{\"name\": \"a\", ", "column");
    refused("[1]", "object");
    refused("{" RATES "}", "name");
    refused("{\"name\": \"\", " RATES "}", "name");
    refused("{\"name\": 3, " RATES "}", "name");
    refused("{\"name\": \"a\\u001b[2J\", " RATES "}", "control");
    refused("{\"name\": \"a\", \"bytes_per_s\": 1e9}", "flops_per_s");
    refused("{\"name\": \"a\", \"flops_per_s\": 1e9}", "bytes_per_s");
    refused("{\"name\": \"a\", \"flops_per_s\": -1e9, \"bytes_per_s\": 1e9}",
            "flops_per_s");
    refused("{\"name\": \"a\", \"flops_per_s\": 1e9, \"bytes_per_s\": 0}",
            "bytes_per_s");
    refused("{\"name\": \"a\", \"flops_per_s\": 1e9, \"bytes_per_s\": 1e300}",
            "bytes_per_s");
    refused("{\"name\": \"a\", \"flops_per_s\": \"1e9\", \"bytes_per_s\": 1e9}",
            "flops_per_s");
    refused("{\"name\": \"a\", " RATES ", \"seconds_per_call\": -1}",
            "seconds_per_call");
    refused("{\"name\": \"a\", " RATES ", \"threads\": 0}", "threads");
    refused("{\"name\": \"a\", " RATES ", \"threads\": 1.5}", "threads");
    refused("{\"name\": \"a\", " RATES ", \"row_flops_per_s\": 1}", "row_flops_per_s");
    refused("{\"name\": \"a\", " RATES ", \"attention_bytes_per_s\": -1e9}",
            "attention_bytes_per_s");
    refused("{\"name\": \"a\", " RATES ", \"format\": 2}", "format");
    refused("{\"name\": \"a\", " RATES ", \"flop_per_s\": 1e9}",
            "did you mean 'flops_per_s'");
    refused("{\"name\": \"a\", \"name\": \"b\", " RATES "}", "");
    (void)snprintf(longer, sizeof longer, "{\"name\": \"%0300d\", %s}", 1, RATES);
    refused(longer, "name");
}

static void a_file_is_named_in_its_failures(void **state)
{
    fb_profile p;

    (void)state;
    assert_fails(fb_profile_read(&p, "/nothing/there.json"), FB_NOT_FOUND,
                 "profile '/nothing/there.json'");
}

static void the_slower_of_computing_and_reading_counts(void **state)
{
    const fb_profile p = {.flops_per_s = 1e12, .bytes_per_s = 1e11};

    (void)state;
    assert_near(fb_profile_seconds(&p, 3e12, 1e11), 3);
    assert_near(fb_profile_seconds(&p, 1e12, 5e11), 5);
}

/* Operators run one after another: 2 s of computing and 3 s of reading are 5. */
static void operators_of_a_phase_add_up(void **state)
{
    const fb_profile p = {
        .flops_per_s = 1e12, .bytes_per_s = 1e11, .seconds_per_call = 0.5};
    static fb_ledger ledger;
    fb_profile row = p;

    (void)state;
    ledger.count[FB_PHASE_decode][FB_SCOPE_model][FB_OP_linear] =
        (fb_count){2, 2e12, 1e11};
    ledger.count[FB_PHASE_decode][FB_SCOPE_attention][FB_OP_attention] =
        (fb_count){1, 1e12, 3e11};
    ledger.count[FB_PHASE_evict][FB_SCOPE_score][FB_OP_add] = (fb_count){9, 9e12, 9e11};
    assert_near(fb_profile_phase_seconds(&p, &ledger, FB_PHASE_decode, 1), 6.5);
    assert_near(fb_profile_phase_bytes(&ledger, FB_PHASE_decode, 1), 4e11);
    /* weights of 8 bits instead of 32 */
    assert_near(fb_profile_phase_bytes(&ledger, FB_PHASE_decode, 0.25), 3.25e11);
    assert_near(fb_profile_phase_flops(&ledger, FB_PHASE_decode), 3e12);
    row.row_flops_per_s = 5e11; /* products of one row take 4 s */
    assert_near(fb_profile_phase_seconds(&row, &ledger, FB_PHASE_decode, 1), 8.5);
    row.attention_bytes_per_s = 5e10; /* attention 6 s instead of 3 */
    assert_near(fb_profile_phase_seconds(&row, &ledger, FB_PHASE_decode, 1), 11.5);
}

/* Where there are many rows the rates of one do not count. */
static void reading_has_rates_of_its_own(void **state)
{
    const fb_profile p = {.flops_per_s = 1e12,
                          .bytes_per_s = 1e11,
                          .row_flops_per_s = 1e9,
                          .attention_flops_per_s = 5e11,
                          .attention_bytes_per_s = 1e9};
    static fb_ledger ledger;

    (void)state;
    ledger.count[FB_PHASE_context][FB_SCOPE_model][FB_OP_linear] =
        (fb_count){1, 3e12, 1e11};
    ledger.count[FB_PHASE_context][FB_SCOPE_attention][FB_OP_attention] =
        (fb_count){1, 1e12, 1e11};
    assert_near(fb_profile_phase_seconds(&p, &ledger, FB_PHASE_context, 1), 5);
}

static void a_machine_has_rates(void **state)
{
    const fb_ops_options options = {.threads = 1};
    fb_profile p;
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, &options));
    assert_ok(fb_profile_measure(&p, ops, NULL, FB_F32));
    assert_true(p.flops_per_s > 0 && p.bytes_per_s > 0 && p.seconds_per_call > 0);
    assert_true(p.row_flops_per_s == 0);
    assert_int_equal(p.threads, 1);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), 0);
    fb_ops_close(ops);
}

static void a_model_has_rates_of_its_own(void **state)
{
    const fb_ops_options options = {.threads = 1};
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    fb_model *model;
    fb_profile p;
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, &options));
    assert_ok(fb_model_open(&model, ops, "builtin", NULL));
    assert_ok(fb_profile_measure(&p, ops, model, FB_F16));
    assert_true(p.row_flops_per_s > 0);
    assert_true(p.attention_flops_per_s > 0 && p.attention_bytes_per_s > 0);
    assert_string_equal(p.row_weights, "builtin, unpacked");
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
    fb_model_close(model);
    fb_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_and_two_rates_are_enough),
        cmocka_unit_test(what_is_printed_is_read_again),
        cmocka_unit_test(hostile_files_are_refused_by_key),
        cmocka_unit_test(a_file_is_named_in_its_failures),
        cmocka_unit_test(the_slower_of_computing_and_reading_counts),
        cmocka_unit_test(operators_of_a_phase_add_up),
        cmocka_unit_test(reading_has_rates_of_its_own),
        cmocka_unit_test(a_machine_has_rates),
        cmocka_unit_test(a_model_has_rates_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
