/* run_rows.c - what stands around the cells: experiment, host, model, tasks, rules,
 * budgets, samples.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "experiment/check_cells.h"
#include "experiment/host.h"
#include "experiment/run_inside.h"
#include "experiment/verify.h"
#include "experiment/version.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* --- the experiment --- */

const char fb_class_unfinished[] = "the run is not finished";

/* The same file holds another experiment: says what differs. */
static fb_status refuse_other(const fb_run_options *options, const fb_results *other,
                              const char *text)
{
    fb_text changes = {0};
    fb_status status;

    fb_text_init(&changes, 0);
    status = fb_spec_changes(other->spec, text, &changes);
    if (status == FB_OK)
        status = fb_fail(FB_USAGE,
                         "%s holds another experiment: %s\nhelp: another file with "
                         "-o, or --add to store both",
                         options->path, fb_text_string(&changes));
    fb_text_clear(&changes);
    return status;
}

/* Hosts give the same bits, programs need not: cells of two of them do not mix, nor do
 * their experiments in one file. */
static fb_status check_program(const fb_run_options *options, const fb_results *other)
{
    if (strcmp(other->program, fb_program) == 0) return FB_OK;
    return fb_fail(
        FB_USAGE,
        "%s: this experiment was begun by %s, and this is %s, whose bits may "
        "be others\nhelp: go on with that program, or begin anew in another "
        "file with -o",
        options->path, other->program, fb_program);
}

static bool has_incomplete_cells(const fb_results *results)
{
    for (int i = 0; i < results->n_cells; i++)
        if (fb_cell_is_incomplete(results, &results->cells[i])) return true;
    return false;
}

/* What was changed after its certificate is not certified once more. Scores that are lost
 * are made again. */
static fb_status check_certificate(fb_store *store, const fb_run_options *options,
                                   const fb_results *own)
{
    fb_text change = {0};
    fb_status status;

    if (has_incomplete_cells(own)) return FB_OK;
    status = fb_verify_change(store, own, options->path, &change);
    if (status == FB_OK && change.n > 0)
        status =
            fb_fail(FB_IO,
                    "results '%s': %s\nhelp: take the file from where it was made, "
                    "or begin anew in another file with -o",
                    options->path, fb_text_string(&change));
    fb_text_clear(&change);
    /* An unfinished run has none; another form is of another program, which is refused. */
    return status == FB_NOT_FOUND || status == FB_UNSUPPORTED ? FB_OK : status;
}

/* `text` and `sha256`: the specification and its hash. `own_out` is what the file holds
 * of the same experiment, NULL if nothing; free it with fb_results_free. */
static fb_status check_other(fb_store *store, const fb_run_options *options,
                             const char *text, const char *sha256,
                             const fb_results **own_out)
{
    const fb_results *results = NULL;
    fb_status status = fb_store_read(store, sha256, &results);
    const bool is_own = status == FB_OK;

    *own_out = NULL;
    if (is_own) {
        status = fb_cells_check(results, options->path, false);
    } else if (status == FB_NOT_FOUND) {
        status = fb_store_read(store, NULL, &results);
        if (status == FB_NOT_FOUND) return FB_OK; /* a new file */
        if (status == FB_OK && !options->add)
            status = refuse_other(options, results, text);
    }
    if (status == FB_OK) status = check_program(options, results);
    if (status == FB_OK && is_own) status = check_certificate(store, options, results);
    if (status == FB_OK && is_own)
        *own_out = results;
    else
        fb_results_free(results);
    return status;
}

enum { KERNEL_BYTES = 512 };

/* What must be the same before numbers are compared: "native.f32.kv32",
 * "torch-2.13.0.cuda:0.bf16.kvf16". The device is checked, so it is short. */
static fb_status print_kernel(const fb_runner *run, char out[KERNEL_BYTES])
{
    const fb_values *values = &run->plan->spec->values;
    const char *device = strchr(fb_values_text(values, FB_SET_device), ':');
    const fb_dtype cache = run->plan->shape.type;
    const char *type = cache == FB_F32 ? "32" : fb_cache_type_name(cache);
    char version[32];
    int n;

    fb_host_torch(run->ops, version, sizeof version);
    if (version[0] == '\0' || device == NULL)
        n = snprintf(out, KERNEL_BYTES, "%s.f32.kv%s", fb_ops_backend(run->ops), type);
    else
        n = snprintf(out, KERNEL_BYTES, "torch-%s.%s.%s.kv%s", version, device + 1,
                     fb_values_text(values, FB_SET_precision), type);
    return n < KERNEL_BYTES ? FB_OK : fb_fail(FB_USAGE, "too many devices");
}

