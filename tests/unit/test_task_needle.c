/* test_task_needle.c - haystacks, needles and continuations.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/task_env.h"

#include "base/hash.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static env_list list, other;

static int clear(void **state)
{
    (void)state;
    env_clear(&list);
    env_clear(&other);
    return 0;
}

static void make(env_list *into, const char *expression)
{
    const fb_task_env env = env_of(into);

    if (env_make(&env, expression) != FB_OK) fail_msg("%s", fb_error_message());
}

static int64_t tokens_of(const char *context)
{
    int64_t n;

    assert_int_equal(env_count(&list, context, &n), FB_OK);
    return n + 24;
}

static void a_document_has_the_wording_for_small_models(void **state)
{
    const env_document *document = &list.documents[0];
    const env_probe *probe = &document->probes[0];
    char key[64], value[64], line[256];

    (void)state;
    make(&list, "needle:samples=3");
    assert_int_equal(
        sscanf(probe->question, "\n\nWhat is the secret number for %63[^?]?", key), 1);
    assert_int_equal(sscanf(probe->answer, " %63s", value), 1);
    (void)snprintf(line, sizeof line, "The secret number for %s is", key);
    assert_string_equal(probe->prefix, line);
    (void)snprintf(line, sizeof line, "The secret number for %s is %s.", key, value);
    assert_int_equal(probe->evidence.end - probe->evidence.begin, strlen(line));
    assert_memory_equal(document->context + probe->evidence.begin, line, strlen(line));
    assert_int_equal(strlen(value), 7);
    assert_true(value[0] != '0');
    assert_ptr_equal(strstr(document->context, "Some secret numbers are hidden in the "
                                               "text below. Remember them, you will be "
                                               "asked about them later.\n\n"),
                     document->context);
}

static void contexts_have_the_length_to_the_word(void **state)
{
    static const char *const expressions[] = {
        "needle:length=128,samples=16", "needle:length=512,samples=16",
        "needle:length=2048,samples=8,keys=4", "continuation:length=300,needle=off",
        "needle:length=700,kind=uuid,keys=3"};

    (void)state;
    for (size_t e = 0; e < sizeof expressions / sizeof *expressions; e++) {
        int length = 0;

        assert_int_equal(sscanf(strchr(expressions[e], ':'), ":length=%d", &length), 1);
        make(&list, expressions[e]);
        for (int i = 0; i < list.n; i++) {
            const int64_t n = tokens_of(list.documents[i].context);

            assert_true(n <= length && n > length - 10); /* less than one word */
        }
        env_clear(&list);
    }
}

static void depths_are_stratified_and_met(void **state)
{
    enum { N = 10 };
    bool seen[N] = {false};

    (void)state;
    make(&list, "needle:length=2048,samples=10");
    assert_int_equal(list.n, N);
    for (int i = 0; i < N; i++) {
        const env_document *document = &list.documents[i];
        const env_probe *probe = &document->probes[0];
        const double text = (double)strlen(document->context);
        const int stratum = (int)(probe->depth * N);

        assert_true(fabs(probe->depth - (stratum + 0.5) / N) < 1e-12);
        assert_false(seen[stratum]);
        seen[stratum] = true;
        assert_true(fabs((double)probe->evidence.begin / text - probe->depth) < 0.05);
    }
    assert_true(list.documents[0].probes[0].depth == 0.05);
    assert_true(fabs(list.documents[1].probes[0].depth - 0.75) < 1e-12); /* step 7 */
}

static void a_grid_of_depths_goes_from_start_to_end(void **state)
{
    (void)state;
    make(&list, "needle:samples=6,depths=3");
    for (int i = 0; i < list.n; i++)
        assert_true(list.documents[i].probes[0].depth == (i % 3) / 2.0);
    assert_int_equal(
        list.documents[0].probes[0].evidence.begin,
        strlen("Some secret numbers are hidden in the text below. Remember "
               "them, you will be asked about them later.\n\n"));
    assert_int_equal(list.documents[2].probes[0].evidence.end,
                     strlen(list.documents[2].context));
}

static void needles_stand_between_sentences(void **state)
{
    (void)state;
    make(&list, "needle:samples=40,length=1024,keys=2");
    for (int i = 0; i < list.n; i++)
        for (int k = 0; k < 2; k++) {
            const char *context = list.documents[i].context;
            const fb_byte_span at = list.documents[i].probes[k].evidence;
            const char *before = context + at.begin - 1;

            assert_true(*before == ' ' || *before == '\n');
            if (*before == '\n') continue;
            while (strchr(" \"')]_", *before) != NULL)
                before--;
            assert_non_null(strchr(".!?", *before));
            assert_true(context[at.end] == ' ' || context[at.end] == 0);
        }
}

