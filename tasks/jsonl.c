/* jsonl.c - the user's own file: one JSON object per line. The table
 * of its fields is below; `flexbudget tasks jsonl` prints it.
 *
 * Unknown fields are passed over and told. Earlier turns are not part of the prompt.
 * Rows of evaluation sets in the shape of kvpress (context, question, answer_prefix,
 * answer, task, max_new_tokens) load as they are.
 *
 * Where neither end of a seam has white space, a blank line separates context and
 * question, and a space separates prefix and answer.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/task.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TURNS = 64, KEY_BYTES = 200 };

#define METRICS                                                                        \
    "record|contains_all|contains_any|exact|f1|f1_zh|rouge_l|class|choice|choice_v2|"  \
    "number_first|count|retrieval|code_sim|nll|kl"

struct jsonl {
    int64_t metric, max_tokens;
};

static const fb_param params[] = {
    FB_WORD(struct jsonl, metric, 0, METRICS, "FlexBudget",
            "of all records; 'record': each record's own, or contains_any"),
    FB_INT(struct jsonl, max_tokens, 32, 1, 65536, "FlexBudget",
           "limit of an answer where a record has none"),
    FB_PARAM_END,
};

enum field {
    CONTEXT,
    QUESTION,
    ANSWERS,
    TURNS,
    PREFIX,
    METRIC,
    CLASSES,
    MAX_TOKENS,
    STOP,
    KEY,
    GROUP,
    TASK
};

static const fb_field fields[] = {
    [CONTEXT] = {"context", "text", "yes",
                 "read and evicted; may be \"\" where the template writes"},
    [QUESTION] = {"question", "text", "or turns", "asked after the context"},
    [ANSWERS] = {"answers|answer|outputs", "text or list", "or turns",
                 "accepted answers; the first is the reference"},
    [TURNS] = {"turns", "list", "no",
               "[{\"question\": ..., \"answers\": ...}, ...] on one context"},
    [PREFIX] = {"answer_prefix", "text", "no", "how the model's own turn begins"},
    [METRIC] = {"metric", "word", "no",
                "how an answer is scored, as above; else contains_any"},
    [CLASSES] = {"all_classes", "text or list", "by metric",
                 "names of all classes, for the metric class"},
    [MAX_TOKENS] = {"max_tokens|max_new_tokens", "number", "no",
                    "limit of an answer; else the parameter"},
    [STOP] = {"stop", "text or list", "no", "what ends an answer"},
    [KEY] = {"key|id", "text or number", "no", "name of the record; else its line"},
    [GROUP] = {"group|doc_id", "text or number", "no",
               "resampled together; else by the context"},
    [TASK] = {"task", "any", "no", "not read: rows of kvpress have it"},
    {NULL, NULL, NULL, NULL},
};

/* What the turns of a record share, and room for what they do not. */
struct record {
    fb_records *file;
    const fb_record *fields;
    const char *context, *prefix, *metric;
    const char *stop[FB_MAX_STRINGS], *classes[FB_MAX_STRINGS];
    int n_stop, n_classes;
    int64_t max_tokens;
    char key[KEY_BYTES], group[KEY_BYTES];
    fb_probe probes[MOST_TURNS];
    int n_probes;
};

/* --- seams --- */

/* `text`, with what belongs between `before` and it. */
static fb_status join(fb_records *file, const char *before, const char *separator,
                      const char *text, const char **out)
{
    const char *seam = fb_seam(before, strlen(before), separator, text);
    const size_t size = strlen(seam) + strlen(text) + 1;
    void *room;

    *out = text;
    if (seam[0] == 0) return FB_OK;
    FB_TRY(fb_records_room(file, size, &room));
    (void)snprintf(room, size, "%s%s", seam, text);
    *out = room;
    return FB_OK;
}

/* --- probes --- */

static fb_status read_answers(struct record *r, const fb_record *given, fb_probe *probe)
{
    const char *answers[FB_MAX_STRINGS], **kept;
    void *room;
    int n;

    FB_TRY(fb_record_strings(given, fields[ANSWERS].names, answers, &n));
    if (n == 0) return fb_fail(FB_FORMAT, "'answers' is missing");
    FB_TRY(fb_records_room(r->file, (size_t)n * sizeof *kept, &room));
    kept = room;
    memcpy(kept, answers, (size_t)n * sizeof *kept);
    FB_TRY(join(r->file, r->prefix, " ", answers[0], &kept[0]));
    probe->references = kept;
    probe->n_references = n;
    return FB_OK;
}

/* A question and its answers: of the record itself, or of a turn. */
static fb_status add_probe(struct record *r, const fb_record *given, const char *key)
{
    const size_t size = strlen(key) + 1;
    fb_probe *probe = &r->probes[r->n_probes];
    const char *question;
    void *room;

    FB_TRY(fb_record_string(given, fields[QUESTION].names, &question));
    if (question == NULL) return fb_fail(FB_FORMAT, "'question' is missing");
    FB_TRY(fb_records_room(r->file, size, &room));
    *probe = (fb_probe){
        .key = memcpy(room, key, size),
        .answer_prefix = r->prefix,
        .max_tokens = r->max_tokens,
        .metric = r->metric,
        .stop = r->stop,
        .n_stop = r->n_stop,
        .classes = r->classes,
        .n_classes = r->n_classes,
        .depth = -1,
    };
    FB_TRY(join(r->file, r->context, "\n\n", question, &probe->question));
    FB_TRY(read_answers(r, given, probe));
    r->n_probes++;
    return FB_OK;
}