/* A version of PyTorch is no setting, and its bits are its own. */
static fb_status check_kernel(const fb_runner *run, const fb_results *own)
{
    char kernel[KERNEL_BYTES];

    FB_TRY(print_kernel(run, kernel));
    if (own->kernel == NULL || strcmp(own->kernel, kernel) == 0) return FB_OK;
    return fb_fail(FB_USAGE,
                   "%s: this experiment was begun with the kernel %s, and this is %s, "
                   "whose bits may be others\nhelp: go on with that PyTorch (--torch), "
                   "or begin anew in another file with -o",
                   run->options->path, own->kernel, kernel);
}

/* All that two results must agree in: "prefill.agnostic.original",
 * "stream.chunk64.agnostic.original", "stream.chunk64.new.answer16.original". */
static void print_protocol(const fb_spec *spec, char *out, size_t n)
{
    const fb_values *values = &spec->values;
    char chunk[32] = "", answer[32];

    (void)snprintf(answer, sizeof answer, "%s", fb_values_text(values, FB_SET_query));
    if (fb_spec_streams(spec))
        (void)snprintf(chunk, sizeof chunk, ".chunk%s%s",
                       fb_values_text(values, FB_SET_chunk),
                       fb_spec_keeps_scores(spec) ? ".new" : "");
    if (fb_spec_goes_on(spec))
        (void)snprintf(answer, sizeof answer, "answer%s",
                       fb_values_text(values, FB_SET_interval));
    (void)snprintf(out, n, "%s%s.%s.%s", fb_values_text(values, FB_SET_kind), chunk,
                   answer, fb_values_text(values, FB_SET_positions));
}

/* "cap5", "matched2.5", "report": there the quota has no say. */
static void print_compute(const fb_values *values, char *out, size_t n)
{
    const char *mode = fb_values_text(values, FB_SET_compute);

    if (fb_values_is(values, FB_SET_compute, "report"))
        (void)snprintf(out, n, "%s", mode);
    else
        (void)snprintf(out, n, "%s%.15g", mode, fb_values_real(values, FB_SET_quota));
}

static fb_status put_experiment(fb_runner *run, const char *text)
{
    const fb_values *values = &run->plan->spec->values;
    char kernel[KERNEL_BYTES], protocol[64], compute[32];
    fb_store_experiment row = {
        .name = fb_values_text(values, FB_SET_name),
        .question = fb_values_text(values, FB_SET_question),
        .spec = text,
        .spec_sha256 = run->rows.spec_sha256,
        .class_name = "open",
        .class_reasons = fb_class_unfinished,
        .program = fb_program,
        .baseline = run->plan->spec->baseline,
        .kernel = kernel,
        .protocol = protocol,
        .protection = fb_values_text(values, FB_SET_protect),
        .compute = compute,
    };

    FB_TRY(print_kernel(run, kernel));
    print_protocol(run->plan->spec, protocol, sizeof protocol);
    print_compute(values, compute, sizeof compute);
    FB_TRY(fb_plan_count(run->plan, NULL, &row.planned));
    return fb_store_put_experiment(run->store, &row, &run->rows.experiment);
}

/* --- host and model --- */

static fb_status put_host(fb_runner *run)
{
    const fb_values *values = &run->plan->spec->values;
    const fb_host_use use = {
        .device = fb_values_text(values, FB_SET_device),
        .precision = fb_values_text(values, FB_SET_precision),
        .weights = fb_weight_form_name(fb_model_weight_form(run->plan->model)),
    };
    char sha256[FB_HASH_HEX];
    fb_text text = {0};
    fb_host host;
    fb_status status;

    fb_text_init(&text, 0);
    fb_host_read(&host);
    fb_host_describe(&host, run->ops, &use, &text);
    status = fb_text_status(&text);
    if (status == FB_OK) {
        fb_hash_bytes(text.bytes, text.n, sha256);
        status = fb_store_put_host(run->store, sha256, text.bytes, &run->rows.host);
    }
    fb_text_clear(&text);
    return status;
}