static void each_asked_key_is_a_probe_of_its_own(void **state)
{
    (void)state;
    make(&list, "needle:keys=4,asked=3,samples=5");
    for (int i = 0; i < list.n; i++) {
        const env_document *document = &list.documents[i];
        const char *at = document->context;
        int needles = 0;

        assert_int_equal(document->n_probes, 3);
        while ((at = strstr(at, "The secret number for ")) != NULL) {
            needles++;
            at++;
        }
        assert_int_equal(needles, 4);
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < k; j++)
                assert_string_not_equal(document->probes[k].prefix,
                                        document->probes[j].prefix);
    }
}

static void the_same_seed_gives_the_same_documents(void **state)
{
    fb_task_env env = env_of(&other);

    (void)state;
    make(&list, "needle:samples=4");
    assert_int_equal(env_make(&env, "needle:samples=4"), FB_OK);
    for (int i = 0; i < 4; i++)
        assert_string_equal(list.documents[i].context, other.documents[i].context);
    env_clear(&other);
    env.seed = 2;
    assert_int_equal(env_make(&env, "needle:samples=4"), FB_OK);
    for (int i = 0; i < 4; i++)
        assert_string_not_equal(list.documents[i].context, other.documents[i].context);
}

static void a_limit_gives_the_first_documents(void **state)
{
    fb_task_env env = env_of(&other);

    (void)state;
    make(&list, "needle:samples=12");
    env.samples = 5;
    assert_int_equal(env_make(&env, "needle:samples=12"), FB_OK);
    assert_int_equal(other.n, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(list.documents[i].context, other.documents[i].context);
}

static void documents_begin_at_different_sentences(void **state)
{
    (void)state;
    make(&list, "continuation:needle=off,samples=64,length=64");
    for (int i = 0; i < list.n; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(list.documents[i].context,
                                    list.documents[j].context, 40);
}

/* Two probes, one cache. */
static void needle_and_continuation_share_their_contexts(void **state)
{
    (void)state;
    make(&list, "needle");
    make(&other, "continuation");
    assert_int_equal(list.n, 12);
    assert_int_equal(other.n, 12);
    for (int i = 0; i < 12; i++)
        assert_string_equal(list.documents[i].context, other.documents[i].context);
}

static void a_continuation_is_the_real_next_words(void **state)
{
    (void)state;
    make(&list, "continuation:scored=50,needle=off,length=256,samples=20");
    for (int i = 0; i < list.n; i++) {
        const env_probe *probe = &list.documents[i].probes[0];
        const char *context = list.documents[i].context;
        char seam[81], *text;
        int64_t n;

        assert_true(probe->continues);
        assert_int_equal(probe->max_tokens, 50);
        assert_int_equal(env_count(&list, probe->answer, &n), FB_OK);
        assert_true(n > 50 && n < 60);
        assert_true(probe->answer[0] == ' ');
        (void)snprintf(seam, sizeof seam, "%s%.40s", context + strlen(context) - 40,
                       probe->answer);
        for (int t = 0, found = 0; !found; t++) { /* it stands in a text like this */
            char *squeezed;
            size_t k = 0;

            assert_true(t < fb_library_count());
            text = env_copy(fb_library_at(t)->text);
            squeezed = text;
            for (size_t c = 0; text[c] != 0; c++)
                if (strchr(" \n\t", text[c]) == NULL)
                    squeezed[k++] = text[c];
                else if (k > 0 && squeezed[k - 1] != ' ')
                    squeezed[k++] = ' ';
            squeezed[k] = 0;
            found = strstr(squeezed, seam) != NULL;
            free(text);
        }
    }
}

/* A06 */
static void a_short_length_fits_or_names_the_smallest(void **state)
{
    static const int lengths[] = {64, 256, 2048};
    char expression[64];
    const fb_task_env env = env_of(&list);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *smallest;
        int n;

        (void)snprintf(expression, sizeof expression, "needle:length=%d", lengths[i]);
        if (env_make(&env, expression) == FB_OK) continue;
        smallest = strstr(fb_error_message(), "the smallest that fits is ");
        assert_non_null(smallest);
        assert_int_equal(sscanf(smallest, "the smallest that fits is %d", &n), 1);
        assert_true(n > lengths[i] && n < 256);
        (void)snprintf(expression, sizeof expression, "needle:length=%d", n);
        assert_int_equal(env_make(&env, expression), FB_OK); /* and it does fit */
        env_clear(&list);
        (void)snprintf(expression, sizeof expression, "needle:length=%d", n - 1);
        assert_int_equal(env_make(&env, expression), FB_USAGE);
    }
    assert_int_equal(env_make(&env, "needle:length=1048576"), FB_USAGE);
}

static void values_have_the_form_of_their_kind(void **state)
{
    unsigned a, b, c, d;
    unsigned long long e;
    char first[32], second[32], version, variant;

    (void)state;
    make(&list, "needle:kind=uuid,samples=8");
    make(&other, "needle:kind=word,samples=8");
    for (int i = 0; i < 8; i++) {
        const char *uuid = list.documents[i].probes[0].answer;

        assert_int_equal(strlen(uuid), 37);
        assert_int_equal(sscanf(uuid, " %8x-%4x-4%3x-%4x-%12llx", &a, &b, &c, &d, &e),
                         5);
        version = uuid[15];
        variant = uuid[20];
        assert_int_equal(version, '4');
        assert_non_null(strchr("89ab", variant));
        assert_non_null(strstr(list.documents[i].probes[0].question, "secret code"));
        assert_int_equal(sscanf(other.documents[i].probes[0].answer,
                                " %31[a-z]-%31[a-z]", first, second),
                         2);
    }
}

/* Results are stored by task and version: documents that change need a new version, and
 * then new hashes here. */
static void documents_of_this_version_never_change(void **state)
{
    static const struct {
        const char *expression, *hash;
    } cases[] = {
        {"needle", "7b7630899cdea645474ffc6dead2a9d9615399ccb539e5d4112244e935049868"},
        {"needle:keys=4,kind=uuid,depths=5,length=1000",
         "1ca2a1c9255900820cf922cffe2641c0f649191bb1919c68ea4614137143f008"},
        {"needle:kind=word,samples=5",
         "7adbc7bf8d4461e34ff779ac0f11db7f64356a2cc5c441330668534a092c7a43"},
        {"continuation:needle=off",
         "083614a34e1c401d3beddd0318dcc338390e6b4d8b359f4e95fd9f6f7d006999"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char hex[FB_HASH_HEX];
        fb_hash hash;

        fb_hash_init(&hash);
        make(&list, cases[i].expression);
        for (int k = 0; k < list.n; k++) {
            const env_document *document = &list.documents[k];

            fb_hash_add(&hash, document->context, strlen(document->context));
            fb_hash_add(&hash, document->probes[0].answer,
                        strlen(document->probes[0].answer));
        }
        fb_hash_hex(&hash, hex);
        assert_string_equal(hex, cases[i].hash);
        env_clear(&list);
    }
}

static void a_failed_allocation_fails_cleanly(void **state)
{
    const fb_task_env env = env_of(&list);
    int n = 0;
    fb_status status;

    (void)state;
    do {
        const size_t before = fb_memory_now(FB_ACCOUNT_other);

        env_clear(&list);
        fb_memory_fail_at(++n);
        status = env_make(&env, "continuation:samples=1,length=128");
        fb_memory_fail_at(0);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
    } while (status != FB_OK);
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_document_has_the_wording_for_small_models, clear),
        cmocka_unit_test_teardown(contexts_have_the_length_to_the_word, clear),
        cmocka_unit_test_teardown(depths_are_stratified_and_met, clear),
        cmocka_unit_test_teardown(a_grid_of_depths_goes_from_start_to_end, clear),
        cmocka_unit_test_teardown(needles_stand_between_sentences, clear),
        cmocka_unit_test_teardown(each_asked_key_is_a_probe_of_its_own, clear),
        cmocka_unit_test_teardown(the_same_seed_gives_the_same_documents, clear),
        cmocka_unit_test_teardown(a_limit_gives_the_first_documents, clear),
        cmocka_unit_test_teardown(documents_begin_at_different_sentences, clear),
        cmocka_unit_test_teardown(needle_and_continuation_share_their_contexts, clear),
        cmocka_unit_test_teardown(a_continuation_is_the_real_next_words, clear),
        cmocka_unit_test_teardown(a_short_length_fits_or_names_the_smallest, clear),
        cmocka_unit_test_teardown(values_have_the_form_of_their_kind, clear),
        cmocka_unit_test_teardown(documents_of_this_version_never_change, clear),
        cmocka_unit_test_teardown(a_failed_allocation_fails_cleanly, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