static fb_status add_turns(struct record *r)
{
    const fb_record *turn;
    char key[KEY_BYTES + 16];

    for (int i = 0; i <= MOST_TURNS; i++) {
        FB_TRY(fb_record_element(r->fields, fields[TURNS].names, i, &turn));
        if (turn == NULL) return FB_OK;
        if (i == MOST_TURNS) break;
        (void)snprintf(key, sizeof key, "%s/%d", r->key, i + 1);
        FB_TRY(fb_context(add_probe(r, turn, key), "turn %d", i + 1));
    }
    return fb_fail(FB_FORMAT, "more than %d turns", MOST_TURNS);
}

/* --- records --- */

static fb_status read_names(struct record *r)
{
    FB_TRY(fb_record_name(r->fields, fields[KEY].names, r->key, sizeof r->key));
    if (r->key[0] == 0)
        (void)snprintf(r->key, sizeof r->key, "line %lld",
                       (long long)fb_records_line(r->file));
    FB_TRY(fb_record_name(r->fields, fields[GROUP].names, r->group, sizeof r->group));
    if (r->group[0] == 0) fb_text_key(r->context, r->group);
    return FB_OK;
}

static fb_status read_settings(struct record *r, const struct jsonl *p)
{
    const char *own = NULL;

    FB_TRY(fb_record_string(r->fields, fields[METRIC].names, &own));
    r->metric = own == NULL ? "contains_any" : own;
    if (p->metric != 0) r->metric = NULL; /* the task's, by its parameter */
    FB_TRY(fb_record_integer(r->fields, fields[MAX_TOKENS].names, p->max_tokens, 1,
                             65536, &r->max_tokens));
    FB_TRY(fb_record_strings(r->fields, fields[STOP].names, r->stop, &r->n_stop));
    FB_TRY(
        fb_record_strings(r->fields, fields[CLASSES].names, r->classes, &r->n_classes));
    return FB_OK;
}

static fb_status read_record(struct record *r, const struct jsonl *p)
{
    const fb_record *turn;

    FB_TRY(fb_record_string(r->fields, fields[CONTEXT].names, &r->context));
    if (r->context == NULL) return fb_fail(FB_FORMAT, "'context' is missing");
    FB_TRY(fb_record_string(r->fields, fields[PREFIX].names, &r->prefix));
    if (r->prefix == NULL) r->prefix = "";
    FB_TRY(read_names(r));
    FB_TRY(read_settings(r, p));
    FB_TRY(fb_record_element(r->fields, fields[TURNS].names, 0, &turn));
    return turn == NULL ? add_probe(r, r->fields, r->key) : add_turns(r);
}

static fb_status emit(const fb_task_env *env, const struct record *r)
{
    const fb_document document = {
        .key = r->key,
        .group = r->group,
        .context = r->context,
        .probes = r->probes,
        .n_probes = r->n_probes,
    };

    return env->emit(env->self, &document);
}

/* The next record, made into a document; a bad one is rejected. */
static fb_status take_one(const fb_task_env *env, const struct jsonl *p,
                          const char *data, struct record *r, bool *is_last)
{
    fb_status status = fb_records_next(r->file, &r->fields);

    *is_last = status == FB_OK && r->fields == NULL;
    if (*is_last) return FB_OK;
    if (status == FB_OK) {
        r->n_probes = 0;
        status = read_record(r, p);
        if (status == FB_OK) status = fb_records_note_unknown(r->file, fields, env);
        if (status == FB_OK) status = emit(env, r);
        if (status != FB_STOPPED)
            status = fb_context(status, "%.300s:%lld", data,
                                (long long)fb_records_line(r->file));
    }
    if (status != FB_FORMAT) return status;
    return env->reject(env->self, fb_error_message());
}

static fb_status make(const fb_task_env *env, const void *values, const char *data)
{
    struct record record = {0};
    bool is_last = false;
    fb_status status = fb_records_open(&record.file, data);

    while (status == FB_OK && !is_last)
        status = take_one(env, values, data, &record, &is_last);
    fb_records_close(record.file);
    return status;
}

const fb_task fb_task_jsonl = {
    FB_TASK_HEAD,
    .name = "jsonl",
    .summary = "the user's own records: contexts, questions, answers",
    .source = "a file given by `data`",
    .version = 1,
    .metric = "score",
    .params = params,
    .params_bytes = sizeof(struct jsonl),
    .data = FB_DATA_NEEDED,
    .make = make,
    .fields = fields,
    .example = "{\"context\": \"The key is under the mat.\", \"question\": \"Where is "
               "the key?\", \"answers\": [\"under the mat\"]}",
};