static fb_status put_model(fb_runner *run)
{
    const fb_model_facts *facts = fb_model_get_facts(run->plan->model);
    fb_store_model row = {
        .sha256 = facts->sha256,
        .name = run->rows.model_name != NULL ? run->rows.model_name : facts->name,
        .architecture = facts->architecture,
        .layers = facts->layers,
        .heads = facts->heads,
        .kv_heads = facts->kv_heads,
        .head_dim = facts->head_dim,
        .template_sha256 = run->plan->template.sha256,
        .tokenizer_sha256 = facts->tokenizer_sha256,
    };
    fb_text text = {0};
    fb_status status;

    fb_text_init(&text, 0);
    fb_text_printf(&text,
                   "{\"width\": %lld, \"ffn\": %lld, \"vocabulary\": %lld, "
                   "\"context_length\": %lld, \"file_bytes\": %zu, \"weights\": ",
                   (long long)facts->width, (long long)facts->ffn,
                   (long long)facts->vocabulary, (long long)facts->context_length,
                   facts->file_bytes);
    fb_json_add_string(&text, facts->weight_types);
    fb_text_puts(&text, ", \"title\": ");
    fb_json_add_string(&text, facts->title == NULL ? "" : facts->title);
    fb_text_puts(&text, ", \"template\": ");
    fb_json_add_string(&text, run->plan->template.family);
    fb_text_printf(&text,
                   ", \"window\": %lld, \"sliding_layers\": %lld, \"window_bytes\": "
                   "%zu, \"bos\": \"%s\"}",
                   (long long)facts->window, (long long)facts->sliding_layers,
                   fb_window_bytes(facts, run->plan->shape.type, facts->window),
                   fb_plan_bos(run->plan));
    row.facts = fb_text_string(&text);
    status = fb_text_status(&text);
    if (status == FB_OK)
        status = fb_store_put_model(run->store, &row, &run->rows.model);
    fb_text_clear(&text);
    return status;
}

/* --- tasks, rules, budgets --- */

static fb_status put_task(fb_runner *run, int index)
{
    const fb_spec *spec = run->plan->spec;
    const fb_bound_task *task = spec->tasks[index];
    const fb_metric *metric = fb_bound_task_metric(task);
    const char *sha256 = fb_bound_task_data_sha256(task);
    const double margin = fb_values_real(&spec->values, FB_SET_margin);
    fb_text params = {0};
    fb_status status = FB_OK;

    fb_text_init(&params, 0);
    fb_bound_task_print_json(task, &params);
    status = fb_text_status(&params);
    if (status == FB_OK) {
        const fb_store_task row = {
            .name = fb_bound_task_get(task)->name,
            .version = fb_bound_task_get(task)->version,
            .params = fb_text_string(&params),
            .metric = metric->name,
            .unit = metric->unit,
            .data_sha256 = sha256[0] != '\0' ? sha256 : NULL,
            .lower_is_better = metric->lower_is_better,
            .margin = margin >= 0 ? margin : metric->margin,
        };

        status = fb_store_put_task(run->store, &row, &run->rows.task[index]);
    }
    fb_text_clear(&params);
    return status;
}

static fb_status put_rule(fb_runner *run, int index)
{
    const fb_spec *spec = run->plan->spec;
    const fb_bound_rule *rule = spec->rules[index].rule;
    char source[FB_HASH_HEX];
    const bool is_loaded = fb_bound_rule_is_loaded(rule, source);
    fb_text about = {0};
    fb_store_rule row = {
        .label = spec->rules[index].label,
        .expression = fb_bound_rule_text(rule),
        .family = fb_bound_rule_family(rule),
        .origin = is_loaded ? "loaded" : "built-in",
        .source_sha256 = is_loaded ? source : NULL,
        .abi = FB_RULE_ABI,
        .deployable = fb_bound_rule_is_deployable(rule),
        .accounted = !is_loaded, /* what its code does beside operators is not known */
        .is_random = fb_bound_rule_is_random(rule),
        .is_reference = fb_spec_is_reference(spec, index),
    };
    fb_status status;

    fb_text_init(&about, 0);
    fb_bound_rule_about(rule, &about);
    row.about = fb_text_string(&about);
    status = fb_text_status(&about);
    if (status == FB_OK)
        status = fb_store_put_rule(run->store, &row, &run->rows.rule[index]);
    fb_text_clear(&about);
    return status;
}

