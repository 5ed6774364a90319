/* test_selections.c - no choice is ever larger than its budget, whatever is put together:
 * invariant 1 on scores that no rule has made.
 *
 * A rule of the list, whole pieces or single entries, a share of the budget among heads and
 * layers, and a control or an edit around them, at any budget, on any number of tokens,
 * layers and heads. Here only scores count, so a million of them take minutes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

enum {
    MOST_LAYERS = 4,
    MOST_HEADS = 4,
    MOST_TOKENS = 80,
    MOST_PLANES = 4,
    ROOM = MOST_PLANES * MOST_HEADS * MOST_TOKENS,
    OF_EACH = 25, /* selections of an expression */
    TEXT = 512,
};

static float pool[4 * ROOM];   /* what scores are cut from */
static int64_t n_done, n_full; /* selections; of which no less than T may be kept */

/* --- expressions --- */

static const char *one_of(numbers *r, const char *const *list, int64_t n)
{
    return list[number_int(r, 0, n - 1)];
}
#define ONE_OF(r, list) one_of(r, list, (int64_t)(sizeof(list) / sizeof *(list)))

/* `form` around `text`, which stands for its @. */
static void put_around(char *text, const char *form)
{
    const size_t before = strcspn(form, "@"), n = strlen(text);
    const char *behind = form + before + (form[before] != '\0');

    assert_true(before + n + strlen(behind) < TEXT);
    memmove(text + before, text, n);
    memcpy(text, form, before);
    memcpy(text + before + n, behind, strlen(behind) + 1);
}

static void put_base(numbers *r, char *text)
{
    const fb_rule *rule = NULL;

    while (rule == NULL || rule->kind != FB_KIND_RULE || rule->score == NULL)
        rule = fb_rule_at((int)number_int(r, 0, fb_rule_count() - 1));
    (void)snprintf(text, TEXT, "%s", rule->name);
    (void)small_params(rule, text);
}

/* Whole pieces, other orders; nothing most of the time. */
static const char *const pieces[] = {
    "@",
    "@",
    "@",
    "@",
    "shared(@)",
    "chunk(@,size=1)",
    "chunk(@,size=5)",
    "chunk(@,size=7,heads=own)",
    "chunk(@,size=6,cut=first)",
    "chunk(@,size=4,fill=none)",
    "chunk(@,size=8,fill=none,heads=own,cut=first)",
    "chunk(@,size=16,fill=none,cut=page)",
    "entropy_chunk(@,size=5)",
    "span(@,size=9)",
    "draw(@)",
    "critical(@)",
    "threshold(@,tau=0.2,window=3)",
};
static const char *const shares[] = {
    "@",
    "@",
    "@",
    "adakv(@)",
    "adakv(@,safeguard=0)",
    "adakv(@,safeguard=0.9,form=blend)",
    "pyramid(@)",
    "pyramid(@,beta=3)",
    "pyramid(adakv(@))",
    "flat(@)",
    "cake_layers(@,window=4)",
    "entropy(@)",
    "entropy(adakv(@))",
    "hits(@)",
    "composite(@)",
    "lazy(@,initial=2,recent=9)",
    "squeeze(@)",
};
static const char *const outermost[] = {"@", "@", "@", "control(@)", "merging(@)"};

/* Not all go together: another one is drawn then. */
static fb_bound_rule *draw_rule(numbers *r)
{
    fb_bound_rule *out = NULL;
    fb_status status = FB_USAGE;
    char text[TEXT];

    for (int tries = 0; status != FB_OK && tries < 200; tries++) {
        put_base(r, text);
        if (number_int(r, 0, 2) > 0) put_around(text, "normalise(@)");
        put_around(text, ONE_OF(r, pieces));
        put_around(text, ONE_OF(r, shares));
        put_around(text, ONE_OF(r, outermost));
        status = fb_rule_parse(&out, text);
    }
    assert_ok(status);
    of_rule(fb_bound_rule_text(out));
    return out;
}

/* Rules under which less than the budget may stay: they do not want the rest. */
static bool may_leave_room(const fb_bound_rule *rule)
{
    const char *text = fb_bound_rule_text(rule);

    return strstr(text, "fill=none") != NULL || strstr(text, "threshold") != NULL;
}

/* --- scores --- */

