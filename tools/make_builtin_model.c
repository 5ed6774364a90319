/* make_builtin_model.c - writes the built-in model: associative recall, constructed.
 *
 * usage: make_builtin_model FOLDER
 *
 * A Llama of two layers whose weights are formulas, not the outcome of training. To
 * `k1 v1 k2 v2 ... ? ki` it answers `vi`, and what an eviction rule must do to that
 * answer can be worked out on paper, so the model is an oracle for tests. Four files:
 *
 *   builtin.gguf        key norms unrelated to what a token is good for; sink head on
 *   builtin_good.gguf   the values of pairs have the smallest keys
 *   builtin_bad.gguf    the values of pairs have the largest keys
 *   builtin_quiet.gguf  as builtin.gguf, but losing the first token is harmless
 *
 * Tokens, one printable character each: 0 `^` begins a text and means "I do not know";
 * 1 `#` junk; 2 `?` question; 3 `.` inert filler; 4-15 `a..l` live filler; 16-39 `A..X`
 * keys; 40-63 `0..9 m..z` values.
 *
 * Residual stream, 52 wide: A code of this token | B code of the previous token | O
 * answer | constant 1 | 1 for `^` alone | u | u'. A code is one of 64 vectors in 16
 * dimensions with norm 1 and inner products 0, +-1/4 or -1. Every |x|^2 is known (3
 * before layer 1, 4 before layer 2, 5 before the head), so the norm weights undo the
 * division of RMSNorm and a normalised x is x itself.
 *
 * Layer 1 copies the code of the previous token into B: a constant query and a constant
 * key whose rotary angles differ by one step, so the score has its peak at distance 1.
 * Layer 2 looks for entries whose B is the A of the token being read (the token after
 * an earlier occurrence of it) and writes their A into O: an induction head. `^` is
 * where attention goes when nothing matches. A second kv head in each layer looks at
 * `^` only; in layer 2 it writes the code of `#` when `^` is gone: a sink that rules
 * must not lose. Planted norms: 3u in a dimension of the keys and 3 sqrt(1 - u^2) in
 * one of the values of layer 2 that neither queries nor the output projection read.
 *
 * File: GGUF 3, F32. Rows of q and k in the order of GGUF's Llama (the two dimensions
 * of a rotary pair are neighbours). Every token has type "normal", `^` too: in a user's
 * text it is a character like any other and encodes to id 0, a decoded answer shows it
 * (it means "I do not know"), and as the BOS, which is named by id, it needs no type.
 *
 * The bytes are the same on every machine: arithmetic in double, one rounding to f32,
 * and the only functions whose last bit may differ between C libraries (pow, sin, cos)
 * give results that round alike wherever that bit falls, which the program checks.
 *
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- sizes -------------------------------------------------------------------- */

enum {
    VOCABULARY = 64,
    CODE = 16, /* dimensions of a code */
    LAYERS = 2,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD = 32,        /* dimensions of a head */
    PAIRS = HEAD / 2, /* rotary pair i is the dimensions i and i + PAIRS */
    FFN = 4,          /* the MLP is all zero */
    CONTEXT = 16384,
};

/* Where things are in the residual stream. */
enum { A = 0, B = 16, O = 32, ONE = 48, IS_BOS = 49, U = 50, U_REST = 51, WIDTH = 52 };

enum { BOS = 0, JUNK = 1, DOT = 3, FIRST_VALUE = 40 }; /* tokens with a role */

static const char characters[] = "^#?."
                                 "abcdefghijkl"
                                 "ABCDEFGHIJKLMNOPQRSTUVWX"
                                 "0123456789mnopqrstuvwxyz";

/* Rotary pairs of layer 2, the slow ones: planted norm, sink, and eight for codes. */
enum { NORM_PAIR = 6, SINK_PAIR = 7, CODE_PAIR = 8 };

/* --- strengths, as scores after the division by sqrt(HEAD) --------------------- */

static const double theta = 1e10, epsilon = 1e-6;
static const double previous[] = {36, 16, 20, 16, 16, 16, 16}; /* per fast pair */
static const double match = 40;  /* of a token with the code after which it looks */
static const double sink = 25;   /* of `^` */
static const double norm = 3;    /* of the planted dimensions, times u */
static const double answer = 20; /* final logit of a clean answer */

