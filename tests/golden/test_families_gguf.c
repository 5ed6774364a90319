/* test_families_gguf.c - a GGUF of a tiny model gives the very bits of its folder.
 *
 * The folder's tensors are written under GGUF's names and in GGUF's order of rows, as
 * llama.cpp's converter does: rotary pairs side by side for Llama and Mistral, one tensor
 * of factors for Llama 3's stretching. What a GGUF of Gemma 3 does not say (scale and
 * pattern of this tiny one) is not written here; tests/real has a real one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/json.h"
#include "model/folder.h"
#include "tests/support/make_vocabulary.h"
#include "tests/support/reference.h"

#include <string.h>

#define FAMILIES "tests/golden/families/"

enum { N = 96, VOCABULARY = 128, WIDTH = 64, LAYERS = 2, HEADS = 4, KV_HEADS = 2 };

static make_gguf file;
static int32_t ids[N];

static const struct {
    const char *name, *architecture;
    bool pairs_rows;
} models[] = {
    {"llama_untied", "llama", true},
    {"llama_tied", "llama", true},
    {"llama_rope_llama3", "llama", true},
    {"mistral", "llama", true},
    {"qwen2", "qwen2", false},
    {"qwen3", "qwen3", false},
    {"phi3", "phi3", false},
};

/* GGUF's name of each kind of tensor inside a layer. */
static const struct {
    const char *theirs, *ours;
} kinds[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.qkv_proj.weight", "attn_qkv.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.gate_up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};

/* "blk.1.attn_q.weight" of "model.layers.1.self_attn.q_proj.weight". */
static void rename_tensor(const fb_stored *t, char out[64])
{
    static const char head[] = "model.layers.";
    const size_t n_head = sizeof head - 1;

    if (fb_span_is(t->name, "model.embed_tokens.weight"))
        strcpy(out, "token_embd.weight");
    else if (fb_span_is(t->name, "model.norm.weight"))
        strcpy(out, "output_norm.weight");
    else if (fb_span_is(t->name, "lm_head.weight"))
        strcpy(out, "output.weight");
    else {
        const fb_span kind = {t->name.bytes + n_head + 2, t->name.n - n_head - 2};

        assert_memory_equal(t->name.bytes, head, n_head);
        out[0] = '\0';
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (fb_span_is(kind, kinds[k].theirs))
                snprintf(out, 64, "blk.%c.%s", t->name.bytes[n_head], kinds[k].ours);
        if (out[0] == '\0') fail_msg("%.*s", (int)t->name.n, t->name.bytes);
    }
}

/* Row of the folder's tensor that stands at `row` in the file. */
static int64_t row_at(int64_t row, int64_t d)
{
    const int64_t head = row / d, i = row % d;

    return head * d + i % 2 * (d / 2) + i / 2;
}

static void write_rows(uint8_t *to, const fb_stored *t, int64_t paired)
{
    const size_t n_bytes = (size_t)t->columns * sizeof(float);

    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t from = paired > 0 ? row_at(r, paired) : r;

        memcpy(to + (size_t)r * n_bytes, t->data + (size_t)from * n_bytes, n_bytes);
    }
}

static void number(const char *architecture, const char *key, int64_t value)
{
    char full[96];

    snprintf(full, sizeof full, "%s.%s", architecture, key);
    make_u32(&file, full, (uint32_t)value);
}

static void real(const char *architecture, const char *key, double value)
{
    char full[96];

    snprintf(full, sizeof full, "%s.%s", architecture, key);
    make_f32(&file, full, (float)value);
}

static void write_facts(const char *architecture, const fb_model_facts *f)
{
    static make_vocabulary vocabulary;

    make_begin(&file);
    make_text(&file, "general.architecture", architecture);
    number(architecture, "block_count", f->layers);
    number(architecture, "context_length", f->context_length);
    number(architecture, "embedding_length", f->width);
    number(architecture, "feed_forward_length", f->ffn);
    number(architecture, "attention.head_count", f->heads);
    number(architecture, "attention.head_count_kv", f->kv_heads);
    number(architecture, "attention.key_length", f->head_dim);
    real(architecture, "attention.layer_norm_rms_epsilon", f->rms_eps);
    real(architecture, "rope.freq_base", f->rope[FB_ROPE_GLOBAL].theta);
    vocabulary_begin(&vocabulary);
    vocabulary.n = VOCABULARY;
    vocabulary_put(&vocabulary, &file, "gpt-2");
}

/* What Llama 3's stretching divides the plain frequencies by. */
static void factors_of(const fb_model_facts *f, float *out)
{
    const int64_t half = f->rotary_dim / 2;
    fb_rope plain = f->rope[FB_ROPE_GLOBAL];
    float stretched[64];

    fb_rope_frequencies(&plain, half, N, stretched);
    plain.kind = FB_ROPE_PLAIN;
    fb_rope_frequencies(&plain, half, N, out);
    for (int64_t i = 0; i < half; i++)
        out[i] /= stretched[i];
}