/* Shares, some of them equal; or numbers of both signs. */
static void fill_pool(numbers *r)
{
    const int64_t kind = number_int(r, 0, 3);

    for (size_t i = 0; i < sizeof pool / sizeof *pool; i++) {
        const float x = number_unit(r);

        pool[i] = kind == 0 ? x : kind == 1 ? floorf(8 * fabsf(x)) / 8 : fabsf(x);
    }
}

static fb_tensor cut_scores(numbers *r, int64_t rows, int64_t columns)
{
    const int64_t most = (int64_t)(sizeof pool / sizeof *pool) - rows * columns;

    return fb_from_host(ops, FB_F32, 2, (int64_t[]){rows, columns},
                        pool + number_int(r, 0, most));
}

/* What an allocation over layers measures: a number, or (lazy) a row of attention. */
static fb_tensor cut_measure(numbers *r, const fb_bound_rule *rule, int64_t n)
{
    const float number[] = {fabsf(number_unit(r))};

    if (strstr(fb_bound_rule_text(rule), "lazy(") != NULL)
        return cut_scores(r, 1, n - 1);
    return fb_from_host(ops, FB_F32, 1, (int64_t[]){1}, number);
}

static void draw_shape(numbers *r, fb_selector *in)
{
    in->layers = number_int(r, 1, MOST_LAYERS);
    in->kv_heads = number_int(r, 1, MOST_HEADS);
    in->n = number_int(r, 1, MOST_TOKENS);
    in->protect = small_protect(r, in->n);
    in->protect_last = number_int(r, 0, 9) == 0 ? number_int(r, 0, in->n) : 0;
    in->seed = number_bits(r);
}

/* --- what stays --- */

static void check_kept(const fb_selector *in, const fb_selection *s, int64_t k)
{
    const int64_t most = in->layers * in->kv_heads * (k < in->n ? k : in->n);
    const int64_t total = fb_kept_total(&s->kept);

    holds(s->kept.n_slots == in->layers * in->kv_heads);
    holds(s->budget_entries == in->layers * in->kv_heads * k);
    holds(total <= most);
    for (int64_t slot = 0; slot < s->kept.n_slots; slot++) {
        const int32_t *position = s->kept.position[slot];
        const int64_t m = s->kept.count[slot];

        holds(m >= 1 && m <= in->n && position[0] >= 0 && position[m - 1] < in->n);
        for (int64_t i = 1; i < m; i++)
            holds(position[i] > position[i - 1]);
    }
    n_done++;
    if (may_leave_room(in->rule)) return;
    holds(total == most);
    n_full++;
}

static void select_one(numbers *r, const fb_bound_rule *rule)
{
    const fb_choices *choices = fb_bound_rule_choices(rule);
    const int64_t planes = choices->planes > 1 ? choices->planes : 1;
    fb_tensor scores[MOST_LAYERS] = {{0}}, measured[MOST_LAYERS] = {{0}};
    fb_selector in = {.rule = rule, .scores = scores, .measured = measured};
    fb_selection s;
    int64_t k;

    draw_shape(r, &in);
    k = number_int(r, 1, in.n + (in.n < 9 ? 2 : 0));
    fb_scope_open(ops);
    for (int64_t l = 0; l < in.layers && k < in.n; l++) {
        if (fb_select_falls_back(rule, in.n)) continue;
        scores[l] = cut_scores(r, planes * in.kv_heads, in.n - choices->unscored_last);
        measured[l] = cut_measure(r, rule, in.n);
    }
    holds(fb_select(&s, ops, &in, k) == FB_OK);
    check_kept(&in, &s, k);
    fb_selection_clear(&s);
    fb_scope_close(ops);
}

static void check_selections(numbers *r)
{
    fb_bound_rule *rule = draw_rule(r);

    holds(fb_bound_rule_choices(rule)->planes <= MOST_PLANES);
    fill_pool(r);
    for (int i = 0; i < OF_EACH; i++)
        select_one(r, rule);
    fb_bound_rule_free(rule);
}

static void no_choice_is_larger_than_its_budget(void **state)
{
    (void)state;
    try_many_cases(1000000 / OF_EACH, 160, check_selections);
    print_message("%lld selections, %lld of them of exactly the budget\n",
                  (long long)n_done, (long long)n_full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_choice_is_larger_than_its_budget),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
