/* check.c - every operator of the table, once, on small numbers, at start.
 *
 * A version number says little: a build may lack an operator, a device may not have it in
 * double, a later release may have changed its arguments. And an operator that is unknown
 * leaks what it was given, so it must not be met in the middle of a run. What is expected
 * was worked out by hand; weights are whole numbers, so every precision has them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/torch.h"

#define SHAPE(...)                                                                     \
    (const int64_t[])                                                                  \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }

static const float table[] = {1, -2, 3, 0.5f, 4, -1}; /* [2, 3] */

struct check {
    fb_ops *ops;
    fb_tensor a; /* the table */
};

/* Keeps the first operator that is wrong as the failure of the context. */
static void expect(const struct check *check, enum fb_op op, fb_tensor got, int64_t n,
                   const float *want)
{
    float x[8];

    if (fb_to_host(check->ops, got, x, (size_t)n * sizeof *x) != FB_OK) {
        if (fb_ops_status(check->ops) != FB_OK)
            fb_ops_refuse(check->ops, fb_context(fb_ops_status(check->ops), "fb_%s",
                                                 fb_op_name(op)));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const float apart = x[i] > want[i] ? x[i] - want[i] : want[i] - x[i];
        const float size = want[i] < 0 ? -want[i] : want[i];

        if (apart <= 1e-5f * (size + 1)) continue;
        fb_ops_refuse(check->ops,
                      fb_fail(FB_UNSUPPORTED, "fb_%s gives %g where %g is right",
                              fb_op_name(op), (double)x[i], (double)want[i]));
        return;
    }
}

#define EXPECT(op, got, ...)                                                           \
    expect(check, FB_OP_##op, got, (int64_t)(sizeof((float[]){__VA_ARGS__}) / 4),      \
           (float[]){__VA_ARGS__})

static fb_tensor numbers(const struct check *check, int n_dims, const int64_t *shape,
                         const float *x)
{
    return fb_from_host(check->ops, FB_F32, n_dims, shape, x);
}

static void check_elements(const struct check *check)
{
    fb_ops *ops = check->ops;
    const fb_tensor a = check->a, two = fb_full(ops, 1, SHAPE(1), 2);
    const fb_tensor size = fb_abs(ops, a), less = fb_less(ops, a, two);

    EXPECT(from_host, a, 1, -2, 3, 0.5f, 4, -1);
    EXPECT(full, two, 2);
    EXPECT(narrow, fb_narrow(ops, a, 1, 1, 2), -2, 3, 4, -1);
    EXPECT(cat, fb_cat(ops, a, fb_narrow(ops, a, 1, 0, 1), 1), 1, -2, 3, 1, 0.5f, 4, -1,
           0.5f);
    EXPECT(transpose, fb_transpose(ops, a, 0, 1), 1, 0.5f, -2, 4, 3, -1);
    EXPECT(add, fb_add(ops, a, two, -1), -1, -4, 1, -1.5f, 2, -3);
    EXPECT(mul, fb_mul(ops, a, a), 1, 4, 9, 0.25f, 16, 1);
    EXPECT(div, fb_div(ops, a, two), 0.5f, -1, 1.5f, 0.25f, 2, -0.5f);
    EXPECT(maximum, fb_maximum(ops, a, two), 2, 2, 3, 2, 4, 2);
    EXPECT(less, less, 1, 1, 0, 1, 0, 1);
    EXPECT(where, fb_where(ops, less, a, two), 1, -2, 2, 0.5f, 2, -1);
    EXPECT(scale, fb_scale(ops, a, 3), 3, -6, 9, 1.5f, 12, -3);
    EXPECT(abs, size, 1, 2, 3, 0.5f, 4, 1);
    EXPECT(sqrt, fb_sqrt(ops, fb_mul(ops, a, a)), 1, 2, 3, 0.5f, 4, 1);
    EXPECT(exp, fb_exp(ops, fb_narrow(ops, a, 0, 0, 1)), 2.7182818f, 0.13533528f,
           20.085537f);
    EXPECT(log, fb_log(ops, size), 0, 0.69314718f, 1.0986123f, -0.69314718f, 1.3862944f,
           0);
}

