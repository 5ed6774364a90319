/* bound.c - binding: defaults, choices joined over a tree, canonical text.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/bound.h"

#include "base/number.h"
#include "base/params.h"
#include "base/text.h"
#include "rule/check.h"
#include "rule/parse.h"

#include <string.h>

enum {
    TEXT_BYTES = 16384,
    /* more than inner rules and parameters can have */ UNDEPLOYABLE =
        FB_READS_FUTURE | FB_READS_DOCUMENT_FUTURE
};

static bool shares(const fb_rule *rule)
{
    return rule->share != NULL || rule->spread != NULL;
}

static bool wraps(const fb_rule *rule)
{
    return rule->wrap != NULL || rule->select != NULL;
}

/* What has to hold of every rule; more is checked of loaded ones (check.c). */
static fb_status check_rule(const fb_rule *rule)
{
    const bool has_hook = rule->kind == FB_KIND_RULE         ? rule->score != NULL
                          : rule->kind == FB_KIND_WRAPPER    ? wraps(rule)
                          : rule->kind == FB_KIND_ALLOCATION ? shares(rule)
                          : rule->kind == FB_KIND_EDIT       ? rule->edit != NULL
                                                             : true;

    FB_TRY(fb_rule_check_abi(rule));
    if (rule->edit != NULL && rule->kind != FB_KIND_EDIT)
        return fb_fail(FB_DEFECT, "rule '%s' sets `edit` and is of another kind",
                       rule->name);
    if (rule->n_inner < 0 || rule->n_inner > FB_MAX_INNER ||
        (fb_score_is_inner(rule) && rule->n_inner != 1) ||
        (rule->kind == FB_KIND_RULE && rule->n_inner != 0))
        return fb_fail(FB_DEFECT, "rule '%s' asks for %d inner rules", rule->name,
                       rule->n_inner);
    if (!has_hook && rule->choose == NULL)
        return fb_fail(FB_DEFECT, "rule '%s' has no formula", rule->name);
    return FB_OK;
}