static void write_gguf(int m, const fb_folder *folder, const fb_model_facts *f,
                       bool copies_head)
{
    const fb_stored_list *list = fb_folder_tensors(folder);
    const fb_stored *embedding = fb_stored_find(list, "model.embed_tokens.weight");
    const bool has_factors = f->rope[FB_ROPE_GLOBAL].kind == FB_ROPE_LLAMA3;
    size_t at;

    write_facts(models[m].architecture, f);
    for (size_t i = 0; i < list->n; i++) {
        const fb_stored *t = &list->tensors[i];
        char name[64];

        rename_tensor(t, name);
        make_f32_tensor(&file, name, (uint64_t)t->columns,
                        t->n_dims == 1 ? 0 : (uint64_t)t->rows);
    }
    if (has_factors)
        make_f32_tensor(&file, "rope_freqs.weight", (uint64_t)f->rotary_dim / 2, 0);
    if (copies_head)
        make_f32_tensor(&file, "output.weight", (uint64_t)embedding->columns,
                        (uint64_t)embedding->rows);
    at = make_data(&file);
    for (size_t i = 0; i < list->n; i++) {
        const fb_stored *t = &list->tensors[i];
        const bool is_qk = memmem(t->name.bytes, t->name.n, "q_proj", 6) != NULL ||
                           memmem(t->name.bytes, t->name.n, "k_proj", 6) != NULL;

        write_rows(file.bytes + at, t, models[m].pairs_rows && is_qk ? f->head_dim : 0);
        at += (t->n_bytes + 31) / 32 * 32;
    }
    if (has_factors) factors_of(f, (float *)(void *)(file.bytes + at));
    if (copies_head) write_rows(file.bytes + at, embedding, 0);
}

static void logits_of(const char *path, float *out)
{
    int64_t row[N];
    rig the;

    for (int64_t i = 0; i < N; i++)
        row[i] = i;
    rig_open(&the, path, NULL, NULL);
    assert_ok(fb_logits(the.engine, ids, N, row, N, out));
    rig_close(&the);
}

static void check_model(int m, bool copies_head)
{
    static float of_folder[N * VOCABULARY], of_gguf[N * VOCABULARY];
    const bool is_exact = strcmp(models[m].name, "llama_rope_llama3") != 0;
    char folder_path[128], path[2 * TEST_PATH + 64], room[TEST_PATH];
    fb_folder *folder;
    fb_guard guard = {0};
    fb_model *model;

    snprintf(folder_path, sizeof folder_path, FAMILIES "%s", models[m].name);
    assert_ok(fb_folder_open(&folder, folder_path, &guard));
    assert_ok(fb_model_open(&model, NULL, folder_path, NULL));
    write_gguf(m, folder, fb_model_get_facts(model), copies_head);
    fb_model_close(model);
    fb_folder_close(folder);
    fb_guard_clear(&guard);
    test_folder(room);
    snprintf(path, sizeof path, "%s", test_path(room, "tiny.gguf"));
    assert_ok(fb_file_write(path, file.bytes, file.n));
    logits_of(folder_path, of_folder);
    logits_of(path, of_gguf);
    test_folder_remove(room);
    for (int i = 0; i < N * VOCABULARY; i++)
        if (fabs((double)of_gguf[i] - (double)of_folder[i]) > (is_exact ? 0 : 1e-4))
            fail_msg("%s: %g, not %g", models[m].name, (double)of_gguf[i],
                     (double)of_folder[i]);
}

static void a_gguf_gives_the_bits_of_its_folder(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        check_model((int)m, false);
}

/* A file without an output matrix uses the embedding: as if it had a copy of it. */
static void E03_a_tied_head_is_a_copy_of_the_embedding(void **state)
{
    const int tied = 1;

    (void)state;
    assert_string_equal(models[tied].name, "llama_tied");
    check_model(tied, true);
}

static int read_ids(void **state)
{
    fb_json *all, *list;

    (void)state;
    assert_ok(fb_json_read(&all, FAMILIES "tiny.json", 1 << 20));
    assert_ok(fb_json_want_array(&list, all, "ids"));
    assert_int_equal(fb_json_count(list), N);
    for (size_t i = 0; i < N; i++) {
        int64_t id;

        assert_true(fb_json_int(fb_json_at(list, i), &id));
        ids[i] = (int32_t)id;
    }
    fb_json_free(all);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gguf_gives_the_bits_of_its_folder),
        cmocka_unit_test(E03_a_tied_head_is_a_copy_of_the_embedding),
    };

    return cmocka_run_group_tests(tests, read_ids, NULL);
}