static void check_rows(const struct check *check)
{
    static const float matrix[] = {4, 9, 2, 3}; /* 9 is not looked at */
    fb_ops *ops = check->ops;
    const fb_tensor a = check->a, m = fb_reshape(ops, a, 3, SHAPE(1, 2, 3));

    EXPECT(sum, fb_sum(ops, a, 1), 2, 3.5f);
    EXPECT(mean, fb_mean(ops, a, 0), 0.75f, 1, 1);
    EXPECT(var, fb_var(ops, a, 1), 6.3333333f, 6.5833333f);
    EXPECT(amax, fb_amax(ops, a, 0), 1, 4, 3);
    EXPECT(softmax, fb_softmax(ops, a), 0.118499655f, 0.0058997504f, 0.8756006f,
           0.029121762f, 0.9643803f, 0.0064979433f);
    EXPECT(cumsum, fb_cumsum(ops, a), 1, -1, 2, 0.5f, 4.5f, 3.5f);
    EXPECT(avg_pool1d, fb_avg_pool1d(ops, a, 3), -0.33333333f, 0.66666667f, 0.33333333f,
           1.5f, 1.1666667f, 1);
    EXPECT(max_pool1d, fb_max_pool1d(ops, a, 3), 1, 3, 3, 4, 4, 4);
    EXPECT(bmm, fb_bmm(ops, m, false, m, true), 14, -10.5f, -10.5f, 17.25f);
    EXPECT(cholesky_solve,
           fb_cholesky_solve(ops, numbers(check, 3, SHAPE(1, 2, 2), matrix),
                             fb_full(ops, 3, SHAPE(1, 2, 1), 8)),
           1, 2);
    EXPECT(rank, fb_rank(ops, a), 1, 2, 0, 1, 0, 2);
    EXPECT(gather, fb_gather(ops, a, fb_topk(ops, a, 2)), 3, 1, 4, 0.5f);
}

static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    (void)context;
    memcpy(out, table + begin * 3, (size_t)(end - begin) * 3 * sizeof *out);
    return FB_OK;
}

static void check_weight(const struct check *check)
{
    static const int32_t ids[] = {1, 0};
    fb_ops *ops = check->ops;
    const fb_place before = fb_ops_place(ops);
    const fb_tensor weight =
        fb_weight(ops, &(fb_weight_source){.rows = 2, .columns = 3, .unpack = unpack});

    EXPECT(embedding, fb_embedding(ops, weight, ids, 2), 0.5f, 4, -1, 1, -2, 3);
    EXPECT(linear, fb_linear(ops, check->a, weight), 14, -10.5f, -10.5f, 17.25f);
    fb_ops_move(ops, (fb_place){FB_PHASE_decode, before.scope}); /* as a batch */
    EXPECT(linear, fb_linear(ops, check->a, weight), 14, -10.5f, -10.5f, 17.25f);
    fb_ops_move(ops, before);
    fb_release(ops, weight);
}

static void check_model(const struct check *check)
{
    static const float factors[] = {1, 2, -1}, pairs[] = {1, 2, 3, 4};
    static const float cosine[] = {0, 1}, sine[] = {1, 0};
    fb_ops *ops = check->ops;
    const fb_tensor w = numbers(check, 1, SHAPE(3), factors);
    const fb_tensor gates = numbers(check, 2, SHAPE(1, 2), (float[]){2, 3});
    const fb_tensor x = numbers(check, 2, SHAPE(1, 4), pairs);
    fb_tensor y = fb_add(ops, check->a, check->a, 1);

    EXPECT(rms_norm, fb_rms_norm(ops, check->a, w, 1), 0.42008403f, -1.6803361f,
           -1.2602521f, 0.19245009f, 3.0792014f, 0.38490018f);
    fb_add_(ops, y, w);
    EXPECT(add_, y, 3, -2, 5, 2, 10, -3);
    y = fb_scale(ops, check->a, 1);
    fb_head_norm_(ops, y, 0, 1, w, 1);
    EXPECT(head_norm_, y, 0.42008403f, -1.6803361f, -1.2602521f, 0.19245009f,
           3.0792014f, 0.38490018f);
    EXPECT(swiglu, fb_swiglu(ops, gates), 5.2847825f);
    EXPECT(geglu, fb_geglu(ops, gates), 5.8637931f);
    fb_rotary(ops, x, 1, 4, numbers(check, 2, SHAPE(1, 2), cosine),
              numbers(check, 2, SHAPE(1, 2), sine));
    EXPECT(rotary, x, -3, 2, 1, 4);
}