enum norms { UNRELATED, GOOD, BAD };

/* --- weights, as the file has them but in double -------------------------------- */

typedef struct weights {
    double embedding[VOCABULARY][WIDTH];
    struct {
        double attention_norm[WIDTH];
        double q[HEADS * HEAD][WIDTH];
        double k[KV_HEADS * HEAD][WIDTH];
        double v[KV_HEADS * HEAD][WIDTH];
        double output[WIDTH][HEADS * HEAD];
        double ffn_norm[WIDTH];
        double gate[FFN][WIDTH], up[FFN][WIDTH], down[WIDTH][FFN];
    } layer[LAYERS];
    double norm[WIDTH];
    double head[VOCABULARY][WIDTH];
} weights;

/* Row of a head's dimension in q and k: GGUF has the halves of a pair side by side. */
static int rotary_row(int head, int dim)
{
    return head * HEAD + 2 * (dim % PAIRS) + dim / PAIRS;
}

static int parity(int bits)
{
    int odd = 0;

    for (; bits != 0; bits >>= 1)
        odd ^= bits & 1;
    return odd;
}

/* Component x of the code of token t: a row of the Hadamard matrix (t's low four bits),
 * negated (bit 4), times a bent sequence (bit 5). Two cosets of the Kerdock set. */
static double code(int t, int x)
{
    const int bent = (x & (x >> 1) & 1) ^ ((x >> 2) & (x >> 3) & 1);
    const int minus = parity(t & 15 & x) ^ ((t >> 4) & 1) ^ ((t >> 5) & bent);

    return minus ? -0.25 : 0.25;
}

/* u of token t, in [0.5, 1]: 64 levels, shuffled. */
static double planted(int t, enum norms kind)
{
    const double u = 0.5 + 0.5 * ((t * 37) % 64 + 0.5) / 64;
    const double f = 2 * u - 1;
    const bool is_value = t >= FIRST_VALUE;

    if (kind == GOOD) return is_value ? 0.50 + 0.10 * f : 0.80 + 0.20 * f;
    if (kind == BAD) return is_value ? 0.90 + 0.10 * f : 0.50 + 0.30 * f;
    return u;
}

/* The norm weight that undoes the division when |x|^2 = squares. */
static void set_norm(double *weight /* [WIDTH] */, double squares)
{
    for (int j = 0; j < WIDTH; j++)
        weight[j] = sqrt(squares / WIDTH + epsilon);
}

/* |x|^2 = 3 for every token: code, constant, and one more unit. */
static void set_embedding(weights *w, enum norms kind)
{
    for (int t = 0; t < VOCABULARY; t++) {
        const double u = t == DOT ? 0.75 : planted(t, kind);
        const double rest = t == DOT ? 2 : 1; /* the inert filler has no code */
        double *x = w->embedding[t];

        for (int j = 0; j < CODE && t != DOT; j++)
            x[A + j] = code(t, j);
        x[ONE] = 1;
        x[U] = t == BOS ? 0 : u;
        x[U_REST] = t == BOS ? 0 : sqrt(rest - u * u);
        x[IS_BOS] = t == BOS ? 1 : 0;
    }
}

static void set_head(weights *w)
{
    for (int t = 0; t < VOCABULARY; t++)
        for (int j = 0; j < CODE && t != DOT; j++)
            w->head[t][O + j] = answer * code(t, j);
}

/* Layer 1, kv head 0, query head 0. Score at distance delta:
 * sum over pairs of previous[i] * cos(omega_i * (delta - 1)). */
static void set_previous_token_head(weights *w)
{
    for (int i = 0; i < (int)(sizeof previous / sizeof *previous); i++) {
        const double omega = pow(theta, -(double)i / PAIRS);
        const double strength = previous[i] * sqrt(HEAD);

        w->layer[0].k[rotary_row(0, i)][ONE] = 1;
        w->layer[0].q[rotary_row(0, i)][ONE] = strength * cos(omega);
        w->layer[0].q[rotary_row(0, i + PAIRS)][ONE] = -strength * sin(omega);
    }
    for (int j = 0; j < CODE; j++) {
        w->layer[0].v[j][A + j] = 1;
        w->layer[0].v[j][IS_BOS] = -code(BOS, j); /* nothing follows `^` by its code */
        w->layer[0].output[B + j][j] = 1;
    }
}