static fb_status put_budget(fb_runner *run, int index)
{
    static const char *const kinds[] = {"ratio", "tokens", "bytes"};
    const fb_budget *budget = &run->plan->spec->budgets[index];
    char asked[32], value[32];
    const fb_store_budget row = {asked, kinds[budget->kind], value};

    fb_budget_print(budget, asked, sizeof asked);
    if (budget->kind == FB_BUDGET_RATIO) /* exact: denominators are powers of ten */
        (void)snprintf(value, sizeof value, "%.15g",
                       (double)budget->numerator / (double)budget->denominator);
    else
        (void)snprintf(value, sizeof value, "%lld", (long long)budget->value);
    return fb_store_put_budget(run->store, &row, &run->rows.budget[index]);
}

/* --- samples --- */

/* Texts of the context's ids as a JSON list. */
static fb_status print_tokens(const fb_runner *run, const fb_ids *ids, fb_text *out)
{
    fb_text_puts(out, "[");
    for (int64_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *bytes = fb_tokenizer_bytes(fb_model_tokenizer(run->plan->model),
                                               ids->ids[i], false, &n);

        if (i > 0) fb_text_puts(out, ",");
        fb_json_add_bytes(out, bytes, n);
    }
    fb_text_puts(out, "]");
    return fb_text_status(out);
}

static fb_status print_references(const fb_plan_sample *sample, fb_text *out)
{
    for (int i = 0; i < sample->references.n; i++) {
        if (i > 0) fb_text_puts(out, "\n");
        fb_text_puts(out, sample->references.text[i]);
    }
    return fb_text_status(out);
}

/* [[first token, one past], ...] */
static fb_status print_evidence(const fb_plan_sample *sample, fb_text *out)
{
    for (int e = 0; e < sample->n_evidence; e++)
        fb_text_printf(out, "%s[%lld,%lld]", e == 0 ? "[" : ",",
                       (long long)sample->evidence[e].begin,
                       (long long)sample->evidence[e].end);
    fb_text_puts(out, "]");
    return fb_text_status(out);
}

static fb_status put_sample_texts(fb_runner *run, fb_store_sample *row, int index)
{
    const fb_plan_sample *sample = &run->plan->samples[index];
    const fb_plan_document *document = &run->plan->documents[sample->document];
    const bool prompts = fb_values_flag(&run->plan->spec->values, FB_SET_prompts);
    fb_text tokens = {0}, expected = {0}, evidence = {0};
    fb_status status = FB_OK;

    fb_text_init(&tokens, 0);
    fb_text_init(&expected, 0);
    fb_text_init(&evidence, 0);
    if (prompts) {
        status = print_references(sample, &expected);
        if (status == FB_OK) status = print_evidence(sample, &evidence);
        if (status == FB_OK) status = print_tokens(run, &document->context, &tokens);
        row->context = document->text;
        row->question = sample->question;
        row->expected = fb_text_string(&expected);
        row->needle = sample->n_evidence > 0 ? fb_text_string(&evidence) : NULL;
        row->token_text = fb_text_string(&tokens);
    }
    if (status == FB_OK)
        status = fb_store_put_sample(run->store, row, &run->rows.sample[index]);
    fb_text_clear(&tokens);
    fb_text_clear(&expected);
    fb_text_clear(&evidence);
    return status;
}

static fb_status put_sample(fb_runner *run, int index)
{
    const fb_plan_sample *sample = &run->plan->samples[index];
    const fb_plan_document *document = &run->plan->documents[sample->document];
    fb_store_sample row = {
        .task = run->rows.task[sample->task],
        .key = sample->key,
        .group = sample->group,
        .context_tokens = document->context.n,
        .question_tokens = sample->prompt.n,
        .cut_tokens = document->cut_tokens,
        .tokens_sha256 = sample->tokens_sha256,
        .depth = sample->depth,
        .length = sample->length,
    };

    return put_sample_texts(run, &row, index);
}

/* --- all of them --- */

static fb_status new_ids(int64_t **out, int n)
{
    *out = fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, sizeof **out));
    return *out != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for the run");
}