/* Two tokens of one head of width 2: q | k | v. The second query looks at both alike. */
static void check_attention(const struct check *check, const fb_kv *kv, fb_tensor x)
{
    fb_ops *ops = check->ops;
    const fb_segment own = {.context = {.kv = kv, .n = 2}};
    const fb_segment split = {.context = {.kv = kv, .n = 1},
                              .tail = {.kv = kv, .slot = 1, .n = 1}};
    fb_attend call = {.x = x,
                      .segments = &own,
                      .n_sequences = 1,
                      .heads = 1,
                      .kv_heads = 1,
                      .head_dim = 2,
                      .scale = 1,
                      .sum = fb_full(ops, 2, SHAPE(1, 2), 0),
                      .rows = fb_full(ops, 3, SHAPE(1, 1, 2), 0),
                      .first_row = -1};

    EXPECT(attention, fb_attention(ops, &call), 2, 4, 4, 6);
    EXPECT(attention_sum, call.sum, 1.5f, 0.5f);
    EXPECT(attention_rows, call.rows, 0.5f, 0.5f);
    call = (fb_attend){.x = fb_narrow(ops, x, 0, 1, 1),
                       .segments = &split,
                       .n_sequences = 1,
                       .heads = 1,
                       .kv_heads = 1,
                       .head_dim = 2,
                       .scale = 1};
    EXPECT(attention, fb_attention(ops, &call), 4, 6);
}

static void check_kv(const struct check *check)
{
    static const float tokens[] = {1, 0, 1, 0, 2, 4, 0, 0, 0, 1, 6, 8};
    static const int32_t second = 1;
    fb_ops *ops = check->ops;
    const fb_tensor x = numbers(check, 2, SHAPE(2, 6), tokens);
    const fb_tensor zero = fb_full(ops, 2, SHAPE(1, 1), 0);
    const fb_tensor one = fb_full(ops, 2, SHAPE(1, 1), 1);
    fb_kv *kv = NULL, *moved = NULL;
    fb_status status = fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, 2, 2, SHAPE(2, 1));

    if (status == FB_OK)
        status = fb_kv_new(&moved, ops, FB_ACCOUNT_kv, FB_F32, 2, 1, SHAPE(1));
    if (status == FB_OK) {
        fb_kv_write(ops, kv, x, 1, 1, 1, SHAPE(0), SHAPE(0));
        EXPECT(kv_write, fb_kv_read(ops, kv, false, 0, 1, 2), 1, 0, 0, 1);
        EXPECT(kv_read, fb_kv_read(ops, kv, true, 0, 1, 2), 2, 4, 6, 8);
        fb_kv_write(ops, kv, fb_narrow(ops, x, 0, 1, 1), 1, 1, 1, SHAPE(1), SHAPE(0));
        check_attention(check, kv, x);
        fb_kv_copy(ops, moved, 0, kv, 0, &second, 1);
        EXPECT(kv_copy, fb_kv_read(ops, moved, true, 0, 1, 1), 6, 8);
        fb_kv_turn(ops, moved, 0, zero, one);
        EXPECT(kv_turn, fb_kv_read(ops, moved, false, 0, 1, 1), -1, 0);
    }
    fb_ops_refuse(ops, status);
    fb_kv_free(kv);
    fb_kv_free(moved);
}

static void check_measures(const struct check *check)
{
    static const int32_t target[] = {2, 1};
    fb_ops *ops = check->ops;
    int32_t best[2] = {0, 0};
    double nll[2] = {0, 0}, kl[2] = {1, 1};
    float got[6];

    if (fb_argmax(ops, check->a, best) != FB_OK ||
        fb_nll(ops, check->a, target, nll) != FB_OK ||
        fb_kl(ops, check->a, check->a, kl) != FB_OK)
        return;
    for (int i = 0; i < 2; i++) {
        got[i] = (float)best[i];
        got[2 + i] = (float)nll[i];
        got[4 + i] = (float)kl[i];
    }
    EXPECT(argmax, numbers(check, 1, SHAPE(2), got), 2, 1);
    EXPECT(nll, numbers(check, 1, SHAPE(2), got + 2), 0.13284519f, 0.036269575f);
    EXPECT(kl, numbers(check, 1, SHAPE(2), got + 4), 0, 0);
}

fb_status fb_torch_check(fb_ops *ops)
{
    struct check check = {.ops = ops};
    fb_status status;

    fb_scope_open(ops);
    check.a = numbers(&check, 2, SHAPE(2, 3), table);
    check_elements(&check);
    check_rows(&check);
    check_weight(&check);
    check_model(&check);
    check_kv(&check);
    check_measures(&check);
    fb_scope_close(ops);
    status = fb_ops_status(ops);
    if (status == FB_OK) return FB_OK;
    return fb_context(status, "PyTorch %s cannot do what is needed", fb_ops_isa(ops));
}