/* Layer 2, kv head 0: query head 0 copies what follows an earlier occurrence of this
 * token; query head 1 looks at `^` and is not read. Norms are planted here. */
static void set_induction_head(weights *w)
{
    for (int j = 0; j < CODE; j++) {
        const int dim = CODE_PAIR + j % 8 + PAIRS * (j / 8);

        w->layer[1].k[rotary_row(0, dim)][B + j] = 1;
        w->layer[1].q[rotary_row(0, dim)][A + j] = match * sqrt(HEAD);
        w->layer[1].v[j][A + j] = 1;
        w->layer[1].output[O + j][j] = 1;
    }
    for (int h = 0; h < 2; h++)
        w->layer[1].q[rotary_row(h, SINK_PAIR)][ONE] = sink * sqrt(HEAD);
    w->layer[1].k[rotary_row(0, SINK_PAIR)][IS_BOS] = sqrt(3.0 / 4);
    w->layer[1].k[rotary_row(0, NORM_PAIR)][U] = norm;
    w->layer[1].v[CODE][U_REST] = norm;
}

/* kv head 1 of a layer, query heads 2 and 3: they see `^` only. `^` has the smallest
 * key of the head, as in real models. It enters layer 2 with |x|^2 = 3 where others
 * have 4, hence the sqrt(3/4) there. */
static void set_sink_head(weights *w, int layer)
{
    for (int h = 2; h < 4; h++)
        w->layer[layer].q[rotary_row(h, SINK_PAIR)][ONE] = sink * sqrt(HEAD);
    w->layer[layer].k[rotary_row(1, SINK_PAIR)][IS_BOS] =
        layer == 0 ? 1 : sqrt(3.0 / 4);
    w->layer[layer].k[rotary_row(1, NORM_PAIR)][ONE] = norm;
    w->layer[layer].k[rotary_row(1, NORM_PAIR)][IS_BOS] = -norm;
}

/* Everything but `^` writes junk times the code of `#` through query head 2. */
static void set_junk(weights *w, double junk)
{
    w->layer[1].v[HEAD][ONE] = 1;
    w->layer[1].v[HEAD][IS_BOS] = -1;
    for (int j = 0; j < CODE; j++)
        w->layer[1].output[O + j][2 * HEAD] = junk * code(JUNK, j);
}

static void construct(weights *w, enum norms kind, double junk)
{
    memset(w, 0, sizeof *w);
    set_embedding(w, kind);
    for (int l = 0; l < LAYERS; l++) {
        set_norm(w->layer[l].attention_norm, 3 + l);
        for (int j = 0; j < WIDTH; j++)
            w->layer[l].ffn_norm[j] = 1;
        set_sink_head(w, l);
    }
    set_previous_token_head(w);
    set_induction_head(w);
    set_junk(w, junk);
    set_norm(w->norm, 5);
    set_head(w);
}

/* --- the file ------------------------------------------------------------------- */

enum { ALIGNMENT = 32, MOST_BYTES = 1 << 18 };
enum { GGUF_UINT32 = 4, GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_BOOL = 7 };
enum { GGUF_STRING = 8, GGUF_ARRAY = 9 };
enum { TENSOR_F32 = 0, TOKEN_NORMAL = 1 };

typedef struct file {
    uint8_t bytes[MOST_BYTES];
    size_t n;
    uint64_t n_pairs, n_tensors, data_at; /* so far */
} file;

static void die(const char *sentence, const char *detail)
{
    fprintf(stderr, "make_builtin_model: %s%s\n", sentence, detail);
    exit(1);
}

static void put_byte(file *f, uint8_t byte)
{
    if (f->n == MOST_BYTES) die("the model does not fit its buffer", "");
    f->bytes[f->n++] = byte;
}

static void put_uint(file *f, uint64_t value, int n_bytes) /* little-endian */
{
    for (int i = 0; i < n_bytes; i++)
        put_byte(f, (uint8_t)(value >> (8 * i)));
}