static fb_status put_all(fb_runner *run, const char *text)
{
    const fb_spec *spec = run->plan->spec;
    const fb_store_budget full = {"full", "full", "full"};
    fb_rows *rows = &run->rows;

    FB_TRY(new_ids(&rows->task, spec->n_tasks));
    FB_TRY(new_ids(&rows->rule, spec->n_rules));
    FB_TRY(new_ids(&rows->budget, spec->n_budgets));
    FB_TRY(new_ids(&rows->sample, run->plan->n_samples));
    FB_TRY(put_experiment(run, text));
    FB_TRY(put_host(run));
    FB_TRY(put_model(run));
    for (int i = 0; i < spec->n_tasks; i++)
        FB_TRY(put_task(run, i));
    for (int i = 0; i < spec->n_rules; i++)
        FB_TRY(put_rule(run, i));
    FB_TRY(fb_store_put_budget(run->store, &full, &rows->full_budget));
    for (int i = 0; i < spec->n_budgets; i++)
        FB_TRY(put_budget(run, i));
    for (int i = 0; i < run->plan->n_samples; i++)
        FB_TRY(put_sample(run, i));
    return FB_OK;
}

static fb_status print_spec(const fb_plan *plan, fb_text *text,
                            char sha256[FB_HASH_HEX])
{
    fb_text_init(text, 0);
    FB_TRY(fb_spec_print(plan->spec, false, text));
    return fb_spec_hash(plan->spec, sha256);
}

fb_status fb_run_check_file(const fb_plan *plan, const fb_run_options *options)
{
    char sha256[FB_HASH_HEX];
    struct stat info;
    const fb_results *own = NULL;
    fb_store *store = NULL;
    fb_text text = {0};
    fb_status status;

    if (stat(options->path, &info) != 0 || (S_ISREG(info.st_mode) && info.st_size == 0))
        return FB_OK; /* it will be made */
    status = print_spec(plan, &text, sha256);
    if (status == FB_OK) status = fb_store_open_read(&store, options->path);
    if (status == FB_OK)
        status = check_other(store, options, fb_text_string(&text), sha256, &own);
    fb_results_free(own);
    fb_store_close(store);
    fb_text_clear(&text);
    return status;
}

/* A copy of the model under another name is the same model, and has its row. */
static fb_status keep_model_name(fb_runner *run, const fb_results *own)
{
    if (own->n_cells == 0) return FB_OK;
    run->rows.model_name = fb_strdup(own->model.name);
    return run->rows.model_name != NULL
               ? FB_OK
               : fb_fail(FB_NO_MEMORY, "no memory for the run");
}

static fb_status drop_cell(const fb_runner *run, const fb_results *own, int cell)
{
    FB_TRY(fb_store_reopen(run->store, own->experiment, fb_class_unfinished));
    return fb_store_drop_cell(run->store, own->cells[cell].id);
}

/* Of the same experiment, begun before: what has lost rows is open again. */
static fb_status take_up(fb_runner *run, const fb_results *own)
{
    FB_TRY(check_kernel(run, own));
    FB_TRY(keep_model_name(run, own));
    for (int i = 0; i < own->n_cells; i++)
        if (fb_result_is_done(&own->cells[i]) &&
            fb_cell_is_incomplete(own, &own->cells[i]))
            FB_TRY(drop_cell(run, own, i));
    return FB_OK;
}

fb_status fb_run_open_rows(fb_runner *run)
{
    const fb_results *own = NULL;
    fb_text text = {0};
    fb_status status = print_spec(run->plan, &text, run->rows.spec_sha256);

    if (status == FB_OK) status = fb_store_open(&run->store, run->options->path);
    if (status == FB_OK)
        status = check_other(run->store, run->options, fb_text_string(&text),
                             run->rows.spec_sha256, &own);
    if (status == FB_OK && own != NULL) status = take_up(run, own);
    fb_results_free(own);
    if (status == FB_OK) status = fb_store_begin(run->store);
    if (status == FB_OK)
        status = fb_store_end(run->store, put_all(run, fb_text_string(&text)));
    fb_text_clear(&text);
    return status;
}

void fb_run_close_rows(fb_runner *run)
{
    fb_store_close(run->store);
    fb_free(run->rows.model_name);
    fb_free(run->rows.task);
    fb_free(run->rows.rule);
    fb_free(run->rows.budget);
    fb_free(run->rows.sample);
}

fb_store_cell fb_run_identity(const fb_runner *run, const fb_cell *cell)
{
    const fb_rows *rows = &run->rows;

    return (fb_store_cell){
        .experiment = rows->experiment,
        .model = rows->model,
        .sample = rows->sample[cell->sample],
        .rule = rows->rule[cell->rule],
        .budget = cell->budget < 0 ? rows->full_budget : rows->budget[cell->budget],
        .host = rows->host,
        .seed = (int64_t)cell->seed,
    };
}
