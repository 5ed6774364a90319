/* cmd_model.c - what is in a model file.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "cache/cache.h"
#include "cli/model_forecast.h"

#include <string.h>

#define PLAN "What it takes"

static const fb_option options[] = {
    [FB_MODEL_json] = {.name = "json",
                       .type = FB_TYPE_FLAG,
                       .initial = "off",
                       .group = "Output",
                       .help = "JSON"},
    [FB_MODEL_families] = {.name = "families",
                           .type = FB_TYPE_FLAG,
                           .initial = "off",
                           .group = "Output",
                           .help = "the families that are read, instead of a model"},
    [FB_MODEL_context] =
        {.name = "context",
         .type = FB_TYPE_INT,
         .initial = "none",
         .low = 1,
         .high = 1 << 24,
         .words = "none",
         .argument = "N",
         .group = PLAN,
         .help = "memory by phase and budget, and what rules add, for a context of N "
                 "tokens; counted without weights, so a config.json alone will do"},
    [FB_MODEL_budgets] = {.name = "budgets",
                          .letter = 'b',
                          .type = FB_TYPE_TEXTS,
                          .initial = "20%",
                          .argument = "LIST",
                          .group = PLAN,
                          .help = "as of `run`: 20%, 256t, 64MiB, 10%..50%+10%"},
    [FB_MODEL_rules] = {.name = "rules",
                        .letter = 'r',
                        .type = FB_TYPE_RULES,
                        .initial = "recency,snapkv,h2o",
                        .argument = "LIST",
                        .group = PLAN,
                        .help =
                            "whose work is counted; they read the context together"},
    [FB_MODEL_cache] = {.name = "cache",
                        .type = FB_TYPE_WORD,
                        .initial = "f32",
                        .words = "f32|f16|bf16",
                        .argument = "TYPE",
                        .group = PLAN,
                        .help = "of keys and values"},
    [FB_MODEL_weights] = {.name = "weights",
                          .type = FB_TYPE_WORD,
                          .initial = "unpacked",
                          .words = "unpacked|resident",
                          .argument = "FORM",
                          .group = PLAN,
                          .help = "as f32, or about as in the file"},
    [FB_MODEL_threads] = {.name = "threads",
                          .letter = 'j',
                          .type = FB_TYPE_INT,
                          .initial = "auto",
                          .low = 1,
                          .high = 1024,
                          .words = "auto",
                          .argument = "N",
                          .group = PLAN,
                          .help = "each has temporary memory of its own"},
    FB_OPTION_END,
};

static int64_t bytes_per_token(const fb_model_facts *f, fb_dtype type)
{
    const fb_cache_shape shape = {f->layers, f->kv_heads, f->head_dim, type};

    return f->layers * f->kv_heads * (int64_t)fb_entry_bytes(&shape);
}

/* By type of the cache. */
static void print_cache(const fb_model_facts *f, fb_text *out)
{
    char whole[32], half[32];

    fb_print_size((double)bytes_per_token(f, FB_F32), whole, sizeof whole);
    fb_print_size((double)bytes_per_token(f, FB_F16), half, sizeof half);
    fb_text_printf(
        out,
        "cache      %s per token in f32: %lld %s x %lld kv %s x (%lld + %lld) x 4 "
        "bytes; %s in f16 or bf16\n",
        whole, (long long)f->layers, fb_plural(f->layers, "layer", "layers"),
        (long long)f->kv_heads, fb_plural(f->kv_heads, "head", "heads"),
        (long long)f->head_dim, (long long)f->head_dim, half);
}

/* Layers that see a window only, and what that means for eviction. */
static void print_windows(const fb_model_facts *f, fb_text *out)
{
    if (f->window == 0) return;
    if (f->sliding_layers == 0)
        fb_text_printf(out,
                       "window     every layer sees the last %lld tokens; longer "
                       "texts cannot be evicted from\n",
                       (long long)f->window);
    else
        fb_text_printf(
            out,
            "window     %lld of the %lld layers see the last %lld tokens and "
            "keep just those; rules evict from the other %lld\n",
            (long long)f->sliding_layers, (long long)f->layers, (long long)f->window,
            (long long)f->global_layers);
}