static void put_text(file *f, const char *text, size_t n)
{
    put_uint(f, n, 8);
    for (size_t i = 0; i < n; i++)
        put_byte(f, (uint8_t)text[i]);
}

static void put_string(file *f, const char *text)
{
    put_text(f, text, strlen(text));
}

static void put_float(file *f, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_uint(f, bits, 4);
}

static void put_padding(file *f)
{
    while (f->n % ALIGNMENT != 0)
        put_byte(f, 0);
}

/* x as f32. Ends the program if an x that is off by a few units in its last place would
 * round to another: then two C libraries could write two files. */
static float round_once(double x)
{
    const double off = 8 * 0x1p-52;

    if ((float)(x * (1 - off)) != (float)x || (float)(x * (1 + off)) != (float)x)
        die("a weight lies too near the middle of two f32 numbers", "");
    return (float)x;
}

/* One walk over the tensors, in the order of the file, serves the table of contents and
 * the data: `visit` gets the name, the shape (rows 1: a vector), and the numbers. */
typedef void visitor(file *f, const char *name, int rows, int columns, const double *x);

static void walk_layer(file *f, const weights *w, int l, visitor *visit)
{
    const struct {
        const char *name;
        int rows, columns;
        const double *x;
    } part[] = {
        {"attn_norm", 1, WIDTH, w->layer[l].attention_norm},
        {"attn_q", HEADS * HEAD, WIDTH, w->layer[l].q[0]},
        {"attn_k", KV_HEADS * HEAD, WIDTH, w->layer[l].k[0]},
        {"attn_v", KV_HEADS * HEAD, WIDTH, w->layer[l].v[0]},
        {"attn_output", WIDTH, HEADS * HEAD, w->layer[l].output[0]},
        {"ffn_norm", 1, WIDTH, w->layer[l].ffn_norm},
        {"ffn_gate", FFN, WIDTH, w->layer[l].gate[0]},
        {"ffn_up", FFN, WIDTH, w->layer[l].up[0]},
        {"ffn_down", WIDTH, FFN, w->layer[l].down[0]},
    };

    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];

        snprintf(name, sizeof name, "blk.%d.%s.weight", l, part[i].name);
        visit(f, name, part[i].rows, part[i].columns, part[i].x);
    }
}

static void walk(file *f, const weights *w, visitor *visit)
{
    visit(f, "token_embd.weight", VOCABULARY, WIDTH, w->embedding[0]);
    for (int l = 0; l < LAYERS; l++)
        walk_layer(f, w, l, visit);
    visit(f, "output_norm.weight", 1, WIDTH, w->norm);
    visit(f, "output.weight", VOCABULARY, WIDTH, w->head[0]);
}