fb_status fb_bound_rule_new(fb_bound_rule **out, const fb_rule *rule)
{
    fb_bound_rule *bound;

    *out = NULL;
    FB_TRY(check_rule(rule));
    bound = fb_zalloc(FB_ACCOUNT_other, sizeof *bound);
    if (bound == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a rule");
    bound->rule = rule;
    if (rule->params_bytes > 0) {
        bound->params = fb_zalloc(FB_ACCOUNT_other, rule->params_bytes);
        if (bound->params == NULL) {
            fb_bound_rule_free(bound);
            return fb_fail(FB_NO_MEMORY, "no memory for a rule");
        }
        fb_params_init(rule->params, bound->params);
    }
    *out = bound;
    return FB_OK;
}

void fb_bound_rule_free(fb_bound_rule *bound)
{
    if (bound == NULL) return;
    for (int i = 0; i < bound->n_inner; i++)
        fb_bound_rule_free(bound->inner[i]);
    fb_free(bound->params);
    fb_free(bound->text);
    fb_free(bound);
}

/* What an outer rule inherits: needs add up, smoothing and grouping stay with the
 * inner. */
static void join(fb_choices *into, const fb_choices *inner)
{
    into->reads |= inner->reads;
    into->window = fb_larger(into->window, inner->window);
    into->queries = fb_larger(into->queries, inner->queries);
    into->unscored_last = fb_larger(into->unscored_last, inner->unscored_last);
    into->sink = fb_larger(into->sink, inner->sink);
    into->recent = fb_larger(into->recent, inner->recent);
    into->min_tokens = fb_larger(into->min_tokens, inner->min_tokens);
    into->block = fb_larger(into->block, inner->block);
    if (inner->recent_quota > into->recent_quota)
        into->recent_quota = inner->recent_quota;
    into->keeps_all = into->keeps_all || inner->keeps_all;
    if (inner->compares < into->compares) into->compares = inner->compares;
    if (into->replay.piece == 0 && into->replay.draft == 0)
        into->replay = inner->replay;
    if (inner->reference != FB_REFERENCE_NONE) into->reference = inner->reference;
}

static fb_status print_text(fb_bound_rule *bound)
{
    fb_text params, text;
    fb_status status;

    fb_text_init(&params, TEXT_BYTES);
    fb_text_init(&text, TEXT_BYTES);
    if (bound->params != NULL)
        fb_params_print(bound->rule->params, bound->params, &params);
    fb_text_puts(&text, bound->rule->name);
    for (int i = 0; i < bound->n_inner; i++) {
        fb_text_puts(&text, i == 0 ? "(" : ",");
        fb_text_puts(&text, bound->inner[i]->text);
    }
    if (params.n > 0) fb_text_puts(&text, bound->n_inner > 0 ? "," : ":");
    fb_text_puts(&text, fb_text_string(&params));
    if (bound->n_inner > 0) fb_text_puts(&text, ")");
    status = fb_text_status(&params);
    if (status == FB_OK) status = fb_text_status(&text);
    if (status == FB_OK && text.n > FB_PARSE_LONGEST)
        status =
            fb_fail(FB_USAGE,
                    "rule '%s' has %zu bytes with all its settings written out; at "
                    "most %d can be read",
                    bound->rule->name, text.n, FB_PARSE_LONGEST);
    if (status == FB_OK) {
        bound->text = fb_strdup(fb_text_string(&text));
        if (bound->text == NULL) status = fb_fail(FB_NO_MEMORY, "no memory for a rule");
    }
    fb_text_clear(&params);
    fb_text_clear(&text);
    return status;
}

/* Its own states, and behind them those of all inner rules. */
static void join_states(fb_bound_rule *bound)
{
    fb_choices *c = &bound->choices;

    bound->own_state = c->state_rows;
    bound->own_layer_rows = c->layer_rows;
    bound->own_layer_squares = c->layer_squares;
    for (int i = 0; i < bound->n_inner; i++) {
        const fb_choices *inner = &bound->inner[i]->choices;

        c->state_rows += inner->state_rows;
        c->layer_rows += inner->layer_rows;
        c->layer_squares += inner->layer_squares;
    }
}

fb_status fb_bound_rule_finish(fb_bound_rule *bound)
{
    if (bound->n_inner != bound->rule->n_inner)
        return fb_fail(FB_USAGE, "'%s' needs %d rule%s between its brackets; %d given",
                       bound->rule->name, bound->rule->n_inner,
                       bound->rule->n_inner == 1 ? "" : "s", bound->n_inner);
    for (int i = 0; i < bound->n_inner; i++) {
        FB_TRY(fb_rule_check_around(bound->rule, bound->inner[i]));
        if (i == 0) bound->choices.compares = bound->inner[0]->choices.compares;
        join(&bound->choices, &bound->inner[i]->choices);
    }
    if (fb_passes_scores(bound->rule))
        bound->choices.planes = bound->inner[0]->choices.planes;
    if (bound->rule->check != NULL)
        FB_TRY(
            fb_context(fb_rule_check_status("check", bound->rule->check(bound->params)),
                       "rule '%s'", bound->rule->name));
    if (bound->rule->choose != NULL)
        bound->rule->choose(bound->params, &bound->choices);
    FB_TRY(fb_rule_check_choices(bound->rule, &bound->choices));
    join_states(bound);
    FB_TRY(fb_bound_rule_check(bound));
    return print_text(bound);
}

static fb_status finish_or_free(fb_bound_rule **bound)
{
    const fb_status status = fb_bound_rule_finish(*bound);

    if (status == FB_OK) return FB_OK;
    fb_bound_rule_free(*bound);
    *bound = NULL;
    return status;
}

fb_status fb_rule_bind(fb_bound_rule **out, const fb_rule *rule)
{
    FB_TRY(fb_bound_rule_new(out, rule));
    return finish_or_free(out);
}

fb_status fb_rule_bind_around(fb_bound_rule **out, const fb_rule *rule,
                              const char *inner)
{
    fb_bound_rule *bound;
    fb_status status;

    *out = NULL;
    FB_TRY(fb_rule_parse(&bound, inner));
    status = fb_bound_rule_new(out, rule);
    if (status != FB_OK) {
        fb_bound_rule_free(bound);
        return status;
    }
    (*out)->inner[(*out)->n_inner++] = bound;
    return finish_or_free(out);
}

const fb_rule *fb_bound_rule_get(const fb_bound_rule *rule)
{
    return rule->rule;
}

const char *fb_bound_rule_text(const fb_bound_rule *rule)
{
    return rule->text;
}

const char *fb_bound_rule_family(const fb_bound_rule *rule)
{
    const fb_rule_kind kind = rule->rule->kind;
    const bool is_inner = kind == FB_KIND_ALLOCATION || kind == FB_KIND_EDIT;

    return is_inner ? fb_bound_rule_family(rule->inner[0]) : rule->rule->family;
}

/* Adds the hashes of the files, from the outermost rule on; how many there are. */
static int add_files(const fb_bound_rule *rule, fb_hash *hash,
                     const fb_rule_file **first)
{
    int n = rule->file != NULL;

    if (n > 0) fb_hash_add(hash, rule->file->sha256, FB_HASH_HEX - 1);
    if (n > 0 && *first == NULL) *first = rule->file;
    for (int i = 0; i < rule->n_inner; i++)
        n += add_files(rule->inner[i], hash, first);
    return n;
}

bool fb_bound_rule_is_loaded(const fb_bound_rule *rule, char sha256_out[FB_HASH_HEX])
{
    const fb_rule_file *first = NULL;
    fb_hash hash;
    int n;

    fb_hash_init(&hash);
    n = add_files(rule, &hash, &first);
    if (n == 1) memcpy(sha256_out, first->sha256, FB_HASH_HEX);
    if (n > 1) fb_hash_hex(&hash, sha256_out);
    return n > 0;
}

fb_status fb_bound_rule_context(const fb_bound_rule *rule, fb_status status)
{
    const fb_rule_file *file = fb_bound_rule_file(rule);

    return file == NULL ? status
                        : fb_context(status, "%.*s", FB_MOST_SHOWN, file->path);
}

fb_tensor fb_bound_rule_end(const fb_bound_rule *rule, fb_ops *ops, fb_tensor out)
{
    const fb_rule_file *file = fb_bound_rule_file(rule);

    if (file != NULL) fb_ops_context(ops, "%.*s", FB_MOST_SHOWN, file->path);
    return out;
}

/* The first two files of a tree. */
static void add_file(const fb_bound_rule *rule, const fb_rule_file *files[2])
{
    if (rule->file != NULL && rule->file != files[0])
        files[files[0] == NULL ? 0 : 1] = rule->file;
    for (int i = 0; i < rule->n_inner; i++)
        add_file(rule->inner[i], files);
}

const fb_rule_file *fb_bound_rule_file(const fb_bound_rule *rule)
{
    const fb_rule_file *files[2] = {NULL, NULL};

    add_file(rule, files);
    return files[1] == NULL ? files[0] : NULL;
}

/* How query heads of a kv head are joined, where that is not their mean. */
static const char *words_of_group(const fb_bound_rule *rule)
{
    if (rule->n_inner > 0 || rule->choices.group == FB_GROUP_MEAN) return "";
    return rule->choices.group == FB_GROUP_MAX
               ? "; the highest score of the query heads of a kv head"
               : "; the mean of all query heads, for all kv heads";
}

void fb_bound_rule_about(const fb_bound_rule *rule, fb_text *out)
{
    const char *source = rule->rule->source;

    fb_text_printf(out, "%s%s: %s%s\t%s", out->n > 0 ? "\n" : "", rule->rule->name,
                   rule->rule->summary, words_of_group(rule),
                   source == NULL ? "" : source);
    for (int i = 0; i < rule->n_inner; i++)
        fb_bound_rule_about(rule->inner[i], out);
}

const fb_choices *fb_bound_rule_choices(const fb_bound_rule *rule)
{
    return &rule->choices;
}

bool fb_bound_rule_is_random(const fb_bound_rule *rule)
{
    return (rule->choices.reads & FB_READS_RANDOM) != 0 ||
           fb_bound_rule_is_control(rule);
}

bool fb_bound_rule_is_control(const fb_bound_rule *rule)
{
    return rule->rule->kind == FB_KIND_CONTROL;
}

bool fb_bound_rule_scores(const fb_bound_rule *rule)
{
    return !rule->choices.keeps_all && rule->choices.reference == FB_REFERENCE_NONE;
}

bool fb_bound_rule_is_deployable(const fb_bound_rule *rule)
{
    return (rule->choices.reads & UNDEPLOYABLE) == 0 &&
           rule->choices.reference != FB_REFERENCE_NO_EVIDENCE &&
           rule->choices.reference != FB_REFERENCE_EVIDENCE;
}

int64_t fb_bound_rule_window(const fb_bound_rule *rule, int64_t n)
{
    const fb_choices *c = &rule->choices;

    return (c->reads & FB_READS_WINDOW_ATTENTION) == 0 ? 0 : fb_smaller(c->window, n);
}

bool fb_bound_rule_reads_sum(const fb_bound_rule *rule)
{
    return (rule->choices.reads & FB_READS_ATTENTION_SUM) != 0;
}

bool fb_bound_rule_reads_block(const fb_bound_rule *rule)
{
    return (rule->choices.reads & FB_READS_ATTENTION_BLOCK) != 0;
}

int64_t fb_bound_rule_queries(const fb_bound_rule *rule, int64_t n)
{
    const fb_choices *c = &rule->choices;

    if (fb_bound_rule_learns(rule)) return n;
    return (c->reads & FB_READS_QUERIES) == 0 ? 0 : fb_smaller(c->queries, n);
}

bool fb_bound_rule_streams(const fb_bound_rule *rule)
{
    const uint32_t whole = FB_READS_RESIDUAL | FB_READS_REPLAY | FB_READS_FUTURE |
                           FB_READS_DOCUMENT_FUTURE;
    bool streams = (rule->rule->runs & FB_RUNS_STREAMING) != 0 &&
                   (rule->choices.reads & whole) == 0;

    for (int i = 0; i < rule->n_inner; i++)
        streams = streams && fb_bound_rule_streams(rule->inner[i]);
    return streams;
}

bool fb_bound_rule_ignores_chunks(const fb_bound_rule *rule)
{
    const fb_choices *c = &rule->choices;
    char sha256[FB_HASH_HEX];

    return fb_bound_rule_streams(rule) && fb_bound_rule_scores(rule) &&
           (c->reads & ~(uint32_t)FB_READS_POSITION) == 0 && c->state_rows == 0 &&
           !fb_bound_rule_is_random(rule) && !fb_bound_rule_is_loaded(rule, sha256);
}

bool fb_bound_rule_learns(const fb_bound_rule *rule)
{
    return rule->choices.layer_rows > 0 || rule->choices.layer_squares > 0;
}

int64_t fb_layer_state_rows(const fb_choices *c, int64_t head_dim)
{
    return c->layer_rows + c->layer_squares * head_dim;
}
