/* plan.h - the grid of an experiment: what is read, what is asked, which cells there
 * are.
 *
 * A *document* is a sequence of token ids that is read once; documents with the same
 * ids share one reading, whatever task they come from. A *sample* is a question on a
 * document. A *cell* is sample x rule x budget x seed: rules that draw random numbers
 * run once per seed, a rule that keeps everything once per sample.
 *
 * Ids: context = BOS (if the model adds one and the template has none) + template
 * before + context; prompt = question + template after + answer prefix, tokenised on
 * its own; answer = the first reference, on its own, end of turn not included. A
 * continuation has its first token as the prompt. Under `query: aware` the question's
 * ids belong to the context of a document of their own.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_PLAN_H
#define FB_EXPERIMENT_PLAN_H

#include "base/index.h"
#include "model/model.h"
#include "spec/spec.h"

typedef struct fb_plan_document {
    fb_ids context;
    char *text;         /* the task's context; NULL under store.prompts: off */
    int64_t n_before;   /* ids in front of the text: BOS and template */
    int64_t cut_tokens; /* taken out of the middle to fit the model */
    bool
        is_beyond; /* longer than the model was trained for, and whole: no budget puts an
                       entry beyond that, only the full cache does */
    int64_t protect_last; /* ids of a question that no rule may drop */
    uint64_t stream;      /* names the document to random numbers */
    int n_samples;        /* behind each other in plan.samples */
    int first_sample;
} fb_plan_document;

typedef struct fb_strings {
    char **text;
    int n;
} fb_strings;

typedef struct fb_token_span {
    int64_t begin, end; /* ids [begin, end) of a context */
} fb_token_span;

typedef struct fb_plan_sample {
    int task, document;
    char *key, *group;
    char *question, *prefix; /* text; beginning of the model's own turn */
    fb_strings references, stop, classes;
    /* of the probe, else the task's; lent. NULL: a question of the user's, which has no
     * references and is not scored */
    const char *metric;
    char *own_metric; /* NULL: the task's */
    fb_ids prompt, answer;
    int64_t question_tokens; /* of the question alone */
    int64_t max_tokens, length;
    double depth;
    bool continues;
    bool is_first; /* the first document of its task: kept sets are stored */
    /* Where the context holds the answer; 0 of them: nobody says. */
    fb_token_span evidence[FB_MAX_EVIDENCE];
    int n_evidence;
    char tokens_sha256[FB_HASH_HEX];
} fb_plan_sample;

typedef struct fb_plan_task {
    int64_t documents, samples, cut, rejected;
    int64_t longest_cut; /* tokens of the longest context before it was cut */
    int64_t beyond,
        longest_beyond; /* samples whose context is, and its tokens at most */
    int64_t
        apart; /* samples of contexts with several questions that `aware` takes apart */
    int64_t unknown;       /* samples with characters of a newer Unicode */
    int64_t lost;          /* samples whose context has text without tokens */
    char *first_rejection; /* NULL: none */
    /* What its owner should know before the run: sentences, a line each */
    fb_text notes;
} fb_plan_task;

typedef struct fb_cell {
    int sample, rule;
    int budget;    /* index into spec.budgets; -1: keeps everything */
    uint64_t seed; /* 0: the rule draws nothing */
    int64_t k;     /* entries per head under an equal split */
} fb_cell;

typedef struct fb_plan {
    const fb_spec *spec;   /* lent */
    const fb_model *model; /* lent */
    fb_cache_shape shape;
    fb_template template;
    fb_plan_document *documents;
    fb_plan_sample *samples; /* by document */
    fb_plan_task *tasks;     /* of the spec; of a question of the user's, one */
    int n_documents, n_samples, n_tasks;
    fb_index streams; /* of documents, to their index */
    fb_text matched;  /* what fb_match did and could not do, a sentence a line */
} fb_plan;

/* Makes the documents of all tasks and checks budgets against them. Each refusal is
 * one call of `report`. `spec` has been checked; both are lent for the plan's life. */
FB_MUST_USE fb_status fb_plan_new(fb_plan **out, const fb_spec *spec,
                                  const fb_model *model, fb_report *report, void *self);
void fb_plan_free(fb_plan *plan); /* takes NULL */

/* A question of the user's on a text of the user's, of no task; all lent. */
typedef struct fb_own_question {
    const char *text, *question;
    const char *stop; /* ends an answer, as an end token does; NULL: none */
} fb_own_question;

enum { FB_OWN_TOKENS = 128 }; /* limit of an answer where the settings have none */

/* The plan of one: a document and a sample whose ids are those that a task would make of
 * them. Refused, though not of a task: a text that the model cannot take whole, and a
 * budget that leaves a rule nothing to choose. `spec` has passed
 * fb_spec_check_question. */
FB_MUST_USE fb_status fb_plan_ask(fb_plan **out, const fb_spec *spec,
                                  const fb_model *model, const fb_own_question *own,
                                  fb_report *report, void *self);

/* Each of the task's notes is one call of `report`. */
void fb_plan_notes(const fb_plan *plan, int task, fb_report *report, void *self);
/* The same of the lines of fb_plan.matched. */
void fb_plan_match_notes(const fb_plan *plan, fb_report *report, void *self);

typedef struct fb_filter fb_filter; /* below */

/* Who begins a context with BOS: "added" (the plan), "template", "off" (switched off,
 * though the model has one), "none" (the model has none). */
const char *fb_plan_bos(const fb_plan *plan);
/* False: nothing is to be said of a BOS that is switched off. */
bool fb_plan_bos_warning(const fb_plan *plan, char *out, size_t n);

/* Warns of a BOS that is switched off, and of budgets that leave a rule nothing to choose
 * on some contexts (all is protected, or all stays), with what to do: a ratio is known in
 * entries only with the contexts. One call of `report` each. */
void fb_plan_warn(const fb_plan *plan, const fb_filter *only, fb_report *report,
                  void *self);

/* Which cells: "rule=snapkv*,task=needle,sample=needle/3,budget=20%,seed=1". Values are
 * patterns with * and ?; the same key twice means either. A comma begins a new item only
 * outside brackets and before one of these keys: others belong to the value. */
FB_MUST_USE fb_status fb_filter_parse(fb_filter **out, const char *text);
void fb_filter_free(fb_filter *filter); /* takes NULL */
/* NULL lets everything through. A value of NULL passes: it is not asked about. */
bool fb_filter_passes(const fb_filter *filter, const char *key, const char *value);

/* The cells of a document that pass the filter, samples in order. Free with fb_free. */
FB_MUST_USE fb_status fb_plan_cells(const fb_plan *plan, int document,
                                    const fb_filter *only, fb_cell **out, int *n_out);
FB_MUST_USE fb_status fb_plan_count(const fb_plan *plan, const fb_filter *only,
                                    int64_t *out);

/* True if a free answer is wanted: this sample's metric is computed from it, or the question
 * is the user's. */
bool fb_plan_needs_text(const fb_plan_sample *sample);
/* Tokens that a budget is a share of: of the context; where question and answer go on under
 * it, all that are ever read, the answer as long as it may be but for its last token. */
int64_t fb_plan_tokens(const fb_plan *plan, int sample);

/* Entries a head that a budget (-1: none) has of n tokens. */
int64_t fb_plan_entries(const fb_plan *plan, int budget, int64_t n);

/* "20%"; "full" for -1. */
void fb_plan_budget_text(const fb_plan *plan, int budget, char *out, size_t n);

#endif