static void put_tensor_info(file *f, const char *name, int rows, int columns,
                            const double *x)
{
    const uint64_t n_bytes = (uint64_t)rows * (uint64_t)columns * sizeof(float);

    (void)x;
    put_string(f, name);
    put_uint(f, rows == 1 ? 1 : 2, 4);
    put_uint(f, (uint64_t)columns, 8); /* GGUF: the fastest dimension first */
    if (rows != 1) put_uint(f, (uint64_t)rows, 8);
    put_uint(f, TENSOR_F32, 4);
    put_uint(f, f->data_at, 8);
    f->data_at += (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    f->n_tensors++;
}

static void put_tensor_data(file *f, const char *name, int rows, int columns,
                            const double *x)
{
    (void)name;
    for (int i = 0; i < rows * columns; i++)
        put_float(f, round_once(x[i]));
    put_padding(f);
}

static void put_key(file *f, const char *key, int type)
{
    put_string(f, key);
    put_uint(f, (uint64_t)type, 4);
    f->n_pairs++;
}

static void put_array(file *f, const char *key, int type, int n)
{
    put_key(f, key, GGUF_ARRAY);
    put_uint(f, (uint64_t)type, 4);
    put_uint(f, (uint64_t)n, 8);
}

static void put_string_pair(file *f, const char *key, const char *value)
{
    put_key(f, key, GGUF_STRING);
    put_string(f, value);
}

static void put_count_pair(file *f, const char *key, int value)
{
    put_key(f, key, GGUF_UINT32);
    put_uint(f, (uint64_t)value, 4);
}

static void put_real_pair(file *f, const char *key, double value)
{
    put_key(f, key, GGUF_FLOAT32);
    put_float(f, (float)value);
}

static void put_sizes(file *f, const char *name)
{
    put_string_pair(f, "general.architecture", "llama");
    put_string_pair(f, "general.name", name);
    put_count_pair(f, "llama.vocab_size", VOCABULARY);
    put_count_pair(f, "llama.context_length", CONTEXT);
    put_count_pair(f, "llama.embedding_length", WIDTH);
    put_count_pair(f, "llama.block_count", LAYERS);
    put_count_pair(f, "llama.feed_forward_length", FFN);
    put_count_pair(f, "llama.attention.head_count", HEADS);
    put_count_pair(f, "llama.attention.head_count_kv", KV_HEADS);
    put_count_pair(f, "llama.attention.key_length", HEAD);
    put_count_pair(f, "llama.attention.value_length", HEAD);
    put_count_pair(f, "llama.rope.dimension_count", HEAD);
    put_real_pair(f, "llama.rope.freq_base", theta);
    put_real_pair(f, "llama.attention.layer_norm_rms_epsilon", epsilon);
}

/* Byte-level BPE without a merge: every character is a token, others have none. */
static void put_tokenizer(file *f)
{
    put_string_pair(f, "tokenizer.ggml.model", "gpt2");
    put_string_pair(f, "tokenizer.ggml.pre", "gpt-2");
    put_array(f, "tokenizer.ggml.tokens", GGUF_STRING, VOCABULARY);
    for (int t = 0; t < VOCABULARY; t++)
        put_text(f, &characters[t], 1);
    put_array(f, "tokenizer.ggml.token_type", GGUF_INT32, VOCABULARY);
    for (int t = 0; t < VOCABULARY; t++)
        put_uint(f, TOKEN_NORMAL, 4);
    put_array(f, "tokenizer.ggml.merges", GGUF_STRING, 0);
    put_count_pair(f, "tokenizer.ggml.bos_token_id", BOS);
    put_key(f, "tokenizer.ggml.add_bos_token", GGUF_BOOL);
    put_byte(f, 1);
    put_string_pair(f, "tokenizer.chat_template", "{{ messages[0]['content'] }}");
}

static void write_gguf(file *f, const char *name, const weights *w)
{
    enum { TENSORS_AT = 8, PAIRS_AT = 16 }; /* counts of eight bytes, both below 256 */

    f->n = 0;
    f->n_pairs = f->n_tensors = f->data_at = 0;
    put_uint(f, 0x46554747, 4); /* "GGUF" */
    put_uint(f, 3, 4);
    put_uint(f, 0, 8);
    put_uint(f, 0, 8);
    put_sizes(f, name);
    put_tokenizer(f);
    walk(f, w, put_tensor_info);
    f->bytes[TENSORS_AT] = (uint8_t)f->n_tensors;
    f->bytes[PAIRS_AT] = (uint8_t)f->n_pairs;
    put_padding(f);
    walk(f, w, put_tensor_data);
}

static void save(const file *f, const char *folder, const char *name)
{
    char path[4096];
    FILE *out;
    bool is_written;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        die("the path is too long: ", folder);
    out = fopen(path, "wb");
    if (out == NULL) die("cannot write ", path);
    is_written = fwrite(f->bytes, 1, f->n, out) == f->n;
    if (fclose(out) == 0 && is_written) return;
    remove(path);
    die("cannot write all of ", path);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *file, *name;
        enum norms norms;
        double junk; /* what the sink head writes without `^`; above 1 it wins */
    } model[] = {
        {"builtin.gguf", "builtin", UNRELATED, 2},
        {"builtin_good.gguf", "builtin:good", GOOD, 2},
        {"builtin_bad.gguf", "builtin:bad", BAD, 2},
        {"builtin_quiet.gguf", "builtin:quiet", UNRELATED, 0},
    };
    static weights w;
    static file f;

    if (argc != 2) die("usage: make_builtin_model FOLDER", "");
    for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
        construct(&w, model[i].norms, model[i].junk);
        write_gguf(&f, model[i].name, &w);
        save(&f, argv[1], model[i].file);
    }
    return 0;
}