static void print_context(const fb_model_facts *f, fb_text *out)
{
    const fb_rope *rope = &f->rope[FB_ROPE_GLOBAL];

    fb_text_printf(out, "context    trained on %lld %s, rotary base %.15g",
                   (long long)f->context_length,
                   fb_plural(f->context_length, "token", "tokens"), rope->theta);
    if (rope->kind == FB_ROPE_PLAIN)
        fb_text_puts(out, "\n");
    else
        fb_text_printf(out, ", stretched by '%s' from %lld\n",
                       fb_rope_kind_names[rope->kind], (long long)rope->first_length);
}

/* What a config.json alone has not. */
static void print_words(const fb_model *model, fb_text *out)
{
    const fb_model_facts *f = fb_model_get_facts(model);
    const fb_tokenizer *tokenizer = fb_model_tokenizer(model);
    const fb_template *chat = fb_model_template(model);

    fb_text_printf(
        out, "tokenizer  %lld %s, splits as '%s', ", (long long)f->vocabulary,
        fb_plural(f->vocabulary, "token", "tokens"), fb_tokenizer_pre(tokenizer));
    if (fb_tokenizer_bos(tokenizer) < 0)
        fb_text_puts(out, "no BOS\n");
    else
        fb_text_printf(out, "BOS %d\n", (int)fb_tokenizer_bos(tokenizer));
    fb_text_printf(out, "template   %s%s%s\n",
                   chat->family == NULL ? "unknown" : chat->family,
                   chat->sha256[0] != '\0' ? ", sha256 " : "", chat->sha256);
    fb_text_printf(out, "sha256     %s\n", f->sha256);
}

static void print_text(const fb_model *model, fb_text *out)
{
    const fb_model_facts *f = fb_model_get_facts(model);
    char size[32];

    fb_print_size((double)f->file_bytes, size, sizeof size);
    fb_text_printf(out, "%s  %s, %s (%s)\n", f->name, f->architecture, size,
                   f->weight_types);
    if (f->title != NULL)
        fb_text_printf(out, "title      %s (its general.name)\n", f->title);
    fb_text_printf(out,
                   "shape      %lld %s, %lld query %s, %lld kv %s of %lld, width "
                   "%lld, network %lld\n",
                   (long long)f->layers, fb_plural(f->layers, "layer", "layers"),
                   (long long)f->heads, fb_plural(f->heads, "head", "heads"),
                   (long long)f->kv_heads, fb_plural(f->kv_heads, "head", "heads"),
                   (long long)f->head_dim, (long long)f->width, (long long)f->ffn);
    print_cache(f, out);
    print_windows(f, out);
    print_context(f, out);
    if (fb_model_tokenizer(model) != NULL) print_words(model, out);
}

/* What makes a family another network than a plain Llama. */
static void print_traits(const fb_family *f, fb_text *out)
{
    const struct {
        bool has;
        const char *words;
    } all[] = {
        {f->has_qkv_bias, "bias on q, k, v"},
        {f->has_qk_norm, "norm on the heads of q and k"},
        {f->has_post_norms, "norms behind attention and network"},
        {f->fuses_qkv, "q, k, v in one tensor"},
        {f->fuses_gate_up, "gate and up in one tensor"},
        {f->gate == FB_GATE_GELU, "GELU"},
        {f->scales_embedding, "scaled embedding"},
        {f->local_theta > 0, "two rotary bases"},
        {f->may_slide, f->global_every > 0 ? "sliding and global layers" : "windows"},
    };
    bool first = true;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].has) continue;
        fb_text_printf(out, "%s%s", first ? "" : ", ", all[i].words);
        first = false;
    }
    if (first) fb_text_puts(out, "-");
}

/* A table in Markdown: docs/MODELS.md holds it as it is printed. */
static void print_families(fb_text *out)
{
    fb_text_puts(out, "| family | models | GGUF | config.json | beside a plain Llama | "
                      "largest difference from transformers |\n"
                      "|---|---|---|---|---|---|\n");
    for (int i = 0; i < fb_n_families; i++) {
        const fb_family *f = &fb_families[i];

        fb_text_printf(out, "| %s | %s | %s | %s | ", f->name, f->models,
                       f->gguf == NULL ? "llama" : f->gguf, f->config);
        print_traits(f, out);
        fb_text_printf(out, " | %s |\n", f->checked);
    }
}

