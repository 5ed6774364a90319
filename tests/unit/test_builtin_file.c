/* test_builtin_file.c - the built-in model's files hold the numbers of the design.
 *
 * The construction was first written in numpy, which saved the weights as safetensors.
 * Those files' SHA-256 are below. The test undoes GGUF's order of the rows of q and k,
 * writes the same safetensors bytes (sorted names, JSON without spaces, padded to eight
 * bytes) and so compares every number bit for bit.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/gguf.h"

#include "base/embed.h"
#include "base/hash.h"

#include <stdio.h>

FB_EMBED(plain_file, "builtin.gguf");
FB_EMBED(good_file, "builtin_good.gguf");
FB_EMBED(bad_file, "builtin_bad.gguf");
FB_EMBED(quiet_file, "builtin_quiet.gguf");

static const struct {
    const char *name;
    const uint8_t *begin, *end;
    const char *sha256; /* of the numpy program's model.safetensors */
} files[] = {
    {"--norm none --junk 2", plain_file, plain_file_end,
     "a52ea27ce04bd40d4a9b0ed557cc5d864a87a672df9ef511e390040c0393133f"},
    {"--norm good --junk 2", good_file, good_file_end,
     "c1fc06eb8de9861247dd7d91d6bb77315fa0debcb4edf8a451bbb048b39f6992"},
    {"--norm bad --junk 2", bad_file, bad_file_end,
     "5d57ed51c2e8734da74dbb64de79258e811e11a940a6c099f4c58aff627e7fa5"},
    {"--norm none --junk 0", quiet_file, quiet_file_end,
     "58cd5113f3b0890e1c11cf4d5359f8b9d47ab3a861068a130121106f1d1362ec"},
};

enum { N_FILES = sizeof files / sizeof *files, HEAD = 32, N_PARTS = 21 };

/* A tensor under both names; `is_rotary`: rows of heads in rotary order. */
typedef struct part {
    char theirs[64], ours[64];
    bool is_rotary;
} part;

/* The parts sorted by their name. */
static void list_parts(part list[N_PARTS])
{
    static const part layer[] = {
        {"input_layernorm", "attn_norm", false},
        {"mlp.down_proj", "ffn_down", false},
        {"mlp.gate_proj", "ffn_gate", false},
        {"mlp.up_proj", "ffn_up", false},
        {"post_attention_layernorm", "ffn_norm", false},
        {"self_attn.k_proj", "attn_k", true},
        {"self_attn.o_proj", "attn_output", false},
        {"self_attn.q_proj", "attn_q", true},
        {"self_attn.v_proj", "attn_v", false},
    };
    int n = 0;

    list[n++] = (part){"lm_head.weight", "output.weight", false};
    list[n++] = (part){"model.embed_tokens.weight", "token_embd.weight", false};
    for (int i = 0; i < 2 * 9; i++, n++) {
        const part *p = &layer[i % 9];

        snprintf(list[n].theirs, sizeof list[n].theirs, "model.layers.%d.%.30s.weight",
                 i / 9, p->theirs);
        snprintf(list[n].ours, sizeof list[n].ours, "blk.%d.%.30s.weight", i / 9,
                 p->ours);
        list[n].is_rotary = p->is_rotary;
    }
    list[n++] = (part){"model.norm.weight", "output_norm.weight", false};
    assert_int_equal(n, N_PARTS);
}

static size_t write_header(char *out, size_t size, const gguf *g,
                           const part list[N_PARTS])
{
    size_t at = 0;
    size_t n = (size_t)snprintf(out, size, "{\"__metadata__\":{\"format\":\"pt\"}");

    for (int i = 0; i < N_PARTS; i++) {
        const gguf_tensor *t = gguf_find(g, list[i].ours);
        const size_t n_bytes = t->rows * t->columns * sizeof(float);
        char shape[64];

        if (t->rows == 1)
            snprintf(shape, sizeof shape, "%d", (int)t->columns);
        else
            snprintf(shape, sizeof shape, "%d,%d", (int)t->rows, (int)t->columns);
        n += (size_t)snprintf(out + n, size - n,
                              ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
                              "\"data_offsets\":[%zu,%zu]}",
                              list[i].theirs, shape, at, at + n_bytes);
        at += n_bytes;
    }
    n += (size_t)snprintf(out + n, size - n, "}");
    while (n % 8 != 0)
        n += (size_t)snprintf(out + n, size - n, " ");
    assert_true(n < size);
    return n;
}

/* Row of GGUF that holds row `r` of a head in half-split order. */
static uint64_t rotary_row(uint64_t r)
{
    const uint64_t half = r % HEAD / (HEAD / 2), pair = r % (HEAD / 2);

    return r / HEAD * HEAD + 2 * pair + half;
}

static void hash_as_safetensors(const gguf *g, char hex[FB_HASH_HEX])
{
    static char header[8192];
    static part list[N_PARTS];
    fb_hash hash;
    uint64_t n;

    list_parts(list);
    n = write_header(header, sizeof header, g, list);
    fb_hash_init(&hash);
    fb_hash_add(&hash, &n, sizeof n);
    fb_hash_add(&hash, header, n);
    for (int i = 0; i < N_PARTS; i++) {
        const gguf_tensor *t = gguf_find(g, list[i].ours);
        const size_t row_bytes = t->columns * sizeof(float);

        for (uint64_t r = 0; r < t->rows; r++) {
            const uint64_t from = list[i].is_rotary ? rotary_row(r) : r;
            fb_hash_add(&hash, g->bytes + t->at + from * row_bytes, row_bytes);
        }
    }
    fb_hash_hex(&hash, hex);
}

static void every_number_is_that_of_the_numpy_program(void **state)
{
    (void)state;
    for (int i = 0; i < N_FILES; i++) {
        char hex[FB_HASH_HEX];
        gguf g;

        gguf_open(&g, files[i].begin, (size_t)(files[i].end - files[i].begin));
        assert_int_equal(g.n_tensors, N_PARTS);
        hash_as_safetensors(&g, hex);
        if (strcmp(hex, files[i].sha256) != 0)
            fail_msg("%s: %s, not %s", files[i].name, hex, files[i].sha256);
    }
}

static void every_tensor_is_f32_and_ends_in_the_file(void **state)
{
    (void)state;
    for (int i = 0; i < N_FILES; i++) {
        size_t end = 0;
        gguf g;

        gguf_open(&g, files[i].begin, (size_t)(files[i].end - files[i].begin));
        for (int t = 0; t < g.n_tensors; t++) {
            const gguf_tensor *tensor = &g.tensor[t];

            assert_int_equal(tensor->type, 0);
            assert_int_equal(tensor->at % 32, 0);
            assert_true(tensor->at >= end);
            end = tensor->at + tensor->rows * tensor->columns * sizeof(float);
        }
        assert_true(end <= g.n && g.n < end + 32);
    }
}

static void a_file_is_under_200_kilobytes(void **state)
{
    (void)state;
    for (int i = 0; i < N_FILES; i++)
        assert_true(files[i].end - files[i].begin < 200 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_that_of_the_numpy_program),
        cmocka_unit_test(every_tensor_is_f32_and_ends_in_the_file),
        cmocka_unit_test(a_file_is_under_200_kilobytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
