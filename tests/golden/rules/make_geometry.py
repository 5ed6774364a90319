#!/usr/bin/env python3
"""Writes geometry.json: scores and kept sets of rules that no press of kvpress computes.

Straight-line numpy in double from the papers' formulas (each named below), on seeded random
tensors that are stored with the results, rounded to what is stored. numpy 2.4.6.

usage: make_geometry.py > geometry.json
"""
import json
import math

import numpy as np

L, H, G, D, N, W = 2, 4, 2, 16, 97, 8
R = H // G
rng = np.random.default_rng(20260704)


def stored(x, digits):
    return np.round(x, digits)


scale_of_head = rng.uniform(0.5, 2.0, (L, G, 1, 1))
keys = stored(rng.normal(0.3, 1.0, (L, G, N, D)) * scale_of_head, 3)
values = stored(rng.normal(0.0, 1.0, (L, G, N, D)) * scale_of_head[::-1], 3)
queries = rng.normal(0.0, 0.6, (L, H, W, D))
uniform = stored(rng.uniform(1e-4, 1 - 1e-4, (L, G, N)), 6)

attention = np.zeros((L, H, W, N))
for l in range(L):
    for h in range(H):
        for a in range(W):
            seen = N - W + a + 1
            x = keys[l, h // R, :seen] @ queries[l, h, a] / math.sqrt(D)
            e = np.exp(x - x.max())
            attention[l, h, a, :seen] = e / e.sum()
attention = stored(attention, 7)
past = attention[..., :N - W]


def group_mean(x):
    """[L, H, m] to [L, G, m]; query head h uses kv head h // R."""
    return np.stack([x[:, g * R:(g + 1) * R].mean(1) for g in range(G)], 1)


def group_max(x):
    return np.stack([x[:, g * R:(g + 1) * R].max(1) for g in range(G)], 1)


def pool(x, kernel, how):
    """Over the last axis, stride 1; `damped` counts the padding, `exact` does not."""
    out = np.zeros_like(x)
    m = x.shape[-1]
    for j in range(m):
        piece = x[..., max(0, j - kernel // 2):min(m, j + kernel // 2 + 1)]
        out[..., j] = {"damped": piece.sum(-1) / kernel, "exact": piece.mean(-1),
                       "max": piece.max(-1)}[how]
    return out


# --- values and keys alone ---

# || v ||_1, || v ||_2, max - min over channels (VaSE, arXiv:2606.03928)
vnorm_1 = np.abs(values).sum(-1)
vnorm_2 = np.sqrt((values ** 2).sum(-1))
vnorm_range = values.max(-1) - values.min(-1)

# ManifoldKV, arXiv:2602.08343: distance from the mean key; of spans of 40, the last of 17
manifold = np.sqrt(((keys - keys.mean(2, keepdims=True)) ** 2).sum(-1))
manifold_40 = np.concatenate(
    [np.sqrt(((s - s.mean(2, keepdims=True)) ** 2).sum(-1))
     for s in (keys[:, :, 0:40], keys[:, :, 40:80], keys[:, :, 80:97])], -1)


# CurDKV, arXiv:2509.15038, blocks of 16: six whole ones and one entry, which as a sixteenth
# of a block is given a sixteenth of a block's mass
def block_share(x):
    out = np.zeros_like(x)
    for a in range(0, N, 16):
        b = min(a + 16, N)
        out[..., a:b] = x[..., a:b] / x[..., a:b].sum(-1, keepdims=True) * (b - a) / 16
    return out


k2, v2 = block_share((keys ** 2).sum(-1)), block_share((values ** 2).sum(-1))
cur = k2 * v2 / (k2 * v2).sum(-1, keepdims=True)
cur_key = k2 / k2.sum(-1, keepdims=True)
cur_value = v2 / v2.sum(-1, keepdims=True)
cur_avg = (k2 + v2) / (k2 + v2).sum(-1, keepdims=True)


# LagKV, arXiv:2504.04704, parts of 16 after the first 4: five whole ones, 13 behind them
def lag_part(x, a):
    this, following = x[:, :, a:a + 16], x[:, :, a + 16:a + 32]
    low, high = following.min(2, keepdims=True), following.max(2, keepdims=True)
    s = np.exp(((this - low) / (high - low)).std(-1, ddof=1))
    return s / s.sum(-1, keepdims=True)


# without a following part: the first 4 before all others, then the newest
lag_cross = np.tile(1 + np.arange(N) / N, (L, G, 1))
lag_cross[:, :, :4] = 2
lag_rank = lag_cross.copy()
for a in (4, 20, 36, 52):
    s = (lag_part(keys, a) + lag_part(values, a)) / 2
    lag_cross[:, :, a:a + 16] = s
    for l in range(L):
        for g in range(G):
            for place, j in enumerate(sorted(range(16), key=lambda j: s[l, g, j])):
                lag_rank[l, g, a + j] = place / 16

# --- window attention ---

# SnapKV, arXiv:2404.14469, and its switches
snapkv = group_mean(pool(past.mean(2), 5, "damped"))
snapkv_exact = group_mean(pool(past.mean(2), 5, "exact"))
own = past / past.sum(-1, keepdims=True)
snapkv_past = group_mean(pool(own.mean(2), 5, "damped"))
snapkv_past_max = group_mean(pool(own.mean(2), 7, "max"))
# CAKE, arXiv:2503.12491: mean + 200 var (divisor w - 1), pooled
cake = group_mean(pool(past.mean(2) + 200 * past.var(2, ddof=1), 5, "damped"))
# LAVa, arXiv:2509.09754: pooled mean x the largest L1 norm of the head's past values
largest = np.abs(values[:, :, :N - W]).sum(-1).max(-1)
lava = group_max(pool(past.mean(2), 7, "max") * np.repeat(largest, R, 1)[..., None])
# FINCH, arXiv:2408.00167, not normalised: the plain mean
finch_plain = group_mean(past.mean(2))
finch = group_mean((past * np.arange(N - W, N)[:, None]).mean(2))
# TOVA, arXiv:2401.06104: the last row; a score per kv head; with the last token in the race
last = attention[:, :, W - 1]
tova_kv = group_mean(last[..., :N - 1])
tova_race = np.repeat(last.mean(1, keepdims=True), G, 1)

# --- last queries and keys ---

asked = stored(queries, 6)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# logits of the past, [L, H, w, past]
logits = np.stack([keys[:, h // R, :N - W] @ asked[:, h].transpose(0, 2, 1)
                   for h in range(H)], 1).transpose(0, 1, 3, 2) / math.sqrt(D)
# MorphKV, arXiv:2503.00979: logits summed over the group, past columns alone
fused = softmax(np.stack([logits[:, g * R:(g + 1) * R].sum(1) for g in range(G)], 1))
morphkv_sum, morphkv_max = fused.sum(2), fused.max(2)
# R-KV, arXiv:2505.24133: the largest logit of the group, past columns alone, pooled; and
# redundancy, the last entry alike of each row spared
rkv_attention = pool(softmax(group_max(logits)).mean(2), 7, "max")


def redundancy(spare):
    out = np.zeros((L, G, N))
    for l in range(L):
        for g in range(G):
            unit = keys[l, g] / np.sqrt((keys[l, g] ** 2).sum(-1, keepdims=True))
            s = unit @ unit.T
            for i in range(N):
                s[i, i] = 0
                alike = [j for j in range(N) if s[i, j] > 0.5]
                if spare and alike:
                    s[i, alike[-1]] = 0
            out[l, g] = softmax(s.mean(0))
    return out[..., :N - W]


rkv = 0.1 * rkv_attention - 0.9 * redundancy(True)
rkv_none = 0.5 * rkv_attention - 0.5 * redundancy(False)

# --- wrappers ---

# VATP, arXiv:2406.12335
vatp = snapkv * np.abs(values[:, :, :N - W]).sum(-1)
shared = np.repeat(snapkv.sum(1, keepdims=True), G, 1)
# NACL, arXiv:2408.03675: 21 of 32 choices by score, 11 drawn one by one; as in the authors'
# code by softmax of the attention summed over 8 proxies (here: 8 times its mean)
proxy = finch_plain


def nacl_choice(score, u, k, share):
    drawn = int(k * share)
    best = sorted(range(len(score)), key=lambda j: (-score[j], j))[:k - drawn]
    rest = [j for j in range(len(score)) if j not in best]
    lot = {j: score[j] * W - math.log(-math.log(u[j])) for j in rest}
    return sorted(best + sorted(rest, key=lambda j: (-lot[j], j))[:drawn])


def keep(score, k, sink):
    """Of one head: the first `sink`, what has no score, then by score and position."""
    m = len(score)
    stays = list(range(sink)) + list(range(m, N))
    order = sorted(range(sink, m), key=lambda j: (-score[j], j))
    return sorted(stays + order[:k - len(stays)])


def case(rule, score, k=40, sink=0, kept=None):
    if kept is None:
        kept = [[keep(score[l, g], k, sink) for g in range(G)] for l in range(L)]
    return {"rule": rule, "k": k, "published": int(sink > 0),
            "scores": [float(f"{x:.8g}") for x in score.ravel()], "kept": kept}


# VaSE, arXiv:2606.03928: a quarter of the budget (the first 4 in it) by the range of values,
# the others drawn by attention over the past, or its heaviest
vase_weight = group_mean(pool(softmax(logits).mean(2), 5, "damped"))


def vase_choice(spread, weight, u, k, sample):
    free = range(4, N - W)
    large = sorted(free, key=lambda j: (-spread[j], j))[:k // 4 - 4]
    lot = {j: math.log(weight[j]) - sample * math.log(-math.log(u[j]))
           for j in free if j not in large}
    rest = sorted(lot, key=lambda j: (-lot[j], j))[:k - 4 - W - len(large)]
    return sorted(list(range(4)) + large + rest + list(range(N - W, N)))


vase_kept = [[[vase_choice(vnorm_range[l, g], vase_weight[l, g], uniform[l, g], 40, sample)
               for g in range(G)] for l in range(L)] for sample in (0, 1)]
nacl_kept = [[nacl_choice(proxy[l, g], uniform[l, g], 32, 0.37) + list(range(N - W, N))
              for g in range(G)] for l in range(L)]
cases = [
    case("vnorm:p=1", vnorm_1), case("vnorm", vnorm_2), case("vnorm:p=range", vnorm_range),
    case("manifold", manifold), case("manifold:windowed=40", manifold_40),
    case("manifold:windowed=4096", manifold),
    case("cur", cur), case("cur", cur, sink=4), case("cur:type=key", cur_key),
    case("cur:type=value", cur_value), case("cur:type=kv_avg", cur_avg),
    case("lagkv:lag=16", lag_rank), case("lagkv:lag=16", lag_rank, k=20), case("lagkv:lag=16,cross=1", lag_cross),
    case("snapkv:window=8", snapkv), case("snapkv:window=8,edge=exact", snapkv_exact),
    case("snapkv:window=8,denominator=past", snapkv_past),
    case("snapkv:window=8,kernel=7,pool=max,denominator=past", snapkv_past_max),
    case("cake:window=8", cake), case("lava:window=8", lava),
    case("finch:window=8,normalise=0", finch_plain), case("finch:window=8", finch),
    case("tova:heads=kv", tova_kv), case("tova:protect_last=0", tova_race),
    case("morphkv:window=8", morphkv_sum), case("morphkv:window=8,fusion=max", morphkv_max),
    case("vase:window=8,sample=0", vnorm_range[..., :N - W], sink=4, kept=vase_kept[0]),
    case("vase:window=8", vnorm_range[..., :N - W], sink=4, kept=vase_kept[1]),
    case("rkv", rkv), case("rkv:weight=0.5,retain=none", rkv_none),
    case("vatp(snapkv:window=8)", vatp), case("vatp(snapkv:window=8)", vatp, sink=20),
    case("shared(snapkv:window=8)", shared),
    case("draw(snapkv:window=8,kernel=1,temperature=0.125)", proxy, kept=nacl_kept),
]

# on one scale for all heads: by mean and deviation, by place, by the share of a head's sum
low = vnorm_2 - vnorm_2.min(-1, keepdims=True)
place = np.array([[[(row > x).sum() for x in row] for row in layer] for layer in vnorm_2])
cases += [
    case("normalise(vnorm)", (vnorm_2 - vnorm_2.mean(-1, keepdims=True)) / vnorm_2.std(-1, keepdims=True, ddof=1)),
    case("normalise(vnorm,by=rank)", 1 - place / N),
    case("normalise(vnorm,by=unit_sum)", low / low.sum(-1, keepdims=True)),
]


def flat(x):
    return [float(f"{v:.8g}") for v in x.ravel()]


def line(x):
    return json.dumps(x, separators=(",", ":"))


print("{")
for name, x in [("keys", keys), ("values", values), ("attention", attention),
                ("random", uniform), ("queries", asked)]:
    print(f'"{name}":{line(flat(x))},')
print(f'"shape":{line(dict(layers=L, heads=H, kv_heads=G, d=D, n=N, w=W))},')
print('"cases":[\n' + ",\n".join(line(c) for c in cases) + "\n]}")