static void print_json(const fb_model *model, fb_text *out)
{
    const fb_model_facts *f = fb_model_get_facts(model);
    const fb_template *chat = fb_model_template(model);

    fb_text_puts(out, "{\"format\": 1, \"name\": ");
    fb_json_add_string(out, f->name);
    fb_text_puts(out, ", \"title\": ");
    fb_json_add_string(out, f->title == NULL ? "" : f->title);
    fb_text_puts(out, ", \"architecture\": ");
    fb_json_add_string(out, f->architecture);
    fb_text_printf(
        out,
        ", \"layers\": %lld, \"heads\": %lld, \"kv_heads\": %lld, \"head_dim\": %lld, "
        "\"width\": %lld, \"ffn\": %lld, \"vocabulary\": %lld, \"context_length\": "
        "%lld, \"kv_bytes_per_token\": %lld, \"kv_bytes_per_token_by_type\": {\"f32\": "
        "%lld, \"f16\": %lld, \"bf16\": %lld}, \"file_bytes\": %zu, \"weights\": ",
        (long long)f->layers, (long long)f->heads, (long long)f->kv_heads,
        (long long)f->head_dim, (long long)f->width, (long long)f->ffn,
        (long long)f->vocabulary, (long long)f->context_length,
        (long long)bytes_per_token(f, FB_F32), (long long)bytes_per_token(f, FB_F32),
        (long long)bytes_per_token(f, FB_F16), (long long)bytes_per_token(f, FB_BF16),
        f->file_bytes);
    fb_json_add_string(out, f->weight_types);
    fb_text_puts(out, ", \"template\": ");
    if (chat->family == NULL)
        fb_text_puts(out, "null");
    else
        fb_json_add_string(out, chat->family);
    fb_text_printf(out,
                   ", \"template_sha256\": \"%s\", \"tokenizer_sha256\": \"%s\", "
                   "\"sha256\": \"%s\"",
                   chat->sha256, f->tokenizer_sha256, f->sha256);
}

/* A config.json by itself. */
static bool is_config(const char *path)
{
    static const char end[] = ".json";
    const size_t n = strlen(path);

    return n >= strlen(end) && strcmp(path + n - strlen(end), end) == 0;
}

static fb_status open_model(const fb_line *line, fb_model **out)
{
    const fb_model_options held = {.weights = fb_model_forecast_weights(&line->own)};
    char *path = NULL;
    fb_status status = fb_model_find(&path, line->arguments[0]);

    if (status == FB_OK)
        status = is_config(path) ? fb_model_open_config(out, path, &held)
                                 : fb_model_open(out, NULL, path, &held);
    fb_free(path);
    return status;
}

static fb_status print(const fb_line *line, fb_text *out)
{
    const bool is_json = fb_values_flag(&line->own, FB_MODEL_json);
    fb_model *model = NULL;
    fb_status status;

    if (fb_values_flag(&line->own, FB_MODEL_families)) {
        print_families(out);
        return FB_OK;
    }
    if (line->n_arguments == 0)
        return fb_fail(FB_USAGE,
                       "which model: the path of a GGUF file or of a folder with "
                       "config.json and safetensors, 'builtin' for the small one "
                       "inside the program, or the name of a file in the folder "
                       "FLEXBUDGET_MODELS (after 'make demo': build/models)\n"
                       "help: flexbudget model builtin");
    status = open_model(line, &model);
    if (status == FB_OK) {
        (is_json ? print_json : print_text)(model, out);
        status = fb_model_forecast_print(&line->own, model, is_json, out);
        if (is_json) fb_text_puts(out, "}\n");
    }
    fb_model_close(model);
    return status;
}

const fb_command fb_command_model = {
    .name = "model",
    .arguments = "FILE",
    .summary = "what is in a model file",
    .about =
        "Prints shapes, bytes of the cache per token, tokenizer, chat template and "
        "hash of a GGUF file or a folder with config.json and safetensors, without "
        "loading its weights. With --context also what it takes there: bytes of every "
        "budget, memory by phase, and the work that rules add. For that a config.json "
        "alone is enough: no weights, no tokenizer.",
    .examples = "flexbudget model builtin\n"
                "flexbudget model --families\n"
                "flexbudget model SmolLM2-135M-Instruct.Q4_1.gguf --json\n"
                "flexbudget model config.json --context 32768 --budgets 20%,256t "
                "--cache f16",
    .options = options,
    .most = 1,
    .print = print,
};
